"""Say why a run judged none of its cases: such a run is neither a pass nor a first baseline, but an error."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

from agent_eval.comparison.facts import RunView
from agent_eval.contracts import CaseResultRow, Outcome
from agent_eval.contracts.verdict import EXECUTION
from agent_eval.gate.fitness import judged_nothing
from agent_eval.text.escape import one_line
from agent_eval.text.numbers import of_all

_REASON_LIMIT = 200
_REMEDIES = {
    True: "Check how the agent is started or where it is; the evidence has each error.",
    False: "Record traces in the suite, or name the agent to run (`agent-command`, `agent-url`).",
}
"""By whether the job runs an agent."""


def why_unjudged(suite: Path, run: RunView, *, has_agent: bool) -> str:
    """Say that no case could be judged, why most could not, and what to do; empty if one could.

    A run whose judges had nothing to judge is not meant: the gate says no to it.

    Args:
        suite: The suite's file.
        run: The run of the suite.
        has_agent: Whether the job ran an agent, rather than judge recorded traces.
    """
    if not judged_nothing(run.summary) or not run.summary.error_cases:
        return ""
    reasons = Counter(_reason(row) for row in run.results.values() if row["outcome"] == Outcome.ERROR)
    [(reason, number)] = reasons.most_common(1)
    total = run.summary.total_cases
    name = one_line(str(suite), limit=_REASON_LIMIT)
    affected = "" if number == total else f" (in {of_all(number, total, 'case')})"
    return f"No case of `{name}` could be judged: {reason}{affected}. {_REMEDIES[has_agent]}"


def _reason(row: CaseResultRow) -> str:
    """Take the reason of the first error; that of the agent's run first, from which others may follow."""
    verdicts = [verdict for trial in row.get("trials") or [row] for verdict in trial["verdicts"]]
    errors = [verdict for verdict in verdicts if verdict["outcome"] == Outcome.ERROR]
    errors.sort(key=lambda verdict: verdict["judge_id"] != EXECUTION)
    return one_line(errors[0]["reason"], limit=_REASON_LIMIT).rstrip(".") if errors else "no verdict"
