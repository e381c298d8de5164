"""What fresh trials of both sides say of the cases that newly fail. Pure functions; `ci` runs the trials.

The first failure chose the case and is never counted again; only fresh trials decide. A case is confirmed by
a one-sided exact Fisher test on them, with Holm's correction over the cases unless the history of the base
branch admits each of them. Trials end early only where the
test can no longer reach its level, which adds no false alarm.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from itertools import product
from math import comb
from typing import NamedTuple

from agent_eval.contracts import Comparison
from agent_eval.contracts.base import instant
from agent_eval.contracts.confirmation import Confirmation, FreshTrials, SuspectResult, SuspectVerdict
from agent_eval.contracts.history import tier_of
from agent_eval.contracts.policy import GatePolicy
from agent_eval.contracts.registry import Waiver
from agent_eval.errors import InvalidInput
from agent_eval.gate.statistics import fisher, holm_discrete
from agent_eval.gate.tiers import excuses_by
from agent_eval.gate.waivers import Excuses
from agent_eval.gate.zero_tolerance import Repeat, failing_once, new_failures, repeat_of
from agent_eval.text.numbers import count

FEW = 3
"""Suspects up to which no correction is needed where each is admitted. Where both agents lose ten points, in
suites of 10 to 300 cases, chance then confirms a case in at most 2% of runs (benchmarks/gate_tables.py)."""

_FAILS_IN_WORKTREE = (
    "It fails in the merge base's worktree as well, but passed {} of {} on the base branch: is something "
    "missing there that an earlier step makes, or did the model move?"
)


class Tally(NamedTuple):
    """Fresh trials of one case: how many passed, of how many, by side.

    Example:
        >>> Tally(0, 6, 6, 6).p_value < 0.0011
        True
    """

    candidate_passed: int
    candidate_trials: int
    base_passed: int
    base_trials: int

    @property
    def p_value(self) -> float:
        """The one-sided exact p value that the candidate passes less often than the base."""
        return fisher(*self)


def is_out_of_reach(tally: Tally, pairs: int, alpha: float) -> bool:
    """Tell whether the trials that are left cannot bring the p value down to `alpha`.

    The best that can happen is that the candidate fails them all and the base passes them all.

    Example:
        >>> is_out_of_reach(Tally(3, 3, 3, 3), pairs=6, alpha=0.05)
        True
    """
    base_left = pairs - tally.base_trials
    return fisher(tally.candidate_passed, pairs, tally.base_passed + base_left, pairs) > alpha


def is_settled(trials: FreshTrials, pairs: int, alpha: float) -> bool:
    """Tell whether a case needs no further trial: one was lost, all are done, or alpha is out of reach."""
    if "lost" in (*trials.candidate, *trials.base):
        return True
    tally = tally_of(trials)
    done = tally.candidate_trials >= pairs and tally.base_trials >= pairs
    return done or is_out_of_reach(tally, pairs, alpha)


def tally_of(trials: FreshTrials) -> Tally:
    """Count the fresh trials of a case; lost ones count on neither side."""
    candidate, base = (
        [result for result in side if result != "lost"] for side in (trials.candidate, trials.base)
    )
    return Tally(candidate.count("passed"), len(candidate), base.count("passed"), len(base))


class Suspects(NamedTuple):
    """The cases that a confirmation runs again.

    Example:
        >>> Suspects(["a", "b"], frozenset({"a"})).case_ids
        ['a', 'b']

    Attributes:
        case_ids: In the order in which they are run: first what a zero-tolerance judge newly fails.
        every_pair: Those that run all pairs, however the first end: a zero-tolerance judge newly fails them,
            and only complete trials clear that.
        are_moot: Whether a zero-tolerance judge blocks at once, so that no trial can help.
    """

    case_ids: list[str]
    every_pair: frozenset[str] = frozenset()
    are_moot: bool = False


def suspects(comparison: Comparison, excuses: Excuses, policy: GatePolicy) -> Suspects:
    """List the cases that passed and now do not, and those that a zero-tolerance judge is to fail again.

    Waived and quarantined cases do not count anyway, and what blocks at once is not run again. Cases that the
    policy tracks or expects to fail do not block by themselves, but a zero-tolerance judge blocks in any.
    """
    failures = new_failures(comparison, excuses, policy)
    to_repeat = failures.cases_to_repeat.keys() - failures.cases_that_block
    return Suspects(
        [
            *sorted(to_repeat),
            *(name for name in regressed_cases(comparison, excuses, policy) if name not in to_repeat),
        ],
        frozenset(to_repeat),
        are_moot=bool(failures.at_once),
    )


def regressed_cases(comparison: Comparison, excuses: Excuses, policy: GatePolicy) -> list[str]:
    """List the cases that passed and now do not, by id, without what blocks at once."""
    blocked = new_failures(comparison, excuses, policy).cases_that_block
    return sorted(
        row.case_id
        for row in comparison.case_regressions
        if row.regressed
        and row.baseline_passed
        and not row.candidate_passed
        and row.case_id not in excuses.uncounted
        and row.case_id not in blocked
    )


def suspects_of(
    comparison: Comparison, policy: GatePolicy, waivers: Sequence[Waiver], *, generated_at: str
) -> Suspects:
    """List the cases that a confirmation runs again, as of a decision's time.

    Args:
        comparison: The candidate's first run, compared with the baseline.
        policy: Its quarantine, tiers and zero-tolerance judges count.
        waivers: Waivers of the baseline.
        generated_at: The time of the decision: ISO 8601 with its offset.
    """
    excuses = excuses_by(comparison, policy, waivers, now=instant(generated_at))
    return suspects(comparison, excuses, policy)


class Confirmed(NamedTuple):
    """The record of a confirmation, and the digest of its file.

    Example:
        >>> Confirmed(Confirmation(pairs=6, max_cases=8)).sha256 is None
        True
    """

    record: Confirmation
    sha256: str | None = None


def suspect_results(
    comparison: Comparison, policy: GatePolicy, excuses: Excuses, confirmation: Confirmed | None
) -> list[SuspectResult]:
    """Judge the suspects of a comparison by a record, which must be about the packs that were compared.

    Raises:
        InvalidInput: The record is about other packs, or contradicts itself.
    """
    if confirmation is None:
        return []
    record = confirmation.record
    about = (record.baseline_manifest_sha256, record.candidate_manifest_sha256)
    if about != (comparison.baseline.manifest_sha256, comparison.candidate.manifest_sha256):
        raise InvalidInput(
            "the confirmation is about other packs than the comparison",
            remedy="Give the confirmation of the same run.",
            field="confirmation",
        )
    results = judge_suspects(regressed_cases(comparison, excuses, policy), record, policy.alpha)
    failing = failing_once(record, excuses, policy)
    to_repeat = new_failures(comparison, excuses, policy).cases_to_repeat
    repeats = {
        case_id: [repeat_of(case_id, judge_id, record, policy.alpha) for judge_id in judges]
        for case_id, judges in to_repeat.items()
    }
    known = {result.case_id for result in results}
    results += [_by_repeats(case_id, repeats[case_id], record) for case_id in repeats if case_id not in known]
    return [_with_zero_tolerance(result, repeats, failing) for result in results]


def _by_repeats(case_id: str, repeats: Sequence[Repeat], record: Confirmation) -> SuspectResult:
    """Build the result of a case that counts for its zero-tolerance judges alone, as a new case does."""
    trials = next((row for row in record.cases if row.case_id == case_id), FreshTrials(case_id=case_id))
    tally = tally_of(trials)
    decides = next((repeat for repeat in repeats if repeat.verdict == "not-yours"), repeats[0])
    return SuspectResult(
        case_id=case_id,
        verdict="inconclusive" if decides.verdict == "repeated" else decides.verdict,
        candidate_passed=tally.candidate_passed,
        candidate_trials=tally.candidate_trials,
        base_passed=tally.base_passed,
        base_trials=tally.base_trials,
        base_cached=len(trials.cached.packs) if trials.cached is not None else 0,
        reason=decides.reason,
    )


def _with_zero_tolerance(
    result: SuspectResult, repeats: Mapping[str, Sequence[Repeat]], failing: Mapping[str, str]
) -> SuspectResult:
    """Copy a result that a zero-tolerance judge does not let be cleared."""
    if result.verdict == "confirmed":
        return result
    repeated = [repeat.reason for repeat in repeats.get(result.case_id, ()) if repeat.blocks]
    if not repeated and result.case_id in failing:
        judge_id = failing[result.case_id]
        repeated = [f"{judge_id}, which has zero tolerance, newly fails in a fresh trial."]
    return (
        result.model_copy(update={"verdict": "inconclusive", "reason": repeated[0]}) if repeated else result
    )


def judge_suspects(
    case_ids: Sequence[str], confirmation: Confirmation, alpha: float, *, corrected: bool | None = None
) -> list[SuspectResult]:
    """Decide on every suspect by its fresh trials.

    Args:
        case_ids: The suspects; one that was not run again is inconclusive.
        confirmation: The record of the trials.
        alpha: The chance of confirming a case of an unchanged agent, over all cases together.
        corrected: Whether Holm's correction is applied. None: it is, unless the record says that the history
            of the base branch admits each case (`needs_no_correction`).

    Raises:
        InvalidInput: The record contradicts itself.
    """
    by_id = _checked(confirmation)
    if confirmation.agent_unchanged:
        return [_unchanged(case_id) for case_id in case_ids]
    run = [by_id[case_id] for case_id in case_ids if case_id in by_id]
    p_values = [_final_p_value(trials, confirmation.pairs) for trials in run]
    best = fisher(0, confirmation.pairs, confirmation.pairs, confirmation.pairs)
    rejected = [p_value <= alpha for p_value in p_values]
    if corrected is None:
        corrected = not needs_no_correction(run, len(case_ids), confirmation.pairs, alpha)
    if corrected:
        rejected = holm_discrete(p_values, [best] * len(run), alpha)
    confirmed = {trials.case_id for trials, is_confirmed in zip(run, rejected, strict=True) if is_confirmed}
    return [
        _judged(case_id, by_id.get(case_id), confirmation, alpha, is_confirmed=case_id in confirmed)
        for case_id in case_ids
    ]


def needs_no_correction(run: Sequence[FreshTrials], suspects: int, pairs: int, alpha: float) -> bool:
    """Tell whether cases may be confirmed one by one: few of them, each admitted as blocking by its history.

    Such a case passed in at least 18 of 20 trials. At a rate of 0.8 or more chance confirms so few of them
    that even all together stay within `alpha`: with six pairs three cases at 0.05, each below 0.0051. That
    they pass as often today is not known: where both agents got worse, because a model moved, more of them
    fail. So more than `FEW` suspects are corrected. A correction only lets more pass, so a record that claims
    too good a history confirms too much, never less.

    Args:
        run: The fresh trials of the cases that were run again.
        suspects: How many cases newly fail, those beyond the cap among them.
        pairs: Trials of either side of each case.
        alpha: The chance of confirming a case of an unchanged agent, over all cases together.
    """
    admitted = all(tier_of(trials.history_passed, trials.history_scored) == "blocking" for trials in run)
    return admitted and suspects <= FEW and len(run) * chance_of_an_admitted_case(pairs, alpha) <= alpha


@cache
def chance_of_an_admitted_case(pairs: int, alpha: float) -> float:
    """Compute the largest chance to confirm a case that both agents pass alike, at any rate from 0.8 on.

    Example:
        >>> round(chance_of_an_admitted_case(6, 0.05), 4)
        0.0051
    """
    pairs_of_counts = list(product(range(pairs + 1), repeat=2))
    confirming = [counts for counts in pairs_of_counts if fisher(counts[0], pairs, counts[1], pairs) <= alpha]
    ways = [(comb(pairs, now) * comb(pairs, before), now + before) for now, before in confirming]
    rates = [step / 100 for step in range(80, 101)]
    return max(
        sum(many * rate**passes * (1 - rate) ** (2 * pairs - passes) for many, passes in ways)
        for rate in rates
    )


def _checked(confirmation: Confirmation) -> dict[str, FreshTrials]:
    by_id = {trials.case_id: trials for trials in confirmation.cases}
    most = max((max(len(row.candidate), len(row.base)) for row in confirmation.cases), default=0)
    if (
        len(by_id) != len(confirmation.cases)
        or most > confirmation.pairs
        or len(by_id) > confirmation.max_cases
        or not all(_is_consistent(row) for row in confirmation.cases)
    ):
        raise InvalidInput(
            "the confirmation contradicts itself: a case comes twice, has more trials than were to be run, "
            "or failing judges of other trials",
            remedy="Run the job again; a confirmation is never edited by hand.",
            field="cases",
        )
    return by_id


def _is_consistent(trials: FreshTrials) -> bool:
    """Tell whether judges are recorded for every trial, or for none, as before they were.

    No history has more trials that passed than were scored.
    """
    if trials.history_passed > trials.history_scored:
        return False
    return all(
        len(judges) in (0, len(results))
        for results, of_trials in (
            (trials.candidate, (trials.candidate_failing, trials.candidate_unjudged)),
            (trials.base, (trials.base_failing, trials.base_unjudged)),
        )
        for judges in of_trials
    )


def _final_p_value(trials: FreshTrials, pairs: int) -> float:
    """Return the p value of a case whose trials are complete; 1 for any other, which cannot be confirmed."""
    tally = tally_of(trials)
    complete = min(tally.candidate_trials, tally.base_trials) == pairs
    return tally.p_value if complete else 1.0


def _unchanged(case_id: str) -> SuspectResult:
    return SuspectResult(
        case_id=case_id, verdict="cleared", reason="The agent is unchanged since the merge base."
    )


def _judged(
    case_id: str, trials: FreshTrials | None, confirmation: Confirmation, alpha: float, *, is_confirmed: bool
) -> SuspectResult:
    if confirmation.problem or trials is None:
        most = f"at most {count(confirmation.max_cases, 'case')} may be (`max-confirm-cases`)"
        reason = confirmation.problem or confirmation.stopped or f"Not run again: {most}."
        return SuspectResult(case_id=case_id, verdict="inconclusive", reason=reason)
    tally = tally_of(trials)
    verdict, reason = _verdict(trials, tally, confirmation, alpha, is_confirmed=is_confirmed)
    return SuspectResult(
        case_id=case_id,
        tier=tier_of(trials.history_passed, trials.history_scored),
        history_passed=trials.history_passed,
        history_scored=trials.history_scored,
        verdict=verdict,
        candidate_passed=tally.candidate_passed,
        candidate_trials=tally.candidate_trials,
        base_passed=tally.base_passed,
        base_trials=tally.base_trials,
        base_cached=len(trials.cached.packs) if trials.cached is not None else 0,
        p_value=tally.p_value if tally.candidate_trials and tally.base_trials else None,
        reason=reason,
    )


def _verdict(
    trials: FreshTrials, tally: Tally, confirmation: Confirmation, alpha: float, *, is_confirmed: bool
) -> tuple[SuspectVerdict, str]:
    pairs = confirmation.pairs
    if is_confirmed:
        return "confirmed", "It fails again, and passes on the merge base."
    if "lost" in (*trials.candidate, *trials.base):
        return "inconclusive", f"A trial was lost: {trials.why_lost or 'it could not be judged'}."
    if not is_settled(trials, pairs, alpha):
        return "inconclusive", confirmation.stopped or "The trials were cut short."
    if not is_out_of_reach(tally, pairs, alpha):
        return "inconclusive", "It fails again, but among so many cases that could be chance."
    if confirmation.doubt_of_base and tally.candidate_passed < tally.candidate_trials:
        return "inconclusive", confirmation.doubt_of_base
    if tally.candidate_passed:
        return "cleared", _why_cleared(tally)
    if tally.base_passed:
        return "inconclusive", "It never passed again, and the merge base passes too seldom to tell."
    if not (tally.candidate_trials and tally.base_trials):
        return "inconclusive", "So few trials can tell nothing (`confirm-pairs`)."
    if trials.changed:
        return (
            "inconclusive",
            "It fails on the merge base as well, but the change alters the case or its judges.",
        )
    if not _fails_alike(trials):
        return "inconclusive", "It fails on the merge base as well, but by other judges."
    if tier_of(trials.history_passed, trials.history_scored) == "blocking":
        # Either the worktree is no place for the agent, or both sides got worse: nothing here tells which.
        return "inconclusive", _FAILS_IN_WORKTREE.format(trials.history_passed, trials.history_scored)
    return "not-yours", "It fails on the merge base as well."


def _why_cleared(tally: Tally) -> str:
    """Say why a case that passes again is cleared, without calling flaky what fails on the change alone."""
    failed = tally.candidate_trials - tally.candidate_passed
    if not failed:
        return "The failure did not repeat: the case is flaky."
    if tally.base_passed < tally.base_trials:
        return "It fails now and then on both sides: the case is flaky."
    again = f"{failed} of {count(tally.candidate_trials, 'trial')}"
    return (
        f"It failed again in {again}, and never on the merge base: "
        "so few trials cannot tell that from chance. More pairs (`confirm-pairs`) could."
    )


def _fails_alike(trials: FreshTrials) -> bool:
    """Tell whether the judges of every failure are known, and the merge base fails by all that now do.

    A judge that cannot tell now, or a crash, is known to be the merge base's too only where it is recorded.
    """
    are_known = len(trials.candidate_failing) == len(trials.candidate) and all(trials.candidate_failing)
    failing, before = set().union(*trials.candidate_failing), set().union(*trials.base_failing)
    unjudged = set().union(*trials.candidate_unjudged)
    return are_known and failing <= before and unjudged <= before.union(*trials.base_unjudged)
