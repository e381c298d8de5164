"""The merge base in a git worktree of its own, made before any code of the change runs."""

from __future__ import annotations

import os
import re
import shutil
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from agent_eval.ci.platforms.catalog import platform_specs
from agent_eval.errors import AgentEvalError, NotEvaluable
from agent_eval.processes.child import ChildLimits, allowed_environment, run_child
from agent_eval.text.escape import one_line

_SECONDS = 600.0
_OUTPUT_BYTES = 64 << 20
_COMMIT_LENGTHS = (40, 64)
_MOST_NOT_IN_GIT = 1000
_OF_OTHER_SERVICES = (
    r"(.*/)?\.(forgejo|gitea|woodpecker|azure-pipelines)/.*"
    r"|(.*/)?(azure|bitbucket)-pipelines[^/]*"
    r"|(.*/)?(\.travis\.yml|\.drone\.[^/]*|\.woodpecker\.[^/]*|appveyor\.yml)"
)
"""The files that say what other services run, for which there is no `PlatformSpec`."""


class NoMergeBase(NotEvaluable):
    """Raised where the merge base cannot be checked out. The message is a sentence for the report."""

    code = "no_merge_base"


def doubt_of_base(start: Path, onto: str, *, skip: Path, environ: Mapping[str, str]) -> str:
    """Say why the merge base's failures excuse none of the change's, as a sentence; empty where they may.

    What CI files say holds for both sides: flags, variables and earlier steps. Where a change alters one, the
    merge base's agent is not run as the base branch runs it. Call it before any code of the change runs.

    Args:
        start: A directory in the change's checkout.
        onto: The commit that the change is to be merged onto.
        skip: A directory whose files are no sources: where the job writes.
        environ: The environment variables, of which git sees a part.
    """
    try:
        git = _Git(start, environ)
        changed = git.changed_files(git.merge_base(onto), skip)
    except NoMergeBase as error:
        return f"It is not known whether the change alters how CI runs the agent. {error.message}"
    ci_file = next((name for name in changed if _says_what_ci_runs(name)), None)
    if ci_file is None:
        return ""
    return f"The change alters `{one_line(ci_file, limit=100)}`, which says how CI runs both sides."


def _says_what_ci_runs(name: str) -> bool:
    """Tell whether a file, by its path in the repository, tells any CI service what to run."""
    patterns = (*(spec.job_files for spec in platform_specs()), _OF_OTHER_SERVICES)
    return any(re.fullmatch(pattern, name, re.IGNORECASE | re.DOTALL) for pattern in patterns)


class MergeBase:
    """The commit where a change left the base branch, checked out below a private temporary directory.

    A git worktree shares the repository's objects and nothing else. No hook runs, and nothing is fetched.

    Example:
        `with MergeBase.check_out(Path.cwd(), base_sha, skip=out, environ=os.environ) as base:` has
        `base.tree`.

    Attributes:
        top: The top of the change's checkout.
        commit: The merge base.
        tree: The top of the worktree.
        changed: The files that the change alters, of those that git knows or does not ignore; None where
            that is unknown.
        not_in_git: Files and directories of the change's checkout that git does not have, ignored or not, as
            they were when the merge base was checked out: what earlier steps of the job made.
    """

    def __init__(
        self, git: _Git, home: Path, commit: str, *, changed: list[str] | None, not_in_git: Sequence[str] = ()
    ) -> None:
        self._git, self._home = git, home
        self.top, self.commit, self.changed, self.not_in_git = git.top, commit, changed, not_in_git
        self.tree = home / "base"

    @property
    def is_unchanged(self) -> bool:
        """Whether the change alters no file that git knows or does not ignore.

        Every such file is a source of the agent: with a list of sources, a change could hide from the gate.
        """
        return self.changed == []

    @classmethod
    def check_out(
        cls, start: Path, onto: str, *, skip: Path | None = None, environ: Mapping[str, str]
    ) -> MergeBase:
        """Find the merge base of the checkout and another commit, and check it out beside.

        Args:
            start: A directory in the change's checkout.
            onto: The commit that the change is to be merged onto.
            skip: A directory whose files are no sources: where the job writes.
            environ: The environment variables, of which git sees a part.

        Raises:
            NoMergeBase: There is no repository or no such commit in it, or git failed.
        """
        git = _Git(start, environ)
        commit = git.merge_base(onto)
        changed, not_in_git = git.changed_if_known(commit, skip), git.not_in_git(skip)
        home = Path(tempfile.mkdtemp(prefix="agent-eval-base-"))
        base = cls(git, home, commit, changed=changed, not_in_git=not_in_git)
        try:
            git.run("worktree", "add", "--quiet", "--detach", str(base.tree), commit)
        except BaseException:
            base.remove()
            raise
        return base

    def tracked(self) -> list[str]:
        """List the files of the change's checkout that git knows, relative to its top."""
        return _names(self._git.run("ls-files", "-z"))

    def __enter__(self) -> MergeBase:
        return self

    def __exit__(self, *_: object) -> None:
        self.remove()

    def remove(self) -> None:
        """Remove the worktree; what cannot be removed stays, in a directory that only this user can read."""
        with suppress(AgentEvalError):
            self._git.run("worktree", "remove", "--force", "--force", str(self.tree))
        shutil.rmtree(self._home, ignore_errors=True)


