"""Durable writes: whatever goes wrong, what was there before is still there, whole."""

from __future__ import annotations

import errno
import os
import resource
import signal
import stat
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from agent_eval.errors import ExitCode, StorageError, UsageError
from agent_eval.storage import atomic
from agent_eval.storage.atomic import new_directories, new_directory, new_file, write_file


def content(root: Path) -> dict[str, bytes]:
    """Everything below a directory, hidden leftovers included."""
    return {
        path.relative_to(root).as_posix(): path.read_bytes() for path in root.rglob("*") if path.is_file()
    }


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


def test_write_file_creates_parents_and_replaces(tmp_path: Path) -> None:
    path = tmp_path / "a" / "b" / "x.json"
    write_file(path, b"one")
    write_file(path, b"two")
    assert content(tmp_path) == {"a/b/x.json": b"two"}


def test_write_file_replaces_a_link_and_not_what_it_points_to(tmp_path: Path) -> None:
    (tmp_path / "precious").write_bytes(b"old")
    (tmp_path / "out").symlink_to("precious")
    write_file(tmp_path / "out", b"new")
    assert content(tmp_path) == {"out": b"new", "precious": b"old"}


def test_write_file_respects_the_umask(tmp_path: Path) -> None:
    previous = os.umask(0o027)
    try:
        write_file(tmp_path / "x", b"")
    finally:
        os.umask(previous)
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
        subprocess.run([sys.executable, "-c", code], stdout=captured, check=True)
    assert (tmp_path / "captured").read_bytes() == b"before\ndata\n"


MEMORY = Path("/dev/shm")


@pytest.mark.skipif(not os.access(MEMORY, os.W_OK), reason="there is no /dev/shm to write to")
def test_a_file_in_shared_memory_is_replaced_like_any_other() -> None:
    with tempfile.TemporaryDirectory(dir=MEMORY) as directory:
        path = Path(directory, "registry.json")
        write_file(path, b"longer than what comes")
        write_file(path, b"new")
        assert path.read_bytes() == b"new"


def test_full_disk_keeps_the_previous_file(tmp_path: Path) -> None:
    path = tmp_path / "x"
    write_file(path, b"previous")
    with files_limited_to(4096), pytest.raises(StorageError) as caught:
        write_file(path, b"x" * 10_000)
    assert content(tmp_path) == {"x": b"previous"}
    assert str(path) in caught.value.message
    assert caught.value.remedy
    assert caught.value.exit_code is ExitCode.NOT_EVALUABLE


@pytest.mark.parametrize("make", ["directory", "file-above"])
def test_impossible_paths_are_refused(tmp_path: Path, make: str) -> None:
    path = tmp_path / "x"
    if make == "directory":
        path.mkdir()
    else:
        path.write_bytes(b"")
        path = path / "below"
    with pytest.raises(StorageError) as caught:
        write_file(path, b"data")
    assert caught.value.remedy
    assert not [name for name in content(tmp_path) if "partial" in name]


def test_an_error_while_writing_leaves_nothing(tmp_path: Path) -> None:
    def fails(path: Path) -> None:
        with new_file(path) as file:
            file.write(b"half")
            raise RuntimeError

    with pytest.raises(RuntimeError):
        fails(tmp_path / "x")
    assert content(tmp_path) == {}


def test_new_directory_appears_when_it_is_complete(tmp_path: Path) -> None:
    final = tmp_path / "deep" / "pack"
    with new_directory(final) as root:
        (root / "sub").mkdir()
        (root / "sub" / "x").write_bytes(b"1")
        assert not final.exists()
    assert content(tmp_path) == {"deep/pack/sub/x": b"1"}


def test_new_directory_takes_the_place_of_an_empty_one(tmp_path: Path) -> None:
    (tmp_path / "pack").mkdir()
    with new_directory(tmp_path / "pack") as root:
        (root / "x").write_bytes(b"1")
    assert content(tmp_path) == {"pack/x": b"1"}


def test_new_directory_replaces_only_when_told(tmp_path: Path) -> None:
    make_directory(tmp_path / "pack", b"old")
    with pytest.raises(UsageError, match="not empty"), new_directory(tmp_path / "pack"):
        raise AssertionError("the block must not run")
    make_directory(tmp_path / "pack", b"new", replace=True)
    assert content(tmp_path) == {"pack/x": b"new"}


