"""Whether a run says anything of its agent: one that was never reached was not evaluated."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from agent_eval.contracts import CaseResultRow, RunSummary, VerdictRow
from agent_eval.errors import FailureKind, NotEvaluable
from agent_eval.evidence.pack import Pack
from agent_eval.judges.execution import EXECUTION


def refuse_unreachable(pack: Pack, suite: Path) -> None:
    """Refuse a run in which something between this program and the agent failed in every trial.

    Args:
        pack: What the run left, which stays where it is.
        suite: What to call the run in messages.

    Raises:
        NotEvaluable: It says nothing of the agent.
    """
    if may_be_unreachable(pack.summary) and all(map(_was_unreachable, pack.results())):
        raise NotEvaluable(
            f"{suite}: the agent could not be reached in any of {pack.summary.total_cases} cases.",
            remedy="Check that it runs and that its address is right; the evidence has each error.",
            file=str(suite),
        )


def may_be_unreachable(summary: RunSummary) -> bool:
    """Whether it is worth looking at the cases."""
    return summary.passed_cases == 0 and FailureKind.INFRASTRUCTURE.value in summary.failures


def _was_unreachable(row: CaseResultRow) -> bool:
    trials: Sequence[Mapping[str, Sequence[VerdictRow]]] = row.get("trials") or [row]  # type: ignore[assignment]
    return all(_says_so(trial["verdicts"]) for trial in trials)


def _says_so(verdicts: Sequence[VerdictRow]) -> bool:
    return any(
        verdict["judge_id"] == EXECUTION and verdict["failure"] == FailureKind.INFRASTRUCTURE
        for verdict in verdicts
    )
