from __future__ import annotations

from itertools import combinations, permutations
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_eval.errors import InvalidInput
from agent_eval.judges.builtin.trajectory_match import pair_in_order, pair_in_place
from agent_eval.judges.matching.values import pair_in_any_order
from tests.unit.judges.traces import Row, answers, asks, calls, findings, judge, says, uses

BROKEN, UNKNOWN, NOTHING = "failed contract_violation", "inconclusive", "error missing_output"
FIELD = "metadata.trajectory_match"


def match(*events: Any, config: dict[str, Any] | None = None, **expected: Any) -> Any:
    return judge("trajectory_match", *events, config=config, metadata={"trajectory_match": expected})


def row(title: str, gives: str, *events: Any, has: str = "", config: Any = None, **expected: Any) -> Row:
    fields = {"config": config, "metadata": {"trajectory_match": expected}}
    return Row(title, gives, *events, has=has, **fields)


def tool(name: str, **fields: Any) -> dict[str, Any]:
    return {"tool": name, **fields}


A, B, C = uses("a"), uses("b"), uses("c")
AB, A1 = [tool("a"), tool("b")], uses("a", {"x": 1})
MADE = uses("a", {"x": {"y": 1, "z": 2}, "w": 3})
PART, WHOLE = [tool("a", arguments={"x": {"y": 1}}, match=kind) for kind in ("partial", "exact")]
PLAIN, PARTIAL = tool("a", arguments={"x": {"y": 1}}), {"match": "partial"}
WEATHER = uses("a", {"price": 10.2, "q": "weather in Rome", "id": "xyz", "limit": 10})
CLOSE = tool("a", arguments={"price": 10, "id": "abc"}, tolerance=0.5, patterns={"q": "^weather"})
ROOT, TO_EVE = [tool("rm", arguments={"path": "/"})], [tool("pay", arguments={"to": "eve"})]
EVE = uses("pay", {"to": "eve", "amount": 5})
FAILED = calls("a", {"x": 1}) + answers("a", None, error="bad")
DECLINED = calls("pay", {}) + answers("pay", None, error="declined")
AFTER_FAILURE = [tool("a", arguments={"x": 2})]
HIDDEN = calls("a", content_recorded=False)
X1 = [tool("a", arguments={"x": 1})]
OTHER = (
    "refund was called with other arguments: order is 8 instead of 7 and full is true and was not "
    "expected (event 1) (precision 0.00, recall 0.00, any_order)"
)
MAY_BE = "pay may have been called as it must not be (event 0), with arguments that are not JSON"

TAGS, LISTED = uses("a", {"tags": ["x", "y", 1.0], "by": [1, 2]}), {"tags": [1, "y", "x"], "by": [1, 2]}
NEST = uses("a", {"items": [{"id": 1, "tags": ["p", "q"]}, {"id": 2, "tags": []}]})
NESTED = {"items": [{"id": 2, "tags": []}, {"id": 1, "tags": ["q", "p"]}]}

