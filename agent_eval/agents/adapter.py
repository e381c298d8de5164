"""Evaluate any agent from Python: implement `AgentAdapter`, or make one of an AUI agent.

An adapter has the four functions that a run of conversations needs. They may be `async`. `AdapterAgent` and
`AdapterModel` put an adapter on the same rails as every other agent and model.
"""

from __future__ import annotations

import asyncio
import inspect
import itertools
import threading
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, TypeVar

from typing_extensions import override

from agent_eval.agents.aui import AuiAgent, record_aui_answer
from agent_eval.agents.base import Agent, AttemptResult, SessionSoFar, Surroundings, Task
from agent_eval.agents.recorder import LimitReached, Recorder
from agent_eval.agents.tools import CaseTools
from agent_eval.contracts import AttemptLimits, Case
from agent_eval.contracts.conversation import AUI, TURN_SECONDS
from agent_eval.contracts.suite import Conversation
from agent_eval.errors import FailureKind, NotEvaluable, UsageError, words_of
from agent_eval.models.base import (
    Message,
    Model,
    ModelFailure,
    ModelOptions,
    ModelReply,
    ModelRequest,
    Purpose,
)
from agent_eval.models.catalog import open_model
from agent_eval.models.client import ModelClient

T = TypeVar("T")


@dataclass(frozen=True)
class AgentResponse:
    """An agent's answer to one message.

    Attributes:
        executed_workflows: Names of workflows or tools that ran; None where that is not known.
        trace_info: What the agent understood and decided, as an AUI agent reports it; None where unknown.
        raw: The answer as it came, for readers of the evidence.
    """

    text: str
    executed_workflows: list[str] | None = None
    trace_info: dict[str, Any] | None = None
    raw: Mapping[str, Any] = field(default_factory=dict)


class AgentAdapter(ABC):
    """An agent and a model, as four functions. Each may be `async`; several threads may call them at once."""

    @abstractmethod
    def spawn_session(
        self, agent_id: str, api_key: str, label: str, model: str | None = None
    ) -> str | Awaitable[str]:
        """Begin a conversation, and return the key of its session.

        `label` is the name of the test; `model` is the one that the suite wants the agent to use.
        """

    @abstractmethod
    def send_message(
        self,
        session_key: str,
        message: str,
        user_info: Mapping[str, Any] | None = None,
        timeout: float | None = None,
    ) -> AgentResponse | Awaitable[AgentResponse]:
        """Send a message of the user, and return the agent's answer.

        `timeout` is the seconds that the agent has; raise `TimeoutError` after them.

        Raises:
            Exception: The agent failed, which fails the conversation; `ConnectionError`: it was not reached.
        """

    @abstractmethod
    def call_judge(self, prompt: str, model: str | None = None) -> str | Awaitable[str]:
        """Ask the model that judges, and return its reply."""

    @abstractmethod
    def generate_user_message(self, prompt: str, model: str | None = None) -> str | Awaitable[str]:
        """Ask the model that plays the user, and return what it says."""


def settled(value: T | Awaitable[T]) -> T:
    """Return the result of a function that may be `async`."""
    if not inspect.isawaitable(value):
        return value

    async def awaited() -> T:
        result: T = await value
        return result

    return asyncio.run(awaited())


