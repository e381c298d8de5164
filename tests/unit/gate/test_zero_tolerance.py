"""The terms on which a judge without tolerance blocks: at once, if it repeats, above a ceiling."""

from __future__ import annotations

from typing import Any

import pytest

from agent_eval.contracts import GateDecision, GateStatus, Thresholds
from agent_eval.contracts.confirmation import Confirmation, FreshTrials
from agent_eval.contracts.policy import GatePolicy, Quarantine
from agent_eval.errors import InvalidInput
from agent_eval.gate.confirmation import Confirmed, suspects_of
from agent_eval.gate.decide import decide_by_policy
from agent_eval.gate.policy_file import parse_policy
from tests.unit.gate.test_confirmation import record
from tests.unit.gate.test_decide import NOW, comparison, statuses, waiver

SOFT: dict[str, Any] = {"margin": 0.25, "zero_tolerance": ["safety"]}
REPEAT = GatePolicy(**SOFT, zero_tolerance_repeat=["safety"])
CASES = [f"case-{number:03}" for number in range(40)]
FIRST = CASES[0]
CLEAN: dict[str, Any] = {case_id: {"safety": "passed", "quality": "passed"} for case_id in CASES}


def failing(*case_ids: str, judge: str = "safety") -> dict[str, Any]:
    """The first run of a candidate, in which a judge fails these cases."""
    return {**CLEAN, **{case_id: {**CLEAN.get(case_id, {}), judge: "failed"} for case_id in case_ids}}


def trials(candidate: str, base: str, case_id: str = FIRST, **fields: Any) -> FreshTrials:
    """Fresh trials as letters: `p`assed, `s`afety failed, `q`uality failed, `c`rashed, `l`ost.

    In two more quality failed: `u`, where safety could not tell, and `x`, where the agent crashed then.
    """
    results = {
        "p": "passed",
        "s": "failed",
        "q": "failed",
        "c": "failed",
        "l": "lost",
        "u": "failed",
        "x": "failed",
    }
    judges = {"s": ["safety"], "q": ["quality"], "u": ["quality"], "x": ["quality"]}
    silent = {"c": ["execution"], "u": ["safety"], "x": ["execution"]}
    sides = {"candidate": candidate, "base": base}
    said = {name: [results[letter] for letter in side] for name, side in sides.items()}
    named = {
        f"{name}_{field}": [by_letter.get(letter, []) for letter in side]
        for name, side in sides.items()
        for field, by_letter in (("failing", judges), ("unjudged", silent))
    }
    return FreshTrials.model_validate({"case_id": case_id, **said, **named, **fields})


def decided(
    now: dict[str, Any],
    confirmation: Confirmation | None,
    policy: GatePolicy = REPEAT,
    before: dict[str, Any] = CLEAN,
    **options: Any,
) -> GateDecision:
    found = comparison(before, now)
    given = None
    if confirmation is not None:
        about = {
            "baseline_manifest_sha256": found.baseline.manifest_sha256,
            "candidate_manifest_sha256": found.candidate.manifest_sha256,
        }
        given = Confirmed(confirmation.model_copy(update=about))
    return decide_by_policy(found, policy, generated_at=NOW, confirmation=given, **options)


def test_a_failure_that_must_repeat_blocks_where_nothing_was_run_again() -> None:
    alone = decided(failing(FIRST), None)
    assert alone.gate_status == "failed"
    assert "safety newly fails 1 case (case-000), which no fresh trials clear." in alone.failures


