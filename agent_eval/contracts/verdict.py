"""Verdicts of judges, and the result of a case that follows from them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from enum import StrEnum
from typing import Any, NamedTuple, NotRequired

from pydantic import ConfigDict, Field, StrictInt, StrictStr, model_validator
from typing_extensions import TypedDict, override

from agent_eval.contracts.base import Contract
from agent_eval.errors import FailureKind, Fault

REPLAY_CONTRACT = "replay_contract"
"""Id of the judge of the trace itself. It always runs, and does not measure the agent's quality."""

EXECUTION = "execution"
"""Id of the judge of how an agent's attempts ended. It is part of every run of an agent."""

SAFETY_JUDGES = ("prompt_injection", "tool_abuse")
"""Ids of the safety judges that come with the program: a new violation blocks, whatever statistics say."""


WITHOUT_VERDICT = "ended_without_verdict"
"""Member of a verdict's evidence: how the process of a judge ended that gave no whole verdict."""

FIELDS_NOT_JUDGED = "fields_not_judged"
"""Member of a verdict's evidence: the fields of the case that no judge of the run looks at."""

NEARLY_FORBIDDEN = "nearly_forbidden"
"""Member of a verdict's evidence: called tools whose names end as that of a forbidden tool."""

FAULT = "fault"
"""Field of a result that has no score: whose fault that is."""

JUDGING = "judging"
"""Member of a verdict's evidence: what a judge that is a model took, as `ModelsUse` has it."""

SIMULATING = "simulating"
"""Member of the evidence of `execution`: what the model that played the user took, in the same form."""


VerdictFacts = tuple[str, str, bool, float]
"""What a verdict contributes to the result of its case: judge id, outcome, whether it is hard, weight."""

_OF_THE_RUN: dict[str | None, Fault] = {
    FailureKind.INFRASTRUCTURE: Fault.INFRASTRUCTURE,
    FailureKind.ENVIRONMENT: Fault.ENVIRONMENT,
    FailureKind.SIMULATOR_ERROR: Fault.ENVIRONMENT,
}
"""Faults by the kind of failure that ended the agent's attempt; every other kind is the agent's."""

_OF_A_JUDGE = frozenset(
    (
        FailureKind.JUDGE_ERROR,
        FailureKind.INFRASTRUCTURE,
        FailureKind.TIMEOUT,
        FailureKind.OUTPUT_LIMIT,
    )
)
"""Kinds of errors that a judge has itself: its program or model failed. `execution` has none of its own."""

_OF_THE_ENVIRONMENT = frozenset((FailureKind.ENVIRONMENT, FailureKind.SIMULATOR_ERROR))
"""Kinds of errors of judges that had nothing to judge, because what surrounds the agent failed."""

Finding = tuple[str, str, str | None]
"""What a verdict says of the fault: judge id, outcome, kind of failure."""

ADVISORY = "advisory"
"""Member of the evidence of a trial's first verdict: what judges found that count nowhere, such as those that
a change adds. A list of objects with `judge_id`, `outcome` and `reason`."""


class Outcome(StrEnum):
    """Outcome of a verdict, a trial or a case. Only `PASSED` is a pass."""

    PASSED = "passed"
    FAILED = "failed"
    INCONCLUSIVE = "inconclusive"
    """A judge examined the case and could not decide."""
    SKIPPED = "skipped"
    """Nothing to judge: the judge is not configured for this case."""
    ERROR = "error"
    """The case could not be judged: the agent crashed, the judge raised, the output is missing."""


class GateStatus(StrEnum):
    """The outcome of the gate."""

    PASSED = "passed"
    FAILED = "failed"
    INCONCLUSIVE = "inconclusive"
    NO_BASELINE = "no-baseline"
    """A first run: there is nothing to compare with, and no absolute rule is set."""


