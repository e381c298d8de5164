"""The gate: thresholds, and the decision with everything it rests on: `compare/gate_decision.json`."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import ConfigDict, Field, StrictInt, StrictStr
from typing_extensions import override

from agent_eval.contracts.base import SCHEMA_VERSION, Contract
from agent_eval.contracts.confirmation import SuspectResult
from agent_eval.contracts.coverage import Coverage
from agent_eval.contracts.verdict import GateStatus


class Thresholds(Contract):
    """The limits of the gate's rules (`config.rules`). Rates are shares from 0 to 1; null sets no rule.

    Example:
        >>> Thresholds(min_pass_rate=0.9, max_regressed_cases=0).any_set
        True
    """

    min_pass_rate: float | None = Field(default=None, ge=0, le=1, allow_inf_nan=False)
    max_hard_fail_rate: float | None = Field(default=None, ge=0, le=1, allow_inf_nan=False)
    max_pass_rate_drop: float | None = Field(default=None, ge=0, le=1, allow_inf_nan=False)
    max_hard_fail_increase: float | None = Field(default=None, ge=0, le=1, allow_inf_nan=False)
    max_regressed_cases: StrictInt | None = Field(default=None, ge=0)
    max_new_hard_fail_cases: StrictInt | None = Field(default=None, ge=0)
    min_coverage: float | None = Field(default=None, ge=0, le=1, allow_inf_nan=False)

    @property
    def any_set(self) -> bool:
        """Whether at least one rule on the results is set; coverage alone decides nothing about them."""
        results = Thresholds.model_fields.keys() - {"min_coverage"}
        return any(getattr(self, name) is not None for name in results)


class RuleResult(Contract):
    """One rule: its limit, the measured value, whether it holds, and one sentence.

    `applied` is false for a rule that needs a baseline when there is none.
    """

    rule: StrictStr
    threshold: float
    value: float | None = None
    applied: bool = True
    passed: bool
    message: StrictStr


class GateStep(Contract):
    """One step of a decision by policy, in the order they are taken, with one sentence."""

    name: Literal[
        "coverage",
        "integrity",
        "zero-tolerance",
        "confirmation",
        "thresholds",
        "regression",
        "non-inferiority",
    ]
    status: Literal["passed", "failed", "inconclusive", "not-applied"]
    message: StrictStr


class JudgeEvidence(Contract):
    """How one judge's verdicts changed: cases that passed and do not now, the reverse, and its p value.

    With several trials: cases of which fewer trials pass than before, and more. `judge_id` is `cases` for the
    case results themselves. `significant` is after Holm's correction.
    """

    judge_id: StrictStr
    regressed: int
    fixed: int
    p_value: float = Field(ge=0, le=1)
    significant: bool = False


class TopicEvidence(Contract):
    """How the cases of one topic changed; `significant` is after Holm's correction, with cases and judges.

    With several trials, `regressed` and `fixed` are cases of which fewer and more trials pass.
    """

    topic: StrictStr
    compared: int
    regressed: int
    fixed: int
    p_value: float = Field(ge=0, le=1)
    significant: bool = False


Method = Literal["mcnemar-tango", "sign-flip-clustered", "relabel-clustered", "pooled-prediction"]
"""How regression and non-inferiority were tested.

`mcnemar-tango`: one trial of each case; exact McNemar test, Tango interval. `sign-flip-clustered`: several
trials; permutation test that flips the sign of each case's change, interval from the standard error clustered
by case. `relabel-clustered`: the same where runs have different numbers of trials, the test permuting the
trials within each case. `pooled-prediction`: several runs of the base branch; prediction interval for a new
run, and exact test of the pooled trials.
"""


class TrialEvidence(Contract):
    """The trials behind a decision. Rates are means of the compared cases' pass rates."""

    baseline_fewest: int
    baseline_most: int
    candidate_fewest: int
    candidate_most: int
    baseline_rate: float
    candidate_rate: float
    errors: int
    """Trials of the candidate that could not be judged; they count as not passed."""


class PooledEvidence(Contract):
    """The runs of the base branch that a run was held against instead of against one. Rates are shares.

    `cases` are in every run; `mean` is that of the runs' pass rates and `rate` that of the run, each the mean
    over cases of the scored trials that passed. A rate below `low` is unusual. `run_ids`: the newest first.
    `sha256` is the digest of their records, `compare/pool.jsonl`; null where these were not kept.
    """

    runs: int
    cases: int
    mean: float
    rate: float
    low: float
    run_ids: list[StrictStr]
    sha256: StrictStr | None = None


