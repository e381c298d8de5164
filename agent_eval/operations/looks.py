"""Run a suite in looks: with more trials of every case after each, until the caller ends it.

Every look has a sealed pack, in the place of the one before. The trials of earlier looks are kept, and none
is run twice.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import TypeVar

from agent_eval.contracts import Outcome, RunConfig
from agent_eval.contracts.limits import RunLimits
from agent_eval.engine.agent_run import Execution
from agent_eval.engine.journaled_suite import Slots
from agent_eval.errors import UsageError
from agent_eval.gate.looks import LOOKS
from agent_eval.suites.reader import SuiteSource

AUTO = "auto"

Result = TypeVar("Result")


@dataclass(frozen=True)
class Look:
    """One look of a run: how many trials each case has then, and what is there already.

    Example:
        >>> Look(1).trials
        1

    Attributes:
        trials: Trials of each case, those of earlier looks included.
        looks: Trials of each case at this and every earlier look; None where the number is fixed.
        earlier: The trials of earlier looks; None for the first.
        began: When the first look began, by `time.monotonic`.
    """

    trials: int
    looks: tuple[int, ...] | None = None
    earlier: Slots | None = None
    began: float = field(default_factory=time.monotonic)

    def recorded(self, config: RunConfig) -> RunConfig:
        """Add to the configuration of a run how often it was looked at."""
        if self.looks is None:
            return config
        execution = config.execution_config.at_looks(self.looks)
        return config.model_copy(update={"execution_config": execution})

    def remaining(self, limits: RunLimits) -> RunLimits:
        """Copy the limits of the whole run without the time that earlier looks took.

        What these cost counts already, with their trials.
        """
        if self.earlier is None or limits.seconds is None:
            return limits
        used = time.monotonic() - self.began
        return limits.model_copy(update={"seconds": max(0.0, limits.seconds - used)})

    def after(self, trials: int, done: Execution) -> Look:
        """Return the next look."""
        return replace(self, trials=trials, looks=(*(self.looks or ()), trials), earlier=done.slots)


def run_in_looks(
    run_look: Callable[[Look], tuple[Result | None, Execution]],
    trials: int,
    next_look: Callable[[Result], int | None] | None,
) -> tuple[Result, Execution]:
    """Run a suite until it needs no further look.

    Args:
        run_look: Runs the missing trials of a look and seals its pack; no result where a limit cut short a
            look that was not the first.
        trials: Trials of each case at the first look.
        next_look: Given a complete look, says how many trials each case should have at the next one; None to
            end. None for one look with a fixed number of trials.

    Returns:
        The result of the last look that was complete, or of the first; and how the last one ended.
    """
    current = Look(trials, None if next_look is None else (trials,))
    result, done = run_look(current)
    if result is None:
        raise ValueError("the first look has a result")
    while next_look is not None and done.complete:
        more = next_look(result)
        if more is None:
            break
        current = current.after(more, done)
        following, done = run_look(current)
        result = result if following is None else following
    return result, done


def failing_cases(suite: SuiteSource) -> dict[str, list[str]]:
    """List the cases that each judge failed in any of their trials, by judge id.

    Args:
        suite: Cases that have been run, with the results of their trials.
    """
    failing: dict[str, set[str]] = {}
    for raw_case in suite.document.read_all():
        result = raw_case.result
        if result is None:
            continue
        for trial in result.trials or [result]:
            for verdict in trial.verdicts:
                if verdict.outcome is Outcome.FAILED:
                    failing.setdefault(verdict.judge_id, set()).add(result.case_id)
    return {judge_id: sorted(case_ids) for judge_id, case_ids in sorted(failing.items())}


def with_most_trials(config: RunConfig) -> RunConfig:
    """Copy the configuration of a run for its journal, with the trials that all looks together may ask for.

    A run with that fixed number of trials can then resume what a killed job has paid for.
    """
    execution = config.execution_config.model_copy(update={"trials": LOOKS[-1]})
    return config.model_copy(update={"execution_config": execution})


def fixed_trials(trials: int | str) -> int:
    """Return a number of trials that was fixed beforehand, or that of the first look.

    Raises:
        UsageError: The number is `auto`, and there is nothing that the run is decided against.
    """
    if isinstance(trials, int):
        return trials
    raise UsageError(
        "`trials: auto` runs more trials while a comparison with a baseline is undecided, and a run on its "
        "own is compared with nothing",
        remedy="Give a number of trials here, such as 4; `auto` is for `agent-eval ci`.",
        field="trials",
    )
