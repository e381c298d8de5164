"""Safe names: readable, bounded, one for each identifier, on every file system; and digests."""

import re
import unicodedata
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_eval.errors import InvalidInput
from agent_eval.storage.files import safe_name, sha256_bytes, sha256_file

HOSTILE = [
    "../../x", "..", ".", "", "/etc/passwd", "a/b", "a\\b", "CON", "con", "nul.txt", "com1", "LPT9.log",
    "-rf", "x" * 300, "a\0b", "a\nb", "🎉", "é", "e\u0301", "A", "a", "a.", "a ", "con.", "~", "$HOME",
    "\ud800", ".git",
]  # fmt: skip


@pytest.mark.parametrize("identifier", ["case-1", "a", "0", "lookup_order.v2", "x" * 92])
def test_plain_lower_case_names_stay_as_they_are(identifier: str) -> None:
    assert safe_name(identifier) == identifier


def test_hostile_identifiers_become_plain_names_of_their_own() -> None:
    names = [safe_name(identifier) for identifier in HOSTILE]
    for name in names:
        is_safe_everywhere(name)
    assert len({name.casefold() for name in names}) == len(HOSTILE)


def test_the_readable_part_stays() -> None:
    assert re.fullmatch(r"order-123-refund-[0-9a-f]{32}", safe_name("Order 123: refund?"))


def test_nobody_can_choose_the_name_of_another_identifier() -> None:
    taken = safe_name("Order")
    assert safe_name(taken) != taken


def is_safe_everywhere(name: str) -> None:
    assert re.fullmatch(r"[a-z0-9][a-z0-9._-]*", name)
    assert len(name) <= 100
    assert not name.endswith(".")
    assert not re.match(r"(con|prn|aux|nul|com\d|lpt\d)(\.|$)", name)


@given(st.text(alphabet=st.characters(), max_size=200))
def test_every_identifier_has_a_safe_name(identifier: str) -> None:
    name = safe_name(identifier)
    is_safe_everywhere(name)
    assert safe_name(identifier) == name


@given(st.text(alphabet="aA.-éE\u0301/ ", max_size=4), st.text(alphabet="aA.-éE\u0301/ ", max_size=4))
def test_different_identifiers_never_share_a_name(one: str, other: str) -> None:
    def place(identifier: str) -> str:
        return unicodedata.normalize("NFC", safe_name(identifier)).casefold()

    assert (one == other) == (place(one) == place(other))


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
