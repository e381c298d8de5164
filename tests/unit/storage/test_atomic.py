"""Durable writes: whatever goes wrong, what was there before is still there, whole.

What killed writers leave is removed; what living ones write is not.
"""

import ctypes
import errno
import fcntl
import hashlib
import os
import resource
import signal
import stat
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from agent_eval.errors import StorageError, UsageError
from agent_eval.storage import atomic
from agent_eval.storage.atomic import (
    HashedFile,
    append_file,
    exchange,
    new_directories,
    new_directory,
    new_file,
    sync_file_system,
    without_new_directories,
    write_file,
    write_private,
    write_unsynced,
)


def content(root: Path) -> dict[str, bytes]:
    """Everything below a directory, hidden leftovers included."""
    return {at.relative_to(root).as_posix(): at.read_bytes() for at in root.rglob("*") if at.is_file()}


@contextmanager
def files_limited_to(size: int) -> Iterator[None]:
    """Make the system refuse to let files grow beyond `size`, as a full disk would."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    previous = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        signal.signal(signal.SIGXFSZ, previous)


@contextmanager
def umask(mask: int) -> Iterator[None]:
    previous = os.umask(mask)
    try:
        yield
    finally:
        os.umask(previous)


def test_write_file_replaces_a_link_and_not_what_it_points_to(tmp_path: Path) -> None:
    (tmp_path / "precious").write_bytes(b"old")
    (tmp_path / "out").symlink_to("precious")
    write_file(tmp_path / "out", b"new")
    assert content(tmp_path) == {"out": b"new", "precious": b"old"}


def test_write_file_respects_the_umask(tmp_path: Path) -> None:
    with umask(0o027):
        write_file(tmp_path / "x", b"")
    assert (tmp_path / "x").stat().st_mode & 0o777 == 0o640


def test_a_partial_file_can_lie_elsewhere(tmp_path: Path) -> None:
    (tmp_path / "aside").mkdir()
    seen = []
    with new_file(tmp_path / "out" / "x", aside=tmp_path / "aside") as file:
        file.write(b"all")
        file.flush()
        seen = list(content(tmp_path))
    assert [name.split("/")[0] for name in seen] == ["aside"]
    assert content(tmp_path) == {"out/x": b"all"}


def test_write_file_writes_through_pipes(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    try:
        write_file(pipe, b"through")
        assert os.read(reader, 100) == b"through"
    finally:
        os.close(reader)


def test_standard_output_is_written_to_and_not_replaced(tmp_path: Path) -> None:
    code = (
        "from pathlib import Path\nfrom agent_eval.storage.atomic import write_file\n"
        "print('before', flush=True)\nwrite_file(Path('/dev/stdout'), b'data\\n')"
    )
    with open(tmp_path / "captured", "wb") as captured:
        for _ in range(2):  # what the next program writes follows it
            subprocess.run([sys.executable, "-c", code], stdout=captured, check=True)
    assert (tmp_path / "captured").read_bytes() == b"before\ndata\n" * 2


@pytest.mark.parametrize("name", ["directory", "file/below"])
def test_impossible_paths_are_refused(tmp_path: Path, name: str) -> None:
    (tmp_path / "directory").mkdir()
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(StorageError) as caught:
        write_file(tmp_path / name, b"data")
    assert caught.value.remedy
    assert not [name for name in content(tmp_path) if "partial" in name]


@pytest.mark.parametrize("can_exchange", [True, False])
def test_new_directory_takes_the_place_of_an_empty_one_and_of_another_when_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, can_exchange: bool
) -> None:
    if not can_exchange:
        monkeypatch.setattr(atomic, "exchange", lambda one, other: False)
    (tmp_path / "pack").mkdir()
    make_directory(tmp_path / "pack", b"old")
    with pytest.raises(UsageError, match="not empty"), new_directory(tmp_path / "pack"):
        raise AssertionError("the block must not run")
    assert content(tmp_path) == {"pack/x": b"old"}
    make_directory(tmp_path / "pack", b"new", replace=True)
    assert content(tmp_path) == {"pack/x": b"new"}


def test_a_failed_replacement_restores_the_old_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    make_directory(tmp_path / "pack", b"old")
    monkeypatch.setattr(atomic, "exchange", lambda one, other: False)
    rename = os.rename

    def fails_for_the_new_one(source: Path, target: Path) -> None:
        if ".partial-" in str(source):
            raise OSError(5, "Input/output error")
        rename(source, target)

    monkeypatch.setattr(os, "rename", fails_for_the_new_one)
    with pytest.raises(StorageError):
        make_directory(tmp_path / "pack", b"new", replace=True)
    assert content(tmp_path) == {"pack/x": b"old"}


def test_directories_that_belong_together_appear_together(tmp_path: Path) -> None:
    finals = [tmp_path / "out" / "a", tmp_path / "out" / "b"]
    make_directory(finals[0], b"old")
    with new_directories(finals, may_replace=lambda final: final.name == "a") as places:
        for place in places:
            make_directory(place, b"new")
        assert content(finals[0]) == {"x": b"old"}
    assert content(tmp_path) == {"out/a/x": b"new", "out/b/x": b"new"}


@pytest.mark.parametrize("error", [RuntimeError, KeyboardInterrupt, OSError])
def test_what_belongs_together_stays_as_it_was(tmp_path: Path, error: type[BaseException]) -> None:
    make_directory(tmp_path / "a", b"old")

    def fails(*finals: Path) -> None:
        with new_directories(finals, may_replace=lambda final: True) as places:
            make_directory(places[0], b"new")
            raise error(28, "No space left on device")

    for finals in ((tmp_path / "a", tmp_path / "b"), (tmp_path / "new" / "deep" / "a", tmp_path / "b")):
        with pytest.raises(StorageError if error is OSError else error):
            fails(*finals)
    assert content(tmp_path) == {"a/x": b"old"}
    assert [path.name for path in tmp_path.iterdir()] == ["a"]


def test_directories_of_others_are_refused_before_anything_is_built(tmp_path: Path) -> None:
    make_directory(tmp_path / "b", b"foreign")
    with (
        pytest.raises(UsageError, match="not empty"),
        new_directories([tmp_path / "a", tmp_path / "b"], may_replace=lambda final: False),
    ):
        pytest.fail("this is not reached")
    assert content(tmp_path) == {"b/x": b"foreign"}


def test_a_really_full_disk_keeps_what_was_there(tmp_path: Path) -> None:
    disk = tmp_path / "disk"
    disk.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", disk], capture_output=True, check=False
    )
    if mounted.returncode:
        pytest.skip("only root may mount a small disk")
    try:
        write_file(disk / "x", b"old")
        make_directory(disk / "pack", b"old")
        with pytest.raises(StorageError, match="No space left"):
            write_file(disk / "x", b"x" * 200_000)
        with pytest.raises(StorageError, match="No space left") as caught:
            make_directory(disk / "pack", b"x" * 200_000, replace=True)
        assert "Free space" in caught.value.remedy
        assert content(disk) == {"x": b"old", "pack/x": b"old"}
    finally:
        subprocess.run(["umount", disk], check=True)


@pytest.mark.parametrize(
    ("name", "refusal"), [("file", UsageError), ("link", UsageError), ("file/below", StorageError)]
)
def test_new_directory_replaces_no_other_file(tmp_path: Path, name: str, refusal: Any) -> None:
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "link").symlink_to("elsewhere")
    (tmp_path / "file").write_bytes(b"precious")
    with pytest.raises(refusal) as caught:
        make_directory(tmp_path / name, b"new", replace=True)
    assert caught.value.remedy
    assert content(tmp_path) == {"file": b"precious"}
    assert (tmp_path / "link").is_symlink()


def test_directories_without_write_permission_are_reported(unprivileged: Path) -> None:
    write_file(unprivileged / "x", b"old")
    unprivileged.chmod(0o555)
    with pytest.raises(StorageError, match="Permission denied") as caught:
        make_directory(unprivileged / "pack", b"new")
    assert "may write to" in caught.value.remedy
    with pytest.raises(StorageError, match="Permission denied"):
        write_file(unprivileged / "x", b"new")
    assert content(unprivileged) == {"x": b"old"}


def test_directories_that_may_not_be_looked_into_are_reported(unprivileged: Path) -> None:
    (unprivileged / "pack").mkdir(mode=0)
    with pytest.raises(StorageError, match="Permission denied"):
        make_directory(unprivileged / "pack", b"new", replace=True)


@pytest.mark.parametrize("syncs_everything", [True, False])
def test_directories_of_many_files_are_put_in_place(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, syncs_everything: bool
) -> None:
    if not syncs_everything:
        monkeypatch.setattr(atomic, "sync_file_system", lambda directory: False)
    with new_directory(tmp_path / "pack") as root:
        for number in range(450):
            (root / f"{number}").write_bytes(b"x")
    assert len(content(tmp_path)) == 450


def make_directory(final: Path, data: bytes, *, replace: bool = False) -> None:
    with new_directory(final, replace=replace) as root, open(root / "x", "wb") as file:
        file.write(data)


def test_what_is_swept_meanwhile_is_made_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    opened = os.open
    swept: list[Path] = []

    def after_a_sweep(path: Path, *args: Any, **options: Any) -> int:
        if "partial" in str(path) and not swept:
            swept.append(Path(path))
            Path(path).rmdir()
        return opened(path, *args, **options)

    monkeypatch.setattr(os, "open", after_a_sweep)
    make_directory(tmp_path / "out", b"1")
    assert swept
    assert content(tmp_path) == {"out/x": b"1"}


@pytest.mark.parametrize(("code", "done"), [(errno.EINVAL, True), (errno.ENOTSUP, True), (errno.EIO, False)])
def test_directories_that_cannot_be_synced_are_no_error_but_broken_disks_are(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: int, done: bool
) -> None:
    sync = os.fsync

    def refuse(descriptor: int) -> None:
        if stat.S_ISDIR(os.fstat(descriptor).st_mode):
            raise OSError(code, os.strerror(code))
        sync(descriptor)

    monkeypatch.setattr(os, "fsync", refuse)
    if done:
        write_file(tmp_path / "x", b"1")
    else:
        with pytest.raises(StorageError):
            write_file(tmp_path / "x", b"1")
    assert (tmp_path / "x").read_bytes() == b"1"


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
    command, pipe = [sys.executable, "-c", _WRITER, kind, str(path)], subprocess.PIPE
    process = subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True)
    assert process.stdout is not None
    assert process.stdout.readline() == "writing\n"
    return process


def put(kind: str, path: Path) -> None:
    write_file(path, b"new") if kind == "file" else make_directory(path, b"new", replace=True)


def test_what_a_killed_writer_left_is_removed_by_the_next(kind: str, tmp_path: Path) -> None:
    for _ in range(2):
        process = writer(kind, tmp_path / "out")
        os.kill(process.pid, signal.SIGKILL)
        process.communicate()
    [leftover] = tmp_path.iterdir()
    assert leftover.name.startswith(".out.partial-")
    put(kind, tmp_path / "out")
    assert [path.name for path in tmp_path.iterdir()] == ["out"]


def test_what_another_writer_is_busy_with_stays(kind: str, tmp_path: Path) -> None:
    process = writer(kind, tmp_path / "out")
    put(kind, tmp_path / "out")
    assert len(list(tmp_path.iterdir())) == 2
    if kind == "file":
        process.communicate()
        assert process.returncode == 0
        assert (tmp_path / "out").read_bytes() == b"x"
    else:
        process.kill()
        process.communicate()


@pytest.mark.parametrize(
    "name", [".out.partial-notes", ".out.partial-0123456789abcdef.txt", ".other.partial-" + 16 * "0"]
)
def test_other_peoples_files_stay(name: str, kind: str, tmp_path: Path) -> None:
    (tmp_path / name).write_text("mine")
    put(kind, tmp_path / "out")
    assert (tmp_path / name).read_text() == "mine"


def test_a_link_of_that_name_is_not_followed(kind: str, tmp_path: Path) -> None:
    (tmp_path / "precious").mkdir()
    (tmp_path / "precious" / "file").write_text("mine")
    (tmp_path / (".out.partial-" + 16 * "0")).symlink_to(tmp_path / "precious")
    put(kind, tmp_path / "out")
    assert (tmp_path / "precious" / "file").read_text() == "mine"


Happens = Callable[[], object]


@pytest.fixture
def at_locks(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Lets something happen before or after each lock that is taken."""
    lock = fcntl.flock

    def happens(before: Happens = lambda: None, after: Happens = lambda: None) -> None:
        monkeypatch.setattr(fcntl, "flock", lambda *of_file: (before(), lock(*of_file), after())[1])

    return happens


