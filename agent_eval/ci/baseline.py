"""The baseline of a suite: its evidence and source, how it is found, and why there may be none.

A baseline is evidence of a reviewed commit at or before the base of the job, by the graph of commits: what a
branch, a tag or an event is called proves nothing. The platform, the evidence and git name the same commit.
The nearest commit counts, of its runs the newest.

Only where no reviewed run left evidence is a missing baseline a first adoption. Evidence that has expired is
not compared, and evidence that is there and cannot be read ends the job in an error, unless an older run
takes its place.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from enum import StrEnum
from itertools import islice
from pathlib import Path

from agent_eval.attestations.files import Trust
from agent_eval.attestations.keys import PublicKey
from agent_eval.attestations.statement import Expected
from agent_eval.ci.earlier import Asked, EarlierRun, Expired, NoHistory, Skipped, Withheld, outage_of
from agent_eval.ci.place import JobPlace
from agent_eval.comparison.facts import RunView
from agent_eval.contracts.history import RunRecord
from agent_eval.errors import InvalidInput, InvalidPack, RemoteError, UsageError
from agent_eval.evidence.archive import by_dataset, open_bundle
from agent_eval.evidence.reader import Pack, open_pack
from agent_eval.operations.packs import view
from agent_eval.operations.trust import Admission
from agent_eval.storage.files import safe_name
from agent_eval.text.numbers import count

MAX_ANCESTORS = 20_000
"""Commits before the base, and before the tip, among which those of earlier runs are looked for."""

MEASURED = "measured in this job"
"""How the baseline of a measured base was found."""


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
        withheld: Which runs have evidence that could not be read, and why; also in warnings.
        lost: Which runs left evidence that is no more, or is of no commit before the base.
        expired: Whether the evidence of a run at or before the base is no more.
        outage: Why a baseline may be missing although there is one; None where none is missing so.
        looked_at: How many earlier runs were looked at; None where the job looked for none.
        newest: The evidence of the newest reviewed run that was read, also after the base, by slug; where no
            run is reviewed, that of the best.
        earlier: Records of reviewed runs at or before the base by slug, the newest first.
        newest_record: The record of the newest reviewed run of all, also after the base, by slug.
        gone: The datasets of the best evidence that this run has no suite for; None while no evidence was
            found.
    """

    baselines: dict[str, Baseline] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    withheld: list[str] = field(default_factory=list)
    lost: list[str] = field(default_factory=list)
    expired: bool = False
    outage: RemoteError | None = None
    looked_at: int | None = None
    newest: dict[str, Pack] = field(default_factory=dict)
    earlier: dict[str, list[RunRecord]] = field(default_factory=dict)
    newest_record: dict[str, RunRecord] = field(default_factory=dict)
    gone: set[str] | None = None

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

    def withhold(self, why: str) -> None:
        """Warn that evidence is there and cannot be read."""
        self.withheld.append(why)
        self.warnings.append(why)

    def settle(self, wanted: Sequence[str]) -> None:
        """End in an outage where evidence was withheld and a suite has no baseline."""
        if self.outage is not None or not self.withheld or all(slug in self.baselines for slug in wanted):
            return
        more = len(self.withheld) - 1
        others = f" Nor could that of {count(more, 'other run')}." if more else ""
        self.outage = RemoteError(f"{self.withheld[0]}{others}", remedy=_MAKE_ANOTHER)


_MAKE_ANOTHER = (
    "Run the job again; if it persists, make a new run on the base branch, or name another one in "
    "`baseline: run:ID`."
)

Opened = tuple[Pack, RunView]
EarlierRuns = Callable[[Asked], Iterable[EarlierRun]]