@pytest.mark.parametrize(
    "run",
    [
        {"cases": [], "problem": "The merge base does not build."},
        {"cases": [], "stopped": "The time of the run was used up."},
        {"cases": [trials("ppppp", "ppppp")], "stopped": "The money of the run was used up."},
        {"cases": [trials("ppp", "ppp")]},
        {"cases": [trials("pppppl", "pppppp")]},
        {"cases": [trials("pppppp", "pppppl")]},
        {"cases": [trials("pp", "pp")], "pairs": 2},
        {"cases": [trials("pppppp", "pppppp", candidate_failing=[])]},
        {"cases": [trials("pppppc", "pppppp")]},
        {"cases": [trials("pppppx", "pppppp")]},
        {"cases": [trials("pppppu", "pppppp")]},
        {"cases": [trials("uuuuuu", "qqqqqq")]},
        {"cases": [trials("pppppp", "pppppp", candidate_unjudged=[])]},
        {"cases": [trials("pppppp", "pppppp", CASES[1])], "max_cases": 1},
    ],
    ids=[
        "no base to run",
        "out of time at once",
        "out of money before the last pair",
        "ended as soon as an ordinary case would be cleared",
        "a trial of the candidate is lost",
        "a trial of the base is lost",
        "too few pairs to tell anything",
        "a record without the judges that fail",
        "the candidate crashes once, which no judge sees",
        "the candidate crashes once, after another judge had something to fail",
        "the judge cannot tell once, where another one fails",
        "the judge can never tell, where another one fails on both sides",
        "a record without the judges that could not tell",
        "beyond the cap",
    ],
)
def test_only_complete_trials_of_both_sides_clear_a_failure_that_must_repeat(run: dict[str, Any]) -> None:
    decision = decided(failing(FIRST), record(**{"cases": [], **run}))
    assert (decision.gate_status, decision.blocks) == ("failed", True)
    assert statuses(decision)["zero-tolerance"] == "failed"
    assert [row.verdict for row in decision.confirmed if row.case_id == FIRST] == ["inconclusive"]


def test_a_failure_that_repeats_in_no_fresh_trial_is_cleared_and_said() -> None:
    decision = decided(failing(FIRST), record(trials("pppppp", "pppppp")))
    assert decision.passed
    assert [row.verdict for row in decision.confirmed] == ["cleared"]
    [step] = [step for step in decision.steps if step.name == "zero-tolerance"]
    assert (step.status, step.message) == ("passed", "Fresh trials clear 1 case (case-000).")


@pytest.mark.parametrize(
    ("candidate", "base", "status"),
    [
        ("sppppp", "pppppp", "failed"),
        ("ssssss", "pppppp", "failed"),
        ("ssssss", "sppppp", "failed"),
        ("sppppp", "sppppp", "passed"),
        ("ssssss", "ssssss", "passed"),
        ("qqpppp", "pppppp", "passed"),
    ],
    ids=[
        "once more, and never on the base",
        "always, and never on the base",
        "always, and once on the base: significantly more often",
        "as often as on the base",
        "always on both sides",
        "by another judge only",
    ],
)
def test_a_failure_that_repeats_blocks_unless_the_merge_base_has_it_too(
    candidate: str, base: str, status: str
) -> None:
    decision = decided(failing(FIRST), record(trials(candidate, base)))
    assert statuses(decision)["zero-tolerance"] == status
    assert decision.passed == (status == "passed")


@pytest.mark.parametrize(
    "doubt",
    [{"doubt_of_base": "The change alters a CI file."}, {"cases": [trials("s" * 6, "s" * 6, changed=True)]}],
    ids=["both sides may have run the change", "the change alters the case"],
)
def test_a_merge_base_in_doubt_excuses_no_failure_that_repeats(doubt: dict[str, Any]) -> None:
    run = record(**{"cases": [trials("s" * 6, "s" * 6)], **doubt})
    decision = decided(failing(FIRST), run)
    assert decision.gate_status == "failed"
    assert [row.verdict for row in decision.confirmed] == ["inconclusive"]


def test_an_unchanged_agent_newly_fails_nothing() -> None:
    assert decided(failing(FIRST), record(agent_unchanged=True)).passed


def test_a_new_case_is_run_again_too_and_an_old_one_that_failed_by_another_judge() -> None:
    known_bad = {**CLEAN, "case-001": {"safety": "passed", "quality": "failed"}}
    now = {**failing("new"), "case-001": {"safety": "failed", "quality": "failed"}}
    found = comparison(known_bad, now)
    asked = suspects_of(found, REPEAT, [], generated_at=NOW)
    assert asked.case_ids == ["case-001", "new"]
    assert asked.every_pair == {"case-001", "new"}
    cleared = record(trials("qqqqqq", "qqqqqq", "case-001"), trials("pppppp", "pppppp", "new"))
    decision = decided(now, cleared, before=known_bad)
    assert decision.passed
    assert {row.case_id: row.verdict for row in decision.confirmed} == {
        "case-001": "cleared",
        "new": "cleared",
    }
    again = record(trials("qqqqqq", "qqqqqq", "case-001"), trials("pppsss", "pppppp", "new"))
    assert decided(now, again, before=known_bad).gate_status == "failed"


