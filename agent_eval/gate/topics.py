"""Statistics by topic: a test of each, and how far the cases of a topic move together."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import fsum

from agent_eval.contracts import ComparedTopic
from agent_eval.gate.permutation import TrialPair, permutation_test
from agent_eval.gate.statistics import Interval, grouped_interval, sign_flip_test

FEWEST_CASES = 10
"""Compared cases from which a topic is tested: with fewer, hardly a regression would be significant."""
FEWEST_CLUSTERS = 10
"""Topics from which the whole suite is tested by them: fewer say too little of their spread."""


@dataclass(frozen=True, slots=True)
class TopicTest:
    """The test of one topic: cases that pass less and more often, and the p values seen and attainable.

    Example:
        >>> broken = {f"refund-{number}": TrialPair(1, 1, 0, 1) for number in range(10)}
        >>> topic = ComparedTopic(topic="refunds", compared=10, changed=sorted(broken))
        >>> topic_tests([topic], broken)[0].p_value
        0.0009765625
    """

    topic: str
    compared: int
    regressed: int
    fixed: int
    p_value: float
    attainable: float


def topic_tests(topics: Sequence[ComparedTopic], pairs: Mapping[str, TrialPair]) -> list[TopicTest]:
    """Test each topic of at least FEWEST_CASES compared cases, of which at least one changed.

    Args:
        topics: The topics of the compared cases.
        pairs: Trials before and now of each case that changed and counts, by case id.
    """
    tests = []
    for topic in topics:
        moved = [pairs[case_id] for case_id in topic.changed if case_id in pairs]
        drops = [pair.drop for pair in moved]
        if topic.compared < FEWEST_CASES or not any(drops):
            continue
        test = permutation_test(moved)
        tests.append(
            TopicTest(
                topic=topic.topic,
                compared=topic.compared,
                regressed=sum(drop > 0 for drop in drops),
                fixed=sum(drop < 0 for drop in drops),
                p_value=test.p_value,
                attainable=test.attainable,
            )
        )
    return tests


@dataclass(frozen=True, slots=True)
class Clusters:
    """The drops of the compared cases, grouped by topic; a case without one is a cluster of its own.

    `sizes` counts the cases of each cluster, `drops` lists those of the cases that moved. Cases of one topic
    share a tool, a prompt, a document, so they break and mend together: tested one by one they look like more
    evidence than they are (E. Miller, Adding error bars to evals, 2024, section 2.2).

    Example:
        >>> Clusters(sizes=[10, 10, 1], drops=[[1.0, 1.0], [], [-1.0]]).p_value
        0.5
    """

    sizes: list[int]
    drops: list[list[float]]

    @property
    def p_value(self) -> float:
        """One-sided p value of the mean drop, by flipping the sign of each cluster's sum."""
        return sign_flip_test([fsum(drops) for drops in self.drops])

    def interval(self, confidence: float) -> Interval:
        """Compute the interval of the mean drop, on the standard error clustered by topic."""
        groups = [
            drops + [0.0] * (size - len(drops)) for size, drops in zip(self.sizes, self.drops, strict=True)
        ]
        return grouped_interval(groups, confidence)


def clusters_by_topic(
    topics: Sequence[ComparedTopic], pairs: Mapping[str, TrialPair], total: int
) -> Clusters | None:
    """Group the drops by topic; None with fewer than FEWEST_CLUSTERS topics.

    Args:
        topics: The topics of the compared cases.
        pairs: Trials before and now of each case that changed and counts, by case id.
        total: Number of compared cases that count.
    """
    if len(topics) < FEWEST_CLUSTERS:
        return None
    grouped = {case_id for topic in topics for case_id in topic.changed}
    alone = [[float(pair.drop)] for case_id, pair in pairs.items() if case_id not in grouped]
    of_topics = [
        [float(pairs[case_id].drop) for case_id in topic.changed if case_id in pairs] for topic in topics
    ]
    sizes = [topic.compared for topic in topics]
    unmoved = max(0, total - sum(sizes) - len(alone))
    return Clusters(sizes + [1] * (len(alone) + unmoved), of_topics + alone + [[] for _ in range(unmoved)])


def wider(first: Interval, second: Interval) -> Interval:
    """Return the interval that contains both.

    Example:
        >>> wider(Interval(-0.1, 0.1), Interval(0.0, 0.2))
        Interval(low=-0.1, high=0.2)
    """
    return Interval(min(first.low, second.low), max(first.high, second.high))
