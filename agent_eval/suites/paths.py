"""Find the files that a user names as suites: paths, globs that no shell has expanded, bundled suites."""

from __future__ import annotations

import glob
from collections.abc import Sequence
from pathlib import Path

from agent_eval.errors import UsageError
from agent_eval.storage.files import open_regular
from agent_eval.suites.bundled import bundled_suite, is_bundled_name

MAX_SUITES = 500
"""Suites of one command."""

_WILD = frozenset("*?[")
_HEAD = 4 << 20


def suite_paths(patterns: Sequence[str]) -> list[Path]:
    """List the files that the patterns name, each once, in their order, globs sorted.

    Args:
        patterns: Paths or globs, relative to the working directory. `**` crosses directories. `demo:NAME` and
            `quack:GROUP/NAME` are bundled suites.

    Raises:
        UsageError: A glob matches nothing, there is no such bundled suite, or there are more than
            `MAX_SUITES` files.

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
    if is_bundled_name(pattern):
        return [bundled_suite(pattern)]
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


def is_of_conversations(path: Path) -> bool:
    """Tell from its text whether a file may be a suite of conversations; `open_document` knows for sure."""
    if path.suffix.lower() not in (".json", ".yaml", ".yml"):
        return False
    try:
        # A path that cannot be looked at, such as one with too long a name, is said when the suite is opened.
        if not path.is_file():
            return False
        with open_regular(path) as file:
            head = file.read(_HEAD)
    except (OSError, ValueError):
        return False
    return b"agentId" in head and b"dataset_id" not in head


def any_of_conversations(patterns: Sequence[str]) -> bool:
    """Tell whether one of the suites that the patterns name may be one of conversations.

    A pattern that names nothing names none; who opens the suites says so.
    """
    try:
        return any(map(is_of_conversations, suite_paths(patterns)))
    except UsageError:
        return False
