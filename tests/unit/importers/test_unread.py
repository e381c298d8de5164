"""What has the shape of a call, a result or an answer is read, or it is lost and said: in every format."""

from __future__ import annotations

import copy
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from agent_eval.errors import AgentEvalError, InvalidInput
from agent_eval.importers.catalog import Family
from agent_eval.importers.shapes import CALL, shapes_of
from tests.unit.importers.importing import EXPORTS, FAMILIES, Result, of_lines, of_value

CALLS = {"id": "c1", "type": "function", "function": {"name": "delete_order", "arguments": '{"id": 7}'}}
ASKED = {"role": "user", "content": "Remove order 7."}


@pytest.mark.parametrize(
    ("message", "what"),
    [
        ({"toolCalls": [CALLS]}, "a tool call of delete_order"),
        ({"content": "Done.", "x_calls": [CALLS]}, "a tool call of delete_order"),
        ({"content": "",
          "toolInvocations": [{"toolCallId": "c1", "toolName": "delete_order", "args": {"id": 7}}]},
         "a tool call of delete_order"),
        ({"content": [{"type": "x", "text": "Done."},
                      {"toolUse": {"toolUseId": "c1", "name": "delete_order", "input": {"id": 7}}}]},
         "a tool call of delete_order"),
        ({"content": None, "said": {"role": "assistant", "text": "All orders are gone."}}, "an answer"),
    ],
)  # fmt: skip
def test_what_no_field_of_the_format_holds_is_lost(
    message: dict[str, Any], what: str, tmp_path: Path
) -> None:
    messages = [ASKED, {"role": "assistant", "content": "Yes.", **message}]
    value = {"model": "m", "messages": messages[:1], "choices": [{"message": messages[1]}]}
    result = of_value("provider", value, tmp_path, name="openai")
    if not any(event.get("tool") == "delete_order" for event in result.events):
        assert any(what in entry["reason"] for entry in lost(result))
        assert any(what in event["output"] for event in result.of("unread"))
        with pytest.raises(InvalidInput, match=r"was not read|is not a field"):
            of_value("provider", value, tmp_path / "strict", name="openai", strict=True)


def test_a_case_carries_what_was_not_read(tmp_path: Path) -> None:
    result = of_value(
        "framework",
        {"messages": [ASKED, {"role": "assistant", "content": "", "laterCalls": [CALLS]}]},
        tmp_path,
    )
    assert [event["attributes"]["agent_eval.unread"] for event in result.of("unread")] == ["tool call"]


@pytest.mark.parametrize(
    ("read", "later"),
    [
        (CALLS, {**CALLS, "id": "c2"}),  # equal calls with ids of their own
        (CALLS, {**CALLS, "function": {"name": "delete_order", "arguments": '{"id": 8}'}}),  # all have one id
        (CALLS, {"name": "delete_order", "arguments": {"id": 8}}),  # in no list of calls, without an id
        (CALLS, {"type": "function", "id": "c2", "later": CALLS["function"]}),  # the id is above
    ],
)
def test_a_call_beside_one_that_resembles_it_is_lost(read: Any, later: Any, tmp_path: Path) -> None:
    answer = {"role": "assistant", "content": None, "tool_calls": [read], "later": later}
    result = of_value("provider", [ASKED, answer], tmp_path, name="openai")
    assert len(result.of("tool_call")) == 1
    assert [event["attributes"]["agent_eval.unread"] for event in result.of("unread")] == ["tool call"]


def test_pieces_of_a_call_in_another_field_are_lost(tmp_path: Path) -> None:
    about = {"name": "delete_order", "id": "c1", "index": 0}
    message = {"type": "AIMessageChunk", "id": "m", "content": "", "tool_calls": [{**about, "args": {}}]}
    piece = {**about, "args": '{"id": 7}', "type": "tool_call_chunk"}
    lines = [[{**message, "later_chunks": [piece]}, {"langgraph_node": "model"}]]
    assert [
        event["attributes"]["agent_eval.unread"]
        for event in of_lines("framework", lines, tmp_path).of("unread")
    ]


