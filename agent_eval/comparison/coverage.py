"""Coverage of a comparison: which verdicts of the baseline have no counterpart in the candidate, and why."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, field
from fractions import Fraction

from agent_eval.comparison.facts import CaseOutcome, RunView
from agent_eval.comparison.trials import trials_of
from agent_eval.contracts import REPLAY_CONTRACT, CaseResultRow, Coverage, CoverageLoss, Outcome
from agent_eval.contracts.coverage import Cause
from agent_eval.contracts.verdict import EXECUTION

_PASSED, _SKIPPED, _ERROR = Outcome.PASSED.value, Outcome.SKIPPED.value, Outcome.ERROR.value
_LossKey = tuple[Cause, str | None]


@dataclass(frozen=True, kw_only=True)
class CoverageFacts:
    """What decides whether a case of the baseline is compared.

    Attributes:
        before: Outcomes in the baseline as it was judged, by case id.
        now: Outcomes in the candidate as it was judged, by case id.
        changed: Ids of the cases that ask something else in the candidate.
        quarantined: Ids of the cases that are left out of both runs.
        changed_judges: Ids of the judges that judge by another configuration.
        new_expectations: Judges by case id by whose old expectation the case got worse, not by the new one.
        before_today: Outcomes of cases in the baseline as they are judged today, where that differs.
        apart: Ids of the judges that are not compared, because they could not judge both runs alike.
        is_helped: Whether the candidate's agent was given what the baseline's was not.
        by_baseline: Results of the candidate by the baseline's definitions and judges, where these differ.
        lost: Ids of the cases of which every trial of the candidate is lost through no fault of the agent.

    Example:
        >>> passed = CaseOutcome("passed", passed=True, hard_failed=False, failing=False, judges={})
        >>> CoverageFacts(before={"refund": passed}, now={}, changed=frozenset()).quarantined
        frozenset()
    """

    before: Mapping[str, CaseOutcome]
    now: Mapping[str, CaseOutcome]
    changed: frozenset[str]
    quarantined: frozenset[str] = frozenset()
    changed_judges: frozenset[str] = frozenset()
    new_expectations: Mapping[str, Sequence[str]] = field(default_factory=dict)
    before_today: Mapping[str, CaseOutcome] = field(default_factory=dict)
    apart: frozenset[str] = frozenset()
    by_baseline: Mapping[str, CaseResultRow] = field(default_factory=dict)
    is_helped: bool = False
    lost: frozenset[str] = frozenset()


def coverage(facts: CoverageFacts, baseline: RunView, candidate: RunView, *, trials_differ: bool) -> Coverage:
    """Compute which share of the baseline is still compared.

    Args:
        facts: The cases and judges of both runs.
        baseline: The earlier run, for its trials.
        candidate: The later run, for its trials.
        trials_differ: Whether any case has another number of trials.
    """
    losses = _Losses()
    silent = _silent_judges(facts)
    for case_id in sorted(facts.before):
        before = facts.before[case_id]
        if before.outcome == _SKIPPED:
            continue
        losses.cases += 1
        whole = _lost_whole(case_id, facts)
        if whole is not None:
            losses.add(whole, None, case_id, Fraction(1))
            continue
        silent_here = silent | _newly_silent(case_id, facts, candidate)
        rest = _lose_judges(losses, case_id, facts, silent_here)
        if trials_differ and rest:
            lost = rest * _share_of_fewer_trials(case_id, baseline, candidate)
            losses.add("fewer-trials", None, case_id, lost)
            rest -= lost
        judges = facts.new_expectations.get(case_id, ())
        for judge_id in judges:
            losses.add("new-expectation", judge_id, case_id, rest / len(judges))
    return losses.coverage()


def _share_of_fewer_trials(case_id: str, baseline: RunView, candidate: RunView) -> Fraction:
    """Compute the share of a case that is lost because fewer trials of it were run than were to be.

    That is as many as in the baseline; of a candidate that ended as soon as it was decided (`trials: auto`)
    as many as it had at its last look, whose level is stricter for it.
    """
    before = len(trials_of(baseline.results[case_id]))
    looks = candidate.config.execution_config.looks
    wanted = before if looks is None else min(before, looks[-1])
    return Fraction(wanted - min(wanted, len(trials_of(candidate.results[case_id]))), wanted)


def _lost_whole(case_id: str, facts: CoverageFacts) -> Cause | None:
    """Say by what a case is lost with all of its verdicts; None where it is compared."""
    if case_id in facts.quarantined:
        return "quarantined"
    if case_id not in facts.now:
        return "removed"
    if case_id in facts.changed:
        return "changed"
    if facts.is_helped:
        return "helped"
    before = facts.before_today.get(case_id, facts.before[case_id])
    if case_id in facts.lost:
        return "lost" if before.passed else "lost-failing"
    if before.outcome == _ERROR and not facts.now[case_id].passed:
        return "baseline-error"
    return None


def _lose_judges(losses: _Losses, case_id: str, facts: CoverageFacts, silent: Set[str]) -> Fraction:
    """Add the judges that a case lost; return the share of the case that is left."""
    judges = _judges(facts.before[case_id])
    if not judges:
        return Fraction(1)
    each, rest, now = Fraction(1, len(judges)), Fraction(1), facts.now[case_id].judges
    for judge_id in judges:
        cause: Cause | None = None
        if judge_id not in now or judge_id in silent:
            cause = "judge-gone"
        elif judge_id in facts.changed_judges:
            cause = "judge-changed"
        if cause is not None:
            losses.add(cause, judge_id, case_id, each)
            rest -= each
    return rest


def _newly_silent(case_id: str, facts: CoverageFacts, candidate: RunView) -> set[str]:
    """Collect the judges that passed a case and find nothing to judge in any trial of it now.

    A verdict that was no pass cannot get worse. That the agent came to its end is nothing to judge either.
    """
    before, now = facts.before[case_id].judges, facts.now[case_id].judges
    skipping = {
        judge_id
        for judge_id, outcome in before.items()
        if outcome == _PASSED and now.get(judge_id) == _SKIPPED and judge_id != EXECUTION
    }
    if not skipping:
        return skipping
    row = facts.by_baseline.get(case_id) or candidate.results[case_id]
    return skipping - {
        verdict["judge_id"]
        for trial in trials_of(row)
        for verdict in trial["verdicts"]
        if verdict["outcome"] != _SKIPPED
    }


def _judges(case: CaseOutcome) -> list[str]:
    """List the judges that judged a case. The check of the trace itself measures nothing of the agent."""
    return sorted(
        judge_id
        for judge_id, outcome in case.judges.items()
        if outcome != _SKIPPED and judge_id != REPLAY_CONTRACT
    )


def _silent_judges(facts: CoverageFacts) -> frozenset[str]:
    """Collect the judges that judged common cases before, and find nothing to judge in any of them now."""
    common = [case_id for case_id in facts.before if case_id in facts.now]
    return _judging(facts.before[case_id] for case_id in common) - _judging(
        facts.now[case_id] for case_id in common
    )


def _judging(cases: Iterable[CaseOutcome]) -> frozenset[str]:
    # Cases with the same verdicts share one object, so few are looked at.
    distinct = {id(case): case for case in cases}
    return frozenset(judge_id for case in distinct.values() for judge_id in _judges(case))


@dataclass
class _Losses:
    cases: int = 0
    by_cause: dict[_LossKey, dict[str, Fraction]] = field(default_factory=lambda: defaultdict(dict))

    def add(self, cause: Cause, judge_id: str | None, case_id: str, share: Fraction) -> None:
        if share:
            self.by_cause[cause, judge_id][case_id] = share

    def coverage(self) -> Coverage:
        return Coverage(
            cases=self.cases,
            losses=[
                CoverageLoss(
                    cause=cause,
                    judge_id=judge_id,
                    cases={case_id: float(share) for case_id, share in lost.items()},
                )
                for (cause, judge_id), lost in self.by_cause.items()
            ],
        )