ROWS = [
    *(
        row(f"lists in any order: {unordered}", gives, *events, calls=[tool("a", arguments=wanted)], has=has,
            **unordered)
        for events, wanted, unordered, gives, has in (
            ([TAGS], LISTED, {}, BROKEN, ""),
            ([TAGS], LISTED, {"unordered": ["tags"]}, "passed", ""),
            ([TAGS], {**LISTED, "by": [2, 1]}, {"unordered": ["tags"]}, BROKEN, "by.0 is 1 instead of 2"),
            ([TAGS], {**LISTED, "tags": ["x", "x", "y"]}, {"unordered": ["tags"]}, BROKEN,
                'tags has no item "x", in any order'),
            ([NEST], NESTED, {"unordered": ["items"]}, BROKEN, "items has no item"),
            ([NEST], NESTED, {"unordered": ["items", "items.*.tags"]}, "passed", ""),
        )
    ),
    row("of a call alone", "passed", TAGS, calls=[tool("a", arguments=LISTED, unordered=["*"])]),
    row("too many to compare so", BROKEN, uses("a", {"n": [*range(201)]}),
        calls=[tool("a", arguments={"n": [*range(201)]}, unordered=["n"])], has="more than the 200"),
    row("nothing is expected", "skipped", A),
    row("a mode alone expects nothing", "skipped", A, mode="exact"),
    *(
        row(f"{mode} {number}", gives, *events, says(), mode=mode, calls=AB)
        for mode, matching, different in (
            ("exact", [[A, B]], [[B, A], [A, B, C], [A], [A, C, B], []]),
            ("in_order", [[A, B], [A, C, B], [C, A, B, A]], [[B, A], [A], []]),
            ("any_order", [[A, B], [B, A]], [[A, B, C], [A], [A, A, B], []]),
            ("superset", [[A, B], [B, A], [C, B, A, A]], [[A], [A, C], []]),
            ("subset", [[A, B], [B, A], [A], [B], []], [[A, C], [A, A], [A, B, B]]),
        )
        for gives, traces in (("passed", matching), (BROKEN, different))
        for number, events in enumerate(traces)
    ),
    row("no calls are expected", "passed", says(), calls=[]),
    row("a call where none is expected", BROKEN, A, calls=[], has="a was called unexpectedly (event 0)"),
    row("one call for two", BROKEN, A, calls=[tool("a"), tool("a")]),
    row("two calls for two", "passed", A, A, calls=[tool("a"), tool("a")]),
    row("the best assignment", "passed", A1, uses("a", {"x": 2}), calls=[tool("a"), *X1]),
    row("other arguments", f"{BROKEN}: {OTHER}", says(), uses("refund", {"order": 8, "full": True}),
        calls=[tool("refund", arguments={"order": 7})]),
    row("a missing call", BROKEN, A, calls=AB,
        has="b was not called as expected (precision 1.00, recall 0.50"),
    row("calls out of order", BROKEN, B, A, mode="in_order", calls=AB,
        has="a was called out of order (event 2)"),
    row("all arguments", BROKEN, MADE, calls=[PLAIN]),
    row("in part, by the call", "passed", MADE, calls=[PART]),
    row("in part, by the case", "passed", MADE, match="partial", calls=[PLAIN]),
    row("in part, by the judge", "passed", MADE, calls=[PLAIN], config=PARTIAL),
    row("exactly, by the call", BROKEN, MADE, calls=[WHOLE], config=PARTIAL),
    row("any arguments", "passed", A1, calls=[tool("a")]),
    row("no arguments", BROKEN, A1, calls=[tool("a", arguments={})]),
    row("null is no arguments", "passed", uses("a", None), calls=[tool("a", arguments={})]),
    row("rules together", "passed", WEATHER, ignore=["id", "limit"], calls=[CLOSE]),
    row("a pattern alone", "passed", WEATHER, calls=[tool("a", patterns={"q": "Rome$"})]),
    row("another pattern", BROKEN, WEATHER, calls=[tool("a", patterns={"q": "Oslo$"})]),
    row("a pattern of what is missing", BROKEN, uses("a", {}), calls=[tool("a", patterns={"q": "."})]),
    row("true is not one", BROKEN, uses("a", {"x": True}), calls=X1),
    row("decimals", "passed", calls("a", {"x": 19.91}),
        calls=[tool("a", arguments={"x": 19.9}, tolerance=0.01)]),
    *(
        row(f"arguments {arguments!r}", f"failed {failure}", uses("a", arguments), calls=[tool("a")],
            has="with arguments that are")
        for arguments, failure in (("{x: 1}", "parse_error"), ("", "parse_error"), ([1], "type_error"))
    ),
    row("arguments as JSON text", "passed", uses("a", '{"x": 1}'), calls=X1),
    row("not the forbidden call", "passed", uses("rm", {"path": "/tmp"}), forbidden=ROOT),
    row("the forbidden call", BROKEN, A, uses("rm", {"path": "/", "force": True}), forbidden=ROOT,
        has="rm must not be called like that (event 2)"),
    row("a part of it, whatever the case", BROKEN, EVE, match="exact", forbidden=TO_EVE),
    row("another part", "passed", EVE, match="exact", forbidden=[tool("pay", arguments={"to": "bob"})]),
    row("a forbidden tool", "failed parse_error", uses("rm", "{"), forbidden=[tool("rm")]),
    row("a forbidden call that cannot be read", "failed parse_error", calls("pay", '{"to": "eve"'),
        forbidden=TO_EVE, has=MAY_BE),
    row("a forbidden call that failed", BROKEN, DECLINED, forbidden=[tool("pay")]),
    row("a forbidden result", BROKEN, says(), answers("pay"), forbidden=[tool("pay")]),
    *(
        row(f"count {count} of {times}", gives, *[A] * times, says(), counts={"a": count}, has=words)
        for count, times, gives, words in (
            (2, 1, BROKEN, "a was called 1 time, expected at least 2"),
            (2, 3, BROKEN, "a was called 3 times, expected at most 2"),
            ({"min": 1}, 0, BROKEN, "a was called 0 times, expected at least 1"),
            ({"max": 0}, 1, BROKEN, "a was called 1 time, expected at most 0"),
            ({"min": 1, "max": 2}, 2, "passed", ""),
            (0, 0, "passed", ""),
        )
    ),
    row("failed calls count", BROKEN, FAILED, uses("a", {"x": 2}), calls=AFTER_FAILURE),
    row("a result without a call is no call", "passed", answers("a"), calls=[]),
    row("an agent that did nothing", NOTHING, asks("?"), calls=[]),
    row("an agent that did nothing, subset", NOTHING, asks("?"), mode="subset", calls=AB),
    row("not recorded, any would do", "passed", HIDDEN, calls=[tool("a")]),
    row("not recorded", UNKNOWN, HIDDEN, calls=X1),
    row("not recorded, and another", "failed missing_output", HIDDEN, B, calls=X1),
    row("not recorded, forbidden like that", UNKNOWN, HIDDEN, forbidden=X1),
    row("not recorded, forbidden", "failed missing_output", HIDDEN, forbidden=[tool("a")]),
    row("a key that is unknown", f"refused {FIELD}.cals", A, cals=[], has="Did you mean calls?"),
    row("a mode that is unknown", f"refused {FIELD}.mode", A, mode="strict"),
    row("a key of a call", f"refused {FIELD}.calls.0.argumens", A, calls=[tool("a", argumens={})],
        has="Did you mean arguments?"),
    row("a pattern", f"refused {FIELD}.calls.0.patterns", A, calls=[tool("a", patterns={"x": "("})],
        has="missing )"),
    row("a glob", f"refused {FIELD}.calls.0.ignore", A, calls=[tool("a", ignore=["[z-a]"])], has="[z-a]"),
    row("a glob of a pattern", f"refused {FIELD}.calls.0.patterns", A,
        calls=[tool("a", patterns={"[z-a]": "x"})], has="[z-a]"),
    row("a count", f"refused {FIELD}.counts.a", A, counts={"a": {"min": 2, "max": 1}}, has="less than min"),
    row("counts in a list", f"refused {FIELD}.counts", A, counts=[1], has="dict"),
    row("a count that is true", f"refused {FIELD}.counts.a", A, counts={"a": True}),
    Row("no object", f"refused {FIELD}", A, metadata={"trajectory_match": "a,b"}, has="is not an object"),
]  # fmt: skip


