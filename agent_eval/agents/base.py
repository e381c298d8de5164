"""What an agent under test is asked, and what an attempt at it gives.

An agent answers either in one piece (an output and the tool calls it makes, which are then answered from the
case) or step by step, with each tool call answered before its next step. Both end as the same events.
"""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Generic, Literal, Protocol, TypeVar, runtime_checkable

from agent_eval.contracts import AttemptLimits, Case, Event, digest
from agent_eval.errors import FailureKind

Mode = Literal["propose", "repair"]
SHARE_EXPECTED_OUTPUT = "share_expected_output"
"""Key of a case's metadata that hands its expected output to the agent."""

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Task:
    """One attempt at a case.

    Attributes:
        case: The case; its trace is not looked at.
        mode: Whether this is the first try or a repair of earlier ones.
        attempt: Counts from 0.
        previous_attempts: What earlier attempts gave and what judges said of them, as plain JSON.
        share_expected_output: Whether the agent is handed the expected output; an agent that is handed the
            answer is not evaluated, so it is only when the case or a person says so.
        limits: What the attempt may use.
    """

    case: Case
    mode: Mode = "propose"
    attempt: int = 0
    previous_attempts: Sequence[Mapping[str, Any]] = ()
    share_expected_output: bool = False
    limits: AttemptLimits = field(default_factory=AttemptLimits)

    def payload(self) -> dict[str, Any]:
        """What is sent to an agent that answers in one piece, as plain JSON.

        Of the metadata nothing is sent: it holds the answers of the tools and what judges expect.
        """
        contracts = {name: contract.to_json() for name, contract in self.case.tool_contracts.items()}
        return {
            "mode": self.mode,
            "case_id": self.case.case_id,
            "input": self.case.input,
            "expected_output": self.case.expected_output if self._shares() else None,
            "attempt": self.attempt,
            "previous_attempts": list(self.previous_attempts),
            "contracts": contracts,
            "tool_contracts": contracts,  # the name that the suite has for them
            "policy": self.case.policy.to_json(),
        }

    def _shares(self) -> bool:
        return self.share_expected_output or self.case.metadata.get(SHARE_EXPECTED_OUTPUT) is True


@dataclass(frozen=True, slots=True)
class Clocks:
    """Time, which can be pinned so that the same run gives the same bytes.

    Attributes:
        wall: The present moment, with its offset.
        monotonic: Seconds that only grow. Pinned clocks stand still, and latencies are 0 then.
        sleep: Waits for that many seconds.
    """

    wall: Callable[[], datetime] = lambda: datetime.now(UTC)
    monotonic: Callable[[], float] = time.monotonic
    sleep: Callable[[float], None] = time.sleep

    def stamp(self) -> str:
        """The present moment as ISO 8601."""
        return self.wall().isoformat(timespec="milliseconds")


@dataclass(frozen=True, slots=True)
class ToolAnswer:
    """What a tool gave.

    Attributes:
        output: Its result; None when it failed.
        error: Its error; None when it did not.
        source: Where the answer is from: `tool_response_cassette`, `tool_responses`, `cassette`, `live`
            or `missing`.
        delay_ms: Milliseconds to wait before giving it.
        retries: How often a live tool was asked again.
        waited: Seconds that were spent on waiting to ask again, which are not the agent's.
    """

    output: Any = None
    error: Any = None
    source: str = "missing"
    delay_ms: float = 0.0
    retries: int = 0
    waited: float = 0.0


class Tools(Protocol):
    """Answers the tool calls of one attempt."""

    def answer(self, tool: str, arguments: Any) -> ToolAnswer:
        """The answer to a call.

        Raises:
            ToolFault: The attempt cannot go on.
        """
        ...

    def recorded(self) -> Sequence[dict[str, Any]]:
        """The calls of the attempt that live tools answered, in order, as rows of a cassette."""
        ...


class ToolFault(Exception):
    """A tool call that has no answer where one is required.

    Attributes:
        failure: The kind of failure that the attempt ends with.
        problem: What is missing, in a sentence.
    """

    def __init__(self, failure: FailureKind, problem: str) -> None:
        super().__init__(problem)
        self.failure, self.problem = failure, problem


@dataclass(frozen=True, slots=True)
class Sent(Generic[T]):
    """What became of one request to an agent or a model.

    Attributes:
        value: The answer; None when there is none.
        failure: Why there is none. `INFRASTRUCTURE` is what trying again may help.
        problem: The failure in words.
        asked_wait: Seconds that the service asked to wait (`Retry-After`).
        rate_limited: Whether it said that there were too many requests (429); others are slowed down then.
    """

    value: T | None = None
    failure: FailureKind | None = None
    problem: str = ""
    asked_wait: float | None = None
    rate_limited: bool = False

    def without_value(self) -> Sent[Any]:
        """The same failure, where another kind of answer was expected."""
        return replace(self, value=None)

    @property
    def is_infrastructure(self) -> bool:
        """Whether something between us and the agent failed."""
        return self.failure is FailureKind.INFRASTRUCTURE


class Retry(Protocol):
    """Sends a request until the infrastructure lets it through, or patience ends."""

    def __call__(self, send: Callable[[], Sent[T]]) -> tuple[Sent[T], int]:
        """The last answer, and how often it was tried again."""
        ...


