"""The place of a job: the commit that is checked out, the trusted branch it is held to, and its base.

Nothing that an event, a branch or a tag is called decides here. A commit at or below the tip of a trusted
branch is reviewed, anything else is a change, and both are read from the graph of commits. Each file that
judges or decides can be read as the change has it and as the tip has it.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from difflib import unified_diff
from pathlib import Path
from typing import NamedTuple

from agent_eval.ci.clone import REMOTE, CommitUnknown, GitFailed, PrivateClone, Remote
from agent_eval.ci.earlier import outage_of
from agent_eval.ci.workspace import as_code
from agent_eval.config.spec import Judging
from agent_eval.errors import AgentEvalError, InvalidInput, NotEvaluable, RemoteError
from agent_eval.judges.code import words_of_command
from agent_eval.storage import json
from agent_eval.storage.files import read_bytes
from agent_eval.storage.yaml import parse_yaml
from agent_eval.text.escape import one_line

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
        clone: The private clone, which has all commits of the place.
        tip: The commit to which the trusted branch pointed when the job began.
        base: The commit that the change is compared with; of a reviewed commit that commit itself.
        is_reviewed: Whether `head` is at or below the tip of a trusted branch: its own rules hold.
        branches: All trusted branches, the default one first: only their runs leave a baseline.
        notice: Why the job is held to another branch than its name suggests, as a sentence.
    """

    clone: PrivateClone = field(repr=False)
    tip: str
    trusted_branch: str
    default_branch: str
    default_tip: str
    base: str
    is_reviewed: bool
    branches: tuple[str, ...]
    notice: str | None = None

    @property
    def head(self) -> str:
        """The commit that is checked out. Evidence records it, whatever commit the event names."""
        return self.clone.head


def find_place(
    refs: Refs, clone: PrivateClone, tip: Tip, base_branches: Callable[[str], Sequence[str]]
) -> JobPlace:
    """Find the place of a job, and fetch the commits of that into the clone.

    `tip` asks the platform for the tip of a branch; where it does not say it, git asks the server.
    `base_branches` reads the list `baseline.branches` in `agent-eval.yml` as of the default branch's tip.

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
                    f"The tip of {as_code(branch)} is not known: {outage.message}", remedy=outage.remedy
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
    notice = None
    if refs.target is not None and refs.target not in branches:
        notice = f"{as_code(refs.target)} is no trusted branch: held to {chosen}."
    elif refs.target is None and reviewed_by is None and refs.tag is not None and refs.tag in branches:
        notice = f"{as_code(refs.tag)} is a tag: held to branch {chosen}."
    elif refs.target is None and reviewed_by is None and refs.branch in branches:
        notice = f"The checkout is not of {chosen}: held to {chosen}."
    base = clone.merge_base(clone.head, tip_of(chosen))
    if refs.queue_base is not None and clone.is_ancestor(refs.queue_base, clone.head):
        base = refs.queue_base
    return JobPlace(
        clone=clone,
        tip=tip_of(chosen),
        trusted_branch=chosen,
        default_branch=default,
        default_tip=tip_of(default),
        base=base,
        is_reviewed=reviewed_by is not None,
        branches=branches,
        notice=notice,
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


MAX_BYTES = 64 << 20
MOST_DIFF_LINES = 200
NAME_LIMIT = 200


class RuleChange(NamedTuple):
    """A file of the rules that the change alters, as the settings name it, and how.

    `path` is in the repository, for people to read; `diff` the lines of a unified diff, cut to a bound;
    `judge` the one that the file belongs to, empty for none.
    """

    file: Path
    path: str
    diff: tuple[str, ...]
    judge: str

    @property
    def title(self) -> str:
        """What it is called in a sentence."""
        return f"judge {as_code(self.judge)} ({self.path})" if self.judge else as_code(self.path)


@dataclass(frozen=True)
class Versions:
    """Reads a file as the change has it, and as the tip of the trusted branch has it.

    Without a place the job is outside of a repository, where the files of the disk count. `is_reported` says
    that it reports on what another run left, with nothing of the change checked out.
    """

    place: JobPlace | None
    is_reported: bool = False
    from_fork: bool = False

    @property
    def is_change(self) -> bool:
        """Whether what is checked out is judged by the tip's rules, not by its own."""
        return self.place is not None and (self.from_fork or not self.place.is_reviewed)

    def tips(self, path: Path, *, default_branch: bool = False) -> bytes | None:
        """Read a file as of the tip; one outside of the repository is the file itself. None without one."""
        where = self.where(path)
        if self.place is None or where is None:
            return self.own(path)
        return self.place.clone.file(where, self.place.default_tip if default_branch else self.place.tip)

    def own(self, path: Path) -> bytes | None:
        """Read a file as it is checked out; None without one. It must be regular, and not too large."""
        if self.is_reported and self.where(path) is not None:
            return None
        if self.is_change and self.where(path) is not None and path.is_symlink():
            raise InvalidInput(
                f"{path} is a link, which a change may lead anywhere.",
                remedy="Commit the file itself.",
                file=str(path),
            )
        return read_bytes(path, max_bytes=MAX_BYTES) if path.exists() else None

    def where(self, path: Path) -> str | None:
        """The path relative to the repository, with `/`; None for a file outside of it."""
        if self.place is None and not self.is_reported:
            return None
        top = Path.cwd() if self.place is None or self.is_reported else self.place.clone.top
        place = os.path.relpath(os.path.abspath(path), top)
        return None if place.startswith("..") else Path(place).as_posix()

    def is_altered(self, path: Path) -> bool:
        """Whether the change has another version than tip and base; what main alone altered is not meant."""
        own = self.own(path)
        if own == self.tips(path):
            return False
        where = self.where(path)
        return self.place is None or where is None or own != self.place.clone.file(where, self.place.base)


