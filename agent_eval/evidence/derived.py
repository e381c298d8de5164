"""Files that are written into a pack after the run, and `derived.json`, the manifest that lists them.

The run's own manifest is never changed. The file is written first and `derived.json` after it, both prepared
and synced before. Readers of this program wait for the writer (`PackSource.shared`).
"""

from __future__ import annotations

import fcntl
import os
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from agent_eval.contracts import DerivedManifest, FileEntry
from agent_eval.errors import AgentEvalError, UsageError
from agent_eval.evidence import layout as at
from agent_eval.evidence.sources import DirectorySource
from agent_eval.evidence.verify import MAX_MANIFEST_BYTES, RUN_PARTS, Seal, read_seal
from agent_eval.storage.atomic import new_file, write_file, writing_failed
from agent_eval.storage.files import check_member_name, read_bytes, same_place, sha256_bytes
from agent_eval.storage.json import Limits, dumps, read_json
from agent_eval.text.escape import clean

STDOUT = Path("-")
"""As the path of an output: standard output."""

_MANIFEST_LIMITS = Limits(max_bytes=MAX_MANIFEST_BYTES)


def enclosing_pack(path: Path) -> Path | None:
    """Find the pack that contains a path, existing or not: the nearest parent directory with a run manifest.

    Links are resolved first. The directory of a pack is not within it. Files called manifest.json that other
    programs wrote do not count.
    """
    for directory in _resolved(path).parents:
        if is_pack(directory):
            return directory
    return None


def is_pack(directory: Path) -> bool:
    """Tell whether a directory contains the manifest of a run, without verifying the pack.

    Files called manifest.json that other programs wrote do not count.
    """
    try:
        value = read_json(directory / at.MANIFEST, limits=_MANIFEST_LIMITS)
    except AgentEvalError:
        return False
    return isinstance(value, dict) and value.get("kind") == "run" and isinstance(value.get("files"), list)


_LARGEST_KEPT = 1 << 30


def write_output(path: Path, data: bytes) -> None:
    """Write an output file at a path that the user chose, which may be within a pack.

    Outside of packs this is `storage.atomic.write_file`. Within a pack the path must not be part of the run;
    the file is listed in `derived.json`, so that the pack still verifies.

    `STDOUT` as the path prints the data instead; controls in it do not reach a terminal.

    Raises:
        UsageError: The path is part of the sealed run, or that of a manifest.
        InvalidPack: The pack's manifests are broken.
        StorageError: Disk full, no permission.
    """
    if path == STDOUT:
        _print(data)
        return
    target = _resolved(path)
    pack = enclosing_pack(path)
    if pack is None:
        write_file(path, data)
        return
    relative = target.relative_to(pack).as_posix()
    with _exclusive(pack):
        seal = read_seal(DirectorySource(pack))
        _check_writable(pack, relative, seal)
        entry = FileEntry(path=relative, size=len(data), sha256=sha256_bytes(data))
        entries = {**seal.derived_files, relative: entry}
        derived = DerivedManifest(
            run_manifest_sha256=seal.manifest_sha256, files=[entries[name] for name in sorted(entries)]
        )
        aside = None
        with suppress(OSError):  # beside the pack, so that a killed process leaves no partial file in it
            if os.access(pack.parent, os.W_OK) and pack.parent.stat().st_dev == pack.stat().st_dev:
                aside = pack.parent
        listed, list_path = dumps(derived.to_json(), indent=True), pack / at.DERIVED
        before = read_bytes(target, max_bytes=_LARGEST_KEPT) if relative in seal.derived_files else None
        try:
            # The list is on disk before the file appears: a full disk leaves neither without the other.
            with new_file(list_path, aside=aside) as listing:
                listing.write(listed)
                listing.flush()
                os.fsync(listing.fileno())
                write_file(target, data, aside=aside)
        except BaseException:
            # Undone, unless the list is in place already.
            with suppress(AgentEvalError, OSError):
                if not list_path.is_file() or list_path.read_bytes() != listed:
                    if before is None:
                        target.unlink(missing_ok=True)
                    else:
                        write_file(target, before)
            raise


def _print(data: bytes) -> None:
    sys.stdout.flush()
    if sys.stdout.isatty():
        sys.stdout.write(clean(data.decode("utf-8", "replace"), limit=len(data), multiline=True))
    else:
        sys.stdout.buffer.write(data)
    if not data.endswith(b"\n"):
        sys.stdout.write("\n")
    sys.stdout.flush()


def clear_unfinished(path: Path) -> None:
    """Remove an output that a killed `write_output` left in a pack without listing it.

    Call it before the pack is opened, for the output that is about to be made again.

    Nothing happens where there is no file, or outside of packs.

    Raises:
        UsageError: The path is part of the sealed run, or that of a manifest.
        InvalidPack: The pack's manifests are broken.
        StorageError: The file cannot be removed.
    """
    if path == STDOUT or not path.is_file():
        return
    pack = enclosing_pack(path)
    if pack is not None:
        remove_unlisted(pack, [_resolved(path).relative_to(pack).as_posix()])


def remove_unlisted(pack: Path, names: Iterable[str]) -> None:
    """Remove those files of a pack that a killed `write_output` left without an entry in `derived.json`.

    Call it before making the same files again, with their names only; every other file that is not listed is
    still refused when the pack is opened.

    Raises:
        UsageError: A name is part of the sealed run, or that of a manifest.
        InvalidPack: The pack's manifests are broken.
        StorageError: A file cannot be removed.
    """
    if not is_pack(pack):
        return
    with _exclusive(pack):
        seal = read_seal(DirectorySource(pack))
        unlisted = [name for name in names if name not in seal.derived_files]
        for name in unlisted:
            _check_writable(pack, name, seal)  # what the run sealed is listed elsewhere
        for path in (pack / name for name in unlisted):
            if path.parent.is_symlink():  # leads out of the pack, which opening it refuses
                continue
            try:
                path.unlink(missing_ok=True)
            except OSError as error:
                raise writing_failed(path, error) from error


def _check_writable(pack: Path, relative: str, seal: Seal) -> None:
    where = str(pack / relative)
    remedy = f"Write below {at.COMPARE}/, {at.ATTESTATIONS}/ or outside of the pack."
    if problem := check_member_name(relative):
        raise UsageError(f"{where}: the path {problem}", file=where, remedy=remedy)
    reserved = {same_place(name): name for name in (*seal.run_files, at.MANIFEST, at.DERIVED)}
    place = same_place(relative)
    if place in reserved or place.split("/", 1)[0] in RUN_PARTS:
        raise UsageError(f"{where}: is part of a sealed run", file=where, remedy=remedy)
    for name in seal.derived_files:
        if same_place(name) == place and name != relative:
            raise UsageError(f"{where}: differs from {name} in case only", file=where, remedy=remedy)


@contextmanager
def _exclusive(pack: Path) -> Iterator[None]:
    """Lock the pack against other writers and readers of this program."""
    try:
        descriptor = os.open(pack, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except OSError as error:
        raise writing_failed(pack, error) from error
    try:
        with suppress(OSError):  # a file system without locks
            fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def _resolved(path: Path) -> Path:
    path = Path(os.path.abspath(path))
    try:
        return path.parent.resolve() / path.name
    except (OSError, RuntimeError):  # a loop of links, which writing reports
        return path