class _Git:
    """Runs git in a checkout, without hooks, prompts, fetching, or a monitor of the file system."""

    def __init__(self, start: Path, environ: Mapping[str, str]) -> None:
        start = start.resolve()
        top = next((at for at in (start, *start.parents) if (at / ".git").exists()), None)
        if top is None:
            raise NoMergeBase("The job does not run in a git checkout.")
        self.top = top
        self._environ = {
            **allowed_environment(environ),
            "GIT_NO_LAZY_FETCH": "1",
            "GIT_TERMINAL_PROMPT": "0",
            "GIT_LITERAL_PATHSPECS": "1",
        }

    def run(self, *arguments: str) -> bytes:
        """Run git and return what it prints.

        Raises:
            NoMergeBase: It failed.
        """
        options = ("core.hooksPath=/dev/null", "core.fsmonitor=false", f"safe.directory={self.top}")
        settings = [word for option in options for word in ("-c", option)]
        done = run_child(
            ["git", *settings, *arguments],
            env=self._environ,
            limits=ChildLimits(seconds=_SECONDS, stdout_bytes=_OUTPUT_BYTES),
            cwd=self.top,
        )
        if done.failure is not None:
            raise NoMergeBase(
                f"The merge base could not be checked out: `git {arguments[0]}` {done.problem}."
            )
        return done.stdout

    def line(self, *arguments: str) -> str:
        """Run git and return the line that it prints; empty where it failed."""
        try:
            return self.run(*arguments).decode("utf-8", "replace").strip()
        except AgentEvalError:
            return ""

    def merge_base(self, onto: str) -> str:
        """Find the commit where the checkout left another.

        Raises:
            NoMergeBase: There is none in the checkout.
        """
        commit = self.line("merge-base", "HEAD", onto)
        if len(commit) not in _COMMIT_LENGTHS:
            raise NoMergeBase(
                "The commit where the change began is not in the checkout: check out the whole history "
                "(`git fetch --unshallow`)."
            )
        return commit

    def changed_if_known(self, commit: str, skip: Path | None) -> list[str] | None:
        """List the files that `changed_files` lists; None where git failed."""
        try:
            return self.changed_files(commit, skip)
        except NoMergeBase:
            return None

    def not_in_git(self, skip: Path | None) -> list[str]:
        """List the first files that git does not have, ignored or not; of a directory of such files its name.

        That is for a sentence in the report: where git fails, there are none.
        """
        try:
            names = _names(self.run("ls-files", "--others", "--directory", "--no-empty-directory", "-z"))
        except NoMergeBase:
            return []
        return [name for name in names if not self._is_below(name, skip)][:_MOST_NOT_IN_GIT]

    def changed_files(self, commit: str, skip: Path | None) -> list[str]:
        """List the files that differ from a commit, and the new ones that git does not ignore.

        A submodule is one of them, whatever `.gitmodules` says that git is to ignore.

        Raises:
            NoMergeBase: Git failed.
        """
        options = (
            "--name-only",
            "--no-renames",
            "--no-ext-diff",
            "--no-textconv",
            "--ignore-submodules=none",
        )
        differing = _names(self.run("diff", "-z", *options, commit, "--"))
        new = _names(self.run("ls-files", "--others", "--exclude-standard", "-z"))
        return [*differing, *(name for name in new if not self._is_below(name, skip))]

    def _is_below(self, name: str, skip: Path | None) -> bool:
        return skip is not None and name.startswith(f"{os.path.relpath(skip.resolve(), self.top)}/")


def _names(output: bytes) -> list[str]:
    return [name for name in output.decode("utf-8", "surrogateescape").split("\0") if name]