@pytest.mark.parametrize("row", ROWS, ids=str)
def test_verdicts(row: Row) -> None:
    row.check("trajectory_match")


def test_scores_and_figures() -> None:
    twice = match(A, A, calls=[tool("a")])
    assert twice.score == pytest.approx(2 / 3)
    assert (twice.evidence["precision"], twice.evidence["recall"]) == (0.5, 1.0)
    assert match(A, uses("rm", {"path": "/"}), mode="superset", calls=[tool("a")], forbidden=ROOT).score == 0
    evidence = match(A, B, calls=AB).evidence
    assert (evidence["problem_count"], evidence["problems"], evidence["actual_calls"]) == (0, [], 2)
    assert match(A, forbidden=[tool("c")]).evidence["actual_calls"] == 1


def test_every_forbidden_call_is_counted_also_where_its_arguments_cannot_be_read() -> None:
    unreadable = calls("pay", "{", call_id="x") + answers("pay", call_id="x")
    for events, forbidden, words in (
        ([EVE, unreadable, B], [tool("pay")], "must not be called like that"),
        ([unreadable, unreadable], TO_EVE, "may have been called"),
    ):
        evidence = match(*events, forbidden=forbidden).evidence
        assert evidence["problem_count"] == 2
        assert all(words in problem for problem in evidence["problems"])


