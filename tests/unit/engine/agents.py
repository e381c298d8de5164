"""Agents that do what a test wants."""

import threading
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

from agent_eval.agents.base import AttemptResult, Clocks, Surroundings, Task
from agent_eval.agents.recorder import LimitReached, Recorder
from agent_eval.contracts import Case
from agent_eval.errors import FailureKind
from agent_eval.models.retries import Reply

STILL = Clocks(wall=lambda: datetime(2026, 1, 1, tzinfo=UTC), monotonic=lambda: 0.0)
"""Clocks that stand still, so that the same run gives the same bytes."""

Behaviour = Callable[[Task], "Answer"]


class Answer:
    """What an agent does in an attempt: calls tools, then says something; or fails."""

    def __init__(
        self,
        output: Any = "done",
        *,
        calls: tuple[str, ...] = ("lookup",),
        failure: FailureKind | None = None,
        seconds: float = 0.0,
        stderr: bytes = b"",
        attributes: dict[str, Any] | None = None,
        asked_wait: float | None = None,
        rate_limited: bool = False,
    ) -> None:
        self.output, self.calls, self.failure, self.seconds = output, calls, failure, seconds
        self.stderr, self.attributes = stderr, attributes
        self.asked_wait, self.rate_limited = asked_wait, rate_limited


class FakeAgent:
    """Behaves as told, and remembers its tasks."""

    replays = False
    account = None
    unseen = ()

    def __init__(self, behaviour: Behaviour) -> None:
        self._behaviour = behaviour
        self.tasks: list[Task] = []
        self._lock = threading.Lock()

    def describe(self) -> dict[str, Any]:
        return {"agent": "fake"}

    def refuse(self, case: Case) -> str:
        return ""

    def end_session(self, session_id: str) -> None:
        pass

    def attempt(self, task: Task, surroundings: Surroundings) -> AttemptResult:
        with self._lock:
            self.tasks.append(task)
        recorder = Recorder(task, surroundings)
        recorder.record_input()

        def send() -> Reply[Answer]:
            answer = self._behaviour(task)
            failure = answer.failure if answer.failure is FailureKind.INFRASTRUCTURE else None
            return Reply(answer, failure, "broke", answer.asked_wait, answer.rate_limited)

        sent, recorder.retries = surroundings.retry(send)
        answer = sent.value
        assert answer is not None
        recorder.seconds = answer.seconds
        if answer.stderr:
            recorder.artifacts["stderr.txt"] = answer.stderr
        if answer.failure is not None:
            return recorder.result(None, answer.failure, "broke")
        try:
            for tool in answer.calls:
                recorder.call_tool(tool, {}, recorder.record_call(tool, {}))
        except LimitReached as reached:
            return recorder.result(None, reached.failure, reached.problem)
        recorder.add("agent", "message", output=answer.output, attributes=dict(answer.attributes or {}))
        return recorder.result(answer.output)
