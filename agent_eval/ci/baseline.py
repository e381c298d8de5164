"""Find the evidence of an earlier run to compare with.

A platform offers candidates, the best first. A candidate that cannot be used is skipped, and a note or a
warning says why.

Only a platform that answers, and answers that there is none, leaves a suite without a baseline. Evidence that
is there and cannot be read is withheld: an older run may stand in for it, but where none does, the search
ends in an outage, and the job in an error.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

from agent_eval.ci.candidates import Candidate, NoHistory, Origin, Skipped, Withheld
from agent_eval.comparison.facts import RunView
from agent_eval.contracts import RunSummary
from agent_eval.contracts.registry import BaselineEntry
from agent_eval.errors import AgentEvalError, InvalidInput, InvalidPack, RemoteError, UsageError
from agent_eval.evidence.archive import open_bundle
from agent_eval.evidence.reader import Pack, open_pack
from agent_eval.contracts.history import RunRecord
from agent_eval.http.errors import HttpError, RateLimited
from agent_eval.operations.packs import view
from agent_eval.operations.trusted_packs import Admission
from agent_eval.registry.baselines import ResolvedBaseline
from agent_eval.registry.store import path_from_registry
from agent_eval.storage.files import safe_name
from agent_eval.text.numbers import count

MAX_LOOKED_AT = 20
"""Earlier runs that are looked at."""

MAX_OPENED = 3
"""Earlier runs whose evidence is read: a suite that none of these has is new."""

MAX_SECONDS_WITHHELD = 600.0
"""Once evidence was withheld, no further run is begun with after so many seconds of searching."""

_NOT_KNOWN = 401
_REFUSED = frozenset({403, 404})


@dataclass(frozen=True, slots=True)
class Baseline:
    """The baseline of one suite.

    Example:
        `from_path(Path("before/evidence.zip"), ["shop"]).baselines["shop"]` is one.

    Args:
        pack: Verified.
        view: What the comparison reads of the pack.
        origin: Its source.
        named_by_user: Whether the user named it.
    """

    pack: Pack
    view: RunView
    origin: Origin
    named_by_user: bool = False


@dataclass(frozen=True, slots=True)
class Outage:
    """Why a search for baselines found nothing that it may rely on. A missing baseline means nothing then.

    Example:
        >>> Outage("Requests are limited until 10:42 UTC.", "Run the job again after that.").remedy
        'Run the job again after that.'

    Args:
        cause: One or two sentences.
        remedy: What a user can do, as a sentence.
    """

    cause: str
    remedy: str


@dataclass(slots=True)
class Search:
    """The result of a search for baselines.

    Example:
        >>> find_baselines(lambda notes: [], ["shop"], remedy="Check the token.").looked_at
        0

    Args:
        baselines: By the slug of the suite.
        notes: Which candidates were skipped and why; nothing a user must act on.
        warnings: What a user should act on: damaged evidence, a missing permission.
        withheld: Which candidates have evidence that could not be read, and why; also in notes or warnings.
        outage: Why a baseline may be missing although there is one; None where none is missing so.
        looked_at: How many earlier runs were looked at; None where the job looked for none.
        newest: The first evidence that was read of each suite, by its slug; it may be no baseline.
        earlier: The history of the base branch by slug, the newest run first.
        gone: Datasets of the best evidence that this run has no suite for, with their number of cases; None
            while no evidence was found.
    """

    baselines: dict[str, Baseline] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    withheld: list[str] = field(default_factory=list)
    outage: Outage | None = None
    looked_at: int | None = None
    newest: dict[str, Pack] = field(default_factory=dict)
    earlier: dict[str, list[RunRecord]] = field(default_factory=dict)
    gone: dict[str, int] | None = None

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


def find_baselines(
    candidates: Callable[[list[str]], Iterable[Candidate]],
    wanted: Sequence[str],
    *,
    remedy: str,
    unfit: Unfit = lambda _: "",
    named_by_user: bool = False,
    clock: Callable[[], float] = time.monotonic,
) -> Search:
    """Look at candidates in their order until every suite has a baseline, or a bound is reached.

    Args:
        candidates: Yields candidates, the best first, and notes in its argument which runs it skips.
        wanted: Slugs of the suites.
        remedy: What a user can do where the platform does not let the job read earlier runs; a sentence.
        unfit: Says why a run is no baseline, as a clause; empty for one that is.
        named_by_user: Whether the user named the run, so that finding nothing is an error.
        clock: Seconds from any beginning, for the bound of a search in which evidence is withheld.

    Raises:
        AgentEvalError: What the user named cannot be used.
    """
    result = Search()
    try:
        _look_through(candidates, wanted, result, unfit, clock)
    except NoHistory as reason:
        result.looked_at = None
        result.notes.append(str(reason))
    except RemoteError as error:
        if named_by_user:
            raise
        result.outage = _outage(error, remedy)
    if named_by_user and not result.baselines:
        raise UsageError(
            f"The baseline cannot be used: {' '.join(result.notes)}",
            remedy="Name another run, or leave `baseline-run-id` out.",
            field="baseline-run-id",
        )
    result.settle(wanted)
    return result


def _outage(error: RemoteError, remedy: str) -> Outage:
    """Tell a limit, a wrong token and a missing permission apart, which may have the same status."""
    status = error.status if isinstance(error, HttpError) else None
    if status == _NOT_KNOWN:
        return Outage(
            "The token was not accepted (HTTP 401).",
            "It is wrong or expired, or belongs to another server: correct it.",
        )
    if status in _REFUSED and not isinstance(error, RateLimited):
        return Outage(error.message, f"{remedy} To evaluate without a baseline, set `baseline: none`.")
    return Outage(error.message, error.remedy)


def _look_through(
    candidates: Callable[[list[str]], Iterable[Candidate]],
    wanted: Sequence[str],
    result: Search,
    unfit: Unfit,
    clock: Callable[[], float],
) -> None:
    begun = clock()
    opened = 0
    result.looked_at = 0
    for number, candidate in enumerate(candidates(result.notes), start=1):
        result.looked_at = number
        packs = _packs(candidate, wanted, result)
        if packs is not None:
            fit = _fit(packs, candidate, result, unfit)
            # A run that judged nothing does not say which suites are new.
            opened += len(fit) == len(packs)
            for slug, (pack, seen) in fit.items():
                baseline = Baseline(pack, seen, candidate.origin, candidate.named_by_user)
                result.baselines.setdefault(slug, baseline)
            lacking = [slug for slug in wanted if slug not in result.baselines]
            if not lacking:
                return
            if absent := [slug for slug in lacking if slug not in packs]:
                result.notes.append(
                    f"{_capital(candidate.label)} has no evidence of `{'`, `'.join(absent)}`."
                )
        too_long = bool(result.withheld) and clock() - begun > MAX_SECONDS_WITHHELD
        if opened >= MAX_OPENED or number >= MAX_LOOKED_AT or too_long:
            result.notes.append(f"Looked at {count(number, 'earlier run')}, no further.")
            return


def _fit(packs: dict[str, Opened], candidate: Candidate, result: Search, unfit: Unfit) -> dict[str, Opened]:
    """Keep the runs that can be a baseline; warn of the others, if a baseline is still wanted."""
    fit = {}
    for slug, (pack, seen) in packs.items():
        why = unfit(seen.summary)
        if not why:
            fit[slug] = (pack, seen)
        elif candidate.named_by_user:
            raise _unfit_baseline(candidate.label, slug, why)
        elif slug not in result.baselines:
            result.warnings.append(f"{_capital(candidate.label)} is no baseline for `{slug}`: {why}.")
    return fit


def _unfit_baseline(label: str, slug: str, why: str) -> UsageError:
    """Build the error for a baseline that the user named, and whose cases could not be judged."""
    return UsageError(
        f"{_capital(label)} is no baseline for `{slug}`: {why}.",
        remedy="Name a run whose cases were judged, or allow more errors with `max-baseline-error-rate`.",
        field="baseline",
    )


def _packs(candidate: Candidate, wanted: Sequence[str], result: Search) -> dict[str, Opened] | None:
    try:
        source = f"the evidence of {candidate.label}"
        packs = open_bundle(candidate.fetch(), source=source, admit=candidate.admission)
        _check_statements(packs, candidate.admission)
        opened = _opened(packs, wanted)
    except Skipped as skipped:
        if candidate.named_by_user:
            raise _unusable(skipped) from skipped
        if isinstance(skipped, Withheld):
            result.withhold(str(skipped), loud=skipped.loud)
        else:
            (result.warnings if skipped.loud else result.notes).append(str(skipped))
    except (InvalidPack, InvalidInput) as error:
        if candidate.named_by_user:
            raise
        result.withhold(
            f"The evidence of {candidate.label} does not verify and was not used: {error.message}", loud=True
        )
    else:
        if result.gone is None:
            result.gone = _lost_datasets(packs, wanted)
        for slug, (pack, _) in opened.items():
            result.newest.setdefault(slug, pack)
        return opened
    return None


def _unusable(skipped: Skipped) -> AgentEvalError:
    """Build the error for a run that the user named: an outage where the platform failed."""
    if isinstance(skipped.__cause__, RemoteError):
        return RemoteError(str(skipped), remedy=skipped.__cause__.remedy)
    return UsageError(
        f"The baseline cannot be used: {skipped}",
        remedy="Name another run, or leave `baseline-run-id` out.",
        field="baseline-run-id",
    )


def _opened(packs: dict[str, Pack], wanted: Sequence[str]) -> dict[str, Opened]:
    """Read the wanted packs to the end, by the slug of their dataset, whatever their directory is called.

    Reading the verdicts is part of verifying: only then does a summary that disagrees with them show.
    """
    by_slug = {safe_name(pack.manifest.dataset_id): pack for pack in packs.values()}
    return {slug: (by_slug[slug], view(by_slug[slug])) for slug in wanted if slug in by_slug}


def _lost_datasets(packs: Mapping[str, Pack], wanted: Sequence[str]) -> dict[str, int]:
    """Count the cases of datasets that are not evaluated any more: no comparison would show their loss."""
    return {
        pack.manifest.dataset_id: pack.summary.total_cases
        for pack in packs.values()
        if safe_name(pack.manifest.dataset_id) not in wanted
    }


def from_path(
    where: Path, wanted: Sequence[str], unfit: Unfit = lambda _: "", admission: Admission | None = None
) -> Search:
    """Read the baseline at a path that the user gave: a pack, an archive, or a directory of packs by slug.

    Args:
        where: The path.
        wanted: Slugs of the suites.
        unfit: Says why a run is no baseline, as a clause; empty for one that is.
        admission: Check of its signature; None where it need not be signed.

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
    _check_statements(packs, admission)
    opened = _opened(packs, wanted)
    baselines = {
        slug: Baseline(pack, seen, Origin(how="path"), named_by_user=True)
        for slug, (pack, seen) in opened.items()
    }
    for slug, baseline in baselines.items():
        if why := unfit(baseline.view.summary):
            raise _unfit_baseline(f"the run at {where}", slug, why)
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
    newest = {slug: pack for slug, (pack, _) in opened.items()}
    return Search(baselines=baselines, notes=notes, newest=newest, gone=_lost_datasets(packs, wanted))


