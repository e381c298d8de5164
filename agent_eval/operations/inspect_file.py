"""Tell what a file is, and what it holds: an evidence pack, a suite, or an export that can be imported."""

from __future__ import annotations

import tempfile
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from agent_eval.errors import AgentEvalError, InvalidInput, NothingMeasured
from agent_eval.evidence.derived import is_pack
from agent_eval.importers.catalog import COMMANDS, Family, load
from agent_eval.importers.diagnostics import Diagnostics
from agent_eval.importers.recognise import Recogniser
from agent_eval.importers.records import read_records
from agent_eval.operations.import_traces import ImportRequest, import_traces
from agent_eval.operations.packs import open_run
from agent_eval.suites.reader import load_suite

_SAMPLE = 200
"""Records by which the family of an export is chosen."""

_TOKENS = ("input_tokens", "output_tokens", "cached_tokens", "reasoning_tokens")


@dataclass
class Contents:
    """What traces hold, in numbers."""

    cases: int = 0
    trials: int = 0
    events: int = 0
    types: Counter[str] = field(default_factory=Counter)
    tools: Counter[str] = field(default_factory=Counter)
    models: Counter[str] = field(default_factory=Counter)
    tokens: Counter[str] = field(default_factory=Counter)
    errors: int = 0
    not_recorded: int = 0

    def add(self, case: Mapping[str, Any]) -> None:
        """Count a case with its trials, as plain JSON."""
        self.cases += 1
        traces = [case.get("trace") or [], *(trial.get("trace") or [] for trial in case.get("trials") or [])]
        for trace in traces:
            self.trials += bool(trace)
            for event in trace:
                self._add_event(event)

    def _add_event(self, event: Mapping[str, Any]) -> None:
        self.events += 1
        self.types[str(event.get("type"))] += 1
        self.errors += event.get("error") is not None
        self.not_recorded += event.get("content_recorded") is False
        if event.get("type") == "tool_call":
            self.tools[str(event.get("tool") or "")] += 1
        if isinstance(event.get("model"), str):
            self.models[event["model"]] += 1
        for name in _TOKENS:
            amount = (event.get("usage") or {}).get(name)
            if isinstance(amount, int | float):
                self.tokens[name] += int(amount)

    def to_json(self) -> dict[str, Any]:
        """Return the numbers as the command prints them; tokens that no event states are left out."""
        return {
            "cases": self.cases,
            "trials": self.trials,
            "events": self.events,
            "tool_calls": self.types["tool_call"],
            "tool_results": self.types["tool_result"],
            "errors": self.errors,
            "content_not_recorded": self.not_recorded,
            "types": dict(sorted(self.types.items())),
            "tools": dict(self.tools.most_common()),
            "models": dict(self.models.most_common()),
            "tokens": dict(sorted(self.tokens.items())),
        }


@dataclass(frozen=True)
class Inspection:
    """What a file is.

    Attributes:
        kind: `evidence pack`, `suite` or `export`.
        about: What else is known of it: its run, its formats, the command that imports it.
    """

    kind: str
    about: dict[str, Any]
    contents: Contents
    diagnostics: Diagnostics

    def to_json(self) -> dict[str, Any]:
        """Return what the command prints."""
        listed = [entry.to_json() for entry in self.diagnostics.entries[:100]]
        lost = {"diagnostics": self.diagnostics.counts, "findings": listed}
        return {"kind": self.kind, **self.about, **self.contents.to_json(), **lost}


def inspect_file(path: Path) -> Inspection:
    """Tell what a file or directory is.

    Raises:
        InvalidInput: There is no such file, or it is none of these.
        NothingMeasured: It is an export, and no record of it can be imported.
    """
    if not path.exists():
        raise InvalidInput(f"{path}: no such file or directory", remedy="Check the path.", file=str(path))
    if (path.is_dir() and is_pack(path)) or (path.is_file() and path.suffix == ".zip"):
        inspected = _pack(path)
        if inspected is not None:
            return inspected
    suite = _suite(path) if path.is_file() else None
    return _export(path) if suite is None else suite


def _pack(path: Path) -> Inspection | None:
    try:
        pack = open_run(path)
    except AgentEvalError:
        if path.is_dir():
            raise
        return None  # an archive of exports
    config, summary = pack.config, pack.summary
    about = {
        "run_id": config.run_id,
        "dataset_id": config.dataset_id,
        "schema_version": pack.manifest.schema_version,
        "judges": config.judges,
        "passed_cases": summary.passed_cases,
        "hard_fail_cases": summary.hard_fail_cases,
    }
    return _counted("evidence pack", about, (case for case, _ in pack.trajectories()))


def _suite(path: Path) -> Inspection | None:
    try:
        suite = load_suite(path)
    except AgentEvalError:
        return None
    about = {"dataset_id": suite.dataset_id, "schema_version": suite.version}
    return _counted("suite", about, (case.to_json() for case in suite.cases))


def _counted(kind: str, about: dict[str, Any], cases: Iterable[Mapping[str, Any]]) -> Inspection:
    contents = Contents()
    for case in cases:
        contents.add(case)
    return Inspection(kind, about, contents, Diagnostics())


def _export(path: Path) -> Inspection:
    family, others = _family_of(path)
    with tempfile.TemporaryDirectory(prefix="agent-eval-") as directory:
        out = Path(directory) / "suite.jsonl"
        imported = import_traces(ImportRequest((path,), out, family))
        contents = Contents()
        for case in (each.to_json() for each in load_suite(out).cases):
            contents.add(case)
    formats = [recognised.to_json() for recognised in imported.recognised]
    command, option = COMMANDS[family].split()
    names = sorted({recognised.format for recognised in imported.recognised})
    named = names[0] if len(names) == 1 else "auto"
    about = {
        "formats": formats,
        "import_with": f"agent-eval {command} {option} {named} --input {path} --out suite.json",
        "could_also_be": others,
    }
    return Inspection("export", about, contents, imported.diagnostics)


def _family_of(path: Path) -> tuple[Family, list[str]]:
    """Choose the family whose formats recognise the first records with the most confidence."""
    scores: dict[Family, float] = {}
    names: dict[Family, set[str]] = {}
    families: tuple[Family, ...] = ("provider", "framework", "transcript")
    for family in families:
        recogniser = Recogniser(load(family), family)
        scores[family], names[family] = 0.0, set()
        for number, (record, _) in enumerate(read_records([path], Diagnostics(), recogniser.is_one_record)):
            matches = [
                (reader.name, match)
                for reader in recogniser.formats
                if (match := reader.detect(record.value))
            ]
            if matches:
                name, best = max(matches, key=lambda inspected: inspected[1].confidence)
                scores[family] += best.confidence
                names[family].add(name)
            if number >= _SAMPLE:
                break
    family = max(families, key=lambda each: scores[each])
    if not scores[family]:
        raise NothingMeasured(
            f"{path}: is no pack, no suite, and no export of a known format",
            remedy="See the formats that can be read in docs/guides/importing.md.",
            file=str(path),
        )
    others = [name for each in families if each != family and scores[each] for name in sorted(names[each])]
    return family, others
