"""The digest of a directory: what changes it, and what does not."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from agent_eval.ci.tree_digest import TreeDigest


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    top = tmp_path / "tree"
    (top / "lib").mkdir(parents=True)
    (top / ".git").mkdir()
    (top / "agent.py").write_text("print(1)")
    (top / "lib" / "tool.py").write_text("x = 1")
    (top / "link").symlink_to("agent.py")
    return top


def same_size_and_time(top: Path) -> None:
    """Another content of the same size, with the time of the old one put back."""
    before = (top / "agent.py").stat()
    (top / "agent.py").write_text("print(2)")
    os.utime(top / "agent.py", ns=(before.st_atime_ns, before.st_mtime_ns))


CHANGES: dict[str, tuple[str, Callable[[Path], object]]] = {
    "another content, size and time as before": ("agent.py", same_size_and_time),
    "a new file": ("lib/new", lambda top: (top / "lib" / "new").write_text("")),
    "a file less": ("lib/tool.py", lambda top: (top / "lib" / "tool.py").unlink()),
    "another name": ("agent.py", lambda top: (top / "agent.py").rename(top / "agent2.py")),
    "other permissions": ("agent.py", lambda top: (top / "agent.py").chmod(0o755)),
    "a link that leads elsewhere": (
        "link",
        lambda top: ((top / "link").unlink(), (top / "link").symlink_to("lib/tool.py")),
    ),
    "a link in place of a file": (
        "agent.py",
        lambda top: ((top / "agent.py").unlink(), (top / "agent.py").symlink_to("lib/tool.py")),
    ),
    "a pipe": ("pipe", lambda top: os.mkfifo(top / "pipe")),
}


@pytest.mark.parametrize("change", CHANGES)
def test_every_change_of_a_directory_changes_its_digest_and_names_the_path(tree: Path, change: str) -> None:
    path, make = CHANGES[change]
    digest = TreeDigest(tree)
    before = digest.take()
    assert digest.take() == before == TreeDigest(tree).take()
    make(tree)
    now = digest.take()
    assert now.digest != before.digest
    assert now.first_altered_since(before) == path
    assert now.first_altered_since(now) is None


def test_what_is_skipped_or_not_listed_does_not_count(tree: Path) -> None:
    skipping, listed = TreeDigest(tree), TreeDigest(tree, only=frozenset({"agent.py"}))
    before = skipping.take(), listed.take()
    (tree / ".git" / "index").write_text("new")
    assert skipping.take() == before[0]
    (tree / "lib" / "tool.py").write_text("x = 2")
    assert listed.take() == before[1]
    (tree / "agent.py").write_text("print(3)")
    assert listed.take() != before[1]
