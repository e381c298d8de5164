"""One trial of a case: propose, execute, judge, and repair until it passes.

An attempt is the agent's one run at the case. Its verdicts go back to the agent as `previous_attempts`, and
the trial ends with the first attempt that passes, when no repair is left, or when a limit is reached. What is
judged is the last attempt, whose number is `selected_attempt`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypedDict

from agent_eval.agents.base import (
    SHARE_EXPECTED_OUTPUT,
    Agent,
    AttemptResult,
    Clocks,
    Retry,
    Surroundings,
    Task,
    Tools,
    send_once,
)
from agent_eval.agents.cassette import Recording
from agent_eval.agents.recorder import TOOL_ANSWER_SOURCE, Recorder
from agent_eval.contracts import (
    AttemptLimits,
    Case,
    CaseResult,
    Event,
    Outcome,
    Trace,
    TrialLimits,
    canonical_json,
    definition_of,
)
from agent_eval.contracts.trace import TOOL_CALL, TOOL_RESULT
from agent_eval.engine.shard import judge
from agent_eval.errors import FailureKind
from agent_eval.judges.base import Judge
from agent_eval.judges.builtin.budgets import published_price
from agent_eval.judges.matching.usage import spent

_SAYS_NOTHING_OF_USE = frozenset({TOOL_ANSWER_SOURCE})
"""Attributes that most events of tools have. Looking for tokens and cost takes longer than all the rest."""


@dataclass(slots=True)
class TrialUse:
    """What a trial has used so far. Tokens and cost are None while nothing says."""

    seconds: float = 0.0
    steps: int = 0
    tool_calls: int = 0
    tokens: float | None = None
    cost_usd: float | None = None

    def add(self, case: Case, trace: Trace, seconds: float) -> None:
        """Add an attempt.

        Args:
            case: The case without what earlier attempts recorded.
            trace: The attempt's events.
            seconds: How long the agent took.
        """
        self.seconds += seconds
        self.steps += sum(event.is_agent and event.type != TOOL_RESULT for event in trace.events)
        self.tool_calls += sum(event.type == TOOL_CALL for event in trace.events)
        if any(not _SAYS_NOTHING_OF_USE.issuperset(event.attributes) for event in trace.events):
            used = spent(case, trace, published_price)
            tokens = [count for count in (used.input_tokens, used.output_tokens) if count is not None]
            if tokens:
                self.tokens = (self.tokens or 0) + sum(tokens)
            if used.cost_usd is not None or used.known_cost_usd:
                self.cost_usd = (self.cost_usd or 0.0) + (used.cost_usd or used.known_cost_usd)

    def reached(self, limits: TrialLimits) -> tuple[FailureKind, str] | None:
        """The first limit that was passed, as failure and words; None while within all."""
        for name, unit in _UNITS.items():
            limit, used = getattr(limits, name), getattr(self, name)
            if limit is not None and used is not None and used > limit:
                kind = FailureKind.TIMEOUT if name == "seconds" else FailureKind.BUDGET_EXCEEDED
                return kind, f"used {used:.6g} {unit}, more than the {limit:.6g} that a case may take"
        return None

    def is_spent(self, limits: TrialLimits) -> bool:
        """Whether nothing is left for another attempt."""
        return any(
            (limit := getattr(limits, name)) is not None
            and (used := getattr(self, name)) is not None
            and used >= limit
            for name in _UNITS
        )


_UNITS = {
    "seconds": "seconds",
    "steps": "steps",
    "tool_calls": "tool calls",
    "tokens": "tokens",
    "cost_usd": "US dollars",
}


ARTIFACT_BYTES = 4096
"""How much of an artifact of an attempt, such as its standard error, its history shows: its end."""

_WITHHELD = "withheld: it tells the expected output"


class Interrupted(Exception):
    """The run was ended in the middle of a trial, which therefore does not count."""


class TrialWatch:
    """Told of the attempts at a trial; this one does nothing with it."""

    def begins(self, before: Attempts, limits: AttemptLimits) -> None:
        """An attempt begins.

        Args:
            before: What the attempts before it came to.
            limits: What it may use.
        """

    def ended(self) -> None:
        """It ended."""


@dataclass(frozen=True, kw_only=True)
class TrialPlan:
    """How every trial of a run goes.

    Attributes:
        agent: What is tested.
        judges: What is asked after every attempt.
        tools: Makes what answers the tool calls of one attempt.
        max_repairs: Attempts after the first one.
        attempt_limits: What each attempt may use.
        limits: What all attempts of a trial may use.
        share_expected_output: Whether the agent is handed the expected output.
        retry: How requests are repeated.
        clocks: Time.
        watch: Told of every attempt as it begins and ends.
        interrupted: Whether the run is being ended: no attempt is begun any more.
        abandoned: Whether it has ended: what is still going on was cut off and does not count.
    """

    agent: Agent
    judges: Sequence[Judge]
    tools: Callable[[Case], Tools]
    max_repairs: int = 0
    attempt_limits: AttemptLimits = field(default_factory=AttemptLimits)
    limits: TrialLimits = field(default_factory=TrialLimits)
    share_expected_output: bool = False
    retry: Retry = send_once
    clocks: Clocks = field(default_factory=Clocks)
    watch: TrialWatch = field(default_factory=TrialWatch)
    interrupted: Callable[[], bool] = lambda: False
    abandoned: Callable[[], bool] = lambda: False


class Recorded(TypedDict):
    """What a trial adds to a case."""

    trace: list[dict[str, Any]]
    metadata: dict[str, Any]


@dataclass(frozen=True, slots=True)
class TrialOutcome:
    """What became of a trial: what it adds to the case, what judges say of it, what it used.

    `calls` are those of live tools, for a cassette. `artifacts` are files by name, which says the attempt.
    """

    recorded: Recorded
    result: CaseResult
    use: TrialUse
    retries: int
    calls: list[dict[str, Any]] = field(default_factory=list)
    artifacts: dict[str, bytes] = field(default_factory=dict)


@dataclass(slots=True)
class Attempts:
    """The attempts at one trial so far. Can be sent to another process, which then goes on with the trial."""

    history: list[dict[str, Any]] = field(default_factory=list)
    artifacts: dict[str, bytes] = field(default_factory=dict)
    calls: Recording = field(default_factory=Recording)
    use: TrialUse = field(default_factory=TrialUse)
    retries: int = 0

    def add(self, task: Task, given: AttemptResult, recorded: Sequence[dict[str, Any]]) -> None:
        """Add an attempt, but for what judges say of it."""
        self.calls.add(recorded)
        files = given.artifacts.items()
        self.artifacts.update((f"attempt-{task.attempt}-{name}", data) for name, data in files)
        self.retries += given.retries
        self.use.add(task.case, Trace(given.events), given.seconds)


@dataclass(frozen=True, slots=True)
class LostAttempt:
    """An attempt of which nothing is left but how it ended, since its process is gone.

    Attributes:
        failure: `AGENT_ERROR`, or `TIMEOUT`.
        problem: The failure in words.
        seconds: How long the agent took.
    """

    failure: FailureKind
    problem: str
    seconds: float

    def result(self, task: Task, surroundings: Surroundings) -> AttemptResult:
        """The attempt as the agent would have given it: what it had done by then is not known."""
        recorder = Recorder(task, surroundings)
        recorder.record_input()
        recorder.seconds = self.seconds
        return recorder.result(None, self.failure, self.problem)


def run_trial(
    raw: Mapping[str, Any],
    plan: TrialPlan,
    *,
    attempts: Attempts | None = None,
    lost: LostAttempt | None = None,
) -> TrialOutcome:
    """Run a case once.

    Args:
        raw: The case as read from the suite. What an earlier run recorded in it is not told to the agent;
            only the trace is there for an agent that is a recording.
        plan: How.
        attempts: What attempts at it in another process came to.
        lost: What the next attempt came to, which ended the process it was made in.

    Raises:
        Interrupted: The run is being ended.
        AgentEvalError: No attempt at any case can succeed.
    """
    case = Case.model_validate({**definition_of(dict(raw)), "trace": raw.get("trace", [])})
    attempts = attempts or Attempts()
    while True:
        task = _task(case, attempts, plan)
        tools = plan.tools(case)
        surroundings = Surroundings(tools, plan.retry, plan.clocks)
        if lost is not None:
            given, lost = lost.result(task, surroundings), None
        else:
            plan.watch.begins(attempts, task.limits)
            given = plan.agent.attempt(task, surroundings)
            plan.watch.ended()
        if plan.abandoned() or (plan.interrupted() and given.failure is FailureKind.INFRASTRUCTURE):
            raise Interrupted
        attempts.add(task, given, tools.recorded())
        attempts.history.append(_entry(task, given, attempts.use.reached(plan.limits)))
        result = _judged(case, attempts.history, given.events, plan)
        _add_verdicts(attempts.history[-1], result)
        if _is_last(result, given, attempts.use, task.attempt, plan):
            return _outcome(attempts, given, result, plan)
        if plan.interrupted():
            raise Interrupted


def _task(case: Case, attempts: Attempts, plan: TrialPlan) -> Task:
    """The next attempt."""
    number = len(attempts.history)
    return Task(
        case,
        mode="repair" if number else "propose",
        attempt=number,
        previous_attempts=_told(attempts.history, case, plan),
        share_expected_output=plan.share_expected_output,
        limits=remaining(plan.attempt_limits, plan.limits, attempts.use),
    )


def _outcome(attempts: Attempts, given: AttemptResult, result: CaseResult, plan: TrialPlan) -> TrialOutcome:
    metadata = {**_loop_metadata(attempts.history, plan), "loop_passed": result.passed}
    recorded = Recorded(trace=[event_json(event) for event in given.events], metadata=metadata)
    return TrialOutcome(
        recorded, result, attempts.use, attempts.retries, attempts.calls.rows(), attempts.artifacts
    )


_NO_LIMITS = TrialLimits()


def remaining(each: AttemptLimits, limits: TrialLimits, use: TrialUse) -> AttemptLimits:
    """What the next attempt may use: its own limits, or what is left of the trial's."""
    if limits == _NO_LIMITS:
        return each
    left: dict[str, Any] = {}
    for name in ("seconds", "steps", "tool_calls", "tokens"):
        limit, own = getattr(limits, name), getattr(each, name)
        if limit is not None:
            rest = max(limit - (getattr(use, name) or 0), 0)
            left[name] = rest if own is None else min(own, rest)
    return each.model_copy(update=left)


