"""Find the files that a user names as suites: paths, globs that no shell has expanded, bundled suites."""

from __future__ import annotations

import glob
import os
import re
from collections.abc import Iterable, Sequence
from difflib import get_close_matches
from functools import cache
from itertools import islice, product
from pathlib import Path

from agent_eval.errors import UsageError
from agent_eval.storage.files import open_regular

ROOT = Path(__file__).parents[1] / "bundled"
DEMO, QUACK = ROOT / "Demo Agents", ROOT / "Quack Agents"

_DATED = re.compile(r"^eval_(.+)_([0-9]+)$")
"""Name of a suite's file that ends in a date, which its own name has after a hyphen."""

MAX_SUITES = 500
"""Suites of one command."""

_WILD = frozenset("*?[")
_CHOICE = re.compile(r"\{([^{}]*,[^{}]*)\}")
"""Alternatives in a glob, such as `{json,yaml}`."""
SUITE_SUFFIXES = (".json", ".jsonl", ".yaml", ".yml")

LOSSES = ".losses.jsonl"
"""How the name of the file ends that an import writes beside its suite; no glob of suites names it."""

_HEAD = 4 << 20


def get_package_root() -> Path:
    """Return the directory that has the bundled suites: `Demo Agents` and `Quack Agents`."""
    return ROOT


def get_demo_agents_path() -> Path:
    """Return the directory of the suites of the demonstration's agents."""
    return DEMO


def get_quack_agents_path() -> Path:
    """Return the directory of the suites of support teams."""
    return QUACK


def is_bundled_name(name: str) -> bool:
    """Tell whether a name is that of a bundled suite, and no path."""
    return name.startswith(("demo:", "quack:"))


@cache
def bundled_suites() -> dict[str, Path]:
    """Return the file of every bundled suite by its name, sorted."""
    demo = {"demo:" + _DATED.sub(r"\1-\2", path.stem): path for path in DEMO.rglob("*.json")}
    quack = {
        f"quack:{path.relative_to(QUACK).with_suffix('').as_posix()}": path for path in QUACK.rglob("*.json")
    }
    return dict(sorted({**demo, **quack}.items()))


def bundled_suite(name: str) -> Path:
    """Return the file of a bundled suite."""
    path = bundled_suites().get(name)
    if path is None:
        near = get_close_matches(name, bundled_suites(), n=1, cutoff=0.5)
        hint = f"Did you mean {near[0]}? " if near else ""
        raise UsageError(
            f"there is no bundled suite {name!r}",
            remedy=f"{hint}`agent-eval list-suites` shows them all.",
            field="suite",
        )
    return path


def suite_paths(patterns: Sequence[str]) -> list[Path]:
    """List the files that the patterns name, each once, in their order, globs sorted.

    They are paths or globs, relative to the working directory; `**` crosses directories, and `{json,yaml}` is
    either. `demo:NAME` and `quack:GROUP/NAME` are bundled suites.

    Raises:
        UsageError: A glob matches nothing, a bundled suite does not exist, or there are more than
            `MAX_SUITES`.
    """
    named: dict[Path, None] = {}
    for pattern in patterns:
        if is_bundled_name(pattern):
            named[bundled_suite(pattern)] = None
        elif not _is_glob(pattern) or Path(pattern).exists():  # or a file has the name of a glob
            named[Path(pattern)] = None
        elif files := [path for path in map(Path, matching(pattern)) if path.is_file()]:
            named |= dict.fromkeys(files)
        else:
            remedy = "Correct it, or `suites` of agent-eval.yml; paths are relative to the working directory."
            raise UsageError(f"No suite matches {pattern!r}.", remedy=remedy, field="suite")
    if len(named) > MAX_SUITES:
        raise UsageError(
            f"`suite` names {len(named)} files, more than {MAX_SUITES}.",
            remedy="Narrow the globs.",
            field="suite",
        )
    return without_losses(named)


def without_losses(paths: Iterable[Path]) -> list[Path]:
    """Leave out what an import lost, beside the suite that it made: a shell's glob names both.

    Example:
        >>> [str(path) for path in without_losses(map(Path, ["a.json", "a.losses.jsonl", "b.losses.jsonl"]))]
        ['a.json', 'b.losses.jsonl']
    """
    named = list(paths)
    losses = {Path(f"{os.path.splitext(path)[0]}{LOSSES}") for path in named}
    return [path for path in named if path not in losses]


def _is_glob(pattern: str) -> bool:
    return bool(_WILD.intersection(pattern) or _CHOICE.search(pattern))


def matching(pattern: str, *, root: Path | None = None) -> list[str]:
    """List the paths that a glob matches, sorted, relative to `root`; of `{a,b}` either may be there."""
    parts = [part.split(",") if number % 2 else [part] for number, part in enumerate(_CHOICE.split(pattern))]
    globs = islice(map("".join, product(*parts)), MAX_SUITES)
    paths = {path for each in globs for path in glob.glob(each, root_dir=root, recursive=True)}
    return sorted(path for path in paths if not path.endswith(LOSSES))


def overlooked(patterns: Sequence[str]) -> list[str]:
    """Say which suites lie beside those that globs name, under another ending, and are not among them.

    Example:
        >>> overlooked(["suites/one.json"])
        []
    """
    named = {os.path.abspath(path) for path in suite_paths(patterns)}
    sentences = []
    for pattern in filter(_is_glob, patterns):
        start, ending = os.path.splitext(pattern)
        if ending not in SUITE_SUFFIXES:
            continue
        others = []
        for path in matching(f"{start}.{{json,jsonl,yaml,yml}}"):
            head = _head(Path(path)) if os.path.abspath(path) not in named else b""
            if b"dataset_id" in head or b"agentId" in head:
                others.append(path)
        if others:
            listed = ", ".join(f"`{path}`" for path in others[:3]) + (", …" if len(others) > 3 else "")
            sentences.append(
                f"{listed} {'is a suite' if len(others) == 1 else 'are suites'} that `{pattern}` does not "
                f"name. To include {'it' if len(others) == 1 else 'them'}: `{start}.{{json,jsonl,yaml,yml}}`."
            )
    return sentences


def is_of_conversations(path: Path) -> bool:
    """Tell from its text whether a file may be a suite of conversations; `open_document` knows for sure."""
    head = _head(path) if path.suffix.lower() in (".json", ".yaml", ".yml") else b""
    return b"agentId" in head and b"dataset_id" not in head


def _head(path: Path) -> bytes:
    """Read the beginning of a file; nothing of one that cannot be read, which is said when it is opened."""
    try:
        if not path.is_file():  # a path may have too long a name to be looked at
            return b""
        with open_regular(path) as file:
            return file.read(_HEAD)
    except (OSError, ValueError):
        return b""


def any_of_conversations(patterns: Sequence[str]) -> bool:
    """Tell whether one of the suites that the patterns name may be one of conversations.

    A pattern that names nothing names none; who opens the suites says so.
    """
    try:
        return any(map(is_of_conversations, suite_paths(patterns)))
    except UsageError:
        return False
