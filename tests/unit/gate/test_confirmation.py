"""What fresh trials of both sides say of a case, and what that does to a decision."""

from __future__ import annotations

import math
from itertools import product
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_eval.contracts import GateDecision, Thresholds
from agent_eval.contracts.confirmation import Confirmation, FreshTrials, SuspectResult
from agent_eval.contracts.policy import GatePolicy
from agent_eval.errors import InvalidInput
from agent_eval.gate.confirmation import (
    Confirmed,
    Tally,
    chance_of_an_admitted_case,
    is_out_of_reach,
    is_settled,
    judge_suspects,
)
from agent_eval.gate.decide import decide_by_policy
from agent_eval.gate.statistics import fisher
from benchmarks import confirmation_simulation
from tests.extent import FULL
from tests.unit.gate.test_decide import NOW, comparison, statuses, waiver

SIMULATED = 1_000 if FULL else 150
side = st.lists(st.sampled_from(["passed", "failed", "lost"]), max_size=6)


def fresh(candidate: str, base: str, case_id: str = "a", **fields: Any) -> FreshTrials:
    """Write trials as letters: `p`assed, `f`ailed, `l`ost."""
    results = {"p": "passed", "f": "failed", "l": "lost"}
    sides = {"candidate": [results[it] for it in candidate], "base": [results[it] for it in base]}
    failing = {
        f"{name}_failing": [["policy"] if result == "failed" else [] for result in side]
        for name, side in sides.items()
    }
    return FreshTrials.model_validate({"case_id": case_id, **sides, **failing, **fields})


def record(*trials: FreshTrials, **fields: Any) -> Confirmation:
    return Confirmation.model_validate({"pairs": 6, "max_cases": 8, "cases": list(trials), **fields})


def judged(trials: FreshTrials, **fields: Any) -> SuspectResult:
    return judge_suspects([trials.case_id], record(trials, **fields), 0.05)[0]


def test_fisher_is_the_share_of_the_ways_to_deal_the_passes_that_are_as_bad_for_the_candidate() -> None:
    for candidate_trials, base_trials in product(range(1, 5), repeat=2):
        for candidate, base in product(range(candidate_trials + 1), range(base_trials + 1)):
            passes = candidate + base
            dealt = [
                sum(places[:candidate_trials])
                for places in product((0, 1), repeat=candidate_trials + base_trials)
                if sum(places) == passes
            ]
            expected = sum(got <= candidate for got in dealt) / len(dealt)
            assert math.isclose(fisher(candidate, candidate_trials, base, base_trials), expected)


@pytest.mark.parametrize(("base", "most"), [(6, 2), (5, 1), (4, 0), (3, -1)])
def test_six_pairs_confirm_at_two_one_and_no_passes(base: int, most: int) -> None:
    confirmed = [now for now in range(7) if Tally(now, 6, base, 6).p_value <= 0.05]
    assert max(confirmed, default=-1) == most


@given(st.integers(1, 8), st.data())
def test_once_out_of_reach_no_further_trial_can_confirm(pairs: int, data: st.DataObject) -> None:
    now, before = (data.draw(st.lists(st.booleans(), min_size=pairs, max_size=pairs)) for _ in "ab")
    for done in range(pairs + 1):
        tally = Tally(sum(now[:done]), done, sum(before[:done]), done)
        if is_out_of_reach(tally, pairs, 0.05):
            assert fisher(sum(now), pairs, sum(before), pairs) > 0.05


@given(side, side, st.booleans())
def test_green_needs_a_pass_of_the_candidate_or_a_base_that_fails_alike(
    now: list[Any], before: list[Any], changed: bool
) -> None:
    now_, before_ = ("".join(result[0] for result in side) for side in (now, before))
    trials = fresh(now_, before_, changed=changed)
    result = judged(trials)
    if result.verdict == "cleared":
        assert "passed" in now
        assert "lost" not in now + before
        assert is_settled(trials, 6, 0.05)
    if result.verdict == "not-yours":
        assert set(now) == set(before) == {"failed"}
        assert len(before) >= 3
        assert not changed
    if result.verdict == "confirmed":
        assert len(now) == len(before) == 6
        assert result.p_value is not None
        assert result.p_value <= 0.05


