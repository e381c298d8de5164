from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_eval.comparison.compare import COUNTED, DETAIL_LIMIT, RANKED, REST, JudgedTwice, compare, hint
from agent_eval.comparison.facts import RunView, normalise, outcomes_of
from agent_eval.contracts import Case, Comparison, digest
from agent_eval.errors import FailureKind, NothingMeasured
from tests.factories import make_case
from tests.unit.comparison.views import Said, passing, result, view

NOW = "2026-01-02T00:00:00+00:00"


def compared(baseline: RunView, candidate: RunView, **options: Any) -> Comparison:
    return compare(baseline, candidate, **{"generated_at": NOW, **options})


outcomes = st.sampled_from(["passed", "failed", "inconclusive", "skipped", "error"])
runs = st.dictionaries(
    st.sampled_from([f"case-{number}" for number in range(8)]),
    st.dictionaries(st.sampled_from(["policy", "regex", "style"]), outcomes, min_size=1),
    min_size=1,
)


def both(before: Any, now: Any) -> Comparison:
    baseline, candidate = view(before, soft=("style",)), view(now, soft=("style",))
    return compared(baseline, candidate)


@given(runs)
def test_a_run_compared_with_itself_has_not_changed(cases: Any) -> None:
    found = both(cases, cases)
    assert found.case_regressions == []
    assert found.behaviour_changes == []
    assert found.regressions == []
    assert found.overview.regressed_cases == found.overview.improved_cases == 0
    assert found.overview.risk_level == "low"
    assert found.release_impact.impact_level == "low"
    metrics = {**found.metrics, **found.judge_metrics}
    assert {name: metric.name for name, metric in metrics.items()} == {name: name for name in metrics}
    assert all(metric.delta in (0, None) for metric in metrics.values())
    assert all(cluster.delta == 0 for cluster in found.failure_clusters.delta_ranked)


def test_trials_are_compared_where_a_compared_case_has_several_in_either_run() -> None:
    single, tried = view({"a": "passed"}), view({"a": passing("a", 2, 2)})
    assert compared(single, single).trials is None
    assert compared(single, tried).trials is not None
    assert compared(tried, single).trials is not None
    assert compared(single, tried).case_regressions == [], "the number of trials is no result"
    assert compared(single, view({"a": "passed", "new": passing("new", 2, 2)})).trials is None


@given(runs, runs)
def test_swapping_the_runs_swaps_regressed_and_improved(before: Any, now: Any) -> None:
    there, back = both(before, now), both(now, before)
    regressed = {row.case_id for row in there.case_regressions if row.regressed}
    improved = {row.case_id for row in there.case_regressions if row.improved}
    assert regressed == {row.case_id for row in back.case_regressions if row.improved}
    assert improved == {row.case_id for row in back.case_regressions if row.regressed}
    assert not regressed & improved
    assert there.new_hard_fail_case_ids == back.resolved_hard_fail_case_ids
    assert there.cases.new == back.cases.removed
    for name, metric in {**there.metrics, **there.judge_metrics}.items():
        other = {**back.metrics, **back.judge_metrics}[name]
        assert metric.delta == (None if other.delta is None else -other.delta)


