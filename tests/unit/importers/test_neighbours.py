"""Small exports in shapes beside the usual ones, each with the one call and the words that are in it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from agent_eval.errors import NothingMeasured
from agent_eval.operations.import_traces import ImportRequest, import_traces
from tests.unit.importers.importing import imported, of_value

HI = {"role": "user", "content": "Hi"}
FUNCTION = {"name": "lookup", "arguments": '{"id": 7}'}
CALL = {"id": "c1", "type": "function", "function": FUNCTION}
ASKS = {"messages": [HI]}
ANSWER = {"role": "assistant", "tool_calls": [CALL]}
TOOL_CALLS = [{"tool_call": {"id": "c1", "function": FUNCTION}}]
OUTPUT = {"message": {"role": "assistant", "tool_calls": TOOL_CALLS}}
SPAN = {
    "name": "llm", "context": {"trace_id": "t1", "span_id": "s1"}, "span_kind": "LLM",
    "start_time": "2026-01-01T00:00:00Z", "status_code": "OK",
    "attributes": {"llm.input_messages": [{"message": HI}], "llm.output_messages": [OUTPUT]},
}  # fmt: skip
ROW = {
    **{name: value for name, value in SPAN.items() if name not in ("context", "attributes")},
    "context.trace_id": "t1", "context.span_id": "s1",
    "attributes.llm.input_messages": [{"message.role": "user", "message.content": "Hi"}],
    "attributes.llm.output_messages": [{
        "message.role": "assistant",
        "message.tool_calls": [{f"tool_call.function.{name}": text for name, text in FUNCTION.items()}],
    }],
}  # fmt: skip
OBSERVATION = {
    "id": "o1", "traceId": "t1", "type": "GENERATION", "startTime": "2026-01-01T00:00:00Z", "input": [HI],
    "output": {"role": "assistant", "content": "", "tool_calls": [CALL]},
    "usageDetails": {"input": 3, "output": 2},
}  # fmt: skip
SHOWN = "ResponseFunctionToolCall(arguments='{\"id\": 7}', call_id='c1', name='lookup', type='function_call')"


def said(role: str, part: dict[str, Any]) -> list[dict[str, Any]]:
    """One message of the conventions of OpenTelemetry."""
    return [{"role": role, "parts": [part]}]


CHAT = {
    "gen_ai.operation.name": "chat",
    "gen_ai.input.messages": said("user", {"type": "text", "content": "Hi"}),
    "gen_ai.output.messages": said(
        "assistant", {"type": "tool_call", "id": "c1", "name": "lookup", "arguments": {"id": 7}}
    ),
}
AS_TEXT = {**CHAT, "gen_ai.output.messages": said("assistant", {"type": "text", "content": SHOWN})}


def qwen(number: int, kind: str, role: str, *parts: Any, **more: Any) -> dict[str, Any]:
    """A line of Qwen Code, which continues the one before."""
    ids = {"uuid": f"u{number}", "parentUuid": f"u{number - 1}", "sessionId": "s"}
    return {**ids, "type": kind, "message": {"role": role, "parts": list(parts)}, **more}


def gemini(second: int, kind: str, **fields: Any) -> dict[str, Any]:
    """A line of Gemini CLI's stream."""
    return {"type": kind, "timestamp": f"2026-01-01T00:00:0{second}Z", **fields}


def run(**fields: Any) -> dict[str, Any]:
    """A run of LangSmith."""
    return {"id": "r", "run_type": "llm", "inputs": ASKS, **fields}