@pytest.mark.parametrize(
    ("candidate", "base", "verdict"),
    [
        ("ffffff", "pppppp", "confirmed"),
        ("fffffp", "pppppp", "confirmed"),
        ("ppp", "ppp", "cleared"),
        ("fff", "fff", "not-yours"),
        ("", "fff", "inconclusive"),
        ("fff", "", "inconclusive"),
        ("fffff", "pffff", "inconclusive"),
        ("fffff", "ppppp", "inconclusive"),
        ("ffffl", "ppppp", "inconclusive"),
        ("pppp", "pppl", "inconclusive"),
        ("", "", "inconclusive"),
    ],
    ids=[
        "all against none",
        "one pass does not save it",
        "the failure did not repeat",
        "the merge base fails alike",
        "the candidate has no trial",
        "the merge base has no trial",
        "the candidate never passed again",
        "cut short",
        "a trial of the candidate was lost",
        "a trial of the merge base was lost",
        "nothing was run",
    ],
)
def test_fresh_trials_alone_decide(candidate: str, base: str, verdict: str) -> None:
    assert judged(fresh(candidate, base)).verdict == verdict


complete = st.lists(st.sampled_from(["passed", "failed"]), min_size=6, max_size=6)
GREEN = ("cleared", "not-yours")


@given(st.lists(st.tuples(complete, complete), min_size=1, max_size=4), st.booleans(), st.booleans())
def test_a_merge_base_that_passes_always_never_clears_what_another_result_of_it_does_not(
    sides: list[tuple[list[str], list[str]]], changed: bool, admitted: bool
) -> None:
    """So earlier trials that all passed excuse nothing, also not the other suspects."""
    letters = [["".join(result[0] for result in side) for side in pair] for pair in sides]
    fields = {"changed": changed, "history_passed": 20 * admitted, "history_scored": 20 * admitted}
    rows = [fresh(now, before, f"c{n}", **fields) for n, (now, before) in enumerate(letters)]
    cached = [fresh(letters[0][0], "p" * 6, "c0", **fields), *rows[1:]]
    ids = [row.case_id for row in rows]
    before, after = (
        {result.case_id: result.verdict for result in judge_suspects(ids, record(*run), 0.05)}
        for run in (rows, cached)
    )
    for case_id in ids:
        assert not (after[case_id] in GREEN and before[case_id] not in GREEN)
        assert not (before[case_id] == "confirmed" and after[case_id] != "confirmed")


def test_a_change_of_the_case_is_not_excused_by_a_merge_base_that_fails_it_as_well() -> None:
    assert judged(fresh("fff", "fff", changed=True)).verdict == "inconclusive"


def test_an_unchanged_agent_clears_and_a_problem_settles_nothing() -> None:
    unchanged = record(agent_unchanged=True)
    assert judge_suspects(["a"], unchanged, 0.05)[0].verdict == "cleared"
    voided = judged(fresh("ffffff", "pppppp"), problem="The merge base was altered.")
    assert (voided.verdict, voided.reason) == ("inconclusive", "The merge base was altered.")


def test_a_case_beyond_the_cap_is_inconclusive_and_names_the_option() -> None:
    result = judge_suspects(["a", "b"], record(fresh("ppp", "ppp")), 0.05)[1]
    assert result.verdict == "inconclusive"
    assert "max-confirm-cases" in result.reason


def test_with_several_cases_a_borderline_one_is_not_confirmed_and_not_cleared() -> None:
    borderline = fresh("ffffff", "ppppff", "z")  # 0 of 6 against 4 of 6: p = 0.03
    others = [fresh("ppp", "ppp", f"c{number}") for number in range(3)]
    ids = ["z", *(row.case_id for row in others)]
    alone = judge_suspects(["z"], record(borderline), 0.05)[0]
    among = judge_suspects(ids, record(borderline, *others), 0.05)[0]
    admitted = judge_suspects(ids, record(borderline, *others), 0.05, corrected=False)[0]
    assert [alone.verdict, among.verdict, admitted.verdict] == ["confirmed", "inconclusive", "confirmed"]


