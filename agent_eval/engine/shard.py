"""Score one shard: read its cases, judge them, write the evidence. This process does, or one of a cluster.

The settings of judging and scoring, `JudgePlan` and `ScoringJob`, are plain values that can be sent there.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from agent_eval.contracts import (
    Case,
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
from agent_eval.contracts.base import EARLIER
from agent_eval.contracts.trials import ALL, CasePolicy
from agent_eval.errors import AgentEvalError, FailureKind, InvalidInput, NotEvaluable
from agent_eval.evidence.index import index_row
from agent_eval.evidence.redacted import kept_values
from agent_eval.evidence.writer import (
    CaseEvidence,
    PackTarget,
    ShardWriter,
    WrittenShard,
    open_shard,
    result_row,
)
from agent_eval.judges.base import AsksModel, Judge, JudgeModel, ask_models, clipped
from agent_eval.judges.catalog import judge_case, load_advisory, load_judges, validate_case
from agent_eval.processes.thread_pool import ThreadPool
from agent_eval.storage.atomic import writing_failed
from agent_eval.storage.json import dumps
from agent_eval.storage.redaction import Redactor, count_markers
from agent_eval.suites.document import Place, RawCase, Shard
from agent_eval.suites.reader import SuiteSource


@dataclass(frozen=True)
class JudgePlan:
    """The judges of a run, and their configuration.

    Attributes:
        names: Built-in names, entry points, or `module:Class`, in the order in which they judge.
        configs: Configuration by judge name.
        allow_plugins: Whether judges other than built-in ones may be loaded; False for the names in a pack.
        case_policy: Decides when a case with several trials passes.
        model: The model of judges that ask one; None where none was named. It stays in this process, since
            it may have a key.
        directory: Where the code of judges is imported from, and where judges that are commands run; None for
            the working directory. A job names the files of the trusted branch's tip here.
        advisory: Judges whose verdicts are shown and count nowhere, such as those that a change adds; None
            for none.
    """

    names: tuple[str, ...]
    configs: Mapping[str, Any] = field(default_factory=dict)
    allow_plugins: bool = True
    case_policy: CasePolicy = ALL
    model: JudgeModel | None = field(default=None, compare=False)
    directory: Path | None = None
    advisory: JudgePlan | None = None

    def load(self) -> list[Judge]:
        """Load and configure the judges, the advisory ones last.

        Raises:
            InvalidInput: A judge is unknown, or its configuration is invalid.
            NotEvaluable: The process of a judge ended while the judge was loaded.
        """
        judges = load_judges(
            self.names, self.configs, allow_plugins=self.allow_plugins, directory=self.directory
        )
        if (new := self.advisory) is not None:
            judges += load_advisory(new.names, new.configs, new.directory)
        for judge in judges:
            if self.model is not None and isinstance(judge, AsksModel):
                judge.connect(self.model)
        return judges

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "model": None}


@dataclass(frozen=True)
class ScoringJob:
    """Everything that is needed to score any shard of a suite into a pack.

    `target` is the pack to write; `redactor` replaces secrets before anything is written.
    """

    suite: SuiteSource
    plan: JudgePlan
    target: PackTarget
    redactor: Redactor = field(default_factory=lambda: Redactor(()))


@dataclass
class ShardOutcome:
    """Result of scoring one shard.

    Attributes:
        ids: The id of every case in suite order, up to the one that failed.
        redacted_cases: Number of cases in which something was replaced.
        redactions: Number of replacements in them.
        written: The files written; None if the shard failed.
        error: The error that ended the shard; None if it was scored.
        files: What another machine wrote, by paths in the pack.
    """

    index: int
    ids: list[str] = field(default_factory=list)
    tally: Tally = field(default_factory=Tally)
    redacted_cases: int = 0
    redactions: int = 0
    written: WrittenShard | None = None
    error: AgentEvalError | None = None
    files: Mapping[str, bytes] = field(default_factory=dict)


def score_shard(job: ScoringJob, judges: Sequence[Judge], shard: Shard) -> ShardOutcome:
    """Score the cases of a shard and write them.

    Errors of the input and of the disk are not raised, but returned as `ShardOutcome.error`.
    """
    outcome = ShardOutcome(shard.index)
    try:
        with open_shard(job.target, shard.index) as writer:
            for raw_case, case, judging in _pending_cases(job, judges, shard, outcome):
                _score_case(raw_case, case, judging, outcome, writer, job)
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


JUDGED_AT_ONCE = 8
"""Cases that are judged at the same time where judges ask a model, and so mostly wait."""

_Judging = Callable[[], CaseResult]
_Pending = tuple[RawCase, Case, _Judging]


def _pending_cases(
    job: ScoringJob, judges: Sequence[Judge], shard: Shard, outcome: ShardOutcome
) -> Iterator[_Pending]:
    """Read the cases of a shard in suite order, each with the function that returns its result."""

    def result_of(raw_case: RawCase, case: Case) -> CaseResult:
        return raw_case.result or judge_trials(judges, case, case.recorded, job.plan.case_policy)

    at_once = 2 * JUDGED_AT_ONCE if ask_models(judges) else 0
    waiting: deque[_Pending] = deque()
    with ThreadPool(JUDGED_AT_ONCE) as pool:
        for raw_case, case in job.suite.read(shard):
            outcome.ids.append(case.case_id)
            refuse_unjudgeable(judges, raw_case, case, job.suite.path)
            if at_once:
                # A copy: the case is written as it was read, whatever judges do to it meanwhile.
                judging = pool.submit(result_of, raw_case, case.model_copy(deep=True)).result
            else:
                judging = partial(result_of, raw_case, case)
            waiting.append((raw_case, case, judging))
            if len(waiting) > at_once:
                yield waiting.popleft()
        yield from waiting


def refuse_unjudgeable(judges: Sequence[Judge], raw_case: RawCase, case: Case, file: Path) -> None:
    """Refuse a case that a judge could never judge; the error names its place in the suite.

    Raises:
        InvalidInput: A judge cannot judge the case.
    """
    try:
        validate_case(judges, case)
    except InvalidInput as error:
        place = raw_case.place
        line = "" if place.line is None else f"line {place.line}: "
        details = {**error.details, "file": str(file), "line": place.line, "position": place.position}
        raise InvalidInput(f"{file}: {line}{error.message}", **details) from None


def _score_case(
    raw_case: RawCase,
    case: Case,
    judging: _Judging,
    outcome: ShardOutcome,
    writer: ShardWriter,
    job: ScoringJob,
) -> None:
    trace = case.recorded
    redactor = job.redactor.for_case(raw_case.raw)
    # Before the judges run: a plug-in judge may change the case, and the evidence has the case as read.
    written = written_case(raw_case, case, redactor)
    rows = [index_row(written.raw, written.case, written.case.recorded if written.changed else trace)]
    for number in range(1, written.case.trial_count):
        case_of_trial = written.case.of_trial(number)
        rows.append(index_row(written.raw, case_of_trial, case_of_trial.recorded))
    judged, judged_line = _encodable(judging())
    result = written_result(judged, judged_line, redactor)
    result_line = judged_line if result is judged else dumps(result_row(result))
    is_marked = written.changed or result is not judged or job.suite.document.is_evidence
    markers = count_markers(written.line) + count_markers(result_line) if is_marked else 0
    outcome.redactions += markers
    outcome.redacted_cases += markers > 0
    stated = result_row(result)
    outcome.tally.add_row(stated)
    row = rows[judged.trial]
    artifacts = {name: redactor.redact(data) for name, data in (raw_case.artifacts or {}).items()}
    writer.add(CaseEvidence(written.raw, written.line, stated, result_line, row, artifacts))


def judge_trials(judges: Sequence[Judge], case: Case, trace: Trace, policy: CasePolicy) -> CaseResult:
    """Judge every trial of a case, and combine the results.

    `trace` is that of the first trial; `policy` decides when the case passes.
    """
    if not case.trials:
        return case_result(case.case_id, judge_case(judges, case, trace))
    results = [judge(judges, case, trace)]
    for number in range(1, case.trial_count):
        case_of_trial = case.of_trial(number)
        results.append(judge(judges, case_of_trial, case_of_trial.recorded))
    return trials_result(results, policy)


def judge(judges: Sequence[Judge], case: Case, trace: Trace) -> CaseResult:
    """Judge one trial. A verdict that is not valid JSON becomes an error verdict."""
    return _encodable(case_result(case.case_id, judge_case(judges, case, trace)))[0]


def _encodable(result: CaseResult) -> tuple[CaseResult, bytes]:
    """Encode a result as a line of JSON; a verdict that is not valid JSON becomes an error verdict."""
    try:
        return result, dumps(result_row(result))
    # A plug-in's verdict may be of any class, which may raise anything.
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
_OF_THE_RUN = frozenset(
    {"schema_version", "run_id", "dataset_id", "judges", "started_at", "suite_digest", "pinned_env"}
)
_REMEDY = (
    "Remove the value; if it is an ordinary word, unset the variable, give it a name that does not look "
    "secret, or write a narrower rule."
)


@dataclass(frozen=True, slots=True)
class WrittenCase:
    """A case as it is written into the evidence.

    `line` is `raw` encoded on one line; `changed` says whether a secret was replaced in it.
    """

    raw: dict[str, Any]
    line: bytes
    case: Case
    changed: bool = False


def written_case(raw_case: RawCase, case: Case, redactor: Redactor) -> WrittenCase:
    """Replace secrets in a case.

    Raises:
        InvalidInput: A secret is part of the case's id, or of a field that cannot have other text.
    """
    line = raw_case.encoded()
    if not redactor.may_find_in_json(line):
        return WrittenCase(raw_case.raw, line, case)
    if redactor.finds(case.case_id.encode()):
        raise _cannot_be_replaced("the case_id", raw_case.place)
    raw = redactor.redact_value(raw_case.raw, shape=kept_values(Case))
    if raw == raw_case.raw:
        return WrittenCase(raw_case.raw, line, case)
    try:
        return WrittenCase(raw, dumps(raw), Case.model_validate(raw, context=EARLIER), changed=True)
    except ValidationError as error:
        field = ".".join(str(step) for step in error.errors(include_url=False, include_input=False)[0]["loc"])
        raise _cannot_be_replaced(f"the field {field}", raw_case.place) from None


def written_result(result: CaseResult, line: bytes, redactor: Redactor) -> CaseResult:
    """Replace secrets in verdicts. Returns `result` itself if there are none.

    `line` is the encoded `result`.
    """
    if not redactor.may_find_in_json(line):
        return result
    verdicts = [_verdict(verdict, redactor) for verdict in result.verdicts]
    trials = [
        trial.model_copy(update={"verdicts": [_verdict(verdict, redactor) for verdict in trial.verdicts]})
        for trial in result.trials
    ]
    return result.model_copy(update={"verdicts": verdicts, "trials": trials})


def _verdict(verdict: Verdict, redactor: Redactor) -> Verdict:
    fields = {**verdict.__dict__, **(verdict.model_extra or {})}
    identifiers = {name: value for name, value in fields.items() if name in _IDENTIFIERS}
    rest = {name: value for name, value in fields.items() if name not in _IDENTIFIERS}
    redacted = redactor.redact_value(rest, numbers=False, fields=False, shape=kept_values(Verdict))
    return Verdict.model_validate({**redacted, **identifiers})


def written_config(config: RunConfig, redactor: Redactor) -> RunConfig:
    """Replace secrets in a run's configuration.

    Raises:
        InvalidInput: A secret is part of the id of the run or of the dataset.
    """
    fields = config.to_json()
    if not redactor.may_find_in_json(dumps(fields)):
        return config
    for name, finder in (("run_id", redactor.of_secrets), ("dataset_id", redactor)):
        if finder.finds(fields[name].encode()):
            raise _cannot_be_replaced(f"the {name}")
    identifiers = {name: value for name, value in fields.items() if name in _OF_THE_RUN}
    rest = {name: value for name, value in fields.items() if name not in _OF_THE_RUN}
    redacted = redactor.redact_value(rest, numbers=False, fields=False, shape=kept_values(RunConfig))
    metadata = redactor.redact_value(config.dataset_metadata)
    return RunConfig.model_validate({**redacted, "dataset_metadata": metadata, **identifiers})


def _cannot_be_replaced(what: str, place: Place | None = None) -> InvalidInput:
    details: dict[str, Any] = {} if place is None else {"line": place.line, "position": place.position}
    where = "" if place is None else f" (cases[{place.position}])"
    return InvalidInput(
        f"{what}{where} contains a secret: the value of an environment variable whose name says that it is "
        "secret, text with the shape of a token, or what a rule for redaction names",
        remedy=_REMEDY,
        **details,
    )
