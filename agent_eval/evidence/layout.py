"""Where things stand in an evidence pack, and the bytes of what can be derived from something else.

`files` has a folder a case, `compact` keeps `SHARD_CASES` cases a file. Both hold the same values, so one
converts into the other byte for byte; what only `files` has (`run/events.jsonl`, `judges/`) follows from
trajectories and verdicts by the functions here.
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
"""Cases beyond which the layout `auto` is compact."""

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

TRAJECTORY = "trajectory.json"
VERDICTS = "verdicts.json"
ARTIFACTS = "artifacts"
ARTIFACT_SHARDS = f"{CASES}/artifacts-"


def choose_layout(layout: Literal["auto", "files", "compact"], case_count: int) -> Layout:
    """What `auto` means for this many cases; the others mean themselves."""
    if layout == "auto":
        return "compact" if case_count > COMPACT_BEYOND else "files"
    return layout


def case_directory(case_id: str) -> str:
    """Name of a case's directory below `cases/`: safe, and different for different ids."""
    return safe_name(case_id)


def trajectory_file(directory: str) -> str:
    """Path of a trajectory in the files layout."""
    return f"{CASES}/{directory}/{TRAJECTORY}"


def verdicts_file(directory: str) -> str:
    """Path of a case's verdicts in the files layout."""
    return f"{CASES}/{directory}/{VERDICTS}"


def artifact_file(directory: str, name: str) -> str:
    """Path of an artifact of a case in the files layout."""
    return f"{CASES}/{directory}/{ARTIFACTS}/{name}"


def judge_file(judge_id: str) -> str:
    """Path of a judge's verdicts in the files layout."""
    return f"{JUDGES}/{safe_name(judge_id)}.json"


def trajectories_shard(shard: int) -> str:
    """Path of a shard of trajectories in the compact layout."""
    return f"{CASES}/trajectories-{shard:05d}.jsonl"


def verdicts_shard(shard: int) -> str:
    """Path of a shard of verdicts in the compact layout."""
    return f"{CASES}/verdicts-{shard:05d}.jsonl"


def artifacts_shard(shard: int) -> str:
    """Path of a shard of artifacts in the compact layout; there is none where no case has any."""
    return f"{ARTIFACT_SHARDS}{shard:05d}.jsonl"


def event_lines(run_id: str, dataset_id: str, case: dict[str, Any]) -> Iterator[bytes]:
    """A case's lines of `run/events.jsonl`; events of further trials carry their `trial`.

    Args:
        run_id: The run.
        dataset_id: Its dataset.
        case: A trajectory as plain JSON. What its events say of run, dataset or case gives way.
    """
    owner = {"run_id": run_id, "dataset_id": dataset_id, "case_id": case["case_id"]}
    for event in case.get("trace", ()):
        yield dumps({**event, **owner}) + b"\n"
    for number, trial in enumerate(case.get("trials") or (), start=1):
        for event in trial["trace"]:
            yield dumps({**event, **owner, "trial": number}) + b"\n"


class IndentedList:
    """The bytes of `dumps(list, indent=True)`, produced item by item.

    `separator` is what goes before the next item, `end` what goes after the last.
    """

    def __init__(self) -> None:
        self._empty = True

    def item(self, value: Any) -> bytes:
        """The next item's bytes, with what separates it from the one before."""
        return self.separator() + indented_item(value)

    def separator(self) -> bytes:
        """What stands before the next item."""
        first, self._empty = self._empty, False
        return b"[\n" if first else b",\n"

    def end(self) -> bytes:
        """What stands after the last item."""
        return b"[]\n" if self._empty else b"\n]\n"


def indented_item(value: Any) -> bytes:
    """A value as it stands in an indented list: two spaces deeper, no separator.

    JSON strings hold no raw line feed, so every line feed is one between lines.
    """
    return b"  " + dumps(value, indent=True)[:-1].replace(b"\n", b"\n  ")


_OWN_NAMES = frozenset({MANIFEST, DERIVED, "run", CASES, JUDGES, COMPARE, ATTESTATIONS})


def may_be_replaced(out: Path) -> bool:
    """Whether `out` is a pack that a new one may take the place of; False when nothing is there.

    A pack is ours to replace when it has our manifest and nothing lies in it that no manifest knows.

    Raises:
        UsageError: Something else is there, which nobody asked to lose.
        StorageError: It cannot be looked at.
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
    """Refuse a pack at `out` into which something was written after its run: replacing it would lose that.

    Raises:
        UsageError: There are such files.
    """
    written = _derived_paths(out)
    written += [name for name in (COMPARE, ATTESTATIONS) if not written and (out / name).exists()]
    if written:
        more = f" and {count(len(written) - 1, 'more file')}" if len(written) > 1 else ""
        raise UsageError(
            f"{out} holds what was written into it after its run, which converting would lose: "
            f"{written[0]}{more}",
            remedy="Choose another directory, or move these files elsewhere first.",
            file=str(out / written[0]),
        )


def is_complete_pack(out: Path) -> bool:
    """Whether the pack of a run that came to its end is at `out`."""
    try:
        return Manifest.model_validate(read_json(out / MANIFEST)).complete
    except (InvalidInput, ValidationError):
        return False


def _derived_names(out: Path) -> set[str]:
    """First path components of what was written into the pack after it was sealed."""
    return {path.split("/")[0] for path in _derived_paths(out)}


def _derived_paths(out: Path) -> list[str]:
    try:
        derived = DerivedManifest.model_validate(read_json(out / DERIVED))
    except (InvalidInput, ValidationError):
        return []
    return [entry.path for entry in derived.files]
