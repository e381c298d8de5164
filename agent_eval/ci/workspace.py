"""Keep what the job writes in the workspace, and give it to the workspace's owner.

In a container everything is written as root, and later steps may run as another user. Other processes may
write in the workspace at the same time, so no path is trusted twice: every folder is opened without following
links, from the workspace down, and its entries are named relative to that.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable, Iterator
from pathlib import Path

from agent_eval.ci.suites import ARCHIVE_NAME, REPORT_NAME, is_html_name
from agent_eval.errors import UsageError

_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


def refuse_link_out(out: Path, workspace: Path) -> None:
    """Refuse an output directory below the workspace that is a link out of it.

    The link may come with the code under test, whose author need not be allowed to write outside.

    Raises:
        UsageError: It leads out of the workspace.
    """
    stated = Path(os.path.abspath(workspace / out))
    if not stated.is_relative_to(os.path.abspath(workspace)):
        return  # the user named a directory outside
    if not Path(os.path.realpath(stated)).is_relative_to(os.path.realpath(workspace)):
        raise UsageError(
            f"The output directory {out} leads out of the working directory through a symbolic link.",
            remedy="Remove the link, or set `out` to where it leads.",
            file=str(out),
            field="out",
        )


def is_in_checkout(paths: Iterable[Path], workspace: Path) -> bool:
    """Tell whether any path is in the checkout of the change, or leads there through a link.

    Args:
        paths: Relative to the working directory, or absolute.
        workspace: The directory that the platform checks out into; the checkout around the working directory
            counts as well.
    """
    working = Path.cwd()
    top = next((at for at in (working, *working.parents) if (at / ".git").exists()), working)
    checkouts = {top.resolve(), workspace.resolve()}
    places = {place for path in paths for place in (Path(os.path.abspath(path)), path.resolve())}
    return any(place.is_relative_to(checkout) for place in places for checkout in checkouts)


def refuse_to_overwrite(out: Path) -> None:
    """Refuse an output directory with a report and no archive: a job writes the archive first.

    Raises:
        UsageError: The report would be overwritten.
    """
    if (out / ARCHIVE_NAME).exists() or not out.is_dir():
        return
    for name in sorted(os.listdir(out)):
        if name == REPORT_NAME or is_html_name(name):
            raise UsageError(
                f"{out / name} is there and would be overwritten.",
                remedy="Move it elsewhere, or set `out` to another directory.",
                file=str(out / name),
                field="out",
            )


def give_to_owner(written: Path, workspace: Path) -> None:
    """Give what root wrote below the workspace to the workspace's owner, new folders above it included.

    Does nothing where this process is not root, the workspace is root's, or `written` is outside it. Files of
    other users keep their owner, links are not followed, and files with several names are not touched: one of
    them may be outside. A failure changes nothing about the result and is not reported.
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
    """Yield everything of root's below an open folder: its folder, and its name there."""
    for _, names, files, folder in os.fwalk(".", dir_fd=top):
        for name in (*names, *files):
            status = os.stat(name, dir_fd=folder, follow_symlinks=False)
            if status.st_uid == 0 and (stat.S_ISDIR(status.st_mode) or status.st_nlink == 1):
                yield folder, name
