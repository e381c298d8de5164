"""What jobs share on platforms that run in a checkout and keep the evidence as an artifact of the job."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from functools import cached_property
from pathlib import Path
from typing import NoReturn, TextIO, TypeVar

from agent_eval.ci.earlier import NoHistory
from agent_eval.ci.git import Remote, top_of
from agent_eval.ci.platforms.plain_log import PlainLog
from agent_eval.ci.platforms.settings import PlatformSettings
from agent_eval.ci.workspace import ARCHIVE_NAME
from agent_eval.errors import AgentEvalError, RemoteError, UsageError
from agent_eval.http.errors import HttpError
from agent_eval.operations.environment import git_commit
from agent_eval.processes.child import ChildLimits, allowed_environment, run_child

Opened = TypeVar("Opened")
NOT_FOUND = 404


def opened(connect: Callable[[], Opened], *, field: str) -> Opened:
    """Open a connection to an address that the user gave.

    Args:
        connect: Opens it.
        field: The input or variable with the address.

    Raises:
        UsageError: It is no address that a token may be sent to.
    """
    try:
        return connect()
    except HttpError as error:
        raise UsageError(error.message, remedy=error.remedy, field=field) from error


def number_in(text: str | None) -> int | None:
    """Read a number that a platform's variable holds; None where it holds none."""
    return int(text) if text and text.isascii() and text.isdigit() and len(text) <= 18 else None


def no_such_run(why: str, noun: str = "run") -> UsageError:
    """Build the error for a run that the user named and that cannot be the baseline."""
    return UsageError(
        why,
        remedy=f"Correct `baseline-run-id` (the number of a {noun}), or leave it out.",
        field="baseline-run-id",
    )


class CheckoutJob(PlainLog):
    """The base of a `Platform` whose jobs run in a checkout.

    Args:
        settings: The checked settings.
        environ: The environment variables that the platform sets.
        stream: The job's log.
    """

    def __init__(self, settings: PlatformSettings, environ: Mapping[str, str], stream: TextIO) -> None:
        super().__init__(stream)
        self._settings, self._environ = settings, environ

    @cached_property
    def workspace(self) -> Path:
        """The top of the checkout, to which the paths of artifacts are relative."""
        return top_of(Path.cwd()) or Path.cwd()

    @property
    def _commit(self) -> str | None:
        """The commit that is checked out; None where there is none."""
        return git_commit(self.workspace)

    @property
    def _evidence_path(self) -> str:
        """Path of the evidence archive among the artifacts of a job, with `/`."""
        archive = os.path.abspath(self._settings.out / ARCHIVE_NAME)
        return Path(os.path.relpath(archive, self.workspace)).as_posix()

    def _remote_at(self, url: str) -> Remote | None:
        """The repository at an address, without credentials of the job; else the checkout's `origin`."""
        return Remote(url) if url else self._origin

    @cached_property
    def _origin(self) -> Remote | None:
        """The repository from which the checkout was cloned; None where it says none."""
        git = self.workspace / ".git"
        if git.is_file():
            # Of a worktree: PLACE/worktrees/NAME, where PLACE has the configuration.
            git = (self.workspace / git.read_text().removeprefix("gitdir:").strip()).parents[1]
        command = ["git", "config", "--file", str(git / "config"), "--get", "remote.origin.url"]
        try:
            done = run_child(command, env=allowed_environment(self._environ), limits=ChildLimits(seconds=30))
        except AgentEvalError:
            return None
        url = done.stdout.decode("utf-8", "replace").strip()
        if done.failure is not None or not url:
            return None
        is_relative = not Path(url).is_absolute() and ":" not in url
        return Remote(str((self.workspace / url).resolve()) if is_relative else url)

    def tip(self, branch: str) -> str | None:
        """Return None: the platform hosts no repository, so git asks the one that does."""
        del branch
        return None

    @staticmethod
    def _cannot_search(*, noun: str, of_a_fork: str, remedy: str) -> NoReturn:
        """Say why a job without a token reads no earlier runs: a fork's has none, another's is not known.

        Args:
            noun: What the platform calls an earlier run, such as `build`.
            of_a_fork: What the job is, where it is one of a fork, such as `the build of a fork`; else empty.
            remedy: How to give it a token.
        """
        if of_a_fork:
            raise NoHistory(f"This is {of_a_fork}, which has no token for earlier {noun}s.")
        raise RemoteError(
            f"Without a token earlier {noun}s cannot be read: whether there is a baseline is not known.",
            remedy=f"{remedy}; or, to evaluate without a baseline, `baseline: none`.",
        )

    def keep_evidence(self, archive: Path) -> None:
        """Leave the archive to the step of the pipeline that keeps artifacts."""

    def write_summary(self, markdown: str) -> None:
        """Do nothing: the report among the artifacts is all there is."""

    def write_outputs(self, values: Mapping[str, str]) -> None:
        """Do nothing: later jobs read the artifacts."""
