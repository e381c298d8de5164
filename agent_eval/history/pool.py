"""Select the runs of a history that a run is held against: the pooled baseline."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from agent_eval.contracts.history import WINDOW, CaseRecord, PooledCase, PooledRuns, RunRecord

FEWEST_RUNS = 4
"""Runs below which there is no pooled baseline."""

ENOUGH_RUNS = 8
"""Runs from which on the search ends as soon as each case has `WINDOW` trials."""

WHOLE = 0.9
"""Share of the cases that a run must have scored, as they are defined now, to be a whole run."""


def pooled_runs(
    own: RunRecord, earlier: Sequence[RunRecord], case_ids: Collection[str], most: int
) -> PooledRuns | None:
    """Pool the newest whole runs at the key of a run until each case has 20 trials.

    Runs that failed are pooled as well: keeping only good days would raise the bar with each lucky one. A
    case is pooled where all of these runs and `own` have scored it under one definition. A run that would
    leave fewer than `WHOLE` of the cases is skipped: trials are lost for reasons that are not the agent's,
    so that skipping it favours neither good days nor bad ones.

    Args:
        own: The run that is held against the pool.
        earlier: Runs of the base branch, the newest first.
        case_ids: The cases that are compared.
        most: Runs that are pooled at most.

    Returns:
        The pool; None where fewer than `FEWEST_RUNS` runs are whole, so that one run is compared with.
    """
    usable = {case_id for case_id in case_ids if _scored(own, case_id)}
    common, chosen = set(usable), list[RunRecord]()
    for record in earlier:
        if len(chosen) >= most or (len(chosen) >= ENOUGH_RUNS and _fewest_trials(chosen, common) >= WINDOW):
            break
        if record.run.key != own.run.key or record.run.run_id == own.run.run_id:
            continue
        covered = {case_id for case_id in usable if _same(record.cases.get(case_id), own.cases[case_id])}
        if not covered or len(common & covered) < WHOLE * len(case_ids):
            continue
        chosen.append(record)
        common &= covered
    if len(chosen) < FEWEST_RUNS:
        return None
    return PooledRuns(
        run_ids=tuple(record.run.run_id for record in chosen),
        cases={case_id: _pooled(case_id, own, chosen) for case_id in sorted(common)},
    )


def _pooled(case_id: str, own: RunRecord, chosen: Sequence[RunRecord]) -> PooledCase:
    return PooledCase(
        runs=tuple((record.cases[case_id].passed, record.cases[case_id].scored) for record in chosen),
        own=(own.cases[case_id].passed, own.cases[case_id].scored),
    )


def _fewest_trials(chosen: Sequence[RunRecord], common: Collection[str]) -> int:
    return min((sum(record.cases[case_id].scored for record in chosen) for case_id in common), default=0)


def _scored(record: RunRecord, case_id: str) -> bool:
    case = record.cases.get(case_id)
    return case is not None and case.scored > 0


def _same(case: CaseRecord | None, own: CaseRecord) -> bool:
    return case is not None and case.scored > 0 and case.definition == own.definition