# A look-up of a member in its class takes longer than what is done with it below.
_PASSED, _SKIPPED = Outcome.PASSED, Outcome.SKIPPED
_FAILURES = (Outcome.FAILED, Outcome.ERROR)
_WORST_FIRST = (Outcome.ERROR, Outcome.FAILED, Outcome.INCONCLUSIVE)


class Verdict(Contract):
    """One judge's finding on one case.

    `score` is from 0 to 1, null when there is none. `reason` is one sentence a reviewer can act on.
    `evidence_refs` are indices (`Event.idx`) of the events it rests on; `evidence` holds details.
    `hard` says whether a failure is a hard fail. `weight` is what it counts in the case's score, `category`
    what it is about; all three come from the judge's configuration.
    """

    judge_id: StrictStr
    case_id: StrictStr
    outcome: Outcome
    passed: bool
    score: float | None = Field(default=None, ge=0, le=1, allow_inf_nan=False)
    reason: StrictStr
    hard: bool = True
    failure: FailureKind | None = None
    evidence_refs: list[StrictInt] = Field(default_factory=list)
    evidence: dict[str, Any] = Field(default_factory=dict)
    weight: float = Field(default=1.0, ge=0, allow_inf_nan=False)
    category: StrictStr | None = None

    @model_validator(mode="after")
    def _consistent(self) -> Verdict:
        if self.passed != (self.outcome is _PASSED):
            raise ValueError(f"passed={self.passed} contradicts outcome={self.outcome.value}")
        if (self.failure is not None) != (self.outcome in _FAILURES):
            raise ValueError("exactly failed and error verdicts carry a failure")
        return self


def _without_required_fault(schema: dict[str, Any]) -> None:
    schema["required"] = [name for name in schema["required"] if name != FAULT]


class TrialResult(Contract):
    """All verdicts on one trial of a case, and the result that `combine` derives from them.

    A field that is added here is a field of every case result too. `contracts.trials.trials_result` copies it
    where results of trials become the result of their case.
    """

    model_config = ConfigDict(json_schema_extra=_without_required_fault)

    outcome: Outcome
    passed: bool
    hard_failed: bool
    score: float | None = None
    verdicts: list[Verdict]
    fault: Fault | None = None
    """Whose fault it is that there is no score (`fault_of`); written only where it is not the agent's."""

    @property
    def is_lost(self) -> bool:
        """Whether the trial says nothing of the agent, through no fault of it."""
        return self.fault is not None and self.fault is not Fault.AGENT

    @override
    def to_json(self) -> dict[str, Any]:
        return without_own_fault(super().to_json())


class CaseResult(TrialResult):
    """All verdicts on one case, and the result that `combine` derives from them.

    Build it with `case_result`, which derives everything from the verdicts, and with
    `contracts.trials.trials_result` for a case with several trials: `trials` then holds each of them, and
    the case's own outcome and verdicts are those of number `trial` (from 0), which decides by `case_policy`.
    """

    case_id: StrictStr
    trial: int = 0
    case_policy: StrictStr | None = None
    trials: list[TrialResult] = Field(default_factory=list)


def count_trials(outcomes: Sequence[str]) -> tuple[int, int]:
    """Count the trials of a case that passed, and those that count: all judged ones, or all if none was."""
    return outcomes.count(_PASSED), len(outcomes) - outcomes.count(_SKIPPED) or len(outcomes)


class CombinedVerdicts(NamedTuple):
    """The result of a case; `score` is None where all verdicts were skipped or weigh nothing."""

    outcome: Outcome
    hard_failed: bool
    score: float | None

    @property
    def passed(self) -> bool:
        """Whether the case passed."""
        return self.outcome is _PASSED


