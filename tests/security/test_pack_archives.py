"""Baselines come as archives that anybody may have made: bombs, escapes and collisions get nowhere."""

import io
import stat
import struct
import tracemalloc
import zipfile
from pathlib import Path

import pytest

from agent_eval.errors import AgentEvalError, ExitCode, InvalidInput, InvalidPack
from agent_eval.evidence.archive import open_bundle
from tests.factories import make_pack


def zip_with(*members: tuple[str | zipfile.ZipInfo, bytes]) -> bytes:
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in members:
            archive.writestr(name, data)
    return stream.getvalue()


def pack_members(tmp_path: Path) -> list[tuple[str | zipfile.ZipInfo, bytes]]:
    root = make_pack(tmp_path / "p")
    return [
        (f"p/{path.relative_to(root).as_posix()}", path.read_bytes())
        for path in root.rglob("*")
        if path.is_file()
    ]


def link(name: str, target: str) -> tuple[zipfile.ZipInfo, bytes]:
    info = zipfile.ZipInfo(name)
    info.external_attr = (stat.S_IFLNK | 0o777) << 16
    return info, target.encode()


def bomb() -> bytes:
    """64 MiB of zeros, 65 times: more than is ever unpacked, in 70 KB."""
    data = zip_with(("00", bytes(64 << 20)))
    start = data.index(b"PK\x01\x02")
    entry = data[start : start + 46]
    entries = b"".join(entry + f"{number:02}".encode() for number in range(65))
    return (
        data[:start] + entries + struct.pack("<4s4H2LH", b"PK\x05\x06", 0, 0, 65, 65, len(entries), start, 0)
    )


ATTACKS: dict[str, list[tuple[str | zipfile.ZipInfo, bytes]]] = {
    "escape upwards": [("../../.bashrc", b"evil")],
    "escape within a pack": [("p/cases/../../../x", b"evil")], "absolute": [("/etc/cron.d/x", b"evil")],
    "windows": [("C:\\x", b"evil")], "case collision": [("P/manifest.json", b"{}")],
    "composition collision": [("p/\u00e9", b"1"), ("p/e\u0301", b"2")],
    "file below a file": [("p/manifest.json/x", b"1")], "bomb within an archive": [("inner.zip", bomb())],
    "link": [link("p/cases/case-1/artifact", "/etc/passwd")], "file added to the pack": [("p/extra", b"1")],
}  # fmt: skip


@pytest.mark.parametrize("attack", ATTACKS)
def test_attacks_leave_nothing_on_disk(tmp_path: Path, attack: str, monkeypatch: pytest.MonkeyPatch) -> None:
    members = (
        ATTACKS[attack] if "within an archive" in attack else [*pack_members(tmp_path), *ATTACKS[attack]]
    )
    (tmp_path / "work").mkdir()
    monkeypatch.chdir(tmp_path / "work")
    before = sorted(tmp_path.rglob("*"))
    with pytest.raises(AgentEvalError) as caught:
        open_bundle(zip_with(*members), source="artifact 42")
    assert caught.value.exit_code is ExitCode.WRONG_REQUEST
    assert caught.value.message.startswith("artifact 42: ")
    assert caught.value.remedy
    assert sorted(tmp_path.rglob("*")) == before


def test_bombs_are_refused_before_anything_is_unpacked() -> None:
    with pytest.raises(InvalidInput, match="artifact 42: unpacks to 4,362,076,160 bytes, more than"):
        open_bundle(bomb(), source="artifact 42")


def test_a_bomb_in_the_place_of_a_file_is_read_no_further_than_the_file_was_long(tmp_path: Path) -> None:
    members = [(name, data) for name, data in pack_members(tmp_path) if name != "p/run/summary.json"]
    tracemalloc.start()
    try:
        with pytest.raises(InvalidPack, match=r"summary\.json: was changed"):
            open_bundle(zip_with(*members, ("p/run/summary.json", bytes(200 << 20))), source="artifact")
        assert tracemalloc.get_traced_memory()[1] < 300 << 20  # the test's own 200 MiB among them
    finally:
        tracemalloc.stop()
