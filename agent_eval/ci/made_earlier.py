"""Take the evidence that earlier jobs of the same run made, such as the merged shards of one suite.

The job judges nothing then. It takes only evidence that verifies, agrees with itself, is complete, and is of
the suites and the commit that the job itself has.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from agent_eval.ci.baseline import packs_below
from agent_eval.ci.context import JobContext
from agent_eval.ci.definitions import Target
from agent_eval.errors import InvalidInput
from agent_eval.evidence.archive import by_dataset, compact, expand
from agent_eval.evidence.layout import may_be_replaced
from agent_eval.evidence.reader import Pack, open_pack, refuse_incomplete
from agent_eval.storage.atomic import new_directories
from agent_eval.suites.reader import open_suite


def taken_packs(job: JobContext, targets: Sequence[Target], where: Path) -> dict[str, Pack]:
    """Copy the evidence of every suite into the output directory; the copies by slug.

    Args:
        job: The job.
        targets: The suites.
        where: A pack, or a directory or archive of packs.

    Raises:
        InvalidInput: It has no evidence of a suite, or two packs of it, or evidence of another version of it,
            or of another commit, or of none.
        InvalidPack: A pack does not verify, contradicts itself or is not complete.
        StorageError: It cannot be copied.
    """
    by_slug = by_dataset(packs_below(where).values(), str(where))
    for target in targets:
        if target.slug not in by_slug:
            raise _wrong(where, f"has no evidence of `{target.slug}`", "Run every suite in an earlier job.")
        _check(job, target, by_slug[target.slug], where)
    finals = [job.settings.out / target.slug for target in targets]
    with new_directories(finals, may_replace=may_be_replaced) as places:
        for target, place in zip(targets, places, strict=True):
            _copy(by_slug[target.slug], place)
    return {target.slug: open_pack(job.settings.out / target.slug) for target in targets}


def _check(job: JobContext, target: Target, pack: Pack, where: Path) -> None:
    refuse_incomplete(pack.name, pack.manifest)
    again = "Run the earlier jobs again, on the same commit."
    suite = target.source or open_suite(target.path)
    if pack.config.suite_digest != suite.digest:
        raise _wrong(where, f"is of another version of `{target.path}`", again)
    commit = job.place.head if job.place is not None else None
    if commit is not None and pack.config.git_commit is None:
        raise _wrong(where, "does not say of which commit it is", "Make it in a job of this run, or in git.")
    if commit not in (None, pack.config.git_commit):
        raise _wrong(where, "is of another commit", again)


def _copy(pack: Pack, out: Path) -> None:
    (expand if pack.manifest.layout == "files" else compact)(pack, out)


def _wrong(where: Path, what: str, remedy: str) -> InvalidInput:
    return InvalidInput(f"The evidence at {where} {what}.", remedy=remedy, file=str(where), field="evidence")
