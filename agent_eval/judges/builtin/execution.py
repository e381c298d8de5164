"""Whether the agent came to its end, in runs that execute one."""

from __future__ import annotations

from itertools import groupby, pairwise
from operator import itemgetter
from typing import Any

from pydantic import Field

from agent_eval.contracts import Case, Trace, Verdict
from agent_eval.errors import FailureKind
from agent_eval.judges.base import EVIDENCE_LIMIT, BaseJudge, JudgeConfig, SoftJudgeConfig
from agent_eval.text.numbers import count

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


class RepairPathConfig(SoftJudgeConfig):
    """What counts as a repair still."""

    max_attempts: int | None = Field(default=None, ge=1)
    """Attempts at most; null leaves the number free."""


class RepairPathJudge(BaseJudge[RepairPathConfig]):
    """Checks the attempts in the case's `metadata.attempt_history`, a list of objects with `attempt`.

    Attempts are whole numbers that rise and do not repeat; the events of the trace do not go back to an
    earlier attempt. Without the list, the attempts are those of the events; without any, it is skipped.
    The score of a path in order is 1 divided by the number of attempts: the fewer, the better.
    """

    judge_id = "repair_path"
    Config = RepairPathConfig

    def evaluate(self, case: Case, trace: Trace) -> Verdict:
        """See the class."""
        in_events = [(event.attempt, event.idx) for event in trace.events if event.attempt is not None]
        history = case.metadata.get("attempt_history")
        if history is None or history == []:
            history = [{"attempt": attempt} for attempt, _ in groupby(in_events, key=itemgetter(0))]
        if history == []:
            return self.skipped(case, "the case records no attempts")
        if not isinstance(history, list):
            words = "metadata.attempt_history is no list of attempts"
            return self.failed(case, words, FailureKind.TYPE_ERROR)
        for position, record in enumerate(history):
            if not isinstance(record, dict) or type(record.get("attempt")) is not int:
                words = f"metadata.attempt_history[{position}] has no whole number as its attempt"
                return self.failed(case, words, FailureKind.TYPE_ERROR)
        attempts = [record["attempt"] for record in history]
        evidence = {"attempts": attempts[:EVIDENCE_LIMIT], "attempt_count": len(attempts)}
        words, refs = _disorder(attempts, in_events)
        if words:
            failure = FailureKind.CONTRACT_VIOLATION
            return self.failed(case, words, failure, refs=refs, evidence=evidence)
        limit = self.config.max_attempts
        if limit is not None and len(attempts) > limit:
            words = f"{len(attempts)} attempts were needed, more than {limit}"
            return self.failed(case, words, FailureKind.BUDGET_EXCEEDED, evidence=evidence)
        words = f"{count(len(attempts), 'attempt')}, in order"
        return self.passed(case, words, score=1 / len(attempts), evidence=evidence)


def _disorder(attempts: list[int], in_events: list[tuple[int, int]]) -> tuple[str, list[int]]:
    """What is out of order, in words, and the events that show it."""
    for before, after in pairwise(attempts):
        if after == before:
            return f"attempt {after} is recorded twice", []
        if after < before:
            return f"attempt {after} is recorded after attempt {before}", []
    for (before, _), (after, idx) in pairwise(in_events):
        if after < before:
            return f"event {idx} goes back to attempt {after} from attempt {before}", [idx]
    return "", []