@given(runs, runs)
def test_rates_are_those_of_the_compared_cases_counted_by_hand(before: Any, now: Any) -> None:
    found = both(before, now)
    common = sorted(before.keys() & now.keys())
    assert found.cases.compared == found.overview.compared_cases == len(common)

    def passes(said: dict[str, str]) -> bool:
        judged = [outcome for outcome in said.values() if outcome != "skipped"]
        return bool(judged) and set(judged) == {"passed"}

    def hard_fails(said: dict[str, str]) -> bool:
        return any(judge != "style" and outcome in ("failed", "error") for judge, outcome in said.items())

    if not common:
        assert found.metrics["pass_rate"].baseline is None
        assert found.release_impact.impact_level == "critical"
        return
    rates, cases = found.metrics, len(common)
    assert rates["pass_rate"].baseline == sum(passes(before[one]) for one in common) / cases
    assert rates["pass_rate"].candidate == sum(passes(now[one]) for one in common) / cases
    assert rates["hard_fail_rate"].candidate == sum(hard_fails(now[one]) for one in common) / cases
    for judge in ("policy", "regex", "style"):
        judged = [now[one][judge] for one in common if now[one].get(judge, "skipped") != "skipped"]
        share = judged.count("passed") / len(judged) if judged else None
        if judge in found.judge_metrics:
            assert found.judge_metrics[judge].candidate == share
        else:
            assert not any(judge in before[one] or judge in now[one] for one in common)
    assert found.regressed_case_ids == [
        one
        for one in common
        if (passes(before[one]) and not passes(now[one]))
        or (hard_fails(now[one]) and not hard_fails(before[one]))
    ]


def test_regressed_cases_come_first_and_hard_fails_before_the_others() -> None:
    before = view(dict.fromkeys("abc", "passed") | {"d": "failed", "e": "failed"})
    now = {"a": "inconclusive", "b": "failed", "c": "error", "d": "passed"}
    found = compared(before, view({**now, "e": {"policy": "failed", "regex": "error"}}))
    assert (found.overview.risk_level, found.release_impact.impact_level) == ("high", "critical")
    rows = found.case_regressions
    assert [row.case_id for row in rows] == ["b", "c", "a", "d", "e"]
    assert [row.case_id for row in rows if row.regressed] == ["b", "c", "a"]
    assert [row.case_id for row in rows if row.improved] == ["d"]


def test_a_case_row_names_the_judges_that_changed_those_that_fail_now_first_and_cuts_their_reason() -> None:
    before = view({"a": {"lean": "failed", "policy": "passed", "regex": "passed"}})
    said = {"lean": "passed", "policy": "passed", "regex": "failed"}
    (row,) = compared(before, view({"a": result("a", said, reason="x" * 100_000)})).case_regressions
    judges = [(judge.judge_id, judge.baseline, judge.candidate) for judge in row.judges]
    assert judges == [("regex", "passed", "failed"), ("lean", "failed", "passed")]
    assert (row.judges[0].failure, row.judges[0].evidence_refs) == ("policy_violation", [2])
    assert row.judges[0].reason == "x" * 999 + "…"


def test_new_changed_and_removed_cases_stay_out_and_are_listed() -> None:
    before = view({"kept": "passed", "edited": "passed", "gone": "passed", "gone-failing": "failed"})
    now = {"kept": "passed", "edited": "failed", "new": "failed"}
    found = compared(before, view(now, index={"edited": {"definition_digest": "x"}}))
    assert found.cases.model_dump() == {
        "compared": 1, "new": ["new"], "changed": ["edited"], "removed": ["gone", "gone-failing"],
        "removed_failing": ["gone-failing"], "judged_twice": [],
    }  # fmt: skip
    assert found.case_regressions == []
    assert found.compatibility.passed
    assert found.candidate.summary.total_cases == 3


def test_an_empty_run_is_no_comparison() -> None:
    with pytest.raises(NothingMeasured, match="candidate run"):
        compared(view({"a": "passed"}), view({}))
    with pytest.raises(NothingMeasured, match="baseline run"):
        compared(view({}), view({"a": "passed"}))
    with pytest.raises(NothingMeasured, match="share no case"):
        compared(view({"a": "passed"}), view({"b": "passed"}), allow_incompatible=True)


def test_traces_are_looked_up_only_for_cases_whose_result_changed() -> None:
    calls = {"calls": [["search", "x"]]}
    before = view({"a": "passed", "b": "passed", "c": "passed"})
    now = view({"a": "passed", "b": "failed", "c": "passed"}, index={"a": calls, "b": calls})
    asked = []

    def traces(case_id: str) -> tuple[Case, Case]:
        asked.append(case_id)
        case = Case.model_validate(make_case(case_id))
        return case, case

    found = compared(before, now, traces=traces)
    assert asked == ["b"]
    assert [change.case_id for change in found.behaviour_changes] == ["b", "a"]


