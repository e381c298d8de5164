"""Trials as records of a journal, and the suite of recorded traces that scoring reads from it.

Each case of the suite gets the traces and metadata of its trials. A resumed run therefore writes the same
bytes as an uninterrupted one.
"""

from __future__ import annotations

from base64 import b64decode, b64encode
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

from pydantic import ValidationError
from typing_extensions import override

from agent_eval.agents.answer import unanswered_calls
from agent_eval.agents.recorder import TOOL_ANSWER_SOURCE
from agent_eval.agents.tools import CaseTools
from agent_eval.contracts import Case, CaseResult, definition_of
from agent_eval.contracts.suite import RecordedTrial
from agent_eval.contracts.trials import ALL, CasePolicy, trials_result
from agent_eval.engine.shard import written_result
from agent_eval.engine.trial import (
    TRACEBACK,
    Interrupted,
    Lost,
    TrialOutcome,
    TrialPlan,
    run_trial,
    traceback_of,
    unforeseen,
)
from agent_eval.engine.usage import COSTS, Costs, Loss, loss_of
from agent_eval.errors import AgentEvalError, FailureKind, InvalidInput
from agent_eval.evidence.attachments import storable
from agent_eval.evidence.redacted import kept_values
from agent_eval.evidence.writer import result_row
from agent_eval.storage.journal import encode, read_records
from agent_eval.storage.json import dumps
from agent_eval.storage.redaction import Redactor
from agent_eval.suites.document import Document, RawCase, Shard
from agent_eval.suites.select import Selection

ARTIFACTS = "artifacts"
"""Key of a record in the journal: files of the trial, by name, in base64."""

UNANSWERED = "unanswered"
"""Key of a record in the journal: number of tool calls without an answer, if there are any."""


class Slots:
    """Where in the journal each finished trial of a run is, and the digest of its record.

    The digests are kept in memory only: an agent can write to the journal, with a checksum that fits.
    A trial's number is `trial * cases + position`: every case has its first trial before any has its second.

    Attributes:
        places: Offset and `record_digest` by the number of the trial.
    """

    def __init__(self, cases: int, trials: int) -> None:
        self.cases, self.trials = cases, trials
        self.places: dict[int, tuple[int, bytes]] = {}

    def __len__(self) -> int:
        return self.cases * self.trials

    @property
    def missing(self) -> int:
        """Number of trials that have not finished."""
        return len(self) - len(self.places)

    def of_case(self, position: int) -> list[tuple[int, bytes]]:
        """Return the places of a case's finished trials, in trial order."""
        numbers = range(position, len(self), self.cases)
        return [self.places[number] for number in numbers if number in self.places]

    def finished(self) -> list[tuple[int, bytes]]:
        """Return the places of all finished trials, case by case."""
        return [place for position in range(self.cases) for place in self.of_case(position)]


class ExecutedDocument(Document):
    """The cases of a suite that have been run, each with the traces of its finished trials.

    A run that ended early leaves cases with fewer trials; its pack says that it is not complete.

    Args:
        journal: The path of the journal.
        policy: Decides when a case with several trials passes.
    """

    is_evidence = True

    def __init__(self, suite: Document, slots: Slots, journal: Path, policy: CasePolicy = ALL) -> None:
        self._cases = Selection(suite, filter(slots.of_case, range(slots.cases)))
        self._slots, self._journal, self._policy = slots, journal, policy
        self.path, self.digest = suite.path, suite.digest
        self.raw_header, self.header_line, self.problems = suite.raw_header, suite.header_line, suite.problems
        self.shards = self._cases.shards

    @override
    def read(self, shard: Shard) -> Iterator[RawCase]:
        positions = self._cases.positions[shard.first : shard.first + shard.count]
        for raw_case, position in zip(self._cases.read(shard), positions, strict=True):
            records = list(read_records(self._journal, self._slots.of_case(position)))
            yield executed_case(raw_case, records, self._policy)


