"""Looks: how often a run that stops as soon as it is decided may look at its trials, and at which level.

`trials: auto` runs every case once, looks, and runs every case again up to the next look while the decision
is undecided. A test that is made at each look at its full level finds a regression that is none more often
than its level says. So each look spends a share of it: the chance of an error at any look is at most the sum
of the chances at each (Bonferroni's inequality), however the looks depend on each other. The idea of spending
a level over looks: K. K. G. Lan, D. L. DeMets, Discrete sequential boundaries for clinical trials, Biometrika
70 (1983) 659-663.
"""

from __future__ import annotations

from collections.abc import Sequence

from agent_eval.contracts import Comparison, GateDecision, GateStatus
from agent_eval.contracts.policy import GatePolicy
from agent_eval.errors import InvalidInput

LOOKS = (1, 4, 12)
"""Trials of each case after which a run looks at what it has."""

LEVEL_SHARES = (0.2, 0.3, 0.5)
"""Share of the level of the regression tests that is spent at each look; together at most 1."""
INTERVAL_SHARES = (0.1, 0.2, 0.7)
"""The same of the chance that the interval misses. A drop is seldom ruled out before the last look, so most
is kept for that."""

SINGLE_CASES = frozenset({"max_regressed_cases", "max_new_hard_fail_cases"})
"""Rules that count cases that newly fail, which fresh trials of both sides can clear."""

FIXED_TRIALS = LOOKS[-1]
"""Trials of each case under `trials: auto` where there is nothing to decide: without a baseline, and on the
base branch. A baseline that ended as soon as it was decided would keep lucky runs; and its own chance is part
of every comparison with it, so that with fewer trials the last look of a change could rule out little."""


def level_at(trials: int, alpha: float) -> float:
    """Compute the level of the regression tests at a look, so that all looks together stay within `alpha`.

    Args:
        trials: Trials of each case at the look; one of LOOKS.
        alpha: The chance of a false alarm over all looks.

    Raises:
        ValueError: There is no such look.

    Example:
        >>> [round(level_at(look, 0.05), 4) for look in LOOKS]
        [0.01, 0.015, 0.025]
    """
    return _spent(LEVEL_SHARES, trials) * alpha


def confidence_at(trials: int, confidence: float) -> float:
    """Compute the confidence of the two-sided interval at a look.

    Either end misses at all looks together at most as often as one interval of `confidence` does.

    Args:
        trials: Trials of each case at the look; one of LOOKS.
        confidence: That of all looks together, such as 0.95.

    Raises:
        ValueError: There is no such look.

    Example:
        >>> [round(confidence_at(look, 0.95), 4) for look in LOOKS]
        [0.995, 0.99, 0.965]
    """
    return 1 - _spent(INTERVAL_SHARES, trials) * (1 - confidence)


def _spent(shares: Sequence[float], trials: int) -> float:
    if trials not in LOOKS:
        raise ValueError(f"there is no look after {trials} trials; looks are after {LOOKS}")
    return shares[LOOKS.index(trials)]


def policy_at_look(policy: GatePolicy, looks: Sequence[int] | None) -> GatePolicy:
    """Copy a policy with the levels that are spent at the last look of a run.

    Args:
        policy: With the levels of all looks together.
        looks: Trials of each case after which the run was looked at; None for a run with a fixed number of
            trials, which is tested once, at the full levels.

    Example:
        >>> round(policy_at_look(GatePolicy(alpha=0.05), [1, 4]).alpha, 4)
        0.015
    """
    if looks is None:
        return policy
    spent = {
        "alpha": level_at(looks[-1], policy.alpha),
        "confidence": confidence_at(looks[-1], policy.confidence),
    }
    return policy.model_copy(update=spent)


def refuse_impossible_looks(comparison: Comparison) -> None:
    """Refuse a run whose looks are not those that it can have had, which would give it another level.

    A run looks after each of LOOKS in turn, and has as many trials of every case as its last look asks for.

    Raises:
        InvalidInput: The run states other looks, or has another number of trials.
    """
    looks = comparison.candidate.looks
    if looks is None:
        return
    fewest = most = 1
    if comparison.trials is not None:
        fewest, most = comparison.trials.candidate.fewest, comparison.trials.candidate.most
    planned, asked = tuple(looks) == LOOKS[: len(looks)], max(looks, default=0)
    summary = comparison.candidate.summary
    if summary.lost_trials:
        # Those are left out of the counts of single cases, and stay in that of all.
        is_whole = most <= asked and summary.trials == asked * summary.total_cases
    else:
        is_whole = fewest == most == asked
    if not looks or not planned or (comparison.cases.compared and not is_whole):
        raise InvalidInput(
            f"run {comparison.candidate.run_id!r} states looks after {', '.join(map(str, looks))} trials of "
            f"each case, which do not agree with its {_range(fewest, most)} trials or with the looks that "
            f"`trials: auto` takes ({', '.join(map(str, LOOKS))})",
            remedy="Run it again; evidence is never edited by hand.",
            field="execution_config.looks",
        )


def next_look(
    looks: Sequence[int], decision: GateDecision, *, is_confirmed_later: bool = False
) -> int | None:
    """Return after how many trials of each case to look next; None where the run ends.

    It ends where it is decided, where more trials of the same cases cannot change what is open, and after the
    last look.

    Args:
        looks: The looks so far.
        decision: On the run as it is.
        is_confirmed_later: As in `is_undecided`.
    """
    later = LOOKS[len(looks) :]
    open_still = bool(later) and is_undecided(decision, is_confirmed_later=is_confirmed_later)
    return later[0] if open_still else None


def is_undecided(decision: GateDecision, *, is_confirmed_later: bool = False) -> bool:
    """Tell whether more trials may settle a decision: only a drop that is not ruled out is left open.

    What failed has failed: trials that are run until it passes would lift every rate.

    Args:
        decision: On the run as it is.
        is_confirmed_later: Whether cases that newly fail are run again by both agents after the last look.
            Then limits on their number are decided there, and do not end the looks: a run that ends at the
            first flip could rule nothing out once that flip is cleared.
    """
    evidence = decision.evidence
    if evidence is None or not evidence.compared:
        return False
    if decision.gate_status is GateStatus.FAILED:
        if not (is_confirmed_later and _fails_by_single_cases(decision)):
            return False
    elif decision.gate_status is not GateStatus.INCONCLUSIVE:
        return False
    return {step.name for step in decision.steps if step.status == "inconclusive"} == {"non-inferiority"}


def _fails_by_single_cases(decision: GateDecision) -> bool:
    """Tell whether a decision fails by limits on the number of regressed cases alone."""
    failed = {step.name for step in decision.steps if step.status == "failed"}
    broken = {rule.rule for rule in decision.rules if rule.applied and not rule.passed}
    return failed == {"thresholds"} and broken <= SINGLE_CASES


def _range(fewest: int, most: int) -> str:
    return f"{fewest}" if fewest == most else f"{fewest} to {most}"