class AdapterAgent(Agent):
    """The agent of an adapter, for the loop of turns."""

    def __init__(self, adapter: AgentAdapter, agent_id: str, api_key: str, model: str | None = None) -> None:
        self._adapter, self._agent_id, self._key, self._model = adapter, agent_id, api_key, model
        self._sessions: dict[str | None, str] = {}

    @override
    def describe(self) -> dict[str, Any]:
        kind = type(self._adapter)
        return {
            "agent": "adapter",
            "adapter": f"{kind.__module__}:{kind.__qualname__}",
            "agent_id": self._agent_id,
            "model": self._model,
        }

    @override
    def refuse(self, case: Case) -> str | None:
        about = case.conversation
        has_prompt = about is not None and about.system_prompt is not None
        return "a system prompt, which an adapter is not told" if has_prompt else None

    @override
    def end_session(self, session_id: str) -> None:
        self._sessions.pop(session_id, None)

    @override
    def attempt(self, task: Task, surroundings: Surroundings) -> AttemptResult:
        recorder = Recorder(task, surroundings)
        recorder.record_input()
        began = surroundings.clocks.monotonic()
        about, message = task.case.conversation, str(task.case.input)
        info = about.user_info if about is not None else None
        try:
            sent = self._adapter.send_message(self._session(task), message, info, task.limits.seconds)
            response = settled(sent)
            if not isinstance(response, AgentResponse):
                raise TypeError(
                    f"send_message returned {type(response).__name__} instead of an AgentResponse"
                )
        # An adapter is code of its author, and may raise anything.
        except Exception as error:
            recorder.seconds = surroundings.clocks.monotonic() - began
            return recorder.result(None, _failure_of(error), f"raised {words_of(error)}")
        recorder.seconds = surroundings.clocks.monotonic() - began
        try:
            if response.executed_workflows is None and response.trace_info is None:
                recorder.record_message(response.text, seconds=recorder.seconds)
            else:
                stated: dict[str, Any] = {"text": response.text}
                if response.executed_workflows is not None:
                    stated["executed_workflows"] = response.executed_workflows
                answer = {**response.raw, **stated}
                record_aui_answer(recorder, answer, response.trace_info, recorder.seconds)
            recorder.check_time()
        except LimitReached as reached:
            return recorder.result(None, reached.failure, reached.problem)
        if not response.text and response.trace_info is None:
            return recorder.result(None, FailureKind.MISSING_OUTPUT, "answered with nothing")
        return recorder.result(response.text)

    def _session(self, task: Task) -> str:
        """Return the adapter's session of the conversation, which is begun with its first message."""
        own_id = task.session.session_id if task.session is not None else None
        if own_id in self._sessions:
            return self._sessions[own_id]
        label = task.case.case_id
        spawned = settled(self._adapter.spawn_session(self._agent_id, self._key, label, self._model))
        if own_id is not None:
            self._sessions[own_id] = spawned
        return spawned


def _failure_of(error: Exception) -> FailureKind:
    if isinstance(error, TimeoutError):
        return FailureKind.TIMEOUT
    return FailureKind.INFRASTRUCTURE if isinstance(error, ConnectionError) else FailureKind.AGENT_ERROR


class AdapterModel(Model):
    """The model of an adapter, which judges and plays users.

    `model` is the one that is asked; empty for the adapter's own.
    """

    kind = "adapter"

    def __init__(self, adapter: AgentAdapter, model: str = "") -> None:
        self._adapter = adapter
        self.model = model or type(adapter).__qualname__
        self._asked_model = model or None

    @override
    def complete(self, request: ModelRequest) -> ModelReply:
        adapter = self._adapter
        if isinstance(adapter, AuiAdapter):  # with system message and schema, as on the command line
            return adapter.model.complete(replace(request, model=request.model or self._asked_model))
        # One text, for models that take nothing else.
        is_simulated, messages = request.purpose == "simulate", request.messages
        ask = adapter.generate_user_message if is_simulated else adapter.call_judge
        texts = [each.text for each in messages]
        if is_simulated or len(messages) > 1:
            texts = [f"{each.role}: {each.text}" for each in messages]
        try:
            text = settled(ask("\n\n".join([request.system, *texts]), request.model or self._asked_model))
        except ModelFailure:
            raise
        except Exception as error:
            kind = _failure_of(error)
            failure = FailureKind.JUDGE_ERROR if kind is FailureKind.AGENT_ERROR else kind
            raise ModelFailure(failure, f"raised {words_of(error, 500)}") from error
        if not isinstance(text, str):
            raise ModelFailure(FailureKind.JUDGE_ERROR, f"returned {type(text).__name__} instead of text")
        return ModelReply(text, model=self.model)


