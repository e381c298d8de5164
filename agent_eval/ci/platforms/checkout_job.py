"""What jobs share on platforms that keep files as artifacts and have the base commit in the checkout."""

from __future__ import annotations

import os
from collections.abc import Mapping
from functools import cached_property
from pathlib import Path
from typing import TextIO

from agent_eval.ci.platforms.checkout import Checkout
from agent_eval.ci.platforms.plain_log import PlainLog
from agent_eval.ci.platforms.settings import PlatformSettings
from agent_eval.ci.suites import ARCHIVE_NAME


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