def check_record(record: Any, file: str) -> CaseResult:
    """Check that a record of a journal is one of a trial, and return its result.

    Its checksum only says that it was written whole.

    Raises:
        InvalidInput: It is not: another program wrote it.
    """
    try:
        well_formed = (
            isinstance(record["trace"], list)
            and all(isinstance(event, dict) for event in record["trace"])
            and isinstance(record["metadata"], dict)
            and isinstance(record["cost_usd"], int | float | None)
            and isinstance(record["retries"], int)
            and isinstance(record.get("calls", []), list)
        )
        result = CaseResult.model_validate(record["result"])
    except (KeyError, TypeError, ValidationError):
        well_formed = False
    if not well_formed or result.case_id != record["case_id"]:
        raise InvalidInput(
            f"{file}: a record is not that of a trial, though its checksum fits: another program wrote it",
            remedy="Find out which, then run again from the start with --fresh.",
            file=file,
        )
    return result


def executed_case(raw_case: RawCase, records: Sequence[dict[str, Any]], policy: CasePolicy) -> RawCase:
    """Add the traces, metadata and result of a case's trials to the case.

    Raises:
        InvalidInput: A record belongs to another case.
    """
    for record in records:
        if record.get("case_id") != raw_case.raw.get("case_id"):
            raise InvalidInput(
                f"the journal has a trial of {record.get('case_id')!r} where the suite has "
                f"{raw_case.raw.get('case_id')!r}",
                remedy="Run again from the start.",
                case_id=raw_case.raw.get("case_id"),
            )
    first, *others = records
    definition = definition_of(raw_case.raw)
    metadata = {**(definition.get("metadata") or {}), **first["metadata"]}
    raw = {**definition, "trace": first["trace"], "metadata": metadata}
    if others:
        raw["trials"] = [{"trace": other["trace"], "metadata": other["metadata"]} for other in others]
    results = [CaseResult.model_validate(record["result"]) for record in records]
    return RawCase(raw_case.place, raw, None, trials_result(results, policy), _artifacts(records))


@dataclass(frozen=True, slots=True)
class FinishedTrial:
    """A finished trial: its record, and what the run counts. Can be sent to another process.

    Attributes:
        number: The trial's number, `trial * cases + position`.
        calls: Calls of live tools, for a cassette; without secrets.
        line: Its record as `journal.encode` returns it; without secrets.
        unanswered: Number of tool calls without an answer.
    """

    number: int
    outcome: str
    costs: Costs
    retries: int
    calls: list[dict[str, Any]]
    line: bytes
    unanswered: int = 0
    loss: Loss | None = None
    """What it was lost to; None where it says something of the agent."""


class TrialNumber(NamedTuple):
    """A trial of a run. Its number is `trial * cases + position`."""

    number: int
    cases: int