class AuiAdapter(AgentAdapter):
    """An AUI agent with a hosted model. Made by `create_aui_adapter`.

    `api_key` is the key of the AUI network, used where a suite has none.
    """

    def __init__(self, api_key: str, model: Model, *, base_url: str | None = None) -> None:
        self._key, self.model, self._base_url = api_key, model, base_url
        self._agents: dict[tuple[str, str], AuiAgent] = {}
        self._sessions: dict[str, tuple[AuiAgent, SessionSoFar]] = {}
        self._numbers = itertools.count(1)
        self._lock = threading.Lock()

    @override
    def spawn_session(self, agent_id: str, api_key: str, label: str, model: str | None = None) -> str:
        if model is not None:
            raise UsageError(
                f"the suite wants the model {model!r}, for which the AUI API has no field",
                remedy="Remove model from the suite.",
            )
        key = self._key or api_key
        with self._lock:
            session_key = f"{label} {next(self._numbers)}"
            agent = self._agents.get((agent_id, key))
            if agent is None:
                agent = AuiAgent(agent_id, base_url=self._base_url, api_key=key)
                self._agents[agent_id, key] = agent
            self._sessions[session_key] = (agent, SessionSoFar(session_key, 1))
        return session_key

    @override
    def send_message(
        self,
        session_key: str,
        message: str,
        user_info: Mapping[str, Any] | None = None,
        timeout: float | None = None,
    ) -> AgentResponse:
        agent, session = self._sessions[session_key]
        about = Conversation(user_info=dict(user_info or {}))
        case = Case(case_id=session_key, input=message, conversation=about)
        limits = AttemptLimits(seconds=TURN_SECONDS if timeout is None else timeout)
        result = agent.attempt(Task(case, limits=limits, session=session), Surroundings(CaseTools(case)))
        following = SessionSoFar(session_key, session.turn + 1, (), result.conversation)
        self._sessions[session_key] = (agent, following)
        if result.failure is not None:
            kinds = {FailureKind.TIMEOUT: TimeoutError, FailureKind.INFRASTRUCTURE: ConnectionError}
            raise kinds.get(result.failure, NotEvaluable)(result.problem)
        answer = next(event.attributes[AUI] for event in reversed(result.events) if AUI in event.attributes)
        text = result.output if isinstance(result.output, str) else str(result.output)
        return AgentResponse(text, answer.get("executed_workflows"), answer.get("trace_info"), answer)

    @override
    def call_judge(self, prompt: str, model: str | None = None) -> str:
        return self._ask("judge", prompt, model)

    @override
    def generate_user_message(self, prompt: str, model: str | None = None) -> str:
        return self._ask("simulate", prompt, model)

    def _ask(self, purpose: Purpose, prompt: str, model: str | None) -> str:
        request = ModelRequest(purpose, "", (Message("user", (prompt,)),), model=model)
        return self.model.complete(request).text

    def close(self) -> None:
        """Close the connections to agents and model."""
        for agent in self._agents.values():
            agent.close()
        self.model.close()


def create_aui_adapter(
    api_key: str,
    llm_key: str | None = None,
    provider: str = "openai",
    *,
    base_url: str | None = None,
    llm_model: str | None = None,
    llm_base_url: str | None = None,
    llm_script: Path | None = None,
) -> AuiAdapter:
    """Make an adapter of an AUI agent and a hosted model.

    More than six parameters: all but the key of the AUI network have a default.

    Args:
        provider: The model's, one of `models.catalog.MODELS`.
        base_url: Address of the AUI API; None for AUI's own.
        llm_model, llm_base_url: Name and address of the model; None for the provider's own.

    Raises:
        UsageError: There is no such provider, or the model cannot be used.
    """
    options = ModelOptions(model=llm_model, base_url=llm_base_url, api_key=llm_key, script=llm_script)
    return AuiAdapter(api_key, ModelClient(open_model(provider, options)), base_url=base_url)
