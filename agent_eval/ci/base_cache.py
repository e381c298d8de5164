"""Trials of the merge base's agent from an earlier run, which can only make a verdict stricter.

A change that is pushed again has the same merge base. Of a case whose trials the merge base's agent passed
all, later runs within a day need only the first two again. The change's own agent, in an earlier run, can
write into the directory and gains nothing: no other trials are taken from it, and against a merge base that
passes always the change is held most strictly.
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

from agent_eval import __version__
from agent_eval.contracts.base import digest, instant
from agent_eval.contracts.confirmation import FreshTrials
from agent_eval.errors import AgentEvalError
from agent_eval.evidence.archive import open_bundle, write_bundle
from agent_eval.evidence.reader import Pack
from agent_eval.history.key import key_parts
from agent_eval.operations.confirmation import failing_judges, fresh_result, is_judged_alike
from agent_eval.storage.archive import ZipArchive
from agent_eval.storage.files import read_bytes

MAX_AGE = timedelta(hours=24)
"""Older trials are not used: models and services drift from one day to the next."""

FRESH_FIRST = 2
"""Trials of the merge base that are run before earlier ones take the place of the others: an outage, or
dependencies that changed since, show in these."""

_LARGEST_ENTRY = 64 << 20
_ENTRY = re.compile(r"[0-9a-f]{64}\.zip")


@dataclass(frozen=True)
class CachedArm:
    """Earlier trials of the merge base on one case, all of which passed.

    Example:
        >>> CachedArm("2026-06-01T00:00:00+00:00", [{"manifest.json": b"{}"}]).started_at[:10]
        '2026-06-01'

    Args:
        started_at: When the oldest began: ISO 8601 with its offset.
        packs: The files of the pack of each trial, by path.
    """

    started_at: str
    packs: Sequence[Mapping[str, bytes]]


class BaseCache:
    """A directory with one archive for each case, under the digest of all that its trials depend on.

    Example:
        `BaseCache(Path("/cache"), pack, commit=sha, agent=repr(settings), pairs=6, now=now).find("refund")`
        is None until `keep` wrote the trials of that case.

    Args:
        root: The directory; created when the first trials are kept.
        first: The candidate's first run, with the cases and judges that count.
        commit: The merge base.
        agent: How the merge base's agent is set up, run and limited.
        pairs: The number of trials of each side.
        now: The time of the job, with its offset.
    """

    def __init__(
        self, root: Path, first: Pack, *, commit: str, agent: str, pairs: int, now: datetime
    ) -> None:
        self._root, self._first, self._commit = root, first, commit
        self._pairs, self._now = pairs, now
        self._common: dict[str, Any] = {
            "tool": __version__,
            "commit": commit,
            "agent": agent,
            "pairs": pairs,
            "run": key_parts(first.config),
        }

    def find(self, case_id: str) -> CachedArm | None:
        """Read the trials of a case; None where there are none, or any of them does not count.

        What cannot be read counts as absent: the trials are then run.
        """
        if self._pairs <= FRESH_FIRST:
            return None
        try:
            data = read_bytes(self._path(case_id), max_bytes=_LARGEST_ENTRY)
            packs = open_bundle(data, source="base-cache")
            started = [instant(pack.config.started_at) for pack in packs.values()]
            if not self._are_usable(case_id, packs, started):
                return None
            with ZipArchive(data, source="base-cache") as archive:
                return CachedArm(min(started).isoformat(), [_files(archive, name) for name in sorted(packs)])
        except (AgentEvalError, ValueError):
            return None

    def keep(self, row: FreshTrials, packs: Sequence[Path]) -> None:
        """Write the trials of a case that the merge base passed all, and that were all run just now.

        Args:
            row: The results of the case.
            packs: The pack of each trial of the merge base, which has this case alone.

        Raises:
            AgentEvalError: They cannot be written.
        """
        complete = len(packs) == self._pairs == len(row.base) and row.cached is None
        if not complete or set(row.base) != {"passed"} or any(row.base_failing):
            return
        try:
            self._root.mkdir(parents=True, exist_ok=True)
        except OSError:
            return  # Such as a file in its place; the next run has no earlier trials, as this one had none.
        self._remove_old()
        write_bundle({f"{number:03}": pack for number, pack in enumerate(packs)}, self._path(row.case_id))

    def _path(self, case_id: str) -> Path:
        definition = self._first.index_by_id()[case_id]["definition_digest"]
        parts = {**self._common, "case_id": case_id, "definition": definition}
        return self._root / f"{digest(parts)}.zip"

    def _are_usable(self, case_id: str, packs: Mapping[str, Pack], started: Sequence[datetime]) -> bool:
        manifests = {pack.manifest_sha256 for pack in packs.values()}
        return (
            len(packs) == self._pairs == len(manifests)
            and all(timedelta(0) <= self._now - begun <= MAX_AGE for begun in started)
            and all(self._is_passed(case_id, pack) for pack in packs.values())
        )

    def _is_passed(self, case_id: str, pack: Pack) -> bool:
        row = pack.results_by_id().get(case_id)
        return (
            pack.case_ids() == [case_id]
            and pack.config.git_commit == self._commit
            and is_judged_alike(self._first, pack)
            and fresh_result(row, "base")[0] == "passed"
            and not failing_judges(row)
        )

    def _remove_old(self) -> None:
        oldest = time.time() - MAX_AGE.total_seconds()
        with suppress(OSError), os.scandir(self._root) as entries:
            for entry in entries:
                if _ENTRY.fullmatch(entry.name) and entry.stat(follow_symlinks=False).st_mtime < oldest:
                    os.unlink(entry.path)


def _files(archive: ZipArchive, name: str) -> dict[str, bytes]:
    """Read the files of one pack in an archive, by path."""
    prefix = f"{name}/"
    return {
        member.removeprefix(prefix): archive.read(member)
        for member in archive.names()
        if member.startswith(prefix)
    }
