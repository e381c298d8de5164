"""What a decision's tests hold for more than chance: all cases, a topic, or what one judge objects to."""

from __future__ import annotations

from collections.abc import Callable

from agent_eval.contracts import Comparison, GateDecision, GateEvidence, JudgeEvidence, TopicEvidence
from agent_eval.gate.paired import CASES
from agent_eval.reports.advice import NAMED
from agent_eval.text.numbers import count

BEYOND = "more than chance explains"


def cases_beyond_chance(evidence: GateEvidence | None) -> bool:
    """Tell whether the test over all cases is significant, not only that of a topic or of a judge."""
    judges = evidence.judges if evidence is not None else []
    return any(judge.judge_id == CASES and judge.significant for judge in judges)


def topics_beyond_chance(evidence: GateEvidence | None) -> list[TopicEvidence]:
    """List the topics in which more cases got worse than chance explains."""
    return [topic for topic in evidence.topics if topic.significant] if evidence is not None else []


def judges_beyond_chance(evidence: GateEvidence | None) -> list[JudgeEvidence]:
    """List the judges that object to more cases than chance explains; none where all cases say so already."""
    if evidence is None or cases_beyond_chance(evidence):
        return []
    return [judge for judge in evidence.judges if judge.significant]


def cases_of_topics(decision: GateDecision, comparison: Comparison | None) -> frozenset[str]:
    """Collect the changed cases of the topics that fell by more than chance explains, by id."""
    fallen = {topic.topic for topic in topics_beyond_chance(decision.evidence)}
    topics = comparison.topics if comparison is not None else []
    return frozenset(case_id for topic in topics if topic.topic in fallen for case_id in topic.changed)


def beyond_chance(evidence: GateEvidence, code: Callable[[str], str]) -> list[str]:
    """Name the topics that fell and the judges that object by more than chance explains, a sentence each.

    Args:
        evidence: Of the decision.
        code: Sets a name as code.
    """
    how = "regressed" if evidence.trials is None else "pass less often"
    topics = [
        f"Of {count(topic.compared, 'case')} about {code(topic.topic)} {topic.regressed:,} {how}, {BEYOND}."
        for topic in topics_beyond_chance(evidence)
    ]
    objections = [
        f"{code(judge.judge_id)} objects to {count(judge.regressed, 'case')} that it passed before, {BEYOND}."
        for judge in judges_beyond_chance(evidence)
    ]
    return topics[:NAMED] + objections[:NAMED]


def where_beyond_chance(evidence: GateEvidence) -> str:
    """Name how much of the suite is beyond chance where all cases together are not; empty for nothing.

    Example:
        "in 1 topic" or "by 2 judges".
    """
    parts = [
        f"{word} {count(number, noun)}"
        for word, number, noun in (
            ("in", len(topics_beyond_chance(evidence)), "topic"),
            ("by", len(judges_beyond_chance(evidence)), "judge"),
        )
        if number
    ]
    return " and ".join(parts)
