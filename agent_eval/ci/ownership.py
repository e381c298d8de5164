"""In a container action everything is written as root; later steps may run as somebody else."""

from __future__ import annotations

import os
from pathlib import Path


def give_back(written: Path, workspace: Path) -> None:
    """Give what root wrote below the workspace to the workspace's owner, new folders above it included.

    Does nothing where this process is not root, the workspace is root's, or `written` lies elsewhere.
    Links are not followed. A failure changes nothing about the result and is not reported.
    """
    if os.geteuid() != 0:
        return
    try:
        owner = workspace.stat()
        top, home = written.resolve(), workspace.resolve()
        if owner.st_uid == 0 or not top.is_relative_to(home):
            return
        for above in top.parents:
            if above != home and above.is_relative_to(home) and above.stat().st_uid == 0:
                os.chown(above, owner.st_uid, owner.st_gid)
        for folder, names, files in os.walk(top):
            for name in (".", *names, *files):
                os.chown(Path(folder) / name, owner.st_uid, owner.st_gid, follow_symlinks=False)
    except OSError:
        return
