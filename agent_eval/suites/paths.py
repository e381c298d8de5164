"""Find the files that a user names as suites: paths, and globs that no shell has expanded."""

from __future__ import annotations

import glob
from collections.abc import Sequence
from pathlib import Path

from agent_eval.errors import UsageError

MAX_SUITES = 500
"""Suites of one command."""

_WILD = frozenset("*?[")


def suite_paths(patterns: Sequence[str]) -> list[Path]:
    """List the files that the patterns name, each once, in their order, globs sorted.

    Args:
        patterns: Paths or globs, relative to the working directory. `**` crosses directories.

    Raises:
        UsageError: A glob matches nothing, or there are more than `MAX_SUITES` files.

    Example:
        >>> for name in ("b.json", "a.json"):
        ...     _ = Path(name).write_text("{}")
        >>> [str(path) for path in suite_paths(["*.json", "a.json"])]
        ['a.json', 'b.json']
    """
    paths = list(dict.fromkeys(path for pattern in patterns for path in _matches(pattern)))
    if len(paths) > MAX_SUITES:
        raise UsageError(
            f"`suite` names {len(paths)} files, more than {MAX_SUITES}.",
            remedy="Narrow the globs.",
            field="suite",
        )
    return paths


def _matches(pattern: str) -> list[Path]:
    # A pattern that is also the name of a file is that file.
    if not _WILD.intersection(pattern) or Path(pattern).exists():
        return [Path(pattern)]
    paths = sorted(path for path in glob.glob(pattern, recursive=True) if Path(path).is_file())
    if not paths:
        raise UsageError(
            f"No suite matches {pattern!r}.",
            remedy="Correct `suite`; paths are relative to the working directory.",
            field="suite",
        )
    return [Path(path) for path in paths]
