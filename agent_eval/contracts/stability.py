"""How steady an agent is over repeated trials: `stability-check` and the trials of a run."""

from __future__ import annotations

from pydantic import Field, StrictStr

from agent_eval.contracts.base import SCHEMA_VERSION, Contract


class ShareInterval(Contract):
    """A confidence interval of a share."""

    low: float
    high: float


class CaseStability(Contract):
    """One case over its runs.

    `flake_score` estimates the chance that two runs disagree; `entropy` is in bits. `minimum_runs` is how
    many runs it takes to see its rarer result, or for a steady case a flake of one in twenty, with 95 %
    confidence: with fewer, steadiness is not yet trusted.
    """

    case_id: StrictStr
    runs: int
    pass_count: int
    hard_fail_count: int
    pass_rate: float
    confidence_95: ShareInterval
    flaky: bool
    consistently_failing: bool
    flake_score: float
    entropy: float
    minimum_runs: int
    quarantine_recommended: bool
    reason: StrictStr


class StabilityRun(Contract):
    """One run over all cases, counted from 0."""

    run_index: int
    cases: int
    passed_cases: int
    hard_fail_cases: int
    pass_rate: float


class PassCurve(Contract):
    """Chance that k trials of a case all pass (pass^k), and that one of them does (pass@k): suite means."""

    k: int
    pass_hat_k: float
    pass_at_k: float


class StabilitySummary(Contract):
    """The report in numbers. The deviation is that of the runs' pass rates."""

    cases: int
    avg_pass_rate: float
    pass_rate_stddev: float
    flaky_cases: int
    consistently_failing_cases: int
    quarantine_recommended_cases: int


class StabilityReport(Contract):
    """What repeating the agent showed."""

    schema_version: StrictStr = SCHEMA_VERSION
    dataset_id: StrictStr
    runs: int
    execution_mode: StrictStr
    judge_names: list[StrictStr] = Field(default_factory=list)
    run_results: list[StabilityRun]
    case_stability: list[CaseStability]
    pass_curve: list[PassCurve]
    flaky_case_ids: list[StrictStr]
    consistently_failing_case_ids: list[StrictStr]
    quarantine_recommended_case_ids: list[StrictStr]
    summary: StabilitySummary
    notes: list[StrictStr] = Field(default_factory=list)
    """What the report cannot say, such as which cases were recorded once only."""
