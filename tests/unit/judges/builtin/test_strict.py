"""Strict evaluations of conversations, row by row: what passes, fails, cannot be told and is refused."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from agent_eval.contracts import Case
from agent_eval.contracts.aui import STRICT_KINDS, own_fields
from agent_eval.errors import InvalidInput
from agent_eval.judges import load_judges, validate_case
from tests.unit.judges.traces import Events, answers, asks, calls, findings, judge, says, uses

CF = "CONVERSATION_FORWARDING"
Answer = dict[str, Any]


def w(*names: Any, **trace_info: Any) -> Answer:
    """An answer that executed these workflows."""
    return {"executed_workflows": list(names), "trace_info": {"response": {"type": "answer"}, **trace_info}}


def x(**params: Any) -> Answer:
    """An answer that extracted these parameters."""
    return w(understanding={"extracted_params": params})


def d(*decisions: dict[str, Any], **more: Any) -> Answer:
    """An answer with these decisions, and its context."""
    return w(decisions=list(decisions), context={}, **more)


def rule(code: Any = "X", kind: str = "rule_triggered") -> dict[str, Any]:
    return {"type": kind, "rule": {"code": code}}


def called(code: Any = "X", **fields: Any) -> dict[str, Any]:
    return {"type": "call_integration", "integration": {"code": code, **fields}}


def response(value: Any, **more: Any) -> Answer:
    return {"executed_workflows": [], "trace_info": {"response": value}, **more}


ERROR = response({"type": "error"})
NO_TRACE: Answer = {}
PLAIN = w()


def conversation(*turns: Answer) -> list[Events]:
    """A turn of the user and the agent for each of the agent's answers."""
    return [asks("?") + says("!", attributes={"aui": answer}) for answer in turns]


def outcome(spec: dict[str, Any], *events: Events, **metadata: Any) -> str:
    """`P`, `F`, `E`, `S`, or `V` where the case is refused."""
    try:
        verdict = judge("strict", *events, metadata={"strict": [spec], **metadata})
    except InvalidInput:
        return "V"
    return {"passed": "P", "failed": "F", "error": "E", "skipped": "S"}[verdict.outcome.value]


NEGATED: dict[str, tuple[str, dict[str, str]]] = {
    "escalated": ("not_escalated", {}),
    "tool_used": ("tool_not_used", {"toolName": "REFUND"}),
    "param_exists": ("param_not_exists", {"paramName": "p"}),
    "escalated_due_to_error": ("not_escalated_due_to_error", {}),
    "rule_triggered": ("rule_not_triggered", {"ruleCode": "X"}),
}
"""Kinds with their negation, and what both look for."""

