"""The project has a distribution name of its own, and every page installs that and nothing else."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
NAME = "agent-eval-gate"
PAGES = sorted(
    path.relative_to(ROOT).as_posix()
    for pattern in ("*.md", "docs/**/*.md", "ci-templates/*", ".github/**/*.yml", "agent_eval/demo/starter/*")
    for path in ROOT.glob(pattern)
    if path.is_file()
)
BARE = re.compile(
    r"(?:pip|pipx|uv|uvx|poetry)\b[^\n`]*\b(?:install|add|run)\b[^\n`]*?(?<![\w./-])agent[-_]eval(?![\w/-])"
)
"""A line that would install the project of that name on the package index."""

COMMAND_OF = re.compile(r"(--(?:spec|from) \S+) agent-eval\b")
"""`uvx --from PACKAGE agent-eval` names the package, then its command."""


def installs_the_other_project(text: str) -> list[str]:
    """Lines that install the project of that name."""
    found: list[str] = BARE.findall(COMMAND_OF.sub(r"\1", text))
    return found


def test_the_distribution_has_its_own_name_and_command_and_import_keep_theirs() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert project["name"] == NAME
    assert project["scripts"]["agent-eval"] == "agent_eval.cli.main:entry"


def test_no_page_installs_the_other_project() -> None:
    for page in PAGES:
        assert installs_the_other_project((ROOT / page).read_text(encoding="utf-8")) == [], page


@pytest.mark.parametrize(
    ("line", "found"),
    [
        ("pip install agent-eval", True),
        ("python -m pip install -U agent_eval==1.0", True),
        ('uv pip install "agent-eval[dask]"', True),
        ("pipx run --spec agent-eval==1.0 agent-eval --help", True),
        ("pipx run agent-eval --help", True),
        ("pip install .", False),
        ("pip install agent-eval-gate", False),
        (".agent-eval/bin/pip install x", False),
        ("pipx run --spec ./agent_eval_gate-1.0.0-py3-none-any.whl agent-eval --help", False),
    ],
)
def test_such_a_line_would_be_found(line: str, found: bool) -> None:
    assert bool(installs_the_other_project(line)) == found


def test_the_readme_is_short() -> None:
    assert len((ROOT / "README.md").read_text(encoding="utf-8").splitlines()) <= 120
