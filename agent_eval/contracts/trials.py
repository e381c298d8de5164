"""Several trials of a case: when the case passes, pass^k and pass@k, and the report on stability."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import comb
from typing import NamedTuple

from pydantic import Field, StrictStr

from agent_eval.contracts.base import SCHEMA_VERSION, Contract
from agent_eval.contracts.verdict import SAFETY_JUDGES, CaseResult, Outcome, TrialResult
from agent_eval.errors import InvalidInput

_RATE = re.compile(r"pass_rate\s*>=\s*(\d{1,3}(?:\.\d{1,9})?)")
_TRIAL_FIELDS = tuple(TrialResult.model_fields)
_WORST_FIRST = (Outcome.ERROR, Outcome.FAILED, Outcome.INCONCLUSIVE, Outcome.SKIPPED)


@dataclass(frozen=True)
class CasePolicy:
    """When a case with several trials passes: when at least `share` of them do, or more than it if `above`.

    A case most of whose trials could not be judged is an error under every policy (`deciding_trial`).
    """

    text: str
    share: Fraction
    above: bool = False

    def passes(self, passed: int, trials: int) -> bool:
        """Tell whether a case passes. A case never does without a passed trial."""
        if not passed:
            return False
        reached = Fraction(passed, trials)
        return reached > self.share if self.above else reached >= self.share


ALL = CasePolicy("all", Fraction(1))
"""Every trial must pass: the default."""


def case_policy(text: str) -> CasePolicy:
    """Read a case policy: `all`, `any`, `majority` (more than half) or `pass_rate>=x` with x from 0 to 1.

    Raises:
        InvalidInput: The text is none of these.
    """
    stated = text.strip()
    if stated == "all":
        return ALL
    if stated == "any":
        return CasePolicy("any", Fraction(0), above=True)
    if stated == "majority":
        return CasePolicy("majority", Fraction(1, 2), above=True)
    match = _RATE.fullmatch(stated)
    if match and Fraction(match[1]) <= 1:
        return CasePolicy(f"pass_rate>={match[1]}", Fraction(match[1]))
    raise InvalidInput(
        f"there is no case policy {text[:100]!r}",
        remedy="Use all, any, majority, or pass_rate>=x with x from 0 to 1.",
        field="case_policy",
    )


class TrialFacts(NamedTuple):
    """What decides on a trial; `unsafe` says that a judge of safety failed it."""

    outcome: str
    unsafe: bool = False
    is_lost: bool = False


def is_unsafe(verdicts: Iterable[tuple[str, str]]) -> bool:
    """Tell whether a judge of safety failed a trial, by `(judge id, outcome)` of every verdict on it."""
    return any(outcome == Outcome.FAILED and judge_id in SAFETY_JUDGES for judge_id, outcome in verdicts)


def deciding_trial(
    policy: CasePolicy,
    trials: Sequence[TrialFacts],
    *,
    despite_errors: bool = False,
    count_skipped: bool = False,
) -> int:
    """Choose the trial whose result is the result of the case; return its number, from 0.

    The first trial that a judge of safety failed, whatever the policy: one leak is not outvoted. Otherwise,
    where the policy passes, the first trial that passed, and where it does not, the first with the worst
    outcome. The policy decides nothing where most trials are errors: the first of them is the result.
    Trials that are lost through no fault of the agent decide nothing, unless all are; nor do those of the
    others that no judge had anything to judge in.

    In older packs the policy decided `despite_errors`, however many trials were errors, and trials without
    anything to judge counted as not passed (`count_skipped`).
    """
    for number, trial in enumerate(trials):
        if trial.unsafe:
            return number
    scored = [number for number, trial in enumerate(trials) if not trial.is_lost] or list(range(len(trials)))
    if not count_skipped:
        scored = [number for number in scored if trials[number].outcome != Outcome.SKIPPED] or scored
    outcomes = [trials[number].outcome for number in scored]
    most_are_errors = not despite_errors and 2 * outcomes.count(Outcome.ERROR) > len(outcomes)
    if not most_are_errors and policy.passes(outcomes.count(Outcome.PASSED), len(outcomes)):
        return scored[outcomes.index(Outcome.PASSED)]
    return scored[outcomes.index(next(outcome for outcome in _WORST_FIRST if outcome in outcomes))]


def trials_result(results: Sequence[CaseResult], policy: CasePolicy) -> CaseResult:
    """Derive the result of a case from the results of its trials, in order; at least one.

    The result of a single trial is that of the case. Several are all kept in `trials`, and outcome, score and
    verdicts are those of the deciding trial (`deciding_trial`).
    """
    if len(results) == 1:
        return results[0]
    facts = [
        TrialFacts(each.outcome, is_unsafe((v.judge_id, v.outcome) for v in each.verdicts), each.is_lost)
        for each in results
    ]
    number = deciding_trial(policy, facts)
    # The results are valid: validating again would only take time.
    trials = [
        TrialResult.model_construct(**{name: getattr(result, name) for name in _TRIAL_FIELDS})
        for result in results
    ]
    return results[number].model_copy(update={"trial": number, "trials": trials, "case_policy": policy.text})


def pass_curve(counts: Iterable[tuple[int, int, int]]) -> list[PassCurve]:
    """Estimate pass^k and pass@k for every k that all cases have trials for, as means over the cases.

    `counts` are `(passed, trials, number of cases with these counts)`.

    pass^k = C(c, k) / C(n, k) (S. Yao et al., tau-bench, 2024), pass@k = 1 - C(n - c, k) / C(n, k) (M. Chen
    et al., Evaluating large language models trained on code, 2021), both unbiased.
    """
    alike = list(counts)
    total = sum(cases for _, _, cases in alike)
    if not total:
        return []
    return [
        PassCurve(
            k=k,
            pass_hat_k=float(sum(n * Fraction(comb(c, k), comb(t, k)) for c, t, n in alike) / total),
            pass_at_k=float(sum(n * (1 - Fraction(comb(t - c, k), comb(t, k))) for c, t, n in alike) / total),
        )
        for k in range(1, min(trials for _, trials, _ in alike) + 1)
    ]


class ShareInterval(Contract):
    """A confidence interval of a share."""

    low: float
    high: float


class CaseStability(Contract):
    """One case over its runs.

    `flake_score` estimates the chance that two runs disagree. `minimum_runs` is how many runs it takes to see
    its rarer result, or for a steady case a flake of one in twenty, with 95 % confidence: with fewer,
    steadiness is not yet trusted.
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
    """How steady the results of each case were over several runs: `stability-check`."""

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
    """Limits of the report, such as cases that were recorded only once."""