class GateEvidence(Contract):
    """The statistics that a decision by policy rests on. Rates, drops and intervals are shares.

    `paired` cases enter the statistics: those `compared` but for quarantined ones that changed. Waived
    regressions count as unchanged there. `e_value` is null where it is too large for a number, and with
    several trials, where `regressed` and `fixed` are cases of which fewer and more trials pass, and `drop` is
    that of the mean of the cases' pass rates.
    """

    method: Method = "mcnemar-tango"
    trials: TrialEvidence | None = None
    looks: list[StrictInt] | None = None
    """Trials of each case after which the run was looked at; the tests have the levels of the last look."""

    compared: int
    paired: int
    baseline_passed: int
    candidate_passed: int
    regressed: int
    fixed: int
    drop: float
    interval_low: float
    interval_high: float
    confidence: float
    margin: float
    p_value: float
    e_value: float | None = Field(default=None, allow_inf_nan=False)
    stop_at: float
    power_for_ten_points: float
    cases_needed: int | None = None
    judges: list[JudgeEvidence] = Field(default_factory=list)
    topics: list[TopicEvidence] = Field(default_factory=list)
    """Topics of at least ten compared cases, of which at least one changed."""
    topic_clusters: int | None = None
    """Number of topics that `p_value` and the interval are clustered by; null with fewer than ten."""
    errors: int = 0
    new_errors: int = 0
    unscored: int = 0
    flaky: int | None = None
    """Cases of which some trials pass and some do not; null with a single trial."""
    waived: int = 0
    quarantined: int = 0
    pooled: PooledEvidence | None = None
    """The runs that `drop`, interval and `p_value` are held against; null where that is the baseline."""


class AppliedWaiver(Contract):
    """A waiver that excused regressions, and the cases they are of."""

    waiver_id: StrictStr
    approved_by: StrictStr
    reason: StrictStr
    expires_at: StrictStr | None = None
    case_ids: list[StrictStr]


class ExpiredExcuse(Contract):
    """A waiver or a quarantine that has expired, and the regressed cases that therefore count again.

    `waiver_id` is null for a quarantine.
    """

    waiver_id: StrictStr | None = None
    expires_at: StrictStr | None = None
    case_ids: list[StrictStr]


def _without_required_reason(schema: dict[str, Any]) -> None:
    """Leave the reason why nothing was evaluated out of the fields that every decision has."""
    schema["required"] = [name for name in schema["required"] if name != "not_evaluated"]


class GateDecision(Contract):
    """The decision and its reasons. `regression_delta` is candidate minus baseline pass rate, a share.

    `failures` repeats the message of every rule and step that does not hold. Digests name the comparison
    and the two packs it was made from. `blocks` says whether this stops the release: it failed, or it is
    inconclusive and the policy blocks on that. `steps`, `evidence` and `explanation` (at most ten lines)
    are there when a policy decided, not thresholds alone.
    """

    model_config = ConfigDict(json_schema_extra=_without_required_reason)

    schema_version: StrictStr = SCHEMA_VERSION
    generated_at: StrictStr
    gate_status: GateStatus
    passed: bool
    regression_delta: float | None = Field(default=None, allow_inf_nan=False)
    rules: list[RuleResult] = Field(default_factory=list)
    failures: list[StrictStr] = Field(default_factory=list)
    thresholds: Thresholds
    waived_case_ids: list[StrictStr] = Field(default_factory=list)
    regressed_cases_considered: int = 0
    new_hard_fail_cases_considered: int = 0
    baseline_run_id: StrictStr | None = None
    candidate_run_id: StrictStr
    baseline_manifest_sha256: StrictStr | None = None
    candidate_manifest_sha256: StrictStr | None = None
    comparison_sha256: StrictStr | None = None
    blocks: bool = False
    preset: StrictStr | None = None
    steps: list[GateStep] = Field(default_factory=list)
    evidence: GateEvidence | None = None
    explanation: list[StrictStr] = Field(default_factory=list)
    waivers: list[AppliedWaiver] = Field(default_factory=list)
    quarantined_case_ids: list[StrictStr] = Field(default_factory=list)
    """Cases in quarantine, which count in neither run."""
    tracked_case_ids: list[StrictStr] = Field(default_factory=list)
    """Regressed cases that the policy tracks: they count in the tests over the suite alone."""
    expected_fail_case_ids: list[StrictStr] = Field(default_factory=list)
    """Regressed cases that the policy expects to fail: they count as those it tracks."""
    coverage: Coverage | None = None
    """Which share of the baseline counts in the decision; null without a baseline."""
    expired: list[ExpiredExcuse] = Field(default_factory=list)
    """Waivers and quarantines that would have excused a regression, had they not expired."""
    confirmed: list[SuspectResult] = Field(default_factory=list)
    """What fresh trials of both sides say of the cases that passed before and do not now."""
    confirmation_sha256: StrictStr | None = None
    """The record of these trials; null where none was made."""
    looks_ended: StrictStr | None = None
    """Why the job took no further look although the decision is open, as a clause; null otherwise."""
    not_evaluated: list[StrictStr] = Field(default_factory=list)
    """Why the run says nothing of the change, and what to do; written only where that is so."""

    @override
    def to_json(self) -> dict[str, Any]:
        fields = super().to_json()
        if not self.not_evaluated:
            fields.pop("not_evaluated", None)
        return fields