def event_json(event: Event) -> dict[str, Any]:
    """An event as it stands in a suite: what it does not say is left out."""
    said = {name: value for name, value in event.__dict__.items() if value is not None}
    if not event.attributes:
        said.pop("attributes", None)
    return {**said, **(event.model_extra or {})}


def _entry(task: Task, given: AttemptResult, reached: tuple[FailureKind, str] | None) -> dict[str, Any]:
    """An attempt's record in `metadata.attempt_history`."""
    entry: dict[str, Any] = {"attempt": task.attempt, "mode": task.mode, "response": given.response()}
    failure, problem = given.failure, given.problem
    if failure is None and reached is not None:
        failure, problem = reached
    if failure is not None:
        entry.update(failure=failure.value, problem=problem)
    if given.retries:
        entry["retries"] = given.retries
    if given.artifacts:
        entry["artifacts"] = {name: _end_of(data) for name, data in sorted(given.artifacts.items())}
    return entry


def _end_of(data: bytes) -> str:
    left_out = len(data) - ARTIFACT_BYTES
    text = data[-ARTIFACT_BYTES:].decode("utf-8", "replace")
    return f"[{left_out} bytes left out]\n{text}" if left_out > 0 else text


def _judged(case: Case, history: list[dict[str, Any]], events: list[Event], plan: TrialPlan) -> CaseResult:
    """The verdicts on an attempt, as judges will see the case in the evidence."""
    metadata = {**case.metadata, **_loop_metadata(history, plan)}
    shown = case.model_copy(update={"metadata": metadata, "trace": events})
    return judge(plan.judges, shown, Trace(events))