def rule_changes(versions: Versions, files: Mapping[Path, str]) -> list[RuleChange]:
    """Show how the change alters files that judge or decide, each with the judge that it belongs to."""
    changes = []
    for path, judge in files.items():
        where = versions.where(path)
        if where is None or not versions.is_altered(path):
            continue
        texts = (versions.tips(path), versions.own(path))
        before, after = ((data or b"").decode("utf-8", "replace").splitlines() for data in texts)
        lines = [*unified_diff(before, after, f"main/{where}", f"change/{where}", lineterm="")]
        cut = lines[:MOST_DIFF_LINES]
        more = [f"… {len(lines) - len(cut)} more lines"] if len(lines) > len(cut) else []
        changes.append(RuleChange(path, one_line(where, limit=NAME_LIMIT), (*cut, *more), judge))
    return changes


def files_of_judges(judging: Judging, versions: Versions) -> dict[Path, str]:
    """Find the files of the tip that are its judges, or that their commands name; each with its judge.

    What these import is not seen.
    """
    words: list[tuple[str, str]] = []
    files = {}
    for name in judging.judges:
        module = name.partition(":")[0].replace(".", "/")
        words += [(name, f"{module}.py"), (name, f"{module}/__init__.py")] if ":" in name else []
    path: Path | None = judging.judge_config
    configs: object = {}
    with suppress(AgentEvalError):  # a file that cannot be read is refused where judges are loaded
        data = versions.tips(path) if path is not None else None
        parse = parse_yaml if path is not None and path.suffix in (".yaml", ".yml") else json.parse
        configs = parse(data, source=str(path)) if data is not None else {}
    for key, config in {**(configs if isinstance(configs, dict) else {}), **judging.configs}.items():
        command = config.get("command") if isinstance(config, dict) else None
        words += [(str(key), word) for word in sorted(words_of_command(command))]
    for name, word in words:
        with suppress(AgentEvalError, OSError, ValueError):  # the word can be no path
            if versions.where(Path(word)) is not None and versions.tips(Path(word)) is not None:
                files[Path(word)] = name
    return files
