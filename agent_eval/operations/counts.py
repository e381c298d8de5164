"""The counts that a decision rests on, where the two packs define or judge their cases differently."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from agent_eval.contracts.base import digest
from agent_eval.contracts.history import RunRecord
from agent_eval.contracts.suite import definition_of
from agent_eval.evidence.reader import Pack
from agent_eval.gate.procedure import Counts
from agent_eval.history.records import DEFINITION_LENGTH, case_record, record_of
from agent_eval.operations.judged_twice import judge_twice


class _Name(NamedTuple):
    """What a case is called now, and its definition by either name."""

    now: str
    before: str
    after: str


def counts_of(
    candidate: Pack,
    baseline: Pack | None,
    *,
    main: Sequence[RunRecord] = (),
    newest: RunRecord | None = None,
) -> Counts:
    """Count what a run, its baseline and main's runs say of each case.

    The baseline counts as today's judges judge it by today's definitions; a case that was only given another
    name keeps what it was counted under the old one.

    Args:
        candidate: The run that is decided on, verified.
        baseline: What it is compared with, verified; None without one.
        main: Main's last runs at or before the base, the newest first.
        newest: Main's newest run of all.
    """
    own = record_of(candidate)
    if baseline is None:
        return Counts(own=own, main=main, newest=newest)
    names = _renamed(baseline, candidate)
    return Counts(
        own=own,
        main=[_with_names(run, names) for run in main],
        baseline=_with_names(baseline_record(baseline, candidate), names),
        newest=_with_names(newest, names) if newest is not None else None,
    )


def baseline_record(before: Pack, after: Pack) -> RunRecord:
    """Count what a baseline says of each case as the judges and definitions of a later run judge it."""
    record, twice = record_of(before), judge_twice(before, after)
    if twice is None:
        return record
    index, todays = before.index_by_id(), after.index_by_id()
    for case_id, row in twice.baseline.items():
        definition = todays[case_id]["definition_digest"]
        record.cases[case_id] = case_record(row, {**index[case_id], "definition_digest": definition})
    return record


def _renamed(before: Pack, after: Pack) -> dict[str, _Name]:
    """Match the cases that only one run has by what they ask and expect; by the name before."""
    sides = before.index_by_id(), after.index_by_id()
    gone, new = sides[0].keys() - sides[1].keys(), sides[1].keys() - sides[0].keys()
    if not gone or not new:
        return {}
    old_names, new_names = _by_definition(before, gone), _by_definition(after, new)
    return {
        old: _Name(
            new_names[key],
            sides[0][old]["definition_digest"][:DEFINITION_LENGTH],
            sides[1][new_names[key]]["definition_digest"][:DEFINITION_LENGTH],
        )
        for key, old in old_names.items()
        if key in new_names
    }


def _by_definition(pack: Pack, case_ids: set[str]) -> dict[str, str]:
    """Ids of cases by the digest of their definition without the id; two that are alike match nothing."""
    names_by_key: dict[str, list[str]] = {}
    for case_id in sorted(case_ids):
        definition = definition_of(pack.raw_trajectory(case_id))
        names_by_key.setdefault(digest({**definition, "case_id": None}), []).append(case_id)
    return {key: alike[0] for key, alike in names_by_key.items() if len(alike) == 1}


def _with_names(run: RunRecord, names: Mapping[str, _Name]) -> RunRecord:
    cases = dict(run.cases)
    for old, name in names.items():
        row = cases.get(old)
        if row is not None and row.definition == name.before:
            del cases[old]
            cases[name.now] = row.model_copy(update={"case_id": name.now, "definition": name.after})
    return RunRecord(run.run, cases)
