"""What jobs share on platforms that keep files as artifacts and have the base commit in the checkout."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TextIO, TypeVar

from agent_eval.ci.candidates import NoHistory
from agent_eval.ci.platforms.checkout import Checkout
from agent_eval.ci.platforms.plain_log import PlainLog
from agent_eval.ci.platforms.settings import PlatformSettings
from agent_eval.ci.suites import ARCHIVE_NAME
from agent_eval.errors import RemoteError, UsageError
from agent_eval.http.errors import HttpError

Opened = TypeVar("Opened")


@dataclass(frozen=True, kw_only=True)
class Search:
    """Which earlier runs of a job may be its baseline, whatever the platform calls them.

    Example:
        >>> Search(evidence="agent-eval-out/evidence.zip", branch="main", base_sha=None).named is None
        True

    Args:
        evidence: Path of the evidence archive among the artifacts of a run, with `/`.
        branch: Branch whose runs count.
        base_sha: The commit where the change left that branch; None when unknown.
        named: The run that the user named; None for none.
    """

    evidence: str
    branch: str
    base_sha: str | None
    named: int | None = None


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


class CheckoutJob(PlainLog):
    """The base of a `Platform` that reads the base commit's files from the checkout.

    Example:
        A subclass adds where earlier runs are, and where the comment is written.

    Args:
        settings: The checked settings.
        environ: The environment variables that the platform sets.
        stream: The job's log.
    """

    def __init__(self, settings: PlatformSettings, environ: Mapping[str, str], stream: TextIO) -> None:
        super().__init__(stream)
        self._settings, self._environ = settings, environ

    @property
    def workspace(self) -> Path:
        """The top of the checkout, to which the paths of artifacts are relative."""
        return self._checkout.top

    @cached_property
    def _checkout(self) -> Checkout:
        return Checkout(Path.cwd(), self._environ)

    @property
    def _evidence_path(self) -> str:
        """Path of the evidence archive among the artifacts of a job, with `/`."""
        archive = os.path.abspath(self._settings.out / ARCHIVE_NAME)
        return Path(os.path.relpath(archive, self.workspace)).as_posix()

    @property
    def _search(self) -> Search:
        """The search for the baseline, as the settings and the checkout have it."""
        return Search(
            evidence=self._evidence_path,
            branch=self._base_branch,
            base_sha=self._base_sha,
            named=self._settings.baseline_run_id,
        )

    @staticmethod
    def _cannot_search(*, noun: str, of_a_fork: str, remedy: str) -> Exception:
        """Say why a job without a token has no baseline: a fork's has none, another's is not known.

        Args:
            noun: What the platform calls an earlier run, such as `build`.
            of_a_fork: What the job is, where it is one of a fork, such as `the build of a fork`; else empty.
            remedy: How to give it a token.
        """
        if of_a_fork:
            return NoHistory(f"This is {of_a_fork}, which has no token for earlier {noun}s.")
        return RemoteError(
            f"Without a token earlier {noun}s cannot be read: whether there is a baseline is not known.",
            remedy=f"{remedy}; or, to evaluate without a baseline, `baseline: none`.",
        )

    @property
    def _base_branch(self) -> str:
        """The branch that the change goes into."""
        raise NotImplementedError

    @property
    def _is_change(self) -> bool:
        """Whether the job evaluates anything but the base branch itself."""
        raise NotImplementedError

    @cached_property
    def _base_sha(self) -> str | None:
        """The commit where the change left its base branch; None without a change, or when unknown."""
        return self._checkout.merge_base(self._base_branch) if self._is_change else None

    @property
    def _base_of_rules(self) -> str | None:
        """The commit whose rules count: where the merge base is unknown, the tip of the base branch.

        Where that is not in the checkout either, reading a file of it fails, and so the rules of a change
        never count unseen.
        """
        if self._base_sha is not None or not self._is_change:
            return self._base_sha
        return f"refs/remotes/origin/{self._base_branch}"

    def base_file(self, path: str) -> bytes | None:
        """Read a file as of the base of the change; None without one."""
        base = self._base_of_rules
        return self._checkout.file(path, base) if base is not None else None

    def keep_evidence(self, archive: Path) -> None:
        """Leave the archive to the step of the pipeline that keeps artifacts."""

    def write_summary(self, markdown: str) -> None:
        """Do nothing: the report among the artifacts is all there is."""

    def write_outputs(self, values: Mapping[str, str]) -> None:
        """Do nothing: later jobs read the artifacts."""
