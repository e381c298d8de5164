from __future__ import annotations

from itertools import combinations, permutations
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_eval.errors import InvalidInput
from agent_eval.judges.builtin.trajectory_match import pair_in_any_order, pair_in_order, pair_in_place
from tests.unit.judges.traces import answers, asks, calls, findings, judge, says, uses


def match(*events: Any, config: dict[str, Any] | None = None, **expected: Any) -> Any:
    return judge("trajectory_match", *events, config=config, metadata={"trajectory_match": expected})


def tool(name: str, **fields: Any) -> dict[str, Any]:
    return {"tool": name, **fields}


A, B, C = uses("a"), uses("b"), uses("c")
AB = [tool("a"), tool("b")]


def test_without_an_expectation_there_is_nothing_to_judge() -> None:
    assert findings(judge("trajectory_match", A)) == ("skipped", None)
    assert findings(match(A, mode="exact")) == ("skipped", None)


@pytest.mark.parametrize(
    ("mode", "matching", "different"),
    [
        ("exact", [[A, B]], [[B, A], [A, B, C], [A], [A, C, B], []]),
        ("in_order", [[A, B], [A, C, B], [C, A, B, A]], [[B, A], [A], []]),
        ("any_order", [[A, B], [B, A]], [[A, B, C], [A], [A, A, B], []]),
        ("superset", [[A, B], [B, A], [C, B, A, A]], [[A], [A, C], []]),
        ("subset", [[A, B], [B, A], [A], [B], []], [[A, C], [A, A], [A, B, B]]),
    ],
)
def test_modes(mode: str, matching: list[Any], different: list[Any]) -> None:
    for events in matching:
        assert findings(match(*events, says(), mode=mode, calls=AB)) == ("passed", None)
    for events in different:
        assert findings(match(*events, says(), mode=mode, calls=AB)) == ("failed", "contract_violation")


def test_an_empty_list_expects_no_calls() -> None:
    assert match(says(), calls=[]).passed
    verdict = match(A, calls=[])
    assert verdict.reason == "a was called unexpectedly (event 0) (precision 0.00, recall 1.00, any_order)"


def test_one_call_never_stands_for_two() -> None:
    assert not match(A, calls=[tool("a"), tool("a")]).passed
    assert match(A, A, calls=[tool("a"), tool("a")]).passed


def test_the_assignment_is_optimal_and_not_greedy() -> None:
    expected = [tool("a"), tool("a", arguments={"x": 1})]
    assert match(uses("a", {"x": 1}), uses("a", {"x": 2}), calls=expected).passed


def test_a_duplicate_call_counts_once() -> None:
    verdict = match(A, A, calls=[tool("a")])
    assert verdict.score == pytest.approx(2 / 3)
    assert verdict.evidence["precision"] == 0.5
    assert verdict.evidence["recall"] == 1.0


def test_other_arguments_are_told_with_the_event() -> None:
    verdict = match(
        says(), uses("refund", {"order": 8, "full": True}), calls=[tool("refund", arguments={"order": 7})]
    )
    assert verdict.reason == (
        "refund was called with other arguments: order is 8 instead of 7 and full is true and was not "
        "expected (event 1) (precision 0.00, recall 0.00, any_order)"
    )
    assert verdict.evidence_refs == [1]


def test_a_missing_call_is_told() -> None:
    verdict = match(A, calls=AB)
    assert verdict.reason.startswith("b was not called as expected (precision 1.00, recall 0.50")


def test_calls_out_of_order_are_told() -> None:
    assert "a was called out of order (event 2)" in match(B, A, mode="in_order", calls=AB).reason


def test_arguments_may_be_given_in_part() -> None:
    made = uses("a", {"x": {"y": 1, "z": 2}, "w": 3})
    wanted = {"x": {"y": 1}}
    assert not match(made, calls=[tool("a", arguments=wanted)]).passed
    assert match(made, calls=[tool("a", arguments=wanted, match="partial")]).passed
    assert match(made, match="partial", calls=[tool("a", arguments=wanted)]).passed
    assert match(made, calls=[tool("a", arguments=wanted)], config={"match": "partial"}).passed
    assert not match(
        made, calls=[tool("a", arguments=wanted, match="exact")], config={"match": "partial"}
    ).passed


def test_no_arguments_given_accepts_any_and_an_empty_object_none() -> None:
    assert match(uses("a", {"x": 1}), calls=[tool("a")]).passed
    assert not match(uses("a", {"x": 1}), calls=[tool("a", arguments={})]).passed
    assert match(uses("a", None), calls=[tool("a", arguments={})]).passed


def test_tolerance_patterns_ignored_places_and_defaults() -> None:
    made = uses("a", {"price": 10.2, "q": "weather in Rome", "id": "xyz", "limit": 10})
    call = tool("a", arguments={"price": 10, "id": "abc"}, tolerance=0.5, patterns={"q": "^weather"})
    assert match(made, ignore=["id"], defaults={"limit": 10}, calls=[call]).passed
    assert match(made, calls=[tool("a", patterns={"q": "Rome$"})]).passed
    assert not match(made, calls=[tool("a", patterns={"q": "Oslo$"})]).passed
    assert not match(uses("a", {}), calls=[tool("a", patterns={"q": "."})]).passed


