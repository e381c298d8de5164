"""The trials in a journal, as the suite that scoring reads.

Scoring a run of an agent is scoring a suite of recorded traces: the suite's own cases, each with what its
trials added to it. So a run that was resumed, or divided, gives the bytes of one that was not.
"""

from __future__ import annotations

from array import array
from base64 import b64decode, b64encode
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from agent_eval.contracts import CaseResult, definition_of
from agent_eval.contracts.trials import ALL, CasePolicy, trials_result
from agent_eval.engine.shard import written_result
from agent_eval.engine.trial import TrialOutcome
from agent_eval.errors import InvalidInput
from agent_eval.evidence.attachments import storable
from agent_eval.evidence.writer import result_row
from agent_eval.storage.journal import JournalReader, encode
from agent_eval.storage.json import dumps
from agent_eval.storage.redaction import Redactor
from agent_eval.suites.document import Document, RawCase, Shard
from agent_eval.suites.reader import SuiteSource
from agent_eval.suites.select import Selection

ARTIFACTS = "artifacts"
"""Key of a record in the journal: files of the trial, by name, in base64."""

MISSING = 2**64 - 1
"""Stands for the offset of a trial that has not finished."""


class Slots:
    """Where in the journal each trial of each case is, in 8 bytes a trial.

    A trial's number is `trial * cases + position`: every case has its first trial before any has its second.

    Args:
        cases: How many cases there are.
        trials: How many trials each has.
    """

    def __init__(self, cases: int, trials: int) -> None:
        self.cases, self.trials = cases, trials
        self._offsets = array("Q", [MISSING]) * (cases * trials)

    def __len__(self) -> int:
        return len(self._offsets)

    def has(self, number: int) -> bool:
        """Whether a trial has finished."""
        return self._offsets[number] != MISSING

    def put(self, number: int, offset: int) -> None:
        """A trial has finished."""
        self._offsets[number] = offset

    def is_done(self, position: int) -> bool:
        """Whether all trials of a case have finished."""
        return MISSING not in self.of_case(position)

    def missing(self) -> int:
        """How many trials have not finished."""
        return self._offsets.count(MISSING)

    def of_case(self, position: int) -> array[int]:
        """The offsets of a case's trials, in trial order."""
        return self._offsets[position :: self.cases]


class ExecutedDocument(Document):
    """A suite whose cases have been run.

    Args:
        suite: What was run.
        slots: The trials.
        reader: The journal.
        policy: When a case with several trials passes.
        positions: The cases to take. All their trials must be there when they are read.
    """

    def __init__(
        self,
        suite: Document,
        slots: Slots,
        reader: JournalReader,
        policy: CasePolicy,
        positions: Iterable[int],
    ) -> None:
        self._cases = Selection(suite, positions)
        self._slots, self._reader, self._policy = slots, reader, policy
        self.path, self.digest = suite.path, suite.digest
        self.raw_header, self.header_line, self.problems = suite.raw_header, suite.header_line, suite.problems
        self.shards = self._cases.shards

    def read(self, shard: Shard) -> Iterator[RawCase]:
        """The cases of a shard with what their trials added. Raises like `Document.read`."""
        positions = self._cases.positions[shard.first : shard.first + shard.count]
        with self._reader:
            for found, position in zip(self._cases.read(shard), positions, strict=True):
                records = [self._reader.read(offset) for offset in self._slots.of_case(position)]
                yield executed_case(found, records, self._policy)


def executed(
    suite: SuiteSource,
    slots: Slots,
    reader: JournalReader,
    policy: CasePolicy = ALL,
) -> SuiteSource:
    """The suite as it was executed: the cases whose trials are all there now.

    Args:
        suite: What was run.
        slots: The trials.
        reader: The journal.
        policy: When a case with several trials passes.
    """
    positions = filter(slots.is_done, range(slots.cases))
    return SuiteSource(ExecutedDocument(suite.document, slots, reader, policy, positions), suite.header)


def executed_case(found: RawCase, records: Sequence[dict[str, Any]], policy: CasePolicy) -> RawCase:
    """A case with what its trials added to it.

    Raises:
        InvalidInput: A record is of another case.
    """
    for record in records:
        if record.get("case_id") != found.raw.get("case_id"):
            raise InvalidInput(
                f"the journal has a trial of {record.get('case_id')!r} where the suite has "
                f"{found.raw.get('case_id')!r}",
                remedy="Run again from the start.",
                case_id=found.raw.get("case_id"),
            )
    first, *others = records
    definition = definition_of(found.raw)
    metadata = {**(definition.get("metadata") or {}), **first["metadata"]}
    raw = {**definition, "trace": first["trace"], "metadata": metadata}
    if others:
        raw["trials"] = [{"trace": other["trace"], "metadata": other["metadata"]} for other in others]
    results = [CaseResult.model_validate(record["result"]) for record in records]
    return RawCase(found.place, raw, None, trials_result(results, policy), _artifacts(records))


@dataclass(frozen=True, slots=True)
class FinishedTrial:
    """A trial that has finished: its record, and what the run counts. Can be sent to another process.

    Attributes:
        number: Which trial of the run, `trial * cases + position`.
        outcome: What its verdicts amount to.
        cost_usd: What it cost; None where nothing tells.
        retries: Requests that were sent again.
        calls: Those of live tools, for a cassette; without secrets.
        line: Its record, as `journal.encode` gives it; without secrets.
    """

    number: int
    outcome: str
    cost_usd: float | None
    retries: int
    calls: list[dict[str, Any]]
    line: bytes


def finished_trial(
    number: int, cases: int, case_id: str, outcome: TrialOutcome, redactor: Redactor
) -> FinishedTrial:
    """The record of a trial.

    Args:
        number: Which trial of the run, `trial * cases + position`.
        cases: How many cases the run has.
        case_id: Of its case.
        outcome: What became of it.
        redactor: Knows the secrets that must not be written.
    """
    trial, position = divmod(number, cases)
    row, calls = result_row(outcome.result), outcome.calls
    cost_usd, retries = outcome.use.cost_usd, outcome.retries
    record = {
        "position": position,
        "trial": trial,
        "case_id": case_id,
        **outcome.recorded,
        "result": row,
        "cost_usd": cost_usd,
        "retries": retries,
    }
    if outcome.artifacts:
        record[ARTIFACTS] = _encoded_artifacts(outcome.artifacts, redactor)
    if calls:
        record["calls"] = calls
    line = encode(record)
    if redactor.finds(line):
        calls = redactor.redact_value(calls)
        record.update(redactor.redact_value(outcome.recorded))
        record["result"] = result_row(written_result(outcome.result, dumps(row), redactor))
        line = encode({**record, "calls": calls} if calls else record)
    return FinishedTrial(number, outcome.result.outcome.value, cost_usd, retries, calls, line)


def _encoded_artifacts(artifacts: Mapping[str, bytes], redactor: Redactor) -> dict[str, str]:
    """A trial's artifacts as its record in the journal holds them, without secrets."""
    kept = storable({name: redactor.redact(data) for name, data in artifacts.items()})
    return {name: b64encode(data).decode() for name, data in kept.items()}


def _artifacts(records: Sequence[dict[str, Any]]) -> dict[str, bytes] | None:
    """Those of all trials; from the second one on, each with the trial's number."""
    found = [record.get(ARTIFACTS) or {} for record in records]
    if not any(found):
        return None
    named = {
        f"trial-{number}-{name}" if number else name: b64decode(data)
        for number, artifacts in enumerate(found)
        for name, data in artifacts.items()
    }
    return named if len(records) == 1 else storable(named)
