"""What an agent under test is to the engine: something that makes one attempt at a case.

    class Echo:
        name = "echo"

        def describe(self):
            return {"kind": "echo"}

        def attempt(self, request):
            said = {"actor": "agent", "type": "message", "output": request.case.input}
            return Attempt(events=[said], response={"assistant_output": request.case.input, "tool_calls": []})

Many threads may call `attempt` at a time. It does not raise for anything that the agent or a service does:
that is in `Attempt.failure`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal, Protocol

from agent_eval.contracts import Case
from agent_eval.errors import FailureKind


@dataclass(frozen=True, slots=True)
class Allowance:
    """What is left of the limits of a trial for this attempt; None is without limit.

    Attributes:
        seconds: Wall time of the attempt.
        output_bytes: What the agent may answer with.
        steps: Turns of a model, or messages and tool calls.
        tool_calls: Calls of tools.
        tokens: Input and output tokens together.
        cost_usd: US dollars.
    """

    seconds: float | None = None
    output_bytes: int | None = None
    steps: int | None = None
    tool_calls: int | None = None
    tokens: float | None = None
    cost_usd: float | None = None


@dataclass(frozen=True, slots=True)
class AttemptRequest:
    """One attempt at a case.

    Attributes:
        case: The case, without anything that an earlier run recorded (no trace, no attempt history).
        mode: `propose`, or `repair` where a failed attempt went before.
        attempt: Counts from 0 within a trial.
        previous_attempts: What became of those before, as JSON; see `engine.repair`.
        trial: Counts from 0 within a case.
        seed: Seed of the trial.
        share_expected_output: Whether the agent may be told the answer.
        allowance: What it may use.
    """

    case: Case
    mode: Literal["propose", "repair"] = "propose"
    attempt: int = 0
    previous_attempts: tuple[dict[str, Any], ...] = ()
    trial: int = 0
    seed: int = 0
    share_expected_output: bool = False
    allowance: Allowance = field(default_factory=Allowance)


@dataclass(slots=True)
class Attempt:
    """What became of an attempt.

    Attributes:
        events: Its trace in order, as JSON of `contracts.Event`; `idx` and `attempt` may be left out, the
            engine numbers them. Also what was recorded before a failure.
        response: What the agent answered: `assistant_output`, `tool_calls` and whatever it added, as JSON.
        failure: None when the agent ended by itself. `INFRASTRUCTURE` when something between us and the
            agent failed: only such an attempt may be made again.
        problem: The failure in words, starting with a verb ("exited with code 1"); empty without one.
        retry_after: Seconds a service asked to wait before it is tried again; None when it did not.
        rate_limited: Whether a service said that there were too many requests.
        stderr: What the agent wrote to standard error, decoded and cut to a bound.
        seconds: How long the agent took, without waiting in queues of ours.
    """

    events: list[dict[str, Any]]
    response: dict[str, Any]
    failure: FailureKind | None = None
    problem: str = ""
    retry_after: float | None = None
    rate_limited: bool = False
    stderr: str = ""
    seconds: float = 0.0


class Agent(Protocol):
    """What is tested. `name` is its kind: command, http, openai, ...

    Whether concurrent requests may be adapted to a provider's limits is said by `account`: the provider
    and account whose limits it shares, None for an agent that has none.
    """

    name: str

    @property
    def account(self) -> str | None:
        """The provider and account whose rate limits count; None where there are none."""
        ...

    def describe(self) -> dict[str, Any]:
        """What a pack says of it, as JSON: enough to run it again, no secrets."""
        ...

    def attempt(self, request: AttemptRequest) -> Attempt:
        """Make one attempt."""
        ...

    def close(self) -> None:
        """Let go of what is open."""
        ...
