"""The history of the base branch in a job: read before anything is run, added to by the branch's own runs.

The evidence of each reviewed run carries its record and those of the runs before it. What counts of these is
chosen by the graph of commits.
"""

from __future__ import annotations

from collections.abc import Mapping

from agent_eval.ci.baseline import MAX_ANCESTORS, Search
from agent_eval.ci.context import JobContext
from agent_eval.contracts.history import RunRecord
from agent_eval.errors import AgentEvalError
from agent_eval.evidence.reader import Pack
from agent_eval.gate.procedure import HISTORY, Counts
from agent_eval.history.records import (
    MAX_BYTES,
    encode,
    newest_first,
    read_history,
    record_of,
    write_history,
)
from agent_eval.operations.decision_material import counts_of
from agent_eval.storage.files import safe_name
from agent_eval.storage.redaction import Redactor


def read_history_of_main(job: JobContext, search: Search) -> None:
    """Read the records of reviewed runs into a search, from the evidence that it read for baselines.

    Where evidence must be signed, what it carries of earlier runs does not count, which is not: only the runs
    that were read themselves do. A record that is not what was written is an error, never an empty history.
    """
    before = None
    if job.place is not None and job.clone is not None:
        before = frozenset(job.clone.ancestors(job.place.base, most=MAX_ANCESTORS))
    for slug, newest in search.newest.items():
        packs = [newest]
        if slug in search.baselines and not search.baselines[slug].named_by_user:
            packs.append(search.baselines[slug].pack)
        records: list[RunRecord] = []
        for pack in packs:
            carried = read_history(pack) if job.rules.baseline_key is None else []
            records += carried or [record_of(pack)]
        search.newest_record[slug] = _without_secrets(record_of(newest), job.redactor)
        search.earlier[slug] = newest_first(
            _without_secrets(record, job.redactor)
            for record in records
            # An outage of all of main's run would excuse each case.
            if any(case.passed or case.failing for case in record.cases.values())
            and (before is None or record.run.git_commit in before)
        )


def _without_secrets(record: RunRecord, redactor: Redactor) -> RunRecord:
    """Copy a record without what is known to be secret now: its run may not have known it.

    A case whose id or kinds of failure hold a secret is left out: no run that knows the secret has that id.
    """
    if not redactor.finds(encode(record)):
        return record
    cases = {
        case_id: case
        for case_id, case in record.cases.items()
        if all(
            redactor.redact_text(text) == text for text in (case_id, *case.lost, *case.missed, *case.failing)
        )
    }
    run, redacted = record.run, redactor.redact_text
    stated = {
        "run_id": redacted(run.run_id),
        "model": redacted(run.model),
        "git_commit": redacted(run.git_commit) if run.git_commit is not None else None,
        "cases": len(cases),
    }
    return RunRecord(run.model_copy(update=stated), cases)


def counts_used(pack: Pack, search: Search) -> Counts:
    """Gather the counts that a decision on a run rests on, of its baseline and of main's runs."""
    own, slug = record_of(pack), safe_name(pack.manifest.dataset_id)
    same = [record for record in search.earlier.get(slug, []) if record.run.key == own.run.key]
    baseline = search.baselines.get(slug)
    return counts_of(
        pack,
        baseline.pack if baseline is not None else None,
        main=same[:HISTORY],
        newest=search.newest_record.get(slug),
    )


def add_to_history(job: JobContext, packs: Mapping[str, Pack], search: Search) -> list[str]:
    """Write the history into the evidence of a reviewed run; return what went wrong, as sentences."""
    if not job.writes_history:
        return []
    warnings = []
    for slug, pack in packs.items():
        record = record_of(pack)
        if len(encode(record)) > MAX_BYTES:
            warnings.append(f"`{slug}` has too many cases for a history: no record of this run was kept.")
            continue
        try:
            write_history(job.settings.out / slug, record, search.earlier.get(slug, []))
        except AgentEvalError as error:
            warnings.append(f"This run was not added to the history: {error.message} {error.remedy}".strip())
    return warnings