def record_trial(
    raw: Mapping[str, Any], number: TrialNumber, plan: TrialPlan, redactor: Redactor
) -> FinishedTrial | None:
    """Run a trial and make its record; None if the run is being ended.

    An exception that nothing foresaw is the error of this one trial: the run goes on, and so does every
    resume of it.

    Args:
        raw: The case as read from the suite.

    Raises:
        AgentEvalError: No attempt at any case can succeed.
        MemoryError: There is no memory left, which is no fault of this trial.
    """
    redactor = redactor.for_case(raw)
    plan = replace(plan, loop=number.number // number.cases + 1)
    try:
        with _prepared(raw, plan) as (prepared, failed):
            outcome = run_trial(raw, prepared, lost=failed)
        return finished_trial(*number, raw["case_id"], outcome, redactor)
    except Interrupted:
        return None
    except (AgentEvalError, MemoryError):
        raise
    except Exception as error:  # its attempts cannot be recorded
        simple = replace(
            plan, tools=CaseTools, max_repairs=0, interrupted=lambda: False, abandoned=lambda: False
        )
        outcome = run_trial(raw, simple, lost=unforeseen(error))
        outcome.attempts.artifacts[f"attempt-0-{TRACEBACK}"] = traceback_of(error)
        return finished_trial(*number, raw["case_id"], outcome, redactor)


@contextmanager
def _prepared(raw: Mapping[str, Any], plan: TrialPlan) -> Iterator[tuple[TrialPlan, Lost | None]]:
    """Set a trial up, and tear it down at the end, however it ends.

    Yields the settings of the trial, which tears down before its result is final, and its attempt where the
    set-up failed.
    """
    if plan.commands is None or not (raw.get("setup") or raw.get("teardown")):
        yield plan, None
        return
    trial = plan.commands.prepare(Case.model_validate({**raw, "trace": [], "trials": []}))
    try:
        problem = trial.set_up()
        failed = (FailureKind.ENVIRONMENT, problem) if problem else None
        yield replace(plan, tear_down=trial.tear_down), failed
    finally:
        trial.tear_down()


def finished_trial(
    number: int, cases: int, case_id: str, outcome: TrialOutcome, redactor: Redactor
) -> FinishedTrial:
    """Make the record of a trial, without secrets. Its number is `trial * cases + position`."""
    trial, position = divmod(number, cases)
    attempts, row, calls = outcome.attempts, result_row(outcome.result), outcome.attempts.calls.rows()
    costs, retries = attempts.use.costs, attempts.retries
    record = {
        "position": position,
        "trial": trial,
        "case_id": case_id,
        **outcome.recorded,
        "result": row,
        "cost_usd": costs.total,
        COSTS: {**costs.to_json(), "unpriced": costs.unpriced},
        "retries": retries,
    }
    if attempts.artifacts:
        files = storable({name: redactor.redact(data) for name, data in attempts.artifacts.items()})
        record[ARTIFACTS] = {name: b64encode(data).decode() for name, data in files.items()}
    if calls:
        record["calls"] = calls
    if unanswered := unanswered_calls(outcome.recorded["trace"], TOOL_ANSWER_SOURCE):
        record[UNANSWERED] = unanswered
    line = encode(record)
    if redactor.may_find_in_json(line):
        calls = redactor.redact_value(calls)
        record.update(redactor.redact_value(outcome.recorded, shape=kept_values(RecordedTrial)))
        record["result"] = result_row(written_result(outcome.result, dumps(row), redactor))
        line = encode({**record, "calls": calls} if calls else record)
    loss = loss_of(outcome.result)
    return FinishedTrial(number, outcome.result.outcome.value, costs, retries, calls, line, unanswered, loss)


def _artifacts(records: Sequence[dict[str, Any]]) -> dict[str, bytes] | None:
    """Collect the artifacts of all trials; from the second trial on, names begin with the trial's number."""
    of_trials = [record.get(ARTIFACTS) or {} for record in records]
    if not any(of_trials):
        return None
    named = {
        f"trial-{number}-{name}" if number else name: b64decode(data)
        for number, artifacts in enumerate(of_trials)
        for name, data in artifacts.items()
    }
    return named if len(records) == 1 else storable(named)


def loaded_trial(number: int, record: Mapping[str, Any], result: CaseResult) -> FinishedTrial:
    """Make what the run counts of a trial from its record."""
    return FinishedTrial(
        number,
        result.outcome.value,
        Costs.of_record(record),
        record["retries"],
        record.get("calls", []),
        line=b"",
        unanswered=record.get(UNANSWERED, 0),
        loss=loss_of(result),
    )


def place_of(record: Any) -> tuple[int, int]:
    """Read the trial's number and the case's position from a journal record; (-1, -1) if it has none."""
    if not isinstance(record, dict):
        return -1, -1
    trial, position = record.get("trial"), record.get("position")
    return (trial, position) if isinstance(trial, int) and isinstance(position, int) else (-1, -1)
