"""Statistics of the cases that changed and of each judge: by discordant pairs, or by pass rates of trials."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import fsum, isfinite, sqrt

from agent_eval.contracts import (
    ComparedTopic,
    Comparison,
    JudgeEvidence,
    Outcome,
    TopicEvidence,
    TrialChange,
    TrialComparison,
)
from agent_eval.contracts.gate import Method
from agent_eval.contracts.policy import GatePolicy
from agent_eval.gate.permutation import PermutationTest, TrialPair, permutation_test
from agent_eval.gate.power import (
    mean_cases_needed,
    mean_non_inferiority_cases,
    mean_power,
    non_inferiority_cases,
    paired_cases_needed,
    paired_power,
)
from agent_eval.gate.statistics import (
    Interval,
    clustered_interval,
    e_value,
    holm_discrete,
    mcnemar,
    tango_interval,
)
from agent_eval.gate.topics import TopicTest, clusters_by_topic, topic_tests, wider
from agent_eval.gate.waivers import Excuses

CASES = "cases"
"""Key of the case results among the judges."""
NOTABLE_DROP = 0.10
"""The drop of the pass rate for which power is reported."""


def judge_key(judge_id: str) -> str:
    """Return the key of a judge among all tested: its id, unless it is called like the case results."""
    return judge_id if judge_id != CASES else f"judge {CASES}"


@dataclass(frozen=True)
class Discordant:
    """Ids of cases that passed before and do not now, and the reverse.

    Example:
        >>> Discordant(regressed=frozenset({"refund"}), fixed=frozenset()).regressed
        frozenset({'refund'})
    """

    regressed: frozenset[str]
    fixed: frozenset[str]


def discordant_pairs(comparison: Comparison, excuses: Excuses) -> dict[str, Discordant]:
    """Collect the discordant pairs of the case results, under `CASES`, and of each judge that has any.

    Waived regressions count as unchanged, and quarantined cases do not count. A pair needs both verdicts: a
    judge that skipped the case in one run is left out.
    """
    sides: dict[str, tuple[set[str], set[str]]] = {CASES: (set(), set())}
    for row in comparison.case_regressions:
        if row.case_id in excuses.quarantine:
            continue
        if row.baseline_passed != row.candidate_passed and row.case_id not in excuses.waived:
            sides[CASES][row.candidate_passed].add(row.case_id)
        for change in row.judges:
            before, now = change.baseline, change.candidate
            if None in (before, now) or Outcome.SKIPPED in (before, now):
                continue
            passed_now = now is Outcome.PASSED
            if (before is Outcome.PASSED) != passed_now:
                if (row.case_id, change.judge_id) in excuses.judge_changes:
                    continue
                key = judge_key(change.judge_id)
                sides.setdefault(key, (set(), set()))[passed_now].add(row.case_id)
    return {name: Discordant(frozenset(down), frozenset(up)) for name, (down, up) in sides.items()}


@dataclass(frozen=True, kw_only=True)
class Statistics:
    """Statistics of the cases that changed; the fields mean the same as in `GateEvidence`.

    Example: of 20 cases 3 regressed and 1 was fixed: `total=20`, `regressed=3`, `fixed=1`, `drop=0.1`.
    """

    method: Method
    total: int
    regressed: int
    fixed: int
    drop: float
    interval: Interval
    p_value: float
    e_value: float | None
    power_for_ten_points: float
    cases_needed: int | None
    judges: list[JudgeEvidence]
    topics: list[TopicEvidence]
    topic_clusters: int | None


def paired_statistics(comparison: Comparison, excuses: Excuses, policy: GatePolicy) -> Statistics:
    """Compute the statistics of a comparison in which each case has one trial in either run."""
    pairs = discordant_pairs(comparison, excuses)
    regressed, fixed = len(pairs[CASES].regressed), len(pairs[CASES].fixed)
    changed_apart = sum(row.case_id in excuses.quarantine for row in comparison.case_regressions)
    total = comparison.cases.compared - changed_apart
    evidence = e_value(regressed, fixed)
    share = (regressed + fixed) / total if total else 0.0
    interval, p_value = tango_interval(regressed, fixed, total, policy.confidence), mcnemar(regressed, fixed)
    changed = _single_trials(pairs[CASES])
    clusters = clusters_by_topic(comparison.topics, changed, total)
    if clusters is not None:
        interval = wider(interval, clusters.interval(policy.confidence))
        p_value = max(p_value, clusters.p_value)
    judges, topics = _tested(
        _judge_tests(pairs, p_value), topic_tests(comparison.topics, changed), policy.alpha
    )
    return Statistics(
        method="mcnemar-tango",
        total=total,
        regressed=regressed,
        fixed=fixed,
        drop=(regressed - fixed) / total if total else 0.0,
        interval=interval,
        p_value=p_value,
        e_value=evidence if isfinite(evidence) else None,
        power_for_ten_points=paired_power(NOTABLE_DROP, share, total, policy.alpha) if total else 0.0,
        cases_needed=_cases_needed(regressed, fixed, total, policy),
        judges=judges,
        topics=topics,
        topic_clusters=None if clusters is None else len(clusters.sizes),
    )


def _single_trials(pairs: Discordant) -> dict[str, TrialPair]:
    regressed = {case_id: TrialPair(1, 1, 0, 1) for case_id in sorted(pairs.regressed)}
    return regressed | {case_id: TrialPair(0, 1, 1, 1) for case_id in sorted(pairs.fixed)}


@dataclass(frozen=True)
class _Test:
    """One hypothesis: that the cases, or the verdicts of a judge, did not get worse."""

    name: str
    regressed: int
    fixed: int
    p_value: float
    attainable: float


def _judge_tests(pairs: Mapping[str, Discordant], p_value: float) -> list[_Test]:
    """Test one hypothesis for the cases, whose p value is known, and one for each judge, but none twice.

    A judge that alone decides the cases has the same pairs as the cases; testing both would only halve the
    power.
    """
    tested = {name: pair for name, pair in pairs.items() if name == CASES or pair != pairs[CASES]}
    tests = []
    for name in sorted(tested, key=lambda name: (name != CASES, name)):
        regressed, fixed = len(tested[name].regressed), len(tested[name].fixed)
        p = p_value if name == CASES else mcnemar(regressed, fixed)
        tests.append(_Test(name, regressed, fixed, p, 0.5 ** (regressed + fixed)))
    return tests


def _tested(
    judges: Sequence[_Test], topics: Sequence[TopicTest], alpha: float
) -> tuple[list[JudgeEvidence], list[TopicEvidence]]:
    """Correct all tests together: the cases, each judge and each topic are one family."""
    tests: list[_Test | TopicTest] = [*judges, *topics]
    significant = holm_discrete([test.p_value for test in tests], [test.attainable for test in tests], alpha)
    return (
        [
            JudgeEvidence(
                judge_id=test.name,
                regressed=test.regressed,
                fixed=test.fixed,
                p_value=test.p_value,
                significant=is_significant,
            )
            for test, is_significant in zip(judges, significant, strict=False)
        ],
        [
            TopicEvidence(
                topic=test.topic,
                compared=test.compared,
                regressed=test.regressed,
                fixed=test.fixed,
                p_value=test.p_value,
                significant=is_significant,
            )
            for test, is_significant in zip(topics, significant[len(judges) :], strict=True)
        ],
    )


def _cases_needed(regressed: int, fixed: int, total: int, policy: GatePolicy) -> int | None:
    """Estimate the number of cases that would settle an inconclusive decision; None when unknown.

    Where the observed drop is within the margin: to show that nothing changed, if nothing did. Where it is
    beyond: to show that it is real, if it is. Either with the policy's power.
    """
    if not total or not regressed + fixed:
        return None
    share = (regressed + fixed) / total
    drop = (regressed - fixed) / total
    if drop >= policy.effective_margin:
        needed = paired_cases_needed(drop, share, policy.alpha, policy.power)
    else:
        needed = non_inferiority_cases(policy.effective_margin, share, policy.confidence, policy.power)
    return max(needed, total + 1)


Moved = Mapping[str, Mapping[str, TrialPair]]
"""Trials of every change: by `CASES` or judge, then by case id."""


def moved_pairs(trials: TrialComparison, excuses: Excuses) -> Moved:
    """Collect the trials before and now of every case that changed, and of every judge's verdicts on it.

    A waived fall counts as unchanged, and quarantined cases do not count. A judge that skipped the case in
    one run is left out.
    """
    moved: dict[str, dict[str, TrialPair]] = {CASES: {}}
    for change in trials.changes:
        pair = _pair(change)
        if pair is None or change.case_id in excuses.quarantine:
            continue
        if pair.drop > 0 and is_waived(change, excuses):
            continue
        key = CASES if change.judge_id is None else judge_key(change.judge_id)
        moved.setdefault(key, {})[change.case_id] = pair
    return moved


def is_waived(change: TrialChange, excuses: Excuses) -> bool:
    """Tell whether a waiver covers that a case, or a judge's verdicts on it, pass less often."""
    if change.judge_id is None:
        return change.case_id in excuses.waived_rates
    return (change.case_id, change.judge_id) in excuses.judge_changes


