"""Traces of OpenTelemetry, OpenInference and MLflow: what each quirk becomes."""

from __future__ import annotations

import json
from pathlib import Path
from random import Random
from typing import Any

from tests.unit.importers.importing import FIXTURES, TRANSCRIPT, fixture, of_lines, of_value, steps


def span(number: int, parent: int | None, start: int, **attributes: Any) -> dict[str, Any]:
    """A flat row."""
    return {
        "trace_id": "ab" * 16, "span_id": f"{number:016x}", "parent_span_id": parent and f"{parent:016x}",
        "name": attributes.pop("name", "span"), "start_time": 1_770_000_000_000_000_000 + start,
        "end_time": 1_770_000_000_000_000_000 + attributes.pop("end", start + 1), "attributes": attributes,
        "status": attributes.pop("status", {"code": "OK"}),
    }  # fmt: skip


CHAT = {"gen_ai.operation.name": "chat", "gen_ai.request.model": "m"}
TOOL = {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "look"}


def text(role: str, content: str) -> dict[str, Any]:
    return {"role": role, "parts": [{"type": "text", "content": content}]}


def test_a_trace_divided_over_lines_is_one_case_with_its_evaluation(tmp_path: Path) -> None:
    whole = fixture("otel/children-before-parents.json", tmp_path / "a")
    result = fixture("otel/lines-with-an-evaluation.jsonl", tmp_path / "b")
    assert steps(result) == steps(whole)
    verdicts = result.cases[0]["metadata"]["recorded_verdicts"]
    assert verdicts == {"helpful": {"score": None, "passed": True}}


def test_spans_in_any_order_give_the_same_trace(tmp_path: Path) -> None:
    document = json.loads((FIXTURES / "otel/children-before-parents.json").read_text())
    spans = document["resourceSpans"][0]["scopeSpans"][0]["spans"]
    expected = steps(of_value(TRANSCRIPT, document, tmp_path / "first"))
    for seed in range(5):
        Random(seed).shuffle(spans)
        assert steps(of_value(TRANSCRIPT, document, tmp_path / str(seed))) == expected


def test_without_content_an_answer_is_left_open_and_not_empty(tmp_path: Path) -> None:
    rows = [
        span(1, None, 1, **CHAT, **{"gen_ai.response.finish_reasons": ["tool_calls"]}),
        span(2, None, 3, **TOOL),
        span(3, None, 5, **CHAT, **{"gen_ai.usage.input_tokens": 9}),
    ]
    result = of_lines(TRANSCRIPT, rows, tmp_path)
    assert [event["type"] for event in result.events] == ["model_call", "tool_call", "tool_result", "message"]
    assert [event.get("content_recorded") for event in result.events] == [None, False, False, False]
    assert "input" not in result.events[1]


def test_an_answer_that_two_nested_spans_record_counts_once(tmp_path: Path) -> None:
    usage = {"gen_ai.usage.input_tokens": 9}
    output = json.dumps([text("assistant", "Hi!")])
    rows = [
        span(1, None, 1, end=9, **CHAT, **usage, **{"gen_ai.output.messages": output}),
        span(2, 1, 2, end=8, **CHAT, **usage),
    ]
    result = of_lines(TRANSCRIPT, rows, tmp_path)
    assert (len(result.events), result.tokens("input_tokens")) == (1, 9)


def test_what_a_sub_agent_is_asked_comes_from_no_user(tmp_path: Path) -> None:
    def chat(question: str, answer: str) -> dict[str, Any]:
        asked, said = [text("user", question)], [text("assistant", answer)]
        return {
            **CHAT,
            "gen_ai.input.messages": json.dumps(asked),
            "gen_ai.output.messages": json.dumps(said),
        }

    agent = {"gen_ai.operation.name": "invoke_agent", "gen_ai.agent.name": "helper"}
    rows = [
        span(2, 1, 1, end=20, **TOOL),
        span(3, 2, 2, end=9, **agent),
        span(4, 3, 3, end=8, **chat("Count.", "3")),
        span(5, 1, 30, **chat("How many?", "There are 3.")),
    ]
    result = of_lines(TRANSCRIPT, rows, tmp_path)
    assert [event["input"] for event in result.of("message", "user")] == ["How many?"]
    assert result.of("message", "system")[0]["output"] == "Count."
    assert result.of("message", "agent")[0]["agent_name"] == "helper"


def test_messages_of_older_conventions_are_read(tmp_path: Path) -> None:
    flat = {"gen_ai.prompt.0.role": "user", "gen_ai.prompt.0.content": "Hello"}
    flat |= {"gen_ai.completion.0.role": "assistant", "gen_ai.completion.0.content": "Hi!"}
    row = span(1, None, 1, **CHAT, **flat)
    assert steps(of_lines(TRANSCRIPT, [row], tmp_path / "flat")) == [("message", "Hello"), ("message", "Hi!")]
    row = span(1, None, 1, **CHAT)
    row["span_events"] = [
        {"name": "gen_ai.user.message", "attributes": {"content": "Hello"}},
        {"name": "gen_ai.choice", "attributes": {"message": '{"role": "assistant", "content": "Hi!"}'}},
    ]
    assert steps(of_lines(TRANSCRIPT, [row], tmp_path / "old")) == [("message", "Hello"), ("message", "Hi!")]


def test_ten_thousand_parallel_calls_are_all_there(tmp_path: Path) -> None:
    calls = [
        {"type": "tool_call", "id": f"c{n}", "name": "look", "arguments": {"n": n}} for n in range(10_000)
    ]
    answer = {"gen_ai.output.messages": json.dumps([{"role": "assistant", "parts": calls}])}
    rows = [span(1, None, 1, **CHAT, **answer)]
    rows += [
        span(n + 2, 1, 10 + n, **TOOL, **{"gen_ai.tool.call.id": f"c{n}", "gen_ai.tool.call.result": n})
        for n in reversed(range(10_000))
    ]
    result = of_lines(TRANSCRIPT, rows, tmp_path)
    assert len(result.of("tool_call")) == 10_000
    assert [event["output"] for event in result.of("tool_result")] == list(range(10_000))
