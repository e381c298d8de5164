"""Evaluations of small suites in a working directory, without a runner and without a platform's API."""

from __future__ import annotations

import io
import json
from collections.abc import Iterable
from dataclasses import replace
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from agent_eval.ci.decide import Evaluation
from agent_eval.ci.earlier import Asked, EarlierRun
from agent_eval.ci.evaluate import evaluate
from agent_eval.ci.platforms.local import LocalDirectory
from agent_eval.ci.rules import JobContext
from agent_eval.contracts.policy import GatePolicy
from agent_eval.errors import AgentEvalError
from agent_eval.storage.redaction import Redactor
from tests.e2e.runner import orders
from tests.unit.ci.jobs import make_job, settings_of


def write_suite(cases: list[dict[str, Any]], *, name: str = "s.json", dataset_id: str = "shop") -> None:
    """Write a suite to the working directory."""
    Path(name).write_text(json.dumps({"dataset_id": dataset_id, "cases": cases}))


def evidence(cases: list[dict[str, Any]] | None = None, **suites: list[dict[str, Any]]) -> str:
    """Leave the evidence of a run, of `cases` in the suite `shop` and of others by name; return its path.

    The suite `s.json` has four passing cases afterwards.
    """
    datasets = {"shop": orders() if cases is None else cases, **suites}
    for dataset_id, others in suites.items():
        write_suite(others, name=f"{dataset_id}.json", dataset_id=dataset_id)
    archive = Path("before/evidence.zip")
    archive.parent.mkdir(exist_ok=True)
    archive.write_bytes(_archive(json.dumps(datasets)))
    return str(archive)


@cache
def _archive(datasets: str) -> bytes:
    """Judge suites, given as JSON by the ids of their datasets, in a directory of their own."""
    with TemporaryDirectory() as name:
        place = Path(name)
        for dataset_id, cases in json.loads(datasets).items():
            write_suite(cases, name=str(place / f"{dataset_id}.json"), dataset_id=dataset_id)
        settings = settings_of(suite=str(place / "*.json"), baseline="none", out=str(place / "out"))
        return evaluate(make_job(settings)).archive.read_bytes()


class Offered(LocalDirectory):
    """A platform with these earlier runs, or with the failure to list them."""

    runs: Iterable[EarlierRun] | AgentEvalError

    def earlier_runs(self, asked: Asked) -> Iterable[EarlierRun]:
        """Yield the runs, or raise the failure."""
        if isinstance(self.runs, AgentEvalError):
            raise self.runs
        return self.runs


def job(
    *,
    policy: GatePolicy | None = None,
    secrets: tuple[str, ...] = (),
    runs: Iterable[EarlierRun] | AgentEvalError = (),
    **flags: str,
) -> JobContext:
    """A job in the working directory: with the baseline `none`, unless flags name one."""
    settings = settings_of(**{"baseline": "none", **flags})
    platform = Offered(settings.for_platform, {}, io.StringIO())
    platform.runs = runs
    made = make_job(settings, {}, platform)
    rules = replace(made.rules, policy=(policy or GatePolicy()).with_thresholds(made.settings.thresholds))
    return replace(made, rules=rules, redactor=Redactor(list(secrets)))


def evaluated(**options: Any) -> Evaluation:
    """The result of such a job."""
    return evaluate(job(**options))