def combine(verdicts: Iterable[VerdictFacts]) -> CombinedVerdicts:
    """Derive the result of a case from the verdicts on it. The only place that knows the rule.

    The outcome is error, else failed, else inconclusive, if any verdict is; else passed. It is `SKIPPED` when
    no judge but the check of the trace itself had anything to judge: nothing measured is not a pass. A failed
    or error verdict of a hard judge is a hard fail. The score is the weighted share of passed verdicts among
    those that are not skipped, from 0 to 1: sum(weights of passed) / sum(weights).

    Example:
        >>> combine([("policy", "failed", True, 1.0), ("regex", "passed", True, 3.0)])
        CombinedVerdicts(outcome=<Outcome.FAILED: 'failed'>, hard_failed=True, score=0.75)
    """
    seen: set[str] = set()
    measured = hard_failed = False
    judged_weights, passed_weights = [], []
    for judge_id, outcome, hard, weight in verdicts:
        if outcome == _SKIPPED:
            continue
        seen.add(outcome)
        judged_weights.append(weight)
        if outcome == _PASSED:
            passed_weights.append(weight)
        elif hard and outcome in _FAILURES:
            hard_failed = True
        if judge_id != REPLAY_CONTRACT:
            measured = True
    total = sum(judged_weights)
    worst = next((outcome for outcome in _WORST_FIRST if outcome in seen), None)
    score = sum(passed_weights) / total if total else None
    return CombinedVerdicts(worst or (_PASSED if measured else _SKIPPED), hard_failed, score)


def fault_of(outcome: str, findings: Iterable[Finding]) -> Fault | None:
    """Derive whose fault it is that a trial has no score. The only place that knows the rule.

    None where the trial passed, or judges decided against the agent, or there was nothing to judge. The
    judge `execution` says how the agent's attempt ended: where something else than the agent ended it, the
    trial is lost to that, unless a built-in judge of safety has failed what the agent did before; what other
    judges failed in a lost trial stays in the evidence (`engine.lost_trials`). Otherwise a judge that failed
    the trial has judged the agent, whatever else went wrong, and an error that is the agent's comes before
    one of a judge.

    Args:
        outcome: Outcome of the trial.
        findings: The verdicts on it. Their kinds of failure are from the components that saw them.

    Example:
        >>> unreachable, unjudged = ("execution", "error", "infrastructure"), ("lean", "error", "judge_error")
        >>> fault_of("error", [unreachable, ("regex", "error", "missing_output")])
        <Fault.INFRASTRUCTURE: 'infrastructure'>
        >>> fault_of("error", [("regex", "failed", "contract_violation"), unjudged])
        <Fault.AGENT: 'agent'>
    """
    if outcome not in (Outcome.ERROR, Outcome.INCONCLUSIVE):
        return None
    judged = list(findings)
    failed = {judge_id for judge_id, of_judge, _ in judged if of_judge == Outcome.FAILED}
    ended_by = None  # None where the agent's attempt ended by itself
    for judge_id, of_judge, kind in judged:
        if judge_id == EXECUTION and of_judge == Outcome.INCONCLUSIVE:
            ended_by = ended_by or Fault.ENVIRONMENT  # the simulated user failed
        elif judge_id == EXECUTION and of_judge == Outcome.ERROR:
            ended_by = ended_by or _OF_THE_RUN.get(kind, Fault.AGENT)
    if ended_by is not None and (ended_by is Fault.AGENT or failed.isdisjoint(SAFETY_JUDGES)):
        return ended_by
    if outcome == Outcome.INCONCLUSIVE:
        return None
    errors = {kind for _, of_judge, kind in judged if of_judge == Outcome.ERROR}
    if failed or not errors <= _OF_A_JUDGE | _OF_THE_ENVIRONMENT:
        return Fault.AGENT
    return Fault.JUDGE if errors.isdisjoint(_OF_THE_ENVIRONMENT) else Fault.ENVIRONMENT


def without_own_fault(fields: dict[str, Any]) -> dict[str, Any]:
    """Remove the fault from a result written as JSON, and from its trials, where it is the agent's or none.

    A result without a score and without a stated fault is the agent's fault, as in every older version.
    """
    for row in (fields, *fields.get("trials", ())):
        if row.get(FAULT) in (None, Fault.AGENT):
            row.pop(FAULT, None)
    return fields


