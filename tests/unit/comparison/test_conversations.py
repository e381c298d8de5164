from __future__ import annotations

from typing import Any

from agent_eval.comparison.conversations import (
    ACTIONS_LIMIT,
    TEXT_LIMIT,
    TURNS_LIMIT,
    conversation_change,
    criterion_changes,
    spoken_texts,
)
from agent_eval.contracts import Case, case_result
from agent_eval.contracts.comparison import ConversationChange
from agent_eval.evidence.writer import result_row
from tests.factories import make_case, make_verdict
from tests.unit.reports.situations import conversation

ASKS = ("Hello", "lookup", "Hi!")


def result(*criteria: dict[str, Any], judge: str = "llm") -> Any:
    member = "evaluations" if judge == "strict" else "criteria"
    return result_row(case_result("a", [make_verdict("a", judge, evidence={member: list(criteria)})]))


def change(before: dict[str, Any], now: dict[str, Any]) -> ConversationChange:
    cases = Case.model_validate(before), Case.model_validate(now)
    found = conversation_change(cases, result(), result())
    assert found is not None
    return found


def test_turns_are_paired_by_number_and_the_ends_are_named() -> None:
    found = change(
        conversation("a", ASKS, ("More", "", "No."), end="escalation"), conversation("a", ASKS, end="goal")
    )
    assert (found.baseline_turns, found.candidate_turns) == (2, 1)
    assert (found.baseline_end, found.candidate_end) == ("escalation", "goal")
    turns = [(turn.number, turn.differs, turn.candidate is None) for turn in found.turns]
    assert turns == [(1, False, False), (2, True, True)]
    assert found.first_differing is not None
    assert found.first_differing.baseline is not None
    assert found.first_differing.baseline.to_json() == {"user": "More", "agent": "No.", "actions": []}


def test_a_turn_differs_by_what_the_agent_did_alone() -> None:
    found = change(conversation("a", ASKS), conversation("a", ("Hello", "refund", "Hi!")))
    assert found.first_differing is not None
    sides = found.first_differing.baseline, found.first_differing.candidate
    assert [side.actions for side in sides if side is not None] == [["lookup"], ["refund"]]


def test_a_case_with_one_turn_and_no_end_is_no_conversation() -> None:
    case = Case.model_validate(make_case("a"))
    assert conversation_change((case, case), result(), result()) is None


def test_the_words_of_a_simulated_user_are_read_from_the_trace() -> None:
    simulated = {"input": None, "turns": [{"auto": True}], "conversation": {"guidelines": "Be polite."}}
    case = Case.model_validate({**conversation("a", ASKS), **simulated})
    assert [spoken_texts(case, turn) for turn in case.recorded.turns] == [("Hello", "Hi!")]


def test_long_messages_are_cut_so_that_their_first_difference_is_kept() -> None:
    same = "x" * 5_000
    found = change(
        conversation("a", ("Hello", "", f"{same}yes")), conversation("a", ("Hello", "", f"{same}no"))
    )
    [turn] = found.turns
    assert turn.differs
    texts = [side.agent for side in (turn.baseline, turn.candidate) if side is not None]
    assert [text[-4:] for text in texts] == ["xyes", "xxno"]
    assert max(map(len, texts)) <= TEXT_LIMIT


def test_of_many_turns_the_first_that_differs_and_those_after_it_are_kept() -> None:
    turns = [(f"Question {number}", "", "Yes.") for number in range(40)]
    other = [*turns[:30], ("Question 30", "", "No."), *turns[31:]]
    found = change(conversation("a", *turns), conversation("a", *other))
    assert (found.baseline_turns, len(found.turns)) == (40, TURNS_LIMIT)
    assert [turn.number for turn in found.turns] == [*range(29, 41)]
    assert found.first_differing is not None
    assert found.first_differing.number == 31


def test_very_many_actions_are_cut_and_still_compared() -> None:
    def acts(last: str) -> dict[str, Any]:
        case = conversation("a", ASKS)
        state = {"params": {**{f"p{number:02}": "x" for number in range(50)}, "z": last}}
        case["trace"].insert(1, {"idx": 99, "turn": 1, "actor": "agent", "type": "state", "output": state})
        case["trace"] = [{**event, "idx": place} for place, event in enumerate(case["trace"])]
        return case

    [turn] = change(acts("one"), acts("two")).turns
    assert turn.differs
    assert turn.candidate is not None
    assert len(turn.candidate.actions) == ACTIONS_LIMIT


def test_criteria_that_got_worse_come_before_those_that_failed_before_and_those_that_improved() -> None:
    outcomes = {"A": "passed", "B": "failed", "C": "failed", "D": "passed"}
    before = result(*({"criterion": name, "outcome": outcome} for name, outcome in outcomes.items()))
    now = result(
        {"criterion": "C", "outcome": "passed"},
        {"criterion": "B", "outcome": "failed", "reason": "as before"},
        {"criterion": "A", "outcome": "inconclusive", "reason": "too long"},
        {"criterion": "D", "outcome": "passed"},
        {"criterion": "E", "outcome": "failed", "advisory": True},
    )
    listed = [(each.criterion, each.baseline, each.candidate) for each in criterion_changes(before, now)]
    assert listed == [
        ("A", "passed", "inconclusive"), ("E", None, "failed"), ("B", "failed", "failed"),
        ("C", "failed", "passed"),
    ]  # fmt: skip


def test_evaluations_with_equal_words_are_told_apart_by_their_fields() -> None:
    rows = [{"criterion": "Used", "strict": "tool_used", "toolName": name} for name in ("A", "B")]
    before = result(*({**row, "outcome": "passed"} for row in rows), judge="strict")
    now = result({**rows[0], "outcome": "passed"}, {**rows[1], "outcome": "failed"}, judge="strict")
    assert [each.baseline for each in criterion_changes(before, now)] == ["passed"]


def test_evidence_of_another_form_is_no_criterion() -> None:
    assert criterion_changes(None, result({"outcome": 7}, judge="policy")) == []
