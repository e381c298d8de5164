"""Say why a run says nothing of the agent: no case was judged, or no trial reached it. That is an error."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from agent_eval.contracts import CaseResultRow, Outcome, RunSummary
from agent_eval.contracts.verdict import EXECUTION, WITHOUT_VERDICT, row_fault
from agent_eval.errors import FailureKind, Fault, NotEvaluable
from agent_eval.evidence.reader import Pack, open_pack
from agent_eval.gate.decide import why_unjudged_trials
from agent_eval.judges.base import ended_without_verdict
from agent_eval.text.escape import one_line
from agent_eval.text.numbers import of_all

_REASON_LIMIT = 200
_NOT_REACHED = frozenset({FailureKind.INFRASTRUCTURE.value, FailureKind.ENVIRONMENT.value})

CHECK_THE_AGENT = "Check how the agent is started or where it is; the evidence has each error."
RECORD_TRACES = "Record traces in the suite, or name the agent to run (`agent`); the evidence has each error."
CHECK_THE_JUDGE = "Check the judge's code, or its model's key, address and quota; then run again."
CHECK_THE_RUN = "The evidence has each error; run the agent again, or name judges that can judge it."


def why_unjudged(name: str, summary: RunSummary, results: Iterable[CaseResultRow]) -> str:
    """Say that no case could be judged, and why most could not; empty if one could.

    A run whose judges had nothing to judge is not meant: the gate says no to it.

    `name` is what was judged, as the sentence names it: a suite or a pack. `results` are of every case.
    """
    if not _is_unjudged(summary):
        return ""
    reasons: Counter[str] = Counter()
    for row in results:
        if row["outcome"] == Outcome.ERROR:
            # The first error; that of the agent's run first, from which others may follow.
            errors = [verdict for verdict in _verdicts(row) if verdict["outcome"] == Outcome.ERROR]
            errors.sort(key=lambda verdict: verdict["judge_id"] != EXECUTION)
            reason = errors[0]["reason"] if errors else "no verdict"
            reasons[one_line(reason, limit=_REASON_LIMIT).rstrip(".")] += 1
    [(reason, number)] = reasons.most_common(1)
    affected = "" if number == summary.total_cases else f" (in {of_all(number, summary.total_cases, 'case')})"
    return f"No case of `{one_line(name, limit=_REASON_LIMIT)}` could be judged: {reason}{affected}."


def remedy_for(results: Iterable[CaseResultRow], otherwise: str) -> str:
    """Choose what to do about a run that judged nothing: mend the judges where it is their fault."""
    faults = Counter(row_fault(row) for row in results)
    return CHECK_THE_JUDGE if faults.most_common(1)[0][0] is Fault.JUDGE else otherwise


def why_ended(summary: RunSummary, results: Iterable[CaseResultRow]) -> str | None:
    """Say which judge, in its process, ended without a verdict, and in which case first; None where none did.

    Its code may have been brought to that by what the agent said, so that a job decides nothing then.

    `results`, in suite order, are only read where a judge has errors.
    """
    if not any(counts.error for counts in summary.judge_counts.values()):
        return None
    for row in results:
        for verdict in _verdicts(row):
            if WITHOUT_VERDICT in verdict["evidence"]:
                how = one_line(str(verdict["evidence"][WITHOUT_VERDICT]), limit=_REASON_LIMIT)
                return f"{ended_without_verdict(verdict['judge_id'], row['case_id'])} It {how}."
    return None


def refuse_unjudged(where: Path, summary: RunSummary, *, name: str, remedy: str) -> None:
    """Refuse a run that judged no case, or lost too many trials. Its pack stays, with every error.

    `remedy` is what to do where it is not the judges' fault.

    Raises:
        NotEvaluable: No case could be judged, and why most could not; or too many trials could not be.
    """
    if _is_unjudged(summary):
        pack = open_pack(where)
        why = why_unjudged(name, summary, pack.results())
        raise NotEvaluable(why, remedy=remedy_for(pack.results(), remedy), file=name)
    if lost := why_unjudged_trials(summary):
        first, *to_do = lost
        raise NotEvaluable(
            f"{one_line(name, limit=_REASON_LIMIT)}: {first}", remedy=" ".join(to_do), file=name
        )


def refuse_unreachable(pack: Path, summary: RunSummary, suite: Path) -> None:
    """Refuse a run in which no trial could reach the agent. Its pack stays where it is.

    Raises:
        NotEvaluable: The infrastructure failed in every trial, so the run says nothing about the agent.
    """
    if was_unreachable(summary, lambda: open_pack(pack)):
        raise NotEvaluable(
            f"{suite}: the agent could not be reached in any of {summary.total_cases} cases.",
            remedy="Check that it runs and that its address is right; the evidence has each error.",
            file=str(suite),
        )


def was_unreachable(summary: RunSummary, read: Callable[[], Pack]) -> bool:
    """Tell whether no trial of a run could reach the agent. The pack is only read where that may be so."""
    if summary.passed_cases or _NOT_REACHED.isdisjoint(summary.failures):
        return False
    return all(
        any(each["judge_id"] == EXECUTION and each["failure"] in _NOT_REACHED for each in trial["verdicts"])
        for row in read().results()
        for trial in row.get("trials") or [row]
    )


def _is_unjudged(summary: RunSummary) -> bool:
    return summary.error_cases + summary.skipped_cases >= summary.total_cases and summary.error_cases > 0


def _verdicts(row: CaseResultRow) -> Iterator[Mapping[str, Any]]:
    for trial in row.get("trials") or [row]:
        yield from trial["verdicts"]
