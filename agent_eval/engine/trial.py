"""Run one trial of a case: the agent attempts it, judges judge, and the agent repairs until it passes.

The agent gets the verdicts on its attempts as `previous_attempts`. The trial ends with the first attempt that
passes, when no repair is left, or when a limit is reached. Its result is that of the last attempt, whose
number is `selected_attempt`.
"""

from __future__ import annotations

import traceback
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypedDict

from agent_eval.agents.base import (
    SHARE_EXPECTED_OUTPUT,
    Agent,
    AttemptResult,
    Clocks,
    Disturbed,
    Surroundings,
    Task,
    Tools,
)
from agent_eval.agents.cassette import Recording
from agent_eval.agents.recorder import Recorder
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
    with_verdicts,
)
from agent_eval.contracts.base import EARLIER
from agent_eval.contracts.verdict import EXECUTION
from agent_eval.conversation.loop import Setting, attempt_case
from agent_eval.conversation.simulated_user import Simulation
from agent_eval.engine.case_commands import CaseCommands
from agent_eval.engine.shard import judge
from agent_eval.engine.usage import Price, TrialUse
from agent_eval.errors import AgentEvalError, FailureKind, words_of
from agent_eval.judges.base import Judge
from agent_eval.judges.builtin.cost_budget import published_price
from agent_eval.models.retries import Retry, send_once

ARTIFACT_BYTES = 4096
"""Bytes of an artifact, such as standard error, that an attempt's history has: the last ones."""
TRACEBACK = "traceback.txt"
"""Artifact with the traceback of an exception that nothing foresaw."""
Lost = tuple[FailureKind, str]
"""Why an attempt has no result of its own, and the problem in words."""
_WITHHELD = "withheld: it tells the expected output"


class Interrupted(Exception):
    """The run was ended during a trial, which therefore does not count."""


