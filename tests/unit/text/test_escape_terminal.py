from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_eval.text.escape import clean


def test_clean__drops_what_a_terminal_obeys():
    assert clean("\x1b[31mred\x9b2J\u202eabc\x07") == "[31mred2Jabc"


def test_clean__keeps_one_line_unless_told_otherwise():
    assert clean("a\r\nb\tc") == "a⏎b c"
    assert clean("a\r\nb\tc", multiline=True) == "a\nb\tc"


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("::error::x", "∷error∷x"),
        (":\u200b:error::x", "∷error∷x"),
        ("see ##[add-mask]x", "see # #[add-mask]x"),
        ("##vso[task.x]", "# #vso[task.x]"),
        ("a: b # c", "a: b # c"),
    ],
)
def test_clean__makes_commands_of_ci_servers_harmless(text, shown):
    assert clean(text) == shown


def test_clean__marks_what_it_cuts():
    assert clean("x" * 20, limit=10) == "x" * 9 + "…"


@given(st.text())
def test_clean__is_printable_and_stable(text):
    shown = clean(text)
    assert not any(ord(character) < 32 or 0x7F <= ord(character) < 0xA0 for character in shown)
    assert clean(shown) == shown
    assert "::" not in shown
