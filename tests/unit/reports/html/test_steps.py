from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agent_eval.contracts import Event, Trace
from agent_eval.reports.html.steps import StepNote, TraceSide, aligned_steps, marked, single_steps, windows
from tests.extent import examples
from tests.factories import make_event


def side(*events: dict[str, Any], notes: dict[int, list[StepNote]] | None = None) -> TraceSide:
    return TraceSide(Trace([Event.model_validate(event) for event in events]), notes or {})


def called(idx: int, tool: str, **arguments: Any) -> dict[str, Any]:
    return make_event(idx, type="tool_call", tool=tool, input=arguments)


def kinds(before: TraceSide, now: TraceSide, *, most: int = 100) -> list[tuple[str, int | None, int | None]]:
    """Kind of each row, and the numbers of its events."""
    return [
        (row.kind, row.baseline and row.baseline.event.idx, row.candidate and row.candidate.event.idx)
        for turn in aligned_steps(before, now, limit=1_000, most=most)
        for row in turn.rows
    ]


def test_a_step_that_only_one_run_has_stands_alone_and_the_next_ones_stay_aligned() -> None:
    before = side(called(0, "lookup"), called(1, "refund"))
    now = side(called(0, "lookup"), called(1, "escalate"), called(2, "refund"))
    assert kinds(before, now) == [("same", None, 0), ("added", None, 1), ("same", None, 2)]
    assert kinds(now, before) == [("same", None, 0), ("removed", 1, None), ("same", None, 1)]


def test_an_equal_step_with_a_verdict_on_the_baseline_keeps_both_sides() -> None:
    note = {0: [StepNote("policy", "failed", "it was called")]}
    assert kinds(side(called(0, "refund"), notes=note), side(called(0, "refund"))) == [("same", 0, 0)]


def test_turns_are_aligned_one_by_one_and_numbered_where_there_are_several() -> None:
    question = make_event(0, actor="user", input="And the shipping?")
    before = side(
        question, make_event(1, output="Free."), {**question, "idx": 2}, make_event(3, output="Bye.")
    )
    now = side(question, make_event(1, output="5 EUR."), {**question, "idx": 2}, make_event(3, output="Bye."))
    turns = aligned_steps(before, now, limit=1_000, most=100)
    assert [(turn.number, [row.kind for row in turn.rows]) for turn in turns] == [
        (1, ["same", "arguments"]),
        (2, ["same", "same"]),
    ]
    assert [turn.number for turn in single_steps(side(question), limit=1_000, most=100)] == [None]


def test_of_very_many_steps_those_with_verdicts_and_differences_are_shown() -> None:
    events = [called(number, "lookup", n=number) for number in range(50)]
    changed = [*events]
    changed[40] = called(40, "lookup", n="forty")
    note = {45: [StepNote("policy", "failed", "too many calls")]}
    assert kinds(side(*events), side(*changed, notes=note), most=4) == [
        ("same", None, 0), ("same", None, 1), ("gap", None, None), ("arguments", 40, 40), ("gap", None, None),
        ("same", None, 45), ("gap", None, None),
    ]  # fmt: skip


def test_long_values_are_cut_and_say_so() -> None:
    row = single_steps(side(make_event(0, output="x" * 150)), limit=100, most=10)[0].rows[0]
    assert row.candidate is not None
    assert (len(row.candidate.view.text), row.candidate.view.after) == (100, 50)


def test_two_long_values_are_shown_from_shortly_before_their_first_difference() -> None:
    same = "word " * 400
    rows = aligned_steps(
        side(make_event(0, output=f"{same}then")),
        side(make_event(0, output=f"{same}now")),
        limit=500,
        most=10,
    )[0].rows
    before, now = rows[0].baseline, rows[0].candidate
    assert before is not None
    assert now is not None
    assert (before.view.before, now.view.before) == (1_700, 1_700)
    assert [piece.text for piece in now.pieces if piece.differs] == ["now"]


def test_short_arguments_are_on_one_line_and_equal_in_form_on_both_sides() -> None:
    long = {f"argument_{number}": number for number in range(12)}
    rows = aligned_steps(side(called(0, "t", a=1)), side(called(0, "t", **long)), limit=1_000, most=10)[
        0
    ].rows
    before, now = rows[0].baseline, rows[0].candidate
    assert before is not None
    assert now is not None
    assert before.view.text == '{\n  "a": 1\n}'
    assert now.view.text.startswith('{\n  "argument_0": 0,')


def test_what_happened_besides_messages_and_calls_is_named() -> None:
    events = [
        make_event(0, type="tool_result", actor="tool", tool="refund", error={"code": 500}),
        make_event(1, type="model_call", model="gpt-4o", usage={"output_tokens": 9}, attempt=2),
        make_event(2, type="reasoning", output="I should look it up.", agent_name="triage"),
        make_event(3, output=None, content_recorded=False, block_reason="moderation"),
    ]
    cells = [row.candidate for row in single_steps(side(*events), limit=100, most=10)[0].rows]
    assert [(cell.title, cell.view.text, list(cell.facts)) for cell in cells if cell is not None] == [
        ("refund fails", '{"code": 500}', []),
        ("agent: model call", "", ["attempt 2", "gpt-4o", "9 output tokens"]),
        ("triage: reasoning", "I should look it up.", []),
        ("agent says", "(not recorded)", ["stopped: moderation"]),
    ]


def sides(before: str, now: str) -> tuple[list[str], list[str]]:
    """What is marked on either side."""
    return tuple([piece.text for piece in side if piece.differs] for side in marked(before, now))  # type: ignore[return-value]


@pytest.mark.parametrize(
    ("before", "now", "expected"),
    [
        ("I refunded 10 EUR.", "I refunded 1000 EUR.", (["10"], ["1000"])),
        ('{"amount": 12.5}', '{"amount": "12.50"}', (["12.5"], ['"12.50"'])),
        ("same", "same", ([], [])), ("", "new", ([], ["new"])),
        ("the order is late", "the order is not late", ([], ["not "])),
        # A space between two words that differ is marked with them; with little in common all is.
        ("please call our nice friend", "please call some other friend", (["our nice"], ["some other"])),
        ("Your parcel arrives.", "I cannot help!", (["Your parcel arrives."], ["I cannot help!"])),
    ],
)  # fmt: skip
def test_words_that_differ_are_marked(before, now, expected):
    assert sides(before, now) == expected


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
    before, now = windows("a" * 900 + "b", "a" * 900 + "c", limit=1_000)
    assert (before.before, now.before) == (0, 0), "short texts are shown whole"
