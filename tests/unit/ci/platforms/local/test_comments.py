"""The comment that is a file."""

from __future__ import annotations

from pathlib import Path

import pytest

from agent_eval.ci.comment import Marker, Published, publish
from agent_eval.ci.platforms.base import comment_words
from agent_eval.ci.platforms.local import LOCAL, FileComments

HEAD = "a" * 40


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "comments" / "default.md"


def write(file: Path, text: str, *, run: int = 1, sha: str = HEAD) -> Published:
    marker = Marker("default", sha, run, 1)
    comments = FileComments(file, lambda: HEAD)
    return publish(comments, marker, f"{marker}\n{text}", words=comment_words(LOCAL))


def test_it_is_created_and_then_updated_in_place(file: Path) -> None:
    assert write(file, "first").action == "created"
    published = write(file, "second", run=2)
    assert (published.action, published.url) == ("updated", str(file))
    assert file.read_text().endswith("second")


def test_a_late_run_on_another_commit_leaves_what_is_said_of_the_checkout(file: Path) -> None:
    write(file, "about the checkout")
    assert write(file, "about another commit", run=2, sha="b" * 40).action == "kept"
    assert file.read_text().endswith("about the checkout")


@pytest.mark.parametrize("mine", ["mine", "<!-- agent-eval id=other run=1 attempt=1 -->\nother"])
def test_another_file_in_its_place_is_not_replaced(file: Path, mine: str) -> None:
    file.parent.mkdir()
    file.write_text(mine)
    published = write(file, "text")
    assert published.action == "refused"
    assert "is not a comment of this evaluation" in published.warning
    assert file.read_text() == mine


def test_a_link_that_leads_nowhere_is_not_replaced(file: Path, tmp_path: Path) -> None:
    file.parent.mkdir()
    file.symlink_to(tmp_path / "nowhere")
    assert write(file, "text").action == "refused"
    assert not (tmp_path / "nowhere").exists()


@pytest.mark.parametrize("obstacle", ["directory in its place", "file in the place of its directory"])
def test_a_place_that_cannot_be_read_or_written_costs_no_decision(file: Path, obstacle: str) -> None:
    if obstacle == "directory in its place":
        file.mkdir(parents=True)
    else:
        file.parent.write_text("")
    published = write(file, "text")
    assert published.action == "refused"
    assert published.warning