def from_registry(
    entry: BaselineEntry,
    registry: Path,
    wanted: Sequence[str],
    unfit: Unfit = lambda _: "",
    admission: Admission | None = None,
) -> Search:
    """Read the baseline that a registry has under a name.

    Raises:
        InvalidInput: It is missing, or of none of the suites.
        InvalidPack: It does not verify, or is not the pack that was registered.
        UsageError: It is no baseline, as `unfit` says.
    """
    where = path_from_registry(entry.run_path, registry)
    result = from_path(where, wanted, unfit, admission)
    for baseline in result.baselines.values():
        ResolvedBaseline(where, entry).check(baseline.pack.manifest_sha256)
    return result


def _check_statements(packs: Mapping[str, Pack], admission: Admission | None) -> None:
    if admission is not None:
        for pack in packs.values():
            admission.check(pack)


def packs_below(where: Path, admission: Admission | None = None) -> dict[str, Pack]:
    """Open and verify the packs at a path: a pack, an archive, or a directory of packs; by their directory.

    Raises:
        InvalidInput: There is none.
        InvalidPack: A pack does not verify.
    """
    if where.is_dir() and not (where / "manifest.json").exists():
        folders = sorted(entry for entry in where.iterdir() if (entry / "manifest.json").is_file())
        return {folder.name: open_pack(folder, admit=admission) for folder in folders}
    if where.is_dir():
        return {where.name: open_pack(where, admit=admission)}
    return open_bundle(where, admit=admission)


def age_in_words(created_at: str | None, now: datetime) -> str | None:
    """Say how long ago something was, in its largest unit; None when unknown.

    Example:
        >>> age_in_words("2026-01-12T09:00:00Z", datetime(2026, 1, 14, 10, tzinfo=UTC))
        '2 days'

    Args:
        created_at: ISO 8601.
        now: With its offset.
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


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]