def test_true_is_not_one() -> None:
    assert not match(uses("a", {"x": True}), calls=[tool("a", arguments={"x": 1})]).passed


@pytest.mark.parametrize(
    ("arguments", "failure"), [("{x: 1}", "parse_error"), ("", "parse_error"), ([1], "type_error")]
)
def test_malformed_arguments_are_a_failure_and_no_crash(arguments: Any, failure: str) -> None:
    verdict = match(uses("a", arguments), calls=[tool("a")])
    assert findings(verdict) == ("failed", failure)
    assert "a was called with arguments that are" in verdict.reason


def test_arguments_may_be_recorded_as_json_text() -> None:
    assert match(uses("a", '{"x": 1}'), calls=[tool("a", arguments={"x": 1})]).passed


def test_forbidden_calls() -> None:
    forbidden = [tool("rm", arguments={"path": "/"})]
    assert match(uses("rm", {"path": "/tmp"}), forbidden=forbidden).passed
    verdict = match(
        A, uses("rm", {"path": "/", "force": True}), calls=[tool("a")], mode="superset", forbidden=forbidden
    )
    assert findings(verdict) == ("failed", "contract_violation")
    assert "rm must not be called like that (event 2)" in verdict.reason
    assert verdict.score == 0
    assert not match(uses("rm", "{"), forbidden=[tool("rm")]).passed


@pytest.mark.parametrize(
    ("count", "times", "words"),
    [
        (2, 1, "a was called 1 time, expected at least 2"),
        (2, 3, "a was called 3 times, expected at most 2"),
        ({"min": 1}, 0, "a was called 0 times, expected at least 1"),
        ({"max": 0}, 1, "a was called 1 time, expected at most 0"),
        ({"min": 1, "max": 2}, 2, ""),
        (0, 0, ""),
    ],
)
def test_counts(count: Any, times: int, words: str) -> None:
    verdict = match(*[A] * times, says(), counts={"a": count})
    assert verdict.passed == (words == "")
    assert words in verdict.reason


def test_failed_calls_can_be_left_out() -> None:
    failed = calls("a", {"x": 1}) + answers("a", None, error="bad")
    events = [failed, uses("a", {"x": 2})]
    expected = [tool("a", arguments={"x": 2})]
    assert not match(*events, calls=expected).passed
    assert match(*events, calls=expected, config={"ignore_failed_calls": True}).passed


def test_a_result_without_a_call_is_no_call() -> None:
    assert match(answers("a"), calls=[]).passed


@pytest.mark.parametrize(
    ("expected", "field", "words"),
    [
        ({"mode": "strict"}, "metadata.trajectory_match.mode", "mode"),
        ({"cals": []}, "metadata.trajectory_match.cals", "Did you mean calls?"),
        (
            {"calls": [{"tool": "a", "argumens": {}}]},
            "metadata.trajectory_match.calls.0.argumens",
            "Did you mean arguments?",
        ),
        (
            {"calls": [{"tool": "a", "patterns": {"x": "("}}]},
            "metadata.trajectory_match.calls.0.patterns",
            "missing )",
        ),
        ({"counts": {"a": {"min": 2, "max": 1}}}, "metadata.trajectory_match.counts.a", "less than min"),
        ({"counts": [1]}, "metadata.trajectory_match.counts", "dict"),
        ({"counts": {"a": True}}, "metadata.trajectory_match.counts.a", ""),
        ("a,b", "metadata.trajectory_match", "is not an object"),
    ],
)
def test_a_malformed_expectation_is_refused_before_anything_runs(
    expected: Any, field: str, words: str
) -> None:
    with pytest.raises(InvalidInput) as caught:
        judge("trajectory_match", A, metadata={"trajectory_match": expected})
    assert caught.value.details["field"] == field
    assert caught.value.details["case_id"] == "case-1"
    assert words in caught.value.message + caught.value.remedy


@pytest.mark.parametrize("rules", [{"ignore": ["[z-a]"]}, {"patterns": {"[z-a]": "x"}}])
def test_a_glob_that_cannot_be_used_is_refused_before_anything_runs(rules: dict[str, Any]) -> None:
    with pytest.raises(InvalidInput, match=r"\[z-a\]"):
        match(A, calls=[tool("a", **rules)])


def test_malformed_arguments_do_not_clear_a_forbidden_call() -> None:
    forbidden = [{"tool": "pay", "arguments": {"to": "eve"}}]
    verdict = match(calls("pay", '{"to": "eve"'), forbidden=forbidden)
    assert findings(verdict) == ("failed", "parse_error")
    assert (
        "pay may have been called as it must not be (event 0), with arguments that are not JSON"
        in verdict.reason
    )
    assert match(calls("pay", {"to": "bob"}), forbidden=forbidden).passed


def test_a_forbidden_call_that_failed_or_was_not_recorded_was_made_all_the_same() -> None:
    failed = calls("pay", {}) + answers("pay", None, error="declined")
    for events in (failed, says() + answers("pay")):
        verdict = match(events, config={"ignore_failed_calls": True}, forbidden=[{"tool": "pay"}])
        assert findings(verdict) == ("failed", "contract_violation")


