"""The place of a job: the commit that is checked out, the trusted branch it is held to, and its base.

Nothing that an event, a branch or a tag is called decides here. A commit at or below the tip of a trusted
branch is reviewed, anything else is a change, and both are read from the graph of commits.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass

from agent_eval.ci.clone import CommitUnknown, PrivateClone
from agent_eval.ci.earlier import outage_of
from agent_eval.ci.git import REMOTE, GitFailed, Remote
from agent_eval.ci.seal import as_code
from agent_eval.errors import NotEvaluable, RemoteError

_HEADS = "refs/heads/"
_REMEDY = "Check that the job can read the repository, then run it again."


class TipUnknown(NotEvaluable):
    """Raised where it is not known to which commit a trusted branch points: such a job is never green."""

    code = "tip_unknown"


@dataclass(frozen=True, kw_only=True)
class Refs:
    """What a platform says of the branches of a job. It chooses the branch that a change is held to, no more.

    Attributes:
        default_branch: None where the platform does not say it.
        branch: The branch for which the job runs; None for a tag, and for a change under review.
        target: The branch that the change under review goes into.
        queue_base: The commit onto which a merge queue puts the change.
        remote: The repository that the change goes into, with the token of the job; None where there is none.
    """

    default_branch: str | None = None
    branch: str | None = None
    tag: str | None = None
    target: str | None = None
    queue_base: str | None = None
    remote: Remote | None = None


Tip = Callable[[str], str | None]
"""Asks a platform's API for the commit that a branch points to; None where it has no such API."""


@dataclass(frozen=True, kw_only=True)
class JobPlace:
    """The place of a job.

    Attributes:
        head: The commit that is checked out. Evidence records it, whatever commit the event names.
        tip: The commit to which the trusted branch pointed when the job began.
        base: The commit that the change is compared with; of a reviewed commit that commit itself.
        is_reviewed: Whether `head` is at or below the tip of a trusted branch: its own rules hold.
        branches: All trusted branches, the default one first: only their runs leave a baseline.
        notice: Why the job is held to another branch than its name suggests, as a sentence.
    """

    head: str
    tip: str
    trusted_branch: str
    default_branch: str
    default_tip: str
    base: str
    is_reviewed: bool
    branches: tuple[str, ...]
    notice: str | None = None


def find_place(
    refs: Refs, clone: PrivateClone, tip: Tip, base_branches: Callable[[str], Sequence[str]]
) -> JobPlace:
    """Find the place of a job, and fetch the commits of that into the clone.

    `tip` asks the platform for the tip of a branch; where it does not say it, git asks the server.
    `base_branches` reads the list `base-branches` in `agent-eval.yml` as of the default branch's tip.

    Raises:
        TipUnknown: The default branch is not known, or the platform refuses or cannot be reached.
        CommitUnknown: The trusted branch has no tip, or no commit in common with what is checked out.
    """
    default = refs.default_branch or _default_branch(clone)
    tips: dict[str, str] = {}

    def tip_of(branch: str) -> str:
        if branch not in tips:
            try:
                commit = tip(branch)
            except RemoteError as error:
                outage = outage_of(error, error.remedy)
                raise TipUnknown(
                    f"The tip of {as_code(branch)} is not known: {outage.cause}", remedy=outage.remedy
                ) from error
            if commit is None:
                commit = clone.tip(branch)
            else:
                clone.fetch(commit)
            tips[branch] = commit
        return tips[branch]

    branches = tuple(dict.fromkeys([default, *base_branches(tip_of(default))]))
    chosen = next((name for name in (refs.target, refs.branch) if name in branches), default)
    reviewed_by = chosen if clone.is_ancestor(clone.head, tip_of(chosen)) else None
    for name in (name for name in branches if reviewed_by is None and name != chosen):
        # A branch that is listed and gone makes nothing trusted.
        with suppress(CommitUnknown):
            reviewed_by = name if clone.is_ancestor(clone.head, tip_of(name)) else None
    if reviewed_by is not None and refs.target is None:
        chosen = reviewed_by
    base = clone.merge_base(clone.head, tip_of(chosen))
    if refs.queue_base is not None and clone.is_ancestor(refs.queue_base, clone.head):
        base = refs.queue_base
    return JobPlace(
        head=clone.head,
        tip=tip_of(chosen),
        trusted_branch=chosen,
        default_branch=default,
        default_tip=tip_of(default),
        base=base,
        is_reviewed=reviewed_by is not None,
        branches=branches,
        notice=_why_held(refs, branches, chosen, is_reviewed=reviewed_by is not None),
    )


def _default_branch(clone: PrivateClone) -> str:
    if clone.remote is None:
        raise TipUnknown(
            "The tip of the default branch is not known: the job knows no repository to ask for it.",
            remedy=_REMEDY,
        )
    try:
        answer = clone.git.run("ls-remote", "--quiet", "--symref", REMOTE, "HEAD", remote=clone.remote)
    except GitFailed as error:
        raise TipUnknown(
            f"The tip of the default branch is not known: {error.message}", remedy=_REMEDY
        ) from error
    for line in answer.decode("utf-8", "replace").splitlines():
        if line.startswith(f"ref: {_HEADS}") and line.endswith("\tHEAD"):
            return line.removeprefix(f"ref: {_HEADS}").removesuffix("\tHEAD")
    raise TipUnknown("The remote repository does not say which branch is its default one.", remedy=_REMEDY)


def _why_held(refs: Refs, branches: tuple[str, ...], chosen: str, *, is_reviewed: bool) -> str | None:
    if refs.target is not None and refs.target not in branches:
        return f"{as_code(refs.target)} is no trusted branch: held to {chosen}."
    if refs.target is not None or is_reviewed:
        return None
    if refs.tag is not None and refs.tag in branches:
        return f"{as_code(refs.tag)} is a tag: held to branch {chosen}."
    return f"The checkout is not of {chosen}: held to {chosen}." if refs.branch in branches else None