USED = {"functionCall": {"id": "c1", "name": "lookup", "args": {"id": 7}}}
USE = {"toolUseId": "c1", "name": "lookup"}
EXPORTS: dict[str, Any] = {
    "gemini-cli-stream.jsonl": [gemini(0, "init", session_id="s", model="m"), gemini(1, "message", **HI),
                                gemini(2, "message", role="assistant", content="I ", delta=True),
                                gemini(2, "message", role="assistant", content="look.", delta=True),
                                gemini(3, "tool_use", tool_name="lookup", tool_id="c1", parameters={"id": 7}),
                                gemini(4, "tool_result", tool_id="c1", status="success", output="a"),
                                gemini(5, "result", status="success", stats={"input_tokens": 3})],
    "items.json": {
        "items": [{"type": "message", **HI}, {"type": "function_call", "call_id": "c1", **FUNCTION}]},
    "ollama.json": {
        "request": {"model": "m", **ASKS},
        "response": {"message": {"role": "assistant", "tool_calls": [{"function": FUNCTION}]}, "done": True}},
    "bedrock-stream.json": {
        "request": {"messages": [{"role": "user", "content": [{"text": "Hi"}]}]},
        "response": [
            {"messageStart": {"role": "assistant"}},
            {"contentBlockStart": {"start": {"toolUse": USE}, "contentBlockIndex": 0}},
            {"contentBlockDelta": {"delta": {"toolUse": {"input": '{"id": 7}'}}, "contentBlockIndex": 0}},
            {"messageStop": {"stopReason": "tool_use"}}]},
    "phoenix-page.json": {"data": [SPAN], "next_cursor": None},
    "phoenix-traces.json": {"first": [SPAN]},
    "phoenix-table.jsonl": [ROW],
    "langfuse-page.json": {"data": [OBSERVATION], "meta": {"page": 1}},
    "langfuse-rows.jsonl": [OBSERVATION, {**OBSERVATION, "id": "o2", "type": "SPAN", "output": None}],
    "logfire-columns.json": {
        "columns": [{"name": "trace_id", "values": ["t1"]}, {"name": "span_id", "values": ["s1"]},
                    {"name": "span_name", "values": ["chat m"]}, {"name": "attributes", "values": [CHAT]}]},
    "bag.json": {"spanName": "llm", "attributes": CHAT},
    "shown.json": {"spanName": "llm", "attributes": AS_TEXT},
    "langsmith.json": {"post": [run(outputs={})], "patch": [{"outputs": {"choices": [{"message": ANSWER}]}}]},
    "langsmith-webhook.json": {"rule_id": "x", "runs": [run(outputs={"choices": [{"message": ANSWER}]})]},
    "promptfoo.json": {
        "evalId": "e",
        "results": {"version": 3,
                    "results": [{"prompt": {"raw": "Hi"}, "response": {"output": [CALL]}, "success": True}]}},
    "qwen.jsonl": [
        qwen(1, "user", "user", {"text": "Hi"}), qwen(2, "assistant", "model", USED),
        {"type": "system", "subtype": "rewind", "uuid": "u3", "parentUuid": "u1", "sessionId": "s"}],
}  # fmt: skip


@pytest.mark.parametrize("name", EXPORTS)
def test_a_neighbour_of_a_format_is_read_whole(name: str, tmp_path: Path) -> None:
    value, path = EXPORTS[name], tmp_path / name
    path.write_text("\n".join(map(json.dumps, value)) if name.endswith("l") else json.dumps(value), "utf-8")
    result = imported(None, path, tmp_path)  # type: ignore[arg-type]
    assert [(call["tool"], call["input"]) for call in result.of("tool_call")] == [("lookup", {"id": 7})]
    assert [message["input"] for message in result.of("message", "user")] == ["Hi"]
    assert [each for each in result.diagnostics if each["severity"] in ("lost", "unknown")] == []


def test_a_file_in_utf_16_is_read(tmp_path: Path) -> None:
    messages = [HI, {"role": "assistant", "content": "Ö"}]
    (tmp_path / "a.json").write_text(json.dumps({"messages": messages}), "utf-16")
    result = imported("provider", tmp_path / "a.json", tmp_path)
    assert [message["output"] for message in result.of("message", "agent")] == ["Ö"]


def test_tests_of_promptfoo_are_cases_and_their_repeats_trials(tmp_path: Path) -> None:
    row = {
        "testIdx": 0, "promptIdx": 0, "prompt": {"raw": json.dumps([HI])}, "provider": {"id": "openai:m"},
        "response": {"output": "Hello", "tokenUsage": {"prompt": 3, "completion": 2}, "cost": 0.5},
        "latencyMs": 12, "success": True,
        "gradingResult": {"componentResults": [{"pass": False, "assertion": {"type": "equals"}}]},
    }  # fmt: skip
    failed = {**row, "response": {"error": "timeout"}, "success": False}
    other = {**row, "testIdx": 1}
    exported = {"evalId": "e", "results": {"results": [row, failed, other]}}
    result = of_value("transcript", exported, tmp_path)
    assert [case["case_id"] for case in result.cases] == ["test-0", "test-1"]
    assert [len(case.get("trials", ())) for case in result.cases] == [1, 0]
    verdicts = result.cases[0]["metadata"]["recorded_verdicts"]
    passed = {name: verdict["passed"] for name, verdict in verdicts.items()}
    assert passed == {"promptfoo": True, "equals-0": False}
    (answer,) = [event for event in result.cases[0]["trace"] if event["actor"] == "agent"]
    assert (answer["cost_usd"], answer["latency_ms"], answer["usage"]["input_tokens"]) == (0.5, 12, 3)
    assert [event["error"] for event in result.of("error")] == ["timeout"]


LATER = [{"type": "start"}, {"type": "text-delta", "id": "t", "delta": "18 degrees."}]


def later(*events: dict[str, Any]) -> str:
    """A stream to the AI SDK's user interface, as later versions write it."""
    return "".join(f"data: {json.dumps(event)}\n\n" for event in (*LATER, *events))


