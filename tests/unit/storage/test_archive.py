"""Zip archives: the same bytes for the same files, and no trust in anybody else's."""

import io
import random
import stat
import struct
import zipfile
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_eval.errors import InvalidInput, StorageError
from agent_eval.storage.archive import ArchiveLimits, ZipArchive, write_zip
from agent_eval.storage.files import check_member_name


def zip_of(*members: tuple[str, bytes], method: int = zipfile.ZIP_DEFLATED) -> bytes:
    """A zip as any other program would write it."""
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", method) as archive:
        for name, data in members:
            archive.writestr(name, data)
    return stream.getvalue()


def refuses(data: bytes, message: str, **limits: int) -> str:
    """The remedy of a refusal."""
    with pytest.raises(InvalidInput, match=message) as caught:
        ZipArchive(data, source="artifact", limits=ArchiveLimits(**limits))
    assert caught.value.message.startswith("artifact: ")
    assert caught.value.remedy
    return caught.value.remedy


def test_the_same_files_give_the_same_bytes(tmp_path: Path) -> None:
    (tmp_path / "b.txt").write_bytes(b"from a file")
    (tmp_path / "b.txt").chmod(0o755)
    write_zip([("b.txt", tmp_path / "b.txt"), ("a/x", b"1" * 5000)], tmp_path / "one.zip")
    write_zip([("a/x", b"1" * 5000), ("b.txt", b"from a file")], tmp_path / "two.zip")
    assert (tmp_path / "one.zip").read_bytes() == (tmp_path / "two.zip").read_bytes()
    with zipfile.ZipFile(tmp_path / "one.zip") as archive:
        assert archive.namelist() == ["a/x", "b.txt"]
        stated = {(info.date_time, info.external_attr >> 16) for info in archive.infolist()}
        assert stated == {((1980, 1, 1, 0, 0, 0), stat.S_IFREG | 0o644)}
        assert archive.testzip() is None


def test_what_is_written_reads_back(tmp_path: Path) -> None:
    files = {"a/b.json": b"{}", "c": random.Random(0).randbytes(3_000_000), "empty": b"", "ü/🎉": b"1"}
    write_zip(files.items(), tmp_path / "x.zip")
    with ZipArchive(tmp_path / "x.zip", source="x.zip") as archive:
        assert archive.names() == sorted(files)
        assert {name: archive.read(name) for name in archive.names()} == files
        assert archive.size("c") == 3_000_000
        assert [len(chunk) for chunk in archive.chunks("c")] == [1 << 20, 1 << 20, 3_000_000 - (2 << 20)]


def test_members_that_are_not_there_are_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="no member 'b'"):
        ZipArchive(zip_of(("a", b"")), source="x").read("b")
    with pytest.raises(InvalidInput, match="no such file"):
        write_zip([("a", tmp_path / "missing")], tmp_path / "x.zip")
    assert not (tmp_path / "x.zip").exists()
    with pytest.raises(StorageError):
        write_zip([("a", b"")], tmp_path)


def test_names_that_leave_the_archive_are_not_written(tmp_path: Path) -> None:
    for names in (["../x"], ["a", "A"], ["a", "a/b"]):
        with pytest.raises(InvalidInput):
            write_zip([(name, b"") for name in names], tmp_path / "x.zip")
    assert list(tmp_path.iterdir()) == []


def copied_entries(data: bytes, copies: int, *, claim: int | None = None) -> bytes:
    """An archive of one member `00` whose directory lists it `copies` times under other names."""
    start, end = data.index(b"PK\x01\x02"), data.rindex(b"PK\x05\x06")
    entry = bytearray(data[start:end])
    if claim is not None:
        entry[24:28] = struct.pack("<L", claim)
    entries = b"".join(bytes(entry[:46]) + f"{number:02}".encode() for number in range(copies))
    tail = struct.pack("<4s4H2LH", b"PK\x05\x06", 0, 0, copies, copies, len(entries), start, 0)
    return data[:start] + entries + tail


def test_bombs_are_refused_by_size_and_by_count() -> None:
    remedy = refuses(zip_of(("a", b"x" * 1000)), "unpacks to 1,000 bytes, more than 999", max_bytes=999)
    assert "divide the suite" in remedy, "what is merely large is not called untrustworthy"
    assert "trust" not in remedy
    refuses(zip_of(*((str(number), b"") for number in range(11))), "has more than 10 members", max_entries=10)
    refuses(b"x" * 1000, "is 1,000 bytes, more than 999", max_packed_bytes=999)


def test_a_member_that_claims_more_than_its_bytes_can_unpack_to_is_refused() -> None:
    packed = zip_of(("00", bytes(2 << 20)))
    assert ZipArchive(copied_entries(packed, 1), source="x").size("00") == 2 << 20
    refuses(copied_entries(packed, 1, claim=3 << 20), "member '00' claims more bytes than it can unpack to")


def test_text_that_repeats_itself_is_read_however_well_it_compresses(tmp_path: Path) -> None:
    sorry = b"I am sorry, I cannot do that. " * 400_000
    write_zip([("events", sorry), ("zeros", bytes(20 << 20))], tmp_path / "x.zip")
    with ZipArchive(tmp_path / "x.zip", source="x") as archive:
        assert archive.read("events") == sorry
        assert len(archive.read("zeros")) == 20 << 20


