"""Files of root are given back, and what an agent writes into the runner's files is taken back."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable
from pathlib import Path

import pytest

from agent_eval.ci.platforms.github import GITHUB
from agent_eval.ci.workspace import Altered, FileSnapshot, give_to_owner, guarded
from agent_eval.errors import ExitCode, InvalidInput, StorageError

BEFORE = b"of an earlier step\n"
VARIABLE = "RUNNER_FILE"


def through_a_held_descriptor(path: Path) -> None:
    with path.open("ab") as file:
        file.write(b"PATH=/evil")


def as_a_link(path: Path) -> None:
    (path.parent / "elsewhere").write_bytes(BEFORE)
    path.unlink()
    path.symlink_to(path.parent / "elsewhere")


def as_a_pipe(path: Path) -> None:
    path.unlink()
    os.mkfifo(path)


def as_a_directory(path: Path) -> None:
    path.unlink()
    (path / "in").mkdir(parents=True)


TRICKS: list[Callable[[Path], object]] = [
    *(through_a_held_descriptor, as_a_link, as_a_pipe, as_a_directory, Path.unlink),
    lambda path: path.write_bytes(b""),
    lambda path: path.write_bytes(BEFORE[:-1] + b"!"),
    lambda path: path.replace(path.with_name("moved")),
]


@pytest.mark.parametrize("trick", TRICKS)
def test_a_changed_file_is_as_before_and_the_job_cannot_be_evaluated(
    tmp_path: Path, trick: Callable[[Path], object]
) -> None:
    path = tmp_path / "env"
    path.write_bytes(BEFORE)
    path.chmod(0o640)
    with pytest.raises(Altered) as raised, guarded([VARIABLE], {VARIABLE: str(path)}):
        trick(path)
    assert not path.is_symlink()
    assert path.read_bytes() == BEFORE
    assert path.stat().st_mode & 0o777 == 0o640
    assert raised.value.message == f"The agent wrote to a command file of the job: `{VARIABLE}`."
    assert raised.value.exit_code == ExitCode.NOT_EVALUABLE


@pytest.mark.parametrize("make", [Path.mkdir, Path.touch, os.mkfifo, lambda path: path.symlink_to("/etc")])
def test_a_file_that_was_not_there_is_not_there(tmp_path: Path, make: Callable[[Path], object]) -> None:
    path = tmp_path / "env"
    with pytest.raises(Altered), guarded([VARIABLE], {VARIABLE: str(path)}):
        make(path)
    assert not os.path.lexists(path)


def test_a_file_too_large_to_be_read_does_not_pass_for_one_that_was_not_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("agent_eval.ci.workspace.LARGEST", 10)
    path = tmp_path / "env"
    with pytest.raises(Altered), guarded([VARIABLE], {VARIABLE: str(path)}):
        path.write_bytes(b"PATH=/evil" * 10)
    assert not path.exists()


def test_what_cannot_be_remembered_is_refused_before_the_agent_starts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("agent_eval.ci.workspace.LARGEST", 10)
    path = tmp_path / "env"
    path.write_bytes(b"x" * 11)
    guard = guarded([VARIABLE], {VARIABLE: str(path)})
    with pytest.raises(InvalidInput):
        guard.__enter__()


def test_one_that_fails_does_not_keep_the_others(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first, second = tmp_path / "first", tmp_path / "second"
    for path in (first, second):
        path.write_bytes(BEFORE)
    restore = FileSnapshot.restore

    def fail(self: FileSnapshot) -> bool:
        if self.path == first:
            raise StorageError("no")
        return restore(self)

    monkeypatch.setattr(FileSnapshot, "restore", fail)
    guard = guarded(["A", "B"], {"A": str(first), "B": str(second)})
    guard.__enter__()
    second.write_bytes(b"forged")
    with pytest.raises(StorageError):
        guard.__exit__(None, None, None)
    assert second.read_bytes() == BEFORE


def test_a_descriptor_that_a_process_keeps_writes_to_nothing(tmp_path: Path) -> None:
    path = tmp_path / "env"
    path.write_bytes(BEFORE)
    with path.open("ab", buffering=0) as held:
        with pytest.raises(Altered), guarded([VARIABLE], {VARIABLE: str(path)}):
            held.write(b"PATH=/evil")
        held.write(b"PATH=/evil")
    assert path.read_bytes() == BEFORE


def test_it_is_restored_where_the_evaluation_fails(tmp_path: Path) -> None:
    path = tmp_path / "env"
    path.write_bytes(BEFORE)
    guard = guarded([VARIABLE], {VARIABLE: str(path)})
    guard.__enter__()
    path.write_bytes(b"other")
    with pytest.raises(Altered):
        guard.__exit__(KeyError, KeyError(), None)
    assert path.read_bytes() == BEFORE


def test_all_files_that_were_changed_are_named(tmp_path: Path) -> None:
    paths = {name: str(tmp_path / name) for name in ("A", "B", "C")}
    with (
        pytest.raises(Altered, match="wrote to command files of the job: `A`, `C`"),
        guarded(list(paths), paths),
    ):
        deque((Path(paths[name]).write_bytes(b"x") for name in ("A", "C")), maxlen=0)


@pytest.mark.parametrize("environ", [{}, {VARIABLE: ""}, {VARIABLE: "/dev/null"}, {VARIABLE: "env"}], ids=str)
def test_nothing_is_said_where_nothing_was_changed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, environ: dict[str, str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("env").write_bytes(BEFORE)
    before = Path("env").stat()
    with guarded([VARIABLE], environ):
        pass
    assert Path("env").stat().st_ino == before.st_ino


def test_the_files_of_github_are_named() -> None:
    assert set(GITHUB.command_files) == {
        *("GITHUB_ENV", "GITHUB_PATH", "GITHUB_OUTPUT", "GITHUB_STATE", "GITHUB_STEP_SUMMARY")
    }


OWNER = 1001


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    """A folder of somebody who is not root."""
    if os.geteuid() != 0:
        pytest.skip("needs root, as in a container action")
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