def from_path(where: Path, wanted: Sequence[str], admission: Admission | None = None) -> Search:
    """Read the baseline at a path that the user gave: a pack, an archive, or a directory of packs by slug.

    `wanted` has slugs of suites; without `admission` none must be signed.

    Raises:
        InvalidInput: There is nothing there, or no pack for any of the suites.
        InvalidPack: A pack does not verify, or its signature does not.
        UsageError: A pack is no baseline, as no case of it was judged.
    """
    if not where.exists():
        raise InvalidInput(
            f"The baseline {where} does not exist.",
            remedy="Give `auto`, `none`, or the path of an evidence pack or archive.",
            file=str(where),
            field="baseline",
        )
    packs = packs_below(where, admission)
    by_slug = by_dataset(packs.values(), f"The baseline {where}")
    newest = {slug: by_slug[slug] for slug in wanted if slug in by_slug}
    baselines = {
        slug: Baseline(pack, view(pack), Origin(how="path"), named_by_user=True)
        for slug, pack in newest.items()
    }
    for slug, baseline in baselines.items():
        if judged_nothing(baseline.view):
            raise _unfit(f"the run at {where}", slug)
    if not baselines:
        has = ", ".join(sorted(safe_name(pack.manifest.dataset_id) for pack in packs.values())) or "none"
        raise InvalidInput(
            f"The baseline {where} has no evidence of {', '.join(wanted)}; it has: {has}.",
            remedy="Give the evidence of a run of the same suite.",
            file=str(where),
            field="baseline",
        )
    lacking = (slug for slug in wanted if slug not in baselines)
    notes = [f"The baseline at the given path has no evidence of `{slug}`." for slug in lacking]
    gone = {pack.manifest.dataset_id for slug, pack in by_slug.items() if slug not in wanted}
    return Search(baselines=baselines, notes=notes, newest=newest, gone=gone)


def packs_below(where: Path, admission: Admission | None = None) -> dict[str, Pack]:
    """Open and verify the packs of a pack, an archive, or a directory of packs; by their directory.

    Raises `UntrustedPack` where what was signed does not follow from the packs that were opened.
    """
    if where.is_dir():
        folders = [where]
        if not (where / "manifest.json").exists():
            folders = sorted(entry for entry in where.iterdir() if (entry / "manifest.json").is_file())
        packs = {folder.name: open_pack(folder, admit=admission) for folder in folders}
    else:
        packs = open_bundle(where, admit=admission)
    if admission is not None:
        for pack in packs.values():
            admission.check(pack)
    return packs


def age_in_words(created_at: str | None, now: datetime) -> str | None:
    """Say how long ago something was (ISO 8601), in its largest unit; None when unknown."""
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


def judged_nothing(run: RunView) -> bool:
    """Whether no case of a run could be judged: it is no baseline."""
    return run.summary.error_cases + run.summary.skipped_cases >= run.summary.total_cases


def _no_baseline(label: str, slug: str) -> str:
    return f"{label[:1].upper()}{label[1:]} is no baseline for `{slug}`: none of its cases could be judged."


def _unfit(label: str, slug: str) -> UsageError:
    """Build the error for a baseline that the user named, and whose cases could not be judged."""
    return UsageError(
        _no_baseline(label, slug), remedy="Name a run whose cases were judged.", field="baseline"
    )


def admission_by(key: PublicKey | None, commit: str | None = None) -> Admission | None:
    """Make the check that a baseline is signed, and of the commit that its run says; None without a key."""
    return Admission(Trust(keys=(key,), expected=Expected(commit=commit))) if key is not None else None


MAX_LISTED = 200
"""Earlier runs that a platform is asked for."""

MAX_LOOKED_AT = 20
"""Earlier runs that are looked at."""

MAX_OPENED = 3
"""Earlier runs whose evidence is read: a suite that none of these has is new. Of as many it may be withheld:
a storage that is down fails for each of them, after a minute or more."""


@dataclass(frozen=True, kw_only=True)
class Ground:
    """The ground of a search for baselines.

    Attributes:
        place: None outside of a repository, where every run counts.
        wanted: Slugs of the suites.
        remedy: What a user can do where the platform does not let the job read earlier runs; a sentence.
        key: With which a baseline must have been signed; None where it need not be.
    """

    place: JobPlace | None
    wanted: Sequence[str]
    remedy: str
    key: PublicKey | None = None


def find_baselines(runs: EarlierRuns, ground: Ground) -> Search:
    """Look at reviewed runs at or before the base, the nearest first, until every suite has a baseline."""
    result = Search()
    try:
        _look_through(runs, ground, result)
    except NoHistory as reason:
        result.looked_at = None
        result.notes.append(str(reason))
    except RemoteError as error:
        remedy = f"{ground.remedy} To evaluate without a baseline, set `baseline: none`."
        result.outage = outage_of(error, remedy)
    result.settle(ground.wanted)
    return result


