"""A comparison of a candidate run with a baseline run: `compare/baseline_delta.json`."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field, StrictBool, StrictInt, StrictStr, model_validator

from agent_eval.contracts.base import SCHEMA_VERSION, Contract
from agent_eval.contracts.run import RunSummary
from agent_eval.contracts.verdict import Outcome


class SpokenTurn(Contract):
    """What was said and done in one turn of one run, cut to a bounded size.

    `actions` are what the agent did or found out: tools, parameters, rules, integrations, errors.
    """

    user: StrictStr = ""
    agent: StrictStr = ""
    actions: list[StrictStr] = Field(default_factory=list)


class TurnPair(Contract):
    """One turn in both runs; null in a run whose conversation ended before it."""

    number: StrictInt
    baseline: SpokenTurn | None = None
    candidate: SpokenTurn | None = None
    differs: bool


class CriterionChange(Contract):
    """One criterion of a judge whose outcome changed, with the judge's reason in the candidate.

    `strict` is the kind of a strict evaluation, null for a criterion that a model judged. An outcome is null
    in a run that does not have the criterion.
    """

    judge_id: StrictStr
    criterion: StrictStr
    strict: StrictStr | None = None
    baseline: Outcome | None = None
    candidate: Outcome | None = None
    reason: StrictStr = ""
    advisory: bool = False


class ConversationChange(Contract):
    """A conversation whose result changed: its turns in both runs, and the criteria whose outcome changed.

    The list of turns is bounded: the first that differs and those after it come before earlier ones.
    `baseline_turns` and `candidate_turns` count all.
    """

    case_id: StrictStr
    baseline_turns: StrictInt
    candidate_turns: StrictInt
    baseline_end: StrictStr | None = None
    candidate_end: StrictStr | None = None
    turns: list[TurnPair] = Field(default_factory=list)
    criteria: list[CriterionChange] = Field(default_factory=list)

    @property
    def first_differing(self) -> TurnPair | None:
        """The first turn that differs; None if all are the same."""
        return next((turn for turn in self.turns if turn.differs), None)

    def worse(self, judge_id: str) -> list[CriterionChange]:
        """Select a judge's criteria that got worse, or that it decides for the first time, not as passed."""
        return [
            each
            for each in self.criteria
            if each.judge_id == judge_id
            and not each.advisory
            and each.candidate is not Outcome.PASSED
            and each.candidate is not each.baseline
        ]


class Metric(Contract):
    """A figure in both runs. `delta` is candidate minus baseline; null where one side has no figure."""

    name: StrictStr
    baseline: float | None = Field(default=None, allow_inf_nan=False)
    candidate: float | None = Field(default=None, allow_inf_nan=False)
    delta: float | None = Field(default=None, allow_inf_nan=False)


class RunReference(Contract):
    """Which run was compared, pinned by the digest of its manifest.

    `damaged_records`: how many records of finished trials were damaged before the run was resumed.
    """

    run_id: StrictStr
    dataset_id: StrictStr
    manifest_sha256: StrictStr | None = None
    agent_version: StrictStr = "unknown"
    model: StrictStr = "unknown"
    git_commit: StrictStr | None = None
    started_at: StrictStr | None = None
    damaged_records: StrictInt = Field(default=0, ge=0)
    summary: RunSummary


class CompatibilityCheck(Contract):
    """One condition under which two runs may be compared, and the values that broke it.

    A condition that is not `enforced` (the same judges, the same configuration) is reported and does not stop
    a comparison.
    """

    name: StrictStr
    passed: bool
    enforced: bool = True
    message: StrictStr
    details: dict[str, Any] = Field(default_factory=dict)


class Compatibility(Contract):
    """All conditions. `passed`: every enforced one holds; `failures` repeats those that do not."""

    passed: bool
    checks: list[CompatibilityCheck]
    failures: list[CompatibilityCheck] = Field(default_factory=list)


class CaseSets(Contract):
    """How the two runs' cases relate, as sorted case ids. Only `compared` enters the deltas."""

    compared: int
    new: list[StrictStr] = Field(default_factory=list)
    changed: list[StrictStr] = Field(default_factory=list)
    """Cases that ask something else, so that their results say nothing of each other."""
    judged_twice: list[StrictStr] = Field(default_factory=list)
    """Cases that expect something else of the same input: both runs were judged by either definition."""
    removed: list[StrictStr] = Field(default_factory=list)
    removed_failing: list[StrictStr] = Field(default_factory=list)
    """Those of `removed` that did not pass in the baseline."""


