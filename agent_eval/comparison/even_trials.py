"""Case results over as many trials as both runs have, where one of them ended as soon as it was decided.

A case policy asks more of a case with more trials: of twelve trials all pass less often than of four. A run
with a fixed number of trials is held against the number of its baseline. A run that looked at its trials and
went on (`trials: auto`) has another number than its baseline by design, so that its cases would look worse
than they are, or better. So the case results of both runs are those of the first scored trials, as many as
both have. Tests of pass rates use every scored trial.

Scored trials of a case are exchangeable: their order says nothing of their outcome, and what lost a trial is
nothing that the agent did. So the first of them are a fair sample of each run, chosen without looking at an
outcome, and every look keeps the level that it spends (`gate.looks`). A lost trial is none of the sample: it
would decide the case as an error where it happens to be among the first, and an error of the baseline hides
whatever the candidate does.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import cast

from agent_eval.comparison.facts import RunView
from agent_eval.comparison.trials import scored_trials_of, trials_of
from agent_eval.contracts import CaseResultRow, case_policy
from agent_eval.contracts.trials import ALL, TrialFacts, deciding_trial, is_unsafe
from agent_eval.contracts.verdict import TrialResultRow, is_lost

Results = Mapping[str, CaseResultRow]


def evened(compared: Iterable[str], baseline: RunView, candidate: RunView) -> tuple[Results, Results]:
    """Derive the case results that differ where both runs have equally many scored trials of each case.

    A trial that a judge of safety failed is never left out: its case keeps all of its trials.

    Args:
        compared: Ids of the compared cases.
        baseline: The earlier run.
        candidate: The later run.

    Returns:
        The results of the baseline and of the candidate by case id, only where trials were left out. Nothing
        where the candidate had a fixed number of trials.
    """
    before: dict[str, CaseResultRow] = {}
    now: dict[str, CaseResultRow] = {}
    if candidate.config.execution_config.looks is None:
        return before, now
    for case_id in compared:
        rows = baseline.results[case_id], candidate.results[case_id]
        fewest = min(len(scored_trials_of(row)) for row in rows)
        for row, shortened in zip(rows, (before, now), strict=True):
            if len(trials_of(row)) > fewest and not _is_unsafe(row):
                shortened[case_id] = first_trials(row, fewest)
    return before, now


def first_trials(row: CaseResultRow, number: int) -> CaseResultRow:
    """Derive the result that a case has over its first scored trials, by the policy of the run.

    Args:
        row: The result over all trials.
        number: At least one; at most as many as are scored, or as there are where none is.
    """
    trials = scored_trials_of(row)[:number]
    stated = row.get("case_policy")
    policy = ALL if stated is None else case_policy(stated)
    deciding = deciding_trial(policy, [_facts(trial) for trial in trials])
    result = {**row, **trials[deciding], "trial": deciding, "trials": list(trials) if number > 1 else []}
    return cast(CaseResultRow, result)


def _is_unsafe(row: CaseResultRow) -> bool:
    return any(_facts(trial).unsafe for trial in trials_of(row))


def _facts(trial: CaseResultRow | TrialResultRow) -> TrialFacts:
    verdicts = ((verdict["judge_id"], verdict["outcome"]) for verdict in trial["verdicts"])
    return TrialFacts(trial["outcome"], is_unsafe(verdicts), is_lost(trial))