def admitted_suspects(number: int, **last: Any) -> Confirmation:
    """A borderline case and others that did not fail again, all passing 19 of 20 on the base branch."""
    history = {"history_passed": 19, "history_scored": 20}
    others = [fresh("ppp", "ppp", f"c{each:02}", **history) for each in range(number - 1)]
    return record(fresh("ffffff", "ppppff", "z", **{**history, **last}), *others, max_cases=20)


def borderline(confirmation: Confirmation) -> SuspectResult:
    """What is said of `z`: 0 of 6 against 4 of 6, p = 0.03."""
    [result] = [
        row
        for row in judge_suspects([row.case_id for row in confirmation.cases], confirmation, 0.05)
        if row.case_id == "z"
    ]
    return result


def test_up_to_three_cases_that_their_history_admits_are_confirmed_one_by_one() -> None:
    result = borderline(admitted_suspects(3))
    assert (result.verdict, result.tier) == ("confirmed", "blocking")
    assert (result.history_passed, result.history_scored) == (19, 20)
    # Of four, a model that moved is the likelier cause: what they passed before says less of today.
    assert borderline(admitted_suspects(4)).verdict == "inconclusive"


def test_cases_beyond_the_cap_count_among_those_that_newly_fail() -> None:
    few = admitted_suspects(3)
    ids = [row.case_id for row in few.cases]
    verdicts = [
        {row.case_id: row.verdict for row in judge_suspects(asked, few, 0.05)}["z"]
        for asked in (ids, [*ids, "not run again"])
    ]
    assert verdicts == ["confirmed", "inconclusive"]


def test_a_change_that_breaks_more_cases_is_confirmed_in_each_of_them_all_the_same() -> None:
    broken = [fresh("ffffff", "pppppp", f"c{number}") for number in range(8)]
    results = judge_suspects([*(row.case_id for row in broken), "not run again"], record(*broken), 0.05)
    assert [result.verdict for result in results] == ["confirmed"] * 8 + ["inconclusive"]


@pytest.mark.parametrize(
    ("now", "before", "is_flaky", "says"),
    [
        ("ppp", "ppp", True, "did not repeat"),
        ("fpppf", "pfppp", True, "on both sides"),
        ("fpfpp", "ppppp", False, "failed again in 2 of 5 trials, and never on the merge base"),
    ],
    ids=["passes again", "fails on both sides now and then", "fails on the change alone"],
)
def test_a_cleared_case_is_called_flaky_only_where_trials_show_that(
    now: str, before: str, is_flaky: bool, says: str
) -> None:
    result = judged(fresh(now, before))
    assert result.verdict == "cleared"
    assert ("flaky" in result.reason) is is_flaky
    assert says in result.reason


@pytest.mark.parametrize(
    ("history", "tier"),
    [((17, 20), "tracked"), ((19, 19), "collecting"), ((0, 0), "collecting")],
    ids=["passes too seldom", "too few trials", "no history"],
)
def test_one_case_that_is_not_admitted_keeps_the_correction_for_all(
    history: tuple[int, int], tier: str
) -> None:
    passed, scored = history
    result = borderline(admitted_suspects(4, history_passed=passed, history_scored=scored))
    assert (result.verdict, result.tier) == ("inconclusive", tier)


@given(st.lists(st.tuples(st.integers(0, 20), st.integers(0, 20), side, side), min_size=1, max_size=9))
def test_no_history_that_a_record_claims_lets_more_pass(rows: list[Any]) -> None:
    cases = [
        fresh("".join(result[0] for result in now), "".join(result[0] for result in before), f"c{number}")
        for number, (_, _, now, before) in enumerate(rows)
    ]
    claimed = [
        row.model_copy(update={"history_passed": min(counts[:2]), "history_scored": max(counts[:2])})
        for row, counts in zip(cases, rows, strict=True)
    ]
    ids = [row.case_id for row in cases]
    without, with_claims = (
        judge_suspects(ids, record(*chosen, max_cases=9), 0.05) for chosen in (cases, claimed)
    )
    for before, now in zip(without, with_claims, strict=True):
        assert now.verdict == before.verdict or (before.verdict, now.verdict) == ("inconclusive", "confirmed")


