"""What a run records of where it ran."""

from __future__ import annotations

import json
import os
import platform
import shutil
import subprocess
from pathlib import Path

import pytest

from agent_eval import __version__
from agent_eval.operations.environment import git_commit, pinned_environment

COMMIT = "0123456789abcdef0123456789abcdef01234567"
OTHER = "f" * 40


def test_pinned_environment__names_interpreter_machine_and_judging_packages() -> None:
    pinned = pinned_environment()
    assert pinned["agent_eval"] == __version__
    assert pinned["python"] == platform.python_version()
    assert pinned["packages"]["google-re2"]
    assert json.loads(json.dumps(pinned)) == pinned


def test_pinned_environment__a_package_that_is_not_installed_is_null(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("agent_eval.operations.environment.JUDGING_PACKAGES", ("no-such-package",))
    assert pinned_environment()["packages"] == {"no-such-package": None}


def git_directory(at: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        (at / ".git" / name).parent.mkdir(parents=True, exist_ok=True)
        (at / ".git" / name).write_text(text)
    return at


def test_commit__detached_head(tmp_path: Path) -> None:
    assert git_commit(git_directory(tmp_path, {"HEAD": COMMIT + "\n"})) == COMMIT


def test_commit__loose_reference_seen_from_a_subdirectory(tmp_path: Path) -> None:
    git_directory(tmp_path, {"HEAD": "ref: refs/heads/main\n", "refs/heads/main": COMMIT + "\n"})
    below = tmp_path / "a" / "b"
    below.mkdir(parents=True)
    assert git_commit(below) == COMMIT


def test_commit__packed_reference(tmp_path: Path) -> None:
    packed = f"# pack-refs with: peeled\n{OTHER} refs/heads/other\n{COMMIT} refs/heads/main\n^{OTHER}\n"
    git_directory(tmp_path, {"HEAD": "ref: refs/heads/main\n", "packed-refs": packed})
    assert git_commit(tmp_path) == COMMIT


def test_commit__a_loose_reference_is_newer_than_a_packed_one(tmp_path: Path) -> None:
    files = {
        "HEAD": "ref: refs/heads/main",
        "refs/heads/main": COMMIT,
        "packed-refs": f"{OTHER} refs/heads/main",
    }
    assert git_commit(git_directory(tmp_path, files)) == COMMIT


def test_commit__worktree(tmp_path: Path) -> None:
    main = git_directory(
        tmp_path / "main",
        {
            "HEAD": "ref: refs/heads/main",
            "refs/heads/topic": COMMIT,
            "worktrees/topic/HEAD": "ref: refs/heads/topic",
            "worktrees/topic/commondir": "../..\n",
        },
    )
    tree = tmp_path / "topic"
    tree.mkdir()
    (tree / ".git").write_text(f"gitdir: {main}/.git/worktrees/topic\n")
    assert git_commit(tree) == COMMIT


@pytest.mark.parametrize(
    "files",
    [
        {"HEAD": "ref: refs/heads/unborn"},
        {"HEAD": "nonsense"},
        {"HEAD": "ref: ../../../../etc/hostname"},
        {"HEAD": "ref: /etc/hostname"},
        {"HEAD": "ref: refs/heads/main", "refs/heads/main": "not a commit"},
        {"config": ""},
    ],
)
def test_commit__unknown_where_git_says_nothing_usable(tmp_path: Path, files: dict[str, str]) -> None:
    assert git_commit(git_directory(tmp_path, files)) is None


def test_commit__unknown_when_the_git_file_is_something_else(tmp_path: Path) -> None:
    (tmp_path / ".git").write_text("hello")
    assert git_commit(tmp_path) is None


def test_commit__unknown_when_bytes_are_not_text(tmp_path: Path) -> None:
    git_directory(tmp_path, {})
    (tmp_path / ".git").mkdir()
    (tmp_path / ".git" / "HEAD").write_bytes(b"\xff\xfe")
    assert git_commit(tmp_path) is None


@pytest.mark.skipif(shutil.which("git") is None, reason="git is not installed")
@pytest.mark.parametrize("packed", [False, True])
def test_commit__agrees_with_git_itself(tmp_path: Path, packed: bool) -> None:
    environ = {**os.environ, "GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_SYSTEM": os.devnull}

    def git(*arguments: str) -> str:
        done = subprocess.run(
            ["git", "-c", "user.name=A", "-c", "user.email=a@example.com", *arguments],
            cwd=tmp_path,
            env=environ,
            capture_output=True,
            text=True,
            check=True,
        )
        return done.stdout.strip()

    git("init", "--quiet")
    git("commit", "--quiet", "--allow-empty", "--message", "first")
    if packed:
        git("pack-refs", "--all")
    assert git_commit(tmp_path) == git("rev-parse", "HEAD")
