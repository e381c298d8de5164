"""Attempts that left no result: their process ended with them, or an exception that nothing foresaw."""

from __future__ import annotations

import traceback
from dataclasses import dataclass

from agent_eval.agents.base import AttemptResult, Surroundings, Task
from agent_eval.agents.recorder import Recorder
from agent_eval.errors import FailureKind


@dataclass(frozen=True, slots=True)
class LostAttempt:
    """An attempt whose process ended with it, so that only its failure is known.

    `seconds` is the time that the agent took.
    """

    failure: FailureKind
    problem: str
    seconds: float

    def result(self, task: Task, surroundings: Surroundings) -> AttemptResult:
        """Make the result of the attempt, with the case's input as its only event."""
        recorder = Recorder(task, surroundings)
        recorder.record_input()
        recorder.seconds = self.seconds
        return recorder.result(None, self.failure, self.problem)


TRACEBACK = "traceback.txt"
"""Artifact with the traceback of an exception that nothing foresaw."""


def unforeseen(error: Exception) -> LostAttempt:
    """Describe an attempt that an exception ended which nothing foresaw: a mistake of this program.

    Its kind is `INFRASTRUCTURE`: the agent did nothing wrong, and has nothing to repair.
    """
    words = f"could not be evaluated: {type(error).__name__}: {error}"[:2000]
    return LostAttempt(FailureKind.INFRASTRUCTURE, words.encode("utf-8", "replace").decode(), seconds=0.0)


def traceback_of(error: Exception) -> bytes:
    """Format the traceback of an exception."""
    return "".join(traceback.format_exception(error)).encode("utf-8", "replace")
