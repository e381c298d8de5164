"""Write zip archives deterministically, and read zip archives as hostile input.

The same files always give the same archive. Reading never extracts a member to a path: names are checked,
and bytes are counted.
"""

from __future__ import annotations

import hashlib
import io
import os
import stat
import struct
import tempfile
import zipfile
import zlib
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import IO

from agent_eval.errors import AlteredPack, InvalidInput
from agent_eval.storage.atomic import new_file
from agent_eval.storage.files import check_member_name, open_regular, same_place

_EARLIEST = (1980, 1, 1, 0, 0, 0)
_LEVEL = 6
_HARMLESS = 1 << 20
"""Declared size of a member up to which its compression ratio is not checked."""
_IN_MEMORY = 16 << 20
"""Size up to which a nested archive is read into memory; larger ones go to a file without a name."""
_DIRECTORY_ENTRY = 46
_AVERAGE_NAME = 400
_LOCAL_HEADER = 30
_END = struct.Struct("<4s4H2LH")
_END_64 = struct.Struct("<4sQ2H2L4Q")
_LOCATOR = struct.Struct("<4sLQL")
_SATURATED = (0xFFFF, 0xFFFF, 0xFFFF, 0xFFFF, 0xFFFFFFFF, 0xFFFFFFFF)
"""What the fields of the end record hold where only the zip64 end record has room for the value."""
_STRAY_BYTES = "there are bytes that belong to no member, or to two"
_LONGEST_COMMENT = 0xFFFF
_LONGEST_END = _END.size + _LONGEST_COMMENT + _LOCATOR.size
_END_RECORDS = _END.size + _END_64.size + _LOCATOR.size
_BEST_RATIO = 1032
"""Most bytes that one byte of DEFLATE (RFC 1951) can produce: 258 for two bits."""


@dataclass(frozen=True, slots=True)
class ArchiveLimits:
    """Limits of an archive, the same for writing and for reading, so that a written archive can be read.

    There is no limit on the compression ratio, short of what DEFLATE can do, because repetitive text
    compresses as well as a decompression bomb. The limit on all members together bounds the damage; they are
    read piece by piece.

    `max_entries` is the maximum number of files; an archive to read may list as many directories besides.
    `max_bytes` limits the size of all members together, after decompression.
    """

    max_entries: int = 200_000
    max_bytes: int = 4 << 30
    max_packed_bytes: int = 256 << 20


DEFAULT_ARCHIVE_LIMITS = ArchiveLimits()


def write_zip(
    files: Iterable[tuple[str, Path | bytes]],
    out: Path,
    *,
    limits: ArchiveLimits = DEFAULT_ARCHIVE_LIMITS,
    sealed: Mapping[str, str] = MappingProxyType({}),
) -> None:
    """Write a zip archive whose bytes depend only on the names and contents of its members.

    Members are sorted, dated 1980, have mode 0644 and are deflated at a fixed level. `out` appears when it is
    complete.

    Args:
        files: Name (relative POSIX path) of each member with its content, or the file that has it.
        sealed: The hexadecimal sha256 that members must have; others may have any.

    Raises:
        AlteredPack: A member has another digest.
        InvalidInput: Invalid or duplicate name, unreadable file, or more than `limits` allow.
        StorageError: Disk full, no permission.
    """
    members = sorted(files, key=lambda member: member[0])
    _check_names("archive to write", [name for name, _ in members])
    # CI platforms put the archive into another archive, which needs a little space of its own.
    packed_limit = limits.max_packed_bytes - limits.max_packed_bytes // 128
    if len(members) > limits.max_entries:
        raise _refuse_to_write(out, f"{len(members):,} files, more than {limits.max_entries:,}")
    with new_file(out) as stream, zipfile.ZipFile(stream, "w") as archive:
        unpacked, packed = 0, _END_RECORDS
        for name, content in members:
            info = zipfile.ZipInfo(name, _EARLIEST)
            info.create_system = 3
            info.external_attr = (stat.S_IFREG | 0o644) << 16
            info.compress_type = zipfile.ZIP_DEFLATED
            info._compresslevel = _LEVEL  # type: ignore[attr-defined]  # no public way when streaming
            hasher = hashlib.sha256()
            with io.BytesIO(content) if isinstance(content, bytes) else open_regular(content) as source:
                info.file_size = source.seek(0, os.SEEK_END)
                source.seek(0)
                with archive.open(info, "w") as member:
                    while chunk := source.read(1 << 20):
                        hasher.update(chunk)
                        member.write(chunk)
            if hasher.hexdigest() != sealed.get(name, hasher.hexdigest()):
                raise AlteredPack(name)
            # What the entry says now is what was written.
            unpacked += info.file_size
            packed += info.compress_size + 2 * (_DIRECTORY_ENTRY + len(name.encode()))
            if unpacked > limits.max_bytes:
                raise _refuse_to_write(out, f"more than {limits.max_bytes:,} bytes")
            if packed > packed_limit:
                raise _refuse_to_write(out, f"more than {packed_limit:,} bytes after compression")


