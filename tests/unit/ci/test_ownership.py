"""Files of root in somebody else's workspace are given back."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from agent_eval.ci.ownership import give_back

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="needs root, as in a container action")

OWNER = 1001


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    """A folder of somebody who is not root."""
    directory = tmp_path / "workspace"
    directory.mkdir()
    os.chown(directory, OWNER, OWNER)
    return directory


def test_everything_written_and_the_new_folders_above_it_belong_to_the_owner(workspace):
    out = workspace / "a" / "b" / "out"
    (out / "pack").mkdir(parents=True)
    (out / "pack" / "manifest.json").write_text("{}")
    give_back(out, workspace)
    assert {path.stat().st_uid for path in workspace.rglob("*")} == {OWNER}


def test_what_was_there_before_keeps_its_owner(workspace):
    (workspace / "theirs").mkdir()
    os.chown(workspace / "theirs", 1002, 1002)
    (workspace / "theirs" / "out").mkdir()
    (workspace / "beside").write_text("")
    give_back(workspace / "theirs" / "out", workspace)
    assert (workspace / "theirs").stat().st_uid == 1002
    assert (workspace / "theirs" / "out").stat().st_uid == OWNER
    assert (workspace / "beside").stat().st_uid == 0


def test_a_link_is_given_back_and_its_target_is_not(workspace, tmp_path):
    target = tmp_path / "target"
    target.write_text("")
    (workspace / "out").mkdir()
    (workspace / "out" / "link").symlink_to(target)
    give_back(workspace / "out", workspace)
    assert target.stat().st_uid == 0
    assert (workspace / "out" / "link").lstat().st_uid == OWNER


@pytest.mark.parametrize("place", ["../outside", "."])
def test_outside_the_workspace_nothing_changes(place, workspace, tmp_path):
    (tmp_path / "outside").mkdir()
    above = tmp_path.stat().st_uid
    give_back(workspace / place, workspace)
    assert (tmp_path / "outside").stat().st_uid == 0
    assert tmp_path.stat().st_uid == above


def test_a_workspace_of_root_and_a_missing_folder_are_left_alone(workspace, tmp_path):
    out = tmp_path / "out"
    out.mkdir()
    give_back(out, tmp_path)
    assert out.stat().st_uid == 0
    give_back(workspace / "missing", workspace / "nowhere")
