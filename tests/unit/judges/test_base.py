from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from agent_eval.judges.base import at_events, clipped, display_name, listed, quoted


def test_enumerations_read_like_sentences() -> None:
    assert listed([]) == ""
    assert listed(["a"]) == "a"
    assert listed(["a", "b"]) == "a and b"
    assert listed(["a", "b", "c"]) == "a, b and c"
    assert listed("abcdefg") == "a, b, c, d, e and 2 more"


def test_plain_names_stand_bare_and_others_in_quotes() -> None:
    assert display_name("github.search/issues:v2") == "github.search/issues:v2"
    assert display_name("rm -rf") == '"rm -rf"'
    assert display_name("") == '""'


def test_event_references() -> None:
    assert at_events([]) == ""
    assert at_events([3]) == " (event 3)"
    assert at_events([3, 5]) == " (events 3 and 5)"


@given(st.text(), st.integers(2, 80))
def test_what_is_clipped_fits_and_short_text_stays(text: str, limit: int) -> None:
    cut = clipped(text, limit)
    assert len(cut) <= limit
    assert cut == text or cut.endswith("…")


@given(st.recursive(st.none() | st.booleans() | st.integers() | st.text(), st.lists))
def test_what_is_quoted_is_one_bounded_line(value: object) -> None:
    text = quoted(value)
    assert len(text) <= 6 * 60 + 2
    assert not any(ord(char) < 32 for char in text)
