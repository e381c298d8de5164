"""Records as bytes: canonical JSON Lines, one immutable file a run, and several in one file in evidence."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from datetime import UTC
from typing import Any

from pydantic import ValidationError

from agent_eval.contracts.base import READABLE_SCHEMA_VERSIONS, canonical_json, instant
from agent_eval.contracts.history import CaseRecord, HistoryRun, RunRecord
from agent_eval.errors import AgentEvalError, InvalidInput
from agent_eval.storage.files import safe_name, sha256_bytes
from agent_eval.storage.json import Limits, parse

MAX_RUNS = 100
"""Runs that a history has."""

MAX_BYTES = 8 << 20
"""Bytes of the records of all runs of a history; the oldest are left out beyond it."""

MAX_RECORD_BYTES = MAX_BYTES
"""Bytes of one run's record; a larger run has none."""

_LINE = Limits(max_bytes=1 << 16)
_DIGEST_LENGTH = 16
_NAME = re.compile(r"[0-9]{8}T[0-9]{6}Z-[a-z0-9._-]{1,92}-(?P<digest>[0-9a-f]{16})\.jsonl", re.ASCII)


def encode(record: RunRecord) -> bytes:
    """Encode the record of a run: a line for the run, and one for each case, sorted by id."""
    lines = [record.run.to_json(), *(record.cases[case_id].to_json() for case_id in sorted(record.cases))]
    return b"".join(canonical_json(line) + b"\n" for line in lines)


def decode(data: bytes, *, source: str) -> list[RunRecord]:
    """Read the records of one run or several.

    Args:
        data: Of one file.
        source: Name of the file in errors.

    Raises:
        InvalidInput: Something in it is no record of this version, or a record is not whole.
    """
    records = []
    lines = _values(data, source)
    for number, value in lines:
        run = _run(value, source, number)
        cases = [_case(value, source, number) for number, value in _take(lines, run.cases)]
        by_id = {case.case_id: case for case in cases}
        if len(by_id) != run.cases:
            what = f"the record of run {run.run_id[:200]!r} has {len(by_id)} cases where it says {run.cases}"
            raise _broken(source, number, what)
        records.append(RunRecord(run, by_id))
    return records


def file_name(record: RunRecord) -> str:
    """Name the file of a record. The name holds the digest of the content, which is checked on reading."""
    started = instant(record.run.started_at).astimezone(UTC).strftime("%Y%m%dT%H%M%SZ")
    return f"{started}-{safe_name(record.run.run_id)}-{_digest(encode(record))}.jsonl"


def decode_file(name: str, data: bytes, *, source: str) -> RunRecord:
    """Read the file of one run, whose content must have the digest of its name.

    Raises:
        InvalidInput: It is no record, or another one than was written.
    """
    match = _NAME.fullmatch(name)
    if match is None:
        raise InvalidInput(
            f"{source}: {name[:200]!r} is not the name of a record.",
            remedy="Keep nothing but records in a history.",
            file=source,
        )
    if match["digest"] != _digest(data):
        raise InvalidInput(
            f"{source}: the record {name} is not what was written: its digest differs.",
            remedy="A record is never edited: restore it, or remove the file.",
            file=source,
        )
    records = decode(data, source=f"{source}/{name}")
    if len(records) != 1:
        raise _broken(f"{source}/{name}", 1, f"it has {len(records)} records where one belongs")
    return records[0]


def is_record_name(name: str) -> bool:
    """Whether a file has the name of a record."""
    return _NAME.fullmatch(name) is not None


def newest_first(*histories: Iterable[RunRecord], most: int = MAX_RUNS) -> list[RunRecord]:
    """Join histories: each run once, the newest first, within the bounds of a history.

    Args:
        histories: In any order. Of two records of one run, known by id and dataset, the first is taken.
        most: Runs that are kept.
    """
    known: dict[tuple[str, str], RunRecord] = {}
    for history in histories:
        for record in history:
            known.setdefault((record.run.dataset_id, record.run.run_id), record)
    newest: list[RunRecord] = []
    size = 0
    for record in sorted(known.values(), key=_started, reverse=True)[:most]:
        size += len(encode(record))
        if size > MAX_BYTES:
            break
        newest.append(record)
    return newest


def is_too_large(record: RunRecord) -> bool:
    """Whether a run has so many cases that its record is not kept."""
    return len(encode(record)) > MAX_RECORD_BYTES


def encode_all(records: Iterable[RunRecord]) -> bytes:
    """Encode several records as one file, in their order."""
    return b"".join(map(encode, records))


def _started(record: RunRecord) -> tuple[float, str]:
    return instant(record.run.started_at).timestamp(), record.run.run_id


def _digest(data: bytes) -> str:
    return sha256_bytes(data)[:_DIGEST_LENGTH]


def _values(data: bytes, source: str) -> Iterator[tuple[int, Any]]:
    if len(data) > MAX_BYTES + MAX_RECORD_BYTES:
        raise _broken(source, 1, f"{len(data):,} bytes are more than a history may have")
    if data and not data.endswith(b"\n"):
        raise _broken(source, data.count(b"\n") + 1, "the last line is cut off")
    for number, line in enumerate(data.split(b"\n")[:-1], start=1):
        try:
            yield number, parse(line, source=source, limits=_LINE, first_line=number)
        except AgentEvalError as error:
            raise _broken(source, number, error.message) from error


def _take(values: Iterator[tuple[int, Any]], wanted: int) -> Iterator[tuple[int, Any]]:
    for _ in range(wanted):
        value = next(values, None)
        if value is None:
            return
        yield value


def _run(value: Any, source: str, line: int) -> HistoryRun:
    version = value.get("schema_version") if isinstance(value, dict) else None
    if isinstance(version, str) and version not in READABLE_SCHEMA_VERSIONS:
        raise InvalidInput(
            f"{source}, line {line}: the record is of version {version[:40]!r}, which cannot be read.",
            remedy="Use a newer agent-eval, or make a new run on the base branch.",
            file=source,
            line=line,
        )
    try:
        run = HistoryRun.model_validate(value)
        instant(run.started_at)
    except (ValidationError, ValueError) as error:
        raise _broken(source, line, f"it is not the first line of a record: {_first(error)}") from error
    return run


def _case(value: Any, source: str, line: int) -> CaseRecord:
    try:
        case = CaseRecord.model_validate(value)
    except ValidationError as error:
        raise _broken(source, line, f"it is not the record of a case: {_first(error)}") from error
    if not case.is_consistent:
        raise _broken(source, line, "it is not the record of a case: its counts contradict each other")
    return case


def _first(error: Exception) -> str:
    if isinstance(error, ValidationError):
        first = error.errors(include_input=False, include_url=False)[0]
        place = ".".join(map(str, first["loc"]))
        return f"{place}: {first['msg']}" if place else first["msg"]
    return str(error)


def _broken(source: str, line: int, what: str) -> InvalidInput:
    return InvalidInput(
        f"{source}, line {line}: {what}",
        remedy="A record is never edited: restore the file, or make a new run on the base branch.",
        file=source,
        line=line,
    )