def test_who_is_too_slow_makes_another_one(kind: str, tmp_path: Path, at_locks: Callable[..., None]) -> None:
    swept: list[Path] = []

    def sweep() -> None:
        if not swept:
            swept.extend(tmp_path.glob(".out.partial-*"))
            swept[0].rmdir() if swept[0].is_dir() else swept[0].unlink()

    at_locks(before=sweep)
    put(kind, tmp_path / "out")
    assert len(swept) == 1
    assert [path.name for path in tmp_path.iterdir()] == ["out"]


def test_what_another_process_locks_first_is_left_to_it(
    kind: str, tmp_path: Path, at_locks: Callable[..., None]
) -> None:
    locked: list[Path] = []

    def too_late() -> None:
        if not locked:
            locked.extend(tmp_path.glob(".out.partial-*"))
            raise BlockingIOError

    at_locks(before=too_late)
    put(kind, tmp_path / "out")
    assert locked[0].exists()


def test_what_takes_the_place_of_a_leftover_stays(tmp_path: Path, at_locks: Callable[..., None]) -> None:
    partial = tmp_path / f".out.partial-{'0' * 16}"
    partial.write_text("left by a killed writer")
    at_locks(after=lambda: (partial.rename(tmp_path / "finished"), partial.write_text("of somebody else")))
    write_file(tmp_path / "out", b"new")
    assert partial.read_text() == "of somebody else"
    assert (tmp_path / "finished").exists()