@pytest.mark.parametrize(("pairs", "alpha"), [(3, 0.05), (6, 0.05), (6, 0.01), (12, 0.05)])
def test_the_chance_to_confirm_an_admitted_case_is_the_largest_over_all_rates(
    pairs: int, alpha: float
) -> None:
    def chance(rate: float) -> float:
        ways = [
            math.comb(pairs, hits) * rate**hits * (1 - rate) ** (pairs - hits) for hits in range(pairs + 1)
        ]
        return sum(
            ways[now] * ways[before]
            for now, before in product(range(pairs + 1), repeat=2)
            if fisher(now, pairs, before, pairs) <= alpha
        )

    largest = max(chance(0.8 + step / 1000) for step in range(201))
    assert chance_of_an_admitted_case(pairs, alpha) == pytest.approx(largest, rel=1e-3)
    assert chance_of_an_admitted_case(6, 0.05) < 0.0051


@pytest.mark.parametrize("pairs", [1, 2])
def test_too_few_pairs_never_confirm_and_never_excuse_by_the_merge_base(pairs: int) -> None:
    trials = fresh("f" * pairs, "p" * pairs)
    assert judge_suspects(["a"], record(trials, pairs=pairs), 0.05)[0].verdict == "inconclusive"
    assert judge_suspects(["a"], record(fresh("", ""), pairs=pairs), 0.05)[0].verdict == "inconclusive"


@pytest.mark.parametrize(
    "wrong",
    [
        {"cases": [fresh("f", "p"), fresh("p", "p")]},
        {"cases": [fresh("f" * 7, "p")]},
        {"cases": [fresh("f", "p"), fresh("f", "p", "b")], "max_cases": 1},
        {"cases": [fresh("ff", "p", candidate_failing=[["policy"]])]},
        {"cases": [fresh("f", "p", history_passed=21, history_scored=20)]},
    ],
    ids=[
        "a case twice",
        "more trials than pairs",
        "more cases than allowed",
        "judges of other trials",
        "more passes than trials",
    ],
)
def test_a_record_that_contradicts_itself_decides_nothing(wrong: dict[str, Any]) -> None:
    with pytest.raises(InvalidInput):
        judge_suspects(["a"], record(**wrong), 0.05)


CASES = [f"case-{number:03}" for number in range(40)]
BEFORE: dict[str, Any] = dict.fromkeys(CASES, "passed")


def decided(failing: list[str], confirmation: Confirmation | None, **options: Any) -> GateDecision:
    found = comparison(BEFORE, {**BEFORE, **dict.fromkeys(failing, "failed")})
    if confirmation is not None:
        about = {
            "baseline_manifest_sha256": found.baseline.manifest_sha256,
            "candidate_manifest_sha256": found.candidate.manifest_sha256,
        }
        confirmation = confirmation.model_copy(update=about)
    given_ = Confirmed(confirmation, "d" * 64) if confirmation is not None else None
    policy = options.pop("policy", GatePolicy(margin=0.25))
    return decide_by_policy(found, policy, generated_at=NOW, confirmation=given_, **options)


def test_a_confirmed_case_fails_a_suite_that_passes_without() -> None:
    assert decided(CASES[:1], None).passed
    decision = decided(CASES[:1], record(fresh("ffffff", "pppppp", CASES[0])))
    assert decision.gate_status == "failed"
    assert decision.blocks
    assert statuses(decision)["confirmation"] == "failed"
    assert decision.failures == ["1 regression confirmed (case-000: 0 of 6 now, 6 of 6 on the merge base)."]


def test_a_cleared_case_does_not_count_as_regressed_and_rates_stay_those_of_the_first_run() -> None:
    limits = {"thresholds": Thresholds(max_regressed_cases=0)}
    assert decided(CASES[:1], None, **limits).gate_status == "failed"
    cleared = record(fresh("ppp", "ppp", CASES[0]))
    decision = decided(CASES[:1], cleared, **limits)
    assert decision.passed
    assert decision.regressed_cases_considered == 0
    assert decision.evidence is not None
    assert decision.evidence.candidate_passed == 39
    assert [row.verdict for row in decision.confirmed] == ["cleared"]
    strict = decided(CASES[:1], cleared, thresholds=Thresholds(min_pass_rate=1.0))
    assert strict.gate_status == "failed"


