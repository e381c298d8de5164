"""Files of root in somebody else's workspace are given back."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from agent_eval.ci.workspace import give_to_owner

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
    give_to_owner(out, workspace)
    assert {path.stat().st_uid for path in workspace.rglob("*")} == {OWNER}


def test_what_was_there_before_keeps_its_owner(workspace):
    (workspace / "theirs").mkdir()
    os.chown(workspace / "theirs", 1002, 1002)
    (workspace / "theirs" / "out").mkdir()
    (workspace / "beside").write_text("")
    give_to_owner(workspace / "theirs" / "out", workspace)
    assert (workspace / "theirs").stat().st_uid == 1002
    assert (workspace / "theirs" / "out").stat().st_uid == OWNER
    assert (workspace / "beside").stat().st_uid == 0


def test_a_link_is_given_back_and_its_target_is_not(workspace, tmp_path):
    target = tmp_path / "target"
    target.write_text("")
    (workspace / "out").mkdir()
    (workspace / "out" / "link").symlink_to(target)
    give_to_owner(workspace / "out", workspace)
    assert target.stat().st_uid == 0
    assert (workspace / "out" / "link").lstat().st_uid == OWNER


@pytest.mark.parametrize("place", ["../outside", "."])
def test_outside_the_workspace_nothing_changes(place, workspace, tmp_path):
    (tmp_path / "outside").mkdir()
    above = tmp_path.stat().st_uid
    give_to_owner(workspace / place, workspace)
    assert (tmp_path / "outside").stat().st_uid == 0
    assert tmp_path.stat().st_uid == above


def test_a_workspace_of_root_and_a_missing_folder_are_left_alone(workspace, tmp_path):
    out = tmp_path / "out"
    out.mkdir()
    give_to_owner(out, tmp_path)
    assert out.stat().st_uid == 0
    give_to_owner(workspace / "missing", workspace / "nowhere")


def test_what_others_put_there_stays_theirs(workspace, tmp_path):
    out = workspace / "out"
    out.mkdir()
    (out / "database").write_text("")
    os.chown(out / "database", 999, 999)
    secret = tmp_path / "secret"
    secret.write_text("root's, under a second name")
    os.link(secret, out / "report.md")
    (out / "mine").write_text("")
    give_to_owner(out, workspace)
    assert (out / "database").stat().st_uid == 999
    assert secret.stat().st_uid == 0
    assert (out / "mine").stat().st_uid == OWNER


def test_an_output_that_is_a_link_out_of_the_workspace_is_left_alone(workspace, tmp_path):
    target = tmp_path / "etc"
    target.mkdir()
    (target / "passwd").write_text("")
    (workspace / "out").symlink_to(target)
    give_to_owner(workspace / "out", workspace)
    give_to_owner(workspace / "out" / "deeper", workspace)
    assert {target.stat().st_uid, (target / "passwd").stat().st_uid} == {0}


@pytest.mark.parametrize("replaced", ["out", "out/pack"])
def test_a_folder_that_becomes_a_link_meanwhile_is_not_followed(replaced, workspace, tmp_path, monkeypatch):
    target = tmp_path / "etc"
    (target / "pack").mkdir(parents=True)
    (target / "passwd").write_text("")
    (target / "pack" / "passwd").write_text("")
    (workspace / "out" / "pack").mkdir(parents=True)
    (workspace / "out" / "pack" / "passwd").write_text("")
    (workspace / "out" / "passwd").write_text("")
    real = os.open

    def swap(path, *arguments, **options):
        place = workspace / replaced
        if not place.is_symlink() and str(path).endswith(place.name):
            place.rename(tmp_path / "aside")
            place.symlink_to(target)
        return real(path, *arguments, **options)

    monkeypatch.setattr(os, "open", swap)
    give_to_owner(workspace / "out", workspace)
    assert (workspace / replaced).is_symlink()
    assert {path.stat().st_uid for path in target.rglob("*")} == {0}
