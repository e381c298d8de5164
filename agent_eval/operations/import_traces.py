"""Import the exports of a provider, a framework or a recorder as a suite; and tell what a file holds."""

from __future__ import annotations

import os
import tempfile
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from agent_eval.contracts import SCHEMA_VERSION
from agent_eval.errors import AgentEvalError, InvalidInput, NothingMeasured, UsageError
from agent_eval.evidence.derived import is_pack
from agent_eval.evidence.index import INPUT_TOKEN_ATTRIBUTES, OUTPUT_TOKEN_ATTRIBUTES
from agent_eval.evidence.reader import Pack
from agent_eval.importers.assembly import Assembly
from agent_eval.importers.cases import CaseIds, Expectations, make_case
from agent_eval.importers.catalog import AUTO, FORMATS, Family, family_of, load, unsupported
from agent_eval.importers.diagnostics import Diagnostics
from agent_eval.importers.recognise import Recognised, Recogniser, match_of
from agent_eval.importers.records import STDIN, read_records
from agent_eval.operations.environment import redactor_for
from agent_eval.operations.packs import open_to_show
from agent_eval.operations.suites import refuse_ending
from agent_eval.storage.atomic import new_file, write_file
from agent_eval.storage.json import dumps
from agent_eval.storage.redaction import Redactor, count_markers
from agent_eval.suites.paths import LOSSES
from agent_eval.suites.reader import load_suite
from agent_eval.text.escape import shell_word
from agent_eval.text.numbers import count

_SAMPLE = 200
"""Records by which the family of an export is chosen."""

_TOKENS = ("input_tokens", "output_tokens", "cached_tokens", "reasoning_tokens")


@dataclass(frozen=True)
class ImportRequest:
    """What to import, and how.

    Attributes:
        inputs: Files and directories; `-` is standard input.
        family: The formats among which one is recognised; None for those of which most records are.
        format: Name of the format; `auto` recognises each record's.
        dataset_id: Id of the suite; None for the name of the first input.
        group_by: Path of the field whose value groups records; None to go by their ids.
        id_from: Path of the field whose value is the case's id; None for the source's.
        expect: File of expected outputs and labels by id.
        strict: Whether to refuse what would lose something.
    """

    inputs: tuple[Path, ...]
    out: Path
    family: Family | None = None
    format: str = AUTO
    dataset_id: str | None = None
    case_prefix: str | None = None
    group_by: str | None = None
    id_from: str | None = None
    expect: Path | None = None
    strict: bool = False

    @property
    def losses(self) -> Path:
        """The file beside the suite that lists the diagnostics, where something is lost or many are there."""
        return self.out.with_name(f"{self.out.stem}{LOSSES}")


def _tokens_of(event: Mapping[str, Any]) -> dict[str, int]:
    """Read the tokens that an event states, in `usage` or in the attributes that a pack's index reads."""
    usage, attributes = event.get("usage") or {}, event.get("attributes") or {}
    places = {"input_tokens": INPUT_TOKEN_ATTRIBUTES, "output_tokens": OUTPUT_TOKEN_ATTRIBUTES}
    tokens = {}
    for name in _TOKENS:
        stated = [usage.get(name), *(attributes.get(place) for place in places.get(name, ()))]
        figure = next((value for value in stated if type(value) in (int, float)), None)
        if figure is not None:
            tokens[name] = int(figure)
    return tokens


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

    @classmethod
    def of(cls, cases: Iterable[Mapping[str, Any]]) -> Contents:
        """Count cases with their trials, as plain JSON."""
        contents = cls()
        for case in cases:
            contents.add(case)
        return contents

    def add(self, case: Mapping[str, Any]) -> None:
        """Count one more case."""
        self.cases += 1
        for trial in (case, *(case.get("trials") or ())):
            trace = trial.get("trace") or ()
            self.trials += bool(trace)
            for event in trace:
                self.events += 1
                self.types[str(event.get("type"))] += 1
                self.errors += event.get("error") is not None
                self.not_recorded += event.get("content_recorded") is False
                if event.get("type") == "tool_call":
                    self.tools[str(event.get("tool") or "")] += 1
                if isinstance(event.get("model"), str):
                    self.models[event["model"]] += 1
                self.tokens.update(_tokens_of(event))

    def numbers(self) -> dict[str, int]:
        """Return how many cases, events, calls, results and errors there are."""
        return {
            "cases": self.cases,
            "events": self.events,
            "tool_calls": self.types["tool_call"],
            "tool_results": self.types["tool_result"],
            "errors": self.errors,
        }

    def to_json(self) -> dict[str, Any]:
        """Return the numbers as `inspect` prints them; tokens that no event states are left out."""
        return {
            **self.numbers(),
            "trials": self.trials,
            "content_not_recorded": self.not_recorded,
            "types": dict(sorted(self.types.items())),
            "tools": dict(self.tools.most_common()),
            "models": dict(self.models.most_common()),
            "tokens": dict(sorted(self.tokens.items())),
        }