def find_named(run: EarlierRun, ground: Ground) -> Search:
    """Read the run that the user named: a person's decision, which needs no ancestry."""
    result, origin = Search(looked_at=1), _origin(run, "named run", None)
    try:
        opened = _read(run, ground, None)
    except Skipped as skipped:
        if isinstance(skipped.__cause__, RemoteError):  # the platform failed
            raise RemoteError(str(skipped), remedy=skipped.__cause__.remedy) from skipped
        raise _unusable(str(skipped)) from skipped
    _keep(opened, ground, result)
    for slug, (pack, seen) in opened.wanted.items():
        if judged_nothing(seen):
            raise _unfit(run.label, slug)
        result.baselines[slug] = Baseline(pack, seen, origin, named_by_user=True)
    if not result.baselines:
        raise _unusable(f"{run.label} has no evidence of {', '.join(ground.wanted)}.")
    return result


@dataclass(frozen=True)
class _Reviewed:
    """A run of a reviewed commit; `before` counts commits before the base, None for one that is after it."""

    run: EarlierRun
    commit: str | None
    before: int | None

    @property
    def how(self) -> str:
        """How it was found, as a noun."""
        if self.before is None or self.commit is None:
            return "newest run"
        return f"{count(self.before, 'commit')} before the base" if self.before else "merge base"


@dataclass(frozen=True)
class _Evidence:
    """What was read of a run: all packs by slug, and of the wanted ones what the comparison reads."""

    packs: Mapping[str, Pack]
    wanted: Mapping[str, Opened]


def _look_through(runs: EarlierRuns, ground: Ground, result: Search) -> None:
    place = ground.place
    asked = Asked(
        branches=place.branches if place is not None else (),
        commit=place.base if place is not None else None,
        before_own=place is None or place.is_reviewed,
    )
    listed = {run.number: run for run in islice(runs(asked), MAX_LISTED)}
    reviewed = list(_reviewed(listed.values(), ground, result))
    newest = max(reviewed, key=lambda row: row.run.number, default=None)
    read: dict[int, _Evidence | None] = {}
    opened = 0
    result.looked_at = 0
    nearest = sorted(
        (row for row in reviewed if row.before is not None), key=lambda row: (row.before, -row.run.number)
    )
    if place is not None and listed and not any(row.before == 0 for row in nearest):
        result.notes.append(f"There is no finished run of the base `{place.base[:7]}`.")
    for number, row in enumerate(nearest, start=1):
        result.looked_at = number
        evidence = read[row.run.number] = _try(row, ground, result)
        if evidence is not None:
            judged_all = True
            for slug, (pack, seen) in evidence.wanted.items():
                if not judged_nothing(seen):
                    origin = _origin(row.run, row.how, row.commit)
                    result.baselines.setdefault(slug, Baseline(pack, seen, origin))
                    continue
                judged_all = False
                if slug not in result.baselines:
                    result.warnings.append(_no_baseline(row.run.label, slug))
            # A run that judged nothing does not say which suites are new.
            opened += judged_all
            lacking = [slug for slug in ground.wanted if slug not in result.baselines]
            if not lacking:
                break
            if absent := [slug for slug in lacking if slug not in evidence.wanted]:
                result.notes.append(f"{row.run.title} has no evidence of `{'`, `'.join(absent)}`.")
        if max(opened, len(result.withheld)) >= MAX_OPENED or number >= MAX_LOOKED_AT:
            result.notes.append(f"Looked at {count(number, 'earlier run')}, no further.")
            break
    if newest is not None:
        # It has the longest history of all; nothing depends on it.
        evidence = read.get(newest.run.number)
        if newest.run.number not in read:
            try:
                evidence = _read(newest.run, ground, newest.commit)
            except (Skipped, InvalidPack, InvalidInput, RemoteError) as error:
                result.notes.append(f"The newest run was not read: {error}")
        if evidence is not None:
            result.newest.update({slug: pack for slug, (pack, _) in evidence.wanted.items()})
    if result.gone is None and not result.lost:
        known = {row.run.number for row in reviewed}
        _look_elsewhere([run for run in listed.values() if run.number not in known], newest, ground, result)


def _look_elsewhere(
    others: Iterable[EarlierRun], newest: _Reviewed | None, ground: Ground, result: Search
) -> None:
    """Tell a first adoption from a base that is older than every run, or a branch that was pushed over."""
    if newest is not None and result.newest:
        result.lost.append(f"{newest.run.title} left evidence, of a commit that is after the base.")
        return
    place = ground.place
    strays = (run for run in others if place is not None and run.is_own_code and run.branch in place.branches)
    run = max(strays, key=lambda run: run.number, default=None)
    if run is None:
        return
    try:
        run.fetch()
    except (Expired, Withheld):
        pass
    except Skipped:
        return
    result.lost.append(f"{run.title} left evidence, of a commit that is in no trusted branch.")


