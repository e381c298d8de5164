"""The suites of conversations that come with the program, by names such as `quack:artlist/refunds`."""

from __future__ import annotations

import re
from difflib import get_close_matches
from functools import cache
from pathlib import Path

from agent_eval.errors import UsageError

ROOT = Path(__file__).parents[1] / "bundled"
DEMO, QUACK = ROOT / "Demo Agents", ROOT / "Quack Agents"

_DATED = re.compile(r"eval_(.+)_([0-9]+)")
"""Name of a suite's file that ends in a date, which its own name has after a hyphen."""


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
    """Tell whether a name is that of a bundled suite, and no path.

    Example:
        >>> is_bundled_name("demo:hr"), is_bundled_name("suites/hr.json")
        (True, False)
    """
    return name.startswith(("demo:", "quack:"))


@cache
def bundled_suites() -> dict[str, Path]:
    """Return the file of every bundled suite by its name, sorted."""
    demo = {f"demo:{_demo_name(path.stem)}": path for path in DEMO.rglob("*.json")}
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


def _demo_name(stem: str) -> str:
    dated = _DATED.fullmatch(stem)
    return f"{dated[1]}-{dated[2]}" if dated else stem
