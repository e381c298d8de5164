"""Comparison of the trials of each case, counted from the verdicts."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from fractions import Fraction

from agent_eval.comparison.facts import FAILURES, cut
from agent_eval.contracts import CaseResultRow, Outcome, TrialChange, TrialComparison, TrialCount, TrialSide
from agent_eval.contracts.verdict import TrialResultRow, count_trials

Counts = tuple[int, int, int]
"""Numbers of trials: passed, failed or not judged, and all."""

_CASE = ""
"""Key of the results of the trials themselves among the judges; no judge has an empty name."""
POLICIES_NAMED = 5


def has_trials(row: CaseResultRow) -> bool:
    """Tell whether a case has several trials."""
    return len(row.get("trials") or ()) > 1


def trials_of(row: CaseResultRow) -> Sequence[CaseResultRow | TrialResultRow]:
    """List the results of all trials of a case; a case with a single trial is that trial."""
    return row.get("trials") or [row]


def case_policies(rows: Iterable[CaseResultRow]) -> list[str]:
    """List the policies by which cases with several trials were decided, sorted."""
    policies = {row.get("case_policy") or "all" for row in rows if has_trials(row)}
    return sorted(cut(text, 40) for text in policies)[:POLICIES_NAMED]


def compare_trials(
    compared: Sequence[str],
    baseline: Mapping[str, CaseResultRow],
    candidate: Mapping[str, CaseResultRow],
) -> TrialComparison | None:
    """Compare the trials of the compared cases; None where no case has several in either run."""
    if not any(has_trials(run[case_id]) for case_id in compared for run in (baseline, candidate)):
        return None
    changes = [
        change for case_id in compared for change in _changes(case_id, baseline[case_id], candidate[case_id])
    ]
    return TrialComparison(
        baseline=_side(baseline[case_id] for case_id in compared),
        candidate=_side(candidate[case_id] for case_id in compared),
        changes=changes,
    )


def _changes(case_id: str, before: CaseResultRow, now: CaseResultRow) -> list[TrialChange]:
    was, is_now = _counts(before), _counts(now)
    nothing = (0, 0, 0)
    return [
        TrialChange(
            case_id=case_id,
            judge_id=name or None,
            baseline=_count(was.get(name, nothing)),
            candidate=_count(is_now.get(name, nothing)),
        )
        for name in sorted(was.keys() | is_now.keys())
        if was.get(name) != is_now.get(name)
    ]


def _count(counts: Counts) -> TrialCount:
    passed, failed, judged = counts
    return TrialCount(passed=passed, failed=failed, judged=judged)


def _counts(row: CaseResultRow) -> dict[str, Counts]:
    counts: dict[str, Counts] = {}
    trials = trials_of(row)
    for trial in trials:
        judged_by = [(verdict["judge_id"], verdict["outcome"]) for verdict in trial["verdicts"]]
        for name, outcome in [(_CASE, trial["outcome"]), *judged_by]:
            passed, failed, judged = counts.get(name, (0, 0, 0))
            counts[name] = (
                passed + (outcome == Outcome.PASSED.value),
                failed + (outcome in FAILURES),
                # A judge that skips a trial does not count.
                judged + (outcome != Outcome.SKIPPED.value),
            )
    # A trial that no judge judged does not count either; without any other it still did not pass.
    return {**counts, _CASE: (*counts[_CASE][:2], count_trials([trial["outcome"] for trial in trials])[1])}


def _side(rows: Iterable[CaseResultRow]) -> TrialSide:
    passed: list[int] = []
    numbers: list[int] = []
    errors = 0
    policies: set[str] = set()
    for row in rows:
        trials = trials_of(row)
        right, judged = count_trials([trial["outcome"] for trial in trials])
        passed.append(right)
        numbers.append(judged)
        errors += sum(trial["outcome"] == Outcome.ERROR.value for trial in trials)
        policies.update(case_policies([row]))
    rates = (Fraction(*counts) for counts in zip(passed, numbers, strict=True))
    return TrialSide(
        fewest=min(numbers),
        most=max(numbers),
        passed=sum(passed),
        errors=errors,
        total=sum(numbers),
        pass_rate=float(sum(rates) / len(numbers)),
        case_policies=sorted(policies)[:POLICIES_NAMED],
    )