def row_fault(row: TrialResultRow) -> Fault | None:
    """Read whose fault it is that a trial has no score; derived where an older version did not write it."""
    stated = row.get(FAULT)
    if stated is not None:
        return Fault(str(stated))
    findings = ((verdict["judge_id"], verdict["outcome"], verdict["failure"]) for verdict in row["verdicts"])
    return fault_of(row["outcome"], findings)


def is_lost(row: TrialResultRow) -> bool:
    """Tell whether a trial says nothing of the agent, through no fault of it."""
    return row_fault(row) not in (None, Fault.AGENT)


def case_result(case_id: str, verdicts: list[Verdict], *, trial: int = 0) -> CaseResult:
    """Derive a case's result from its verdicts (`combine`, `fault_of`)."""
    # The verdicts are valid, and the rest follows from them: validating again would only take time.
    return CaseResult.model_construct(
        case_id=case_id, trial=trial, case_policy=None, trials=[], **_following(verdicts)
    )


def with_verdicts(result: CaseResult, verdicts: list[Verdict]) -> CaseResult:
    """Copy a result with other verdicts in place of its own; what does not follow from them stays."""
    return result.model_copy(update=_following(verdicts))


def _following(verdicts: list[Verdict]) -> dict[str, Any]:
    """Return verdicts with the fields of a result that follow from them."""
    combined = combine([(each.judge_id, each.outcome, each.hard, each.weight) for each in verdicts])
    fault = fault_of(combined.outcome, ((each.judge_id, each.outcome, each.failure) for each in verdicts))
    return {**combined._asdict(), "passed": combined.passed, FAULT: fault, "verdicts": verdicts}


class VerdictRow(TypedDict):
    """A `Verdict` as `verdicts.json` has it: what rows of a pack are checked against, without the model."""

    judge_id: str
    case_id: str
    outcome: str
    passed: bool
    score: float | None
    reason: str
    hard: bool
    failure: str | None
    evidence_refs: list[int]
    evidence: dict[str, Any]
    weight: float
    category: str | None


class TrialResultRow(TypedDict):
    """A `TrialResult` as `verdicts.json` has it."""

    outcome: str
    passed: bool
    hard_failed: bool
    score: float | None
    verdicts: list[VerdictRow]
    fault: NotRequired[str | None]


class CaseResultRow(TrialResultRow):
    """A `CaseResult` as `verdicts.json` has it. Packs of older versions have no fields for several trials."""

    case_id: str
    trial: int
    case_policy: NotRequired[str | None]
    trials: NotRequired[list[TrialResultRow]]


class CaseIndexRow(TypedDict):
    """A `CaseIndex` as `run/index.jsonl` has it."""

    case_id: str
    definition_digest: str
    output_digest: str | None
    calls: list[list[str]]
    models: list[str]
    input_tokens: int | None
    output_tokens: int | None
    cost_usd: float | None
    latency_ms: float | None


class AdvisoryFinding(NamedTuple):
    """What an advisory judge found: its id, an outcome, and the reason."""

    judge_id: str
    outcome: str
    reason: str


def advisory_in(verdicts: Iterable[VerdictRow]) -> list[AdvisoryFinding]:
    """Read what advisory judges found of a trial; entries of another shape, as a pack may have, are left out.

    Example:
        >>> stated = {"judge_id": "mine", "outcome": "failed", "reason": "it shouts"}
        >>> advisory_in([{"evidence": {"advisory": [stated, 3]}}])
        [AdvisoryFinding(judge_id='mine', outcome='failed', reason='it shouts')]
    """
    findings = []
    for verdict in verdicts:
        stated = verdict["evidence"].get(ADVISORY)
        for each in stated if isinstance(stated, list) else ():
            values = [each.get(name) if isinstance(each, dict) else None for name in AdvisoryFinding._fields]
            if all(isinstance(value, str) for value in values) and values[1] in list(Outcome):
                findings.append(AdvisoryFinding(*map(str, values)))
    return findings
