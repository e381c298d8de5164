from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agent_eval.reports.html.content import marked, window, windows
from tests.extent import examples


def sides(before: str, now: str) -> tuple[list[str], list[str]]:
    """What is marked on either side."""
    return tuple([piece.text for piece in side if piece.differs] for side in marked(before, now))  # type: ignore[return-value]


@pytest.mark.parametrize(
    ("before", "now", "expected"),
    [
        ("I refunded 10 EUR.", "I refunded 1000 EUR.", (["10"], ["1000"])),
        ('{"amount": 12.5}', '{"amount": "12.50"}', (["12.5"], ['"12.50"'])),
        ("same", "same", ([], [])),
        ("", "new", ([], ["new"])),
        ("the order is late", "the order is not late", ([], ["not "])),
    ],
)
def test_words_that_differ_are_marked(before, now, expected):
    assert sides(before, now) == expected


def test_texts_with_little_in_common_are_marked_whole():
    assert sides("Your parcel arrives on Monday.", "I cannot help you with that!") == (
        ["Your parcel arrives on Monday."],
        ["I cannot help you with that!"],
    )


def test_a_space_between_two_words_that_differ_is_marked_with_them():
    before, now = sides("please call our nice colleague now", "please call some other colleague now")
    assert (before, now) == (["our nice"], ["some other"])


def test_long_texts_are_compared_line_by_line():
    lines = [f"line {number} of a long report" for number in range(200)]
    changed = [*lines]
    changed[3], changed[190] = "another fourth line of a long report", "nothing"
    before, now = sides("\n".join(lines), "\n".join(changed))
    assert before == ["line 3 of a long report\n", "line 190 of a long report\n"]
    assert now == ["another fourth line of a long report\n", "nothing\n"]


@settings(max_examples=examples(200), deadline=None)
@given(st.text("ab \n.", max_size=60), st.text("ab \n.", max_size=60))
def test_no_character_is_lost_or_added(before, now):
    first, second = marked(before, now)
    assert ("".join(piece.text for piece in first), "".join(piece.text for piece in second)) == (before, now)


def test_a_window_shows_the_first_difference_of_long_texts():
    before, now = windows("x" * 5_000 + "old", "x" * 5_000 + "new!", limit=1_000)
    assert (before.before, before.text[-3:], before.after) == (4_700, "old", 0)
    assert (now.before, now.text[-4:], now.after) == (4_700, "new!", 0)


def test_short_texts_are_shown_whole():
    before, now = windows("a" * 900 + "b", "a" * 900 + "c", limit=1_000)
    assert (before.before, now.before) == (0, 0)


def test_a_window_says_how_much_it_leaves_out():
    assert window("x" * 25, limit=10).after == 15