SHOWN = 10
"""Diagnostics that a person is shown; of more, all are in the file beside the suite."""


@dataclass(frozen=True)
class Imported:
    """What an import wrote."""

    out: Path
    dataset_id: str
    totals: Contents
    recognised: tuple[Recognised, ...]
    diagnostics: Diagnostics
    losses: Path | None

    def to_json(self) -> dict[str, Any]:
        """Return what the command prints, as JSON values."""
        return {
            "output": str(self.out),
            "dataset_id": self.dataset_id,
            **self.totals.numbers(),
            "recognised": [recognised.to_json() for recognised in self.recognised],
            "diagnostics": self.diagnostics.counts,
            "losses": None if self.losses is None else str(self.losses),
        }


def import_traces(request: ImportRequest, environ: Mapping[str, str] | None = None) -> Imported:
    """Write a suite of what the inputs hold, without the secrets in it, and beside it what it has lost.

    `environ` has the secrets that are replaced; None for the variables of this process.

    Raises:
        InvalidInput: An input is missing, a record is ambiguous, or a strict import would lose something.
        NothingMeasured: No record could be imported.
        UsageError: The suite's name ends in neither `.json` nor `.jsonl`, or it is an input; or there is no
            such format.
    """
    refuse_ending(request.out, "--out")
    for written in (request.out, request.losses):
        if any(written.resolve() == path.resolve() for path in request.inputs):
            raise UsageError(
                f"{written}: is an input as well", remedy="Write to another file.", file=str(written)
            )
    if request.losses.is_dir():
        raise UsageError(
            f"{request.losses}: is a directory, where what is lost would be listed",
            remedy="Move it, or give the suite another name.",
            file=str(request.losses),
        )
    redactor = redactor_for(os.environ if environ is None else environ)
    diagnostics = Diagnostics(strict=request.strict, redacted=redactor.redact_text)
    try:
        return _import(request, diagnostics, redactor)
    except (InvalidInput, NothingMeasured):
        if diagnostics.has_losses:
            _write_losses(request.losses, diagnostics)
        raise


def _import(request: ImportRequest, diagnostics: Diagnostics, redactor: Redactor) -> Imported:
    expectations = None if request.expect is None else Expectations(request.expect)
    if request.format != AUTO:
        family = family_of(request.format, request.family)
    else:
        family = request.family or _recognised_family(request.inputs)[0]
    recogniser = Recogniser(load(family, request.format), family, named=request.format != AUTO)
    first = request.inputs[0] if request.inputs else Path(STDIN)
    name = first.name.removesuffix(".gz").rpartition(".")[0] or first.name
    named = "stdin" if str(first) == STDIN else name or "imported"
    dataset_id = redactor.redact_text(request.dataset_id or named)
    totals = Contents()
    assembled = Assembly(recogniser, diagnostics, group_by=request.group_by, id_from=request.id_from)
    with closing(assembled) as assembly:
        for record, encoded in read_records(request.inputs, diagnostics, recogniser.is_one_record):
            assembly.add(record, encoded)
        with new_file(request.out) as file:
            cases = _cases(assembly, diagnostics, redactor, request.case_prefix or "", expectations)
            header = dumps({"dataset_id": dataset_id, "metadata": {"schema_version": SCHEMA_VERSION}})
            is_lines = request.out.suffix.lower() == ".jsonl"
            # Header and cases one after the other: a suite of any size is never in memory.
            file.write(header + b"\n" if is_lines else header[:-1] + b',"cases":[')
            for number, (case, line) in enumerate(cases):
                totals.add(case)
                file.write(line + b"\n" if is_lines else (b",\n" if number else b"\n") + line)
            if not is_lines:
                file.write(b"\n]}\n")
            if expectations is not None:
                expectations.report_unused(diagnostics)
            if not totals.cases:
                entry = diagnostics.entries[0] if diagnostics.entries else None
                empty = "no message, call or result" if recogniser.recognised else "no record"
                reason = f"the inputs hold {empty}" if entry is None else f"{entry.record}: {entry.reason}"
                see = f", or see {request.losses} for every record" if diagnostics.has_losses else ""
                raise NothingMeasured(
                    f"nothing could be imported: {reason}",
                    remedy=f"Name the format of the export{see}.",
                    diagnostics=diagnostics.counts,
                )
    is_listed = diagnostics.has_losses or len(diagnostics.entries) > SHOWN
    losses = request.losses if is_listed else None
    if losses is not None:
        _write_losses(losses, diagnostics)
    else:
        request.losses.unlink(missing_ok=True)  # of an earlier import of this name
    return Imported(request.out, dataset_id, totals, tuple(recogniser.recognised), diagnostics, losses)