@pytest.mark.parametrize(
    ("limits", "what"),
    [
        (ArchiveLimits(max_entries=2), "3 files, more than 2"),
        (ArchiveLimits(max_bytes=5_999), "more than 5,999 bytes"),
        (ArchiveLimits(max_packed_bytes=2_000), "more than 1,985 bytes after compression"),
    ],
)
def test_nothing_is_written_that_would_not_be_read(tmp_path: Path, limits: ArchiveLimits, what: str) -> None:
    noise = random.Random(1)
    files = [(name, noise.randbytes(2000)) for name in "abc"]
    with pytest.raises(InvalidInput, match=f"not written, because it could not be read: {what}") as caught:
        write_zip(files, tmp_path / "x.zip", limits=limits)
    assert "Divide" in (caught.value.remedy or "")
    assert list(tmp_path.iterdir()) == []


@given(
    sizes=st.lists(st.integers(0, 300), max_size=6), entries=st.integers(0, 6), unpacked=st.integers(0, 1000),
    packed=st.integers(100, 1500),
)  # fmt: skip
def test_what_is_written_within_limits_is_read_within_them(
    tmp_path_factory: pytest.TempPathFactory, sizes: list[int], entries: int, unpacked: int, packed: int
) -> None:
    limits = ArchiveLimits(max_entries=entries, max_bytes=unpacked, max_packed_bytes=packed)
    out = tmp_path_factory.mktemp("zip") / "x.zip"
    noise = random.Random(2)
    try:
        write_zip([(str(n), noise.randbytes(size)) for n, size in enumerate(sizes)], out, limits=limits)
    except InvalidInput:
        return
    assert len(ZipArchive(out, source="x", limits=limits).names()) == len(sizes)


def test_directories_of_millions_of_members_are_not_loaded() -> None:
    data = bytearray(zip_of(("a", b"1")))
    end = data.rindex(b"PK\x05\x06")
    data[end + 12 : end + 16] = struct.pack("<L", 400_000_000)
    refuses(bytes(data), "has more than 200,000 members")
    zip64 = struct.pack("<4sQ2H2L4Q", b"PK\x06\x06", 44, 45, 45, 0, 0, 1, 1, 400_000_000, 0)
    locator = struct.pack("<4sLQL", b"PK\x06\x07", 0, end, 1)
    data[end + 12 : end + 20] = b"\xff" * 8
    refuses(bytes(data[:end]) + zip64 + locator + bytes(data[end:]), "has more than 200,000 members")


def with_comment(data: bytes, comment: bytes) -> bytes:
    return data[:-2] + struct.pack("<H", len(comment)) + comment


ENTRY, END = b"PK\x01\x02", b"PK\x05\x06"


def patched(data: bytes, record: bytes, offset: int, value: bytes) -> bytes:
    """Overwrite a field of the last record of this kind: a member's entry or the end of the directory."""
    place = data.rindex(record) + offset
    return data[:place] + value + data[place + len(value) :]


ONE, OTHER = zip_of(("a", b"1")), zip_of(("a", b"2"))
NAMES = {
    "is absolute": ("/etc/passwd", "C:/x", "c:x"), "has a backslash": ("..\\x",), "too long": ("x" * 2000,),
    "has an empty part": ("../x", "a/../../x", "a/./x", "a//x", "../d/"),
    "cannot be printed": ("a\nb", "a\x1b[31m", "a\u202eb"),
}  # fmt: skip
NO_ZIPS = [
    b"", b"no zip at all", ONE[:-5], END + bytes(18) + b"more",
    # Something is hidden before, between or after the members.
    b"#!/bin/sh\n" + ONE, OTHER + ONE, ONE + OTHER, ONE + b"\n", with_comment(ONE, OTHER),
    with_comment(ONE, OTHER[OTHER.rindex(END) :]),
    *(patched(ONE, END, 8, value) for value in (b"\2\0", b"\2\0\2\0", bytes(4))),
    patched(ONE, END, 4, b"\1\0\1\0"), patched(ONE, END, 16, bytes(4)), patched(ONE, ENTRY, 42, b"\1"),
    ONE[: ONE.index(ENTRY)] + b"hidden" + ONE[ONE.index(ENTRY) :],
]  # fmt: skip
COLLIDING = [("a", "A"), ("é", "e\u0301"), ("straße", "STRASSE"), ("x/a", "X/A")]
REFUSED = {
    **{repr(name[:9]): (zip_of((name, b"1")), said) for said, names in NAMES.items() for name in names},
    **{f"{one} and {two}": (zip_of((one, b"1"), (two, b"2")), "are the same file") for one, two in COLLIDING},
    "a name twice": (zip_of(("one", b"1"), ("two", b"")).replace(b"two", b"one"), "are the same file"),
    "a file below a file": (zip_of(("a", b"1"), ("a/b/c", b"2")), "is below the file 'a'"),
    "NUL in a name": (zip_of(("abXcd", b"1")).replace(b"abXcd", b"ab\0cd"), "NUL"),
    **{
        name: (patched(ONE, ENTRY, 38, struct.pack("<L", (kind | 0o777) << 16)), "is a link or device")
        for name, kind in (("link", stat.S_IFLNK), ("pipe", stat.S_IFIFO), ("device", stat.S_IFCHR))
    },
    "encrypted": (patched(ONE, ENTRY, 8, b"\x01"), "is encrypted"),
    **{
        f"compression {method}": (zip_of(("a", b"1" * 100), method=method), "uses compression method")
        for method in (zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA)
    },
    **{f"no zip {number}": (data, "is not a zip archive") for number, data in enumerate(NO_ZIPS)},
}  # fmt: skip


