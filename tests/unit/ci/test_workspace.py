"""Files of root are given back, and what an agent writes into the runner's files is taken back."""

from __future__ import annotations

import os
import shutil
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


def test_a_file_too_large_to_be_read_is_refused_before_and_is_no_missing_one_after(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("agent_eval.ci.workspace.LARGEST", 10)
    path = tmp_path / "env"
    with pytest.raises(Altered), guarded([VARIABLE], {VARIABLE: str(path)}):
        path.write_bytes(b"PATH=/evil" * 10)
    assert not path.exists()
    path.write_bytes(b"x" * 11)
    with pytest.raises(InvalidInput), guarded([VARIABLE], {VARIABLE: str(path)}):
        pytest.fail("the agent was started")


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
    with pytest.raises(StorageError), guarded(["A", "B"], {"A": str(first), "B": str(second)}):
        second.write_bytes(b"forged")
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
    both = "wrote to command files of the job: `A`, `C`"
    with pytest.raises(Altered, match=both), guarded(list(paths), paths):
        shutil.copy(shutil.copy(__file__, paths["A"]), paths["C"])


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


def uid(path: Path) -> int:
    return path.lstat().st_uid


def test_everything_that_was_written_and_the_new_folders_above_it_belong_to_the_owner(
    workspace: Path, tmp_path: Path
) -> None:
    """But not what others put there, nor what a link or a second name leads to."""
    theirs = workspace / "theirs"
    out = theirs / "new" / "out"
    (out / "pack").mkdir(parents=True)
    mine = [workspace / "beside", out / "pack" / "manifest.json"]
    target, secret, database = tmp_path / "target", tmp_path / "secret", out / "database"
    for path in (*mine, target, secret, database):
        path.write_text("")
    for path, owner in ((theirs, 1002), (database, 999)):
        os.chown(path, owner, owner)
    (out / "link").symlink_to(target)
    os.link(secret, out / "report.md")
    give_to_owner(out, workspace)
    assert {uid(path) for path in (out.parent, out, out / "pack", mine[1], out / "link")} == {OWNER}
    assert [uid(path) for path in (theirs, database, mine[0], target, secret)] == [1002, 999, 0, 0, 0]


def test_outside_the_workspace_and_in_one_of_root_nothing_changes(workspace: Path, tmp_path: Path) -> None:
    outside, above = tmp_path / "outside", uid(tmp_path)
    outside.mkdir()
    for place in (workspace / "../outside", workspace):
        give_to_owner(place, workspace)
    give_to_owner(outside, tmp_path)
    give_to_owner(workspace / "missing", workspace / "nowhere")
    assert (uid(outside), uid(tmp_path), uid(workspace)) == (0, above, OWNER)


def test_an_output_that_is_a_link_out_of_the_workspace_is_left_alone(workspace: Path, tmp_path: Path) -> None:
    target = tmp_path / "etc"
    target.mkdir()
    (target / "passwd").write_text("")
    (workspace / "out").symlink_to(target)
    for place in ("out", "out/deeper"):
        give_to_owner(workspace / place, workspace)
    assert {uid(target), uid(target / "passwd")} == {0}


@pytest.mark.parametrize("replaced", ["out", "out/pack"])
def test_a_folder_that_becomes_a_link_meanwhile_is_not_followed(replaced, workspace, tmp_path, monkeypatch):
    target, real = tmp_path / "etc", os.open
    for top in (target, workspace / "out"):
        (top / "pack").mkdir(parents=True)
        for name in ("passwd", "pack/passwd"):
            (top / name).write_text("")

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