PAIRS: dict[tuple[str, str], dict[int | str, list[Answer]]] = {
    ("escalated", "P/F"): {
        1: [w(CF)], 2: [w("CONVERSATION_FORWARDING_TIER2")], 6: [{"executed_workflows": CF}],
        9: [NO_TRACE, w(CF)], 10: [{**ERROR, "executed_workflows": [CF]}],
        89: [{"executed_workflows": [CF]}], "o1": [w(CF), NO_TRACE], "o2": [w("A", {"name": "B"}, CF)],
    },
    ("escalated", "F/P"): {
        3: [w("PRE_CONVERSATION_FORWARDING"), w(CF.lower())], 4: [w()],
        5: [response({}, executed_workflows=None)], "5b": [{"trace_info": {}}], 11: [PLAIN] * 7,
        "o3": [w(f" {CF}")],
    },
    ("escalated", "E/E"): {
        7: [w({"name": CF})], 8: [NO_TRACE], "8b": [{"executed_workflows": None}],
        "o4": [{"executed_workflows": 7, "trace_info": {}}],
        "o21": [{"api": "v3", "trace_info": {"response": {"type": "answer"}}}],
    },
    ("tool_used", "P/F"): {
        13: [PLAIN, PLAIN, w("REFUND")], 16: [w("REFUND"), ERROR], "o6": [NO_TRACE, w("REFUND")],
        "o7": [w("REFUND", "REFUND")], "o8": [{"executed_workflows": "REFUND"}],
    },
    ("tool_used", "F/P"): {
        14: [w("refund", "REFUND ", "REFUND_V2")], 15: [d({"type": "activate_tool", "tool": "REFUND"})],
        "89b": [{"executed_workflows": []}],
    },
    ("tool_used", "E/E"): {
        "o5": [w("A"), NO_TRACE], "o22": [{"api": "v3", "trace_info": {"decisions": []}}],
    },
    ("param_exists", "P/F"): {
        48: [x(p="x")], 54: [x(p=0)], "54b": [x(p="0")], 55: [x(p=False)], "55b": [x(p="false")],
        58: [x(p=["a"])], 59: [x(p="Undefined")], "59b": [x(p="null")], "59c": [x(p="N/A")],
        60: [x(p="x"), x(p="")], "o9": [PLAIN, x(p="x")], "o13": [x(p={"a": ""})],
    },
    ("param_exists", "F/P"): {
        49: [x(q="x")], 50: [x(p="")], 51: [x(p="undefined")], 52: [x(p=None)],
        53: [x(p="  "), x(p=" undefined ")], 56: [x(p=[]), x(p={})], 57: [x(p=[""]), x(p=["undefined"])],
        61: [PLAIN], "o10": [x(q=1), PLAIN], "o12": [x(P="x")], "o14": [x(p=[[], [""]])],
    },
    ("param_exists", "E/E"): {
        "89c": [{"executed_workflows": []}], "o11": [w(understanding={"extracted_params": [1]})],
        "o23": [{"api": "v3", "trace_info": {"understanding": {"intents": []}}}],
    },
    ("escalated_due_to_error", "P/F"): {
        62: [PLAIN, ERROR], 67: [ERROR, PLAIN], "o25": [{"api": "v3", **ERROR}],
        "o20": [response(None), ERROR],
    },
    ("escalated_due_to_error", "F/P"): {
        63: [response({"type": "ERROR"}), response({"type": "blocked"})],
        64: [response({"type": "answer", "error": "x"})],
    },
    ("escalated_due_to_error", "E/E"): {
        65: [response(None)], "89e": [{"executed_workflows": []}], "o19": [PLAIN, response("error")],
    },
    ("rule_triggered", "P/F"): {
        68: [d(rule())], 69: [d(rule()), d(), d(), d(), d(rule())], 71: [d(rule(kind="block"))],
        77: [PLAIN, d(rule()), ERROR], "o15": [d(rule()), PLAIN],
        "o24": [{"api": "v3", "trace_info": {"decisions": [rule()]}}],
    },
    ("rule_triggered", "F/P"): {
        70: [d({"type": "rule_triggered", "rule": None}, {"rule": {}})],
        72: [d(rules_evaluations=[{"code": "X", "triggered": True}])], 73: [d(rule("x"))], 75: [d(), d()],
        76: [PLAIN], "o16": [d(), PLAIN], "o17": [d("odd", None)],
    },
    ("rule_triggered", "E/E"): {
        "89d": [{"executed_workflows": []}], "o18": [w(decisions={"code": "X"})],
    },
}  # fmt: skip
"""Conversations by kind and what it and its negation give; those of our own begin with `o`."""


@pytest.mark.parametrize(
    ("row", "kind", "expected", "turns"),
    [(row, *key, turns) for key, rows in PAIRS.items() for row, turns in rows.items()],
    ids=lambda value: str(value) if isinstance(value, int | str) else "",
)
def test_a_kind_and_its_negation_answer_the_same_question(
    row: int | str, kind: str, expected: str, turns: list[Answer]
) -> None:
    negation, named = NEGATED[kind]
    both = [outcome({"strict": each, **named}, *conversation(*turns)) for each in (kind, negation)]
    assert "/".join(both) == expected


def before(turn: Any) -> dict[str, Any]:
    return {"strict": "tool_not_used", "toolName": "REFUND", "beforeTurn": turn}


def equals(value: Any, name: str = "p") -> dict[str, Any]:
    return {"strict": "param_equals", "paramName": name, "paramValue": value}


def used_in(*turns: int, of: int) -> list[Answer]:
    return [w("REFUND") if number in turns else PLAIN for number in range(1, of + 1)]


INTEGRATION = {"strict": "integration_called", "integrationCode": "X"}

