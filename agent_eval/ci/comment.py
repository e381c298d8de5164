"""One comment per evaluation and change: found, updated in place, never replaced by an older run's."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Literal

from pydantic import BaseModel

from agent_eval.ci.earlier import outage_of
from agent_eval.ci.rest import NOT_FOUND, RestApi
from agent_eval.errors import RemoteError
from agent_eval.http.errors import HttpError, UncertainOutcome

_ATTEMPTS_TO_CREATE = 3
_MAX_PAGES = 50
_GONE = frozenset({404, 410})


@dataclass(frozen=True, slots=True)
class Comment:
    """A comment on the change under review; its id grows with time, its address is for people."""

    id: int
    author: str
    body: str
    url: str


class Comments:
    """The comments on one change, by a REST API with a token that may write.

    A platform says how an answer is read as a comment, and by which method one is replaced.

    Attributes:
        listing: The path of all comments, the oldest first, and of new ones; of one it is `item` with its id.
        order: The query that the listing takes.
    """

    row: ClassVar[type[BaseModel]]
    replaced_by: ClassVar[Literal["PATCH", "PUT"]]
    order: ClassVar[str] = ""

    def __init__(self, api: RestApi, listing: str, item: str) -> None:
        self.api, self.listing, self.item = api, listing, item

    def read(self, row: Any) -> Comment:
        """Read a row as a comment."""
        raise NotImplementedError

    def author(self) -> str:
        """The name under which the job writes comments."""
        raise NotImplementedError

    def current_head(self) -> str | None:
        """The newest commit of the change; None when unknown."""
        raise NotImplementedError

    def harmless(self, body: str) -> str:
        """Rewrite what the platform would obey as a command."""
        return body

    def listed(self) -> Iterator[Comment]:
        """Yield all comments, over all pages."""
        return map(self.read, self.api.rows(self.row, f"{self.listing}{self.order}", max_pages=_MAX_PAGES))

    def create(self, body: str) -> Comment:
        """Write a new one. The request is not repeated when it may have been carried out."""
        return self.read(self.api.send(self.row, "POST", self.listing, {"body": self.harmless(body)}))

    def update(self, comment_id: int, body: str) -> Comment:
        """Replace the body of one."""
        path, answer = f"{self.item}/{comment_id}", {"body": self.harmless(body)}
        return self.read(self.api.send(self.row, self.replaced_by, path, answer))

    def delete(self, comment_id: int) -> None:
        """Remove one; that it does not exist any more is fine."""
        self.api.session.request("DELETE", f"{self.item}/{comment_id}", accept=(NOT_FOUND,))


@dataclass(frozen=True, slots=True)
class Published:
    """The result of writing the comment: `kept` where a newer run has already commented.

    Address and warning, a sentence for people, are empty where there is none.
    """

    action: Literal["created", "updated", "kept", "refused", "none"]
    url: str = ""
    warning: str = ""


def publish(
    comments: Comments, marker: Marker, body: str, *, change: str, full_report: str, refused: str
) -> Published:
    """Create or update the comment of this evaluation on the change; the body starts with the marker.

    For warnings: the platform's words for what is under review and for the report, and in `refused` a phrase
    that says why the job may not write comments. Does not raise for a failure of the platform: the decision
    is valid without the comment.
    """
    try:
        author = comments.author()
        published = _write(comments, marker, body, author)
    except RemoteError as error:
        outage = outage_of(error, f"{refused}.")
        why = f"No comment was written: {outage.message} {outage.remedy}"
        return Published("refused", warning=f"{why} The report is in the {full_report}.")
    if published.action in ("created", "updated"):
        with suppress(RemoteError):  # they say of themselves which commit they are about
            _mark_outdated(comments, marker, author, published.url)
    if published.action == "kept" and not published.warning:
        warning = f"A newer run has already commented on this {change}; its comment stays."
        return replace(published, warning=warning)
    return published


def _write(comments: Comments, marker: Marker, body: str, author: str) -> Published:
    for attempts_left in reversed(range(_ATTEMPTS_TO_CREATE)):
        if (ours := _ours(comments, marker, author)) is not None:
            try:
                return _update(comments, marker, body, ours)
            except HttpError as error:
                # The comment was removed in between. Where the job may not write, creating one says so next.
                if error.status not in _GONE:
                    raise
        try:
            created = comments.create(body)
        except UncertainOutcome:
            # It may have been written: look again before writing a second one.
            if not attempts_left:
                raise
            continue
        # Only the older comment stays where two runs looked at the same time and both wrote one.
        oldest = _ours(comments, marker, author) or created
        if oldest.id >= created.id:
            warning = ""
            if created.author.lower() != author.lower():
                # No later job finds what the token writes under another login than it was taken for.
                warning = (
                    f"Set `ci.comment_author: {json.dumps(created.author)}`: it wrote the comment, which the "
                    "next job would not find else."
                )
            return Published("created", created.url, warning)
        comments.delete(created.id)
        return _update(comments, marker, body, oldest)
    raise AssertionError("the loop returns or raises")  # pragma: no cover


def _mark_outdated(comments: Comments, marker: Marker, author: str, url: str) -> None:
    """Say of what this job left under another id, before its inputs changed, that it is of an older commit.

    Of several evaluations of one job, the legs of a matrix, each still replaces its own.
    """
    for comment in list(comments.listed()):
        other = Marker.of_any(comment.body) if comment.author.lower() == author.lower() else None
        if other is None or _OUTDATED in comment.body or marker.job is None or marker.job != other.job:
            continue
        is_earlier = other.run_id < marker.run_id and other.sha != marker.sha
        if not is_earlier or marker.comment_id == other.comment_id:
            continue
        heading = f"{_OUTDATED}: about `{(other.sha or '')[:7]}`"
        newer = f"[a newer comment]({url})" if url else "a newer comment"
        body = f"Its job has evaluated `{(marker.sha or '')[:7]}` since: see {newer}."
        comments.update(comment.id, f"{other}\n\n{heading}\n\n{body}\n")


_OUTDATED = "## ⌛ Outdated"


def _ours(comments: Comments, marker: Marker, author: str) -> Comment | None:
    """The oldest comment of this evaluation."""
    by_us = (comment for comment in comments.listed() if comment.author.lower() == author.lower())
    ours = (comment for comment in by_us if marker.read(comment.body) is not None)
    return min(ours, key=lambda comment: comment.id, default=None)


def _update(comments: Comments, marker: Marker, body: str, existing: Comment) -> Published:
    present = marker.read(existing.body)
    warning = ""
    if present is not None and marker.is_beside(present):
        stays = _severity(existing.body) > _severity(body)
        warning = (
            f"Another job of this run has written the comment `{marker.comment_id}` as well, and "
            f"{'ended worse: its comment stays' if stays else 'did not end worse: it was replaced'}. "
            "Give each job a `comment-id` of its own."
        )
        if stays:
            return Published("kept", existing.url, warning)
    elif present is not None:
        is_newer = (present.run_id, present.attempt) > (marker.run_id, marker.attempt)
        # Where the comment is about another commit, and that is the newest of the change, a late run on an
        # older one has nothing to add.
        is_of_another = present.sha is not None and present.sha != marker.sha
        if is_newer or (is_of_another and comments.current_head() == present.sha):
            return Published("kept", existing.url)
    return Published("updated", comments.update(existing.id, body).url or existing.url, warning)


_SIGNS = "✅➖⚠❌🛑"
"""Signs with which a report's heading begins, the worst last."""