def test_what_is_gone_meanwhile_is_no_error(tmp_path: Path, at_locks: Callable[..., None]) -> None:
    partial = tmp_path / f".out.partial-{'0' * 16}"
    partial.write_text("x")
    at_locks(after=partial.unlink)
    write_file(tmp_path / "out", b"new")
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


def test_digest_and_size_are_those_of_the_file(tmp_path: Path) -> None:
    path = tmp_path / "file"
    with HashedFile(path) as file:
        file.write(b"one ")
        file.write(b"")
        file.write(b"two")
    file.close()  # once more is harmless
    file.discard()
    assert path.read_bytes() == b"one two"
    assert (file.sha256, file.size) == (hashlib.sha256(b"one two").hexdigest(), 7)
    with pytest.raises(FileExistsError):
        HashedFile(path)
    assert path.read_bytes() == b"one two", "an existing file is never written over"


def test_full_disk_shows_when_it_is_closed(tmp_path: Path) -> None:
    file = HashedFile(tmp_path / "file")
    file.write(b"x" * 5000)
    with files_limited_to(4096), pytest.raises(OSError, match="too large"):
        file.close()


def test_error_within_the_block_is_not_hidden_by_a_full_disk(tmp_path: Path) -> None:
    def fail() -> None:
        with HashedFile(tmp_path / "file") as file:
            file.write(b"x" * 5000)
            raise KeyError

    with files_limited_to(4096), pytest.raises(KeyError):
        fail()


