"""The history of the base branch in a job: read before anything is run, added to by the branch's own runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from agent_eval.ci.baseline import Search
from agent_eval.ci.context import JobContext
from agent_eval.ci.history_branch import HistoryBranch
from agent_eval.ci.workspace import is_in_checkout
from agent_eval.contracts import Comparison
from agent_eval.contracts.base import instant
from agent_eval.errors import AgentEvalError, RemoteError, StorageError, UsageError
from agent_eval.evidence.reader import Pack
from agent_eval.gate.pooled import worse_outside
from agent_eval.gate.steps import case_list
from agent_eval.gate.tiers import excuses_by
from agent_eval.history.directory import HistoryDirectory
from agent_eval.history.evidence import read_history, write_history
from agent_eval.history.files import is_too_large
from agent_eval.history.pool import FEWEST_RUNS
from agent_eval.contracts.history import RunRecord
from agent_eval.history.record import record_of
from agent_eval.operations.pool import Pool, is_of_one_setup, make_pool, without_secrets
from agent_eval.storage.files import safe_name
from agent_eval.text.escape import one_line
from agent_eval.text.numbers import verb

AUTO, NONE = "auto", "none"
_NAME_LIMIT = 200


@dataclass(slots=True)
class BranchHistory:
    """The runs of the base branch before this one.

    Example:
        >>> BranchHistory().of("shop")
        []

    Attributes:
        records: By the slug of the suite, the newest first.
        notes: Why there is none, as sentences.
        warnings: Why one is not used, as sentences.
        place: Where it is kept; None where that is in evidence, or nowhere.
    """

    records: dict[str, list[RunRecord]] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    place: HistoryDirectory | HistoryBranch | None = None

    def of(self, slug: str) -> list[RunRecord]:
        """The runs of one suite, the newest first."""
        return self.records.get(slug, [])


def read_branch_history(job: JobContext, search: Search, datasets: Mapping[str, str]) -> BranchHistory:
    """Read the history of every suite from where the settings say.

    Args:
        job: The job.
        search: The search for baselines, whose evidence carries the history, and which gets it.
        datasets: Dataset by slug.

    Raises:
        InvalidInput: A record is not what was written. It is never taken for an empty history.
        UsageError: The settings name two places.
    """
    settings = job.settings
    refuse_two_places(settings.history, settings.history_branch)
    history = BranchHistory(search.earlier)
    if settings.history == NONE:
        return history
    if settings.history == AUTO and not settings.history_branch:
        _read_evidence(job, search, list(datasets), history)
        return history
    if not settings.history_branch and not job.writes_history and _in_checkout(job, datasets):
        # A change could commit the runs that it is held against.
        history.warnings.append(
            f"The history in `{one_line(settings.history, limit=_NAME_LIMIT)}` is below the checkout, where "
            "a change can alter it, so it is not used: name a directory outside of it."
        )
        return history
    history.place = place = _place(job)
    try:
        for slug, dataset_id in datasets.items():
            history.records[slug] = place.read(dataset_id)
    except (RemoteError, StorageError) as error:
        history.records.clear()
        history.notes.append(f"There is no history: {error.message}")
    return history


def _in_checkout(job: JobContext, datasets: Mapping[str, str]) -> bool:
    """Tell whether a record could be a file of the checkout, or be found through a link there."""
    named = Path(job.settings.history)
    places = [named, *(named / safe_name(dataset_id) for dataset_id in datasets.values())]
    return is_in_checkout(places, job.platform.workspace)


def refuse_two_places(history: str, branch: str) -> None:
    """Refuse a history in a directory and on a branch at once.

    Raises:
        UsageError: Both are named.
    """
    if branch and history not in (AUTO, ""):
        raise UsageError(
            "The history can be in one place: `history` and `history-branch` are both given.",
            remedy="Leave out one of them.",
            field="history",
        )


def _read_evidence(job: JobContext, search: Search, slugs: Sequence[str], history: BranchHistory) -> None:
    if job.rules.baseline_key is not None:
        return  # Evidence counts as far as it is signed, and what it carries of earlier runs is not.
    if search.outage is not None:
        history.notes.append(f"There is no history: {search.outage.cause}")
    for slug in slugs:
        if slug in search.newest:
            history.records[slug] = read_history(search.newest[slug])


def _place(job: JobContext) -> HistoryDirectory | HistoryBranch:
    settings = job.settings
    if settings.history_branch:
        return HistoryBranch(job.platform.workspace, settings.history_branch, job.environ)
    return HistoryDirectory(Path(settings.history))


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
    """Add this run to the history, where it is one of the base branch; return what went wrong, as sentences.

    Args:
        job: The job.
        packs: The evidence of this run by slug; where the history is in evidence, the packs get it.
        history: The runs before this one.
    """
    settings = job.settings
    if not job.writes_history or settings.history == NONE:
        return []
    records = {slug: record_of(pack) for slug, pack in packs.items()}
    warnings = [
        f"`{slug}` has too many cases for a history: no record of this run was kept."
        for slug, record in records.items()
        if is_too_large(record)
    ]
    small_enough = {slug: record for slug, record in records.items() if not is_too_large(record)}
    try:
        _write(job, small_enough, history)
    except AgentEvalError as error:
        warnings.append(f"This run was not added to the history: {error.message} {error.remedy}".strip())
    return warnings


def _write(job: JobContext, records: Mapping[str, RunRecord], history: BranchHistory) -> None:
    place = history.place
    if place is None:
        for slug, record in records.items():
            write_history(job.settings.out / slug, record, history.of(slug))
        return
    if isinstance(place, HistoryBranch):
        if records:
            place.write(list(records.values()))
        return
    for record in records.values():
        place.write(record)
