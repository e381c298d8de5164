"""Import in a test: the cases and the diagnostics, without the command line."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any

from agent_eval.contracts import Case, Trace
from agent_eval.errors import FailureKind, InvalidInput, NothingMeasured
from agent_eval.importers.catalog import FORMATS, Family
from agent_eval.judges.builtin.replay_contract import ReplayContractJudge
from agent_eval.operations.conformance import EXPECTED
from agent_eval.operations.import_traces import ImportRequest, import_traces

TRANSCRIPT, FRAMEWORK, PROVIDER = "transcript", "framework", "provider"
FIXTURES = Path(__file__).parents[2] / "fixtures" / "adapters"
EXPORTS = [path for path in sorted(FIXTURES.glob("*/*")) if not path.name.endswith(EXPECTED)]
FAMILIES: dict[str, Family] = {entry.name: entry.family for entry in FORMATS}


@dataclass
class Result:
    """What an import made."""

    cases: list[dict[str, Any]]
    diagnostics: list[dict[str, Any]]
    formats: set[str]

    @property
    def events(self) -> list[dict[str, Any]]:
        """The events of every trial of every case."""
        return [event for trace in self.traces for event in trace]

    @property
    def traces(self) -> list[list[dict[str, Any]]]:
        """Every trial's events."""
        return [
            trace
            for case in self.cases
            for trace in (case["trace"], *(trial["trace"] for trial in case.get("trials", [])))
        ]

    @property
    def counts(self) -> tuple[int, int, int]:
        """Number of calls, results and messages."""
        return len(self.of("tool_call")), len(self.of("tool_result")), len(self.of("message"))

    @property
    def pairs(self) -> list[Any]:
        """The calls of every trace with their results."""
        traces = [Trace(Case.model_validate({"case_id": "a", "trace": trace}).trace) for trace in self.traces]
        return [pair for trace in traces for pair in trace.calls]

    def of(self, kind: str, actor: str | None = None) -> list[dict[str, Any]]:
        """The events of a type, and of an actor."""
        return [event for event in self.events if event["type"] == kind and actor in (None, event["actor"])]

    def tokens(self, name: str) -> int:
        """The sum of a kind of tokens."""
        return sum(event.get("usage", {}).get(name, 0) for event in self.events)


def contract_problems(result: Result) -> list[str]:
    """What the judge of the trace itself, which every run has, says of each trial.

    That a run ended badly is a finding on the agent, and not on the trace.
    """
    judge = ReplayContractJudge()
    cases = [Case.model_validate(case) for case in result.cases]
    trials = [case.of_trial(number) for case in cases for number in range(case.trial_count)]
    verdicts = [judge.evaluate(trial, trial.recorded) for trial in trials]
    return [
        each.reason for each in verdicts if not each.passed and each.failure is not FailureKind.AGENT_ERROR
    ]


def imported(family: Family, path: Path, out: Path, *, name: str = "auto", **options: Any) -> Result:
    """Import a file or a directory; `out` is a directory for what is written."""
    out.mkdir(parents=True, exist_ok=True)
    found = import_traces(ImportRequest((path,), out / "suite.jsonl", family, name, **options))
    lines = (out / "suite.jsonl").read_bytes().rstrip(b"\n").split(b"\n")[1:]
    diagnostics = [entry.to_json() for entry in found.diagnostics.entries]
    formats = {recognised.format for recognised in found.recognised}
    return Result([json.loads(line) for line in lines], diagnostics, formats)


def fixture(name: str, out: Path, **options: Any) -> Result:
    """Import one of our own exports, by its format's folder and its name."""
    return imported(FAMILIES[name.partition("/")[0]], FIXTURES / name, out, **options)


def steps(result: Result) -> list[tuple[str, Any]]:
    """Types of events in order, with the call or the text."""
    return [
        (event["type"], event.get("call_id") or event.get("output", event.get("input")))
        for event in result.events
    ]


def of_value(family: Family, value: Any, out: Path, **options: Any) -> Result:
    """Import one JSON document."""
    out.mkdir(parents=True, exist_ok=True)
    path = out / "input.json"
    path.write_text(json.dumps(value), encoding="utf-8")
    return imported(family, path, out, **options)


def of_lines(family: Family, values: list[Any], out: Path, **options: Any) -> Result:
    """Import JSON Lines."""
    out.mkdir(parents=True, exist_ok=True)
    path = out / "input.jsonl"
    path.write_text("".join(json.dumps(value) + "\n" for value in values), encoding="utf-8")
    return imported(family, path, out, **options)


def silent_losses(
    family: Family, path: Path, out: Path, *, cuts: int, whole: Callable[[Result], Any]
) -> list[int]:
    """Cut a file at random bytes; return where something is lost without an error or a diagnostic.

    Args:
        whole: What of the result must be there if nothing is reported. Lines that are missing altogether
            cannot be noticed, so JSON Lines are cut within lines only.
    """
    data = path.read_bytes()
    full = whole(imported(family, path, out / "whole"))
    random = Random(12)
    found = []
    for _ in range(cuts):
        place = random.randrange(1, len(data))
        if path.suffix == ".jsonl" and (data[place - 1 : place] == b"\n" or data[place : place + 1] == b"\n"):
            continue
        cut = out / path.name
        cut.write_bytes(data[:place])
        try:
            result = imported(family, cut, out / "cut")
        except (InvalidInput, NothingMeasured):
            continue
        lossy = [entry for entry in result.diagnostics if entry["severity"] in ("lost", "unknown")]
        if not lossy and whole(result) != full:
            found.append(place)
    return found