@dataclass(frozen=True, kw_only=True)
class TrialPlan:
    """Settings of every trial of a run.

    Attributes:
        tools: Makes the tools that answer the calls of one attempt.
        max_repairs: Maximum number of attempts after the first one.
        limits: Limits of all attempts of a trial together.
        interrupted: Returns whether the run is being ended, so that no further attempt may begin.
        out_of_time: Returns whether the time of the run is over, which ends requests: a failure then may be
            of its making.
        abandoned: Returns whether the run has ended, so that an attempt in progress does not count.
        commands: Runs the cases' own commands; None where they are not allowed.
        tear_down: Called after the last attempt. Returns why that failed, in words, or an empty text.
        simulation: The model that plays the user in conversations; None where none is played.
        loop: Number of the trial, from 1.
        price: Prices tokens whose cost is not recorded.
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
    interrupted: Callable[[], bool] = lambda: False
    out_of_time: Callable[[], bool] = lambda: False
    abandoned: Callable[[], bool] = lambda: False
    commands: CaseCommands | None = None
    tear_down: Callable[[], str] = str
    simulation: Simulation | None = None
    loop: int = 1
    price: Price = published_price


class Recorded(TypedDict):
    """The fields that a trial adds to its case."""

    trace: list[dict[str, Any]]
    metadata: dict[str, Any]


@dataclass(slots=True)
class Attempts:
    """The attempts of one trial so far.

    Attributes:
        history: The entries of `metadata.attempt_history`.
        artifacts: Files by name; the name begins with the attempt.
        calls: Calls of live tools, for a cassette.
    """

    history: list[dict[str, Any]] = field(default_factory=list)
    artifacts: dict[str, bytes] = field(default_factory=dict)
    calls: Recording = field(default_factory=Recording)
    use: TrialUse = field(default_factory=TrialUse)
    retries: int = 0

    def add(
        self, task: Task, attempt: AttemptResult, calls: Sequence[dict[str, Any]], plan: TrialPlan
    ) -> None:
        """Add an attempt, except for its judging."""
        self.calls.add(calls)
        files = attempt.artifacts.items()
        self.artifacts.update((f"attempt-{task.attempt}-{name}", data) for name, data in files)
        self.retries += attempt.retries
        self.use.add(task.case, Trace(attempt.events), attempt.seconds, plan.price)
        entry: dict[str, Any] = {"attempt": task.attempt, "mode": task.mode, "response": attempt.response()}
        failure, problem = attempt.failure, attempt.problem
        if failure is None and (reached := self.use.reached(plan.limits)) is not None:
            failure, problem = reached
        if failure is not None:
            entry.update(failure=failure.value, problem=problem)
        if attempt.retries:
            entry["retries"] = attempt.retries
        if files:
            entry["artifacts"] = {name: _end_of(data) for name, data in sorted(files)}
        self.history.append(entry)


@dataclass(frozen=True, slots=True)
class TrialOutcome:
    """Result of `run_trial`: the fields that the trial adds to its case, the verdicts, and the attempts."""

    recorded: Recorded
    result: CaseResult
    attempts: Attempts


def run_trial(raw: Mapping[str, Any], plan: TrialPlan, *, lost: Lost | None = None) -> TrialOutcome:
    """Run one trial of a case.

    Args:
        raw: The case as read from the suite. Fields that an earlier run recorded in it are removed, except
            for the trace, which the `recorded` agent replays.
        lost: The first attempt, if it failed before it began.

    Raises:
        Interrupted: The run is being ended.
        AgentEvalError: No attempt at any case can succeed.
    """
    recorded = {**definition_of(dict(raw)), "trace": raw.get("trace", [])}
    case = Case.model_validate(recorded, context=EARLIER)
    attempts = Attempts()
    while True:
        task = _task(case, attempts, plan)
        tools = plan.tools(case)
        surroundings = Surroundings(tools, plan.retry, plan.clocks)
        if lost is not None:
            attempt, lost = _lost_attempt(lost, task, surroundings), None
        else:
            try:
                attempt = _attempt(task, surroundings, plan)
            except Disturbed:
                if plan.interrupted() or plan.abandoned():
                    raise Interrupted from None
                tools = plan.tools(case)
                attempt = _attempt(task, replace(surroundings, tools=tools, alone=True), plan)
        if (
            plan.abandoned()
            or (plan.interrupted() and attempt.failure in _ENDED_WITH_THE_RUN)
            or (plan.out_of_time() and attempt.failure is not None)
        ):
            raise Interrupted
        attempts.add(task, attempt, tools.recorded(), plan)
        judged = case.model_copy(update={"trace": attempt.events})
        result = _judged(judged, attempts.history, plan)
        if result.is_lost and (plan.interrupted() or plan.out_of_time()):
            raise Interrupted  # what judges it was ended
        attempts.use.add_judging(result)
        if "failure" not in attempts.history[-1] and (reached := attempts.use.reached(plan.limits)):
            result = _failed_afterwards(judged, attempts.history, plan, result, reached)
        _add_verdicts(attempts.history[-1], result)
        if (
            result.passed
            or attempt.failure in _NOTHING_TO_REPAIR
            or task.attempt >= plan.max_repairs
            or attempts.use.is_spent(plan.limits)
        ):
            if (problem := plan.tear_down()) and result.passed:
                failed = FailureKind.ENVIRONMENT, problem
                result = _failed_afterwards(judged, attempts.history, plan, result, failed)
                _add_verdicts(attempts.history[-1], result)
            metadata = {**_loop_metadata(attempts.history, plan), "loop_passed": result.passed}
            trace = [event_json(event) for event in attempt.events]
            return TrialOutcome(Recorded(trace=trace, metadata=metadata), result, attempts)
        if plan.interrupted():
            raise Interrupted


def _attempt(task: Task, surroundings: Surroundings, plan: TrialPlan) -> AttemptResult:
    """Have the agent attempt a case. An exception that nothing foresaw fails the attempt, not the run."""
    try:
        setting = Setting(plan.simulation, plan.loop, cancelled=plan.interrupted)
        return attempt_case(plan.agent, task, surroundings, setting)
    except (AgentEvalError, Disturbed, MemoryError):
        raise
    except Exception as error:
        lost = _lost_attempt(unforeseen(error), task, surroundings)
        return replace(lost, artifacts={TRACEBACK: traceback_of(error)})


def _lost_attempt(lost: Lost, task: Task, surroundings: Surroundings) -> AttemptResult:
    """Make the result of an attempt without any, with the case's input as its only event."""
    recorder = Recorder(task, surroundings)
    recorder.record_input()
    return recorder.result(None, *lost)


def unforeseen(error: Exception) -> Lost:
    """Describe an attempt that a mistake of this program ended: the agent has nothing to repair."""
    words = f"could not be evaluated: {words_of(error)}"
    return FailureKind.INFRASTRUCTURE, words.encode("utf-8", "replace").decode()


def traceback_of(error: Exception) -> bytes:
    """Format the traceback of an exception."""
    return "".join(traceback.format_exception(error)).encode("utf-8", "replace")