class NewCases(Contract):
    """Results of the candidate's new cases, which the baseline does not have: they never block."""

    cases: StrictInt = Field(default=0, ge=0)
    passed: StrictInt = Field(default=0, ge=0)
    hard_failed: StrictInt = Field(default=0, ge=0)


class CallChange(Contract):
    """One step of the aligned difference between two lists of tool calls.

    `arguments` appear only for changed arguments: JSON paths with both values, cut to a bounded size.
    """

    kind: Literal["same", "added", "removed", "moved", "arguments"]
    tool: StrictStr
    arguments: dict[str, tuple[Any, Any]] | None = None


class CallCount(Contract):
    """How many calls of a tool differ in one way."""

    kind: Literal["added", "removed", "moved", "arguments"]
    tool: StrictStr
    count: int


class BehaviourChange(Contract):
    """How one case's behaviour changed beyond its verdicts. Null figures are unknown, not zero.

    All calls are compared, and `baseline_call_count`, `candidate_call_count`, `call_counts` are of all of
    them (null and empty in comparisons of versions that did not count). The lists are bounded:
    `baseline_calls` and `candidate_calls` hold the first 200, `calls` 400 steps, those that differ before
    those that do not.
    """

    case_id: StrictStr
    baseline_calls: list[StrictStr] = Field(default_factory=list)
    candidate_calls: list[StrictStr] = Field(default_factory=list)
    baseline_call_count: int | None = None
    candidate_call_count: int | None = None
    calls: list[CallChange] = Field(default_factory=list)
    call_counts: list[CallCount] = Field(default_factory=list)
    calls_changed: bool = False
    output_changed: bool = False
    baseline_output: StrictStr | None = None
    candidate_output: StrictStr | None = None
    baseline_models: list[StrictStr] = Field(default_factory=list)
    candidate_models: list[StrictStr] = Field(default_factory=list)
    model_changed: bool = False
    metrics: list[Metric] = Field(default_factory=list)
    """Those of input_tokens, output_tokens, cost_usd, latency_ms that moved."""


class RunBehaviour(Contract):
    """How the behaviour changed over the whole run.

    `shifts` holds totals of tokens, cost and latency over the cases where both runs know them;
    `notices` are sentences for the top of a report, empty when nothing moved enough to be reported.
    """

    cases_with_changed_calls: int = 0
    cases_with_changed_output: int = 0
    baseline_models: list[StrictStr] = Field(default_factory=list)
    candidate_models: list[StrictStr] = Field(default_factory=list)
    model_changed: bool = False
    shifts: list[Metric] = Field(default_factory=list)
    notices: list[StrictStr] = Field(default_factory=list)


class JudgeChange(Contract):
    """A judge's outcome in both runs on one case, with the candidate's reason.

    `regression_key` identifies the regression: the same case, judge, kind of failure and reason (without
    numbers, ids and quoted parts) give the same key. Empty where the judge passes now.
    """

    judge_id: StrictStr
    baseline: Outcome | None
    candidate: Outcome | None
    baseline_score: float | None = None
    candidate_score: float | None = None
    reason: StrictStr = ""
    failure: StrictStr | None = None
    evidence_refs: list[int] = Field(default_factory=list)
    regression_key: StrictStr = ""


class CaseRegression(Contract):
    """A case whose result changed in either direction.

    Regressed: passed in the baseline and not now, or a new hard fail. Improved: the reverse, and not
    regressed.
    """

    case_id: StrictStr
    baseline_outcome: Outcome
    candidate_outcome: Outcome
    baseline_passed: bool
    candidate_passed: bool
    baseline_hard_failed: bool
    candidate_hard_failed: bool
    regressed: bool
    improved: bool
    judges: list[JudgeChange] = Field(default_factory=list)
    """Judges whose outcome changed, the ones that now fail first."""


class Cluster(Contract):
    """Failures with the same judge and the same reason, apart from numbers and quoted parts."""

    cluster: StrictStr
    judge_id: StrictStr
    reason: StrictStr
    baseline_count: int
    candidate_count: int
    delta: int
    case_ids: list[StrictStr] = Field(default_factory=list)
    """Ids of up to ten of the candidate's cases."""
    suggested_fix: StrictStr | None = None


class FailureClusters(Contract):
    """Counts by cluster in each run, and the clusters ranked by growth."""

    baseline: dict[str, int] = Field(default_factory=dict)
    candidate: dict[str, int] = Field(default_factory=dict)
    delta_ranked: list[Cluster] = Field(default_factory=list)


class Triage(Contract):
    """The clusters to examine first, each with a hint."""

    top_clusters: list[Cluster] = Field(default_factory=list)
    suggested_fixes_count: int = 0


