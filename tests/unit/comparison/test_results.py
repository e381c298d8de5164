"""Changed cases and judges, rates, levels and trials: counted from verdicts, and what is said of them."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_eval.comparison.compare import compare
from agent_eval.comparison.facts import case_outcome, case_policies, regression_key
from agent_eval.comparison.results import (
    TOP_JUDGES,
    Balance,
    compare_trials,
    rate_metric,
    regression_sentences,
    release_impact,
    risk_level,
    top_regressed_judges,
)
from agent_eval.contracts import (
    REPLAY_CONTRACT,
    CaseRegression,
    JudgeChange,
    Metric,
    Outcome,
    TrialComparison,
    Verdict,
    case_result,
)
from agent_eval.evidence.rows import ResultChecker
from agent_eval.evidence.writer import result_row
from agent_eval.storage.json import dumps, parse
from tests.factories import make_verdict
from tests.unit.comparison.views import passing, result, tried, view


def changed(before: Any, now: Any) -> CaseRegression:
    [found] = compare(view({"a": before}), view({"a": now}), generated_at="now").case_regressions
    return found


def judge(before: Any, now: Any, judge_id: str = "policy") -> JudgeChange:
    [found] = [change for change in changed(before, now).judges if change.judge_id == judge_id]
    return found


def test_a_judge_of_one_run_alone_has_nothing_of_the_other() -> None:
    both, one = {"policy": "failed", "regex": "failed"}, {"policy": "passed"}
    gone = judge(both, one, "regex")
    nothing = (gone.candidate, gone.reason, gone.failure, gone.evidence_refs, gone.regression_key)
    assert nothing == (None, "", None, [], "")
    assert (gone.baseline, judge(one, both, "regex").baseline) == ("failed", None)


@pytest.mark.parametrize("outcome", ["failed", "error", "inconclusive"])
def test_what_does_not_pass_has_the_key_of_its_kind_of_failure(outcome: str) -> None:
    change = judge("passed", outcome)
    assert change.regression_key == regression_key("a", "policy", change.failure, f"policy {outcome}")
    assert judge("failed", "passed").regression_key == ""


def test_keys_differ_by_case_judge_failure_and_kind_of_reason_and_by_no_particular() -> None:
    facts = ("a", "policy", "timeout", "after 3 s")
    key = regression_key(*facts)
    assert len(key) == 16
    assert key == regression_key("a", "policy", "timeout", "after 12 s")
    others = [("b", *facts[1:]), ("a", "regex", *facts[2:]), ("a", "policy", None, facts[3])]
    assert len({key, *(regression_key(*other) for other in others), regression_key(*facts[:3], "slow")}) == 5


def test_judges_that_fail_come_first_and_then_by_name() -> None:
    before = result("a", {"a": "failed", "b": "passed", "c": "passed", "d": "failed"})
    now = result("a", {"a": "passed", "b": "inconclusive", "c": "failed", "d": "error"})
    assert [change.judge_id for change in changed(before, now).judges] == ["c", "d", "a", "b"]


def test_each_side_of_a_case_is_kept_as_it_was_with_its_scores() -> None:
    for before, now, scores in (("passed", "failed", (1.0, None)), ("failed", "passed", (None, 1.0))):
        found_by = judge(before, now)
        assert (found_by.baseline_score, found_by.candidate_score) == scores
    found = changed("passed", "failed")
    assert (found.baseline_outcome, found.candidate_outcome) == ("passed", "failed")
    assert (found.baseline_passed, found.candidate_passed) == (True, False)
    assert (found.baseline_hard_failed, found.candidate_hard_failed) == (False, True)
    assert (found.regressed, found.improved) == (True, False)


def balance(compared: int, regressed: int = 0, fewer: int = 0, hard: int = 0) -> Balance:
    return Balance(compared=compared, regressed=regressed, fewer_passed=fewer, more_hard_failed=hard)


@pytest.mark.parametrize(
    ("before", "now", "shares"),
    [
        ((1, 10), (3, 10), (0.1, 0.3, 0.2)),
        ((0, 0), (1, 1), (None, 1.0, None)),
        ((1, 1), (0, 0), (1.0, None, None)),
    ],
)
def test_a_difference_of_shares_is_exact_and_the_share_of_no_cases_unknown(
    before: tuple[int, int], now: tuple[int, int], shares: tuple[float | None, ...]
) -> None:
    metric = rate_metric("pass_rate", before, now)
    assert (metric.name, (metric.baseline, metric.candidate, metric.delta)) == ("pass_rate", shares)


LEVELS = [
    (balance(0), "high", 100.0, "critical"), (balance(1), "low", 0.0, "low"),
    (balance(100, regressed=1), "medium", 0.5, "medium"),
    (balance(100, regressed=1, hard=1), "high", 3.0, "high"),
    (balance(100, regressed=1, hard=-1), "medium", 0.5, "medium"),
    (balance(100, regressed=1, fewer=-3, hard=-2), "medium", 0.5, "medium"),
    (balance(100, regressed=4, fewer=4), "medium", 12.0, "medium"),
    (balance(100, regressed=5, fewer=5), "high", 15.0, "medium"),
    (balance(100, fewer=-5), "low", 0.0, "low"), (balance(100, fewer=8), "high", 20.0, "high"),
    (balance(1000, regressed=1, fewer=79), "high", 19.8, "medium"),
    (balance(100, fewer=20), "high", 50.0, "critical"), (balance(1000, fewer=199), "high", 49.8, "high"),
    (balance(10, regressed=10, fewer=10, hard=10), "high", 100.0, "critical"),
]  # fmt: skip


@pytest.mark.parametrize(("found", "risk", "score", "level"), LEVELS)
def test_risk_and_impact_are_of_losses_and_gains_take_nothing_off(
    found: Balance, risk: str, score: float, level: str
) -> None:
    impact = release_impact(found)
    assert (risk_level(found), impact.impact_score, impact.impact_level) == (risk, score, level)


def test_each_level_of_impact_recommends_something_else() -> None:
    found = [balance(0), balance(1), balance(9, regressed=1), balance(9, hard=1), balance(1, fewer=1)]
    assert len({release_impact(one).recommendation for one in found}) == 5


def rate(name: str, before: float | None, now: float | None) -> Metric:
    delta = None if before is None or now is None else now - before
    return Metric(name=name, baseline=before, candidate=now, delta=delta)


def test_judges_are_ranked_by_their_fall_then_by_name_and_bounded() -> None:
    rates = {"b": (1.0, 0.5), "a": (1.0, 0.5), "worst": (1.0, 0.0), "same": (1.0, 1.0), "better": (0.0, 1.0)}
    metrics = {name: rate(name, *both) for name, both in rates.items()} | {"new": rate("new", None, 0.0)}
    assert [one.name for one in top_regressed_judges(metrics)] == ["worst", "a", "b"]
    many = {f"j{number:02}": rate(f"j{number:02}", 1.0, 0.0) for number in range(TOP_JUDGES + 5)}
    assert list(top_regressed_judges(many)) == list(many.values())[:TOP_JUDGES]


def test_only_rates_that_got_worse_have_a_sentence_with_decimals_that_tell_them_apart() -> None:
    worse = {"pass_rate": rate("pass_rate", 1.0, 0.5), "hard_fail_rate": rate("h", 0.0, 0.25)}
    assert regression_sentences(worse, {"regex": rate("regex", 0.50004, 0.50001)}) == [
        "pass rate decreased from 100% to 50.0%",
        "hard fail rate increased from 0% to 25.0%",
        "regex pass rate decreased from 50.004% to 50.001%",
    ]
    better = {"pass_rate": rate("pass_rate", 0.5, 1.0), "hard_fail_rate": rate("h", 0.25, 0.0)}
    judges = {"regex": rate("regex", 0.5, 1.0), "new": rate("new", None, 1.0)}
    assert regression_sentences(better, judges) == []
    assert regression_sentences(dict.fromkeys(better, rate("x", None, None)), {}) == []


def rows(*results: Any) -> dict[str, Any]:
    return {one.case_id: one.to_json() for one in results}


def trials(before: dict[str, Any], now: dict[str, Any]) -> TrialComparison:
    return compare_trials(sorted(before), before, now)


def changes(before: Any, now: Any) -> dict[str | None, tuple[tuple[int, int, int], tuple[int, int, int]]]:
    """Passed, failed and judged trials of a case before and now, by judge; None is the case itself."""
    return {
        change.judge_id: tuple(  # type: ignore[misc]  # two sides
            (side.passed, side.failed, side.judged) for side in (change.baseline, change.candidate)
        )
        for change in trials(rows(before), rows(now)).changes
    }


GOOD, BAD = {"policy": "passed", "regex": "passed"}, {"policy": "failed", "regex": "passed"}
TWO, ONE = {"policy": "passed", "regex": "failed"}, {"policy": "passed"}


@pytest.mark.parametrize(
    ("before", "now", "expected"),
    [
        ([GOOD] * 3, [BAD, BAD, GOOD], {None: ((3, 0, 3), (1, 2, 3)), "policy": ((3, 0, 3), (1, 2, 3))}),
        (["passed"] * 2, ["error", "inconclusive"], {"policy": ((2, 0, 2), (0, 1, 2))}),
        ([TWO] * 2, [ONE] * 2, {"regex": ((0, 2, 2), (0, 0, 0))}),
        ([ONE] * 2, [TWO] * 2, {"regex": ((0, 0, 0), (0, 2, 2))}),
        (["passed"] * 2, ["passed", "skipped"],
         {None: ((2, 0, 2), (1, 0, 1)), "policy": ((2, 0, 2), (1, 0, 1))}),
    ],
    ids=[
        "each judge that changed is listed", "what is undecided is no failure", "a judge is gone",
        "a judge is new", "nothing to judge is no trial that did not pass",
    ],
)  # fmt: skip
def test_trials_of_a_case_and_of_its_judges_are_counted(before: Any, now: Any, expected: Any) -> None:
    found = changes(tried("a", *before), tried("a", *now))
    assert {name: found[name] for name in expected} == expected
    assert None not in expected or found == expected, "no judge else changed"


def test_each_side_counts_its_trials_errors_and_case_policies() -> None:
    side = trials(
        rows(passing("a", 1, 2), tried("b", "error", "error", "passed", policy="any"), result("c", "passed")),
        rows(result("a", "passed"), result("b", "passed"), result("c", "passed")),
    ).baseline
    assert (side.fewest, side.most, side.total) == (1, 3, 6)
    assert (side.passed, side.errors) == (3, 2)
    # The mean of the cases' rates: each case weighs the same, however many trials it has.
    assert side.pass_rate == pytest.approx((1 / 2 + 1 / 3 + 1) / 3)
    assert side.case_policies == ["all", "any"]


# What verdicts amount to is the same wherever it is worked out.


JUDGES = (REPLAY_CONTRACT, "policy", "regex", "cost_budget", "tool_abuse")
SAID = st.tuples(st.sampled_from(list(Outcome)), st.booleans(), st.sampled_from([0.0, 0.5, 1.0, 3.0]))


def verdicts(said: dict[str, tuple[Outcome, bool, float]]) -> list[Verdict]:
    return [
        make_verdict("c", judge_id, outcome, hard=hard, weight=weight)
        for judge_id, (outcome, hard, weight) in said.items()
    ]


def stored(found: list[Verdict]) -> Any:
    return parse(dumps(result_row(case_result("c", found))), source="row")


@given(st.dictionaries(st.sampled_from(JUDGES), SAID))
def test_a_stored_result_is_what_its_verdicts_amount_to(said: dict[str, tuple[Outcome, bool, float]]) -> None:
    row = stored(verdicts(said))
    ResultChecker("pack").check(row, "verdicts.json")
    case = case_outcome(tuple((one["judge_id"], one["outcome"], one["hard"]) for one in row["verdicts"]))
    facts = ("outcome", "passed", "hard_failed")
    assert [getattr(case, name) for name in facts] == [row[name] for name in facts]
    assert case.judges == {judge_id: outcome for judge_id, (outcome, _, _) in said.items()}
    assert case.failing == any(outcome in ("failed", "error") for outcome, _, _ in said.values())


def test_a_judge_with_several_verdicts_counts_by_its_first_failure_else_by_its_last() -> None:
    def outcome(*said: str) -> str:
        return case_outcome(tuple(("regex", one, True) for one in said)).judges["regex"]

    assert outcome("failed", "passed") == "failed"
    assert outcome("error", "passed") == "error"
    assert outcome("passed", "failed") == "failed"
    assert outcome("passed", "inconclusive") == "inconclusive"


def test_the_reference_of_a_run_carries_what_decisions_need_of_it() -> None:
    run = view(
        {"a": "passed"}, agent_version="2.1", model="gpt-4o", git_commit="c" * 40,
        execution_config={"damaged_records": 3},
    )  # fmt: skip
    reference = run.reference()
    assert (reference.run_id, reference.dataset_id, reference.manifest_sha256) == ("run-1", "shop", "0" * 64)
    assert (reference.agent_version, reference.model, reference.git_commit) == ("2.1", "gpt-4o", "c" * 40)
    assert (reference.started_at, reference.damaged_records) == ("2026-01-01T00:00:00+00:00", 3)
    assert reference.summary == run.summary
    assert view({"a": "passed"}).reference().damaged_records == 0


def test_a_case_without_a_stated_policy_needs_all_of_its_trials_and_a_single_trial_has_none() -> None:
    unstated = passing("a", 1, 2).to_json()
    del unstated["case_policy"]
    assert case_policies([unstated, result("b", "passed").to_json()]) == ["all"]
    assert case_policies([unstated, passing("c", 1, 2, policy="majority").to_json()]) == ["all", "majority"]
