"""Zip archives: written so that the same files give the same bytes, read as the hostile input they are.

Nothing is ever extracted by name. A member is a name, checked, and bytes, counted.
"""

from __future__ import annotations

import io
import os
import re
import shutil
import stat
import struct
import tempfile
import unicodedata
import zipfile
import zlib
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from agent_eval.errors import InvalidInput
from agent_eval.storage.atomic import new_file
from agent_eval.storage.files import open_regular

_EARLIEST = (1980, 1, 1, 0, 0, 0)
_LEVEL = 6
_DRIVE = re.compile(r"[A-Za-z]:")
_CONTROL = re.compile(r"[\x00-\x1f\x7f]")
_LONGEST_NAME = 1024
_HARMLESS = 1 << 20
"""Bytes below which the claim of a member is not looked into."""
_IN_MEMORY = 16 << 20
"""Bytes of a nested archive that are held in memory; larger ones go to a file without a name."""
_DIRECTORY_ENTRY = 46
_AVERAGE_NAME = 400
_END_RECORDS = 22 + 56 + 20


_MOST_THAT_DEFLATE_GIVES = 1032
"""Bytes that one byte of DEFLATE (RFC 1951) can stand for: 258 in two bits."""


@dataclass(frozen=True, slots=True)
class ArchiveLimits:
    """Bounds on an archive, the same for writing and for reading: what is written can be read.

    There is none on how well a member is compressed, short of what DEFLATE can do: text that repeats
    itself is as dense as a bomb. What bounds the harm is the sum of all members, which are read in pieces.

    Args:
        max_entries: Files; in what is read as many directories may be listed besides.
        max_bytes: Bytes of all members together, after decompression.
        max_packed_bytes: Bytes of the archive itself.
    """

    max_entries: int = 200_000
    max_bytes: int = 4 << 30
    max_packed_bytes: int = 256 << 20


DEFAULT_ARCHIVE_LIMITS = ArchiveLimits()


def check_member_name(name: str) -> str | None:
    """What is wrong with a name as a relative POSIX path that every system can hold, or None."""
    if not name or len(name) > _LONGEST_NAME:
        return "is empty or too long"
    if name.startswith("/") or _DRIVE.match(name):
        return "is absolute"
    if "\\" in name:
        return "has a backslash"
    if _CONTROL.search(name) or not name.isprintable():
        return "has characters that cannot be printed"
    if any(part in ("", ".", "..") for part in name.split("/")):
        return "has an empty part, '.' or '..'"
    return None


def same_place(name: str) -> str:
    """Equal for names that are one file where case or Unicode composition is ignored."""
    return unicodedata.normalize("NFC", unicodedata.normalize("NFC", name).casefold())


def write_zip(
    files: Iterable[tuple[str, Path | bytes]], out: Path, *, limits: ArchiveLimits = DEFAULT_ARCHIVE_LIMITS
) -> None:
    """Write a zip whose bytes depend on names and contents only.

    Members are sorted, dated 1980, mode 0644, deflated at a fixed level. `out` appears when it is whole.

    Args:
        files: Member name (relative POSIX path) and its content, or the file to read it from.
        out: Where to write.
        limits: Those of whoever will read it; nothing is written beyond them.

    Raises:
        InvalidInput: A bad or repeated name; a file that cannot be read; more than `limits` allow.
        StorageError: Disk full, no permission.
    """
    members = sorted(files, key=lambda member: member[0])
    _check_names("archive to write", [name for name, _ in members])
    # Whoever hands the archive on may put it into another one, which takes a little more.
    packed_limit = limits.max_packed_bytes - limits.max_packed_bytes // 128
    if len(members) > limits.max_entries:
        raise _unreadable(out, f"{len(members):,} files, more than {limits.max_entries:,}")
    with new_file(out) as stream, zipfile.ZipFile(stream, "w") as archive:
        unpacked, packed = 0, _END_RECORDS
        for name, content in members:
            written = _write_member(archive, name, content)
            unpacked += written.file_size
            packed += written.compress_size + 2 * (_DIRECTORY_ENTRY + len(name.encode()))
            if unpacked > limits.max_bytes:
                raise _unreadable(out, f"more than {limits.max_bytes:,} bytes")
            if packed > packed_limit:
                raise _unreadable(out, f"more than {packed_limit:,} bytes after compression")


def _unreadable(out: Path, what: str) -> InvalidInput:
    return InvalidInput(
        f"{out}: not written, for it would not be read: {what}",
        file=str(out),
        remedy="Divide what goes into it, such as the suite into several jobs; or keep less, such as fewer "
        "artifacts and shorter outputs of tools.",
    )