SINGLE: dict[str, dict[int | str, tuple[dict[str, Any], list[Answer]]]] = {
    "P": {
        20: (before(3), used_in(3, of=4)), 21: (before(3), used_in(4, of=4)),
        23: (before(1), used_in(1, of=1)), 27: (before(3), [PLAIN, PLAIN]),
        29: (before(3), [PLAIN, PLAIN, PLAIN, NO_TRACE]), 32: (equals("a"), [x(p="a")]),
        33: (equals("a"), [x(p="b"), x(), x(p="a")]),
        **{f"35 {later!r}": (equals("a"), [x(p="a"), x(), later])
            for later in (x(p=""), x(p="undefined"), x())},
        37: (equals(5), [x(p="5")]), "37b": (equals("5"), [x(p=5)]), "37c": (equals(5), [x(p=5.0)]),
        38: (equals(True), [x(p="true")]), 41: (equals({"a": 1, "b": 2}), [x(p={"b": 2, "a": 1})]),
        "74b": ({"strict": "rule_not_triggered", "ruleCode": "12"}, [d(rule(12))]),
        78: (INTEGRATION, [d(called(status_code=200))]),
        "78b": (INTEGRATION, [d(called(status_code=200.0))]),
        81: (INTEGRATION, [d(called(status_code=500)), d(called(status_code=200))]),
        "81b": (INTEGRATION, [d(called(status_code=200)), d(called(status_code=500))]),
        "85c": (INTEGRATION, [d(called(type="MCP", status_code=200, tool_calls=[]))]),
        "85d": (INTEGRATION, [d(called(type="RAG", status_code=200))]),
        "o24": (equals(["a"]), [x(p='["a"]')]), "o25": (equals("NaN"), [x(p="NaN")]),
        "o27": (INTEGRATION, [w(decisions=[called(status_code=200)])]),
        "o30": ({"strict": "escalated", "criterion": "x", "aui_logic": ["R1"], "category": "c"}, [w(CF)]),
        "o33": ({"strict": "param_equals", "paramName": "p", "paramValue": False}, [x(p="false")]),
    },
    "F": {
        19: (before(3), used_in(2, of=4)), 22: (before(3), used_in(2, 4, of=4)),
        25: (before(3.0), used_in(2, of=4)), 26: (before(10), used_in(7, of=7)),
        34: (equals("a"), [x(p="a"), x(), x(p="b")]),
        **{f"36 {value!r}": (equals("a"), [x(p=value)]) for value in ("A", " a", "a ")},
        39: (equals(True), [x(p=1)]), "39b": (equals(True), [x(p="True")]),
        40: (equals(["a", "b"]), [x(p=["b", "a"])]), 42: (equals("a"), [x(p=["a"])]),
        "42b": (equals("a"), [x(p={"value": "a"})]), 44: (equals("a"), [x(), x()]),
        45: (equals("a"), [PLAIN]), 46: (equals("a", "refund-reason"), [x(refund_reason="a")]),
        74: ({"strict": "rule_triggered", "ruleCode": "12"}, [d(rule(12))]),
        79: (INTEGRATION, [d(called(status_code="200"), called(status_code=True))]),
        80: (INTEGRATION, [d(called(status_code=201), called(status_code=204))]),
        82: (INTEGRATION, [d(called(status_code=500))]), 83: (INTEGRATION, [d(called(type="REST"))]),
        84: (INTEGRATION, [d(called(type="RAG", response={"resources": []}))]),
        85: (INTEGRATION, [d(called(type="MCP", tool_calls=[{"tool_name": "t"}]))]),
        "85e": (INTEGRATION, [d(called(type="RAG", status_code=500, response="x"))]),
        "85b": (INTEGRATION, [d(called(type="MCP", tool_calls=[{}, {"is_error": True}]))]),
        86: (INTEGRATION, [d({**called(), "status_code": 200})]),
        87: (INTEGRATION, [d({**called(status_code=200), "type": "no_tool"})]),
        "87b": (INTEGRATION, [d(called(None, status_code=200))]), 88: (INTEGRATION, [w(decisions=[])]),
        "88b": (INTEGRATION, [PLAIN]), "o22": (equals("a"), [x(p="b"), PLAIN]),
        "o23": (equals("1.10"), [x(p="1.1")]), "o26": (equals(5), [x(p=" 5")]),
        "o28": (INTEGRATION, [d(called(type="RAG"))]),
        "o29": (INTEGRATION, [d(called(type="MCP", tool_calls="odd"))]),
    },
    "E": {
        28: (before(3), [PLAIN, NO_TRACE, PLAIN]), "89f": (INTEGRATION, [{"executed_workflows": []}]),
        "o32": (before(2), [NO_TRACE, w("REFUND")]),
    },
    "V": {
        18: ({"strict": "tool_used"}, [PLAIN]), "18b": ({"strict": "tool_used", "toolName": ""}, [PLAIN]),
        **{f"24 {value!r}": (before(value), [PLAIN]) for value in (0, -1, 2.5, "3", True)},
        30: ({"strict": "tool_used", "toolName": "REFUND", "beforeTurn": 3}, [PLAIN]),
        **{f"43 {value!r}": (equals(value), [x(p="a")]) for value in ("", None, "undefined")},
        47: ({"strict": "param_equals", "paramName": "p"}, [x(p="a")]),
        90: ({"strict": "tool_uesd", "toolName": "A"}, [PLAIN]),
        "90b": ({"strict": "escalated", "weight": -1}, [PLAIN]),
        "90c": ({"strict": "escalated", "weight": 0}, [PLAIN]),
        "o21": ({"strict": "escalated", "toolName": "A"}, [PLAIN]),
        "o31": ({"strict": "escalated", "tool_name": "A"}, [PLAIN]),
    },
}  # fmt: skip
"""Evaluations and conversations by what they give."""


