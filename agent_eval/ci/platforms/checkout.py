"""The git checkout that a job works in: branch, commit, and where the branch began."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from agent_eval.ci.platforms.spec import COMMIT
from agent_eval.errors import AgentEvalError, RemoteError
from agent_eval.operations.environment import git_commit
from agent_eval.processes.child import ChildLimits, allowed_environment, run_child

MAX_FILE_BYTES = 1 << 20
_SECONDS = 30.0
_BRANCH = "refs/heads/"
_REMOTE = "refs/remotes/origin/"


class Checkout:
    """Reads a checkout with `git`. Where git is missing or fails, branch and base are unknown.

    Example:
        `Checkout(Path.cwd(), os.environ).merge_base("main")` is the commit where the branch began.

    Args:
        start: A directory in the checkout.
        environ: The environment variables, of which git sees a part.
    """

    def __init__(self, start: Path, environ: Mapping[str, str]) -> None:
        top = next((at for at in (start, *start.parents) if (at / ".git").exists()), None)
        self.top = top or start
        self._is_repository = top is not None
        # Nothing is fetched, asked or written.
        self._environ = {
            **allowed_environment(environ),
            "GIT_NO_LAZY_FETCH": "1",
            "GIT_TERMINAL_PROMPT": "0",
            "GIT_OPTIONAL_LOCKS": "0",
            "GIT_LITERAL_PATHSPECS": "1",
        }

    @property
    def commit(self) -> str | None:
        """The commit that is checked out; None when unknown."""
        return git_commit(self.top)

    @property
    def branch(self) -> str | None:
        """The branch that is checked out; None where none is."""
        reference = self._line("symbolic-ref", "--quiet", "HEAD")
        return reference.removeprefix(_BRANCH) if reference.startswith(_BRANCH) else None

    @property
    def default_branch(self) -> str | None:
        """The default branch of the repository it was cloned from, else `main`; None outside a repository."""
        if not self._is_repository:
            return None
        reference = self._line("symbolic-ref", "--quiet", f"{_REMOTE}HEAD")
        return reference.removeprefix(_REMOTE) if reference.startswith(_REMOTE) else "main"

    @property
    def is_shallow(self) -> bool:
        """Whether the checkout has only the latest commits of its history."""
        return self._line("rev-parse", "--is-shallow-repository") == "true"

    def merge_base(self, branch: str) -> str | None:
        """The commit where the checkout left a branch, here or as last fetched; None when unknown."""
        for reference in (f"{_REMOTE}{branch}", f"{_BRANCH}{branch}"):
            commit = self._line("merge-base", "HEAD", reference)
            if COMMIT.fullmatch(commit):
                return commit
        return None

    def file(self, path: str, commit: str) -> bytes | None:
        """Read a file as of a commit; None if it does not exist there.

        Raises:
            RemoteError: It is not a regular file of at most 1 MiB, or git fails.
        """
        entry = self._git("ls-tree", "-z", "--full-tree", commit, "--", path)
        if entry is None:
            raise RemoteError(
                f"git cannot read `{path}` of the base commit.",
                remedy="Check that the commit is in the checkout: `git fetch --unshallow`.",
                path=path,
            )
        if not entry:
            return None
        mode, kind, rest = (*entry.decode("utf-8", "replace").split(" ", 2), "", "")[:3]
        content = self._git("cat-file", "blob", rest[:64].split("\t")[0]) if kind == "blob" else None
        if content is None or not mode.startswith("100") or len(content) > MAX_FILE_BYTES:
            raise RemoteError(
                f"`{path}` on the base branch is not a regular file of at most 1 MiB.",
                remedy="Name a smaller file.",
                path=path,
            )
        return content

    def _line(self, *arguments: str) -> str:
        return (self._git(*arguments) or b"").decode("utf-8", "replace").strip()

    def _git(self, *arguments: str) -> bytes | None:
        """Run git and return what it prints; None where it fails or does not exist."""
        try:
            done = run_child(
                ["git", *arguments],
                env=self._environ,
                limits=ChildLimits(seconds=_SECONDS, stdout_bytes=2 * MAX_FILE_BYTES),
                cwd=self.top,
            )
        except AgentEvalError:
            return None
        return done.stdout if done.failure is None else None
