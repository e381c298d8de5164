"""The interface of agents under test: what an agent is asked in one attempt, and what it returns.

An agent answers in one piece (an output and its tool calls, which are answered from the case afterwards) or
step by step, with each tool call answered before its next step. Both produce the same events.
"""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, ClassVar, Literal, Protocol

from typing_extensions import override

from agent_eval.contracts import AttemptLimits, Case, Event
from agent_eval.errors import FailureKind, UsageError
from agent_eval.models.retries import Retry, send_once

Mode = Literal["propose", "repair"]
SHARE_EXPECTED_OUTPUT = "share_expected_output"
"""Key of a case's metadata that makes the agent receive the expected output."""


@dataclass(frozen=True, slots=True)
class SessionSoFar:
    """The turns before the present one of a conversation, whose number is `turn`, from 1.

    Attributes:
        session_id: The same in each turn of one attempt, and in no other attempt; never recorded.
        history: For each turn before, its `input`, and the agent's `assistant_output` and `tool_calls`.
        conversation: What the agent's `AttemptResult.conversation` was in the turn before.
    """

    session_id: str
    turn: int
    history: Sequence[Mapping[str, Any]] = ()
    conversation: Sequence[Any] = ()


@dataclass(frozen=True, slots=True)
class Task:
    """One attempt at a case, from 0, or one turn of it.

    Attributes:
        previous_attempts: Responses of earlier attempts with the judges' verdicts on them, as plain JSON.
        share_expected_output: Whether the agent receives the expected output, which makes it no evaluation.
        session: The conversation so far, where the task is one turn of a case with `turns`.
    """

    case: Case
    mode: Mode = "propose"
    attempt: int = 0
    previous_attempts: Sequence[Mapping[str, Any]] = ()
    share_expected_output: bool = False
    limits: AttemptLimits = field(default_factory=AttemptLimits)
    session: SessionSoFar | None = None

    def payload(self) -> dict[str, Any]:
        """Return the JSON object that an agent that answers in one piece receives.

        It has nothing of the metadata, which holds the answers of the tools and what judges expect.
        """
        contracts = {name: contract.to_json() for name, contract in self.case.tool_contracts.items()}
        shares = self.share_expected_output or self.case.metadata.get(SHARE_EXPECTED_OUTPUT) is True
        of_turn: dict[str, Any] = {}
        if (session := self.session) is not None:
            of_turn = {
                "session_id": session.session_id,
                "turn": session.turn,
                "history": list(session.history),
            }
        if (conversation := self.case.conversation) is not None:
            of_turn["user_info"] = conversation.user_info
            if conversation.system_prompt is not None:
                of_turn["system_prompt"] = conversation.system_prompt
        return {
            **of_turn,
            "mode": self.mode,
            "case_id": self.case.case_id,
            "input": self.case.input,
            "expected_output": self.case.expected_output if shares else None,
            "attempt": self.attempt,
            "previous_attempts": list(self.previous_attempts),
            "contracts": contracts,
            "tool_contracts": contracts,  # the name that the suite uses
            "policy": self.case.policy.to_json(),
        }


@dataclass(frozen=True, slots=True)
class Clocks:
    """The clocks of a run: the time with its offset, and seconds that never decrease.

    Pinned clocks make the same run write the same bytes; latencies are then 0.
    """

    wall: Callable[[], datetime] = lambda: datetime.now(UTC)
    monotonic: Callable[[], float] = time.monotonic

    def stamp(self) -> str:
        """Return the current time as ISO 8601."""
        return self.wall().isoformat(timespec="milliseconds")


@dataclass(frozen=True, slots=True)
class ToolAnswer:
    """The answer of a tool to one call.

    Attributes:
        source: Origin of the answer: `tool_response_cassette`, `tool_responses`, `cassette`, `live`,
            `refused` or `missing`; `final_output` for a call that is the agent's answer itself.
        retries: How often the call of a live tool was repeated.
        waited: Seconds spent waiting between these repetitions; they do not count as the agent's time.
    """

    output: Any = None
    error: Any = None
    source: str = "missing"
    retries: int = 0
    waited: float = 0.0


class Tools(Protocol):
    """Answers the tool calls of one attempt."""

    def answer(self, tool: str, arguments: Any) -> ToolAnswer:
        """Answer a call."""
        ...

    def recorded(self) -> Sequence[dict[str, Any]]:
        """Return the calls of the attempt that live tools answered, in order, as rows of a cassette."""
        ...


class AttemptEnded(Exception):
    """Why an attempt cannot go on: the kind of failure, and the problem in words."""

    def __init__(self, failure: FailureKind, problem: str) -> None:
        super().__init__(problem)
        self.failure, self.problem = failure, problem


class Disturbed(Exception):
    """An attempt was lost with the process that it shared with others, and which of them ended it is unknown.

    It is made again with `Surroundings.alone`, as if it had not been made before.
    """


