"""One comment per evaluation and pull request: found, updated in place, never taken back in time."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal, Protocol

from agent_eval.errors import RemoteError
from agent_eval.http.client import HttpError, UncertainOutcome

_ATTEMPTS_TO_CREATE = 3
_NOT_KNOWN = 401
_GONE = frozenset({404, 410})
_REFUSED = frozenset({403, 404, 410, 422, 423})


@dataclass(frozen=True, slots=True)
class Comment:
    """A comment on a pull request. `url` is for people."""

    id: int
    author: str
    body: str
    url: str


class Comments(Protocol):
    """The comments of one pull request."""

    def listed(self) -> Iterable[Comment]:
        """All of them, over all pages."""
        ...

    def create(self, body: str) -> Comment:
        """Write a new one."""
        ...

    def update(self, comment_id: int, body: str) -> Comment:
        """Replace the body of one."""
        ...

    def delete(self, comment_id: int) -> None:
        """Remove one."""
        ...

    def author(self) -> str:
        """The login under which we write."""
        ...

    def current_head(self) -> str | None:
        """The commit the pull request points to now."""
        ...


@dataclass(frozen=True, slots=True)
class Published:
    """What became of the comment.

    `action` is `kept` when a newer run has already spoken. `warning` is a sentence for people.
    """

    action: Literal["created", "updated", "kept", "refused", "none"]
    url: str = ""
    warning: str = ""


def publish(comments: Comments, marker: Marker, body: str, *, from_fork: bool) -> Published:
    """Create or update the comment of this evaluation.

    Args:
        comments: Of the pull request.
        marker: Of this evaluation and run.
        body: Markdown that starts with the marker.
        from_fork: Whether the pull request comes from a fork, whose token may only read.

    Never raises for what the remote side does: the decision stands without the comment.
    """
    try:
        return _write(comments, marker, body)
    except RemoteError as error:
        return Published("refused", warning=_explain(error, from_fork))


def _write(comments: Comments, marker: Marker, body: str) -> Published:
    author = comments.author()
    for attempt in range(1, _ATTEMPTS_TO_CREATE + 1):
        ours = _ours(comments, marker, author)
        if ours:
            try:
                return _update(comments, marker, body, ours[0])
            except HttpError as error:
                # Somebody removed it in between. Whoever may not write learns that next.
                if error.status not in _GONE:
                    raise
        try:
            created = comments.create(body)
        except UncertainOutcome:
            # It may have been written: look again before writing a second one.
            if attempt == _ATTEMPTS_TO_CREATE:
                raise
            continue
        return _settle(comments, marker, body, author, created)
    raise AssertionError("the loop returns or raises")  # pragma: no cover


def _settle(comments: Comments, marker: Marker, body: str, author: str, created: Comment) -> Published:
    """Two runs may have looked at the same time and both written: the older comment stays."""
    oldest = next(iter(_ours(comments, marker, author)), created)
    if oldest.id >= created.id:
        return Published("created", created.url)
    comments.delete(created.id)
    return _update(comments, marker, body, oldest)


def _ours(comments: Comments, marker: Marker, author: str) -> list[Comment]:
    found = [
        comment
        for comment in comments.listed()
        if comment.author.lower() == author.lower() and marker.read(comment.body) is not None
    ]
    return sorted(found, key=lambda comment: comment.id)


def _update(comments: Comments, marker: Marker, body: str, existing: Comment) -> Published:
    said = marker.read(existing.body)
    if said is not None and _must_stay(said, marker, comments):
        return Published("kept", existing.url, "A newer run has already commented; its comment stays.")
    return Published("updated", comments.update(existing.id, body).url or existing.url)


def _must_stay(said: Marker, ours: Marker, comments: Comments) -> bool:
    if said.is_newer_than(ours):
        return True
    if said.sha is None or said.sha == ours.sha:
        return False
    # The comment is about another commit. Where that is the one the pull request points to now, a
    # late run on an older commit has nothing to add.
    return comments.current_head() == said.sha


def _explain(error: RemoteError, from_fork: bool) -> str:
    status = error.status if isinstance(error, HttpError) else None
    if status == _NOT_KNOWN:
        return (
            "No comment was written (HTTP 401): the token was not accepted. It is wrong or expired, or of "
            "another server. The report is in the job's summary."
        )
    if status not in _REFUSED:
        return f"The comment could not be written: {error.message}"
    if status == 422:
        return f"GitHub refused the comment as invalid (HTTP 422): {error.message}"
    if status == 410:
        return "The comment could not be written: the conversation no longer takes comments (HTTP 410)."
    why = (
        "A pull request from a fork runs with a token that may only read"
        if from_fork
        else "The token may not write comments: grant the job `pull-requests: write`"
    )
    return f"No comment was written (HTTP {status}). {why}. The report is in the job's summary."


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
