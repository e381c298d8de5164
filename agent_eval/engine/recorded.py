"""The trials in a journal, as the suite that scoring reads.

Scoring a run of an agent is scoring a suite of recorded traces: the suite's own cases, each with what its
trial added to it. So a run that was resumed, or divided, gives the bytes of one that was not.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator
from typing import Any

from agent_eval.contracts import CaseResult
from agent_eval.contracts.suite import definition_of
from agent_eval.errors import InvalidInput
from agent_eval.storage.journal import JournalReader
from agent_eval.suites.cases import RawCase
from agent_eval.suites.document import Document, Shard
from agent_eval.suites.reader import SuiteSource
from agent_eval.suites.selection import Selection

MISSING = 2**64 - 1
"""Stands for the offset of a trial that has not finished."""


class ExecutedDocument(Document):
    """A suite whose cases have been run. Cases that have not are left out.

    Args:
        suite: What was run.
        offsets: Offset in the journal of the trial of each case, by position; `MISSING` without one.
        reader: The journal.
    """

    def __init__(self, suite: Document, offsets: array[int], reader: JournalReader) -> None:
        done = (position for position, offset in enumerate(offsets) if offset != MISSING)
        self._cases = Selection(suite, done)
        self._offsets = array("Q", (offset for offset in offsets if offset != MISSING))
        self._reader = reader
        self.path, self.digest = suite.path, suite.digest
        self.raw_header, self.header_line, self.problems = suite.raw_header, suite.header_line, suite.problems
        self.shards = self._cases.shards

    def read(self, shard: Shard) -> Iterator[RawCase]:
        """The cases of a shard with what their trials added. Raises like `Document.read`."""
        offsets = self._offsets[shard.first : shard.first + shard.count]
        with self._reader:
            for found, offset in zip(self._cases.read(shard), offsets, strict=True):
                yield executed_case(found, self._reader.read(offset))


def executed(suite: SuiteSource, offsets: array[int], reader: JournalReader) -> SuiteSource:
    """The suite as it was executed."""
    return SuiteSource(ExecutedDocument(suite.document, offsets, reader), suite.header)


def executed_case(found: RawCase, record: dict[str, Any]) -> RawCase:
    """A case with what its trial added to it.

    Raises:
        InvalidInput: The record is of another case.
    """
    if record.get("case_id") != found.raw.get("case_id"):
        raise InvalidInput(
            f"the journal has a trial of {record.get('case_id')!r} where the suite has "
            f"{found.raw.get('case_id')!r}",
            remedy="Run again from the start.",
            case_id=found.raw.get("case_id"),
        )
    definition = definition_of(found.raw)
    metadata = {**(definition.get("metadata") or {}), **record["metadata"]}
    raw = {**definition, "trace": record["trace"], "metadata": metadata}
    return RawCase(found.place, raw, None, CaseResult.model_validate(record["result"]))
