"""Run a trial and make its record for the journal, whatever happens in between."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, NamedTuple

from agent_eval.agents.tools import CaseTools
from agent_eval.contracts import Case
from agent_eval.engine.journaled_suite import FinishedTrial, finished_trial
from agent_eval.engine.lost_attempt import TRACEBACK, LostAttempt, traceback_of, unforeseen
from agent_eval.engine.trial import (
    Interrupted,
    TrialOutcome,
    TrialPlan,
    run_trial,
)
from agent_eval.errors import AgentEvalError, FailureKind
from agent_eval.storage.redaction import Redactor


class TrialNumber(NamedTuple):
    """A trial of a run. Its number is `trial * cases + position`."""

    number: int
    cases: int


def record_trial(
    raw: Mapping[str, Any],
    number: TrialNumber,
    plan: TrialPlan,
    redactor: Redactor,
) -> FinishedTrial | None:
    """Run a trial and make its record; None if the run is being ended.

    An exception that nothing foresaw is the error of this one trial: the run goes on, and so does every
    resume of it.

    Args:
        raw: The case as read from the suite.

    Raises:
        AgentEvalError: No attempt at any case can succeed.
        MemoryError: There is no memory left, which is no fault of this trial.
    """
    redactor = redactor.for_case(raw)
    try:
        plan = replace(plan, loop=number.number // number.cases + 1)
        with _prepared(raw, plan) as (prepared, failed):
            outcome = run_trial(raw, prepared, lost=failed)
        return finished_trial(*number, raw["case_id"], outcome, redactor)
    except Interrupted:
        return None
    except (AgentEvalError, MemoryError):
        raise
    except Exception as error:
        outcome = _failed(raw, plan, error)
        return finished_trial(*number, raw["case_id"], outcome, redactor)


@contextmanager
def _prepared(raw: Mapping[str, Any], plan: TrialPlan) -> Iterator[tuple[TrialPlan, LostAttempt | None]]:
    """Set a trial up, and tear it down at the end, however it ends.

    Yields the settings of the trial, which tears down before its result is final, and its attempt where the
    set-up failed.
    """
    if plan.commands is None or not (raw.get("setup") or raw.get("teardown")):
        yield plan, None
        return
    trial = plan.commands.prepare(Case.model_validate({**raw, "trace": [], "trials": []}))
    try:
        problem = trial.set_up()
        failed = LostAttempt(FailureKind.ENVIRONMENT, problem, seconds=0.0) if problem else None
        yield replace(plan, tear_down=trial.tear_down), failed
    finally:
        trial.tear_down()


def _failed(raw: Mapping[str, Any], plan: TrialPlan, error: Exception) -> TrialOutcome:
    """Make the outcome of a trial whose attempts cannot be recorded."""
    simple = replace(
        plan,
        tools=CaseTools,
        max_repairs=0,
        interrupted=lambda: False,
        abandoned=lambda: False,
    )
    outcome = run_trial(raw, simple, lost=unforeseen(error))
    return replace(outcome, artifacts={f"attempt-0-{TRACEBACK}": traceback_of(error)})