def test_behaviour_details_are_bounded_and_totals_are_not() -> None:
    cases = {f"c{number:03}": "passed" for number in range(DETAIL_LIMIT + 30)}
    now = view(cases, index={name: {"output_digest": digest(name)} for name in cases})
    found = compared(view(cases), now)
    assert len(found.behaviour_changes) == DETAIL_LIMIT
    assert found.behaviour.cases_with_changed_output == DETAIL_LIMIT + 30


def test_the_same_runs_give_the_same_bytes() -> None:
    before = {"a": "passed", "b": {"policy": "failed", "regex": "failed"}}
    now = {"b": {"regex": "failed", "policy": "passed"}, "a": "failed"}
    other = (dict(reversed(side.items())) for side in (before, now))
    first, second = (compared(*map(view, sides)).model_dump_json() for sides in ((before, now), other))
    assert first.replace(" ", "") == second.replace(" ", "")


BOTH = {"policy": "passed", "regex": "passed"}


def judged(cases: dict[str, Said]) -> dict[str, Any]:
    return {case_id: result(case_id, said).to_json() for case_id, said in cases.items()}


def hidden(before: Said, todays: tuple[Said, Said], by_baseline: Said) -> dict[str, list[str]]:
    """Judges by whose old expectation the case `a` got worse and by whose new one it did not.

    Args:
        before: The baseline as it was judged.
        todays: Baseline and candidate as they are judged today.
        by_baseline: The candidate by the definitions and judges of the baseline.
    """
    twice = JudgedTwice(by_baseline=judged({"a": by_baseline}))
    was, first, second = (outcomes_of(view({"a": said}).results) for said in (before, *todays))
    return twice.new_expectations(was, (first, second))


NO_REGEX, NO_POLICY = {**BOTH, "regex": "failed"}, {**BOTH, "policy": "failed"}
NEITHER = dict.fromkeys(BOTH, "failed")
HIDDEN = {"a": ["policy"]}
OF_ONE_JUDGE = {
    ("passed", "failed"): HIDDEN, ("passed", "error"): HIDDEN, ("passed", "inconclusive"): HIDDEN,
    ("inconclusive", "failed"): HIDDEN, ("skipped", "failed"): HIDDEN, ("failed", "error"): {},
    ("error", "failed"): {}, ("inconclusive", "inconclusive"): {}, ("passed", "skipped"): {},
    ("passed", "passed"): {},
}  # fmt: skip
"""Worse is a new failure, or a pass that cannot be told now."""


@pytest.mark.parametrize(
    ("before", "today", "by_baseline", "found"),
    [
        (BOTH, BOTH, NEITHER, {"a": ["policy", "regex"]}), (BOTH, BOTH, NO_REGEX, {"a": ["regex"]}),
        (BOTH, BOTH, BOTH, {}),
        # What got worse by both expectations is a regression and hides nothing.
        (BOTH, NO_POLICY, NO_POLICY, {}),
        # Today's expectation finds the regex worse, the old one the policy: the policy is what is hidden.
        (BOTH, NO_REGEX, NO_POLICY, HIDDEN),
        # A judge that the baseline did not have hides nothing.
        ("passed", "passed", NO_REGEX, {}),
        *((before, "passed", now, found) for (before, now), found in OF_ONE_JUDGE.items()),
    ],
)  # fmt: skip
def test_a_case_that_passes_only_by_its_new_expectation_is_found_with_its_judges(
    before: Said, today: Said, by_baseline: Said, found: dict[str, list[str]]
) -> None:
    assert hidden(before, (BOTH if before is BOTH else "passed", today), by_baseline) == found


