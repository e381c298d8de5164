"""Paths within an evidence pack, and the bytes of files that follow from other files.

The layout `files` has a folder for each case, `compact` a file for `SHARD_CASES` cases. Both contain the same
values, so that each converts into the other byte for byte; the functions here derive what only `files` has
(`run/events.jsonl`, `judges/`) from trajectories and verdicts.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal

from pydantic import ValidationError

from agent_eval.contracts import DerivedManifest, Manifest
from agent_eval.errors import InvalidInput, StorageError, UsageError
from agent_eval.storage.files import safe_name
from agent_eval.storage.json import dumps, read_json
from agent_eval.text.numbers import count

Layout = Literal["files", "compact"]

COMPACT_BEYOND = 2_000
"""Number of cases beyond which the layout `auto` is compact."""

MANIFEST = "manifest.json"
DERIVED = "derived.json"
CONFIG = "run/config.json"
SUMMARY = "run/summary.json"
INDEX = "run/index.jsonl"
EVENTS = "run/events.jsonl"
JUDGES = "judges"
CASES = "cases"
COMPARE = "compare"
ATTESTATIONS = "attestations"
HISTORY = "history"

RERUNS = f"{COMPARE}/reruns.json"
"""What a job ran again (`contracts.reruns`)."""
RERUNS_ARCHIVE = f"{COMPARE}/reruns.zip"
"""The packs of that."""
HISTORY_USED = f"{COMPARE}/history.jsonl"
"""The records of main's runs that a decision rests on (`history.records`)."""

TRAJECTORY = "trajectory.json"
VERDICTS = "verdicts.json"
ARTIFACTS = "artifacts"
TRAJECTORY_SHARDS = f"{CASES}/trajectories-"
"""How the path of a shard of trajectories begins."""


def choose_layout(layout: Literal["auto", "files", "compact"], case_count: int) -> Layout:
    """Choose the layout of a pack: `auto` depends on the number of cases."""
    if layout == "auto":
        return "compact" if case_count > COMPACT_BEYOND else "files"
    return layout


def case_directory(case_id: str) -> str:
    """Return the name of a case's directory below `cases/`: safe, and different for different ids."""
    return safe_name(case_id)


def trajectory_file(directory: str) -> str:
    """Return the path of a trajectory in the files layout."""
    return f"{CASES}/{directory}/{TRAJECTORY}"


def verdicts_file(directory: str) -> str:
    """Return the path of a case's verdicts in the files layout."""
    return f"{CASES}/{directory}/{VERDICTS}"


def artifact_file(directory: str, name: str) -> str:
    """Return the path of an artifact of a case in the files layout."""
    return f"{CASES}/{directory}/{ARTIFACTS}/{name}"


def judge_file(judge_id: str) -> str:
    """Return the path of a judge's verdicts in the files layout."""
    return f"{JUDGES}/{safe_name(judge_id)}.json"


def trajectories_shard(shard: int) -> str:
    """Return the path of a shard of trajectories in the compact layout."""
    return f"{TRAJECTORY_SHARDS}{shard:05d}.jsonl"


def verdicts_shard(shard: int) -> str:
    """Return the path of a shard of verdicts in the compact layout."""
    return f"{CASES}/verdicts-{shard:05d}.jsonl"


def artifacts_shard(shard: int) -> str:
    """Return the path of a shard of artifacts in the compact layout; a shard without any has no file."""
    return f"{CASES}/artifacts-{shard:05d}.jsonl"


def event_lines(run_id: str, dataset_id: str, case: dict[str, Any]) -> Iterator[bytes]:
    """Yield the lines of a case in `run/events.jsonl`; events of further trials have their `trial`.

    The ids replace any in the events.
    """
    owner = {"run_id": run_id, "dataset_id": dataset_id, "case_id": case["case_id"]}
    for event in case.get("trace", ()):
        yield dumps({**event, **owner}) + b"\n"
    for number, trial in enumerate(case.get("trials") or (), start=1):
        for event in trial["trace"]:
            yield dumps({**event, **owner, "trial": number}) + b"\n"


class IndentedList:
    """Write a list item by item, with the same bytes as `dumps(list, indent=True)`.

    Use it for lists that are too long for memory. `separator` goes before each item, `end` after the last.
    """

    def __init__(self) -> None:
        self._empty = True

    def item(self, value: Any) -> bytes:
        """Return the bytes of the next item, with the separator before it."""
        return self.separator() + indented_item(value)

    def separator(self) -> bytes:
        """Return the bytes before the next item."""
        first, self._empty = self._empty, False
        return b"[\n" if first else b",\n"

    def end(self) -> bytes:
        """Return the bytes after the last item."""
        return b"[]\n" if self._empty else b"\n]\n"


def indented_item(value: Any) -> bytes:
    """Encode a value as an item of an indented list: two spaces deeper, without separator.

    JSON strings contain no raw line feed, so every line feed separates lines.
    """
    return b"  " + dumps(value, indent=True)[:-1].replace(b"\n", b"\n  ")


_OWN_NAMES = frozenset({MANIFEST, DERIVED, "run", CASES, JUDGES, COMPARE, ATTESTATIONS, HISTORY})


def may_be_replaced(out: Path) -> bool:
    """Tell whether `out` is a pack, which a new one may replace; False when nothing is there.

    Only packs without unlisted files at their top level may be replaced.

    Raises:
        UsageError: `out` contains something else, which would be lost.
        StorageError: `out` cannot be read.
    """
    try:
        names = set(os.listdir(out))
    except (FileNotFoundError, NotADirectoryError):
        return False
    except OSError as error:
        raise StorageError(
            f"{out} cannot be read: {error.strerror}", remedy="Check its permissions.", file=str(out)
        ) from error
    if not names:
        return False
    try:
        Manifest.model_validate(read_json(out / MANIFEST))
    except (InvalidInput, ValidationError):
        raise UsageError(
            f"{out} is not empty and is not an evidence pack",
            remedy="Choose another directory or empty this one.",
            file=str(out),
        ) from None
    strange = sorted(names - _OWN_NAMES - _derived_names(out))
    if strange:
        raise UsageError(
            f"{out} is an evidence pack, but {strange[0]!r} in it is not part of it",
            remedy="Move it elsewhere, or choose another directory.",
            file=str(out / strange[0]),
        )
    return True


def refuse_to_lose_outputs(out: Path) -> None:
    """Refuse a pack at `out` into which files were written after its run: replacing it would lose them."""
    written = _derived_paths(out)
    written += [name for name in (COMPARE, ATTESTATIONS) if not written and (out / name).exists()]
    if written:
        more = f" and {count(len(written) - 1, 'more file')}" if len(written) > 1 else ""
        raise UsageError(
            f"{out} contains files that were written after its run, which converting would lose: "
            f"{written[0]}{more}",
            remedy="Choose another directory, or move these files elsewhere first.",
            file=str(out / written[0]),
        )


def is_complete_pack(out: Path) -> bool:
    """Tell whether the pack of a complete run is at `out`."""
    try:
        return Manifest.model_validate(read_json(out / MANIFEST)).complete
    except (InvalidInput, ValidationError):
        return False


def _derived_names(out: Path) -> set[str]:
    """Collect the first path components of the files that were written into the pack after it was sealed."""
    return {path.split("/")[0] for path in _derived_paths(out)}


def _derived_paths(out: Path) -> list[str]:
    try:
        derived = DerivedManifest.model_validate(read_json(out / DERIVED))
    except (InvalidInput, ValidationError):
        return []
    return [entry.path for entry in derived.files]