class ReleaseImpact(Contract):
    """A score from 0 to 100 for orientation. The gate does not use it."""

    impact_score: float
    impact_level: Literal["low", "medium", "high", "critical"]
    recommendation: StrictStr


class Overview(Contract):
    """The comparison in numbers of cases."""

    total_baseline_cases: int
    total_candidate_cases: int
    compared_cases: int
    regressed_cases: int
    improved_cases: int
    new_hard_fail_cases: int
    resolved_hard_fail_cases: int
    risk_level: Literal["low", "medium", "high"]


class TrialCount(Contract):
    """Counts of the trials of a case by their results, or of a judge's verdicts on them.

    `judged` is the number that counts: all trials of a case, and for a judge those that it did not skip.
    `failed` have failed or could not be judged; the others that did not pass are inconclusive or skipped.
    """

    passed: int = Field(ge=0)
    failed: int = Field(ge=0)
    judged: int = Field(ge=0)

    @model_validator(mode="after")
    def _consistent(self) -> TrialCount:
        if self.passed + self.failed > self.judged:
            raise ValueError("more trials passed and failed than were judged")
        return self


class TrialChange(Contract):
    """A case whose trials had other results than in the baseline, or a judge's verdicts on them."""

    case_id: StrictStr
    judge_id: StrictStr | None = None
    """Null: the results of the trials themselves."""
    baseline: TrialCount
    candidate: TrialCount


class TrialSide(Contract):
    """The trials of one run over the compared cases. `pass_rate` is the mean of the cases' pass rates."""

    fewest: int
    most: int
    passed: int
    errors: int
    total: int
    pass_rate: float = Field(ge=0, le=1, allow_inf_nan=False)
    case_policies: list[StrictStr] = Field(default_factory=list)
    """The case policies by which cases with several trials passed; sorted."""


class TrialComparison(Contract):
    """Results of the trials of the compared cases in both runs; `changes` are sorted by case and judge."""

    baseline: TrialSide
    candidate: TrialSide
    changes: list[TrialChange] = Field(default_factory=list)


class Comparison(Contract):
    """Everything that changed from the baseline to the candidate.

    `metrics` and `judge_metrics` are over the compared cases. `candidate.summary` is over the whole
    candidate run; absolute thresholds use it without its `new_cases`.
    """

    schema_version: StrictStr = SCHEMA_VERSION
    generated_at: StrictStr
    baseline_run_id: StrictStr
    candidate_run_id: StrictStr
    dataset_id: StrictStr
    baseline: RunReference
    candidate: RunReference
    compatibility: Compatibility
    cases: CaseSets
    metrics: dict[str, Metric]
    """`pass_rate` and `hard_fail_rate`."""
    judge_metrics: dict[str, Metric]
    overview: Overview
    case_regressions: list[CaseRegression] = Field(default_factory=list)
    regressions: list[StrictStr] = Field(default_factory=list)
    top_regressed_judges: list[Metric] = Field(default_factory=list)
    new_hard_fail_case_ids: list[StrictStr] = Field(default_factory=list)
    resolved_hard_fail_case_ids: list[StrictStr] = Field(default_factory=list)
    failure_clusters: FailureClusters = Field(default_factory=FailureClusters)
    triage: Triage = Field(default_factory=Triage)
    release_impact: ReleaseImpact
    behaviour: RunBehaviour = Field(default_factory=RunBehaviour)
    behaviour_changes: list[BehaviourChange] = Field(default_factory=list)
    """Cases whose behaviour changed: those whose result changed first, in full; the rest by calls only."""
    conversations: list[ConversationChange] = Field(default_factory=list)
    """The first 50 conversations whose result changed, turn by turn."""
    trials: TrialComparison | None = None
    """Null where no compared case has several trials in either run."""
    new_expectations: dict[str, list[StrictStr]] = Field(default_factory=dict)
    """Judges by case that the candidate fails by what the baseline expects, not by what it expects itself."""
    more_help: StrictBool = False
    """Whether the candidate's agent was given what the baseline's was not: expected output, more repairs."""
    new_cases: NewCases | None = None
    """Results of the new cases; null in comparisons of versions that did not count them."""
    baseline_path: StrictStr | None = None
    """Where the baseline's pack was, relative to this file; null where it came from elsewhere."""
    candidate_path: StrictStr | None = None
    """Where the candidate's pack was, relative to this file."""

    @property
    def regressed_case_ids(self) -> list[str]:
        """Ids of the regressed cases, sorted."""
        return sorted(row.case_id for row in self.case_regressions if row.regressed)