@pytest.mark.parametrize(
    ("row", "expected", "spec", "turns"),
    [(row, expected, *each) for expected, rows in SINGLE.items() for row, each in rows.items()],
    ids=lambda value: str(value) if isinstance(value, int | str) else "",
)
def test_rows_of_one_kind(row: int | str, expected: str, spec: dict[str, Any], turns: list[Answer]) -> None:
    assert outcome(spec, *conversation(*turns)) == expected


@pytest.mark.parametrize("failure", ["infrastructure", "timeout"])
@pytest.mark.parametrize("kind", ["escalated", "not_escalated", "not_escalated_due_to_error"])
def test_a_conversation_whose_agent_could_not_be_reached_is_not_evaluated(kind: str, failure: str) -> None:
    history = [{"attempt": 0, "failure": failure}]  # Rows 12 and 66.
    fields = {"attempt_history": history, "selected_attempt": 0}
    assert outcome({"strict": kind}, *conversation(PLAIN), **fields) == "S"


def test_imported_tool_calls_count_even_where_they_failed() -> None:
    events = asks("?") + calls("REFUND") + answers("REFUND", None, error="declined") + says()  # Row 17.
    assert outcome({"strict": "tool_used", "toolName": "REFUND"}, events) == "P"
    assert outcome({"strict": "tool_not_used", "toolName": "REFUND"}, events) == "F"


def test_a_welcome_is_no_turn_and_a_repeated_message_begins_none() -> None:
    welcome = says("Hi", attributes={"aui": w("REFUND")})  # Row 31.
    used = says("!", attributes={"aui": w("REFUND")}, turn=2)
    first = asks("?", turn=1) + says("!", attributes={"aui": PLAIN}, turn=1)
    assert outcome(before(2), [{**welcome[0], "turn": 0}], first, asks("?", turn=2), used) == "P"
    assert outcome(before(3), first, asks("?", turn=2), asks("?", turn=2), used) == "F"
    assert outcome(before(2), welcome, *conversation(PLAIN, w("REFUND"))) == "P"


RULE = {"strict": "rule_triggered", "ruleCode": "X"}
GENERIC: list[tuple[str, dict[str, Any], Events, str]] = [
    ("handed to a human", {"strict": "escalated"}, says("human_support", type="handoff"), "P"),
    ("handed to an agent", {"strict": "escalated"}, says("orders", type="handoff"), "F"),
    ("a forwarding tool", {"strict": "escalated"}, uses(f"{CF}_2"), "P"),
    ("state", equals("a"), says({"params": {"p": "a"}}, type="state"), "P"),
    ("plain state", equals("a"), says({"p": "a"}, type="state"), "P"),
    ("no state", equals("a"), says(), "E"),
    ("rule", RULE, says({"code": "X"}, type="guardrail", block_reason="X"), "P"),
    ("passed rule", RULE, says({"code": "X"}, type="guardrail"), "F"),
    ("no rules", {"strict": "rule_not_triggered", "ruleCode": "X"}, says(), "E"),
    ("called", INTEGRATION, uses("X"), "P"),
    ("failed call", INTEGRATION, calls("X") + answers("X", None, error="down"), "F"),
    ("unanswered call", INTEGRATION, calls("X"), "F"),
    ("error", {"strict": "escalated_due_to_error"}, says(None, type="error", error="down"), "P"),
    ("error of a message", {"strict": "not_escalated_due_to_error"}, says(None, error="down"), "F"),
    ("no error", {"strict": "not_escalated_due_to_error"}, says(), "P"),
]  # fmt: skip


@pytest.mark.parametrize(("name", "spec", "events", "expected"), GENERIC, ids=[row[0] for row in GENERIC])
def test_traces_of_any_other_agent_are_read_by_their_events(
    name: str, spec: dict[str, Any], events: Events, expected: str
) -> None:
    assert outcome(spec, asks("?"), events, says()) == expected


