from __future__ import annotations

import unicodedata
from typing import Any

import pytest

from agent_eval.judges.builtin.final_output import last_number
from tests.unit.judges.traces import Events, Row, asks, says, uses

WRONG, NOTHING, REFUSED = "failed contract_violation", "error missing_output", "refused expected_output"
EXACTLY = " (expected_output without a mode: compared exactly)"
FIELD = "refused metadata.final_output"


def final(
    output: Any, expected: Any, gives: str, has: str = "", config: dict[str, Any] | None = None, **more: Any
) -> Row:
    """What the judge gives on an answer; `more` are the case's rules."""
    title = f"{output!r:.40} {expected!r:.40} {config or ''} {more}"
    fields: dict[str, Any] = {"config": config, "expected_output": expected}
    return Row(
        title, gives, asks("?"), says(output), has=has, metadata={"final_output": more or None}, **fields
    )


NUMBERS: dict[bool, list[tuple[Any, Any]]] = {
    True: [
        ("The total is $1,234.50.", 1234.5), ("first 3, then 4", "4"), ("-7", -7), (42, 42),
        ("42, says gpt4", 42), ("\N{MINUS SIGN}5", -5), (".5", 0.5), (9007199254740993, "9007199254740993"),
        ([1, 2], 2),
        # Beside Chinese, Japanese and Korean characters, and signs of currencies.
        ("总价是42元", 42), ("合計は1,200円です。", 1200), ("총액은 42원입니다", 42),
        ("价格：４２．５元", 42.5), ("3月5日", 5), ("温度-7度", -7),
        *((f"It costs {sign}42.", 42) for sign in "$¢£¤¥฿₩₪₫€₱₴₹₺₽₿＄￥￦"),
        ("₹ 1,234.50", 1234.5), ("The balance is -$42.00", -42), ("\N{MINUS SIGN}US$ 42", -42),
        ("残高は-¥42です", -42), ("$-42", -42), ("- $42", 42), ("$10-$20", 20),
    ],
    False: [
        ("none", 1), ("gpt4", 4), ("\N{MINUS SIGN}5", 5), ("3-5", -5), ("3-5", 5), ("not 42 but 1,5", 42),
        ("1,5", 5), ("at 12:30", 30), ("0.5", 5), ("9007199254740993", 9007199254740992),
        ("1e999999999", 1),
        # Beside Chinese, Japanese and Korean characters, and signs of currencies.
        ("大约42万元", 42), ("42만원", 42), ("The balance is -$42.00", 42),
    ],
}  # fmt: skip
"""Answers and numbers, by whether the answer is that number."""
NEAR = [
    ("about 3.15", 3.14, 0.02, True), ("about 3.17", 3.14, 0.02, False), ("about 19.91", 19.9, 0.01, True),
    (19.91, 19.9, 0.01, True), ("about 19.911", 19.9, 0.01, False),
]  # fmt: skip
"""Within a tolerance or not."""


def test_every_sign_of_a_currency_is_none_of_a_number() -> None:
    signs = [chr(code) for code in range(0x10000) if unicodedata.category(chr(code)) == "Sc"]
    assert len(signs) > 50
    for sign in signs:
        number = last_number(f"{sign}42")
        assert number is not None
        assert number.value == 42, sign


IN_VALUES: list[tuple[Any, Any, str]] = [
    ('{"b": 2, "a": 1.0}', {"a": 1, "b": 2}, "passed"),
    ('{"a": 1}', {"a": 1, "b": 2}, WRONG),
    ([1, 2], [1, 2], "passed"),
    ("[2, 1]", [1, 2], WRONG),
    ("42", 42, "passed"),
    ("The answer is 42.", 42, "failed parse_error"),
    ("true", True, "passed"),
    ("1", True, WRONG),
]

ORDER = {"total": 10, "items": [{"id": 1, "n": 2}]}
OTHER_ID = {"items": [{"n": 2, "id": 9}], "total": 10.4}
UNREADABLE = (
    'the last number in the final output is "3-5", which cannot be read as one number instead of 5 (event 1)'
)