def test_both_runs_are_compared_as_they_are_judged_today() -> None:
    before, now = view({"a": "failed", "b": "passed"}), view({"a": "passed", "b": "failed"})
    twice = JudgedTwice(baseline=judged({"a": "passed"}), candidate=judged({"b": "passed"}))
    found = compare(before, now, generated_at="now", judged_twice=twice)
    assert found.case_regressions == []
    assert found.metrics["pass_rate"].baseline == found.metrics["pass_rate"].candidate == 1.0
    # The references keep what the runs stored.
    assert (found.baseline.summary.passed_cases, found.candidate.summary.passed_cases) == (1, 1)
    alone = JudgedTwice(baseline=judged({"a": "passed"}))
    found = compare(before, now, generated_at="now", judged_twice=alone)
    assert found.regressed_case_ids == ["b"]
    assert [judge.baseline for judge in found.case_regressions[0].judges] == ["passed"]


def test_a_case_that_changed_is_compared_once_both_runs_are_judged_alike() -> None:
    before = view({"a": BOTH, "b": BOTH})
    other = {"a": {"definition_digest": "other"}}
    twice = JudgedTwice(baseline=judged({"a": BOTH}), by_baseline=judged({"a": NO_REGEX}))
    found = compared(before, view({"a": NO_REGEX, "b": BOTH}, index=other), judged_twice=twice)
    assert (found.regressed_case_ids, found.cases.judged_twice) == (["a"], ["a"])
    assert found.new_expectations == {}
    # What passes only by its new expectation is listed with the judge.
    found = compared(before, view({"a": BOTH, "b": BOTH}, index=other), judged_twice=twice)
    assert found.new_expectations == {"a": ["regex"]}


def test_the_top_of_a_report_says_which_results_are_not_those_that_were_stored() -> None:
    run = view({"a": "passed", "b": "passed"})
    twice = JudgedTwice(baseline=judged({"a": "passed"}), apart=frozenset({"regex", "lean"}))
    found = compare(run, run, generated_at="now", judged_twice=twice)
    assert found.behaviour.notices == [
        "The baseline's results of 1 case are by today's definitions and judges.",
        "Not compared, as it cannot judge the baseline's stored trajectories: lean, regex.",
    ]
    assert JudgedTwice().notices() == []


# Clusters of failures.


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("called 3 times", "called 12 times"),
        ("argument 'order_id' is missing", "argument 'amount' is missing"),
        ('expected "yes"', 'expected "no, thanks"'),
        ("order ord-81f3 not found", "order ord-99aa1 not found"),
        ("at 2026-01-01T10:00:00Z it stopped", "at 2025-11-30T23:59:59Z it stopped"),
        ("`refund` was called", "`delete_all` was called"),
    ],
)
def test_reasons_that_differ_in_particulars_are_one_kind(one: str, other: str) -> None:
    assert normalise(one) == normalise(other)


def test_reasons_that_say_different_things_stay_apart() -> None:
    assert normalise("the tool isn't allowed") != normalise("the tool wasn't called")
    assert normalise("it's missing and that's bad") == "it's missing and that's bad"


@given(st.text(max_size=400))
def test_normalising_twice_changes_nothing(reason: str) -> None:
    assert normalise(normalise(reason)) == normalise(reason)


def clustered(before: dict[str, str], now: dict[str, str]) -> Comparison:
    """Case id to the reason it failed for; an empty reason passed."""

    def run(side: dict[str, str]) -> RunView:
        ends = {name: result(name, "failed" if why else "passed", reason=why) for name, why in side.items()}
        return view(ends)

    return compare(run(before), run(now), generated_at="now")


