"""When the merge base's agent may fail for what it shares with the change, or lacks in its worktree."""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path

import pytest

from agent_eval.ci.merge_base import MergeBase
from agent_eval.ci.own_place import doubt_of_files, doubt_of_packages
from tests.unit.ci.jobs import settings_of
from tests.unit.ci.test_merge_base import commit, top

__all__ = ["top"]

PYTHON = "python3 agent.py"
VENV = ".venv/bin/python agent.py"


def packages(
    top: Path,
    changed: str = "requirements.txt",
    command: str = PYTHON,
    setups: tuple[str, str] = ("pip install -r requirements.txt",) * 2,
    made: tuple[str, ...] = (),
    since: float | None = None,
) -> str:
    """The doubt that a change of one file leaves, with files that setup made in the worktree."""
    span = (since or time.time(), time.time() + 9)
    base = commit(top, **{"agent.py": ""})
    (top / changed).parent.mkdir(parents=True, exist_ok=True)
    (top / changed).write_text("new")
    commit(top)
    environ = {"PATH": str(top.parent / "prefix" / "bin")}
    with MergeBase.check_out(top, base, environ=os.environ) as found:
        for name in made:
            (found.tree / name).parent.mkdir(parents=True, exist_ok=True)
            (found.tree / name).symlink_to(sys.executable)
        return doubt_of_packages(found, (command, found.tree, environ), setups, span)


@pytest.mark.parametrize(
    ("changed", "says"),
    [
        ("requirements.txt", True),
        ("requirements-dev.in", True),
        ("requirements/prod.txt", True),
        ("services/shop/pyproject.toml", True),
        ("uv.lock", True),
        ("package-lock.json", True),
        ("package.json", True),
        ("environment.yml", True),
        ("setup.py", True),
        (".python-version", True),
        ("Dockerfile", True),
        ("scripts/install.sh", True),
        ("agent.toml", False),
        ("dependencies.py", False),
        ("docs/requirements.md", False),
        ("prompts/system.txt", False),
        ("src/clock.py", False),
    ],
)
def test_a_change_of_what_is_installed_leaves_a_doubt_where_both_agents_use_it(
    top: Path, changed: str, says: bool
) -> None:
    said = packages(top, changed)
    assert said.startswith(f"The change alters `{changed}`, and both agents use") is says
    assert bool(said) is says


def test_what_setup_names_says_what_is_installed_whatever_it_is_called(top: Path) -> None:
    assert "`tools/list`" in packages(top, "tools/list", setups=("xargs pip install <tools/list",) * 2)
    assert "alters `setup-command`" in packages(top, "agent.toml", setups=("pip install b", "pip install a"))


@pytest.mark.parametrize(
    ("command", "made", "is_own"),
    [
        (VENV, (".venv/bin/python",), True),
        (PYTHON, (".venv/bin/python",), False),
        ("sh run.sh", (".venv/pyvenv.cfg",), True),
        ("sh run.sh", (), False),
        ("npm start", ("node_modules/dep/index.js",), True),
        ("npm start", (), False),
        ("uv run agent.py", (), True),
        ("poetry run python agent.py", (), True),
    ],
)
def test_an_agent_with_packages_of_its_own_leaves_no_doubt(
    top: Path, command: str, made: tuple[str, ...], is_own: bool
) -> None:
    assert bool(packages(top, command=command, made=made)) is not is_own


def test_what_the_change_installed_beside_its_environment_leaves_a_doubt(top: Path) -> None:
    began = time.time() - 1  # The clock of the file system may be a little behind.
    tool = top.parent / "prefix" / "lib" / "node_modules" / "tool.js"
    tool.parent.mkdir(parents=True)
    (top.parent / "prefix" / "bin").mkdir()
    tool.write_text("")
    made = (".venv/bin/python",)
    assert "`tool.js` among it" in packages(top, command=VENV, made=made, since=began)


def test_what_setup_installed_leaves_no_doubt_where_the_change_requires_nothing_else(top: Path) -> None:
    tool = top.parent / "prefix" / "bin" / "tool"
    tool.parent.mkdir(parents=True)
    tool.write_text("")
    assert packages(top, "agent.toml", since=time.time() - 1) == ""


@pytest.mark.parametrize(
    ("made", "flags", "lacks"),
    [
        ("data/index.json", {}, "`data/`"),
        ("dist/agent.js", {}, "`dist/`"),
        (".pytest_cache/x", {}, ""),
        ("__pycache__/x.pyc", {}, ""),
        ("made/suites/shop.json", {"suite": "made/suites/*.json"}, ""),
        ("earlier/shop/manifest.json", {"evidence": "earlier"}, ""),
        ("baseline.zip", {"baseline": "baseline.zip"}, ""),
        ("agent-eval-out/pack", {}, ""),
        ("a`b\n/x", {}, "`a'b"),
    ],
)
def test_what_the_worktree_lacks_is_named_unless_the_job_reads_it_or_a_tool_left_it(
    top: Path, monkeypatch: pytest.MonkeyPatch, made: str, flags: dict[str, str], lacks: str
) -> None:
    base = commit(top, **{"lib.py": ""})
    (top / made).parent.mkdir(parents=True, exist_ok=True)
    (top / made).write_text("")
    monkeypatch.chdir(top)
    settings = settings_of(**flags)
    with MergeBase.check_out(top, base, skip=settings.out, environ=os.environ) as found:
        said = doubt_of_files(found, top, settings)
        assert (f"its worktree lacks {lacks}" in said) if lacks else said == ""
        (found.tree / made).parent.mkdir(parents=True, exist_ok=True)
        (found.tree / made).write_text("")
        assert doubt_of_files(found, top, settings) == ""