def _task(case: Case, attempts: Attempts, plan: TrialPlan) -> Task:
    """Make the task of the next attempt. In a conversation each turn has a time limit of its own."""
    number = len(attempts.history)
    each = plan.attempt_limits
    if case.conversation is not None:
        each = each.model_copy(update={"seconds": None})
    return Task(
        case,
        mode="repair" if number else "propose",
        attempt=number,
        previous_attempts=_shareable_history(attempts.history, case, plan),
        share_expected_output=plan.share_expected_output,
        limits=remaining(each, plan.limits, attempts.use),
    )


_NO_LIMITS = TrialLimits()


def remaining(each: AttemptLimits, limits: TrialLimits, use: TrialUse) -> AttemptLimits:
    """Compute the limits of the next attempt: its own, or what is left of the trial's if that is less."""
    if limits == _NO_LIMITS:
        return each
    lower: dict[str, Any] = {}
    for name in ("seconds", "steps", "tool_calls", "tokens"):
        limit, own = getattr(limits, name), getattr(each, name)
        if limit is not None:
            rest = max(limit - (getattr(use, name) or 0), 0)
            lower[name] = rest if own is None else min(own, rest)
    return each.model_copy(update=lower)


def event_json(event: Event) -> dict[str, Any]:
    """Turn an event into JSON values as a suite has them, without empty fields."""
    fields = {name: value for name, value in event.__dict__.items() if value is not None}
    if not event.attributes:
        fields.pop("attributes", None)
    if event.usage is not None:
        fields["usage"] = event.usage.to_json()
    if event.parts is not None:
        fields["parts"] = [part.to_json() for part in event.parts]
    return {**fields, **(event.model_extra or {})}


def _end_of(data: bytes) -> str:
    left_out = len(data) - ARTIFACT_BYTES
    text = data[-ARTIFACT_BYTES:].decode("utf-8", "replace")
    return f"[{left_out} bytes left out]\n{text}" if left_out > 0 else text


def _judged(case: Case, history: list[dict[str, Any]], plan: TrialPlan) -> CaseResult:
    """Judge the last attempt, whose trace the case has. Judges see it as the evidence will have it."""
    recorded = case.model_copy(update={"metadata": {**case.metadata, **_loop_metadata(history, plan)}})
    return judge(plan.judges, recorded, recorded.recorded)


def _failed_afterwards(
    case: Case, history: list[dict[str, Any]], plan: TrialPlan, result: CaseResult, failed: Lost
) -> CaseResult:
    """Fail the last attempt once it is judged: judge anew how it ended, and nothing that a model is asked."""
    history[-1].update(failure=failed[0].value, problem=failed[1])
    own = [judge for judge in plan.judges if judge.judge_id == EXECUTION]
    again = _judged(case, history, replace(plan, judges=own))
    verdicts = {verdict.judge_id: verdict for verdict in again.verdicts}
    return with_verdicts(result, [verdicts.get(each.judge_id, each) for each in result.verdicts])


def _loop_metadata(history: list[dict[str, Any]], plan: TrialPlan) -> dict[str, Any]:
    return {
        "attempt_history": history,
        "selected_attempt": history[-1]["attempt"],
        "max_repairs": plan.max_repairs,
    }


def _add_verdicts(entry: dict[str, Any], result: CaseResult) -> None:
    """Add to the entry of an attempt what judges say of it."""
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


_ENDED_WITH_THE_RUN = (FailureKind.INFRASTRUCTURE, FailureKind.SIMULATOR_ERROR)
"""Failures of an attempt that may only say that the run was being ended."""

_NOTHING_TO_REPAIR = (FailureKind.INFRASTRUCTURE, FailureKind.ENVIRONMENT, FailureKind.SIMULATOR_ERROR)
"""Failures for which an agent can do nothing: it was not reached after all retries, or its user failed."""


def _shareable_history(history: list[dict[str, Any]], case: Case, plan: TrialPlan) -> list[dict[str, Any]]:
    """Remove reasons that quote the expected output from the history that the agent gets."""
    if plan.share_expected_output or case.metadata.get(SHARE_EXPECTED_OUTPUT) is True:
        return history
    expected = [case.expected_output, *(turn.expected_output for turn in case.turns)]
    secrets = [
        value if isinstance(value, str) and value else canonical_json(value).decode()
        for value in expected
        if value is not None
    ]
    shareable = []
    for entry in history:
        verdicts = [
            {**each, "reason": _WITHHELD} if any(text in each["reason"] for text in secrets) else each
            for each in entry["verdicts"]
        ]
        shareable.append({**entry, "verdicts": verdicts})
    return shareable