def _write_member(archive: zipfile.ZipFile, name: str, content: Path | bytes) -> zipfile.ZipInfo:
    """Add a member; its entry then has the sizes that were written."""
    info = zipfile.ZipInfo(name, _EARLIEST)
    info.create_system = 3
    info.external_attr = (stat.S_IFREG | 0o644) << 16
    info.compress_type = zipfile.ZIP_DEFLATED
    info._compresslevel = _LEVEL  # type: ignore[attr-defined]  # no public way to set it when streaming
    if isinstance(content, bytes):
        info.file_size = len(content)
        with archive.open(info, "w") as member:
            member.write(content)
        return info
    with open_regular(content) as source:
        info.file_size = os.fstat(source.fileno()).st_size
        with archive.open(info, "w") as member:
            shutil.copyfileobj(source, member, 1 << 20)
    return info


def _check_names(source: str, names: Iterable[str]) -> None:
    """Refuse names that leave the archive or that collide with each other."""
    places: dict[str, str] = {}
    for name in names:
        if problem := check_member_name(name):
            raise _bad(source, f"member {name[:200]!r} {problem}")
        place = same_place(name)
        if place in places:
            raise _bad(source, f"members {places[place][:200]!r} and {name[:200]!r} are the same file")
        places[place] = name
    for place, name in places.items():
        parent = place
        while (cut := parent.rfind("/")) >= 0:
            parent = parent[:cut]
            if parent in places:
                raise _bad(source, f"member {name[:200]!r} lies below the file {places[parent][:200]!r}")


def _bad(source: str, what: str) -> InvalidInput:
    remedy = "Do not trust this archive; get it again from where it was made."
    return InvalidInput(f"{source}: {what}", file=source, remedy=remedy)


def _too_much(source: str, what: str) -> InvalidInput:
    """Beyond the limits, which an archive can be and still be honest."""
    remedy = "Give a smaller one: divide the suite, or keep fewer artifacts and shorter outputs of tools."
    return InvalidInput(f"{source}: {what}", file=source, remedy=remedy)