def _pair(change: TrialChange) -> TrialPair | None:
    before, now = change.baseline, change.candidate
    if not before.judged or not now.judged:
        return None
    return TrialPair(before.passed, before.judged, now.passed, now.judged)


def trial_statistics(
    trials: TrialComparison,
    compared: int,
    excuses: Excuses,
    policy: GatePolicy,
    topics: Sequence[ComparedTopic] = (),
) -> Statistics:
    """Compute the statistics of a comparison with several trials, from the pass rates of `compared` cases."""
    moved = moved_pairs(trials, excuses)
    apart = {change.case_id for change in trials.changes if change.case_id in excuses.quarantine}
    total = compared - len(apart)
    pairs = list(moved[CASES].values())
    drops = [float(pair.drop) for pair in pairs if pair.drop]
    spread = sqrt((fsum(drop * drop for drop in drops) + 2) / (total + 2))
    interval = clustered_interval(drops, total, policy.confidence)
    test = permutation_test(pairs)
    clusters = clusters_by_topic(topics, moved[CASES], total)
    if clusters is not None:
        interval = wider(interval, clusters.interval(policy.confidence))
        test = PermutationTest(max(test.p_value, clusters.p_value), test.attainable)
    judges, tested = _tested(_trial_judge_tests(moved, test), topic_tests(topics, moved[CASES]), policy.alpha)
    return Statistics(
        method="sign-flip-clustered" if all(pair.equal for pair in pairs) else "relabel-clustered",
        total=total,
        regressed=sum(drop > 0 for drop in drops),
        fixed=sum(drop < 0 for drop in drops),
        drop=float(sum(pair.drop for pair in pairs) / total) if total else 0.0,
        interval=interval,
        p_value=test.p_value,
        e_value=None,
        power_for_ten_points=mean_power(NOTABLE_DROP, spread, total, policy.alpha) if total else 0.0,
        cases_needed=_cases_needed_with_trials(drops, total, policy),
        judges=judges,
        topics=tested,
        topic_clusters=None if clusters is None else len(clusters.sizes),
    )