ROWS = [
    final("x", None, "skipped"),
    final("x", None, "skipped", mode="contains"),
    final(" Paris\n", "Paris", "passed"),
    final("Paris, France", "Paris",
        f'{WRONG}: the final output is "Paris, France" instead of "Paris"{EXACTLY} (event 1)'),
    *(
        final("Rome", "Paris", f'{WRONG}: the final output is "Rome" instead of "Paris" (event 1)', **stated)
        for stated in ({"mode": "exact"}, {"config": {"mode": "exact"}})
    ),
    *(
        final(output, wanted, WRONG, has=f", which differs only in {words} (event 1)")
        for output, wanted, words in (
            ("caf\u00e9", "cafe\u0301", "the normal form of Unicode"),
            ("He said \u201chi\u201d.", 'He said "hi".', "quotes"),
            ("1\u00a0000  EUR", "1 000 EUR", "spaces"),
            ("\u2018a\u2019\u202fb", "'a' b", "quotes and spaces"),
        )
    ),
    *(
        final(f"So: {output}!", wanted, WRONG, mode="contains", has=f"; it does but for {words} (event 1)")
        for output, wanted, words in (
            ("caf\u00e9", "cafe\u0301", "the normal form of Unicode"),
            ("I can\u2019t,\nI said", "can't, I", "quotes and spaces"),
        )
    ),
    final('{"a": "it\u2019s"}', {"a": "it's"}, WRONG, has="which differs only in quotes"),
    final("\u201chi\u201d", '"ho"', f'{WRONG}: the final output is "“hi”" instead of "\\"ho\\"" (event 1)',
        mode="exact"),
    final("```\n[1]\n```", [1], "passed: the final output is as expected, read from its code fence",
        code_fence=True),
    final("```\n[1]\n```", [1], "failed parse_error", has="which metadata.final_output.code_fence reads"),
    final("[1]", [1], "passed: the final output is as expected", code_fence=True),
    final("paris", "Paris", WRONG),
    final("paris", "Paris", "passed", ignore_case=True),
    final("paris", "Paris", "passed", config={"ignore_case": True}),
    final("It is Paris.", "Paris", "passed", mode="contains"),
    final("It is Paris.", "Rome", WRONG, mode="contains"),
    final("It is Paris.", None, "passed", contains=["Paris", "is"], not_contains=["Rome"]),
    final("It is Rome.", None,
        f'{WRONG}: the final output does not contain "Paris" and the final output contains "Rome" (event 1)',
        contains=["Paris"], not_contains=["Rome"]),
    *(
        final(output, wanted, "passed" if equal else WRONG, mode="number")
        for equal, rows in NUMBERS.items()
        for output, wanted in rows
    ),
    *(
        final(output, wanted, "passed" if equal else WRONG, mode="number", tolerance=tolerance)
        for output, wanted, tolerance, equal in NEAR
    ),
    final("from 3-5 EUR", 5, f"{WRONG}: {UNREADABLE}", mode="number"),
    final("about 42 EUR", 42, "passed", mode="numeric"),
    final("about 41 EUR", 42, WRONG, mode="numeric"),
    final('{"items": [{"n": 2, "id": 1}], "total": 10.0}', ORDER, "passed"),
    final(OTHER_ID, ORDER, "passed", tolerance=0.5, ignore=["items.*.id"]),
    final({"items": [], "total": True}, ORDER, WRONG, "in the final output, total is true instead of 10"),
    final('"1"', "1", "passed", mode="json"),
    final("Sure: {}", {"a": 1}, "failed parse_error"),
    final(False, False, "passed"),
    final("true", False, WRONG),
    *(final(output, wanted, gives) for output, wanted, gives in IN_VALUES),
    final("It is Paris.", "P[a-z]+s", "passed", mode="regex"),
    final("It is paris.", "P[a-z]+s", WRONG, mode="regex"),
    final("It is paris.", "P[a-z]+s", "passed", mode="regex", ignore_case=True),
    final({"total": 3}, None, "passed", contains=['"total":3']),
    final({"total": 4}, None, WRONG, contains=['"total":3']),
    final("it is abc", None, "passed", contains=["ABC"], ignore_case=True),
    final("it is abc", None, WRONG, contains=["ABC"]),
    final("it is abc", None, WRONG, not_contains=["ABC"], ignore_case=True),
    final("it is abc", None, "passed", not_contains=["ABC"]),
    final("it is abc", "ABC", "passed", mode="contains", ignore_case=True),
    final("it is abc", "ABC", WRONG, mode="contains"),
    *(
        each
        for blank in ("", " \n", "\N{ZERO WIDTH SPACE}")
        for each in (
            final(blank, None, NOTHING, not_contains=["sorry"]),
            final(blank, "Paris", NOTHING),
            final(blank, blank, "passed"),
        )
    ),
    # What could never or always hold is refused with its place.
    final("x", None, f"{FIELD}.contians", contians=["x"]),
    final("x", None, f"{FIELD}.contains", contains="x"),
    final("x", None, f"{FIELD}.tolerance", tolerance=-1),
    final("x", "y", f"{FIELD}.mode", mode="values"),
    final("x", None, f"{FIELD}.contains.0", contains=[""]),
    final("x", None, f"{FIELD}.not_contains.1", not_contains=["a", " "]),
    final("x", None, f"{FIELD}.ignore", ignore=["[z-a]"]),
    final("x", "", REFUSED, mode="contains"),
    final("x", "one", REFUSED, mode="number"),
    final("x", "3-5", REFUSED, mode="number"),
    *(final("x", pattern, REFUSED, mode="regex") for pattern in ("(", "", 5)),
    # No answer.
    Row("a result is none", NOTHING, uses("t", output="Paris"), expected_output="Paris"),
    Row("silence", NOTHING, says(None), expected_output="yes"),
    Row("not recorded", "inconclusive", says(None, content_recorded=False), expected_output="yes",
        has="not recorded (event 0)"),
    *(
        Row(f"stopped: {why}", f"error {kind}", says(None, **why), expected_output="yes", has=words)
        for why, kind, words in (
            ({"stop_reason": "max_tokens"}, "output_limit", 'the answer was cut off for "max_tokens"'),
            ({"stop_reason": "refusal"}, "agent_error", 'the answer was refused for "refusal"'),
            ({"block_reason": "moderation"}, "agent_error", 'the answer was blocked for "moderation"'),
        )
    ),
]  # fmt: skip


