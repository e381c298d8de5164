"""The gate: thresholds, and the decision with everything it rests on: `compare/gate_decision.json`."""

from __future__ import annotations

from typing import Literal

from pydantic import Field, StrictInt, StrictStr

from agent_eval.contracts.base import SCHEMA_VERSION, Contract
from agent_eval.contracts.reruns import TrialCounts
from agent_eval.contracts.verdict import GateStatus


class Thresholds(Contract):
    """Limits that can be held against stored runs alone: shares from 0 to 1, or counts; null sets none."""

    min_pass_rate: float | None = Field(default=None, ge=0, le=1, allow_inf_nan=False)
    max_hard_fail_rate: float | None = Field(default=None, ge=0, le=1, allow_inf_nan=False)
    max_hard_fail_increase: float | None = Field(default=None, ge=0, le=1, allow_inf_nan=False)
    max_regressed_cases: StrictInt | None = Field(default=None, ge=0)
    max_new_hard_fail_cases: StrictInt | None = Field(default=None, ge=0)

    @property
    def any_set(self) -> bool:
        """Whether at least one rule is set."""
        return any(getattr(self, name) is not None for name in type(self).model_fields)


class RuleResult(Contract):
    """One rule: its limit, the measured value, whether it holds, and one sentence.

    `applied` is false for a rule that needs a baseline when there is none. `passed` is also true where the
    limit is exceeded and chance alone may be why; the sentence says so then.
    """

    rule: StrictStr
    threshold: float
    value: float | None = None
    applied: bool = True
    passed: bool
    message: StrictStr


CaseAnswer = Literal["broke", "open", "passes-again", "fails-on-main", "not-rerun"]
"""How a case that newly fails ended.

`broke`: fresh trials blame this change. `open`: they do not settle it, and it passed reliably on main.
`passes-again`: nothing says that this change breaks it. `fails-on-main`: it fails on main as well, by what
ran elsewhere. `not-rerun`: beyond the budget, and not reliable on main.
"""


class JudgedCase(Contract):
    """A case that newly fails: its counts on main, in the first run and in the reruns, and one sentence.

    `on_main` counts the trials of main's last runs at the same setup; `steady` says that nearly all passed,
    over at least ten. `p_value` is the one-sided exact Fisher test of complete reruns; null without.
    """

    case_id: StrictStr
    answer: CaseAnswer
    on_main: TrialCounts
    first: TrialCounts
    change: TrialCounts | None = None
    base: TrialCounts | None = None
    steady: bool = False
    p_value: float | None = Field(default=None, ge=0, le=1)
    reason: StrictStr


class SafetyFinding(Contract):
    """A violation of a safety judge in a case, and whether it blocks. `trials` counts reruns that violate."""

    case_id: StrictStr
    judge_id: StrictStr
    answer: Literal["blocks", "did-not-repeat", "known-on-main", "waived", "open"]
    violations: StrictInt = Field(default=0, ge=0)
    trials: StrictInt = Field(default=0, ge=0)
    reason: StrictStr


class SuiteAnswer(Contract):
    """The whole suite, run again by both sides because the first run was below all of main's last.

    Counts are over all rounds. `p_value`: exact sign-flip test of the cases' falls.
    """

    rounds: StrictInt = Field(ge=0)
    base: TrialCounts
    change: TrialCounts
    p_value: float = Field(ge=0, le=1)
    answer: Literal["worse", "not-worse", "open"]
    reason: StrictStr


class ReleaseAnswer(Contract):
    """How far the pass rate may have fallen below the release's, as shares, and how that is to the margin."""

    fall: float
    low: float
    high: float
    margin: float
    answer: Literal["within", "worse", "open"]
    reason: StrictStr


class FigureChange(Contract):
    """Whether the cost or the time of a run moved: a paired one-sided t test on the logarithms of its cases.

    `ratio` is candidate over baseline in total. `limit`: how much more is allowed; null without one.
    `answer`: `rose` significantly; `not-shown`: it did not, or chance may be why; `breaks-limit`; or `open`:
    it seems to break the limit, and was not measured again.
    """

    name: Literal["cost_usd", "latency_ms"]
    cases: StrictInt
    baseline: float
    candidate: float
    ratio: float
    p_value: float = Field(ge=0, le=1)
    limit: float | None = None
    answer: Literal["rose", "not-shown", "breaks-limit", "open"]
    reason: StrictStr


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


class GateDecision(Contract):
    """The decision and its reasons. `regression_delta` is candidate minus baseline pass rate, a share.

    `sentence` says how it ended and why; `notes` say what else a reader has to know, a sentence each.
    `failures` repeats the sentence of everything that fails. `blocks` says whether this stops the release: it
    failed, or it is open where that blocks. Digests name the comparison, the two packs it was made from, the
    reruns, and the counts of main's runs. What `decided_by` a policy has `cases`, `safety` and what follows.
    Fields of earlier versions that are no more are kept as they were written.
    """

    schema_version: StrictStr = SCHEMA_VERSION
    generated_at: StrictStr
    gate_status: GateStatus
    passed: bool
    sentence: StrictStr = ""
    regression_delta: float | None = Field(default=None, allow_inf_nan=False)
    decided_by: Literal["thresholds", "policy"] = "thresholds"
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
    main_runs: list[StrictStr] = Field(default_factory=list)
    """Ids of main's runs that cases were held against, the newest first."""
    cases: list[JudgedCase] = Field(default_factory=list)
    """Cases that newly fail, those that block first."""
    safety: list[SafetyFinding] = Field(default_factory=list)
    suite: SuiteAnswer | None = None
    release: ReleaseAnswer | None = None
    figures: list[FigureChange] = Field(default_factory=list)
    waivers: list[AppliedWaiver] = Field(default_factory=list)
    expired: list[ExpiredExcuse] = Field(default_factory=list)
    """Waivers and quarantine entries that would have held, had they not expired."""
    quarantined_case_ids: list[StrictStr] = Field(default_factory=list)
    """Cases in quarantine that do not pass, which count in no total."""
    notes: list[StrictStr] = Field(default_factory=list)
    reruns_sha256: StrictStr | None = None
    """The record of the reruns; null where none was made."""
    history_sha256: StrictStr | None = None
    """The counts of main's runs as they were used; null where the baseline alone was."""
    not_evaluated: list[StrictStr] = Field(default_factory=list)
    """Why the run says nothing of the change, and what to do; empty where it says something."""