def test_where_another_format_fits_better_the_loss_names_it(tmp_path: Path) -> None:
    session = {"sessionId": "s", "projectHash": "p", "messages": [{**ASKED, "type": "user"}]}
    call = {"name": "delete_order", "args": {"id": 7}, "status": "success", "result": []}
    session["messages"].append({"type": "gemini", "role": "assistant", "content": "", "later": [call]})
    with pytest.raises(InvalidInput, match="`agent-eval import --from gemini_cli` imports"):
        of_value("provider", session, tmp_path, strict=True)


@pytest.mark.parametrize(
    ("family", "record", "field"),
    [
        ("framework", [ASKED, {"role": "assistant", "content": [{"toolUse": CALLS}], "later": 1}],
         "[1].later"),
        ("framework", {"tasks_output": [{"raw": "Yes."}], "later": 1}, "later"),
        ("framework", {"messages": [{"type": "TextMessage", "source": "a", "content": "Hi"}], "later": 1},
         "later"),
        ("framework", {"data": [{"object": "trace", "id": "t"}], "later": 1}, "later"),
        ("provider", {"messages": [ASKED, {"role": "assistant", "content": "Yes.", "later": 1}]},
         "messages[1].later"),
        ("framework", {"id": "r", "run_type": "llm", "inputs": {}, "later": 1}, "later"),
        ("framework",
         {"id": "r", "run_type": "chain", "inputs": {},
          "child_runs": [{"child_runs": [{"id": "i", "later": 1}]}]},
         "child_runs[0].child_runs[0].later"),
        ("framework", {"runs": [{"id": "r", "run_type": "llm", "inputs": {}, "later": 1}], "rule_id": "w"},
         "runs[0].later"),
        ("framework", [{"object": "trace.span", "span_data": {}, "later": 1}], "later"),
        ("framework", {"tasks_output": [{"raw": "Yes.", "later": 1}]}, "tasks_output[0].later"),
        ("framework", {"type": "llm_call_completed", "timestamp": 1, "event_id": "e", "later": 1}, "later"),
        ("framework", {"type": "AssistantAgentState", "llm_context": {}, "later": 1}, "later"),
        ("framework", [{"role": "user", "name": "a", "content": "Hi", "later": 1}], "[0].later"),
        ("framework", [{"step_number": 1, "observations": "Yes.", "later": 1}], "[0].later"),
        ("framework", {"one": {"messages": [{"role": "user", "content": [{"toolUse": {}}]}]}, "later": 1},
         "later"),
        ("provider", {"object": "thread.message", "thread_id": "t", "role": "user", "later": 1}, "later"),
        ("provider", {"messages": {"data": [{"object": "thread.message", "role": "user", "later": 1}]}},
         "messages.data[0].later"),
        ("provider", {"data": [{"query": "Hi"}], "evaluators": ["a"], "later": 1}, "later"),
        ("provider", {"appName": "a", "events": [], "later": 1}, "later"),
        ("provider", {"appName": "a", "events": [{"author": "a", "later": 1}]}, "events[0].later"),
        ("provider", {"evalSetId": "e", "evalCases": [{"evalId": "c", "conversation": [{"later": 1}]}]},
         "evalCases[0].conversation[0].later"),
        ("provider", {"object": "chat.completion", "choices": [{"message": {"content": "a"}, "later": 1}]},
         "response.choices[0].later"),
        ("provider", {"candidates": [{"content": {"parts": [{"text": "a"}]}, "later": 1}]},
         "response.candidates[0].later"),
        ("provider",
         {"output": {"message": {"role": "assistant", "content": []}}, "stopReason": "a", "later": 1},
         "response.later"),
    ],
)  # fmt: skip
def test_a_field_that_no_format_defines_is_said(
    family: Family, record: Any, field: str, tmp_path: Path
) -> None:
    with pytest.raises(InvalidInput, match=re.escape(f"{field}: is not a field of this format")):
        of_value(family, record, tmp_path, strict=True)


def test_a_kind_of_event_that_no_format_defines_is_said(tmp_path: Path) -> None:
    row = {"type": "delegation_sent", "timestamp": 1, "event_id": "e"}
    with pytest.raises(InvalidInput, match="event of type 'delegation_sent'"):
        of_value("framework", row, tmp_path, strict=True)


