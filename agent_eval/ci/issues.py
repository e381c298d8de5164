"""One issue for one loss: found again, updated in place, closed when it is mended; never a second one."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Literal, Protocol

from agent_eval.errors import RemoteError
from agent_eval.gate.drift import Cause, Counted
from agent_eval.gate.drift_cause import KnownLoss
from agent_eval.http.errors import HttpError, RateLimited, UncertainOutcome

_ATTEMPTS_TO_CREATE = 3
_CAUSES: dict[str, Cause] = {"model": "model", "code": "code", "both": "both", "unclear": "unclear"}
_NOT_KNOWN = 401
_NOT_PERMITTED = frozenset({403, 404})
_SWITCHED_OFF = 410
_LOSS = re.compile(
    r"(?P<slug>[a-z0-9._-]{1,128}):(?P<passed>[0-9]{1,9})/(?P<scored>[0-9]{1,9})"
    r"(?::(?P<branch_passed>[0-9]{1,9})/(?P<branch_scored>[0-9]{1,9})"
    r":(?P<tested_at>[0-9]{1,9}):(?P<cause>model|code|both|unclear):(?P<cases>[0-9a-f]{0,16}))?",
    re.ASCII,
)
_REST = re.compile(
    r"run=(?P<run>[0-9]{1,18}) attempt=(?P<attempt>[0-9]{1,9}) up=(?P<up>[a-z0-9._:/,-]*) -->", re.ASCII
)


@dataclass(frozen=True, slots=True)
class Issue:
    """An issue of the repository.

    Example:
        >>> Issue(17, "agent-eval[bot]", "lost quality", is_open=True, url="https://example.org/17").number
        17

    Args:
        number: Grows with time.
        author: Who opened it, as `Issues.author` names accounts.
        body: Markdown.
        is_open: Whether it is open.
        url: Its page, for people.
    """

    number: int
    author: str
    body: str
    is_open: bool
    url: str


class Issues(Protocol):
    """The issues of one repository, as a platform offers them.

    Example:
        `write_issue(issues, marker, known, title=title, body=body)` writes one of them.
    """

    @property
    def refused(self) -> str:
        """Why the job may not read or write issues, and what to grant; a phrase without a full stop."""
        ...

    def author(self) -> str:
        """The account under which the job opens issues."""
        ...

    def listed(self, author: str, *, is_open: bool) -> Iterable[Issue]:
        """Yield the issues that an account opened: all that are open, or the closed ones changed last."""
        ...

    def create(self, title: str, body: str) -> Issue:
        """Open a new one."""
        ...

    def update(self, number: int, body: str) -> Issue:
        """Replace the body of one."""
        ...

    def close(self, number: int, body: str, *, is_duplicate: bool = False) -> Issue:
        """Replace the body of one and close it: as done, or as a duplicate of another."""
        ...


@dataclass(frozen=True, slots=True)
class IssueMarker:
    """The first line of the issue: which evaluation wrote it, in which run, and what it knows of the loss.

    Example:
        >>> str(IssueMarker("default", 17, 1, {"shop": KnownLoss(Counted(30, 36), cases="9be1f04c")}))
        '<!-- agent-eval-drift id=default run=17 attempt=1 up=shop:30/36:0/0:0:unclear:9be1f04c -->'

    Args:
        comment_id: The evaluation.
        run_id: The run that wrote it.
        attempt: Which attempt of that run, from 1.
        up: The suites whose loss is not yet mended, with what the released agent has shown of its cause: its
            trials and those of the base branch, its trials at the last test, the answer, the cases.
        is_readable: Whether it was written by this version; else it says only whose it is.
    """

    comment_id: str
    run_id: int
    attempt: int
    up: Mapping[str, KnownLoss] = field(default_factory=dict)
    is_readable: bool = True

    @property
    def prefix(self) -> str:
        """The text that every issue of this evaluation starts with."""
        return f"<!-- agent-eval-drift id={self.comment_id} "

    def __str__(self) -> str:
        up = ",".join(f"{slug}:{_written_loss(loss)}" for slug, loss in sorted(self.up.items()))
        return f"{self.prefix}run={self.run_id} attempt={self.attempt} up={up} -->"

    def read(self, body: str) -> IssueMarker | None:
        """Read the marker of an issue of the same evaluation; None for any other issue.

        A marker of another version, which begins alike, counts as the oldest of all.
        """
        if not body.startswith(self.prefix):
            return None
        rest = _REST.match(body, len(self.prefix))
        if rest is None:
            return IssueMarker(self.comment_id, 0, 0, is_readable=False)
        written = (_LOSS.fullmatch(part) for part in rest["up"].split(","))
        up = {each["slug"]: loss for each in written if each is not None and (loss := _read_loss(each))}
        return IssueMarker(self.comment_id, int(rest["run"]), int(rest["attempt"]), up)

    def is_newer_than(self, other: IssueMarker) -> bool:
        """Whether this run began after the other. Run ids grow with time; a re-run keeps its id."""
        return (self.run_id, self.attempt) > (other.run_id, other.attempt)


def _written_loss(loss: KnownLoss) -> str:
    counts = f"{loss.again.passed}/{loss.again.scored}:{loss.branch.passed}/{loss.branch.scored}"
    return f"{counts}:{loss.tested_at}:{loss.cause}:{loss.cases}"


def _read_loss(written: re.Match[str]) -> KnownLoss | None:
    """Read a loss, of which only the first count must be there; None where its counts are impossible."""
    again = Counted(int(written["passed"]), int(written["scored"]))
    branch = Counted(int(written["branch_passed"] or 0), int(written["branch_scored"] or 0))
    if again.passed > again.scored or branch.passed > branch.scored:
        return None
    return KnownLoss(
        again,
        branch,
        tested_at=int(written["tested_at"] or 0),
        cause=_CAUSES.get(written["cause"] or "", "unclear"),
        cases=written["cases"] or "",
    )


@dataclass(frozen=True, slots=True)
class KnownIssue:
    """What the platform has of this evaluation's issue before a run writes it.

    Example:
        >>> KnownIssue().is_up
        False

    Args:
        issue: The open issue; without one the closed one that says that a loss is not mended; else None.
        marker: What it says; None without an issue.
    """

    issue: Issue | None = None
    marker: IssueMarker | None = None

    def loss_of(self, slug: str) -> KnownLoss | None:
        """What is known of a suite's loss; None where it has none to be mended.

        An issue that does not say which suites it is about, because its marker was edited, is about each.
        """
        if self.marker is None:
            return None
        return self.marker.up.get(slug) if self.marker.is_readable else KnownLoss()

    @property
    def is_closed(self) -> bool:
        """Whether a person closed the issue before the loss was mended."""
        return self.issue is not None and not self.issue.is_open

    @property
    def is_up(self) -> bool:
        """Whether a loss is known that is not yet mended."""
        return self.marker is not None and bool(self.marker.up or not self.marker.is_readable)


@dataclass(frozen=True, slots=True)
class WrittenIssue:
    """The result of writing the issue.

    Example:
        >>> WrittenIssue("none").url
        ''

    Args:
        action: `kept` where a newer run has written it, or a person closed it; `none` where there was nothing
            to write.
        url: Its page; empty where there is none.
        warning: A sentence for people; empty where all went well.
    """

    action: Literal["opened", "updated", "closed", "kept", "refused", "none"]
    url: str = ""
    warning: str = ""


def find_issue(issues: Issues, marker: IssueMarker) -> KnownIssue:
    """Find the issue of this evaluation.

    Only what the job's own account opened counts, so that no other account can write a marker into an issue
    of its own. Of the closed ones, only those changed last are looked at.

    Args:
        issues: Of the repository.
        marker: Of this run.

    Raises:
        RemoteError: The platform refuses or cannot be reached.
    """
    author = issues.author()
    ours = _ours(issues, marker, author, is_open=True)
    if ours:
        return ours[0]
    closed = _ours(issues, marker, author, is_open=False)
    # The one that was written last says how the last loss ended: what it notes was not seen to be mended.
    latest = max(closed, key=_written, default=KnownIssue())
    return latest if latest.is_up else KnownIssue()


def _written(known: KnownIssue) -> tuple[int, int]:
    return (known.marker.run_id, known.marker.attempt) if known.marker is not None else (0, 0)


def write_issue(
    issues: Issues,
    marker: IssueMarker,
    known: KnownIssue,
    *,
    title: str,
    body: Callable[[str], str],
) -> WrittenIssue:
    """Open, update or close the issue of this evaluation.

    Args:
        issues: Of the repository.
        marker: Of this run; its `up` says which suites have a loss that is not yet mended.
        known: What `find_issue` found.
        title: Of a new issue.
        body: Makes the markdown, given the marker that it must start with.

    Does not raise for a failure of the platform: the decision of the gate is valid without the issue.
    """
    try:
        return _write(issues, marker, known, title=title, body=body)
    except RemoteError as error:
        return WrittenIssue("refused", warning=explain(error, issues.refused))


def _write(
    issues: Issues, marker: IssueMarker, known: KnownIssue, *, title: str, body: Callable[[str], str]
) -> WrittenIssue:
    issue, present = known.issue, known.marker
    if issue is None or present is None:
        return _create(issues, marker, title, body(str(marker))) if marker.up else WrittenIssue("none")
    if present.is_newer_than(marker):
        return WrittenIssue("kept", issue.url, "A newer run has already written the issue; it stays.")
    if not marker.up and not known.is_up:
        # A person opened it again after it was closed.
        return WrittenIssue("kept", issue.url)
    if not marker.up:
        return WrittenIssue("closed", issues.close(issue.number, body(str(marker))).url)
    if not issue.is_open:
        return WrittenIssue("kept", issue.url)
    return WrittenIssue("updated", issues.update(issue.number, body(str(marker))).url)


def _create(issues: Issues, marker: IssueMarker, title: str, body: str) -> WrittenIssue:
    author = issues.author()
    for attempt in range(1, _ATTEMPTS_TO_CREATE + 1):
        try:
            created = issues.create(title, body)
        except UncertainOutcome:
            # It may have been opened: look before opening a second one.
            ours = _ours(issues, marker, author, is_open=True)
            if ours and ours[0].issue is not None:
                return WrittenIssue("opened", ours[0].issue.url)
            if attempt == _ATTEMPTS_TO_CREATE:
                raise
            continue
        return _settle(issues, marker, author, created, body)
    raise AssertionError("the loop returns or raises")  # pragma: no cover


def _settle(issues: Issues, marker: IssueMarker, author: str, created: Issue, body: str) -> WrittenIssue:
    """Keep only the older issue where two runs looked at the same time and both opened one."""
    ours = [known.issue for known in _ours(issues, marker, author, is_open=True) if known.issue is not None]
    oldest = ours[0] if ours else created
    if oldest.number >= created.number:
        return WrittenIssue("opened", created.url)
    ended = str(replace(marker, up={}))
    issues.close(created.number, body.replace(str(marker), ended, 1), is_duplicate=True)
    return WrittenIssue("updated", issues.update(oldest.number, body).url)


def _ours(issues: Issues, marker: IssueMarker, author: str, *, is_open: bool) -> list[KnownIssue]:
    """List the issues of this evaluation that the job's account opened, the oldest first."""
    ours = []
    for issue in issues.listed(author, is_open=is_open):
        present = marker.read(issue.body)
        if issue.author.lower() == author.lower() and issue.is_open == is_open and present is not None:
            ours.append((issue.number, KnownIssue(issue, present)))
    return [known for _, known in sorted(ours, key=lambda row: row[0])]


def explain(error: RemoteError, refused: str) -> str:
    """Say why an issue could not be read or written, and what to grant."""
    status = error.status if isinstance(error, HttpError) else None
    if status == _NOT_KNOWN:
        return (
            "The drift issue was not written (HTTP 401): the token was not accepted. It is wrong or expired."
        )
    if status == _SWITCHED_OFF:
        return "The drift issue was not written: issues are switched off in this repository (HTTP 410)."
    if status in _NOT_PERMITTED and not isinstance(error, RateLimited):
        return f"The drift issue was not written (HTTP {status}). {refused}."
    return f"The drift issue was not written: {error.message} {error.remedy}".strip()
