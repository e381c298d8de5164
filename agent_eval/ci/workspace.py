"""What the job writes stays in the workspace, and belongs to whom the workspace belongs to.

In a container action everything is written as root; later steps may run as somebody else.
Others may write in the workspace at the same time, so nothing here trusts a path twice: every folder is
opened without following links, from the workspace down, and what is in it is named relative to that.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from pathlib import Path

from agent_eval.ci.suites import ARCHIVE_NAME, REPORT_NAME
from agent_eval.errors import UsageError

_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


def refuse_to_lead_out(out: Path, workspace: Path) -> None:
    """Refuse an output directory that looks like one below the workspace and is a link to elsewhere.

    The link may come with the code under test, and who may write there is not the one who wrote that code.

    Raises:
        UsageError: It leads out of the workspace.
    """
    stated = Path(os.path.abspath(workspace / out))
    if not stated.is_relative_to(os.path.abspath(workspace)):
        return  # said openly
    if not Path(os.path.realpath(stated)).is_relative_to(os.path.realpath(workspace)):
        raise UsageError(
            f"The output directory {out} leads out of the working directory through a symbolic link.",
            remedy="Remove the link, or set `out` to where it leads.",
            file=str(out),
            field="out",
        )


def refuse_others_files(out: Path) -> None:
    """Refuse an output directory whose report no job of ours can have left: ours comes after the archive.

    Raises:
        UsageError: The report would be overwritten.
    """
    if (out / REPORT_NAME).exists() and not (out / ARCHIVE_NAME).exists():
        raise UsageError(
            f"{out / REPORT_NAME} is there and would be overwritten.",
            remedy="Move it elsewhere, or set `out` to another directory.",
            file=str(out / REPORT_NAME),
            field="out",
        )


def give_back(written: Path, workspace: Path) -> None:
    """Give what root wrote below the workspace to the workspace's owner, new folders above it included.

    Does nothing where this process is not root, the workspace is root's, or `written` lies elsewhere.
    What belongs to others stays theirs, links are not followed, and files with several names are left
    alone: the other name may lie elsewhere. A failure changes nothing about the result and is not reported.
    """
    if os.geteuid() != 0:
        return
    try:
        owner = workspace.stat()
        # The folders above are followed once, to see where they lead; below, no link is.
        steps = written.resolve().relative_to(workspace.resolve()).parts
        if owner.st_uid == 0:
            return
        _give(workspace.resolve(), steps, owner)
    except (OSError, ValueError):
        return


def _give(home: Path, steps: tuple[str, ...], owner: os.stat_result) -> None:
    current = os.open(home, _FOLDER)
    try:
        for step in steps:
            inner = os.open(step, _FOLDER, dir_fd=current)
            os.close(current)
            current = inner
            if os.fstat(current).st_uid == 0:
                os.fchown(current, owner.st_uid, owner.st_gid)
        for folder, name in _below(current):
            os.chown(name, owner.st_uid, owner.st_gid, dir_fd=folder, follow_symlinks=False)
    finally:
        os.close(current)


def _below(top: int) -> Iterator[tuple[int, str]]:
    """Everything of root's below an open folder: the folder it is in, and its name there."""
    for _, names, files, folder in os.fwalk(".", dir_fd=top):
        for name in (*names, *files):
            status = os.stat(name, dir_fd=folder, follow_symlinks=False)
            if status.st_uid == 0 and (stat.S_ISDIR(status.st_mode) or status.st_nlink == 1):
                yield folder, name
