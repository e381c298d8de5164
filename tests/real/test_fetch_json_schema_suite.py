from __future__ import annotations

import io
import tarfile
from pathlib import Path

import pytest

from tests.real import fetch_json_schema_suite as fetch


def archive(path: Path, *members: tuple[str, bytes | str]) -> Path:
    """A tar file; text stands for a link to it."""
    with tarfile.open(path, "w:gz") as packed:
        for name, content in members:
            entry = tarfile.TarInfo(name)
            if isinstance(content, str):
                entry.type, entry.linkname = tarfile.SYMTYPE, content
                packed.addfile(entry)
            else:
                entry.size = len(content)
                packed.addfile(entry, io.BytesIO(content))
    return path


def test_only_files_of_the_suite_are_unpacked_and_none_elsewhere(tmp_path: Path) -> None:
    packed = archive(
        tmp_path / "a.tar.gz",
        ("p-1/json/tests/draft7/a.json", b"[]"),
        ("p-1/json/../../../outside.json", b"x"),
        ("/p-1/json/tests/absolute.json", b"x"),
        ("p-1/json/tests/link.json", "/etc/passwd"),
        ("p-1/setup.py", b"x"),
    )
    assert fetch.unpack(packed, tmp_path / "deep" / "out") == 1
    files = [path for path in tmp_path.rglob("*") if path.is_file() and path != packed]
    assert files == [tmp_path / "deep" / "out" / "tests" / "draft7" / "a.json"]


@pytest.mark.parametrize("limit", ["MOST_FILES", "MOST_BYTES"])
def test_an_archive_without_end_is_not_unpacked(
    limit: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fetch, limit, 1)
    packed = archive(tmp_path / "a.tar.gz", ("p/json/a", b"1"), ("p/json/b", b"2"))
    with pytest.raises(SystemExit, match="not what it should be"):
        fetch.unpack(packed, tmp_path / "out")


def test_what_is_fetched_is_pinned_by_the_lock_of_the_package() -> None:
    first, *hashes = fetch.pin().splitlines()
    assert first.startswith("jsonschema==")
    assert hashes
    assert all("--hash=sha256:" in line for line in hashes)
