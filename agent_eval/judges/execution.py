"""Whether the agent came to its end, in runs that execute one."""

from __future__ import annotations

from typing import Any

from agent_eval.contracts import Case, Trace, Verdict
from agent_eval.errors import FailureKind
from agent_eval.judges.protocol import BaseJudge, JudgeConfig

EXECUTION = "execution"
"""Its id. Every run of an agent has this judge."""


class ExecutionJudge(BaseJudge[JudgeConfig]):
    """Gives an error verdict where the selected attempt did not end by itself.

    It reads the case's `metadata.attempt_history` and `metadata.selected_attempt`: an agent that crashed, was
    stopped at a limit or answered with nothing that can be read never passes, whatever it had said before.
    An attempt that ended by itself is skipped, since that measures nothing.
    """

    judge_id = EXECUTION
    Config = JudgeConfig

    def evaluate(self, case: Case, trace: Trace) -> Verdict:
        """See the class."""
        attempt = _selected(case)
        if attempt is None:
            return self.skipped(case, "the case records no attempts")
        stated = attempt.get("failure")
        if stated is None:
            return self.skipped(case, "the agent came to its end")
        failure = FailureKind(stated) if stated in _KINDS else FailureKind.AGENT_ERROR
        problem = attempt.get("problem")
        words = problem if isinstance(problem, str) and problem else "did not come to its end"
        last = trace.events[-1:]
        return self.error(case, f"the agent {words}", failure, refs=[event.idx for event in last])


_KINDS = [kind.value for kind in FailureKind]


def _selected(case: Case) -> dict[str, Any] | None:
    history = case.metadata.get("attempt_history")
    if not isinstance(history, list):
        return None
    attempts = [record for record in history if isinstance(record, dict)]
    number = case.metadata.get("selected_attempt")
    chosen = [record for record in attempts if record.get("attempt") == number]
    found = chosen or attempts
    return found[-1] if found else None
