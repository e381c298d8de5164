"""The first line of a comment: whose it is, and which run wrote it.

A comment is ours when it *starts* with the marker of this evaluation and was written by us; what an agent
said can stand further down only. The run in the marker keeps an older run from overwriting a newer one.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

_REST = re.compile(r"(?:sha=([0-9a-f]{7,64}) )?run=([0-9]{1,18}) attempt=([0-9]{1,9}) -->")


@dataclass(frozen=True, slots=True)
class Marker:
    """Args: `comment_id` of the evaluation, evaluated commit (or None), run id and attempt."""

    comment_id: str
    sha: str | None
    run_id: int
    attempt: int

    @property
    def prefix(self) -> str:
        """What every comment of this evaluation starts with."""
        return f"<!-- agent-eval id={self.comment_id} "

    def __str__(self) -> str:
        sha = f"sha={self.sha} " if self.sha else ""
        return f"{self.prefix}{sha}run={self.run_id} attempt={self.attempt} -->"

    def read(self, body: str) -> Marker | None:
        """The marker of a comment of the same evaluation, None for any other comment.

        One that only begins like ours counts as the oldest of all.
        """
        if not body.startswith(self.prefix):
            return None
        found = _REST.match(body, len(self.prefix))
        if found is None:
            return Marker(self.comment_id, None, 0, 0)
        return Marker(self.comment_id, found.group(1), int(found.group(2)), int(found.group(3)))

    def is_newer_than(self, other: Marker) -> bool:
        """Whether this run began after the other. Run ids grow with time; a re-run keeps its id."""
        return (self.run_id, self.attempt) > (other.run_id, other.attempt)