def _reviewed(runs: Iterable[EarlierRun], ground: Ground, result: Search) -> Iterator[_Reviewed]:
    """Keep the runs whose code is the repository's own, of a commit at or below the tip."""
    place = ground.place
    if place is None:
        yield from (_Reviewed(run, None, -run.number) for run in runs if run.branch is None)
        return
    below_tip = frozenset(place.clone.ancestors(place.tip, most=MAX_ANCESTORS))
    before = {sha: at for at, sha in enumerate(place.clone.ancestors(place.base, most=MAX_ANCESTORS))}
    for run in runs:
        if not run.is_own_code:
            result.notes.append(f"{run.title} was passed over: its code is not from this repository.")
            continue
        if run.branch is not None and run.branch not in place.branches:
            continue
        # Of the commits that a run may have been of, those of shared libraries are in another repository.
        commits = run.commits & below_tip
        at = [sha for sha in commits if sha in before]
        if at:
            commit = min(at, key=before.__getitem__)
            yield _Reviewed(run, commit, before[commit])
        elif commits:
            yield _Reviewed(run, min(commits), None)


def _origin(run: EarlierRun, how: str, commit: str | None) -> Origin:
    only = next(iter(run.commits)) if len(run.commits) == 1 else None
    return Origin(
        how=how, sha=commit or only, branch=run.branch, run_id=run.number, created_at=run.created_at
    )


def _try(row: _Reviewed, ground: Ground, result: Search) -> _Evidence | None:
    """Read the evidence of a run; None where it cannot be used, which is noted then."""
    run = row.run
    try:
        evidence = _read(run, ground, row.commit)
    except Expired as expired:
        result.expired = True
        result.lost.append(str(expired))
        result.notes.append(str(expired))
    except Withheld as withheld:
        result.withhold(str(withheld))
    except Skipped as skipped:
        result.notes.append(str(skipped))
    except (InvalidPack, InvalidInput) as error:
        result.withhold(f"The evidence of {run.label} does not verify and was not used: {error.message}")
    else:
        _keep(evidence, ground, result)
        return evidence
    return None


def _keep(evidence: _Evidence, ground: Ground, result: Search) -> None:
    """Note which datasets the best evidence has, and keep the newest pack of each suite."""
    if result.gone is None:
        others = (pack for slug, pack in evidence.packs.items() if slug not in ground.wanted)
        result.gone = {pack.manifest.dataset_id for pack in others}
    for slug, (pack, _) in evidence.wanted.items():
        result.newest.setdefault(slug, pack)


def _read(run: EarlierRun, ground: Ground, commit: str | None) -> _Evidence:
    """Read and verify the evidence of a run, to the end: only then does a wrong summary show.

    Raises:
        Skipped: It left none, or that of another commit than `commit`, which the platform and git name.
        Withheld: It is there and cannot be read, or does not say of which commit it is.
        InvalidPack, InvalidInput: It does not verify.
        NotEvaluable: It has two packs of one dataset.
    """
    admission = admission_by(ground.key, commit)
    packs = open_bundle(run.fetch(), source=f"the evidence of {run.label}", admit=admission)
    if admission is not None:
        for pack in packs.values():
            admission.check(pack)
    by_slug = by_dataset(packs.values(), f"The evidence of {run.label}")
    for pack in packs.values():
        evaluated = pack.config.git_commit
        if commit is None:
            break
        if evaluated is None:
            raise Withheld(f"The evidence of {run.label} does not say of which commit it is.")
        if evaluated != commit:
            raise Skipped(
                f"{run.title} is one of `{commit[:7]}`, and its evidence is of `{evaluated[:7]}`, "
                "which was checked out there: it is no baseline."
            )
    wanted = {slug: (by_slug[slug], view(by_slug[slug])) for slug in ground.wanted if slug in by_slug}
    return _Evidence(by_slug, wanted)


def _unusable(why: str) -> UsageError:
    return UsageError(
        f"The baseline cannot be used: {why}",
        remedy="Name another run in `baseline: run:ID`, or leave it out.",
        field="baseline",
    )