def test_small_file_replaces_what_is_there_and_a_full_disk_is_an_error(tmp_path: Path) -> None:
    path = tmp_path / "file"
    write_unsynced(path, b"longer content")
    write_unsynced(path, b"short")
    assert path.read_bytes() == b"short"
    with pytest.raises(OSError, match="No space left"):
        write_unsynced(Path("/dev/full"), b"x")


def test_a_small_file_written_in_pieces_is_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write = os.write
    monkeypatch.setattr(os, "write", lambda descriptor, data: write(descriptor, data[:3]))
    write_unsynced(tmp_path / "x", b"all of it")
    assert (tmp_path / "x").read_bytes() == b"all of it"


def test_only_the_owner_may_read_it_whatever_the_umask(tmp_path: Path) -> None:
    path = tmp_path / "keys" / "key.pem"
    with umask(0):
        write_private(path, b"secret")
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert path.read_bytes() == b"secret"


@pytest.mark.parametrize("kind", ["file", "link", "dangling link"])
def test_what_is_there_stays(tmp_path: Path, kind: str) -> None:
    path, target = tmp_path / "key.pem", tmp_path / "target"
    if kind != "dangling link":
        target.write_bytes(b"old")
    path.symlink_to(target) if "link" in kind else target.rename(path)
    with pytest.raises(UsageError, match="is not overwritten"):
        write_private(path, b"new")
    assert not target.exists() if kind != "link" else target.read_bytes() == b"old"