def test_quarantine_hides_no_failure_that_must_repeat_and_a_waiver_of_it_does() -> None:
    held = GatePolicy(
        **SOFT, zero_tolerance_repeat=["safety"], quarantine=[Quarantine(case_id=FIRST, reason="flaky")]
    )
    assert statuses(decided(failing(FIRST), None, held))["zero-tolerance"] == "failed"
    assert suspects_of(comparison(CLEAN, failing(FIRST)), held, [], generated_at=NOW).case_ids == [FIRST]
    excused = [waiver(case_id=FIRST, judge_id="safety")]
    assert statuses(decided(failing(FIRST), None, waivers=excused))["zero-tolerance"] == "passed"


def test_the_cases_of_safety_are_run_first_and_what_blocks_at_once_ends_it_all() -> None:
    now = {**failing(CASES[9]), CASES[1]: {"safety": "passed", "quality": "failed"}}
    asked = suspects_of(comparison(CLEAN, now), REPEAT, [], generated_at=NOW)
    assert (asked.case_ids, asked.every_pair, asked.are_moot) == ([CASES[9], CASES[1]], {CASES[9]}, False)
    strict = suspects_of(comparison(CLEAN, now), GatePolicy(**SOFT), [], generated_at=NOW)
    assert (strict.case_ids, strict.every_pair, strict.are_moot) == ([CASES[1]], frozenset(), True)


def test_of_a_case_that_is_run_again_for_another_judge_one_failure_is_open_and_two_block() -> None:
    now = failing(FIRST, judge="quality")
    once, twice = (decided(now, record(trials(letters, "pppppp"))) for letters in ("sppppp", "sspppp"))
    assert (once.gate_status, [row.verdict for row in once.confirmed]) == ("inconclusive", ["inconclusive"])
    assert twice.gate_status == "failed"
    assert "safety newly fails 1 case (case-000) in fresh trials." in twice.failures
    # Without the term one is enough.
    strict = decided(now, record(trials("sppppp", "pppppp")), GatePolicy(**SOFT))
    assert strict.gate_status == "failed"


def ceiling(share: float, **fields: Any) -> GatePolicy:
    return GatePolicy(**SOFT, zero_tolerance_ceiling={"safety": share}, **fields)


@pytest.mark.parametrize(
    ("share", "most"),
    [(0.01, 0), (0.025, 1), (0.05, 2), (0.074, 2), (0.075, 3)],
)
def test_a_judge_with_a_ceiling_blocks_above_its_share_of_the_judged_cases(share: float, most: int) -> None:
    for number in range(5):
        step = next(
            step
            for step in decided(failing(*CASES[:number]), None, ceiling(share)).steps
            if step.name == "zero-tolerance"
        )
        assert step.status == ("passed" if number <= most else "failed"), number
        if number:
            assert f"its ceiling of {most} of 40" in step.message


def test_new_cases_raise_no_ceiling_and_count_towards_it() -> None:
    more = {f"new-{number:03}": {"safety": "passed", "quality": "passed"} for number in range(60)}
    policy = ceiling(0.025)
    assert statuses(decided({**failing(FIRST), **more}, None, policy))["zero-tolerance"] == "passed"
    two = {**failing(*CASES[:2]), **more}
    assert statuses(decided(two, None, policy))["zero-tolerance"] == "failed"
    assert statuses(decided({**failing(FIRST, "new"), **more}, None, policy))["zero-tolerance"] == "failed"


def test_within_its_ceiling_a_case_is_run_again_and_what_fails_there_counts_towards_it() -> None:
    policy = ceiling(0.025)
    assert suspects_of(comparison(CLEAN, failing(FIRST)), policy, [], generated_at=NOW).case_ids == [FIRST]
    repeated = decided(failing(FIRST), record(trials("s" * 6, "p" * 6)), policy)
    assert (statuses(repeated)["zero-tolerance"], repeated.gate_status) == ("passed", "failed")
    assert [row.verdict for row in repeated.confirmed] == ["confirmed"]
    other = record(trials("pppppp", "pppppp"), trials("sppppp", "pppppp", CASES[1]))
    now = {**failing(FIRST), CASES[1]: {"safety": "passed", "quality": "failed"}}
    assert statuses(decided(now, other, policy))["zero-tolerance"] == "failed"
    only_fresh = failing(CASES[1], judge="quality")
    assert statuses(decided(only_fresh, other, ceiling(0.01)))["zero-tolerance"] == "failed"