@pytest.mark.parametrize("expected", [{"calls": []}, {"mode": "subset", "calls": [{"tool": "a"}]}])
def test_an_agent_that_did_nothing_matches_nothing(expected: dict[str, Any]) -> None:
    assert findings(match(asks("?"), **expected)) == ("error", "missing_output")


def test_arguments_are_compared_as_decimals() -> None:
    expected = [{"tool": "pay", "arguments": {"amount": 19.9}, "tolerance": 0.01}]
    assert match(calls("pay", {"amount": 19.91}), calls=expected).passed


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
    assert match(A, answer, calls=[tool("a")], mode="exact").passed is False
    submitting = {"final_output_tool": "submit"}
    expected = {"trajectory_match": {"calls": [tool("a")], "mode": "exact"}}
    assert judge("trajectory_match", A, answer, metadata=expected, **submitting).passed
    expected["trajectory_match"]["calls"] = [tool("a"), tool("submit", arguments={"total": 8})]
    assert not judge("trajectory_match", A, answer, metadata=expected, **submitting).passed


def test_arguments_that_were_not_recorded_are_inconclusive_unless_any_would_do() -> None:
    hidden = calls("a", content_recorded=False)
    assert match(hidden, calls=[tool("a")]).passed
    verdict = match(hidden, calls=[tool("a", arguments={"x": 1})])
    assert findings(verdict) == ("inconclusive", None)
    assert findings(match(hidden, B, calls=[tool("a", arguments={"x": 1})]))[0] == "failed"
    assert findings(match(hidden, forbidden=[tool("a", arguments={"x": 1})])) == ("inconclusive", None)
    assert findings(match(hidden, forbidden=[tool("a")]))[0] == "failed"


def test_forbidden_arguments_are_a_part_of_the_calls_whatever_the_case_compares_by() -> None:
    pay = uses("pay", {"to": "eve", "amount": 5})
    found = match(pay, match="exact", forbidden=[tool("pay", arguments={"to": "eve"})])
    assert findings(found) == ("failed", "contract_violation")
    assert match(pay, match="exact", forbidden=[tool("pay", arguments={"to": "bob"})]).passed


def test_every_forbidden_call_is_counted_also_where_its_arguments_cannot_be_read() -> None:
    unreadable = calls("pay", "{", call_id="x") + answers("pay", call_id="x")
    any_pay = match(uses("pay", {"to": "eve"}), unreadable, uses("b"), forbidden=[tool("pay")])
    assert any_pay.evidence["problem_count"] == 2
    assert all("must not be called like that" in problem for problem in any_pay.evidence["problems"])
    to_eve = match(unreadable, unreadable, forbidden=[tool("pay", arguments={"to": "eve"})])
    assert to_eve.evidence["problem_count"] == 2
    assert all("may have been called" in problem for problem in to_eve.evidence["problems"])


def test_the_evidence_of_a_match_has_its_figures() -> None:
    evidence = match(A, B, calls=AB).evidence
    assert (evidence["problem_count"], evidence["problems"]) == (0, [])
    assert {name: evidence[name] for name in ("mode", "expected_calls", "actual_calls")}["actual_calls"] == 2
    assert match(A, forbidden=[tool("c")]).evidence["actual_calls"] == 1


matrices = st.integers(0, 5).flatmap(
    lambda columns: st.lists(st.lists(st.booleans(), min_size=columns, max_size=columns), max_size=5).map(
        lambda rows: (rows, columns)
    )
)


def best(rows: list[list[bool]], columns: int, *, ordered: bool) -> int:
    """The largest number of pairs, by trying every choice."""
    arrange = combinations if ordered else permutations
    for size in range(min(len(rows), columns), 0, -1):
        for chosen in combinations(range(len(rows)), size):
            for partners in arrange(range(columns), size):
                if all(rows[i][j] for i, j in zip(chosen, partners, strict=True)):
                    return size
    return 0


@given(matrices)
def test_any_order_finds_as_many_pairs_as_there_can_be(matrix: tuple[list[list[bool]], int]) -> None:
    rows, columns = matrix
    pairs = pair_in_any_order(len(rows), columns, lambda i, j: rows[i][j])
    assert len(pairs) == best(rows, columns, ordered=False)
    assert len(set(pairs.values())) == len(pairs)
    assert all(rows[i][j] for i, j in pairs.items())


@given(matrices)
def test_in_order_finds_as_many_pairs_as_order_allows(matrix: tuple[list[list[bool]], int]) -> None:
    rows, columns = matrix
    pairs = pair_in_order(len(rows), columns, lambda i, j: rows[i][j])
    assert len(pairs) == best(rows, columns, ordered=True)
    assert list(pairs.values()) == sorted(set(pairs.values()))
    assert list(pairs) == sorted(pairs)
    assert all(rows[i][j] for i, j in pairs.items())


def test_in_place_pairs_equal_positions_only() -> None:
    assert pair_in_place(3, 2, lambda i, j: i == j) == {0: 0, 1: 1}
