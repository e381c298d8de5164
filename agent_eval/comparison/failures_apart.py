"""What a judge newly fails in a candidate's run and no compared result shows, so that nothing hides there."""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set

from agent_eval.comparison.coverage import CoverageFacts
from agent_eval.comparison.facts import FAILURES
from agent_eval.comparison.trials import trials_of
from agent_eval.contracts import CaseResultRow, Outcome
from agent_eval.contracts.verdict import TrialResultRow, is_lost

_FAILED = Outcome.FAILED.value


def failures_apart(
    facts: CoverageFacts,
    compared: Sequence[str],
    trials: Mapping[str, Set[str]] | None = None,
) -> dict[str, list[str]]:
    """List the cases of the candidate that a judge newly fails where it is not compared, by judge id.

    Args:
        facts: The results of both runs.
        compared: Ids of the compared cases.
        trials: Judges that newly fail trials that are not compared (`failures_in_trials`), by case id.
    """
    failures: dict[str, set[str]] = {}
    left_out = facts.now.keys() - set(compared)
    for case_id in (facts.now.keys() if facts.apart else left_out) - facts.lost:
        known = facts.before.get(case_id)
        for judge_id, outcome in facts.now[case_id].judges.items():
            if outcome not in FAILURES or not (case_id in left_out or judge_id in facts.apart):
                continue
            if known is None or not failed_before(known.judges.get(judge_id), outcome):
                failures.setdefault(judge_id, set()).add(case_id)
    for case_id, judges in (trials or {}).items():
        for judge_id in judges:
            failures.setdefault(judge_id, set()).add(case_id)
    return {judge_id: sorted(case_ids) for judge_id, case_ids in sorted(failures.items())}


def failed_before(before: str | None, now: str) -> bool:
    """Tell whether a judge's failure is no news. What could not be judged before may be anything now."""
    return before == _FAILED or (before in FAILURES and now == Outcome.ERROR.value)


def failures_in_trials(
    compared: Set[str],
    baseline: Mapping[str, CaseResultRow],
    candidate: Mapping[str, CaseResultRow],
    apart: Set[str] = frozenset(),
) -> dict[str, set[str]]:
    """Collect the judges that fail trials of the candidate that are not compared, and none of the baseline.

    Of a compared case these are its lost trials; every scored one is compared. Of another case, and of a
    judge that is not compared, they are all: with several, the result is that of one of them. A judge that
    failed a trial has judged what the agent did by then, whatever ended it.

    Args:
        compared: Ids of the compared cases.
        baseline: Results of the baseline by case id.
        candidate: Results of the candidate by case id.
        apart: Ids of the judges that are not compared.

    Returns:
        The judges by case id.
    """
    failures = {}
    for case_id, row in candidate.items():
        failing = set()
        for trial in trials_of(row):
            if case_id not in compared or is_lost(trial):
                failing |= _failing(trial)
            elif apart:
                failing |= _failing(trial) & apart
        if failing and case_id in baseline:
            failing -= set().union(*map(_failing, trials_of(baseline[case_id])))
        if failing:
            failures[case_id] = failing
    return failures


def _failing(trial: TrialResultRow) -> set[str]:
    return {verdict["judge_id"] for verdict in trial["verdicts"] if verdict["outcome"] == _FAILED}