class ZipArchive:
    """A zip archive from outside, opened for reading members by name. A context manager.

    Opening checks everything that the archive's directory declares; `read` counts real bytes.

    Args:
        where: Path, whole content, or an open seekable binary file (which this object then owns).
        limits: Also of each nested archive.

    Raises:
        InvalidInput: It is no zip, exceeds `limits`, or has names or entries (links, encryption) that are
            refused.
    """

    def __init__(
        self, where: Path | bytes | IO[bytes], *, source: str, limits: ArchiveLimits = DEFAULT_ARCHIVE_LIMITS
    ) -> None:
        self.source = source
        self.limits = limits
        self._file: IO[bytes]
        if isinstance(where, Path):
            self._file = open_regular(where)
        else:
            self._file = io.BytesIO(where) if isinstance(where, bytes) else where
        try:
            self._members = self._check_members()
        except BaseException:
            self._file.close()
            raise

    def _check_members(self) -> dict[str, zipfile.ZipInfo]:
        size, limits = self._file.seek(0, os.SEEK_END), self.limits
        if size > limits.max_packed_bytes:
            raise _too_large(self.source, f"is {size:,} bytes, more than {limits.max_packed_bytes:,}")
        damage = "is not a zip archive"
        with self._refusing_damage(damage):
            number, length, offset, end = _read_directory(self._file, size)
        if length > limits.max_entries * (_DIRECTORY_ENTRY + _AVERAGE_NAME):
            raise _too_large(self.source, f"has more than {limits.max_entries:,} members")
        with self._refusing_damage(damage):
            self._zip = zipfile.ZipFile(self._file)
        entries = self._zip.infolist()
        files = [entry for entry in entries if not self._is_directory(entry)]
        # Other programs list directories too, usually one for every two files.
        if len(files) > limits.max_entries or len(entries) > 2 * limits.max_entries:
            raise _too_large(self.source, f"has more than {limits.max_entries:,} members")
        _check_names(self.source, (entry.filename for entry in files))
        for entry in files:
            if entry.file_size > max(_HARMLESS, entry.compress_size * _BEST_RATIO):
                words = f"member {entry.filename[:200]!r} claims more bytes than it can unpack to"
                raise _untrusted(self.source, words)
        total = sum(entry.file_size for entry in files)
        if total > limits.max_bytes:
            raise _too_large(self.source, f"unpacks to {total:,} bytes, more than {limits.max_bytes:,}")
        with self._refusing_damage(damage):
            _check_places(entries, number, length, offset, end)
        return {entry.filename: entry for entry in files}

    def _is_directory(self, entry: zipfile.ZipInfo) -> bool:
        """Refuse an entry that is neither regular file nor directory; return whether it is a directory."""
        is_directory = entry.filename.endswith("/")
        problem = check_member_name(entry.filename.removesuffix("/")) if is_directory else None
        if entry.orig_filename != entry.filename:
            problem = "has a NUL or foreign separator in its name"
        elif stat.S_IFMT(entry.external_attr >> 16) not in (0, stat.S_IFREG, stat.S_IFDIR):
            problem = "is a link or device"
        elif entry.flag_bits & 0x1:
            problem = "is encrypted"
        elif entry.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
            problem = f"uses compression method {entry.compress_type}"
        if problem is not None:
            raise _untrusted(self.source, f"member {entry.filename[:200]!r} {problem}")
        return is_directory

    def names(self) -> list[str]:
        """Return the names of all files in the archive, sorted, without directories."""
        return sorted(self._members)

    def size(self, name: str) -> int:
        """Return the size of a member after decompression, as the archive declares it; `read` verifies it."""
        return self._member(name).file_size

    def read(self, name: str) -> bytes:
        """Read a member.

        Raises:
            InvalidInput: No such member, damaged, or another size than declared.
        """
        return b"".join(self.chunks(name))

    def chunks(self, name: str) -> Iterator[bytes]:
        """Read a member, up to 1 MiB at a time. Raises as `read`."""
        entry = self._member(name)
        count = 0
        problem = f"member {name[:200]!r} is damaged"
        with self._refusing_damage(problem), self._zip.open(entry) as member:
            while chunk := member.read(1 << 20):
                count += len(chunk)
                yield chunk
        if count != entry.file_size:
            raise _untrusted(self.source, f"member {name[:200]!r} is not of the size declared")

    def nested(self, name: str) -> ZipArchive:
        """Open a member that is a zip itself, under the same limits."""
        if (size := self.size(name)) > self.limits.max_packed_bytes:
            problem = f"{name[:200]} is {size:,} bytes, more than {self.limits.max_packed_bytes:,}"
            raise _too_large(self.source, problem)
        # A large member goes to a file without a name, never to one with a name from the archive.
        spool = tempfile.SpooledTemporaryFile(max_size=_IN_MEMORY)  # noqa: SIM115 - owned by the result
        try:
            for chunk in self.chunks(name):
                spool.write(chunk)
            return ZipArchive(spool, source=f"{self.source}: {name}", limits=self.limits)
        except BaseException:
            spool.close()
            raise

    def close(self) -> None:
        """Close the archive's file; nothing can be read afterwards."""
        self._file.close()

    def __del__(self) -> None:
        # A pack keeps its archive open, and is itself not closed.
        if (file := getattr(self, "_file", None)) is not None:
            file.close()

    def __enter__(self) -> ZipArchive:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _member(self, name: str) -> zipfile.ZipInfo:
        if name not in self._members:
            raise InvalidInput(f"{self.source}: no member {name[:200]!r}", file=self.source)
        return self._members[name]

    @contextmanager
    def _refusing_damage(self, problem: str) -> Iterator[None]:
        # The exceptions that zipfile raises for a damaged archive have no common base.
        damaged = (zipfile.BadZipFile, zlib.error, EOFError, RuntimeError, ValueError, struct.error, OSError)
        try:
            yield
        except damaged as error:
            raise _untrusted(self.source, f"{problem}: {error}") from error


