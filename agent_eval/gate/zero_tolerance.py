"""Judges without tolerance: what they newly fail blocks at once, if it repeats, or above a ceiling.

At once is the rule. A policy may ask that the failure of a judge repeats in fresh trials, which clear it only
where all of them were run, or may set a ceiling. A release blocks at once.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

from agent_eval.comparison.facts import FAILURES
from agent_eval.comparison.failures_apart import failed_before
from agent_eval.contracts import Comparison, GateStep
from agent_eval.contracts.confirmation import Confirmation, FreshTrials
from agent_eval.contracts.policy import GatePolicy
from agent_eval.contracts.verdict import EXECUTION, REPLAY_CONTRACT
from agent_eval.gate.statistics import fisher
from agent_eval.gate.steps import case_list
from agent_eval.gate.waivers import Excuses
from agent_eval.text.numbers import count

FEWEST_PAIRS = 3
"""With fewer pairs no result reaches p = 0.05: one in C(2n, n) is the best of them."""

_NOT_RUN = "was not run again"
_NOT_JUDGED = "was not judged to its end in every fresh trial"


@dataclass(frozen=True)
class NewFailures:
    """What zero-tolerance judges newly fail, as cases by judge, by what follows from it.

    Example:
        >>> NewFailures(at_once={"prompt_injection": ["a"]}).cases_that_block
        frozenset({'a'})

    Args:
        at_once: Blocks: the judge has neither of the other two terms, or is above its ceiling.
        to_repeat: Blocks unless fresh trials clear it.
        tolerated: Within the ceiling of the judge.
        allowed: How many cases a judge with a ceiling may newly fail, and of how many.
    """

    at_once: Mapping[str, Sequence[str]] = field(default_factory=dict)
    to_repeat: Mapping[str, Sequence[str]] = field(default_factory=dict)
    tolerated: Mapping[str, Sequence[str]] = field(default_factory=dict)
    allowed: Mapping[str, tuple[int, int]] = field(default_factory=dict)

    @property
    def cases_that_block(self) -> frozenset[str]:
        """Ids of the cases that block at once: running them again cannot help."""
        return frozenset().union(*self.at_once.values())

    @property
    def cases_to_repeat(self) -> dict[str, list[str]]:
        """The judges whose failure must repeat, by case."""
        by_case: dict[str, list[str]] = {}
        for judge_id, case_ids in sorted(self.to_repeat.items()):
            for case_id in case_ids:
                by_case.setdefault(case_id, []).append(judge_id)
        return by_case


class Repeat(NamedTuple):
    """Whether fresh trials clear a new failure of a zero-tolerance judge, and why, as a sentence.

    `repeated`: it does not pass. `cleared`: the judge fails in no fresh trial. `not-yours`: it fails on the
    merge base as well.

    Example:
        >>> Repeat("cleared", "tool_abuse fails in none of 6 fresh trials.").blocks
        False
    """

    verdict: Literal["repeated", "cleared", "not-yours"]
    reason: str

    @property
    def blocks(self) -> bool:
        """Whether the failure counts."""
        return self.verdict == "repeated"


def new_failures(
    comparison: Comparison,
    excuses: Excuses,
    policy: GatePolicy,
    fresh: Mapping[str, Sequence[str]] | None = None,
) -> NewFailures:
    """Collect what zero-tolerance judges newly fail; quarantine excuses none of it, only a waiver of it.

    Args:
        comparison: The candidate's first run, compared with the baseline.
        excuses: The waivers that hold.
        policy: Names the judges and their terms.
        fresh: Cases that such a judge newly fails in fresh trials, by judge; they count towards a ceiling.
    """
    at_once: dict[str, list[str]] = {}
    to_repeat: dict[str, list[str]] = {}
    tolerated: dict[str, list[str]] = {}
    allowed: dict[str, tuple[int, int]] = {}
    fresh_failing: dict[str, list[str]] = {name: [] for name in fresh or {} if name in policy.ceilings}
    failing_now = {**fresh_failing, **_failing_by_judge(comparison, excuses, policy)}
    for judge_id, case_ids in failing_now.items():
        ceiling = policy.ceilings.get(judge_id)
        if judge_id in policy.repeated:
            to_repeat[judge_id] = case_ids
        elif ceiling is None:
            at_once[judge_id] = case_ids
        else:
            judged = _judged_by(comparison, judge_id)
            allowed[judge_id] = most_allowed(ceiling, judged), judged
            failing = set(case_ids).union((fresh or {}).get(judge_id, ()))
            (at_once if len(failing) > allowed[judge_id][0] else tolerated)[judge_id] = sorted(failing)
    return NewFailures(at_once, to_repeat, tolerated, allowed)


def most_allowed(ceiling: float, judged: int) -> int:
    """Compute how many cases a judge with a ceiling may newly fail, of so many that it judged.

    Example:
        >>> most_allowed(0.29, 100), most_allowed(0.05, 19)
        (29, 0)
    """
    # In floats 0.29 * 100 is a hair below 29.
    return int(ceiling * judged + 1e-9)


def _judged_by(comparison: Comparison, judge_id: str) -> int:
    """Count the cases that a judge judged, in the run with fewer: a change gains nothing by adding cases."""
    runs = (comparison.baseline.summary, comparison.candidate.summary)
    by_run = [run.judge_counts.get(judge_id) for run in runs]
    return min(counts.judged if counts is not None else 0 for counts in by_run)


def zero_tolerance(
    comparison: Comparison,
    excuses: Excuses,
    policy: GatePolicy,
    record: Confirmation | None = None,
) -> GateStep:
    """Fail on a new failure of a safety judge, by the terms that the policy has for it.

    Args:
        comparison: The candidate's first run, compared with the baseline.
        excuses: The waivers that hold.
        policy: Names the judges and their terms.
        record: Fresh trials of both sides; None where none were made, and then they clear nothing.
    """
    judges = sorted(set(policy.zero_tolerance))
    if not judges:
        return GateStep(name="zero-tolerance", status="not-applied", message="No judge has zero tolerance.")
    fresh = fresh_failures(record, excuses, policy) if record is not None else {}
    failures = new_failures(comparison, excuses, policy, fresh)
    clauses = [_at_once(judge_id, failures) for judge_id in sorted(failures.at_once)]
    clauses += [
        f"{judge_id} newly fails {case_list(fresh[judge_id])} in fresh trials"
        for judge_id in sorted(fresh)
        if judge_id not in policy.ceilings
    ]
    cleared: list[str] = []
    for judge_id, case_ids in sorted(failures.to_repeat.items()):
        blocking = [
            case_id for case_id in case_ids if repeat_of(case_id, judge_id, record, policy.alpha).blocks
        ]
        if blocking:
            clauses.append(f"{judge_id} newly fails {case_list(blocking)}, which no fresh trials clear")
        cleared += [case_id for case_id in case_ids if case_id not in blocking]
    if clauses:
        return GateStep(name="zero-tolerance", status="failed", message=f"{'; '.join(clauses)}.")
    message = f"No new failure of {', '.join(judges)}"
    if cleared or failures.tolerated:
        message = "; ".join(
            [f"fresh trials clear {case_list(cleared)}"] * bool(cleared)
            + [_tolerated(judge_id, failures) for judge_id in sorted(failures.tolerated)]
        )
    return GateStep(name="zero-tolerance", status="passed", message=f"{message[:1].upper()}{message[1:]}.")


def _at_once(judge_id: str, failures: NewFailures) -> str:
    clause = f"{judge_id} newly fails {case_list(failures.at_once[judge_id])}"
    if judge_id in failures.allowed:
        most, judged = failures.allowed[judge_id]
        clause += f", above its ceiling of {most:,} of {judged:,}"
    return clause


def _tolerated(judge_id: str, failures: NewFailures) -> str:
    most, judged = failures.allowed[judge_id]
    cases = case_list(failures.tolerated[judge_id])
    return f"{judge_id} newly fails {cases}, within its ceiling of {most:,} of {judged:,}"


def fresh_failures(record: Confirmation, excuses: Excuses, policy: GatePolicy) -> dict[str, list[str]]:
    """Collect what zero-tolerance judges fail in fresh trials of the candidate and in none of the base.

    One trial is enough, and two are needed of a judge whose failure must repeat: the first is no repetition.
    A problem of the record voids what could excuse a failure, never the failure: the candidate's agent may
    have brought the problem about.

    Returns:
        The cases by judge, without what a waiver of exactly that excuses.
    """
    failing: dict[str, list[str]] = {}
    for trials in record.cases:
        for judge_id in sorted(_only_in_candidate(trials, record).intersection(policy.zero_tolerance)):
            often = sum(judge_id in judges for judges in trials.candidate_failing)
            fewest = 2 if judge_id in policy.repeated else 1
            if often >= fewest and (trials.case_id, judge_id) not in excuses.explicitly:
                failing.setdefault(judge_id, []).append(trials.case_id)
    return failing


def failing_once(record: Confirmation, excuses: Excuses, policy: GatePolicy) -> dict[str, str]:
    """Collect the cases that a zero-tolerance judge fails in any fresh trial of the candidate alone.

    Returns:
        The judge by case. Such a case is not cleared.
    """
    failing: dict[str, str] = {}
    for trials in record.cases:
        for judge_id in sorted(_only_in_candidate(trials, record).intersection(policy.zero_tolerance)):
            if (trials.case_id, judge_id) not in excuses.explicitly:
                failing[trials.case_id] = judge_id
    return failing


def _only_in_candidate(trials: FreshTrials, record: Confirmation) -> set[str]:
    is_in_doubt = record.doubt_of_base or record.problem
    before = set() if is_in_doubt else set().union(*trials.base_failing)
    return set().union(*trials.candidate_failing) - before


def repeat_of(case_id: str, judge_id: str, record: Confirmation | None, alpha: float) -> Repeat:
    """Decide by fresh trials whether a new failure of a zero-tolerance judge counts.

    It does unless fresh trials of both sides are complete and clear it: the judge could tell in each of the
    candidate's, and fails in none of them, or on the merge base as well and not significantly more often now
    (`fisher`).

    Args:
        case_id: The case.
        judge_id: The judge, which newly fails it in the candidate's first run.
        record: The fresh trials; None where none were made.
        alpha: The level of the test.
    """
    if record is None or record.problem:
        return _counts(judge_id, _NOT_RUN, record.problem if record is not None else "")
    if record.agent_unchanged:
        return Repeat("cleared", "The agent is unchanged since the merge base.")
    trials = next((row for row in record.cases if row.case_id == case_id), None)
    if trials is None:
        return _counts(judge_id, _NOT_RUN, record.stopped)
    if not _is_complete(trials, record.pairs):
        return _counts(judge_id, "has too few fresh trials", trials.why_lost or record.stopped)
    if not _could_tell(trials, judge_id):
        return _counts(judge_id, _NOT_JUDGED, "")
    now, before = (
        sum(judge_id in judges for judges in side) for side in (trials.candidate_failing, trials.base_failing)
    )
    pairs = record.pairs
    if not now:
        return Repeat("cleared", f"{judge_id} fails in none of {count(pairs, 'fresh trial')}.")
    again = f"{judge_id}, which has zero tolerance, newly fails in {now} of {count(pairs, 'fresh trial')}"
    if not before:
        return Repeat("repeated", f"{again} and in none on the merge base.")
    if record.doubt_of_base:
        return Repeat("repeated", f"{again}. {record.doubt_of_base}")
    if trials.changed:
        return Repeat(
            "repeated", f"{again}; on the merge base as well, but the change alters the case or its judges."
        )
    if fisher(pairs - now, pairs, pairs - before, pairs) <= alpha:
        return Repeat("repeated", f"{again}, and in {before} on the merge base.")
    return Repeat("not-yours", f"{judge_id} fails on the merge base as well, in {before} of {pairs} trials.")


def _counts(judge_id: str, why: str, detail: str) -> Repeat:
    more = f": {detail.rstrip('.')}" if detail else ""
    return Repeat("repeated", f"What {judge_id}, which has zero tolerance, newly fails {why}{more}.")


def _is_complete(trials: FreshTrials, pairs: int) -> bool:
    """Tell whether both sides have every trial, none of them lost, with the judges that failed in each."""
    sides = (
        (trials.candidate, trials.candidate_failing),
        (trials.base, trials.base_failing),
    )
    return pairs >= FEWEST_PAIRS and all(
        len(results) == pairs == len(failing) and "lost" not in results for results, failing in sides
    )


def _could_tell(trials: FreshTrials, judge_id: str) -> bool:
    """Tell whether a judge judged every trial of the candidate to its end; a crash leaves the rest unseen.

    A record of an older version does not show it. On the merge base a trial without a failure excuses none.
    """
    needed = {judge_id, EXECUTION, REPLAY_CONTRACT}
    are_known = len(trials.candidate_unjudged) == len(trials.candidate)
    return are_known and all(needed.isdisjoint(judges) for judges in trials.candidate_unjudged)


def _failing_by_judge(comparison: Comparison, excuses: Excuses, policy: GatePolicy) -> dict[str, list[str]]:
    judges = set(policy.zero_tolerance)
    failing: dict[str, list[str]] = {}
    for case_id, judge_id in dict.fromkeys(_new_failures(comparison)):
        if judge_id in judges and (case_id, judge_id) not in excuses.explicitly:
            failing.setdefault(judge_id, []).append(case_id)
    return failing


def _new_failures(comparison: Comparison) -> Iterator[tuple[str, str]]:
    """Yield case and judge of every verdict that fails now and did not before, with several trials in any.

    What could not be judged before and fails now is new. A pair may come twice.
    """
    if comparison.trials is not None:
        for trial in comparison.trials.changes:
            if trial.judge_id is not None and trial.candidate.failed and not trial.baseline.failed:
                yield trial.case_id, trial.judge_id
    for row in comparison.case_regressions:
        for change in row.judges:
            if change.candidate in FAILURES and not failed_before(change.baseline, change.candidate):
                yield row.case_id, change.judge_id
    # Also in cases that are new, changed or in quarantine, and in lost trials.
    for judge_id, case_ids in comparison.failures_apart.items():
        for case_id in case_ids:
            yield case_id, judge_id
