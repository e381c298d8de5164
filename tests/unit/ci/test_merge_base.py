"""What counts as a change of the agent, and what leaves it open whether the merge base ran as itself."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from agent_eval.ci.merge_base import MergeBase, doubt_of_base

WHO = ("-c", "user.name=Ada", "-c", "user.email=ada@example.com", "-c", "commit.gpgsign=false")
GIT = ("git", *WHO, "-c", "protocol.file.allow=always")


def git(top: Path, *arguments: str) -> str:
    done = subprocess.run([*GIT, *arguments], cwd=top, check=True, capture_output=True, text=True)
    return done.stdout.strip()


def commit(top: Path, **files: str) -> str:
    """Commit files and return the commit."""
    for name, text in files.items():
        (top / name).write_text(text)
    git(top, "add", "--all")
    git(top, "commit", "--quiet", "--allow-empty", "-m", "work")
    return git(top, "rev-parse", "HEAD")


@pytest.fixture
def top(tmp_path: Path) -> Path:
    top = tmp_path / "top"
    top.mkdir()
    git(top, "init", "--quiet", "--initial-branch", "main")
    return top


def is_unchanged(top: Path, base: str) -> bool:
    with MergeBase.check_out(top, base, environ=os.environ) as found:
        return found.is_unchanged


def test_a_submodule_that_git_is_told_to_ignore_is_a_change(top: Path, tmp_path: Path) -> None:
    library = tmp_path / "library"
    library.mkdir()
    git(library, "init", "--quiet", "--initial-branch", "main")
    commit(library, agent="good")
    git(top, "submodule", "--quiet", "add", str(library), "library")
    git(top, "config", "-f", ".gitmodules", "submodule.library.ignore", "all")
    base = commit(top)
    assert is_unchanged(top, base)
    commit(library, agent="broken")
    git(top / "library", "pull", "--quiet")
    assert not is_unchanged(top, base)
    changed = git(top / "library", "rev-parse", "HEAD")
    git(top, "update-index", "--cacheinfo", f"160000,{changed},library")
    git(top, "commit", "--quiet", "-m", "change")
    assert not is_unchanged(top, base)


@pytest.mark.parametrize(
    ("name", "is_of_ci"),
    [
        (".github/workflows/eval.yml", True),
        (".GitHub/workflows/eval.yml", True),
        (".gitlab-ci.yml", True),
        ("ci/eval.gitlab-ci.yml", True),
        (".circleci/config.yml", True),
        (".buildkite/pipeline.yml", True),
        ("Jenkinsfile", True),
        ("eval/action.yml", True),
        ("ci/Release.Jenkinsfile", True),
        (".gitlab/ci/eval.yml", True),
        (".forgejo/workflows/eval.yml", True),
        ("bitbucket-pipelines.yml", True),
        ("agent.py", False),
        ("docs/github.md", False),
    ],
)
def test_a_change_of_a_ci_file_leaves_the_merge_base_in_doubt(top: Path, name: str, is_of_ci: bool) -> None:
    base = commit(top, notes="base")
    (top / name).parent.mkdir(parents=True, exist_ok=True)
    (top / name).write_text("new")

    def doubt() -> str:
        return doubt_of_base(top, base, skip=top / "out", environ=os.environ)

    assert bool(doubt()) is is_of_ci
    commit(top)
    assert bool(doubt()) is is_of_ci
    git(top, "mv", name, "elsewhere")
    commit(top)
    assert not doubt()


def test_a_ci_file_that_is_removed_or_moved_leaves_the_merge_base_in_doubt(top: Path) -> None:
    base = commit(top, Jenkinsfile="one line of it\n" * 20)
    git(top, "mv", "Jenkinsfile", "elsewhere")
    commit(top)
    assert "`Jenkinsfile`" in doubt_of_base(top, base, skip=top / "out", environ=os.environ)


def test_without_a_history_the_merge_base_is_in_doubt(top: Path, tmp_path: Path) -> None:
    commit(top, notes="base")
    for where in (top, tmp_path):
        assert "not known" in doubt_of_base(where, "0" * 40, skip=top / "out", environ=os.environ)