def test_what_a_state_holds_beside_its_messages_is_kept(tmp_path: Path) -> None:
    human = {"type": "human", "content": "Remove order 7."}
    states = [
        {"messages": [human], "plan": ["ask"]},
        {
            "messages": [human, {"type": "ai", "content": "Done."}],
            "plan": [],
            "structured_response": {"a": 1},
        },
    ]
    (case,) = of_lines("framework", states, tmp_path, strict=True).cases
    assert case["metadata"]["imported"]["state"] == {"plan": ["ask"], "structured_response": {"a": 1}}


def test_what_named_conversations_hold_beside_their_messages_is_kept(tmp_path: Path) -> None:
    called = {"toolUse": {"toolUseId": "c1", "name": "look", "input": {}}}
    messages = [ASKED, {"role": "assistant", "content": [called]}]
    value = {"one": {"system_prompt": "Be kind.", "messages": messages}}
    (case,) = of_value("framework", value, tmp_path).cases
    assert case["metadata"]["imported"]["record"] == {"system_prompt": "Be kind."}


def lost(result: Result) -> list[dict[str, Any]]:
    return [entry for entry in result.diagnostics if entry["severity"] == "lost"]


def documents() -> Iterator[Any]:
    """The fixtures that hold a call, with the name of their format."""
    for path in EXPORTS:
        if path.suffix in (".json", ".jsonl", ".traj"):
            text = path.read_text("utf-8")
            try:
                values = [json.loads(text)]
            except ValueError:
                values = [json.loads(line) for line in text.splitlines()]
            shapes = [shape for shape in shapes_of(values) if shape.what == CALL and shape.certain]
            if shapes and above(values, shapes[0].path) is not None:
                yield pytest.param(path.parent.name, values, id=f"{path.parent.name}/{path.name}")


def renamed(fields: dict[str, Any], key: str) -> None:
    fields[f"later_{key}"] = fields.pop(key)


def moved(fields: dict[str, Any], key: str) -> None:
    fields["more"] = {key: fields.pop(key)}


def of_unknown_kind(fields: dict[str, Any], key: str) -> None:
    inner = fields[key][0] if isinstance(fields[key], list) else fields[key]
    for name in ("type", "kind", "event"):
        if isinstance(inner, dict) and isinstance(inner.get(name), str):
            inner[name] = "later_tool_call"


def above(value: Any, path: str) -> tuple[dict[str, Any], str] | None:
    """The innermost object on the way to a shape whose field holds it, in plain JSON."""
    found = None
    for step in re.findall(r"[^.\[\]]+", path.partition("~")[0]):
        if isinstance(value, list) and step.isdigit():
            value = value[int(step)]
        elif isinstance(value, dict) and step in value:
            found = (value, step)
            value = value[step]
        else:
            break
    return found


@pytest.mark.parametrize("change", [renamed, moved, of_unknown_kind])
@pytest.mark.parametrize(("name", "values"), list(documents()))
def test_a_call_in_another_place_is_read_or_lost(
    name: str, values: list[Any], change: Any, tmp_path: Path
) -> None:
    values = copy.deepcopy(values)
    whole = import_of(name, values, tmp_path / "whole")
    assert whole is not None
    shapes = [shape for shape in shapes_of(values) if shape.what == CALL and shape.certain]
    place = above(values, shapes[0].path)
    assert place is not None
    change(*place)
    result = import_of(name, values, tmp_path / "changed")
    if result is None or lost(result):
        return
    assert calls_of(result) >= calls_of(whole)


def calls_of(result: Result) -> set[tuple[Any, ...]]:
    return {(call.get("tool"), str(call.get("input"))) for call in result.of("tool_call")}


def import_of(name: str, values: list[Any], out: Path) -> Result | None:
    """Import records; None where that is refused."""
    try:
        if len(values) == 1:
            return of_value(FAMILIES[name], values[0], out, name=name)
        return of_lines(FAMILIES[name], values, out, name=name)
    except AgentEvalError:
        return None