def test_new_directory_replaces_without_an_atomic_exchange(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(atomic, "exchange", lambda one, other: False)
    make_directory(tmp_path / "pack", b"old")
    make_directory(tmp_path / "pack", b"new", replace=True)
    assert content(tmp_path) == {"pack/x": b"new"}


def test_a_failed_replacement_puts_the_old_directory_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
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


@pytest.mark.parametrize("error", [RuntimeError, KeyboardInterrupt, OSError])
def test_an_error_within_the_block_keeps_the_old_directory(
    tmp_path: Path, error: type[BaseException]
) -> None:
    make_directory(tmp_path / "pack", b"old")

    def fails(final: Path) -> None:
        with new_directory(final, replace=True) as root:
            (root / "x").write_bytes(b"half")
            raise error(28, "No space left on device")

    with pytest.raises(StorageError if error is OSError else error):
        fails(tmp_path / "pack")
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
def test_directories_that_belong_together_stay_as_they_were(
    tmp_path: Path, error: type[BaseException]
) -> None:
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


def test_full_disk_keeps_the_previous_directory(tmp_path: Path) -> None:
    make_directory(tmp_path / "pack", b"old")
    with files_limited_to(4096), pytest.raises(StorageError) as caught:
        make_directory(tmp_path / "pack", b"x" * 10_000, replace=True)
    assert content(tmp_path) == {"pack/x": b"old"}
    assert "ulimit" in caught.value.remedy


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


@pytest.mark.parametrize("kind", ["file", "link", "file-above"])
def test_new_directory_refuses_what_is_no_directory(tmp_path: Path, kind: str) -> None:
    final = tmp_path / "pack"
    if kind == "link":
        (tmp_path / "elsewhere").mkdir()
        final.symlink_to("elsewhere")
    else:
        final.write_bytes(b"precious")
    final = final / "below" if kind == "file-above" else final
    before = content(tmp_path)
    expected = StorageError if kind == "file-above" else UsageError
    with pytest.raises(expected) as caught:
        make_directory(final, b"new", replace=True)
    assert caught.value.remedy
    assert content(tmp_path) == before


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


def test_unwritable_places_are_reported_to_root_too() -> None:
    with pytest.raises(StorageError) as caught, new_directory(Path("/proc/agent-eval-test/pack")):
        raise AssertionError("the block must not run")
    assert "/proc/agent-eval-test/pack" in caught.value.message


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


WRITE_FOR_EVER = """
import sys
from pathlib import Path
from agent_eval.storage.atomic import new_directory, write_file
root = Path(sys.argv[1])
number = 0
while True:
    number += 1
    data = str(number).encode() * 20_000
    write_file(root / "file", data)
    with new_directory(root / "pack", replace=True) as new:
        for name in "abc":
            (new / name).write_bytes(data)
    if number == 1:
        print("started", flush=True)
"""


@pytest.mark.parametrize("delay", [0.0, 0.003, 0.011, 0.026, 0.05])
def test_a_killed_process_leaves_whole_files_and_directories(tmp_path: Path, delay: float) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", WRITE_FOR_EVER, tmp_path], stdout=subprocess.PIPE
    ) as process:
        assert process.stdout is not None
        process.stdout.readline()
        time.sleep(delay)
        process.kill()
    found = {name: data for name, data in content(tmp_path).items() if not name.startswith(".")}
    assert set(found) == {"file", "pack/a", "pack/b", "pack/c"}
    assert found["pack/a"] == found["pack/b"] == found["pack/c"]
    assert len(found["file"]) % 20_000 == 0
    assert len(found["pack/a"]) % 20_000 == 0


def make_directory(final: Path, data: bytes, *, replace: bool = False) -> None:
    with new_directory(final, replace=replace) as root, open(root / "x", "wb") as file:
        file.write(data)


def test_a_directory_that_is_swept_while_it_is_made_is_made_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened = os.open
    swept: list[Path] = []

    def after_a_sweep(path: Path, *args: Any, **options: Any) -> int:
        if "partial" in str(path) and not swept:
            swept.append(Path(path))
            Path(path).rmdir()
        return opened(path, *args, **options)

    monkeypatch.setattr(os, "open", after_a_sweep)
    with new_directory(tmp_path / "out") as root:
        (root / "x").write_bytes(b"1")
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