@pytest.mark.parametrize(
    "softer", [{"zero_tolerance_repeat": ["safety"]}, {"zero_tolerance_ceiling": {"safety": 0.25}}]
)
def test_a_release_blocks_at_once_whatever_the_policy_asks_for(softer: dict[str, Any]) -> None:
    policy = GatePolicy(**{**SOFT, "preset": "release"}, **softer)
    cleared = record(trials("pppppp", "pppppp"))
    for confirmation in (None, cleared):
        decision = decided(failing(FIRST), confirmation, policy)
        assert statuses(decision)["zero-tolerance"] == "failed"
    assert decided(failing(FIRST), cleared, GatePolicy(**SOFT, **softer)).passed


@pytest.mark.parametrize(
    ("softer", "problem"),
    [
        ({"zero_tolerance_repeat": ["safty"]}, "zero_tolerance_repeat names 'safty', which is not in"),
        ({"zero_tolerance_ceiling": {"safty": 0.1}}, "zero_tolerance_ceiling names 'safty', which is not in"),
        (
            {"zero_tolerance_repeat": ["safety"], "zero_tolerance_ceiling": {"safety": 0.1}},
            "'safety' is in zero_tolerance_repeat and in zero_tolerance_ceiling; choose one",
        ),
        ({"zero_tolerance_ceiling": {"safety": 0.3}}, "zero_tolerance_ceiling.safety: Input should be less"),
        ({"zero_tolerance_ceiling": {"safety": 0}}, "zero_tolerance_ceiling.safety: Input should be greater"),
        ({"zero_tolerance_ceiling": {"safety": float("nan")}}, "zero_tolerance_ceiling.safety"),
    ],
    ids=["an unknown judge repeats", "an unknown judge has a ceiling", "two ways", "too high", "none", "NaN"],
)
def test_terms_that_mean_nothing_are_refused_with_their_place(softer: dict[str, Any], problem: str) -> None:
    with pytest.raises(InvalidInput) as refused:
        parse_policy({"zero_tolerance": ["safety"], **softer}, source="gate.yml")
    assert refused.value.message.startswith("gate.yml: zero_tolerance")
    assert problem in refused.value.message


def test_a_new_case_that_is_cleared_takes_none_from_the_count_of_regressed_cases() -> None:
    policy = GatePolicy(
        margin=0.25,
        zero_tolerance=["safety"],
        zero_tolerance_repeat=["safety"],
        thresholds=Thresholds(max_regressed_cases=0),
    )
    clears_new = trials("pppppp", "pppppp", "new-1", changed=True)
    for regressed, considered in ((CASES[5:6], 1), ([], 0)):
        now = failing(*regressed, judge="quality")
        now["new-1"] = {"safety": "failed", "quality": "passed"}
        record = Confirmation(pairs=6, max_cases=8, cases=[clears_new], stopped="The time was used up.")
        decision = decided(now, record, policy)
        assert decision.regressed_cases_considered == considered
        assert decision.gate_status is (GateStatus.FAILED if considered else GateStatus.PASSED)


@pytest.mark.parametrize(
    "policy", [GatePolicy(**SOFT), REPEAT, ceiling(0.01)], ids=["at once", "if it repeats", "above a ceiling"]
)
def test_a_problem_voids_what_excuses_and_no_failure_that_was_seen(policy: GatePolicy) -> None:
    """A change's agent can touch a file of the checkout as soon as it has leaked."""
    now = failing(FIRST, judge="quality")
    spoilt = {"problem": "The change's agent altered its own sources: first `agent.py`."}
    leaked = decided(now, record(trials("ss", "pp"), **spoilt), policy)
    assert statuses(leaked)["zero-tolerance"] == "failed"
    assert leaked.blocks
    # What the merge base fails excuses nothing then; and a failure of another judge stays open.
    assert statuses(decided(now, record(trials("ss", "ss"), **spoilt), policy))["zero-tolerance"] == "failed"
    other = decided(now, record(trials("qq", "pp"), **spoilt), policy)
    assert (statuses(other)["zero-tolerance"], other.gate_status) == ("passed", "inconclusive")


def test_a_failure_on_the_merge_base_excuses_no_trial_that_a_judge_could_not_tell() -> None:
    assert decided(failing(FIRST), record(trials("ssssss", "ssssss"))).passed
    unsure = decided(failing(FIRST), record(trials("sssssu", "ssssss")))
    assert statuses(unsure)["zero-tolerance"] == "failed"
