"""Topics: one that broke is seen among many cases, and its cases do not count as independent."""

from __future__ import annotations

import random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_eval.comparison.compare import compare
from agent_eval.contracts import Comparison, GateDecision, GateStatus
from agent_eval.contracts.policy import GatePolicy, Quarantine
from agent_eval.gate.decide import decide_by_policy
from agent_eval.gate.permutation import TrialPair
from agent_eval.gate.statistics import clustered_interval, grouped_interval
from agent_eval.gate.topics import clusters_by_topic, topic_tests
from tests.extent import examples
from tests.unit.comparison.views import passing, view

NOW = "2026-11-22T10:00:00+00:00"


def compared(
    broken: set[str],
    *,
    topics: int = 10,
    each: int = 10,
    noise: set[str] = frozenset(),  # type: ignore[assignment]
    rows_now: bool = True,
    trials: int = 1,
) -> Comparison:
    """Compare runs of `topics` x `each` cases; those of `broken` regress, those of `noise` are fixed."""
    names = [f"{topic}-{number}" for topic in range(topics) for number in range(each)]
    index = {name: {"topic": name.split("-")[0]} for name in names}

    def result(name: str, passed: bool) -> Any:
        if trials == 1:
            return "passed" if passed else "failed"
        return passing(name, trials if passed else 0, trials)

    before = view({name: result(name, name not in noise) for name in names}, index=index, run_id="baseline")
    now = view(
        {name: result(name, name not in broken) for name in names},
        index=index if rows_now else {},
        run_id="candidate",
    )
    return compare(before, now, changed="exclude", generated_at=NOW)


def decided(comparison: Comparison, **policy: Any) -> GateDecision:
    return decide_by_policy(
        comparison, GatePolicy(margin=0.25, zero_tolerance=[], **policy), generated_at=NOW
    )


TOPIC = {f"3-{number}" for number in range(9)}
SPREAD_NOISE = {f"{topic}-9" for topic in range(10)} - {"3-9"}


@pytest.mark.parametrize("trials", [1, 4])
def test_a_broken_topic_fails_the_gate_though_the_whole_suite_looks_like_chance(trials: int) -> None:
    decision = decided(compared(TOPIC, noise=SPREAD_NOISE, trials=trials))
    assert decision.gate_status is GateStatus.FAILED
    assert decision.evidence is not None
    assert not any(judge.significant for judge in decision.evidence.judges)
    significant = [topic for topic in decision.evidence.topics if topic.significant]
    assert [(topic.topic, topic.regressed, topic.fixed) for topic in significant] == [("3", 9, 0)]
    assert "topic '3': 9" in next(step.message for step in decision.steps if step.name == "regression")
    assert any(line.startswith("topics: '3' 9 ") for line in decision.explanation)


def test_the_same_regressions_spread_over_topics_are_what_chance_explains() -> None:
    spread = {f"{topic}-0" for topic in range(9)}
    decision = decided(compared(spread, noise=SPREAD_NOISE))
    assert decision.gate_status is GateStatus.PASSED


def test_topics_are_those_of_the_baseline() -> None:
    """Otherwise a change could group what it broke with what it mended."""
    assert compared(TOPIC, rows_now=False).topics == compared(TOPIC).topics
    without = view({"a": "passed"}, run_id="baseline")
    renamed = view({"a": "failed"}, index={"a": {"topic": "mine"}}, run_id="candidate")
    assert compare(without, renamed, changed="exclude", generated_at=NOW).topics == []


def test_a_topic_with_fewer_than_ten_compared_cases_is_not_tested() -> None:
    assert decided(compared({"3-1"}, each=9)).evidence.topics == []  # type: ignore[union-attr]
    assert len(decided(compared({"3-1"}, each=10)).evidence.topics) == 1  # type: ignore[union-attr]


def test_quarantined_cases_do_not_count_in_a_topic() -> None:
    quarantine = [
        Quarantine(case_id=name, reason="flaky", owner="lead", expires_at="2027-01-01T00:00:00+00:00")
        for name in sorted(TOPIC)
    ]
    evidence = decided(compared(TOPIC), quarantine=quarantine).evidence
    assert evidence is not None
    assert evidence.topics == []


def test_cases_that_break_and_mend_by_topic_are_less_evidence_than_independent_ones() -> None:
    """Two topics broke altogether and one mended: 20 cases against 10, but two topics against one."""
    broken = {f"{topic}-{number}" for topic in (1, 2) for number in range(10)}
    mended = {f"4-{number}" for number in range(10)}
    clustered = decided(compared(broken, noise=mended)).evidence
    alone = decided(compared(broken, noise=mended, topics=10).model_copy(update={"topics": []})).evidence
    assert clustered is not None
    assert alone is not None
    assert alone.p_value < 0.05 < clustered.p_value
    assert clustered.topic_clusters == 10
    assert alone.topic_clusters is None
    assert clustered.interval_high > alone.interval_high


def test_with_fewer_than_ten_topics_the_suite_is_not_clustered() -> None:
    evidence = decided(compared({"1-1"}, topics=9)).evidence
    assert evidence is not None
    assert evidence.topic_clusters is None


def test_a_case_without_a_topic_is_a_cluster_of_its_own() -> None:
    comparison = compared(TOPIC)
    pairs = {name: TrialPair(1, 1, 0, 1) for name in [*TOPIC, "alone"]}
    clusters = clusters_by_topic(comparison.topics, pairs, 103)
    assert clusters is not None
    assert sorted(clusters.sizes) == [1] * 3 + [10] * 10
    assert sum(map(len, clusters.drops)) == 10


@given(st.lists(st.sampled_from([-1.0, -0.5, 0.25, 1.0]), max_size=30), st.integers(0, 40))
def test_clusters_of_one_case_give_the_interval_of_cases(drops: list[float], unmoved: int) -> None:
    groups = [[drop] for drop in drops] + [[0.0]] * unmoved
    assert grouped_interval(groups, 0.9) == clustered_interval(drops, len(drops) + unmoved, 0.9)


@given(st.data())
def test_a_topics_p_value_is_that_of_its_cases_alone(data: st.DataObject) -> None:
    names = [f"{topic}-{number}" for topic in range(3) for number in range(12)]
    moved = data.draw(st.lists(st.sampled_from(names), unique=True))
    pairs = {
        name: TrialPair(1, 1, 0, 1) if data.draw(st.booleans()) else TrialPair(0, 1, 1, 1) for name in moved
    }
    comparison = compared(set(names) & set(moved), topics=3, each=12)
    for test in topic_tests(comparison.topics, pairs):
        own = {name for name in moved if name.startswith(f"{test.topic}-")}
        assert test.regressed + test.fixed == len(own)
        assert test.attainable == pytest.approx(0.5 ** len(own))


def test_unchanged_suites_with_topics_are_rarely_called_worse() -> None:
    """200 comparisons of an unchanged agent (50 for a developer), a fifth of the cases changing at random."""
    source, comparisons = random.Random(7), examples(200)
    names = [f"{topic}-{number}" for topic in range(10) for number in range(10)]
    alarms = 0
    for _ in range(comparisons):
        draws = {name: source.random() for name in names}
        comparison = compared(
            {name for name, draw in draws.items() if draw < 0.1},
            noise={name for name, draw in draws.items() if draw > 0.9},
        )
        alarms += decided(comparison).gate_status is GateStatus.FAILED
    assert alarms <= 0.08 * comparisons + 2  # 5 % is promised; more than that has a chance of at most 2 %
