"""Hold conversations with an agent object of a framework, on the one event loop of its process.

Clients of models are bound to the loop that used them first, and many are shared by a whole process: with a
loop for each case, every second case fails. So all adapters are coroutines, which `function_child` awaits.
"""

from __future__ import annotations

import asyncio
import functools
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Mapping
from contextvars import ContextVar
from typing import Any, ClassVar

from typing_extensions import override

from agent_eval.agents.frameworks import AgentObject, CaseTools, Unfinished
from agent_eval.agents.frameworks.trajectory import Trajectory, plain, read_json
from agent_eval.agents.recorder import as_text, cut_short
from agent_eval.contracts.event import is_blank
from agent_eval.errors import FailureKind, words_of


class Conversation(ABC):
    """One conversation with an agent object, fresh for each trial. A framework's module has a subclass.

    Attributes:
        tools: Answers calls in place of the agent's own tools; None where these run.
        trajectory: Of the turn in progress.
    """

    leaves_threads: ClassVar[bool] = False
    """Whether a turn that is cancelled goes on in a thread."""
    one_at_a_time: ClassVar[bool] = False
    """Whether the agent has one conversation at a time."""

    def __init__(self, agent: Any, tools: CaseTools | None) -> None:
        self.agent, self.tools = agent, tools
        self.trajectory: Trajectory
        self.begin()

    def begin(self) -> None:  # noqa: B027 - most need nothing
        """Begin it, where the framework needs more than the agent; an agent that keeps things is copied."""

    @classmethod
    def unable(cls, agent: Any) -> Mapping[str, str]:  # noqa: ARG003 - most carry everything
        """Return what this agent cannot carry, with the reason: `answers` of the case's tools, `turns`."""
        return {}

    def answer_here(self, tool: str, arguments: Any, call_id: str) -> Any:
        """As `answer_of_the_case`, for a framework whose tools are no coroutines."""
        assert self.tools is not None
        answer = self.tools.answer(tool, plain(read_json(arguments)))
        self.trajectory.result(call_id, answer["output"], answer["error"], answer["source"])
        return answer["output"] if answer["error"] is None else {"error": answer["error"]}

    async def answer_of_the_case(self, tool: str, arguments: Any, call_id: str) -> Any:
        """Record the case's answer as the result of a call; return it as the model reads it."""
        return await asyncio.to_thread(self.answer_here, tool, arguments, call_id)

    async def carry_out(
        self, tool: str, arguments: Any, call_id: str, run: Callable[[], Awaitable[Any]]
    ) -> Any:
        """Let the tool run, or the case answer in its place; record the result, also an exception."""
        if self.tools is not None:
            return await self.answer_of_the_case(tool, arguments, call_id)
        try:
            output = await run()
        except Exception as error:
            self.trajectory.result(call_id, error=error)
            raise
        self.trajectory.result(call_id, output)
        return output

    @staticmethod
    def messages(message: Any) -> list[Any]:
        """Return a case's input as messages: a list is one of them, all else is what a user says."""
        return message if isinstance(message, list) else [{"role": "user", "content": as_text(message)}]

    @staticmethod
    def must_not_wait(requests: Any) -> None:
        """Raise where a run ended because a human has to approve or answer something."""
        if requests:
            raise RuntimeError(f"it waits for a human: {plain(requests)}")

    @abstractmethod
    async def say(self, message: Any) -> Any:
        """Say a case's input, or that of its next turn; return the agent's answer, which may be None.

        Whatever the agent raises is its failure.
        """


_IN_PROGRESS: ContextVar[Conversation | None] = ContextVar("conversation", default=None)
_TURNS = set[Conversation]()


def in_progress() -> Conversation | None:
    """Return the conversation in whose turn the caller runs, for what a framework tells a whole process.

    A tool may run agents in a thread that does not know the turn: then no turn's calls are all known.
    """
    conversation = _IN_PROGRESS.get()
    if conversation is None:
        for each in tuple(_TURNS):
            each.trajectory.unread("an agent ran in another thread: its calls belong to no known case")
    return conversation


def in_place_of(owner: Any, name: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Put a function in place of a method by which every way to run an agent goes, also an agent of a tool.

    It gets the method and the conversation in whose turn it is called; outside of one the method is called.
    """
    real = getattr(owner, name)

    def put(function: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(real)
        def called(*arguments: Any, **options: Any) -> Any:
            conversation = in_progress()
            if conversation is None:
                return real(*arguments, **options)
            return function(real, conversation, *arguments, **options)

        setattr(owner, name, called)
        return function

    return put


class FrameworkAgent(AgentObject):
    """An agent object with its conversations in progress."""

    def __init__(self, agent: Any, kind: type[Conversation]) -> None:
        self._agent, self._kind = agent, kind
        self.leaves_threads, self.one_at_a_time = kind.leaves_threads, kind.one_at_a_time
        self.unable = dict(kind.unable(agent))
        self._conversations: dict[str, Conversation] = {}

    @override
    async def __call__(
        self, task: Mapping[str, Any], limits: Mapping[str, Any], tools: CaseTools | None
    ) -> dict[str, Any]:
        trajectory = Trajectory(limits["steps"], limits["answer_tool"])
        conversation = self._conversation(task, tools)
        conversation.trajectory = trajectory
        _IN_PROGRESS.set(conversation)
        _TURNS.add(conversation)
        try:
            message = task["input"]
            if task["previous_attempts"]:
                from agent_eval.agents.hosted import feedback_on  # few runs repair

                feedback = [each for attempt in task["previous_attempts"] for each in feedback_on(attempt)]
                message = "\n\n".join([as_text(message), *(each["content"] for each in feedback)])
            trajectory.finish(await conversation.say(message))
        except asyncio.CancelledError as cancelled:
            if not trajectory.is_over:
                raise
            words = f"did not come to an end within {limits['steps']} steps"
            raise Unfinished(trajectory.events(), FailureKind.BUDGET_EXCEEDED, words) from cancelled
        # An agent may raise anything, also SystemExit.
        except BaseException as error:
            words = f"raised {words_of(error)}"
            raise Unfinished(trajectory.events(), FailureKind.AGENT_ERROR, words) from error
        finally:
            _TURNS.discard(conversation)
        events, last = trajectory.events(), trajectory.last_message or {}
        problem_of_answer = cut_short(last.get("stop_reason"))
        if problem_of_answer is None and is_blank(last.get("output")):
            problem_of_answer = FailureKind.MISSING_OUTPUT, "came to an end without an answer"
        if problem_of_answer is not None:
            raise Unfinished(events, *problem_of_answer)
        return {"events": events}

    @override
    def end_session(self, session_id: str) -> None:
        self._conversations.pop(session_id, None)

    def _conversation(self, task: Mapping[str, Any], tools: CaseTools | None) -> Conversation:
        session_id = task.get("session_id")
        if session_id is None:
            return self._kind(self._agent, tools)
        if task["turn"] == 1:
            self._conversations[session_id] = self._kind(self._agent, tools)
        conversation = self._conversations[session_id]
        conversation.tools = tools
        return conversation