def test_a_case_that_is_not_settled_is_never_green() -> None:
    decision = decided(CASES[:2], record(fresh("ppp", "ppp", CASES[0]), fresh("fl", "p", CASES[1])))
    assert decision.gate_status == "inconclusive"
    assert not decision.passed
    assert statuses(decision)["confirmation"] == "inconclusive"


STRICT = Thresholds(max_regressed_cases=0)
BROKEN = [
    {"problem": "Files of the change were altered while the merge base's agent ran: first `job.log`."},
    {"cases": [fresh("ffl", "pp", CASES[0])]},
    {"stopped": "The time of the run was used up before fresh trials could tell."},
]


@pytest.mark.parametrize("spoiled", BROKEN, ids=["altered", "lost", "out of time"])
@pytest.mark.parametrize("failing", [1, 8])
@pytest.mark.parametrize("thresholds", [None, STRICT], ids=["by the tests alone", "with a limit"])
def test_a_change_that_spoils_its_confirmation_is_no_better_off_than_without_one(
    spoiled: dict[str, Any], failing: int, thresholds: Thresholds | None
) -> None:
    without = decided(CASES[:failing], None, thresholds=thresholds)
    decision = decided(CASES[:failing], record(**{"cases": [], **spoiled}), thresholds=thresholds)
    assert decision.gate_status == ("failed" if without.gate_status == "failed" else "inconclusive")
    assert set(without.failures) <= set(decision.failures)
    assert without.blocks <= decision.blocks


def test_fresh_trials_do_not_soften_the_test_over_the_suite() -> None:
    failing = CASES[:8]
    cleared = record(*(fresh("ppp", "ppp", case_id) for case_id in failing))
    assert statuses(decided(failing, cleared))["regression"] == "failed"


def test_nothing_to_confirm_is_said_and_decides_nothing() -> None:
    decision = decided([], record())
    assert decision.passed
    assert statuses(decision)["confirmation"] == "not-applied"


def test_what_a_zero_tolerance_judge_fails_blocks_at_once_and_is_not_run_again() -> None:
    found = comparison({"a": {"safety": "passed"}}, {"a": {"safety": "failed"}})
    about = {
        "baseline_manifest_sha256": found.baseline.manifest_sha256,
        "candidate_manifest_sha256": found.candidate.manifest_sha256,
    }
    cleared = record(fresh("ppp", "ppp"), **about)
    policy = GatePolicy(zero_tolerance=["safety"])
    decision = decide_by_policy(found, policy, generated_at=NOW, confirmation=Confirmed(cleared))
    assert decision.gate_status == "failed"
    assert decision.confirmed == []


def zero_tolerance(trials: FreshTrials, **fields: Any) -> GateDecision:
    return decided(
        CASES[:1],
        record(trials, **fields),
        policy=GatePolicy(margin=0.25, zero_tolerance=["safety"]),
    )


def test_a_zero_tolerance_judge_that_fails_in_one_fresh_trial_blocks() -> None:
    once: dict[str, Any] = {"candidate_failing": [["policy", "safety"], [], [], []]}
    decision = zero_tolerance(fresh("fppp", "pppp", CASES[0], **once))
    assert decision.gate_status == "failed"
    assert statuses(decision)["zero-tolerance"] == "failed"
    assert [row.verdict for row in decision.confirmed] == ["inconclusive"]
    assert zero_tolerance(fresh("fppp", "pppp", CASES[0])).passed
    # A trial that is lost for another judge, or passes, shows the failure as well.
    for results in ("lppp", "pppp"):
        assert zero_tolerance(fresh(results, "pppp", CASES[0], **once)).gate_status == "failed"


def test_a_zero_tolerance_failure_that_the_merge_base_has_too_is_not_new_unless_both_sides_are_in_doubt() -> (
    None
):
    failing = [["safety"], [], [], []]
    both: dict[str, Any] = {"candidate_failing": failing, "base_failing": failing}
    trials = fresh("fppp", "fppp", CASES[0], **both)
    assert zero_tolerance(trials).passed
    assert zero_tolerance(trials, doubt_of_base="Both ran it.").gate_status == "failed"