def _loop_metadata(history: list[dict[str, Any]], plan: TrialPlan) -> dict[str, Any]:
    return {
        "attempt_history": history,
        "selected_attempt": history[-1]["attempt"],
        "max_repairs": plan.max_repairs,
    }


def _add_verdicts(entry: dict[str, Any], result: CaseResult) -> None:
    entry.update(passed=result.passed, hard_failed=result.hard_failed)
    entry["verdicts"] = [
        {
            "judge_id": verdict.judge_id,
            "outcome": verdict.outcome.value,
            "passed": verdict.passed,
            "reason": verdict.reason,
            "failure": None if verdict.failure is None else verdict.failure.value,
        }
        for verdict in result.verdicts
        if verdict.outcome is not Outcome.SKIPPED
    ]


def _is_last(result: CaseResult, given: AttemptResult, use: TrialUse, attempt: int, plan: TrialPlan) -> bool:
    # Whoever could not be reached, though tried again and again, has nothing to repair.
    unreachable = given.failure is FailureKind.INFRASTRUCTURE
    return result.passed or unreachable or attempt >= plan.max_repairs or use.is_spent(plan.limits)


def _told(history: list[dict[str, Any]], case: Case, plan: TrialPlan) -> list[dict[str, Any]]:
    """What the agent is told of its earlier attempts: everything, but not the answer."""
    if plan.share_expected_output or case.metadata.get(SHARE_EXPECTED_OUTPUT) is True:
        return history
    secrets = _forms(case.expected_output)
    return [
        {**entry, "verdicts": [_without(verdict, secrets) for verdict in entry["verdicts"]]}
        for entry in history
    ]


def _forms(expected: Any) -> list[str]:
    """How a reason might quote the expected output."""
    if expected is None:
        return []
    return [expected] if isinstance(expected, str) and expected else [canonical_json(expected).decode()]


def _without(verdict: dict[str, Any], secrets: list[str]) -> dict[str, Any]:
    if any(secret in verdict["reason"] for secret in secrets):
        return {**verdict, "reason": _WITHHELD}
    return verdict
