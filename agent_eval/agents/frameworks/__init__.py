"""Agent objects of frameworks as agents under test: one module a framework, and its row in `catalog`."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Awaitable, Mapping
from typing import Any

from agent_eval.errors import FailureKind


class CaseTools(ABC):
    """The tools of the case. A function with a second parameter calls it."""

    @abstractmethod
    def answer(self, tool: str, arguments: Any, *, is_recorded: bool = False) -> Mapping[str, Any]:
        """Return a tool's `output`, `error` and `source`; the caller records the call, unless it is here.

        Raises:
            RuntimeError: The attempt is over.
        """

    def __call__(self, tool: str, arguments: Any = None) -> Any:
        """Return a tool's output; raise RuntimeError where it fails."""
        answer = self.answer(tool, {} if arguments is None else arguments, is_recorded=True)
        if answer["error"] is not None:
            raise RuntimeError(f"the tool {tool} failed: {answer['error']}")
        return answer["output"]


class AgentObject(ABC):
    """An agent object, called as a function.

    Attributes:
        unable: What it cannot carry, with the reason: `answers` of a case's tools, `turns`.
        leaves_threads: Whether a call that is cancelled goes on in a thread.
        one_at_a_time: Whether a conversation must not begin before the one before it is over.
    """

    unable: Mapping[str, str]
    leaves_threads: bool
    one_at_a_time: bool

    @abstractmethod
    def __call__(
        self, task: Mapping[str, Any], limits: Mapping[str, Any], tools: CaseTools | None
    ) -> Awaitable[dict[str, Any]]:
        """Take one turn; return its events.

        `limits` has the `steps` of the turn and the `answer_tool` of the case; `tools` answer in place of the
        agent's own, and are None where these run.

        Raises:
            Unfinished: The agent failed; raised from what it raised.
        """

    @abstractmethod
    def end_session(self, session_id: str) -> None:
        """Let a conversation go."""


class Unfinished(Exception):
    """A turn came to no answer: what it did until then, the kind of failure and the problem in words."""

    def __init__(self, events: list[dict[str, Any]], failure: FailureKind, problem: str) -> None:
        super().__init__(problem)
        self.events, self.failure, self.problem = events, failure, problem
