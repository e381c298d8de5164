"""The topics of the compared cases, by the baseline's suite."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from agent_eval.contracts import CaseIndexRow, CaseRegression, ComparedTopic, TrialComparison


def compared_topics(
    compared: Sequence[str],
    baseline: Mapping[str, CaseIndexRow],
    rows: Iterable[CaseRegression],
    trials: TrialComparison | None,
) -> list[ComparedTopic]:
    """Count the compared cases of each topic, and list those whose result changed.

    Args:
        compared: Ids of the compared cases.
        baseline: Rows of the baseline's index. A topic that only the candidate states does not count: a
            change could group its regressions with cases that rose.
        rows: Cases whose result changed.
        trials: Cases whose trials changed; None where every case has a single trial.
    """
    topics = {case_id: topic for case_id in compared if (topic := baseline[case_id].get("topic")) is not None}
    changed = {row.case_id for row in rows}
    if trials is not None:
        changed |= {change.case_id for change in trials.changes}
    by_topic: dict[str, list[str]] = {}
    for case_id in sorted(changed & topics.keys()):
        by_topic.setdefault(topics[case_id], []).append(case_id)
    return [
        ComparedTopic(topic=topic, compared=number, changed=by_topic.get(topic, []))
        for topic, number in sorted(Counter(topics.values()).items())
    ]
