"""What the job writes in the workspace: the names of its files, no way out, and the workspace's owner.

In a container everything is written as root, and later steps may run as another user. Other processes may
write in the workspace at the same time, so no path is trusted twice: every folder is opened without following
links, from the workspace down, and its entries are named relative to that.
"""

from __future__ import annotations

import os
import re
import stat
from pathlib import Path

from agent_eval.errors import UsageError

ARCHIVE_NAME = "evidence.zip"
REPORT_NAME = "report.md"
COMMENT_NAME = "comment.md"
JUNIT_NAME = "junit"
DOTENV_NAME = "agent-eval.env"

_HTML = re.compile(r"agent-eval-.*\.html")
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


def html_name(name: str) -> str:
    """Name the file of the HTML report: an artifact that is one file takes the file's name."""
    return f"agent-eval-{name}.html"


def is_of_the_job(name: str) -> bool:
    """Whether the job itself writes a file of that name into its output directory."""
    of_the_job = (ARCHIVE_NAME, REPORT_NAME, COMMENT_NAME, JUNIT_NAME, DOTENV_NAME)
    return name in of_the_job or _HTML.fullmatch(name) is not None


def refuse_link_out(out: Path, workspace: Path) -> None:
    """Refuse, by `UsageError`, an output directory below the workspace that is a link out of it.

    The link may come with the code under test, whose author need not be allowed to write outside.
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


def refuse_to_overwrite(out: Path) -> None:
    """Refuse, by `UsageError`, an output directory with a report and no archive, which a job writes first."""
    if (out / ARCHIVE_NAME).exists() or not out.is_dir():
        return
    for name in sorted(os.listdir(out)):
        if name in (REPORT_NAME, COMMENT_NAME) or _HTML.fullmatch(name):
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
        for _, names, files, folder in os.fwalk(".", dir_fd=current):
            for name in (*names, *files):
                status = os.stat(name, dir_fd=folder, follow_symlinks=False)
                if status.st_uid == 0 and (stat.S_ISDIR(status.st_mode) or status.st_nlink == 1):
                    os.chown(name, owner.st_uid, owner.st_gid, dir_fd=folder, follow_symlinks=False)
    finally:
        os.close(current)