def test_a_file_that_is_not_written_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(_descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", fail)
    with pytest.raises(StorageError, match="No space left"):
        write_private(tmp_path / "key.pem", b"secret")
    assert os.listdir(tmp_path) == []


def test_a_directory_that_cannot_be_made_is_said(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(StorageError, match="cannot write"):
        write_private(tmp_path / "file" / "key.pem", b"secret")


def test_what_is_appended_comes_after_what_is_there(tmp_path: Path) -> None:
    append_file(tmp_path / "log", b"one\n")
    append_file(tmp_path / "log", b"two\n")
    assert (tmp_path / "log").read_bytes() == b"one\ntwo\n"
    with pytest.raises(StorageError, match="nowhere"):
        append_file(tmp_path / "nowhere" / "log", b"")


@pytest.fixture
def two(tmp_path: Path) -> tuple[Path, Path]:
    (tmp_path / "one").mkdir()
    (tmp_path / "one/x").write_text("1")
    (tmp_path / "other").write_text("2")
    return tmp_path / "one", tmp_path / "other"


def test_two_places_are_swapped_whatever_they_hold(two: tuple[Path, Path]) -> None:
    if not exchange(*two):
        pytest.skip("this system or file system cannot exchange two paths")
    assert (two[1] / "x").read_text() == "1"
    assert two[0].read_text() == "2"
    assert exchange(two[0], two[0].parent / "nothing") is False
    assert two[0].read_text() == "2", "nothing changes where one of them is missing"


@pytest.mark.parametrize("library", [OSError("no such library"), object()], ids=["none", "older"])
def test_a_system_without_these_calls_has_neither(
    two: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch, library: object
) -> None:
    def load(*_: Any, **__: Any) -> object:
        if isinstance(library, OSError):
            raise library
        return library

    monkeypatch.setattr(ctypes, "CDLL", load)
    assert exchange(*two) is False
    assert sync_file_system(two[0]) is False
    assert two[1].read_text() == "2"


def test_a_sync_that_fails_names_the_place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(FileNotFoundError):
        sync_file_system(tmp_path / "nothing")
    assert sync_file_system(tmp_path) in (True, False)

    def fail(_: object) -> int:
        ctypes.set_errno(errno.EIO)
        return -1

    monkeypatch.setattr(atomic, "_c_function", lambda _: fail)
    with pytest.raises(OSError, match="put/output") as caught:
        sync_file_system(tmp_path)
    assert (caught.value.errno, caught.value.filename) == (errno.EIO, str(tmp_path))
