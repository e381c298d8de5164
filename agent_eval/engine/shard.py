"""Scoring one shard: read, judge, write; what every worker does."""

from __future__ import annotations

import hashlib
from array import array
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from agent_eval.contracts import (
    Case,
    CasePolicy,
    CaseResult,
    Outcome,
    RunConfig,
    Tally,
    Trace,
    Verdict,
    case_result,
    trials_result,
    with_verdicts,
)
from agent_eval.engine.plan import ScoringJob
from agent_eval.errors import AgentEvalError, FailureKind, InvalidInput, NotEvaluable
from agent_eval.evidence.index import index_row
from agent_eval.evidence.writer import CaseEvidence, ShardWriter, WrittenShard, open_shard, result_row
from agent_eval.judges.base import Judge, clipped
from agent_eval.judges.catalog import judge_case, validate_case
from agent_eval.storage.atomic import writing_failed
from agent_eval.storage.json import dumps
from agent_eval.storage.redaction import Redactor
from agent_eval.suites.document import Place, RawCase, Shard


@dataclass
class ShardOutcome:
    """What became of a shard.

    Attributes:
        index: Which shard.
        ids: `id_hash` of every case in suite order, up to the one that failed.
        tally: Counts over the shard.
        redacted_cases: In how many cases a secret was replaced.
        written: What was written; None when the shard failed.
        error: Why it failed.
    """

    index: int
    ids: array[int] = field(default_factory=lambda: array("Q"))
    tally: Tally = field(default_factory=Tally)
    redacted_cases: int = 0
    written: WrittenShard | None = None
    error: AgentEvalError | None = None


def id_hash(case_id: str) -> int:
    """64 bits that stand for a case id, so that 100,000 ids can be compared without being kept."""
    return int.from_bytes(hashlib.blake2b(case_id.encode(), digest_size=8).digest(), "little")


def score_shard(job: ScoringJob, judges: Sequence[Judge], shard: Shard) -> ShardOutcome:
    """Score the cases of a shard and write them.

    Never raises on account of its input or the disk: `ShardOutcome.error` says what went wrong.
    """
    outcome = ShardOutcome(shard.index)
    try:
        with open_shard(job.target, shard.index) as writer:
            for found, case in job.suite.read(shard):
                outcome.ids.append(id_hash(case.case_id))
                refuse_unjudgeable(judges, found, case, job.suite.path)
                _score_case(found, case, judges, outcome, writer, job)
            outcome.written = writer.finish()
    except AgentEvalError as error:
        outcome.error = error
    except OSError as error:
        outcome.error = writing_failed(job.target.root, error)
    except MemoryError:
        outcome.error = NotEvaluable(
            f"out of memory while scoring cases {shard.first} to {shard.first + shard.count - 1}",
            remedy="Give it more memory, or make the cases smaller.",
        )
    return outcome


def refuse_unjudgeable(judges: Sequence[Judge], found: RawCase, case: Case, file: Path) -> None:
    """Refuse a case that a judge could never judge, saying where it stands."""
    try:
        validate_case(judges, case)
    except InvalidInput as error:
        place = found.place
        line = "" if place.line is None else f"line {place.line}: "
        details = {**error.details, "file": str(file), "line": place.line, "position": place.position}
        raise InvalidInput(f"{file}: {line}{error.message}", **details) from None


def _score_case(
    found: RawCase,
    case: Case,
    judges: Sequence[Judge],
    outcome: ShardOutcome,
    writer: ShardWriter,
    job: ScoringJob,
) -> None:
    trace = Trace(case.trace)
    # Before the judges, which may be anyone's code: evidence is what was read, not what they left of it.
    written = written_case(found, case, job.redactor)
    rows = [index_row(written.raw, written.case, Trace(written.case.trace) if written.changed else trace)]
    for number in range(1, written.case.trial_count):
        shown = written.case.of_trial(number)
        rows.append(index_row(written.raw, shown, Trace(shown.trace)))
    said, said_line = _encodable(found.result or judge_trials(judges, case, trace, job.plan.case_policy))
    result = written_result(said, said_line, job.redactor)
    result_line = said_line if result is said else dumps(result_row(result))
    outcome.redacted_cases += written.changed or result is not said
    outcome.tally.add(result)
    row, artifacts = rows[said.trial], found.artifacts or {}
    writer.add(CaseEvidence(written.raw, written.line, result_row(result), result_line, row, artifacts))


def judge_trials(judges: Sequence[Judge], case: Case, trace: Trace, policy: CasePolicy) -> CaseResult:
    """What the judges say of every trial of a case, and what that amounts to.

    Args:
        judges: In the order they judge.
        case: The case.
        trace: Of its first trial.
        policy: When the case passes.
    """
    if not case.trials:
        return case_result(case.case_id, judge_case(judges, case, trace))
    results = [judge(judges, case, trace)]
    for number in range(1, case.trial_count):
        shown = case.of_trial(number)
        results.append(judge(judges, shown, Trace(shown.trace)))
    return trials_result(results, policy)


