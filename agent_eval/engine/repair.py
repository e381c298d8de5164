"""One trial of a case: propose, execute, judge, and repair until it passes.

An attempt is the agent's one run at the case. Its verdicts go back to the agent as `previous_attempts`, and
the trial ends with the first attempt that passes, when no repair is left, or when a limit is reached. What is
judged is the last attempt, whose number is `selected_attempt`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypedDict

from agent_eval.agents.cassette import Recording
from agent_eval.agents.protocol import (
    SHARE_EXPECTED_OUTPUT,
    Agent,
    AttemptLimits,
    AttemptResult,
    Clocks,
    Retry,
    Surroundings,
    Task,
    Tools,
    once,
)
from agent_eval.contracts import Case, CaseResult, Event, Outcome, Trace, canonical_json, definition_of
from agent_eval.engine.limits import TrialLimits, TrialUse
from agent_eval.engine.shard import judge
from agent_eval.errors import FailureKind
from agent_eval.judges.protocol import Judge

ARTIFACT_BYTES = 4096
"""How much of an artifact of an attempt, such as its standard error, its history shows: its end."""

_WITHHELD = "withheld: it tells the expected output"


class Interrupted(Exception):
    """The run was ended in the middle of a trial, which therefore does not count."""


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
    retry: Retry = once
    clocks: Clocks = field(default_factory=Clocks)
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


def run_trial(raw: Mapping[str, Any], plan: TrialPlan) -> TrialOutcome:
    """Run a case once.

    Args:
        raw: The case as read from the suite. What an earlier run recorded in it is not told to the agent;
            only the trace is there for an agent that is a recording.
        plan: How.

    Raises:
        Interrupted: The run is being ended.
        AgentEvalError: No attempt at any case can succeed.
    """
    definition = definition_of(dict(raw))
    case = Case.model_validate({**definition, "trace": raw.get("trace", [])})
    history: list[dict[str, Any]] = []
    artifacts: dict[str, bytes] = {}
    calls, use, retries = Recording(), TrialUse(), 0
    while True:
        attempt = len(history)
        task = Task(
            case,
            mode="repair" if attempt else "propose",
            attempt=attempt,
            previous_attempts=_told(history, case, plan),
            share_expected_output=plan.share_expected_output,
            limits=remaining(plan.attempt_limits, plan.limits, use),
        )
        tools = plan.tools(case)
        given = plan.agent.attempt(task, Surroundings(tools, plan.retry, plan.clocks))
        if plan.abandoned() or (plan.interrupted() and given.failure is FailureKind.INFRASTRUCTURE):
            raise Interrupted
        calls.add(tools.recorded())
        artifacts.update((f"attempt-{attempt}-{name}", data) for name, data in given.artifacts.items())
        retries += given.retries
        trace = Trace(given.events)
        use.add(case, trace, given.seconds)
        history.append(_entry(task, given, use.reached(plan.limits)))
        result = _judged(case, history, given.events, plan)
        _add_verdicts(history[-1], result)
        if _is_last(result, given, use, attempt, plan):
            break
        if plan.interrupted():
            raise Interrupted
    metadata = {**_loop_metadata(history, plan), "loop_passed": result.passed}
    recorded = Recorded(trace=[event_json(event) for event in given.events], metadata=metadata)
    return TrialOutcome(recorded, result, use, retries, calls.rows(), artifacts)


def remaining(each: AttemptLimits, limits: TrialLimits, use: TrialUse) -> AttemptLimits:
    """What the next attempt may use: its own limits, or what is left of the trial's."""
    left: dict[str, Any] = {}
    for name in ("seconds", "steps", "tool_calls", "tokens"):
        limit, own = getattr(limits, name), getattr(each, name)
        if limit is not None:
            rest = max(limit - (getattr(use, name) or 0), 0)
            left[name] = rest if own is None else min(own, rest)
    return replace(each, **left)


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
