"""Nights of a base branch for the tests of drift: recorded traces of a seeded agent, evaluated one by one."""

from __future__ import annotations

import io
import random
import zipfile
from pathlib import Path
from typing import Any

from tests.e2e.runner import Runner, Step, orders

CASES = 36
GOOD, BAD = 0.94, 0.84
LENIENT = {"max_regressed_cases": "36", "max_new_hard_fail_cases": "36", "html_report": "false"}
"""The gate is not what these tests look at."""


def agent_at(rate: float, source: random.Random) -> list[dict[str, Any]]:
    """The suite as an agent that passes each case at `rate` leaves it one night."""
    bad = tuple(number for number in range(1, CASES + 1) if source.random() >= rate)
    return orders(CASES, bad=bad)


def clock(night: int) -> str:
    """The time of a night, as ISO 8601."""
    return f"2026-{1 + night // 28:02}-{1 + night % 28:02}T02:00:00+00:00"


class Nights:
    """A repository on GitHub whose base branch is evaluated every night and watched since its release.

    Args:
        runner: The repository's runner.
        release_failing: Failing cases of each run of the release.
    """

    def __init__(self, runner: Runner, release_failing: tuple[int, ...] = (2, 2)) -> None:
        self.runner, self.number = runner, 0
        for number, failing in enumerate(release_failing):
            cases = orders(CASES, bad=tuple(range(1, failing + 1)))
            self.keep_release(self.evaluate(cases, 100 + number, event="push", drift_release=""), number)

    def night(self, cases: list[dict[str, Any]], **inputs: str) -> Step:
        """One night: the suite is evaluated on main by a schedule, and its evidence is uploaded."""
        self.number += 1
        run_id = 1_000 + self.number
        given = {"event": "schedule", **inputs}
        step = self.evaluate(cases, run_id, **given)
        if step.outputs.get("evidence-archive"):
            self.runner.upload(step, run_id)
        return step

    def evaluate(self, cases: list[dict[str, Any]], run_id: int, **inputs: Any) -> Step:
        """One run on main at the time of the night."""
        self.runner.write_suite(*cases)
        environ = {"AGENT_EVAL_CLOCK": clock(self.number), **inputs.pop("environ", {})}
        given = {**LENIENT, "drift_release": "release", **inputs}
        return self.runner.push(run_id=run_id, environ=environ, **given)

    def keep_release(self, step: Step, number: int) -> None:
        """Keep the evidence of a run as one of the release."""
        place = self.runner.workspace / "release" / f"run-{number}"
        with zipfile.ZipFile(io.BytesIO(step.archive)) as archive:
            for name in archive.namelist():
                path = place / Path(name).relative_to("shop")
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_bytes(archive.read(name))