def test_clusters_are_ranked_by_growth_with_the_cases_that_are_new_in_them() -> None:
    found = clustered(
        {"a": "slow by 1 s", "b": "", "c": "", "d": "wrong 'x'", "e": "wrong 'y'"},
        {"a": "slow by 2 s", "b": "slow by 9 s", "c": "slow by 7 s", "d": "", "e": "wrong 'z'"},
    )
    slow, wrong = found.failure_clusters.delta_ranked
    assert (slow.cluster, slow.case_ids) == ("policy: slow by … s", ["b", "c", "a"])
    assert (slow.baseline_count, slow.candidate_count, slow.delta) == (1, 3, 2)
    assert (wrong.cluster, wrong.delta, wrong.case_ids) == ("policy: wrong …", -1, ["e"])
    assert found.failure_clusters.baseline == {"policy: slow by … s": 1, "policy: wrong …": 2}
    assert (found.triage.top_clusters, found.triage.suggested_fixes_count) == ([slow], 1)
    assert slow.suggested_fix


def test_a_cluster_that_is_gone_keeps_its_reason_and_is_not_looked_at() -> None:
    found = clustered({"a": "wrong"}, {"a": ""})
    (gone,) = found.failure_clusters.delta_ranked
    assert (gone.reason, gone.case_ids, gone.delta, found.triage.top_clusters) == ("wrong", [], -1, [])
    same = {"a": "wrong", "b": "slow", "c": "slow"}
    top = [cluster.cluster for cluster in clustered(same, same).triage.top_clusters]
    assert top == ["policy: slow", "policy: wrong"], "without growth, what still fails"


def test_many_different_reasons_are_bounded_and_the_rest_is_counted() -> None:
    def word(number: int) -> str:
        return "".join(chr(ord("a") + int(digit)) for digit in f"{number:04}")

    names = [f"c{number}" for number in range(COUNTED + 50)]
    found = clustered(dict.fromkeys(names, ""), {name: word(place) for place, name in enumerate(names)})
    assert len(found.failure_clusters.delta_ranked) == RANKED
    assert found.failure_clusters.candidate[REST] == 50
    assert sum(found.failure_clusters.candidate.values()) == len(names)


def hinted(judge_id: str, outcome: str, failure: FailureKind) -> str | None:
    """The hint for a case that this judge newly fails."""
    now = result("a", {judge_id: outcome})
    now.verdicts[1].failure = failure
    found = compare(view({"a": {judge_id: "passed"}}), view({"a": now}), generated_at="now")
    return found.triage.top_clusters[0].suggested_fix


@pytest.mark.parametrize("failure", list(FailureKind))
def test_every_kind_of_failure_has_a_hint_even_from_a_judge_nobody_knows(failure: FailureKind) -> None:
    assert hinted("my_judge", "failed", failure)
    # Where it could not be judged, the hint is about that.
    assert "time limit" in (hinted("execution", "error", FailureKind.TIMEOUT) or "")


def test_clusters_that_grew_alike_are_ranked_by_their_size_then_by_name() -> None:
    found = clustered(
        {"a": "", "b": "slow", "c": "", "d": "", "e": "old", "f": "old"},
        {"a": "slow", "b": "slow", "c": "bad", "d": "wrong", "e": "old", "f": "old"},
    )
    ranked = found.failure_clusters.delta_ranked
    assert [cluster.reason for cluster in ranked] == ["slow", "bad", "wrong", "old"]
    # What did not grow is not what to look at first.
    assert [cluster.reason for cluster in found.triage.top_clusters] == ["slow", "bad", "wrong"]
    assert list(found.failure_clusters.candidate) == [
        "policy: old", "policy: slow", "policy: bad", "policy: wrong",
    ]  # fmt: skip


def test_the_hint_is_that_of_the_judge_and_a_reason_that_says_it_needs_none() -> None:
    [found] = clustered({"a": ""}, {"a": "wrong"}).failure_clusters.delta_ranked
    assert (found.judge_id, found.suggested_fix) == ("policy", hint("policy", None))
    assert hint("my_judge", None) is None