class ToolFault(AttemptEnded):
    """A tool call has no answer, and the attempt cannot continue without one."""


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What an attempt needs besides its task.

    `retry` repeats requests; agents repeat nothing themselves. `alone` asks that no other attempt is in the
    same process, if the agent runs several in one.
    """

    tools: Tools
    retry: Retry = send_once
    clocks: Clocks = field(default_factory=Clocks)
    alone: bool = False


@dataclass(frozen=True, slots=True)
class AttemptResult:
    """Result of one attempt.

    Attributes:
        events: From index 0; a failed attempt has those up to its failure.
        tool_calls: `{"tool", "arguments"}` in call order.
        failure: Why the attempt failed, regardless of what judges would say; None if the agent finished by
            itself. Requests that failed with `INFRASTRUCTURE` have been repeated already.
        seconds: Time that the agent took, without waiting for retries.
        tokens: As far as the model's provider reports them.
        artifacts: Files for the case's folder by name, such as `stderr.txt`.
        conversation: What the agent needs to continue the conversation in a further turn.
        turns: Of a conversation, the output and tool calls of each turn.
        is_uncertain: Whether the agent keeps a state that may have the last message, which no answer tells:
            the conversation cannot go on, but it can begin anew.
    """

    events: list[Event]
    output: Any = None
    tool_calls: list[dict[str, Any]] = field(default_factory=list)
    failure: FailureKind | None = None
    problem: str = ""
    seconds: float = 0.0
    retries: int = 0
    steps: int = 0
    tokens: float = 0
    artifacts: Mapping[str, bytes] = field(default_factory=dict)
    conversation: Sequence[Any] = ()
    turns: Sequence[Mapping[str, Any]] = ()
    is_uncertain: bool = False

    def response(self) -> dict[str, Any]:
        """Return the attempt's response as plain JSON, for later attempts and the evidence."""
        response: dict[str, Any] = {"assistant_output": self.output, "tool_calls": self.tool_calls}
        if self.turns:
            response["turns"] = list(self.turns)
        if self.failure is not None:
            response["error"] = self.problem
            response["failure"] = self.failure.value
        return response


@dataclass(frozen=True, slots=True)
class AgentOptions:
    """Settings of agents. Each kind of agent reads those that apply to it.

    Attributes:
        environ: This program's environment, which holds the keys of models; child processes get a part of it.
        pass_on: Names of further variables that a `command` agent gets.
        keep_alive: Whether a `command` agent stays alive for a conversation.
        headers: Headers of every request to an `http` agent; never shown or recorded.
        gateway: Whether a gateway answers at the address of an `http` agent, which is not the agent's own.
        parameters: Further fields of requests to a hosted model.
    """

    environ: Mapping[str, str] = field(default_factory=dict, repr=False)
    repair_command: str | None = None
    pass_on: tuple[str, ...] = ()
    cwd: Path | None = None
    keep_alive: bool = False
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    gateway: bool = False
    base_url: str | None = None
    system: str | None = None
    parameters: Mapping[str, Any] = field(default_factory=dict)


Opening = tuple[str, AgentOptions]
"""What `catalog.open_agent` builds an agent from: its name as `KIND:REST`, and its settings."""


class Agent(ABC):
    """An agent under test. One object serves many threads."""

    @classmethod
    def from_options(cls, rest: str, options: AgentOptions) -> Agent:  # noqa: ARG003 - for the catalog's
        """Build the agent that the command line names as `KIND:REST`.

        Raises:
            UsageError: `rest` does not name an agent of this kind.
        """
        raise UsageError(
            f"{cls.__name__} is used from Python only", remedy="Pass it to agent_eval.run_suite."
        )

    @classmethod
    def from_description(
        cls,
        described: Mapping[str, Any],  # noqa: ARG003 - for the catalog's
        options: AgentOptions,  # noqa: ARG003
    ) -> Opening:
        """Undo `describe`: return what the same agent is built from.

        `described` is what `describe` returned, read from a pack that is trusted. `options` are the command
        line's, and win.

        Raises:
            KeyError, TypeError, ValueError: The description is incomplete or malformed.
        """
        raise ValueError(f"{cls.__name__} cannot be built from its description")

    @abstractmethod
    def describe(self) -> dict[str, Any]:
        """Return what the evidence records of the agent, without secrets; `agent` is its kind."""

    account: str | None = None
    """Names the account whose limit its requests count against, whichever agent or model sends them."""
    replays: ClassVar[bool] = False
    """Whether the agent only repeats what was recorded, so that it takes a case with turns as a whole."""
    unseen: Sequence[str] = ()
    """Names of environment variables that look like the agent's, are set, and are kept from it."""

    def refuse(self, case: Case) -> str | None:  # noqa: ARG002 - most agents refuse nothing
        """Return what a case asks for that this kind of agent cannot carry; None for nothing."""
        return None

    @abstractmethod
    def attempt(self, task: Task, surroundings: Surroundings) -> AttemptResult:
        """Attempt a case once, or one turn of it. Failures of the agent are in the result, not exceptions.

        Raises:
            AgentEvalError: No attempt at any case can succeed: the program does not exist, the address is
                malformed.
            Disturbed: Another attempt ended the process that this one was in.
        """

    def end_session(self, session_id: str) -> None:  # noqa: B027 - most agents keep nothing
        """Let a conversation's state go, once its last turn is over."""

    def close(self) -> None:  # noqa: B027 - most agents have nothing to close
        """Close connections, once every attempt is done."""


class RecordedAgent(Agent):
    """The `recorded` agent: it replays the trace that the suite has of each case."""

    replays = True

    @classmethod
    @override
    def from_options(cls, rest: str, options: AgentOptions) -> RecordedAgent:
        return cls()

    @classmethod
    @override
    def from_description(cls, described: Mapping[str, Any], options: AgentOptions) -> Opening:
        return "recorded", options

    @override
    def describe(self) -> dict[str, Any]:
        return {"agent": "recorded"}

    @override
    def attempt(self, task: Task, surroundings: Surroundings) -> AttemptResult:
        trace = task.case.recorded
        calls = [
            {"tool": call.tool, "arguments": call.arguments} for call in trace.calls if call.call is not None
        ]
        return AttemptResult(events=list(trace.events), output=trace.final_output, tool_calls=calls)
