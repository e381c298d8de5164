"""The baseline of a suite: its evidence, its source, and why there may be none."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from enum import StrEnum
from pathlib import Path

from agent_eval.ci.earlier import Asked, EarlierRun, Outage
from agent_eval.ci.place import JobPlace
from agent_eval.comparison.facts import RunView
from agent_eval.contracts import RunSummary
from agent_eval.contracts.history import RunRecord
from agent_eval.contracts.registry import BaselineEntry
from agent_eval.errors import InvalidInput, UsageError
from agent_eval.evidence.archive import by_dataset, open_bundle
from agent_eval.evidence.reader import Pack, open_pack
from agent_eval.operations.packs import view
from agent_eval.operations.trust import Admission
from agent_eval.registry.baselines import ResolvedBaseline
from agent_eval.registry.store import path_from_registry
from agent_eval.storage.files import safe_name
from agent_eval.text.numbers import count

MAX_ANCESTORS = 20_000
"""Commits before the base, and before the tip, among which those of earlier runs are looked for."""


@dataclass(frozen=True, kw_only=True)
class Origin:
    """The source of a baseline.

    `how` says as a noun how it was found: `merge base`, `3 commits before the base`, `path`. The commit is
    None when unknown, the time ISO 8601.
    """

    how: str
    sha: str | None = None
    branch: str | None = None
    run_id: int | None = None
    run_url: str | None = None
    created_at: str | None = None


@dataclass(frozen=True, slots=True)
class Baseline:
    """The baseline of one suite. The pack is verified; `view` is what the comparison reads of it."""

    pack: Pack
    view: RunView
    origin: Origin
    named_by_user: bool = False


class Lack(StrEnum):
    """Why a suite has no baseline, although nothing went wrong."""

    UNASKED = "unasked"
    """Earlier runs cannot be read from here, or are not wanted."""
    FIRST = "first"
    """No reviewed run left evidence: a first adoption, if the tip has no rules of its own either."""
    NEW_SUITE = "new-suite"
    """The evidence of reviewed runs was read, and has no such suite."""
    LOST = "lost"
    """Reviewed runs left evidence, and none at or before the base is there any more: measure the base now."""


@dataclass(slots=True)
class Search:
    """The result of a search for baselines.

    Attributes:
        baselines: By the slug of the suite.
        notes: Which runs were skipped and why; nothing a user must act on.
        warnings: What a user should act on: damaged evidence, a missing permission.
        withheld: Which runs have evidence that could not be read, and why; also in notes or warnings.
        lost: Which runs left evidence that is no more, or is of no commit before the base.
        expired: Whether the evidence of a run at or before the base is no more.
        outage: Why a baseline may be missing although there is one; None where none is missing so.
        looked_at: How many earlier runs were looked at; None where the job looked for none.
        newest: The evidence of the newest reviewed run that was read, also after the base, by slug; where no
            run is reviewed, that of the best.
        earlier: Records of reviewed runs at or before the base by slug, the newest first.
        newest_record: The record of the newest reviewed run of all, also after the base, by slug.
        gone: Number of cases of each dataset of the best evidence that this run has no suite for; None while
            no evidence was found.
    """

    baselines: dict[str, Baseline] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    withheld: list[str] = field(default_factory=list)
    lost: list[str] = field(default_factory=list)
    expired: bool = False
    outage: Outage | None = None
    looked_at: int | None = None
    newest: dict[str, Pack] = field(default_factory=dict)
    earlier: dict[str, list[RunRecord]] = field(default_factory=dict)
    newest_record: dict[str, RunRecord] = field(default_factory=dict)
    gone: dict[str, int] | None = None

    def lack(self, slug: str) -> Lack | None:
        """Why a suite has no baseline; None where it has one, and where `outage` says why not."""
        if slug in self.baselines or self.outage is not None:
            return None
        if self.looked_at is None:
            return Lack.UNASKED
        if self.gone is not None:
            return Lack.NEW_SUITE
        return Lack.LOST if self.lost else Lack.FIRST

    def nothing(self, place: JobPlace | None) -> str:
        """Say that there is nothing to compare with, although reviewed runs left evidence, and what to do."""
        branch = place.trusted_branch if place is not None else "the base branch"
        if self.expired or place is None:
            return f"Nothing to compare with: {branch}'s evidence expired. Run {branch} again."
        return (
            f"Nothing to compare with: {branch} has no run at or before the base `{place.base[:7]}`. Update "
            f"this change with {branch}, or run {branch} as of that commit."
        )

    def withhold(self, why: str, *, loud: bool) -> None:
        """Note that evidence is there and cannot be read."""
        self.withheld.append(why)
        (self.warnings if loud else self.notes).append(why)

    def settle(self, wanted: Sequence[str]) -> None:
        """End in an outage where evidence was withheld and a suite has no baseline."""
        if self.outage is not None or not self.withheld or all(slug in self.baselines for slug in wanted):
            return
        more = len(self.withheld) - 1
        others = f" Nor could that of {count(more, 'other run')}." if more else ""
        self.outage = Outage(f"{self.withheld[0]}{others}", _MAKE_ANOTHER)


_MAKE_ANOTHER = (
    "Run the job again; if it persists, make a new run on the base branch, or name another one in "
    "`baseline-run-id`."
)

Opened = tuple[Pack, RunView]

Unfit = Callable[[RunSummary], str]
"""Says why a run is no baseline, as a clause; empty for one that is."""

EarlierRuns = Callable[[Asked], Iterable[EarlierRun]]


def from_path(
    where: Path, wanted: Sequence[str], unfit: Unfit = lambda _: "", admission: Admission | None = None
) -> Search:
    """Read the baseline at a path that the user gave: a pack, an archive, or a directory of packs by slug.

    `wanted` has slugs of suites, `unfit` says why a run is no baseline; without `admission` none must be
    signed.

    Raises:
        InvalidInput: There is nothing there, or no pack for any of the suites.
        InvalidPack: A pack does not verify, or its signature does not.
        UsageError: A pack is no baseline, as `unfit` says.
    """
    if not where.exists():
        raise InvalidInput(
            f"The baseline {where} does not exist.",
            remedy="Give `auto`, `none`, or the path of an evidence pack or archive.",
            file=str(where),
            field="baseline",
        )
    packs = packs_below(where, admission)
    check_statements(packs, admission)
    by_slug = by_dataset(packs.values(), f"The baseline {where}")
    newest = {slug: by_slug[slug] for slug in wanted if slug in by_slug}
    baselines = {
        slug: Baseline(pack, view(pack), Origin(how="path"), named_by_user=True)
        for slug, pack in newest.items()
    }
    for slug, baseline in baselines.items():
        if why := unfit(baseline.view.summary):
            raise unfit_baseline(f"the run at {where}", slug, why)
    if not baselines:
        has = ", ".join(sorted(safe_name(pack.manifest.dataset_id) for pack in packs.values())) or "none"
        raise InvalidInput(
            f"The baseline {where} has no evidence of {', '.join(wanted)}; it has: {has}.",
            remedy="Give the evidence of a run of the same suite.",
            file=str(where),
            field="baseline",
        )
    notes = [
        f"The baseline at the given path has no evidence of `{slug}`."
        for slug in wanted
        if slug not in baselines
    ]
    gone = {
        pack.manifest.dataset_id: pack.summary.total_cases
        for slug, pack in by_slug.items()
        if slug not in wanted
    }
    return Search(baselines=baselines, notes=notes, newest=newest, gone=gone)


def from_registry(
    entry: BaselineEntry,
    registry: Path,
    wanted: Sequence[str],
    unfit: Unfit = lambda _: "",
    admission: Admission | None = None,
) -> Search:
    """Read the baseline that a registry has under a name; errors as `from_path`.

    `InvalidPack` also where it is not the pack that was registered.
    """
    where = path_from_registry(entry.run_path, registry)
    result = from_path(where, wanted, unfit, admission)
    for baseline in result.baselines.values():
        ResolvedBaseline(where, entry).check(baseline.pack.manifest_sha256)
    return result


def packs_below(where: Path, admission: Admission | None = None) -> dict[str, Pack]:
    """Open and verify the packs of a pack, an archive, or a directory of packs; by their directory."""
    if not where.is_dir():
        return open_bundle(where, admit=admission)
    folders = [where]
    if not (where / "manifest.json").exists():
        folders = sorted(entry for entry in where.iterdir() if (entry / "manifest.json").is_file())
    return {folder.name: open_pack(folder, admit=admission) for folder in folders}


def age_in_words(created_at: str | None, now: datetime) -> str | None:
    """Say how long ago something was (ISO 8601), in its largest unit; None when unknown.

    Example:
        >>> age_in_words("2026-01-12T09:00:00Z", datetime(2026, 1, 14, 10, tzinfo=UTC))
        '2 days'
    """
    try:
        then = datetime.fromisoformat(created_at or "")
    except ValueError:
        return None
    seconds = (now - (then if then.tzinfo else then.replace(tzinfo=UTC))).total_seconds()
    for unit, length in (("day", 86_400), ("hour", 3_600), ("minute", 60)):
        number = int(seconds // length)
        if number >= 1:
            return f"{number} {unit}{'s' * (number != 1)}"
    return "less than a minute"


def unfit_baseline(label: str, slug: str, why: str) -> UsageError:
    """Build the error for a baseline that the user named, and whose cases could not be judged."""
    return UsageError(
        f"{capital(label)} is no baseline for `{slug}`: {why}.",
        remedy="Name a run whose cases were judged, or allow more errors with `max-baseline-error-rate`.",
        field="baseline",
    )


def check_statements(packs: Mapping[str, Pack], admission: Admission | None) -> None:
    """Check that what was signed follows from the packs that were opened; raises `UntrustedPack`."""
    if admission is not None:
        for pack in packs.values():
            admission.check(pack)


def capital(text: str) -> str:
    """Begin a sentence with a label."""
    return text[:1].upper() + text[1:]
