"""The history of the base branch in a job: read before anything is run, added to by the branch's own runs.

The evidence of each reviewed run carries its record and those of the runs before it. What counts of these is
chosen by the graph of commits.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from agent_eval.ci.baseline import MAX_ANCESTORS, Search
from agent_eval.ci.context import JobContext
from agent_eval.contracts import Comparison
from agent_eval.contracts.base import instant
from agent_eval.errors import AgentEvalError
from agent_eval.evidence.reader import Pack
from agent_eval.gate.pooled import worse_outside
from agent_eval.gate.steps import case_list
from agent_eval.gate.tiers import excuses_by
from agent_eval.history.evidence import read_history, write_history
from agent_eval.history.files import is_too_large, newest_first
from agent_eval.history.pool import FEWEST_RUNS
from agent_eval.history.record import RunRecord, record_of
from agent_eval.operations.pool import Pool, is_of_one_setup, make_pool, without_secrets
from agent_eval.storage.files import safe_name
from agent_eval.text.numbers import verb

LAST_RUNS = 20
"""Runs of the base branch by which a case's usual behaviour is known."""


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

    def last(self, slug: str) -> list[RunRecord]:
        """The last 20 of them."""
        return self.of(slug)[:LAST_RUNS]


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
            record for record in records if before is None or record.run.git_commit in before
        )
    return history


def pool_of(job: JobContext, pack: Pack, comparison: Comparison, search: Search) -> Pool | None:
    """Pool the base branch's last runs for a decision; None where one run is compared with.

    That is so without `baseline-runs`, where it is less than four, where the key of this run is not that of
    the baseline, where fewer than four whole runs have it, and where a case got worse that they do not have
    as it is defined now; all but the first are noted.
    """
    wanted = job.settings.baseline_runs
    if wanted == 0:
        return None
    if wanted < FEWEST_RUNS:
        search.notes.append(
            f"`baseline-runs: {wanted}` is less than {FEWEST_RUNS}, which says too little of how much runs "
            "differ, so this run was compared with one run."
        )
        return None
    slug = safe_name(pack.manifest.dataset_id)
    if not is_of_one_setup(pack, search.baselines[slug].pack):
        search.notes.append(
            "The setup of this run (model, judges, conditions or policy) is not that of the baseline, so it "
            "was compared with that one run."
        )
        return None
    # What is kept of earlier runs holds none of the job's secrets, and only what is kept decides.
    earlier = without_secrets(search.earlier.get(slug, []), job.redactor)
    pool = make_pool(pack, comparison, earlier, wanted)
    if pool is None and comparison.cases.compared:
        search.notes.append(
            f"The history has fewer than {FEWEST_RUNS} whole runs with the setup of this one, so it was "
            "compared with one run."
        )
    if pool is None:
        return None
    rules, now = job.rules, instant(comparison.generated_at)
    excuses = excuses_by(comparison, rules.policy, rules.waivers, now=now)
    outside = worse_outside(pool.runs, comparison, excuses)
    if outside:
        search.notes.append(
            f"{case_list(outside)} got worse and {verb(len(outside), 'is', 'are')} not in the pooled runs as "
            "defined now, so this run was compared with one run."
        )
        return None
    return pool


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