def _cases(
    assembly: Assembly,
    diagnostics: Diagnostics,
    redactor: Redactor,
    prefix: str,
    expectations: Expectations | None,
) -> Iterator[tuple[dict[str, Any], bytes]]:
    """Yield the cases in the order of the input, each with its line of JSON without secrets.

    Suites are committed, so the secrets in them must go.
    """
    ids, prefix = CaseIds(), redactor.redact_text(prefix)
    for numbers in assembly.groups():
        for read_by, conversation in assembly.read(numbers):
            own = () if conversation.id is None else (conversation.id,)
            if conversation.id is not None:
                # Before the case gets an id of its own: two ids can become equal.
                conversation.id = redactor.redact_text(conversation.id)
            case = make_case(
                conversation,
                read_by.name,
                read_by.provider,
                name=lambda wanted: ids.unique(f"{prefix}{wanted}"),
            )
            if expectations is not None:
                expectations.join(case, (*own, *conversation.aliases))
            line = dumps(case)
            redacted = redactor.redact_json(line)
            if redacted != line and (secrets := count_markers(redacted) - count_markers(line)):
                reason = f"{count(secrets, 'secret')} replaced by [redacted:NAME]"
                diagnostics.changed(case["case_id"], "", reason)
            yield case, redacted


def _write_losses(path: Path, diagnostics: Diagnostics) -> None:
    entries = [entry.to_json() for entry in diagnostics.entries]
    if more := sum(diagnostics.counts.values()) - len(entries):
        entries.append({"severity": "note", "record": "", "field": "", "reason": f"and {more:,} more"})
    write_file(path, b"".join(dumps(entry) + b"\n" for entry in entries))


@dataclass(frozen=True)
class Inspection:
    """What a file is.

    Attributes:
        kind: `evidence pack`, `suite` or `export`.
        about: What else is known of it: its run, its formats, the command that imports it.
        pack: The evidence pack itself, without secrets.
    """

    kind: str
    about: dict[str, Any]
    contents: Contents
    diagnostics: Diagnostics
    pack: Pack | None = None

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
        try:
            pack = open_to_show(path)
        except AgentEvalError:
            if path.is_dir():
                raise
        else:
            config, summary = pack.config, pack.summary
            about = {
                "run_id": config.run_id,
                "dataset_id": config.dataset_id,
                "schema_version": pack.manifest.schema_version,
                "judges": config.judges,
                "passed_cases": summary.passed_cases,
                "hard_fail_cases": summary.hard_fail_cases,
            }
            contents = Contents.of(case for case, _ in pack.trajectories())
            return Inspection("evidence pack", about, contents, Diagnostics(), pack)
    if path.is_file():
        with suppress(AgentEvalError):
            suite = load_suite(path)
            about = {"dataset_id": suite.dataset_id, "schema_version": suite.version}
            contents = Contents.of(case.to_json() for case in suite.cases)
            return Inspection("suite", about, contents, Diagnostics())
    family, others = _recognised_family([path])
    with tempfile.TemporaryDirectory(prefix="agent-eval-") as directory:
        out = Path(directory) / "suite.jsonl"
        imported = import_traces(ImportRequest((path,), out, family))
        contents = Contents.of(case.to_json() for case in load_suite(out).cases)
    about = {
        "formats": [recognised.to_json() for recognised in imported.recognised],
        "import_with": f"agent-eval import {shell_word(str(path))} --out suite.json",
        "could_also_be": others,
    }
    return Inspection("export", about, contents, imported.diagnostics)


def _recognised_family(paths: Sequence[Path]) -> tuple[Family, list[str]]:
    """Choose the family whose formats recognise the first records with the most confidence.

    Returns it, and the formats of others that might be meant.
    """
    if any(str(path) == STDIN for path in paths):
        raise UsageError(
            "standard input can be read once, and no more to recognise its format",
            remedy=f"Name the format with --from: {', '.join(entry.name for entry in FORMATS)}.",
            field="from",
        )
    scores: dict[Family, float] = {}
    names: dict[Family, set[str]] = {}
    families: tuple[Family, ...] = ("provider", "framework", "transcript")
    diagnostics, reason = Diagnostics(), None
    for family in families:
        recogniser = Recogniser(load(family), family)
        scores[family], names[family] = 0.0, set()
        for number, (record, _) in enumerate(read_records(paths, diagnostics, recogniser.is_one_record)):
            reason = reason or unsupported(record.value)
            matches = [
                (reader.name, match)
                for reader in recogniser.formats
                if (match := match_of(reader, record.value))
            ]
            if matches:
                name, best = max(matches, key=lambda inspected: inspected[1].confidence)
                scores[family] += best.confidence
                names[family].add(name)
            if number >= _SAMPLE:
                break
    family = max(families, key=lambda each: scores[each])
    if not scores[family]:
        # Which format it is of instead, or what could not be read.
        if reason is None and diagnostics.entries:
            reason = f"{diagnostics.entries[0].record} {diagnostics.entries[0].reason}"
        because = "" if reason is None else f"; {reason}"
        raise NothingMeasured(
            f"{paths[0]}: is no pack, no suite, and no export that can be imported{because}",
            remedy="See the formats that can be read in docs/guides/importing.md.",
            file=str(paths[0]),
        )
    others = [name for each in families if each != family and scores[each] for name in sorted(names[each])]
    return family, others