def test_the_evidence_shows_every_turn_that_decided_and_what_came_near() -> None:
    specs = [
        {"strict": "rule_triggered", "ruleCode": "X", "weight": 3},
        {"strict": "tool_used", "toolName": "REFUND"},
    ]
    turns = [d(rule()), {**d(rule()), "executed_workflows": ["refund"]}]
    verdict = judge("strict", *conversation(*turns), metadata={"strict": specs})
    assert findings(verdict) == ("failed", "contract_violation")
    assert verdict.score == 0.75
    assert verdict.reason == 'tool_used: "REFUND" was not used; similar: "refund" in turn 2'
    rules, tools = verdict.evidence["evaluations"]
    assert rules["reason"] == 'rule "X" was triggered in turns 1 and 2'
    turns_of_rules = [(turn["turn"], turn["event"], turn["counts"]) for turn in rules["turns"]]
    assert turns_of_rules == [(1, 1, True), (2, 3, True)]
    assert tools["turns"] == [{"turn": 2, "event": 3, "value": "refund", "counts": False}]


def test_values_of_any_size_and_depth_are_compared_and_shown_in_part() -> None:
    for value in ("x" * 100_000, "[" * 100_000, ["x" * 100_000], {"a": "b" * 1000}):
        verdict = judge("strict", *conversation(x(p=value)), metadata={"strict": [equals("a")]})
        assert findings(verdict) == ("failed", "contract_violation")
        assert len(str(verdict.evidence)) < 1000
    known = {"strict": "param_exists", "paramName": "p"}
    assert judge("strict", *conversation(x(p="x" * 100_000)), metadata={"strict": [known]}).passed


ODD = {"trace_info": {"decisions": 7, "response": [], "understanding": 1}}


@pytest.mark.parametrize("aui", ["odd", 7, None, [], {"trace_info": 7}, ODD])
@pytest.mark.parametrize("kind", sorted({*STRICT_KINDS} - {"param_equals"}))
def test_answers_of_any_shape_never_pass_and_raise_nothing(kind: str, aui: Any) -> None:
    spec = {"strict": kind, **dict.fromkeys(own_fields(kind) - {"beforeTurn"}, "X")}
    events = asks("?") + says("!", attributes={"aui": aui})
    verdict = judge("strict", events, metadata={"strict": [spec]})
    is_traced = isinstance(aui, dict) and isinstance(aui["trace_info"], dict)
    told = is_traced and kind in ("escalated", "not_escalated", "tool_used", "tool_not_used")
    assert (verdict.outcome.value == "error") is not told


def test_a_failed_evaluation_points_at_the_event_that_broke_it() -> None:
    verdict = judge("strict", *conversation(PLAIN, w(CF)), metadata={"strict": [{"strict": "not_escalated"}]})
    assert (verdict.evidence_refs, verdict.reason) == ([3], "not_escalated: the agent escalated in turn 2")


def test_what_cannot_be_told_is_an_error_and_what_failed_comes_first() -> None:
    unknown, failing = {"strict": "param_exists", "paramName": "p"}, {"strict": "not_escalated"}
    verdict = judge("strict", *conversation(NO_TRACE), metadata={"strict": [unknown]})
    assert findings(verdict) == ("error", "missing_output")
    assert 'whether "p" is known cannot be told: turn 1: extracted_params is not recorded' in verdict.reason
    both = judge("strict", *conversation(NO_TRACE, w(CF)), metadata={"strict": [unknown, failing]})
    assert findings(both)[0] == "failed"


@pytest.mark.parametrize("malformed", [{}, "escalated", ["escalated"], [{}]])
def test_malformed_evaluations_are_refused(malformed: Any) -> None:
    with pytest.raises(InvalidInput, match="strict"):
        judge("strict", says(), metadata={"strict": malformed})


def test_the_example_of_the_guide_is_valid() -> None:
    guide = (Path(__file__).parents[4] / "docs" / "guides" / "judges.md").read_text("utf-8")
    section = guide.split("### strict\n")[1].split("\n### ")[0]
    example = json.loads(section.split("```json\n")[1].split("```")[0])
    validate_case(load_judges(["strict"]), Case.model_validate(example))
    assert len(example["metadata"]["strict"]) == 3
    for kind in STRICT_KINDS:
        assert f"`{kind}`" in section


@pytest.mark.parametrize("metadata", [{}, {"strict": []}])
def test_a_case_without_evaluations_is_skipped(metadata: dict[str, Any]) -> None:
    assert findings(judge("strict", says(), metadata=metadata)) == ("skipped", None)


def test_every_row_of_the_table_is_here() -> None:
    names = [str(row) for rows in [*PAIRS.values(), *SINGLE.values()] for row in rows]
    numbers = {int(number[0]) for name in names if (number := re.match(r"\d+", name))}
    assert numbers == set(range(1, 91)) - {12, 17, 31, 66}  # These four have tests of their own.
    assert len([name for name in names if name.startswith("o")]) >= 30
