"""What killed writers leave is removed; what living ones write is not."""

from __future__ import annotations

import fcntl
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from agent_eval.storage.atomic import new_directory, write_file
from agent_eval.storage.leftovers import lock_partial, sweep, without_new_directories

_WRITER = """
import sys
from pathlib import Path
from agent_eval.storage.atomic import new_directory, new_file
kind, path = sys.argv[1], Path(sys.argv[2])
with (new_directory(path) if kind == "directory" else new_file(path)) as made:
    (made / "half").write_text("x") if kind == "directory" else made.write(b"x")
    print("writing", flush=True)
    sys.stdin.read()
"""


@pytest.fixture(params=["directory", "file"])
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def writer(kind: str, path: Path) -> subprocess.Popen[str]:
    process = subprocess.Popen(
        [sys.executable, "-c", _WRITER, kind, str(path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "writing\n"
    return process


def write(kind: str, path: Path) -> None:
    if kind == "file":
        write_file(path, b"new")
    else:
        with new_directory(path, replace=True) as root:
            (root / "new").write_text("")


def ended(process: subprocess.Popen[str]) -> None:
    process.communicate()


def test_what_a_killed_writer_left_is_removed_by_the_next(kind: str, tmp_path: Path) -> None:
    for _ in range(2):
        process = writer(kind, tmp_path / "out")
        os.kill(process.pid, signal.SIGKILL)
        ended(process)
    [leftover] = tmp_path.iterdir()
    assert leftover.name.startswith(".out.partial-")
    write(kind, tmp_path / "out")
    assert [path.name for path in tmp_path.iterdir()] == ["out"]


def test_what_another_writer_is_busy_with_stays(kind: str, tmp_path: Path) -> None:
    process = writer(kind, tmp_path / "out")
    write(kind, tmp_path / "out")
    assert len(list(tmp_path.iterdir())) == 2
    if kind == "file":
        ended(process)
        assert process.returncode == 0
        assert (tmp_path / "out").read_bytes() == b"x"
    else:
        process.kill()
        ended(process)


@pytest.mark.parametrize(
    "name", [".out.partial-notes", ".out.partial-0123456789abcdef.txt", ".other.partial-" + 16 * "0"]
)
def test_other_peoples_files_stay(name: str, kind: str, tmp_path: Path) -> None:
    (tmp_path / name).write_text("mine")
    write(kind, tmp_path / "out")
    assert (tmp_path / name).read_text() == "mine"


def test_a_link_of_that_name_is_not_followed(kind: str, tmp_path: Path) -> None:
    (tmp_path / "precious").mkdir()
    (tmp_path / "precious" / "file").write_text("mine")
    (tmp_path / (".out.partial-" + 16 * "0")).symlink_to(tmp_path / "precious")
    write(kind, tmp_path / "out")
    assert (tmp_path / "precious" / "file").read_text() == "mine"


def test_who_was_not_quick_enough_makes_another_one(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    refused: list[Path] = []

    def too_late(partial: Path, descriptor: int) -> bool:
        if not refused:
            refused.append(partial)
            partial.rmdir() if partial.is_dir() else partial.unlink()
        return lock_partial(partial, descriptor)

    monkeypatch.setattr("agent_eval.storage.atomic.lock_partial", too_late)
    write(kind, tmp_path / "out")
    assert len(refused) == 1
    assert [path.name for path in tmp_path.iterdir()] == ["out"]


def test_what_is_locked_by_somebody_else_is_not_ours(tmp_path: Path) -> None:
    path = tmp_path / "file"
    with path.open("wb") as one, path.open("rb") as other:
        assert lock_partial(path, one.fileno())
        assert not lock_partial(path, other.fileno())


def test_a_directory_that_cannot_be_read_is_not_swept(tmp_path: Path) -> None:
    sweep(tmp_path / "nothing", ".out.partial-")
    (tmp_path / "file").write_text("x")
    sweep(tmp_path / "file", ".out.partial-")
    assert (tmp_path / "file").read_text() == "x"


def test_what_takes_the_place_of_a_leftover_stays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    partial = tmp_path / f".out.partial-{'0' * 16}"
    partial.write_text("left by a killed writer")
    lock = fcntl.flock

    def replaced_meanwhile(descriptor: int, how: int) -> None:
        lock(descriptor, how)
        partial.rename(tmp_path / "finished")
        partial.write_text("of somebody else")

    monkeypatch.setattr(fcntl, "flock", replaced_meanwhile)
    sweep(tmp_path, ".out.partial-")
    assert partial.read_text() == "of somebody else"
    assert (tmp_path / "finished").exists()


def test_what_is_gone_meanwhile_is_no_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    partial = tmp_path / f".out.partial-{'0' * 16}"
    partial.write_text("x")
    lock = fcntl.flock
    monkeypatch.setattr(fcntl, "flock", lambda descriptor, how: (lock(descriptor, how), partial.unlink())[0])
    sweep(tmp_path, ".out.partial-")
    assert not partial.exists()


def test_directories_that_a_failure_leaves_empty_are_removed_and_no_others(tmp_path: Path) -> None:
    (tmp_path / "kept").mkdir()
    for written, left in ((None, []), ("results/note", ["results", "results/note"])):
        place = tmp_path / "kept/results/suite/now/pack"

        def fail(place: Path = place, written: str | None = written) -> None:
            with without_new_directories(place):
                place.parent.mkdir(parents=True)
                if written is not None:
                    (tmp_path / "kept" / written).write_text("mine")
                raise ValueError("refused")

        with pytest.raises(ValueError, match="refused"):
            fail()
        found = sorted(path.relative_to(tmp_path / "kept").as_posix() for path in tmp_path.rglob("kept/**/*"))
        assert found == left
    with without_new_directories(tmp_path / "new/pack"):
        (tmp_path / "new").mkdir()
    assert (tmp_path / "new").is_dir()