def _refuse_to_write(out: Path, problem: str) -> InvalidInput:
    return InvalidInput(
        f"{out}: not written, because it could not be read: {problem}",
        file=str(out),
        remedy="Divide what goes into it, such as the suite into several jobs; or keep less, such as fewer "
        "artifacts and shorter outputs of tools.",
    )


def _check_names(source: str, names: Iterable[str]) -> None:
    """Refuse names that point out of the archive or collide with each other."""
    places: dict[str, str] = {}
    for name in names:
        if problem := check_member_name(name):
            raise _untrusted(source, f"member {name[:200]!r} {problem}")
        place = same_place(name)
        if place in places:
            raise _untrusted(source, f"members {places[place][:200]!r} and {name[:200]!r} are the same file")
        places[place] = name
    for place, name in places.items():
        parent = place
        while (cut := parent.rfind("/")) >= 0:
            parent = parent[:cut]
            if parent in places:
                raise _untrusted(source, f"member {name[:200]!r} is below the file {places[parent][:200]!r}")


def _untrusted(source: str, problem: str) -> InvalidInput:
    remedy = "Do not trust this archive; get it again from where it was made."
    return InvalidInput(f"{source}: {problem}", file=source, remedy=remedy)


def _too_large(source: str, problem: str) -> InvalidInput:
    """Refuse an archive beyond the limits, which need not be malicious."""
    remedy = "Give a smaller one: divide the suite, or keep fewer artifacts and shorter outputs of tools."
    return InvalidInput(f"{source}: {problem}", file=source, remedy=remedy)


