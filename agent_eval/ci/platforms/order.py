"""The order in which earlier runs are offered as the baseline: those of the merge base, then the newest."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TypeVar

EarlierRun = TypeVar("EarlierRun")

MERGE_BASE = "merge base"


def best_first(
    runs: Iterable[tuple[str, EarlierRun]],
    *,
    key: Callable[[EarlierRun], int],
    base_sha: str | None,
    noun: str,
    notes: list[str],
) -> Iterator[tuple[str, EarlierRun]]:
    """Yield each run once, and note where none is of the merge base.

    Example:
        >>> notes: list[str] = []
        >>> runs = [("newest on main", 17), ("newest on main", 16)]
        >>> list(best_first(runs, key=int, base_sha="0a1b2c3d4e", noun="build", notes=notes))
        [('newest on main', 17), ('newest on main', 16)]
        >>> notes
        ['There is no finished build for the merge base `0a1b2c3`.']

    Args:
        runs: How each was looked for, and the run; those of `MERGE_BASE` first.
        key: The number of a run.
        base_sha: The merge base; None when unknown.
        noun: What the platform calls a run.
        notes: Takes the note.
    """
    seen: set[int] = set()
    missing = base_sha
    for how, run in runs:
        if missing is not None and how != MERGE_BASE:
            notes.append(_nothing_at(missing, noun))
        missing = None
        if key(run) not in seen:
            seen.add(key(run))
            yield how, run
    if missing is not None:
        notes.append(_nothing_at(missing, noun))


def _nothing_at(commit: str, noun: str) -> str:
    return f"There is no finished {noun} for the merge base `{commit[:7]}`."
