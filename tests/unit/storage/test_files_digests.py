"""Digests of bytes and files."""

from __future__ import annotations

from pathlib import Path

import pytest

from agent_eval.errors import InvalidInput
from agent_eval.storage.files import sha256_bytes, sha256_file

# FIPS 180-2, appendix B.1.
ABC = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"


def test_bytes_and_files_have_the_same_digest(tmp_path: Path) -> None:
    (tmp_path / "x").write_bytes(b"abc")
    assert sha256_bytes(b"abc") == ABC
    assert sha256_file(tmp_path / "x") == (ABC, 3)


@pytest.mark.parametrize("name", ["missing", "."])
def test_what_is_no_file_is_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        sha256_file(tmp_path / name)
    assert caught.value.remedy