@pytest.mark.parametrize(("data", "problem"), REFUSED.values(), ids=REFUSED)
def test_what_leads_elsewhere_collides_or_is_no_zip_is_refused(data: bytes, problem: str) -> None:
    refuses(data, problem)


def test_directories_are_no_members() -> None:
    assert ZipArchive(zip_of(("d/", b""), ("d/a", b"1")), source="x").names() == ["d/a"]


def test_a_comment_is_no_harm_and_a_streamed_archive_is_read() -> None:
    class Pipe(io.BytesIO):
        def seekable(self) -> bool:
            return False

        def tell(self) -> int:
            raise OSError

        seek = tell  # type: ignore[assignment]

    pipe = Pipe()
    with zipfile.ZipFile(pipe, "w") as streamed:
        streamed.writestr("a", b"1")
        streamed.writestr("b", b"2" * 5_000)
    for data in (with_comment(ONE, b"made by a forge"), pipe.getvalue()):
        with ZipArchive(data, source="x") as archive:
            assert archive.read("a") == b"1"


@pytest.mark.parametrize(("declared", "problem"), [(10, "member 'a' is damaged"), (2000, "x: member 'a' ")])
def test_members_have_as_many_bytes_as_declared(declared: int, problem: str) -> None:
    data = patched(zip_of(("a", b"x" * 1000)), ENTRY, 24, struct.pack("<L", declared))
    with pytest.raises(InvalidInput, match=problem):
        ZipArchive(data, source="x").read("a")


@given(st.integers(0, 10_000), st.integers(0, 255))
def test_damage_is_refused_or_harmless(position: int, byte: int) -> None:
    files = {"a": b"hello" * 50, "b/c": b"world"}
    data = bytearray(zip_of(*files.items()))
    data[position % len(data)] = byte
    try:
        archive = ZipArchive(bytes(data), source="x")
        found = {name: archive.read(name) for name in archive.names()}
    except InvalidInput:
        return
    assert set(found.values()) <= set(files.values())


@pytest.mark.parametrize("size", [1000, 17 << 20])
def test_nested_archives_are_read_without_a_name_on_disk(tmp_path: Path, size: int) -> None:
    noise = bytes(i * i % 251 for i in range(997)) * (size // 997 + 1)
    inner = zip_of(("deep", noise), method=zipfile.ZIP_STORED)
    outer = ZipArchive(zip_of(("pack.zip", inner), method=zipfile.ZIP_STORED), source="outer")
    with outer.nested("pack.zip") as nested:
        assert nested.source == "outer: pack.zip"
        assert nested.read("deep") == noise
    assert list(tmp_path.iterdir()) == []


def test_limits_hold_for_nested_archives_again() -> None:
    bomb = zip_of(("pack.zip", zip_of(("a", bytes(1000)))))
    with pytest.raises(InvalidInput, match=r"outer: pack\.zip: unpacks to 1,000 bytes"):
        ZipArchive(bomb, source="outer", limits=ArchiveLimits(max_bytes=999)).nested("pack.zip")
    limits, zeros = ArchiveLimits(max_packed_bytes=10_000), zip_of(("pack.zip", bytes(20_000)))
    dense = ZipArchive(zeros, source="outer", limits=limits)
    with pytest.raises(InvalidInput, match=r"outer: pack\.zip is 20,000 bytes, more than 10,000"):
        dense.nested("pack.zip")


@pytest.mark.parametrize("name", ["missing", "."])
def test_paths_that_are_no_files_are_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        ZipArchive(tmp_path / name, source="x")
    assert caught.value.remedy
    with pytest.raises(InvalidInput, match="not a regular file"):
        ZipArchive(Path("/dev/null"), source="x")


@pytest.mark.parametrize("name", ["a", "a/b.c", "ü", "a b", "-x", "...", "ab:c"])
def test_ordinary_names_are_fine(name: str) -> None:
    assert check_member_name(name) is None


def test_directories_that_other_programs_list_are_no_files() -> None:
    def listed(directories: int) -> bytes:
        return zip_of(*((f"d{number}/", b"") for number in range(directories)), ("d0/a", b""), ("d1/b", b""))

    limits = ArchiveLimits(max_entries=2)
    assert ZipArchive(listed(2), source="x", limits=limits).names() == ["d0/a", "d1/b"]
    with pytest.raises(InvalidInput, match="more than 2 members"):
        ZipArchive(listed(3), source="x", limits=limits)
