"""Finding the evidence of an earlier run to compare with. What a platform offers is looked at in order;
what cannot be used is passed over and said."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

from agent_eval.comparison.facts import RunView
from agent_eval.contracts.registry import BaselineEntry
from agent_eval.errors import InvalidInput, InvalidPack, RemoteError, UsageError
from agent_eval.evidence.archive import open_bundle
from agent_eval.evidence.reader import Pack, open_pack
from agent_eval.http.client import AnswerTooLarge, HttpError
from agent_eval.operations.packs import view
from agent_eval.registry.baselines import ResolvedBaseline
from agent_eval.registry.store import find
from agent_eval.storage.files import safe_name, sha256_bytes

MAX_LOOKED_AT = 20
"""Earlier runs that are looked at."""

MAX_OPENED = 3
"""Earlier runs whose evidence is read: a suite that none of these has is new."""

MAX_ARCHIVE_BYTES = 256 << 20
"""The largest evidence archive that is read."""

_NOT_KNOWN = 401
_REFUSED = frozenset({403, 404})


@dataclass(frozen=True, kw_only=True)
class Origin:
    """Where a baseline comes from. `how` is a noun; see `reports.model.BaselineInfo`."""

    how: str
    sha: str | None = None
    branch: str | None = None
    run_id: int | None = None
    run_url: str | None = None
    created_at: str | None = None


@dataclass(frozen=True, slots=True)
class Candidate:
    """An earlier run whose evidence may be the baseline.

    Args:
        label: How notes call it, such as `run 17`.
        origin: Where it comes from.
        fetch: Its evidence archive; raises `Skipped` when there is none to use.
        demanded: The user named it, so that every fault of it is an error.
    """

    label: str
    origin: Origin
    fetch: Callable[[], bytes]
    demanded: bool = False


@dataclass(frozen=True, slots=True)
class Baseline:
    """A verified pack, what comparison reads of it, and where it comes from."""

    pack: Pack
    view: RunView
    origin: Origin
    demanded: bool = False
    """The user named it."""


@dataclass(slots=True)
class Search:
    """What a search brought.

    Args:
        found: Baselines by slug.
        notes: What was passed over, sentences without weight.
        warnings: What someone should look at: damaged evidence, a missing permission.
        outage: Why the search could not be finished; empty when it was. No finding then means nothing.
        looked_at: How many earlier runs there were to look at; None where nobody looked for any.
        gone: Datasets of the best evidence found that this run has no suite for, with their number of cases;
            None while no evidence was found.
    """

    found: dict[str, Baseline] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    outage: str = ""
    looked_at: int | None = None
    gone: dict[str, int] | None = None


Opened = tuple[Pack, RunView]


class Skipped(Exception):
    """This candidate has no evidence that can be used; the text says why, as a sentence."""

    def __init__(self, why: str, *, loud: bool = False) -> None:
        super().__init__(why)
        self.loud = loud


def refuse_large_archive(size: int, label: str) -> None:
    """Refuse an evidence archive of more than `MAX_ARCHIVE_BYTES` before it is read.

    Raises:
        Skipped: It is too large.
    """
    if size > MAX_ARCHIVE_BYTES:
        raise Skipped(
            f"The evidence of {label} is too large: {size:,} bytes, at most {MAX_ARCHIVE_BYTES:,} are read."
        )


def checked_archive(data: bytes, sha256: str | None, label: str) -> bytes:
    """Return an evidence archive that is what the platform recorded of it.

    Args:
        data: The archive.
        sha256: The digest that the platform recorded; None where it records none.
        label: What notes call the run.

    Raises:
        Skipped: It is not; the warning is shown at the top.
    """
    if sha256 is not None and sha256_bytes(data) != sha256:
        raise Skipped(
            f"The evidence of {label} is not what was recorded (its digest differs); it was not used.",
            loud=True,
        )
    return data


class NoHistory(Exception):
    """Earlier runs cannot be looked at from here; the text says why, as a sentence."""


def search(
    candidates: Callable[[list[str]], Iterable[Candidate]],
    wanted: Sequence[str],
    *,
    remedy: str,
    demanded: bool = False,
) -> Search:
    """Look at candidates in their order until every suite has a baseline, or a bound is reached.

    Args:
        candidates: Given a list for notes, yields what to look at, the best first.
        wanted: Slugs of the suites.
        remedy: What a user can do where the platform does not let the job read earlier runs; a phrase.
        demanded: The user named the run, so that finding nothing is an error.

    Raises:
        AgentEvalError: What the user named cannot be used.
    """
    result = Search()
    try:
        _look_through(candidates, wanted, result)
    except NoHistory as reason:
        result.looked_at = None
        result.notes.append(str(reason))
    except RemoteError as error:
        if demanded:
            raise
        status = error.status if isinstance(error, HttpError) else None
        if status == _NOT_KNOWN:
            result.outage = (
                "The token was not accepted (HTTP 401): it is wrong or expired, or belongs to another server."
            )
        elif status in _REFUSED:
            result.warnings.append(f"Earlier runs cannot be read (HTTP {status}): {remedy}.")
        else:
            result.outage = error.message
    if demanded and not result.found:
        raise UsageError(
            f"The baseline cannot be used: {' '.join(result.notes)}",
            remedy="Name another run, or leave `baseline-run-id` out.",
            field="baseline-run-id",
        )
    return result


def _look_through(
    candidates: Callable[[list[str]], Iterable[Candidate]], wanted: Sequence[str], result: Search
) -> None:
    opened = 0
    result.looked_at = 0
    for number, candidate in enumerate(candidates(result.notes), start=1):
        result.looked_at = number
        packs = _packs(candidate, wanted, result)
        if packs is not None:
            opened += 1
            for slug, (pack, seen) in packs.items():
                result.found.setdefault(slug, Baseline(pack, seen, candidate.origin, candidate.demanded))
            lacking = [slug for slug in wanted if slug not in result.found]
            if not lacking:
                return
            result.notes.append(f"{_capital(candidate.label)} has no evidence of `{'`, `'.join(lacking)}`.")
        if opened >= MAX_OPENED or number >= MAX_LOOKED_AT:
            result.notes.append(f"Looked at {number} earlier runs, no further.")
            return


def _packs(candidate: Candidate, wanted: Sequence[str], result: Search) -> dict[str, Opened] | None:
    try:
        packs = open_bundle(candidate.fetch(), source=f"the evidence of {candidate.label}")
        opened = _opened(packs, wanted)
    except Skipped as skipped:
        if candidate.demanded:
            raise UsageError(
                f"The baseline cannot be used: {skipped}",
                remedy="Name another run, or leave `baseline-run-id` out.",
                field="baseline-run-id",
            ) from skipped
        (result.warnings if skipped.loud else result.notes).append(str(skipped))
    except (InvalidPack, InvalidInput) as error:
        if candidate.demanded:
            raise
        result.warnings.append(
            f"The evidence of {candidate.label} does not verify and was not used: {error.message}"
        )
    except AnswerTooLarge as error:
        if candidate.demanded:
            raise
        result.notes.append(f"The evidence of {candidate.label} is too large: {error.message}")
    else:
        if result.gone is None:
            result.gone = _gone(packs, wanted)
        return opened
    return None


def _opened(packs: dict[str, Pack], wanted: Sequence[str]) -> dict[str, Opened]:
    """The wanted packs by the slug of their dataset, wherever they lie, read to the end.

    Reading the verdicts is part of verifying: a summary that disagrees with them shows only then.
    """
    by_slug = {safe_name(pack.manifest.dataset_id): pack for pack in packs.values()}
    return {slug: (by_slug[slug], view(by_slug[slug])) for slug in wanted if slug in by_slug}


def _gone(packs: Mapping[str, Pack], wanted: Sequence[str]) -> dict[str, int]:
    """What is evaluated no more. Nothing compares these cases, so that losing them must be said."""
    return {
        pack.manifest.dataset_id: pack.summary.total_cases
        for pack in packs.values()
        if safe_name(pack.manifest.dataset_id) not in wanted
    }


def from_path(where: Path, wanted: Sequence[str]) -> Search:
    """The baseline at a path the user gave: a pack, an archive, or a directory of packs by slug.

    Raises:
        InvalidInput: There is nothing there, or no pack for any of the suites.
        InvalidPack: A pack does not verify.
    """
    if not where.exists():
        raise InvalidInput(
            f"The baseline {where} does not exist.",
            remedy="Give `auto`, `none`, or the path of an evidence pack or archive.",
            file=str(where),
            field="baseline",
        )
    packs = _packs_below(where)
    opened = _opened(packs, wanted)
    found = {
        slug: Baseline(pack, seen, Origin(how="path"), demanded=True) for slug, (pack, seen) in opened.items()
    }
    if not found:
        has = ", ".join(sorted(safe_name(pack.manifest.dataset_id) for pack in packs.values())) or "none"
        raise InvalidInput(
            f"The baseline {where} has no evidence of {', '.join(wanted)}; it has: {has}.",
            remedy="Give the evidence of a run of the same suite.",
            file=str(where),
            field="baseline",
        )
    notes = [
        f"The baseline at the given path has no evidence of `{slug}`." for slug in wanted if slug not in found
    ]
    return Search(found=found, notes=notes, gone=_gone(packs, wanted))


def from_registry(entry: BaselineEntry, registry: Path, wanted: Sequence[str]) -> Search:
    """The baseline that a registry keeps under a name.

    Raises:
        InvalidInput: It is not there any more, or of none of the suites.
        InvalidPack: It does not verify, or another pack lies in its place.
    """
    where = find(entry.run_path, registry)
    result = from_path(where, wanted)
    for baseline in result.found.values():
        ResolvedBaseline(where, entry).check(baseline.pack.manifest_sha256)
    return result


def _packs_below(where: Path) -> dict[str, Pack]:
    if where.is_dir() and not (where / "manifest.json").exists():
        folders = sorted(entry for entry in where.iterdir() if (entry / "manifest.json").is_file())
        return {folder.name: open_pack(folder) for folder in folders}
    return {where.name: open_pack(where)} if where.is_dir() else open_bundle(where)


def age_in_words(created_at: str | None, now: datetime) -> str | None:
    """How long ago, in the largest unit that says something; None when unknown.

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
