"""Safe names: readable, bounded, one for each identifier, on every file system."""

from __future__ import annotations

import re
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_eval.storage.files import safe_name

HOSTILE = [
    "../../x",
    "..",
    ".",
    "",
    "/etc/passwd",
    "a/b",
    "a\\b",
    "CON",
    "con",
    "nul.txt",
    "com1",
    "LPT9.log",
    "-rf",
]
HOSTILE += [
    "x" * 300,
    "a\0b",
    "a\nb",
    "🎉",
    "é",
    "e\u0301",
    "A",
    "a",
    "a.",
    "a ",
    "con.",
    "~",
    "$HOME",
    "\ud800",
    ".git",
]


@pytest.mark.parametrize("identifier", ["case-1", "a", "0", "lookup_order.v2", "x" * 92])
def test_plain_lower_case_names_stay_as_they_are(identifier: str) -> None:
    assert safe_name(identifier) == identifier


@pytest.mark.parametrize("identifier", HOSTILE)
def test_hostile_identifiers_become_plain_names(identifier: str) -> None:
    is_safe_everywhere(safe_name(identifier))


def test_hostile_identifiers_get_names_of_their_own() -> None:
    assert len({safe_name(identifier).casefold() for identifier in HOSTILE}) == len(HOSTILE)


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