def _severity(body: str) -> int:
    heading = next((line for line in body.splitlines() if line.startswith("## ")), "")
    return _SIGNS.find(heading[3:4]) if heading[3:4] else -1


_REST = re.compile(
    r"(?:sha=([0-9a-f]{7,64}) )?run=([0-9]{1,18}) attempt=([0-9]{1,9})(?: of=([0-9a-f]{8}\.[0-9a-f]{8}))?"
    r"(?: job=([0-9a-f]{8}))? -->"
)
_ANY = re.compile(r"<!-- agent-eval id=([A-Za-z0-9][A-Za-z0-9._-]{0,63}) ")


def of_pipeline(pipeline: object, job: str) -> str | None:
    """Name a job of a pipeline, for platforms whose runs are single jobs; None where either is unknown."""
    return f"{_digest(pipeline)}.{_digest(job)}" if pipeline and job else None


def job_of(definition: str, name: str) -> str | None:
    """Name a job for good, by the file that defines it and its name there; None where either is unknown."""
    return _digest(f"{definition}\n{name}") if definition and name else None


def _digest(name: object) -> str:
    return hashlib.sha256(str(name).encode()).hexdigest()[:8]


@dataclass(frozen=True, slots=True)
class Marker:
    """The first line of a comment: which evaluation and run wrote it.

    Example:
        >>> str(Marker("default", "0123456", 17, 1))
        '<!-- agent-eval id=default sha=0123456 run=17 attempt=1 -->'

    Attributes:
        sha: The evaluated commit; None when unknown.
        run_id: Ids of runs grow with time; a run that is run again keeps its own.
        attempt: Which attempt of that run, from 1.
        of: The pipeline and the job, where several jobs of one pipeline have runs of their own.
        job: The job that wrote it, whatever its inputs; None when unknown.
    """

    comment_id: str
    sha: str | None
    run_id: int
    attempt: int
    of: str | None = None
    job: str | None = None

    @property
    def prefix(self) -> str:
        """The text that every comment of this evaluation starts with."""
        return f"<!-- agent-eval id={self.comment_id} "

    def __str__(self) -> str:
        sha = f"sha={self.sha} " if self.sha else ""
        of = f" of={self.of}" if self.of else ""
        job = f" job={self.job}" if self.job else ""
        return f"{self.prefix}{sha}run={self.run_id} attempt={self.attempt}{of}{job} -->"

    def is_beside(self, other: Marker) -> bool:
        """Whether another job of the same run wrote the other, and no earlier attempt of this job."""
        if self.of is None or other.of is None:
            own = (self.run_id, self.attempt, self.sha)
            return own == (other.run_id, other.attempt, other.sha) != (0, 0, None)
        return self.of[:8] == other.of[:8] and self.of != other.of

    @staticmethod
    def of_any(body: str) -> Marker | None:
        """Read the marker of a comment of whatever evaluation; None for any other comment."""
        begin = _ANY.match(body)
        return Marker(begin[1], None, 0, 0).read(body) if begin is not None else None

    def read(self, body: str) -> Marker | None:
        """Read the marker of a comment of the same evaluation; None for any other comment.

        A marker of another version, which begins alike, counts as the oldest of all.
        """
        if not body.startswith(self.prefix):
            return None
        rest = _REST.match(body, len(self.prefix))
        if rest is None:
            return Marker(self.comment_id, None, 0, 0)
        return Marker(self.comment_id, rest[1], int(rest[2]), int(rest[3]), rest[4], rest[5])