@pytest.mark.parametrize("candidate_failing", [[["policy"]] * 2 + [["safety"]], [["policy"]] * 2 + [[]], []])
def test_a_case_is_not_ours_only_where_the_merge_base_fails_by_the_same_judges(
    candidate_failing: list[list[str]],
) -> None:
    assert judged(fresh("fff", "fff")).verdict == "not-yours"
    other = fresh("fff", "fff", candidate_failing=candidate_failing)
    assert judged(other).verdict == "inconclusive"


@pytest.mark.parametrize(
    ("passed", "scored", "verdict"),
    [(18, 20, "inconclusive"), (17, 20, "not-yours"), (19, 19, "not-yours")],
    ids=["its history admits it", "it passed too seldom", "too few trials"],
)
def test_a_case_that_passes_on_the_base_branch_and_never_in_its_worktree_is_nobodys_yet(
    passed: int, scored: int, verdict: str
) -> None:
    result = judged(fresh("fff", "fff", history_passed=passed, history_scored=scored))
    assert result.verdict == verdict
    assert (f"passed {passed} of {scored} on the base branch" in result.reason) is (verdict != "not-yours")


@pytest.mark.parametrize(
    ("candidate", "base", "verdict"),
    [
        ("fff", "fff", "inconclusive"),
        ("fffp", "fffp", "inconclusive"),
        ("ppp", "fff", "cleared"),
        ("ffffff", "pppppp", "confirmed"),
    ],
)
def test_where_both_sides_may_have_run_the_change_its_failures_are_never_excused(
    candidate: str, base: str, verdict: str
) -> None:
    assert judged(fresh(candidate, base), doubt_of_base="Both ran the change.").verdict == verdict


def test_a_waived_case_is_no_suspect() -> None:
    decision = decided(CASES[:1], record(), waivers=[waiver(case_id=CASES[0])])
    assert decision.confirmed == []


def test_a_confirmation_of_another_run_is_refused() -> None:
    found = comparison(BEFORE, BEFORE)
    other = record(candidate_manifest_sha256="0" * 64)
    with pytest.raises(InvalidInput, match="other packs"):
        decide_by_policy(found, GatePolicy(), generated_at=NOW, confirmation=Confirmed(other))


def test_a_short_simulation_has_the_size_and_power_that_were_computed() -> None:
    lines = confirmation_simulation.measure(SIMULATED)
    computed = [line for line in lines if line.expected is not None]
    assert len(computed) == 10
    for line in computed:
        expected = line.expected or 0.0
        assert abs(line.found - expected) <= 0.02 + 3 * (max(expected, 0.01) / SIMULATED) ** 0.5, line
    assert confirmation_simulation.table(lines, SIMULATED).count("\n|") == len(lines) + 2


def test_the_guide_has_the_figures_of_the_simulation() -> None:
    found = confirmation_simulation.read(confirmation_simulation.RESULTS.read_text())
    guide = (Path(__file__).parents[3] / "docs" / "guides" / "confirmation.md").read_text()
    assert confirmation_simulation.guide_table(found) in guide


def test_the_decision_on_the_cache_has_the_figures_of_the_simulation() -> None:
    found = confirmation_simulation.read(confirmation_simulation.RESULTS.read_text())
    page = (Path(__file__).parents[3] / "docs" / "decisions" / "base-cache.md").read_text()
    names = (
        "largest chance that six pairs confirm an unchanged case",
        "the same with `base-cache`",
        "the same where it has all trials of the case, which passed",
    )
    # The first line with pass rates from 80 % has its own words.
    found[f"{names[0]}, pass rates from 0.80"] = found["the same, pass rates from 0.8"]
    for rates, row in (("any pass rate", "at any pass rate"), ("pass rates from 0.80", "from 80%")):
        cells = " | ".join(f"{found[f'{name}, {rates}']:.1%}" for name in names)
        assert f"| {row} | {cells} |" in page