def judge(judges: Sequence[Judge], case: Case, trace: Trace) -> CaseResult:
    """What the judges say of a case, as a result that JSON can hold."""
    return _encodable(case_result(case.case_id, judge_case(judges, case, trace)))[0]


def _encodable(result: CaseResult) -> tuple[CaseResult, bytes]:
    """The result and its line, with an error in place of each verdict that JSON cannot hold."""
    try:
        return result, dumps(result_row(result))
    # A plug-in's verdict may be of a class of its own, which may raise anything.
    except Exception:
        verdicts = [_encodable_verdict(verdict) for verdict in result.verdicts]
    checked = with_verdicts(result, verdicts)
    return checked, dumps(result_row(checked))


def _encodable_verdict(verdict: Verdict) -> Verdict:
    try:
        dumps({**verdict.__dict__, **(verdict.model_extra or {})})
    except Exception as error:
        return Verdict(
            judge_id=verdict.judge_id,
            case_id=verdict.case_id,
            outcome=Outcome.ERROR,
            passed=False,
            reason=clipped(f"the judge gave a verdict that is not JSON: {error}"),
            hard=verdict.hard,
            failure=FailureKind.JUDGE_ERROR,
        )
    return verdict


_IDENTIFIERS = frozenset({"judge_id", "case_id", "outcome", "failure"})
_OF_THE_RUN = frozenset({"schema_version", "run_id", "dataset_id", "judges"})
_REMEDY = (
    "Take it out of there; where the value is an ordinary word, unset the variable or give it a name "
    "that does not look secret."
)


@dataclass(frozen=True, slots=True)
class WrittenCase:
    """A case as it is written: as JSON, on one line, and as a contract."""

    raw: dict[str, Any]
    line: bytes
    case: Case
    changed: bool = False


def written_case(found: RawCase, case: Case, redactor: Redactor) -> WrittenCase:
    """The case without secrets.

    Raises:
        InvalidInput: A secret stands in the case's id, or where the contract has no place for text.
    """
    line = found.encoded()
    if not redactor.finds(line):
        return WrittenCase(found.raw, line, case)
    if redactor.finds(case.case_id.encode()):
        raise _cannot_be_replaced("the case_id", found.place)
    raw = redactor.redact_value(found.raw)
    try:
        return WrittenCase(raw, dumps(raw), Case.model_validate(raw), changed=True)
    except ValidationError as error:
        field = ".".join(str(step) for step in error.errors(include_url=False, include_input=False)[0]["loc"])
        raise _cannot_be_replaced(f"the field {field}", found.place) from None


def written_result(result: CaseResult, line: bytes, redactor: Redactor) -> CaseResult:
    """The result without secrets in what judges said; itself where there are none.

    Args:
        result: The verdicts on one case.
        line: `json_writer.dumps` of it.
        redactor: Knows the secrets.
    """
    if not redactor.finds(line):
        return result
    verdicts = [_verdict(verdict, redactor) for verdict in result.verdicts]
    trials = [
        trial.model_copy(update={"verdicts": [_verdict(verdict, redactor) for verdict in trial.verdicts]})
        for trial in result.trials
    ]
    return result.model_copy(update={"verdicts": verdicts, "trials": trials})


def _verdict(verdict: Verdict, redactor: Redactor) -> Verdict:
    said = {**verdict.__dict__, **(verdict.model_extra or {})}
    kept = {name: value for name, value in said.items() if name in _IDENTIFIERS}
    rest = {name: value for name, value in said.items() if name not in _IDENTIFIERS}
    return Verdict.model_validate({**redactor.redact_value(rest, numbers=False), **kept})


def written_config(config: RunConfig, redactor: Redactor) -> RunConfig:
    """The configuration without secrets.

    Raises:
        InvalidInput: A secret stands in the name of the run or of the dataset.
    """
    stated = config.to_json()
    if not redactor.finds(dumps(stated)):
        return config
    for name in ("run_id", "dataset_id"):
        if redactor.finds(stated[name].encode()):
            raise _cannot_be_replaced(f"the {name}")
    kept = {name: value for name, value in stated.items() if name in _OF_THE_RUN}
    rest = {name: value for name, value in stated.items() if name not in _OF_THE_RUN}
    return RunConfig.model_validate({**redactor.redact_value(rest, numbers=False), **kept})


def _cannot_be_replaced(what: str, place: Place | None = None) -> InvalidInput:
    details: dict[str, Any] = {} if place is None else {"line": place.line, "position": place.position}
    where = "" if place is None else f" (cases[{place.position}])"
    return InvalidInput(
        f"{what}{where} contains the value of an environment variable whose name says that it is secret",
        remedy=_REMEDY,
        **details,
    )