@pytest.mark.parametrize("row", ROWS, ids=str)
def test_verdicts(row: Row) -> None:
    row.check("final_output")


def of_turns(title: str, *events: Events, wanted: list[Any], gives: str, **fields: Any) -> Row:
    turns = [{"input": "?", "expected_output": value} for value in wanted]
    return Row(title, gives, *events, turns=turns, **fields)


def found(turn: int, event: int | None, outcome: str = "passed") -> dict[str, Any]:
    return {"turn": turn, "event": event, "outcome": outcome}


TWO = (asks("one"), says("1"), asks("two"), says("2"))
EUR = (asks("one"), says("It is 1."), asks("two"), says("It is 2 EUR."))
IN_EUR = {"final_output": {"mode": "number", "contains": ["EUR"]}}
NONE_YET = f"{NOTHING}: turn 3: the conversation ended before it"

OF_TURNS = [
    of_turns("each", *TWO, wanted=["1", "2"], gives="passed"),
    of_turns("one is wrong", *TWO, wanted=["1", "3"], score=0.5, refs=[3],
        gives=f'{WRONG}: turn 2: the output is "2" instead of "3"{EXACTLY} (event 3)',
        evidence={"turns": [found(1, 1), found(2, 3, "failed")]}),
    of_turns("one expects nothing", *TWO, wanted=[None, "2"], gives="passed"),
    of_turns("none expects anything", *TWO, wanted=[None, None], gives="skipped"),
    of_turns("the last answer too", *EUR, wanted=[1, 2], metadata=IN_EUR, expected_output=2, gives="passed"),
    of_turns("as the case says", *EUR, wanted=[1, 3], metadata=IN_EUR,
        gives=f"{WRONG}: turn 2: the last number in the output is 2 instead of 3 (event 3)"),
    of_turns("one that did not come", *TWO, wanted=["1", "2", "3"], gives=NONE_YET,
        evidence={"turns": [found(1, 1), found(2, 3), found(3, None, "missing")]}),
    of_turns("a wrong one beside it", *TWO, wanted=["0", "2", "3"], gives=WRONG),
    of_turns("one without an answer", *TWO[:3], uses("a"), wanted=["1", "1"], gives=NOTHING),
    of_turns("one that could never hold", says(), wanted=[None, "none"], metadata=IN_EUR,
        gives="refused turns[1].expected_output"),
]  # fmt: skip


@pytest.mark.parametrize("row", OF_TURNS, ids=str)
def test_the_answer_to_each_turn_is_compared_with_what_that_turn_expects(row: Row) -> None:
    row.check("final_output")
