"""Judges of the attempts an agent made: `execution` for how the last ended, `repair_path` for their order."""

from __future__ import annotations

from itertools import groupby, pairwise
from operator import itemgetter

from pydantic import Field
from typing_extensions import override

from agent_eval.contracts import Case, Trace, Verdict
from agent_eval.contracts.conversation import conversation_end
from agent_eval.contracts.run import ModelsUse
from agent_eval.contracts.verdict import EXECUTION, SIMULATING
from agent_eval.errors import FailureKind
from agent_eval.judges.base import EVIDENCE_LIMIT, BaseJudge, JudgeConfig, SoftJudgeConfig
from agent_eval.judges.reading import selected_attempt
from agent_eval.text.numbers import count


class ExecutionJudge(BaseJudge[JudgeConfig]):
    """Gives an error verdict if the selected attempt did not end by itself.

    Where the simulated user of a conversation failed, the verdict is inconclusive: that says nothing of the
    agent.

    The judge reads the case's `metadata.attempt_history` and `metadata.selected_attempt`. An agent that
    crashed, was stopped at a limit or gave an unreadable answer never passes, whatever it said before.
    An attempt that ended by itself is skipped, because that alone measures nothing.

    The evidence has what the model took that played the user of a conversation.
    """

    judge_id = EXECUTION
    reads = frozenset()
    needs_all = False

    @override
    def evaluate(self, case: Case, trace: Trace) -> Verdict:
        attempt = selected_attempt(case)
        if attempt is None:
            return self.skipped(case, "the case records no attempts")
        # What the model took that played the user.
        end = conversation_end(trace)
        simulator = (end.simulator if end is not None else None) or {}
        use = {name: simulator[name] for name in ModelsUse.model_fields if name in simulator}
        evidence = {SIMULATING: use} if use else None
        recorded = attempt.get("failure")
        if recorded is None:
            return self.skipped(case, "the agent came to its end", evidence=evidence)
        failure = FailureKind(recorded) if recorded in _FAILURES else FailureKind.AGENT_ERROR
        problem = attempt.get("problem")
        words = problem if isinstance(problem, str) and problem else "did not come to its end"
        if failure is FailureKind.SIMULATOR_ERROR:
            return self.inconclusive(case, words, evidence=evidence)
        return self.error(
            case,
            words if failure is FailureKind.ENVIRONMENT else f"the agent {words}",
            failure,
            refs=[event.idx for event in trace.events[-1:]],
            evidence=evidence,
        )


class RepairPathConfig(SoftJudgeConfig):
    """Limit on the number of attempts."""

    max_attempts: int | None = Field(default=None, ge=1)
    """Maximum number of attempts; null sets no limit."""


class RepairPathJudge(BaseJudge[RepairPathConfig]):
    """Checks the order of the attempts in the case's `metadata.attempt_history`.

    The history is a list of objects with `attempt`, whole numbers that rise and do not repeat; the events
    of the trace must not go back to an earlier attempt. Without the list, the judge uses the attempts
    that the events name; without those it skips the case. The score of a path in order is 1 divided by
    the number of attempts: the fewer, the better.
    """

    judge_id = "repair_path"
    reads = frozenset()
    needs_all = False
    Config = RepairPathConfig

    @override
    def evaluate(self, case: Case, trace: Trace) -> Verdict:
        event_attempts = [(event.attempt, event.idx) for event in trace.events if event.attempt is not None]
        history = case.metadata.get("attempt_history")
        if history is None or history == []:
            history = [{"attempt": attempt} for attempt, _ in groupby(event_attempts, key=itemgetter(0))]
        if history == []:
            return self.skipped(case, "the case records no attempts")
        if not isinstance(history, list):
            words = "metadata.attempt_history is not a list of attempts"
            return self.failed(case, words, FailureKind.TYPE_ERROR)
        for position, record in enumerate(history):
            if not isinstance(record, dict) or type(record.get("attempt")) is not int:
                words = f"metadata.attempt_history[{position}] has no whole number as its attempt"
                return self.failed(case, words, FailureKind.TYPE_ERROR)
        attempts = [record["attempt"] for record in history]
        evidence = {"attempts": attempts[:EVIDENCE_LIMIT], "attempt_count": len(attempts)}
        if disorder := _disorder(attempts, event_attempts):
            words, refs = disorder
            failure = FailureKind.CONTRACT_VIOLATION
            return self.failed(case, words, failure, refs=refs, evidence=evidence)
        limit = self.config.max_attempts
        if limit is not None and len(attempts) > limit:
            words = f"{len(attempts)} attempts were needed, more than {limit}"
            return self.failed(case, words, FailureKind.BUDGET_EXCEEDED, evidence=evidence)
        words = f"{count(len(attempts), 'attempt')}, in order"
        return self.passed(case, words, score=1 / len(attempts), evidence=evidence)


_FAILURES = [kind.value for kind in FailureKind]


def _disorder(attempts: list[int], event_attempts: list[tuple[int, int]]) -> tuple[str, list[int]] | None:
    """Describe the first break of order, with the indices of the events that show it; None if in order."""
    for before, after in pairwise(attempts):
        if after == before:
            return f"attempt {after} is recorded twice", []
        if after < before:
            return f"attempt {after} is recorded after attempt {before}", []
    for (before, _), (after, idx) in pairwise(event_attempts):
        if after < before:
            return f"event {idx} goes back to attempt {after} from attempt {before}", [idx]
    return None