def once(send: Callable[[], Sent[T]]) -> tuple[Sent[T], int]:
    """No retries."""
    return send(), 0


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What an attempt needs beside its task.

    Attributes:
        tools: Answers its tool calls.
        retry: How requests are repeated; connectors repeat nothing themselves.
        clocks: Time.
    """

    tools: Tools
    retry: Retry = once
    clocks: Clocks = field(default_factory=Clocks)


@dataclass(frozen=True, slots=True)
class AttemptResult:
    """What an attempt gave.

    Attributes:
        events: What happened, in order, from index 0. Also there when the attempt failed.
        output: What the agent said in the end.
        tool_calls: `{"tool", "arguments"}` in call order.
        failure: Why the attempt counts as failed whatever judges would say; None when it came to its end.
            `INFRASTRUCTURE` has been tried again already.
        problem: The failure in words.
        seconds: Time in the agent's hands; waiting for a retry is not counted.
        retries: Requests that were sent again.
        artifacts: Files for the case's folder by name, such as `stderr.txt`.
    """

    events: list[Event]
    output: Any = None
    tool_calls: list[dict[str, Any]] = field(default_factory=list)
    failure: FailureKind | None = None
    problem: str = ""
    seconds: float = 0.0
    retries: int = 0
    artifacts: Mapping[str, bytes] = field(default_factory=dict)

    def response(self) -> dict[str, Any]:
        """What later attempts and the evidence are told of it, as plain JSON."""
        response: dict[str, Any] = {"assistant_output": self.output, "tool_calls": self.tool_calls}
        if self.failure is not None:
            response["error"] = self.problem
            response["failure"] = self.failure.value
        return response


@dataclass(frozen=True, slots=True)
class AgentOptions:
    """Settings, each for the kinds of agents it makes sense for.

    Attributes:
        environ: This program's environment: keys of models are read from it, and children see a part of it.
        repair_command: What a `command` agent runs for repairs instead.
        pass_on: Further variables that a `command` agent may see.
        cwd: Where a `command` agent runs.
        headers: What is sent to an `http` agent along with every request; not shown anywhere.
        base_url: The endpoint of a hosted model.
        system: The system prompt of a hosted model.
        parameters: Further fields of requests to a hosted model.
    """

    environ: Mapping[str, str] = field(default_factory=dict, repr=False)
    repair_command: str | None = None
    pass_on: tuple[str, ...] = ()
    cwd: Path | None = None
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    base_url: str | None = None
    system: str | None = None
    parameters: Mapping[str, Any] = field(default_factory=dict)


class Agent(ABC):
    """An agent under test. One object serves many threads.

    A new kind of agent is one file with a subclass, and one row in `agents.catalog`.

    Example:
        >>> class Echo(Agent):
        ...     @classmethod
        ...     def from_options(cls, rest, options):
        ...         return cls()
        ...     @classmethod
        ...     def from_description(cls, described, options):
        ...         return "echo", options
        ...     def describe(self):
        ...         return {"agent": "echo"}
        ...     def attempt(self, task, surroundings):
        ...         recorder = Recorder(task, surroundings)
        ...         recorder.asked()
        ...         recorder.said(task.case.input)
        ...         return recorder.result(task.case.input)
    """

    @classmethod
    @abstractmethod
    def from_options(cls, rest: str, options: AgentOptions) -> Agent:
        """Build the agent that the command line names.

        Args:
            rest: What follows `kind:`.
            options: Settings; each kind reads those that make sense for it.

        Raises:
            UsageError: `rest` does not name an agent of this kind.
        """

    @classmethod
    @abstractmethod
    def from_description(
        cls, described: Mapping[str, Any], options: AgentOptions
    ) -> tuple[str, AgentOptions]:
        """Undo `describe`: the name and options with which `catalog.open_agent` builds the same agent.

        Args:
            described: What `describe` returned, read from a pack that is trusted.
            options: What the command line says; it wins over the description.

        Raises:
            KeyError, TypeError, ValueError: The description is incomplete or malformed.
        """

    @abstractmethod
    def describe(self) -> dict[str, Any]:
        """Return what the evidence records of the agent, without secrets; `agent` is its kind."""

    @abstractmethod
    def attempt(self, task: Task, surroundings: Surroundings) -> AttemptResult:
        """Try a case once.

        Whatever the agent does, or fails to do, is in the result.

        Raises:
            AgentEvalError: No attempt at any case can succeed: the program does not exist, the address is
                malformed.
        """

    def close(self) -> None:  # noqa: B027 - most agents have nothing to close
        """Close connections, once every attempt is done."""


@runtime_checkable
class HasAccount(Protocol):
    """An agent whose requests a provider counts, together with all others of the same account.

    Attributes:
        account: From `account_name`.
    """

    account: str


def account_name(address: str, *credentials: str) -> str:
    """What stands for an account at a provider: the same for the same address and credentials.

    Args:
        address: Where requests go; what follows its host is left out.
        credentials: Keys and the like; only their digest is kept.
    """
    origin = "/".join(address.split("/", 3)[:3]).lower()
    return f"{origin} {digest(sorted(credentials))}"


def account_of(agent: Agent) -> str | None:
    """The account that an agent's requests are counted on; None where nobody counts."""
    return agent.account if isinstance(agent, HasAccount) else None
