"""Paths as the registry keeps them: relative to itself where possible, so that a checkout may move."""

from __future__ import annotations

import os
from pathlib import Path, PurePosixPath


def keep(path: Path, registry: Path) -> str:
    """How a path is written into the registry.

    Relative to the registry's directory, with `/`, when both lie below a common directory other than the
    root; absolute otherwise.
    """
    target = Path(os.path.abspath(path))
    home = Path(os.path.abspath(registry)).parent
    common = Path(os.path.commonpath([target, home]))
    if common == Path(common.anchor):
        return target.as_posix()
    return PurePosixPath(Path(os.path.relpath(target, home))).as_posix()


def find(kept: str, registry: Path) -> Path:
    """The path that the registry keeps, from where we are."""
    return Path(os.path.normpath(Path(os.path.abspath(registry)).parent / kept))
