"""Import the exports of a provider, a framework or a recorder as a suite with recorded traces."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from agent_eval.contracts import SCHEMA_VERSION
from agent_eval.errors import InvalidInput, NothingMeasured, UsageError
from agent_eval.importers.assembly import Assembly
from agent_eval.importers.cases import CaseIds, make_case
from agent_eval.importers.catalog import AUTO, Family, load
from agent_eval.importers.containers import STDIN
from agent_eval.importers.diagnostics import Diagnostics
from agent_eval.importers.expectations import Expectations
from agent_eval.importers.recognise import Recognised, Recogniser
from agent_eval.importers.records import read_records
from agent_eval.operations.environment import redactor_for
from agent_eval.storage.atomic import new_file, write_file
from agent_eval.storage.json import dumps
from agent_eval.storage.redaction import Redactor, count_markers
from agent_eval.text.numbers import count


@dataclass(frozen=True)
class ImportRequest:
    """What to import, and how.

    Attributes:
        inputs: Files and directories; `-` is standard input.
        format: Name of the format; `auto` recognises each record's.
        dataset_id: Id of the suite; None for the name of the first input.
        group_by: Path of the field whose value groups records; None to go by their ids.
        expect: File of expected outputs and labels by id.
        strict: Whether to refuse what would lose something.
        diagnostics_out: Written as JSON Lines.
    """

    inputs: tuple[Path, ...]
    out: Path
    family: Family
    format: str = AUTO
    dataset_id: str | None = None
    case_prefix: str | None = None
    group_by: str | None = None
    expect: Path | None = None
    strict: bool = False
    diagnostics_out: Path | None = None


@dataclass
class Totals:
    """Numbers of what was imported."""

    cases: int = 0
    events: int = 0
    tool_calls: int = 0
    tool_results: int = 0
    errors: int = 0

    def add(self, case: dict[str, Any]) -> None:
        """Count a case."""
        self.cases += 1
        for trace in (case["trace"], *(trial["trace"] for trial in case.get("trials", ()))):
            self.events += len(trace)
            for event in trace:
                self.tool_calls += event["type"] == "tool_call"
                self.tool_results += event["type"] == "tool_result"
                self.errors += "error" in event

    def to_json(self) -> dict[str, int]:
        """Return the numbers by name."""
        return dict(vars(self))


@dataclass(frozen=True)
class Imported:
    """What an import wrote."""

    out: Path
    dataset_id: str
    totals: Totals
    recognised: tuple[Recognised, ...]
    diagnostics: Diagnostics

    def to_json(self) -> dict[str, Any]:
        """Return what the command prints, as JSON values."""
        return {
            "output": str(self.out),
            "dataset_id": self.dataset_id,
            **self.totals.to_json(),
            "recognised": [recognised.to_json() for recognised in self.recognised],
            "diagnostics": self.diagnostics.counts,
        }


def import_traces(request: ImportRequest, environ: Mapping[str, str] | None = None) -> Imported:
    """Write a suite of what the inputs hold, without the secrets in it.

    `environ` has the secrets that are replaced; None for the variables of this process.

    Raises:
        InvalidInput: An input is missing, a record is ambiguous, or a strict import would lose something.
        NothingMeasured: No record could be imported.
        UsageError: The suite's name ends in neither `.json` nor `.jsonl`, or it is an input.
    """
    if request.out.suffix.lower() not in (".json", ".jsonl"):
        raise UsageError(
            f"{request.out}: a suite is written as .json or .jsonl",
            remedy="Give --out such a name.",
            file=str(request.out),
        )
    _refuse_to_replace_inputs(request)
    redactor = redactor_for(os.environ if environ is None else environ)
    diagnostics = Diagnostics(strict=request.strict, redacted=redactor.redact_text)
    try:
        return _import(request, diagnostics, redactor)
    except InvalidInput:
        _write_diagnostics(request, diagnostics)
        raise


def _refuse_to_replace_inputs(request: ImportRequest) -> None:
    for written in filter(None, (request.out, request.diagnostics_out)):
        if any(written.resolve() == path.resolve() for path in request.inputs):
            raise UsageError(
                f"{written}: is an input as well", remedy="Write to another file.", file=str(written)
            )


def _import(request: ImportRequest, diagnostics: Diagnostics, redactor: Redactor) -> Imported:
    expectations = None if request.expect is None else Expectations.read(request.expect)
    recogniser = Recogniser(load(request.family, request.format), request.family)
    dataset_id = redactor.redact_text(request.dataset_id or _name_of(request.inputs))
    prefix = redactor.redact_text(request.case_prefix or "")
    totals = Totals()
    ids = CaseIds()
    with Assembly(recogniser, diagnostics, group_by=request.group_by) as assembly:
        for record, encoded in read_records(request.inputs, diagnostics, recogniser.is_one_record):
            assembly.add(record, encoded)
        maker = _CaseMaker(assembly, diagnostics, redactor, lambda wanted: ids.unique(f"{prefix}{wanted}"))
        with new_file(request.out) as file:
            _write_suite(file, request.out, dataset_id, maker.lines(totals, expectations))
            if expectations is not None:
                expectations.report_unused(diagnostics)
            if not totals.cases:
                raise _nothing_imported(diagnostics)
    _write_diagnostics(request, diagnostics)
    return Imported(request.out, dataset_id, totals, tuple(recogniser.recognised), diagnostics)


@dataclass(frozen=True)
class _CaseMaker:
    """Makes the cases of an import without the secrets in them: suites are committed."""

    assembly: Assembly
    diagnostics: Diagnostics
    redactor: Redactor
    name: Callable[[str], str]
    """Gives a case its id, for the one that it should have."""

    def lines(self, totals: Totals, expectations: Expectations | None) -> Iterator[bytes]:
        """Yield the cases in the order of the input, one line of JSON each, and count them in `totals`."""
        for numbers in self.assembly.groups():
            for read_by, conversation in self.assembly.read(numbers):
                own = () if conversation.id is None else (conversation.id,)
                if conversation.id is not None:
                    # Before the case gets an id of its own: two ids can become equal.
                    conversation.id = self.redactor.redact_text(conversation.id)
                case = make_case(conversation, read_by.name, read_by.provider, name=self.name)
                if expectations is not None:
                    expectations.join(case, (*own, *conversation.aliases))
                totals.add(case)
                yield self._without_secrets(case)

    def _without_secrets(self, case: dict[str, Any]) -> bytes:
        line = dumps(case)
        redacted = self.redactor.redact_json(line)
        if redacted != line and (secrets := count_markers(redacted) - count_markers(line)):
            reason = f"{count(secrets, 'secret')} replaced by [redacted:NAME]"
            self.diagnostics.changed(case["case_id"], "", reason)
        return redacted


def _write_suite(file: IO[bytes], path: Path, dataset_id: str, cases: Iterable[bytes]) -> None:
    """Write header and cases one after the other; a suite of any size is never in memory."""
    header = {"dataset_id": dataset_id, "metadata": {"schema_version": SCHEMA_VERSION}}
    if path.suffix.lower() == ".jsonl":
        file.write(dumps(header) + b"\n")
        file.writelines(case + b"\n" for case in cases)
        return
    file.write(dumps(header)[:-1] + b',"cases":[')
    separator = b"\n"
    for case in cases:
        file.write(separator + case)
        separator = b",\n"
    file.write(b"\n]}\n")


def _name_of(inputs: Sequence[Path]) -> str:
    first = inputs[0] if inputs else Path(STDIN)
    name = first.name.removesuffix(".gz").rpartition(".")[0] or first.name
    return "stdin" if str(first) == STDIN else name or "imported"


def _write_diagnostics(request: ImportRequest, diagnostics: Diagnostics) -> None:
    if request.diagnostics_out is not None:
        entries = [entry.to_json() for entry in diagnostics.entries]
        more = sum(diagnostics.counts.values()) - len(entries)
        if more:
            entries.append({"severity": "note", "record": "", "field": "", "reason": f"and {more:,} more"})
        write_file(request.diagnostics_out, b"".join(dumps(entry) + b"\n" for entry in entries))


def _nothing_imported(diagnostics: Diagnostics) -> NothingMeasured:
    first = diagnostics.entries[0] if diagnostics.entries else None
    reason = "the inputs hold no record" if first is None else f"{first.record}: {first.reason}"
    return NothingMeasured(
        f"nothing could be imported: {reason}",
        remedy="Name the format of the export, or see --diagnostics-out for every record.",
        diagnostics=diagnostics.counts,
    )
