"""Rates, their differences, and the words and levels that follow from them, at their limits."""

from __future__ import annotations

import pytest

from agent_eval.comparison.compare import compare
from agent_eval.comparison.metrics import (
    TOP_JUDGES,
    Balance,
    rate_metric,
    regression_sentences,
    release_impact,
    risk_level,
    top_regressed_judges,
)
from agent_eval.contracts import Metric
from tests.unit.comparison.views import view


def balance(compared: int, regressed: int = 0, fewer: int = 0, hard: int = 0) -> Balance:
    return Balance(compared=compared, regressed=regressed, fewer_passed=fewer, more_hard_failed=hard)


def test_a_difference_of_shares_is_exact_and_the_share_of_no_cases_unknown() -> None:
    metric = rate_metric("pass_rate", (1, 10), (3, 10))
    assert (metric.name, metric.baseline, metric.candidate, metric.delta) == ("pass_rate", 0.1, 0.3, 0.2)
    nothing = rate_metric("regex", (0, 0), (1, 1))
    assert (nothing.baseline, nothing.candidate, nothing.delta) == (None, 1.0, None)
    nothing = rate_metric("regex", (1, 1), (0, 0))
    assert (nothing.baseline, nothing.candidate, nothing.delta) == (1.0, None, None)


def test_the_metrics_of_a_run_are_called_as_documented() -> None:
    run = view({"a": "passed"})
    found = compare(run, run, changed="refuse", generated_at="now")
    assert {key: metric.name for key, metric in found.metrics.items()} == {
        "pass_rate": "pass_rate",
        "hard_fail_rate": "hard_fail_rate",
    }
    assert {key: metric.name for key, metric in found.judge_metrics.items()} == {
        "policy": "policy",
        "replay_contract": "replay_contract",
    }


@pytest.mark.parametrize(
    ("found", "risk"),
    [
        (balance(0), "high"),
        (balance(1), "low"),
        (balance(100, regressed=1), "medium"),
        (balance(100, regressed=1, hard=1), "high"),
        (balance(100, regressed=1, hard=-1), "medium"),
        (balance(100, regressed=4, fewer=4), "medium"),
        (balance(100, regressed=5, fewer=5), "high"),
        (balance(100, fewer=-5), "low"),
    ],
)
def test_risk_is_high_for_hard_fails_a_twentieth_fewer_passes_and_nothing_compared(
    found: Balance, risk: str
) -> None:
    assert risk_level(found) == risk


@pytest.mark.parametrize(
    ("found", "score", "level"),
    [
        (balance(0), 100.0, "critical"),
        (balance(1), 0.0, "low"),
        (balance(100, regressed=1), 0.5, "medium"),
        (balance(100, regressed=1, hard=1), 3.0, "high"),
        (balance(100, regressed=1, fewer=-3, hard=-2), 0.5, "medium"),
        (balance(100, fewer=8), 20.0, "high"),
        (balance(1000, regressed=1, fewer=79), 19.8, "medium"),
        (balance(100, fewer=20), 50.0, "critical"),
        (balance(1000, fewer=199), 49.8, "high"),
        (balance(10, regressed=10, fewer=10, hard=10), 100.0, "critical"),
    ],
)
def test_impact_is_the_weighted_share_of_losses_and_gains_take_nothing_off(
    found: Balance, score: float, level: str
) -> None:
    impact = release_impact(found)
    assert (impact.impact_score, impact.impact_level) == (score, level)


def test_each_level_of_impact_recommends_something_else() -> None:
    found = [balance(0), balance(1), balance(9, regressed=1), balance(9, hard=1), balance(1, fewer=1)]
    assert len({release_impact(one).recommendation for one in found}) == 5


def metric(name: str, before: float | None, now: float | None) -> Metric:
    delta = None if before is None or now is None else now - before
    return Metric(name=name, baseline=before, candidate=now, delta=delta)


def test_judges_are_ranked_by_their_fall_then_by_name_and_bounded() -> None:
    rates = {"b": (1.0, 0.5), "a": (1.0, 0.5), "worst": (1.0, 0.0), "same": (1.0, 1.0), "better": (0.0, 1.0)}
    metrics = {name: metric(name, *rate) for name, rate in rates.items()} | {"new": metric("new", None, 0.0)}
    assert [one.name for one in top_regressed_judges(metrics)] == ["worst", "a", "b"]
    many = {f"j{number:02}": metric(f"j{number:02}", 1.0, 0.0) for number in range(TOP_JUDGES + 5)}
    assert list(top_regressed_judges(many)) == list(many.values())[:TOP_JUDGES]


def test_only_rates_that_got_worse_have_a_sentence_with_decimals_that_tell_them_apart() -> None:
    worse = {"pass_rate": metric("pass_rate", 1.0, 0.5), "hard_fail_rate": metric("h", 0.0, 0.25)}
    assert regression_sentences(worse, {"regex": metric("regex", 0.50004, 0.50001)}) == [
        "pass rate decreased from 100% to 50.0%",
        "hard fail rate increased from 0% to 25.0%",
        "regex pass rate decreased from 50.004% to 50.001%",
    ]
    better = {"pass_rate": metric("pass_rate", 0.5, 1.0), "hard_fail_rate": metric("h", 0.25, 0.0)}
    judges = {"regex": metric("regex", 0.5, 1.0), "new": metric("new", None, 1.0)}
    assert regression_sentences(better, judges) == []
    assert regression_sentences(dict.fromkeys(better, metric("x", None, None)), {}) == []
