"""The history of the base branch in a job: read before anything is run, added to by the branch's own runs.

The evidence of each reviewed run carries its record and those of the runs before it. What counts of these is
chosen by the graph of commits.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from agent_eval.ci.baseline import MAX_ANCESTORS, Baseline, Search
from agent_eval.ci.context import JobContext
from agent_eval.contracts.history import RunRecord
from agent_eval.errors import AgentEvalError
from agent_eval.evidence.reader import Pack
from agent_eval.gate.procedure import HISTORY, Counts
from agent_eval.history.evidence import read_history, write_history
from agent_eval.history.files import encode_all, is_too_large, newest_first
from agent_eval.history.record import record_of
from agent_eval.operations.counts import counts_of
from agent_eval.storage.files import safe_name
from agent_eval.storage.redaction import Redactor


@dataclass(slots=True)
class BranchHistory:
    """The reviewed runs before this one, by the slug of the suite.

    Attributes:
        records: Of runs at or before the base, the newest first.
        newest: Of the newest run of all, which may be of a commit after the base: a case that fails there
            too is not this change's.
    """

    records: dict[str, list[RunRecord]] = field(default_factory=dict)
    newest: dict[str, RunRecord] = field(default_factory=dict)

    def of(self, slug: str) -> list[RunRecord]:
        """The runs of one suite at or before the base, the newest first."""
        return self.records.get(slug, [])


def read_branch_history(job: JobContext, search: Search) -> BranchHistory:
    """Read the history of every suite from the evidence that the search for baselines read.

    Where evidence must be signed, what it carries of earlier runs does not count, which is not: only the runs
    that were read themselves do.

    Raises:
        InvalidInput: A record is not what was written. It is never taken for an empty history.
    """
    history = BranchHistory(search.earlier, search.newest_record)
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
        search.newest_record[slug] = record_of(newest)
        search.earlier[slug] = newest_first(
            record
            for record in records
            if _says_something(record) and (before is None or record.run.git_commit in before)
        )
    return history


def _says_something(record: RunRecord) -> bool:
    """Whether a judge told anything of any case: an outage of all of main's run would excuse each case."""
    return any(case.passed or case.failing for case in record.cases.values())


def counts_used(job: JobContext, pack: Pack, baseline: Baseline | None, history: BranchHistory) -> Counts:
    """Gather the counts that a decision on a run rests on, without what is known to be secret now.

    Args:
        job: The job.
        pack: Of the run.
        baseline: What it is compared with; None without one.
        history: Main's runs.
    """
    own, slug = record_of(pack), safe_name(pack.manifest.dataset_id)
    same = [record for record in history.of(slug) if record.run.key == own.run.key]
    newest = history.newest.get(slug)
    return counts_of(
        pack,
        baseline.pack if baseline is not None else None,
        main=_without_secrets(same[:HISTORY], job.redactor),
        newest=_without_secrets([newest], job.redactor)[0] if newest is not None else None,
    )


def _without_secrets(records: Sequence[RunRecord], redactor: Redactor) -> list[RunRecord]:
    """Copy records without what is known to be secret now: earlier runs may not have known it.

    A case whose id or kinds of failure hold a secret is left out: no run that knows the secret has that id.
    """
    if not redactor.finds(encode_all(records)):
        return list(records)
    return [_redacted(record, redactor.redact_text) for record in records]


def _redacted(record: RunRecord, redacted: Callable[[str], str]) -> RunRecord:
    cases = {
        case_id: case
        for case_id, case in record.cases.items()
        if all(redacted(text) == text for text in (case_id, *case.lost, *case.missed, *case.failing))
    }
    run = record.run
    stated = {
        "run_id": redacted(run.run_id),
        "model": redacted(run.model),
        "git_commit": redacted(run.git_commit) if run.git_commit is not None else None,
        "cases": len(cases),
    }
    return RunRecord(run.model_copy(update=stated), cases)


def add_to_history(job: JobContext, packs: Mapping[str, Pack], history: BranchHistory) -> list[str]:
    """Write the history into the evidence of a reviewed run; return what went wrong, as sentences.

    Args:
        job: The job.
        packs: The evidence of this run by slug.
        history: The runs before this one.
    """
    if not job.writes_history:
        return []
    warnings = []
    for slug, pack in packs.items():
        record = record_of(pack)
        if is_too_large(record):
            warnings.append(f"`{slug}` has too many cases for a history: no record of this run was kept.")
            continue
        try:
            write_history(job.settings.out / slug, record, history.of(slug))
        except AgentEvalError as error:
            warnings.append(f"This run was not added to the history: {error.message} {error.remedy}".strip())
    return warnings