def _read_directory(file: IO[bytes], size: int) -> tuple[int, int, int, int]:
    """Read the end record (PKWARE APPNOTE 4.3.16), and the zip64 end record where there is one (4.3.14).

    Returns what they say of the archive's directory: number of members, size, offset, and where it must end.

    Two readers must not see two archives in one file. So nothing may precede or follow the archive, it is on
    one disk, and both records say the same.
    """
    tail_length = min(size, _LONGEST_END)
    file.seek(size - tail_length)
    tail = file.read(tail_length)
    end = tail.rfind(b"PK\x05\x06")
    if end < 0 or len(tail) - end < _END.size:
        raise zipfile.BadZipFile("it has no end record")
    _, disk, directory_disk, here, entries, length, offset, comment = _END.unpack_from(tail, end)
    if end + _END.size + comment != len(tail):
        raise zipfile.BadZipFile("bytes follow its end")
    position = size - tail_length + end
    if end >= _LOCATOR.size and tail[end - _LOCATOR.size : end].startswith(b"PK\x06\x07"):
        short = [disk, directory_disk, here, entries, length, offset]
        values, position = _zip64_values(file, short, position - _LOCATOR.size)
        disk, directory_disk, here, entries, length, offset = values
    if disk or directory_disk:
        raise zipfile.BadZipFile("it is divided into several files")
    if here != entries:
        raise zipfile.BadZipFile("its end record has two numbers of members")
    return entries, length, offset, position


def _zip64_values(file: IO[bytes], short: list[int], locator: int) -> tuple[list[int], int]:
    """Return position and values of the zip64 end record, which the short ones must not contradict."""
    file.seek(locator)
    _signature, _disk, position, disks = _LOCATOR.unpack(file.read(_LOCATOR.size))
    file.seek(position)
    record = file.read(_END_64.size)
    if disks != 1 or len(record) != _END_64.size or position + _END_64.size != locator:
        raise zipfile.BadZipFile("its zip64 end record is not where it should be")
    signature, length, _, _, *values = _END_64.unpack(record)
    agree = all(
        own in (value, saturated) for own, value, saturated in zip(short, values, _SATURATED, strict=True)
    )
    if signature != b"PK\x06\x06" or length != _END_64.size - 12 or not agree:
        raise zipfile.BadZipFile("its two end records disagree")
    return values, position


def _check_places(entries: list[zipfile.ZipInfo], number: int, size: int, offset: int, end: int) -> None:
    """Refuse members that share bytes, and bytes before the first member or around the directory."""
    if len(entries) != number:
        raise zipfile.BadZipFile("its end record has another number of members than its directory")
    if offset + size != end:
        raise zipfile.BadZipFile(_STRAY_BYTES)
    place = 0
    for entry in sorted(entries, key=lambda entry: entry.header_offset):
        if entry.header_offset < place or (place == 0 and entry.header_offset):
            raise zipfile.BadZipFile(_STRAY_BYTES)
        place = entry.header_offset + _LOCAL_HEADER + len(entry.orig_filename.encode()) + entry.compress_size
    if place > offset or (offset and not entries):
        raise zipfile.BadZipFile(_STRAY_BYTES)