def of_turns(*events: Any, turns: list[list[dict[str, Any]] | None], **fields: Any) -> Any:
    asked = [{"input": f"ask {n}", "expected_tool_calls": wanted} for n, wanted in enumerate(turns)]
    return judge("trajectory_match", *events, turns=asked, **fields)


TWO_TURNS = (asks("one"), A, says(), asks("two"), B, says())


def test_each_turn_is_held_to_its_own_calls() -> None:
    assert of_turns(*TWO_TURNS, turns=[[tool("a")], [tool("b")]]).passed
    verdict = of_turns(*TWO_TURNS, turns=[[tool("b")], [tool("a")]])
    assert verdict.reason == (
        "turn 1: b was not called as expected, turn 1: a was called unexpectedly (event 1) and 2 more"
        " (0 of 2 turns as expected, any_order)"
    )
    assert [turn["turn"] for turn in verdict.evidence["turns"]] == [1, 2]


def test_a_turn_that_expects_nothing_is_not_looked_at_and_an_empty_list_expects_no_calls() -> None:
    assert of_turns(*TWO_TURNS, turns=[None, [tool("b")]]).passed
    assert of_turns(*TWO_TURNS, turns=[[], [tool("b")]]).evidence_refs == [1]


def test_a_turn_that_the_conversation_did_not_reach_is_never_as_expected() -> None:
    verdict = of_turns(*TWO_TURNS, turns=[[tool("a")], [tool("b")], []])
    assert (verdict.passed, verdict.score) == (False, pytest.approx(2 / 3))
    assert verdict.reason.startswith("turn 3: the conversation ended before it")


def test_rules_of_the_case_and_of_a_call_apply_in_turns() -> None:
    turns = [[tool("a", arguments={"x": 1}, ignore=["y"])]]
    events = (asks("one"), uses("a", {"x": 1, "y": 2, "z": 3}), says())
    assert not of_turns(*events, turns=turns).passed
    assert of_turns(*events, turns=turns, metadata={"trajectory_match": {"ignore": ["z"]}}).passed


def test_a_pattern_of_a_turn_that_cannot_be_used_is_refused_with_its_place() -> None:
    with pytest.raises(InvalidInput, match="patterns") as refused:
        of_turns(says(), turns=[None, [tool("a", patterns={"x": "("})]])
    assert str(refused.value.details["field"]).startswith("turns[1].expected_tool_calls[0]")


def test_the_call_of_an_answer_is_none_of_the_expected_calls_unless_it_is_named() -> None:
    answer = calls("submit", {"total": 7})
    assert not match(A, answer, calls=[tool("a")], mode="exact").passed
    for expected, outcome in (([tool("a")], "passed"), ([tool("a"), tool("submit", arguments={})], "failed")):
        metadata = {"trajectory_match": {"calls": expected, "mode": "exact"}}
        verdict = judge("trajectory_match", A, answer, metadata=metadata, final_output_tool="submit")
        assert findings(verdict)[0] == outcome


matrices = st.integers(0, 5).flatmap(
    lambda columns: st.lists(st.lists(st.booleans(), min_size=columns, max_size=columns), max_size=5).map(
        lambda rows: (rows, columns)
    )
)


@given(matrices, st.booleans())
def test_as_many_pairs_are_found_as_there_can_be(matrix: tuple[list[list[bool]], int], ordered: bool) -> None:
    rows, columns = matrix
    pair, arrange = (pair_in_order, combinations) if ordered else (pair_in_any_order, permutations)
    pairs = pair(len(rows), columns, lambda i, j: rows[i][j])
    most = max(
        size
        for size in range(min(len(rows), columns) + 1)
        for chosen in combinations(range(len(rows)), size)
        for partners in arrange(range(columns), size)
        if all(rows[i][j] for i, j in zip(chosen, partners, strict=True))
    )
    assert len(pairs) == len(set(pairs.values())) == most
    assert all(rows[i][j] for i, j in pairs.items())
    assert not ordered or (list(pairs) == sorted(pairs) and list(pairs.values()) == sorted(pairs.values()))


def test_in_place_pairs_equal_positions_only() -> None:
    assert pair_in_place(3, 2, lambda i, j: i == j) == {0: 0, 1: 1}