@pytest.mark.parametrize(
    ("stream", "kinds", "lost"),
    [
        ('0:"18 "\n0:"degrees."\nd:{"finishReason":"stop","usage":{"promptTokens":4}}\n', ["model_call"], []),
        ('0:"18 degrees."\n3:"The model is gone."\n', ["error"], []),
        ('0:"18 degrees."\n', [], ["ends before the answer does"]),
        ('0:"18 degrees."\n9:{"toolCallId": "c1", "tool', [], ["line 1", "ends before the answer does"]),
        (later({"type": "finish"}), [], []),
        (later({"type": "error", "errorText": "The model is gone."}), ["error"], []),
        (later(), [], ["ends before the answer does"]),
    ],
)
def test_a_stream_to_the_interface_of_the_ai_sdk(
    stream: str, kinds: list[str], lost: list[str], tmp_path: Path
) -> None:
    path = tmp_path / "stream.txt"
    path.write_text(stream)
    result = imported("framework", path, tmp_path / "out")
    assert result.formats == {"ai_sdk"}
    assert result.events[0]["output"] == "18 degrees."
    assert [event["type"] for event in result.events[1:]] == kinds
    reasons = [entry["reason"] for entry in result.diagnostics if entry["severity"] == "lost"]
    assert len(reasons) == len(lost)
    assert all(words in reason for words, reason in zip(lost, reasons, strict=True))


SPAN_IDS = {"trace_id": "t", "span_id": "s"}


OWN = {"key": "service.name", "value": {"stringValue": "agent-eval"}}


@pytest.mark.parametrize(
    ("record", "name"),
    [
        ({"op_name": "weave:///a", "trace_id": "t", "started_at": "2026-01-01"}, "Weave"),
        ({**SPAN_IDS, "root_span_id": "s", "span_attributes": {"type": "llm"}}, "Braintrust"),
        ([{**SPAN_IDS, "start_ns": 1, "meta": {"span.kind": "llm"}}], "Datadog's LLM Observability"),
        ([{"traceId": "t", "id": "s", "localEndpoint": {}}], "Zipkin"),
        ({"resourceMetrics": []}, "OpenTelemetry's metrics"),
        ({"activities": [{"type": "message", "text": "Hi"}]}, "Bot Framework and Copilot Studio"),
        ({"sender_id": "s", "slots": {}, "events": []}, "Rasa"),
        ({"workflowData": {}, "data": {"resultData": {}}}, "n8n"),
        ({"chatId": "c", "question": "Hi", "text": "Yes", "agentReasoning": []}, "Flowise"),
        ({"conversation_id": "c", "query": "Hi", "answer": "Yes", "agent_thoughts": []}, "Dify"),
        ({"session_id": "s", "outputs": [{"inputs": {"input_value": "Hi"}}]}, "Langflow"),
        ([{"mapping": {}, "current_node": "a"}], "the data export of ChatGPT"),
        ({"log": {"entries": []}}, "HAR"),
        ({"type": "session.created", "event_id": "e"}, "OpenAI's Realtime API"),
        ({"schemaType": "ModelInvocationLog", "operation": "InvokeModel", "modelId": "m"},
         "a log of Bedrock's InvokeModel"),
        ({"type": "LLMCall", "messages": []}, "the log of AutoGen's runtime"),
        ({"input": "Hi", "actual_output": "Yes"}, "test cases of DeepEval"),
        ({"user_input": "Hi", "response": "Yes"}, "samples of Ragas"),
        ({"$schema": "https://json-schema.org/draft/2020-12/schema"}, "a JSON Schema"),
        ({"case_id": "c", "trace": []}, "agent-eval's own case"),
        ({"case_id": "c", "trace": [], "session_id": "s", "outputs": []}, "agent-eval's own case"),
        (
            {"trace_id": "t", "name": "chat", "attributes": {}, "scope": {"name": "agent-eval"}},
            "what `agent-eval export otel` wrote",
        ),
        ({"resourceSpans": [{"resource": {"attributes": [OWN]}}]}, "what `agent-eval export otel` wrote"),
        ([{"query": "Off", "expected_tool_use": []}], "a list of queries of ADK's first versions"),
        ("event: thread.run.created\ndata: {}\n\n", "a stream of Assistants"),
    ],
)  # fmt: skip
def test_a_format_that_cannot_be_imported_is_refused_by_its_name(
    record: Any, name: str, tmp_path: Path
) -> None:
    path = tmp_path / ("in.txt" if isinstance(record, str) else "in.json")
    path.write_text(record if isinstance(record, str) else json.dumps(record))
    for family in (None, "provider", "framework", "transcript"):
        with pytest.raises(NothingMeasured, match=f"it looks like {name}, which cannot be imported: .+"):
            import_traces(ImportRequest((path,), tmp_path / "suite.json", family))


def test_a_file_that_is_no_json_is_refused_with_its_place(tmp_path: Path) -> None:
    path = tmp_path / "in.txt"
    path.write_text("Hello world\n")
    with pytest.raises(NothingMeasured, match=r"in.txt cannot be read: line 1, column 1"):
        import_traces(ImportRequest((path,), tmp_path / "suite.json"))


def test_a_file_in_a_stream_to_the_interface_is_in_its_answer(tmp_path: Path) -> None:
    path = tmp_path / "stream.txt"
    file = {"type": "file", "url": "data:text/csv;base64,YQ==", "mediaType": "text/csv"}
    path.write_text(later(file, {"type": "finish"}))
    (answer,) = imported("framework", path, tmp_path / "out", strict=True).of("message")
    assert [part["type"] for part in answer["parts"]] == ["text", "file"]
