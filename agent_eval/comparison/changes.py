"""The cases whose result changed from the baseline to the candidate, and the judges that changed it."""

from __future__ import annotations

from collections.abc import Mapping

from agent_eval.comparison.facts import FAILURES, CaseOutcome, cut, regression_key
from agent_eval.contracts import CaseRegression, CaseResultRow, JudgeChange, Outcome, VerdictRow

Pair = tuple[CaseOutcome, CaseOutcome]
"""Outcomes of a case in the baseline and in the candidate."""

REASON_LIMIT = 1_000
"""Maximum characters of a judge's reason in a comparison; the pack has all of it."""


def new_hard_fail(before: CaseOutcome, now: CaseOutcome) -> bool:
    """Tell whether a case hard-fails now and did not before."""
    return now.hard_failed and not before.hard_failed


def is_regressed(before: CaseOutcome, now: CaseOutcome) -> bool:
    """Tell whether a case passed before and does not now, or is a new hard fail."""
    return (before.passed and not now.passed) or new_hard_fail(before, now)


def is_improved(before: CaseOutcome, now: CaseOutcome) -> bool:
    """Tell whether a case would be regressed in the other direction, and is not regressed."""
    return is_regressed(now, before) and not is_regressed(before, now)


def case_regressions(
    pairs: Mapping[str, Pair],
    baseline: Mapping[str, CaseResultRow],
    candidate: Mapping[str, CaseResultRow],
) -> list[CaseRegression]:
    """List every case whose result or whose judges' outcomes changed.

    Regressed cases come first, those with a new hard fail before the others; then improved cases; then cases
    that fail in another way than before. Each group is sorted by case id.
    """
    rows = [
        _row(case_id, pair, baseline[case_id], candidate[case_id])
        for case_id, pair in pairs.items()
        # Outcomes are shared objects, so the identity check already skips most unchanged cases.
        if pair[0] is not pair[1] and pair[0] != pair[1]
    ]
    return sorted(rows, key=_order)


def _order(row: CaseRegression) -> tuple[bool, bool, bool, str]:
    hard = row.candidate_hard_failed and not row.baseline_hard_failed
    return (not row.regressed, not hard, not row.improved, row.case_id)


def _row(case_id: str, pair: Pair, baseline: CaseResultRow, candidate: CaseResultRow) -> CaseRegression:
    before, now = pair
    return CaseRegression(
        case_id=case_id,
        baseline_outcome=Outcome(before.outcome),
        candidate_outcome=Outcome(now.outcome),
        baseline_passed=before.passed,
        candidate_passed=now.passed,
        baseline_hard_failed=before.hard_failed,
        candidate_hard_failed=now.hard_failed,
        regressed=is_regressed(before, now),
        improved=is_improved(before, now),
        judges=_judge_changes(before, now, baseline, candidate),
    )


def _judge_changes(
    before: CaseOutcome, now: CaseOutcome, baseline: CaseResultRow, candidate: CaseResultRow
) -> list[JudgeChange]:
    names = [
        name
        for name in before.judges.keys() | now.judges.keys()
        if before.judges.get(name) != now.judges.get(name)
    ]
    changes = [
        _judge_change(name, _verdict(baseline, name, before), _verdict(candidate, name, now))
        for name in names
    ]
    return sorted(changes, key=lambda change: (change.failure is None, change.judge_id))


def _verdict(row: CaseResultRow, judge_id: str, case: CaseOutcome) -> VerdictRow | None:
    for verdict in row["verdicts"]:
        if verdict["judge_id"] == judge_id and verdict["outcome"] == case.judges[judge_id]:
            return verdict
    return None


def _judge_change(judge_id: str, before: VerdictRow | None, now: VerdictRow | None) -> JudgeChange:
    return JudgeChange(
        judge_id=judge_id,
        baseline=Outcome(before["outcome"]) if before else None,
        candidate=Outcome(now["outcome"]) if now else None,
        baseline_score=before["score"] if before else None,
        candidate_score=now["score"] if now else None,
        reason=cut(now["reason"], REASON_LIMIT) if now else "",
        failure=now["failure"] if now and now["outcome"] in FAILURES else None,
        evidence_refs=list(now["evidence_refs"]) if now else [],
        regression_key=_key(now) if now else "",
    )


def _key(now: VerdictRow) -> str:
    if now["outcome"] == Outcome.PASSED.value:
        return ""
    return regression_key(now["case_id"], now["judge_id"], now["failure"], now["reason"])
