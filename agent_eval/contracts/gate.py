"""The gate: thresholds in, a decision out. `compare/gate_decision.json`."""

from __future__ import annotations

from enum import StrEnum

from pydantic import Field, StrictInt, StrictStr

from agent_eval.contracts.base import SCHEMA_VERSION, Contract


class GateStatus(StrEnum):
    """What the gate decided."""

    PASSED = "passed"
    FAILED = "failed"
    INCONCLUSIVE = "inconclusive"
    NO_BASELINE = "no-baseline"
    """A first run: nothing to compare with and no absolute rule to apply."""


class Thresholds(Contract):
    """The specification's six rules. Rates are shares from 0 to 1; null means the rule is not set."""

    min_pass_rate: float | None = Field(default=None, ge=0, le=1, allow_inf_nan=False)
    max_hard_fail_rate: float | None = Field(default=None, ge=0, le=1, allow_inf_nan=False)
    max_pass_rate_drop: float | None = Field(default=None, ge=0, le=1, allow_inf_nan=False)
    max_hard_fail_increase: float | None = Field(default=None, ge=0, le=1, allow_inf_nan=False)
    max_regressed_cases: StrictInt | None = Field(default=None, ge=0)
    max_new_hard_fail_cases: StrictInt | None = Field(default=None, ge=0)

    @property
    def any_set(self) -> bool:
        """Whether at least one rule is set."""
        return any(getattr(self, name) is not None for name in Thresholds.model_fields)


ABSOLUTE_RULES = ("min_pass_rate", "max_hard_fail_rate")
"""Rules that need no baseline."""


class RuleResult(Contract):
    """One rule: what was allowed, what was measured, whether it holds, and one sentence.

    `applied` is false for a rule that needs a baseline when there is none.
    """

    rule: StrictStr
    threshold: float
    value: float | None = None
    applied: bool = True
    passed: bool
    message: StrictStr


class GateDecision(Contract):
    """The decision and why. `regression_delta` is candidate minus baseline pass rate, a share.

    `failures` repeats the message of every rule that does not hold. Digests name the comparison and
    the two packs it was made from.
    """

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