def _trial_judge_tests(moved: Moved, of_cases: PermutationTest) -> list[_Test]:
    """Test one hypothesis for the cases and one for each judge, but none twice, as `_judge_tests` does."""
    tested = {
        name: pairs
        for name, pairs in moved.items()
        # With another number of trials every count differs; only a rate that moved is worth a test.
        if name == CASES or (pairs != moved[CASES] and any(pair.drop for pair in pairs.values()))
    }
    tests = []
    for name in sorted(tested, key=lambda name: (name != CASES, name)):
        drops = [pair.drop for pair in tested[name].values()]
        test = of_cases if name == CASES else permutation_test(list(tested[name].values()))
        lower, higher = sum(drop > 0 for drop in drops), sum(drop < 0 for drop in drops)
        tests.append(_Test(name, lower, higher, test.p_value, test.attainable))
    return tests


def _cases_needed_with_trials(drops: Sequence[float], total: int, policy: GatePolicy) -> int | None:
    """Estimate as `_cases_needed` does, for cases with as many trials each as they have now."""
    if not drops:
        return None
    drop = fsum(drops) / total
    # As in the interval, but without the two cases added there, which hardly count among that many.
    spread = sqrt(fsum(change * change for change in drops) / total)
    if drop >= policy.effective_margin:
        needed = mean_cases_needed(drop, spread, policy.alpha, policy.power)
    else:
        needed = mean_non_inferiority_cases(policy.effective_margin, spread, policy.confidence, policy.power)
    return max(needed, total + 1)
