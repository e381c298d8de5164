"""Exports of frameworks of our own writing, after the true shapes: what each quirk of a format becomes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from agent_eval.contracts import Case, Trace
from agent_eval.errors import InvalidInput, NothingMeasured
from tests.unit.importers.importing import FRAMEWORK, Result, contract_problems, imported, of_lines, of_value

FIXTURES = Path(__file__).parents[2] / "fixtures" / "adapters"


def fixture(name: str, out: Path, **options: Any) -> Result:
    return imported(FRAMEWORK, FIXTURES / name, out, **options)


@pytest.mark.parametrize(
    ("name", "calls", "results", "errors"),
    [
        ("langgraph/values-stream.jsonl", 2, 2, 1),
        ("langgraph/updates-of-a-subgraph.jsonl", 2, 2, 1),
        ("langgraph/langsmith-runs.json", 2, 2, 1),
        ("openai_agents/children-before-parents.json", 1, 1, 1),
        ("openai_agents/input-list.json", 1, 1, 0),
        ("autogen/stream-with-its-result.jsonl", 2, 2, 1),
        ("autogen/chat-of-0.2.json", 1, 1, 1),
        ("crewai/output.json", 2, 2, 1),
        ("crewai/events-in-parallel.jsonl", 2, 2, 1),
        ("semantic_kernel/python.json", 1, 1, 1),
        ("semantic_kernel/dotnet.json", 1, 1, 0),
    ],
)
def test_a_fixture_is_imported_whole_and_strictly(
    name: str, calls: int, results: int, errors: int, tmp_path: Path
) -> None:
    result = fixture(name, tmp_path, strict=True)
    assert result.formats == {name.partition("/")[0]}
    assert contract_problems(result) == []
    assert (len(result.cases), len(result.of("tool_call"))) == (1, calls)
    assert sum("error" in event for event in result.of("tool_result")) == errors
    assert len(result.of("tool_result")) == results
    (trace,) = result.traces
    pairs = Trace(Case.model_validate({"case_id": "a", "trace": trace}).trace).calls
    assert len(pairs) == calls
    assert all(pair.call is not None and pair.result is not None for pair in pairs)
    assert trace[-1]["type"] in ("message", "model_call", "state")


@pytest.mark.parametrize(
    "name", ["langsmith-runs.json", "updates-of-a-subgraph.jsonl", "values-stream.jsonl"]
)
def test_importing_twice_gives_the_same_bytes(name: str, tmp_path: Path) -> None:
    fixture(f"langgraph/{name}", tmp_path / "a")
    fixture(f"langgraph/{name}", tmp_path / "b")
    assert (tmp_path / "a" / "suite.jsonl").read_bytes() == (tmp_path / "b" / "suite.jsonl").read_bytes()


def test_a_state_that_is_repeated_counts_its_tokens_once(tmp_path: Path) -> None:
    result = fixture("langgraph/values-stream.jsonl", tmp_path)
    assert (result.tokens("input_tokens"), result.tokens("cached_tokens")) == (24, 8)


def test_a_call_that_could_not_be_parsed_is_kept_raw_with_its_error(tmp_path: Path) -> None:
    result = fixture("langgraph/values-stream.jsonl", tmp_path)
    _, invalid = result.of("tool_call")
    assert (invalid["input"], invalid["error"]) == ('{"q": ', "malformed")
    assert result.of("tool_result")[1]["error"] == "bad arguments"


def test_an_interrupt_is_a_state(tmp_path: Path) -> None:
    result = fixture("langgraph/updates-of-a-subgraph.jsonl", tmp_path)
    assert result.of("state")[0]["output"]["interrupt"][0]["value"] == "Approve?"


def test_runs_of_langsmith_are_put_together_and_their_parents_count_for_nothing(tmp_path: Path) -> None:
    result = fixture("langgraph/langsmith-runs.json", tmp_path)
    assert result.cases[0]["case_id"] == "thread-9"
    assert [event["input"] for event in result.of("tool_call")] == [{"q": "a"}, {"q": "b"}]
    assert result.of("tool_result")[1]["error"] == "ValueError('no b')"
    assert (len(result.of("message", "user")), result.tokens("input_tokens")) == (1, 24)
    assert sum(event.get("cost_usd", 0) for event in result.events) == pytest.approx(0.0004)


def test_fragments_of_a_message_are_put_together(tmp_path: Path) -> None:
    def chunk(content: str, *calls: dict[str, Any], **fields: Any) -> list[Any]:
        message = {"type": "AIMessageChunk", "id": "m1", "content": content, "tool_call_chunks": list(calls)}
        return [{**message, **fields}, {"langgraph_node": "model", "thread_id": "t"}]

    lines = [
        chunk("Loo"),
        chunk("king.", {"name": "look", "args": '{"q"', "id": "c1", "index": 0}),
        chunk("", {"name": None, "args": ': "a"}', "id": None, "index": 0}),
        chunk("", usage_metadata={"input_tokens": 7, "output_tokens": 3}),
    ]
    result = of_lines(FRAMEWORK, lines, tmp_path)
    assert [event["output"] for event in result.of("message")] == ["Looking."]
    (call,) = result.of("tool_call")
    assert (call["call_id"], call["input"]) == ("c1", {"q": "a"})
    assert result.tokens("input_tokens") == 7


def test_a_handoff_and_a_failed_tool_of_the_agents_sdk(tmp_path: Path) -> None:
    result = fixture("openai_agents/children-before-parents.json", tmp_path)
    kinds = [event["type"] for event in result.events]
    assert kinds == ["message", "tool_call", "tool_result", "handoff", "message"]
    assert result.of("tool_result")[0]["error"] == "Error running tool"
    assert result.tokens("input_tokens") == 30
    assert result.cases[0]["case_id"] == "thread-1"


def test_autogen_says_structured_answers_runs_code_and_ends_with_a_summary(tmp_path: Path) -> None:
    about = {"source": "coder", "models_usage": None, "metadata": {}}
    code = {"code": "print(7)", "language": "python"}
    messages = [
        {"source": "user", "content": "Seven?", "type": "TextMessage"},
        {**about, "content": "", "code_blocks": [code], "type": "CodeGenerationEvent"},
        {**about, "content": "", "result": {"exit_code": 0, "output": "7"}, "type": "CodeExecutionEvent"},
        {**about, "content": {"answer": 7}, "type": "StructuredMessage[Answer]"},
        {**about, "content": "It is 7.", "tool_calls": [], "results": [], "type": "ToolCallSummaryMessage"},
    ]
    result = of_value(FRAMEWORK, {"messages": messages}, tmp_path, strict=True)
    assert [(event["type"], event.get("output")) for event in result.events][1:] == [
        *(("tool_call", None), ("tool_result", "7"), ("message", {"answer": 7}), ("message", "It is 7."))
    ]


def test_the_result_at_the_end_of_a_stream_repeats_nothing(tmp_path: Path) -> None:
    result = fixture("autogen/stream-with-its-result.jsonl", tmp_path)
    assert [event["type"] for event in result.events] == [
        *(
            "message",
            "reasoning",
            "tool_call",
            "tool_call",
            "tool_result",
            "tool_result",
            "message",
            "message",
        )
    ]
    assert result.tokens("input_tokens") == 30


def test_names_say_who_is_the_user_in_a_chat_of_0_2(tmp_path: Path) -> None:
    result = fixture("autogen/chat-of-0.2.json", tmp_path)
    assert [(event["actor"], event.get("input", event.get("output"))) for event in result.of("message")] == [
        ("user", "Order 7?"),
        ("agent", "There is none."),
    ]
    (model_call,) = result.of("model_call")
    assert (model_call["model"], model_call["cost_usd"]) == ("m-2026", 0.001)


def test_a_failure_of_a_tool_has_what_crewai_records_of_it(tmp_path: Path) -> None:
    result = fixture("crewai/output.json", tmp_path)
    assert result.of("tool_result")[1]["error"] == {"message": "no Oz", "code": "ValueError"}
    assert result.tokens("output_tokens") == 10


def test_tools_that_run_in_parallel_are_paired_by_their_start(tmp_path: Path) -> None:
    result = fixture("crewai/events-in-parallel.jsonl", tmp_path)
    by_id = {event["call_id"]: event for event in result.of("tool_result")}
    assert (by_id["c1"]["output"], by_id["c2"]["error"]) == ("sunny", "no Oz")
    assert result.tokens("input_tokens") == 60


def test_a_result_of_dotnet_is_tied_by_the_id_of_its_call(tmp_path: Path) -> None:
    result = fixture("semantic_kernel/dotnet.json", tmp_path)
    assert [event["call_id"] for event in result.of("tool_result")] == ["c1"]
    assert result.of("tool_call")[0]["tool"] == "orders-lookup"
    assert result.of("tool_call")[0]["input"] == {"id": 7}


def test_a_record_of_another_family_is_refused_with_the_command_that_reads_it(tmp_path: Path) -> None:
    path = tmp_path / "session.jsonl"
    line = {"type": "user", "sessionId": "s", "message": {"role": "user", "content": "Hi"}}
    path.write_text(json.dumps(line))
    with pytest.raises(NothingMeasured, match="import --from claude_code"):
        imported(FRAMEWORK, path, tmp_path)


@pytest.mark.parametrize(
    "value",
    [
        [{"lc": 1, "type": "constructor", "id": ["AIMessage"], "kwargs": {"tool_calls": [3, None]}}],
        {"object": "trace.span", "span_data": 7},
        {"messages": [{"source": "user", "type": "TextMessage", "content": [None, {"data": 3}]}]},
        {"tasks_output": [None, {"messages": [{"role": "assistant", "content": "a"}], "tool_failures": 3}]},
        {
            "messages": [
                {"content_type": "message", "role": "user", "items": [None, {"content_type": "text"}]}
            ]
        },
        {"id": "r", "run_type": "llm", "inputs": 3, "outputs": {"generations": [[]]}},
    ],
)
def test_odd_values_are_no_reason_to_break(value: Any, tmp_path: Path) -> None:
    try:
        result = of_value(FRAMEWORK, value, tmp_path)
    except (InvalidInput, NothingMeasured):
        return
    assert result.events or result.diagnostics