class ZipArchive:
    """A zip from somewhere else, opened for reading members by name.

    Everything that the directory of the archive says is checked on opening; `read` counts real bytes.

    Args:
        where: Path, whole content, or an open seekable binary file (which this object then owns).
        source: What to call it in errors.
        limits: Bounds; they hold for a nested archive again.

    Raises:
        InvalidInput: Not a zip; bad, repeated or colliding names; links, devices, encryption; more
            members or bytes than `limits` allow.
    """

    def __init__(
        self, where: Path | bytes | IO[bytes], *, source: str, limits: ArchiveLimits = DEFAULT_ARCHIVE_LIMITS
    ) -> None:
        self.source = source
        self.limits = limits
        self._file = _open(where)
        try:
            self._members = self._checked_members()
        except BaseException:
            self._file.close()
            raise

    def _checked_members(self) -> dict[str, zipfile.ZipInfo]:
        size = self._file.seek(0, os.SEEK_END)
        if size > self.limits.max_packed_bytes:
            raise _too_much(self.source, f"is {size:,} bytes, more than {self.limits.max_packed_bytes:,}")
        directory = _directory_size(self._file, size)
        if directory > self.limits.max_entries * (_DIRECTORY_ENTRY + _AVERAGE_NAME):
            raise _too_much(self.source, f"has more than {self.limits.max_entries:,} members")
        with self._reading("is not a zip archive"):
            self._zip = zipfile.ZipFile(self._file)
        entries = self._zip.infolist()
        files = [entry for entry in entries if not self._is_directory(entry)]
        # Other programs list directories too, mostly one for two files.
        if len(files) > self.limits.max_entries or len(entries) > 2 * self.limits.max_entries:
            raise _too_much(self.source, f"has more than {self.limits.max_entries:,} members")
        _check_names(self.source, (entry.filename for entry in files))
        self._check_sizes(files)
        return {entry.filename: entry for entry in files}

    def _is_directory(self, entry: zipfile.ZipInfo) -> bool:
        """Check one entry; directories need no reading, what is no regular file is refused."""
        shown = entry.filename[:200]
        if entry.orig_filename != entry.filename:
            raise _bad(self.source, f"member {shown!r} has a NUL or foreign separator in its name")
        kind = stat.S_IFMT(entry.external_attr >> 16)
        if kind not in (0, stat.S_IFREG, stat.S_IFDIR):
            raise _bad(self.source, f"member {shown!r} is a link or device")
        if entry.flag_bits & 0x1:
            raise _bad(self.source, f"member {shown!r} is encrypted")
        if entry.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
            raise _bad(self.source, f"member {shown!r} uses compression method {entry.compress_type}")
        if not entry.filename.endswith("/"):
            return False
        if problem := check_member_name(entry.filename.removesuffix("/")):
            raise _bad(self.source, f"member {shown!r} {problem}")
        return True

    def _check_sizes(self, entries: list[zipfile.ZipInfo]) -> None:
        for entry in entries:
            if entry.file_size > max(_HARMLESS, entry.compress_size * _MOST_THAT_DEFLATE_GIVES):
                shown = entry.filename[:200]
                raise _bad(self.source, f"member {shown!r} claims more bytes than it can unpack to")
        total = sum(entry.file_size for entry in entries)
        if total > self.limits.max_bytes:
            raise _too_much(self.source, f"unpacks to {total:,} bytes, more than {self.limits.max_bytes:,}")

    def names(self) -> list[str]:
        """Names of all files in it, sorted; directories are left out."""
        return sorted(self._members)

    def size(self, name: str) -> int:
        """Bytes of a member after decompression, as the archive declares them; `read` holds it to that."""
        return self._member(name).file_size

    def read(self, name: str) -> bytes:
        """The bytes of a member.

        Raises:
            InvalidInput: No such member; damaged; more bytes than declared.
        """
        return b"".join(self.chunks(name))

    def chunks(self, name: str) -> Iterator[bytes]:
        """The bytes of a member, up to 1 MiB at a time. Raises what `read` raises."""
        entry = self._member(name)
        count = 0
        with self._reading(f"member {name[:200]!r} is damaged"), self._zip.open(entry) as member:
            while chunk := member.read(1 << 20):
                count += len(chunk)
                yield chunk
        if count != entry.file_size:
            raise _bad(self.source, f"member {name[:200]!r} is not of the size declared")

    def nested(self, name: str) -> ZipArchive:
        """Open a member that is a zip itself, under the same limits."""
        if (size := self.size(name)) > self.limits.max_packed_bytes:
            what = f"{name[:200]} is {size:,} bytes, more than {self.limits.max_packed_bytes:,}"
            raise _too_much(self.source, what)
        # Never under its own name: beyond a size it goes to a file that has none.
        spool = tempfile.SpooledTemporaryFile(max_size=_IN_MEMORY)  # noqa: SIM115 - owned by the result
        try:
            for chunk in self.chunks(name):
                spool.write(chunk)
            return ZipArchive(spool, source=f"{self.source}: {name}", limits=self.limits)
        except BaseException:
            spool.close()
            raise

    def close(self) -> None:
        """Close the underlying file; reading is over."""
        self._file.close()

    def __del__(self) -> None:
        # A pack keeps its archive open for as long as somebody holds the pack.
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
    def _reading(self, what: str) -> Iterator[None]:
        # zipfile has no common base for what a damaged archive makes it raise.
        damaged = (zipfile.BadZipFile, zlib.error, EOFError, RuntimeError, ValueError, struct.error, OSError)
        try:
            yield
        except damaged as error:
            raise _bad(self.source, f"{what}: {error}") from error


def _open(where: Path | bytes | IO[bytes]) -> IO[bytes]:
    if isinstance(where, bytes):
        return io.BytesIO(where)
    if not isinstance(where, Path):
        return where
    return open_regular(where)


def _directory_size(file: IO[bytes], size: int) -> int:
    """Bytes that the archive's directory claims to have, read before zipfile loads all of it.

    From the end record (PKWARE APPNOTE 4.3.16), or the zip64 one that precedes it (4.3.14). Where
    there is none, zipfile says so.
    """
    tail_length = min(size, 22 + 65535 + 20 + 56)
    file.seek(size - tail_length)
    tail = file.read(tail_length)
    end = tail.rfind(b"PK\x05\x06")
    if end < 0 or len(tail) - end < 22:
        return 0
    directory: int = struct.unpack_from("<L", tail, end + 12)[0]
    zip64 = tail.rfind(b"PK\x06\x06", 0, end)
    if zip64 >= 0 and end - zip64 >= 56:
        directory = max(
            directory if directory != 0xFFFFFFFF else 0, struct.unpack_from("<Q", tail, zip64 + 40)[0]
        )
    return directory
