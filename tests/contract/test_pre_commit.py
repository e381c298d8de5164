"""The hook that this repository offers to pre-commit: what it names exists, and stops what it should."""

from __future__ import annotations

import json
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).parents[2]
(HOOK,) = yaml.safe_load((ROOT / ".pre-commit-hooks.yaml").read_text(encoding="utf-8"))


def run_hook(root: Path, *files: str) -> subprocess.CompletedProcess[str]:
    """Run the hook as pre-commit does: its entry in the repository, followed by the files."""
    program, *arguments = shlex.split(HOOK["entry"])
    command = [str(Path(sys.executable).with_name(program)), *arguments, *files]
    return subprocess.run(command, cwd=root, capture_output=True, text=True, check=False, timeout=120)


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """A repository with two sound suites."""
    (tmp_path / "suites").mkdir()
    for name in ("suite_good.json", "suite_bad.json"):
        shutil.copyfile(ROOT / "examples" / name, tmp_path / "suites" / name)
    return tmp_path


def test_it_is_installed_from_this_repository_by_pip():
    assert HOOK["language"] == "python"
    assert set(HOOK) <= {"id", "name", "description", "entry", "language", "files"}


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("suites/orders.json", True),
        ("suites/team/orders.jsonl", True),
        ("suites/orders.yaml", True),
        ("suites/README.md", False),
        ("config/judges.json", False),
    ],
)
def test_it_takes_the_suites_where_init_writes_them(path: str, expected: bool):
    assert bool(re.search(HOOK["files"], path)) == expected


def test_sound_suites_are_let_through_and_a_faulty_one_among_them_is_named(repository: Path):
    suites = ("suites/suite_good.json", "suites/suite_bad.json")
    done = run_hook(repository, *suites)
    assert done.returncode == 0, done.stdout + done.stderr
    path = repository / "suites" / "suite_bad.json"
    suite: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    suite["cases"].append(suite["cases"][0])
    path.write_text(json.dumps(suite), encoding="utf-8")
    done = run_hook(repository, *suites)
    assert done.returncode == 1, done.stdout + done.stderr
    assert "suites/suite_good.json is valid" in done.stdout
    assert "suites/suite_bad.json is not valid" in done.stdout


def test_what_is_no_suite_stops_the_commit(repository: Path):
    (repository / "suites" / "broken.json").write_text("{", encoding="utf-8")
    done = run_hook(repository, "suites/broken.json")
    assert done.returncode == 2
    assert "broken.json" in done.stderr
