"""What the services of models answer, in the variants that matter to a verdict."""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from agent_eval.contracts import Case
from agent_eval.importers.diagnostics import Diagnostic
from agent_eval.operations.import_traces import ImportRequest, import_traces
from agent_eval.suites.reader import load_suite

ASKED = {"role": "user", "content": "Go"}
CONTENT = {"role": "user", "parts": [{"text": "Go"}]}
GO, HI = ("message", "Go"), ("message", "Hi")
SLOW = {"message": "slow down"}


def imported(home: Path, *records: Any) -> tuple[list[Case], list[Diagnostic]]:
    """Import records, given as JSON or as the text of an event stream."""
    source, out = home / "export.jsonl", home / "suite.jsonl"
    if isinstance(records[0], str):
        source = home / "export.sse"
        source.write_text(records[0])
    else:
        source.write_text("".join(json.dumps(record) + "\n" for record in records))
    result = import_traces(ImportRequest((source,), out, "provider"))
    return load_suite(out).cases, result.diagnostics.entries


def stream(*events: Any) -> str:
    """Write an event stream."""
    return "".join(f"data: {event if isinstance(event, str) else json.dumps(event)}\n\n" for event in events)


def chat(*choices: dict[str, Any], messages: Any = (ASKED,), **body: Any) -> dict[str, Any]:
    """Chat Completions of OpenAI."""
    made = [{"index": number, "finish_reason": "stop", **choice} for number, choice in enumerate(choices)]
    answer = {"object": "chat.completion", "choices": made, **body}
    return {"request": {"model": "m", "messages": list(messages)}, "response": answer}


def says(text: Any, **fields: Any) -> dict[str, Any]:
    return {"message": {"role": "assistant", "content": text, **fields}}


def chunk(delta: dict[str, Any], reason: str | None = None, **fields: Any) -> dict[str, Any]:
    choice = {"index": 0, "delta": delta, "finish_reason": reason}
    return {"object": "chat.completion.chunk", "id": "x", "choices": [choice], **fields}


def called(name: str, arguments: str = "{}", **fields: Any) -> dict[str, Any]:
    return {"id": "c", "type": "function", "function": {"name": name, "arguments": arguments}, **fields}


def response(*output: Any, request: Any = None, **body: Any) -> dict[str, Any]:
    """Responses of OpenAI."""
    answer = {"object": "response", "id": "resp_1", "created_at": 1767225600, "status": "completed", **body}
    asked = request or {"model": "m", "input": "Go"}
    return {"request": asked, "response": {**answer, "output": list(output)}}


def output_text(text: str) -> dict[str, Any]:
    return {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": text}]}


def turn(number: int, text: str, previous: str | None, question: str = "Go") -> dict[str, Any]:
    """An answer of Responses that continues another."""
    request = {"model": "m", "input": question, "previous_response_id": previous}
    usage = {"input_tokens": 10**number, "output_tokens": 1}
    more = {"id": f"resp_{number}", "created_at": 1767225600 + number, "usage": usage}
    return response(output_text(text), request=request, previous_response_id=previous, **more)


def claude(*content: Any, **fields: Any) -> dict[str, Any]:
    made = {"id": "msg_1", "type": "message", "role": "assistant", "model": "claude"}
    usage = {"stop_reason": "end_turn", "usage": {"input_tokens": 3, "output_tokens": 2}}
    return {**made, **usage, "content": list(content), **fields}


def exchange(*content: Any, messages: Any = (ASKED,), **fields: Any) -> dict[str, Any]:
    """Messages of Anthropic."""
    return {"request": {"max_tokens": 9, "messages": list(messages)}, "response": claude(*content, **fields)}


def block(text: str) -> dict[str, Any]:
    return {"type": "text", "text": text}


def gemini(*parts: Any, contents: Any = (CONTENT,), reason: str = "STOP", **body: Any) -> dict[str, Any]:
    """Gemini."""
    candidate = {"content": {"role": "model", "parts": list(parts)}, "finishReason": reason}
    return {"request": {"contents": list(contents)}, "response": {"candidates": [candidate], **body}}


def asked_gemini(answer: Any) -> dict[str, Any]:
    return {"request": {"contents": [CONTENT]}, "response": answer}


CHUNKS = [
    {"candidates": [{"content": {"parts": [{"text": "Hel"}]}}], "responseId": "r"},
    {"candidates": [{"content": {"parts": [{"text": "lo"}]}, "finishReason": "STOP"}], "responseId": "r"},
]


def of_thread(kind: str, number: int, **fields: Any) -> dict[str, Any]:
    """An object of a thread of Azure AI Foundry."""
    made = {"object": f"thread.{kind}", "id": f"{kind}_{number}", "thread_id": "t"}
    return {**made, "created_at": 1767225600 + number, **fields}


def message(number: int, role: str, text: str) -> dict[str, Any]:
    content = [{"type": "text", "text": {"value": text, "annotations": []}}]
    return of_thread("message", number, role=role, content=content)


def step(number: int, *calls: Any, **fields: Any) -> dict[str, Any]:
    details = {"type": "tool_calls", "tool_calls": list(calls)}
    more = {"run_id": "r", "type": "tool_calls", "status": "completed", "step_details": details, **fields}
    return of_thread("run.step", number, **more)


def thread_run(status: str, **fields: Any) -> dict[str, Any]:
    return {**of_thread("run", 0, status=status, **fields), "id": "r"}


def function(call_id: str, **fields: Any) -> dict[str, Any]:
    return {"id": call_id, "type": "function", "function": {"name": "f", "arguments": "{}", **fields}}


ONE = chat(says("Hi"))
RUN_USAGE = {"prompt_tokens": 9, "completion_tokens": 3}
THREAD = [message(0, "user", "Go"), step(1, function("c", output="1")), message(2, "assistant", "One.")]
OF_THREAD = ("t", [GO, ("tool_call", {}), ("tool_result", "1"), ("message", "One.")])

# What is read of the cases.


def summary(case: Case) -> list[Any]:
    """Type and content of every event."""
    return [(event.type, event.input if event.type == "tool_call" else event.content) for event in case.trace]


def last_error(case: Case) -> Any:
    return case.trace[-1].error


def stop(case: Case) -> Any:
    return case.trace[-1].stop


def usage(case: Case) -> Any:
    return case.trace[-1].usage.to_json()  # type: ignore[union-attr]


def input_tokens(case: Case) -> list[Any]:
    return [event.usage.input_tokens for event in case.trace if event.usage]


def calls(case: Case) -> list[Any]:
    """Arguments, result and error of every call."""
    return [(call.arguments, call.result and call.result.output, call.error) for call in case.recorded.calls]


def ran_on(case: Case) -> list[Any]:
    return [(call.tool, call.call and call.call.ran_on, call.error) for call in case.recorded.calls]


def trial_outputs(case: Case) -> tuple[list[Any], list[Any]]:
    trials = [case.of_trial(number) for number in range(case.trial_count)]
    return [each.recorded.final_output for each in trials], [input_tokens(each) for each in trials]


Row = tuple[list[Any], Callable[[Case], Any], Any]
READ: dict[str, Row] = {
    # OpenAI
    "several choices are trials of one case": (
        [chat(says("A"), says("B"), says("C"), usage={"prompt_tokens": 9})],
        trial_outputs, (["A", "B", "C"], [[9], [], []]),
    ),
    "text and calls of one answer are both there": (
        [chat(says("I look.", tool_calls=[called("f")]))],
        summary, [GO, ("message", "I look."), ("tool_call", {})],
    ),
    "a refusal stops the answer short": (
        [chat(says(None, refusal="No."))], lambda case: stop(case)[0], "refused",
    ),
    "a filter stops the answer short": (
        [chat({**says(""), "finish_reason": "content_filter"})], lambda case: stop(case)[0], "refused",
    ),
    "reasoning beside the answer is no answer": (
        [chat(says("42", reasoning_content="6 times 7"))],
        lambda case: (summary(case), case.recorded.final_output),
        ([GO, ("reasoning", "6 times 7"), ("message", "42")], "42"),
    ),
    "the call of an old function gets its result": (
        [chat(says("One."), messages=[
            ASKED, says(None, function_call={"name": "f", "arguments": '{"a": 1}'})["message"],
            {"role": "function", "name": "f", "content": "one"},
        ])],
        calls, [({"a": 1}, "one", None)],
    ),
    "an unknown usage is left out": (
        [chat(says("A"), usage={"prompt_tokens": None, "completion_tokens": 0})], usage, {"output_tokens": 0},
    ),
    "bodies that a recorder kept as text are read": (
        [{"request": {"method": "POST", "uri": "https://api.openai.com", "body": json.dumps(ONE["request"])},
          "response": {"status": {"code": 200}, "body": {"string": json.dumps(ONE["response"])}}}],
        summary, [GO, HI],
    ),
    "free text of a custom tool is no malformed argument": (
        [response({"type": "custom_tool_call", "id": "ctc_1", "call_id": "c1", "name": "patch",
                   "input": '{"not json'})],
        lambda case: (case.trace[-1].input, "agent_eval.malformed_arguments" in case.trace[-1].attributes),
        ('{"not json', False),
    ),
    "hosted tools carry their result and say where they ran": (
        [response(
            {"type": "file_search_call", "id": "fs_1", "status": "completed", "queries": ["a"],
             "results": [{"id": 1}]},
            {"type": "code_interpreter_call", "id": "ci_1", "status": "failed", "code": "1/0",
             "outputs": None},
            {"type": "mcp_list_tools", "id": "l", "server_label": "wiki", "tools": [{"name": "ask"}]},
            {"type": "local_shell_call", "id": "sh_1", "call_id": "c9", "status": "completed",
             "action": {"command": ["ls"]}},
        )],
        lambda case: (ran_on(case), case.recorded.calls[0].result.output, case.recorded.calls[2].result),
        ([("file_search", "server", None), ("code_interpreter", "server", "status failed"),
          ("local_shell", "client", None)], [{"id": 1}], None),
    ),
    "an incomplete answer says why": (
        [response(output_text("Once"), status="incomplete",
                  incomplete_details={"reason": "max_output_tokens"})],
        stop, ("cut", "max_output_tokens"),
    ),
    "a failed response is an error": (
        [response(status="failed", error={"code": "server_error", "message": "x"})],
        last_error, {"code": "server_error", "message": "x"},
    ),
    "answers that continue an earlier response are one case with each turn once": (
        [turn(3, "Yes.", "resp_2"), turn(2, "Yes.", "resp_1"), response(output_text("Yes."))],
        lambda case: [content for _, content in summary(case)], ["Go", "Yes."] * 3,
    ),
    "polls of one answer count its usage once": (
        [{**turn(1, "Yes.", None), "request": "", "method": "GET"}, response(status="queued"),
         {**turn(1, "Yes.", None), "request": "", "method": "GET"}],
        lambda case: (summary(case), input_tokens(case)), ([GO, ("message", "Yes.")], [10]),
    ),
    "the final chunk of a stream has the usage": (
        [stream(chunk({"role": "assistant", "content": "Hel"}), chunk({"content": "lo"}, "stop"),
                chunk({}, choices=[], usage={"prompt_tokens": 3, "completion_tokens": 2}), "[DONE]")],
        lambda case: (summary(case), usage(case)["output_tokens"], case.trace[0].stop_reason),
        ([("message", "Hello")], 2, "stop"),
    ),
    "a stream beside its request is the answer": (
        [{**ONE, "response": stream(chunk({"content": "Hi"}, "stop"), "[DONE]")}], summary, [GO, HI],
    ),
    "what a record says beside its request is kept": (
        [{**chat(says("Hi")), "latency_ms": 640, "user": "u1", "metadata": {"ticket": 7}, "status": 200}],
        lambda case: (case.trace[-1].latency_ms, case.metadata["imported"]["record"]),
        (640, {"user": "u1", "metadata": {"ticket": 7}}),
    ),
    "an error beside the messages is the answer": (
        [{"model": "gpt-4o", "messages": [ASKED], "response": {"error": SLOW}}],
        lambda case: [(event.type, event.error) for event in case.trace][1:], [("error", SLOW)],
    ),
    # Anthropic
    "input tokens are all that the model read": (
        [exchange(block("Hi"), usage={"input_tokens": 3, "cache_read_input_tokens": 1111,
                                      "cache_creation_input_tokens": 418, "output_tokens": 7})],
        usage, {"input_tokens": 1532, "output_tokens": 7, "cached_tokens": 1111, "cache_write_tokens": 418},
    ),
    "thinking is kept without its signature, and hidden thinking is said to be hidden": (
        [exchange({"type": "thinking", "thinking": "Hm.", "signature": "c2ln"},
                  {"type": "redacted_thinking", "data": "b3BhcXVl"}, block("Hi"))],
        lambda case: ([(event.type, event.content_recorded) for event in case.trace[1:]],
                      "c2ln" in str(case.to_json())),
        ([("reasoning", None), ("reasoning", False), ("message", None)], False),
    ),
    "an error of a server tool is an error of its result": (
        [exchange(
            {"type": "server_tool_use", "id": "s1", "name": "web_search", "input": {"query": "a"}},
            {"type": "web_search_tool_result", "tool_use_id": "s1",
             "content": {"type": "web_search_tool_result_error", "error_code": "max_uses_exceeded"}},
        )],
        lambda case: [(call.error, call.result.ran_on) for call in case.recorded.calls],
        [("max_uses_exceeded", "server")],
    ),
    "results of an MCP server ran where their calls did": (
        [exchange(
            {"type": "mcp_tool_use", "id": "m1", "name": "ask", "server_name": "wiki", "input": {}},
            {"type": "mcp_tool_result", "tool_use_id": "m1", "is_error": True, "content": [block("no")]},
        )],
        lambda case: [(call.result.ran_on, call.result.output, call.error) for call in case.recorded.calls],
        [("mcp:wiki", None, "no")],
    ),
    "an empty answer is there with its reason": (
        [exchange(stop_reason="refusal")],
        lambda case: (case.trace[-1].content, stop(case)), (None, ("refused", "refusal")),
    ),
    "a user message in several blocks is one message": (
        [exchange(block("Hi"), messages=[{"role": "user", "content": [block("One. "), block("Two.")]}])],
        summary, [("message", "One. Two."), HI],
    ),
    "an error answer is an error": (
        [{"request": {"messages": [ASKED]}, "status": 529,
          "response": {"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}}}],
        last_error, {"type": "overloaded_error", "message": "Overloaded"},
    ),
    "a stream with malformed arguments keeps them and marks them": (
        [stream(
            {"type": "message_start", "message": claude(stop_reason=None)},
            {"type": "content_block_start", "index": 0,
             "content_block": {"type": "tool_use", "id": "t", "name": "f", "input": {}}},
            {"type": "content_block_delta", "index": 0,
             "delta": {"type": "input_json_delta", "partial_json": '{"a": '}},
            {"type": "message_delta", "delta": {"stop_reason": "max_tokens"}, "usage": {"output_tokens": 5}},
            {"type": "message_stop"},
        )],
        lambda case: (summary(case), usage(case)["output_tokens"], stop(case)[0],
                      case.trace[0].attributes["agent_eval.malformed_arguments"]),
        ([("tool_call", '{"a": ')], 5, "cut", True),
    ),
    "a count of tokens is no answer": (
        [{"request": {"messages": [ASKED]}, "response": {"input_tokens": 12},
          "uri": "https://h/v1/messages/count_tokens"}, exchange(block("Hi"))],
        summary, [GO, HI],
    ),
    # Google
    "calls without ids get the results of their tool in order": (
        [gemini({"text": "Done."}, contents=[
            CONTENT,
            {"role": "model", "parts": [{"functionCall": {"name": name, "args": {"k": k}}}
                                        for k, name in enumerate("ffg")]},
            {"role": "function", "parts": [{"functionResponse": {"name": name, "response": {"k": k}}}
                                           for name, k in (("g", 2), ("f", 0), ("f", 1))]},
        ])],
        calls, [({"k": k}, {"k": k}, None) for k in range(3)],
    ),
    "code that the model ran is a call with its result": (
        [gemini({"executableCode": {"language": "PYTHON", "code": "1/0"}},
                {"codeExecutionResult": {"outcome": "OUTCOME_FAILED", "output": "ZeroDivisionError"}},
                {"text": "It fails."})],
        lambda case: [(call.tool, call.error, call.result.output) for call in case.recorded.calls],
        [("code_execution", "OUTCOME_FAILED", "ZeroDivisionError")],
    ),
    "a blocked prompt says why": (
        [asked_gemini({"promptFeedback": {"blockReason": "SAFETY"}})], stop, ("blocked", "SAFETY"),
    ),
    "a blocked answer says why": (
        [asked_gemini({"candidates": [{"finishReason": "MODEL_ARMOR"}]})], stop, ("blocked", "MODEL_ARMOR"),
    ),
    "an answer without content says why": (
        [asked_gemini({"candidates": [{"content": {"role": "model"}, "finishReason": "MAX_TOKENS"}]})],
        stop, ("cut", "MAX_TOKENS"),
    ),
    "a malformed call of the model is an error": (
        [gemini(reason="MALFORMED_FUNCTION_CALL")], last_error, {"finish_reason": "MALFORMED_FUNCTION_CALL"},
    ),
    "thoughts are output tokens that Gemini counts apart": (
        [gemini({"text": "Hm", "thought": True}, {"text": "Hi"}, usageMetadata={
            "promptTokenCount": 57, "candidatesTokenCount": 15, "thoughtsTokenCount": 124,
            "cachedContentTokenCount": 8,
        })],
        lambda case: (summary(case), usage(case)),
        ([GO, ("reasoning", "Hm"), HI],
         {"input_tokens": 57, "output_tokens": 139, "cached_tokens": 8, "reasoning_tokens": 124}),
    ),
    "chunks of a stream are put together": ([stream(*CHUNKS)], summary, [("message", "Hello")]),
    "chunks in a list are put together": ([asked_gemini(CHUNKS)], summary, [GO, ("message", "Hello")]),
    "a session names its agents and keeps state, errors and handoffs": (
        [{"id": "s", "appName": "shop", "userId": "u", "events": [
            {"author": "user", "content": CONTENT, "timestamp": 1767225600.5},
            {"author": "triage", "errorCode": "429", "errorMessage": "slow down", "timestamp": 1767225601.5},
            {"author": "triage", "actions": {"transferToAgent": "refunds", "stateDelta": {"a": 1}},
             "timestamp": 1767225602.5},
        ]}],
        lambda case: ([(event.type, event.agent) for event in case.trace], case.trace[1].error,
                      case.metadata["imported"]["app_name"]),
        ([("message", None), *((kind, "triage") for kind in ("error", "state", "handoff"))],
         {"code": "429", **SLOW}, "shop"),
    ),
    # Azure AI Foundry
    "objects of a thread are one case": (THREAD, lambda case: (case.case_id, summary(case)), OF_THREAD),
    "objects of a thread in another order are the same case": (
        THREAD[::-1], lambda case: (case.case_id, summary(case)), OF_THREAD,
    ),
    "a step says how long it took and what it used": (
        [step(1, function("c", output="1"), completed_at=1767225604,
              usage={"prompt_tokens": 7, "completion_tokens": 2})],
        lambda case: (case.trace[1].latency_ms, input_tokens(case)), (3000, [7]),
    ),
    "usage of a run counts without that of its steps": (
        [thread_run("completed", model="m", usage=RUN_USAGE)], lambda case: sum(input_tokens(case)), 9,
    ),
    "usage of a run does not count beside that of its steps": (
        [thread_run("completed", model="m", usage=RUN_USAGE),
         step(1, function("c", output="1"), usage=RUN_USAGE)],
        lambda case: sum(input_tokens(case)), 9,
    ),
    "the error of a run is an error": (
        [message(0, "user", "Go"),
         thread_run("failed", failed_at=1767225609, last_error={"code": "rate_limit_exceeded", **SLOW})],
        last_error, {"code": "rate_limit_exceeded", **SLOW},
    ),
    "a failed step keeps the results that it has": (
        [step(1, function("a", output="1"), function("b"), status="failed",
              last_error={"code": "server_error"})],
        calls, [({}, "1", None), ({}, None, {"code": "server_error"})],
    ),
    "the SDK's first spelling of a call is read": (
        [{"query": "Go", "response": [
            {"role": "assistant", "run_id": "r", "content": [
                {"type": "tool_call", "tool_call": {
                    "id": "c", "type": "function", "function": {"name": "f", "arguments": {"a": 1}}}}]},
            {"role": "tool", "tool_call_id": "c",
             "content": [{"type": "tool_result", "tool_result": {"b": 2}}]},
        ]}],
        calls, [({"a": 1}, {"b": 2}, None)],
    ),
    "columns under other names are found and the others kept": (
        [{"inputs.question": "Go", "outputs.answer": "Gone.", "outputs.f1": 0.5,
          "inputs.ground_truth": "Gone."}],
        lambda case: (case.input, case.recorded.final_output, case.expected_output,
                      case.metadata["imported"]["columns"]),
        ("Go", "Gone.", "Gone.", {"outputs.f1": 0.5}),
    ),
    "calls in a column of their own come before the answer": (
        [{"query": "Go", "response": "Gone.", "tool_calls": [
            {"type": "tool_call", "tool_call_id": "c", "name": "f", "arguments": {"a": 1}}]}],
        summary, [GO, ("tool_call", {"a": 1}), ("message", "Gone.")],
    ),
    "messages without an order are put in that of their times": (
        [{"query": [{"role": "user", "createdAt": "2026-01-01T00:00:00Z", "content": "0"}],
          "response": [{"role": "assistant", "run_id": "r", "createdAt": f"2026-01-01T00:00:0{second}Z",
                        "content": str(second)} for second in (3, 1, 2)]}],
        lambda case: [content for _, content in summary(case)], ["0", "1", "2", "3"],
    ),
}  # fmt: skip


@pytest.mark.parametrize(("records", "read", "expected"), READ.values(), ids=READ)
def test_what_is_recorded_is_read(records: list[Any], read: Any, expected: Any, tmp_path: Path) -> None:
    (case,), entries = imported(tmp_path, *records)
    assert read(case) == expected
    assert [entry for entry in entries if entry.severity != "note"] == []


def test_images_are_kept_by_digest_type_and_size(tmp_path: Path) -> None:
    raw = b"\x89PNG and more"
    encoded = base64.b64encode(raw).decode()
    address = {"url": f"data:image/png;base64,{encoded}"}
    content = [block("See"), {"type": "image_url", "image_url": address}]
    (case,), _ = imported(tmp_path, chat(says("A cat."), messages=[{"role": "user", "content": content}]))
    text, image = case.trace[0].parts
    assert (text.text, image.media_type, image.size) == ("See", "image/png", len(raw))
    assert image.sha256 == hashlib.sha256(raw).hexdigest()
    assert encoded not in (tmp_path / "suite.jsonl").read_text()


def test_a_stream_that_is_cut_off_is_reported_and_what_came_is_kept(tmp_path: Path) -> None:
    (case,), (entry,) = imported(tmp_path, stream(chunk({"content": "Hel"})))
    assert summary(case) == [("message", "Hel")]
    assert (entry.severity, entry.reason) == ("lost", "ends before the answer does")


@pytest.mark.parametrize("order", [1, -1])
def test_lines_of_a_batch_are_joined_in_any_order(tmp_path: Path, order: int) -> None:
    asked = {"method": "POST", "url": "/v1/responses", "body": {"model": "m", "input": "Go"}}
    refused = {"status_code": 429, "request_id": "r", "body": {"error": SLOW}}
    lines = [{"custom_id": "t", **asked}, {"id": "b", "custom_id": "t", "error": None, "response": refused}]
    (case,), _ = imported(tmp_path, *lines[::order])
    assert case.case_id == "t"
    assert [(event.type, event.error) for event in case.trace] == [("message", None), ("error", SLOW)]


def test_two_answers_that_continue_one_response_are_said(tmp_path: Path) -> None:
    steps = ((1, "A", None), (2, "B", "resp_1"), (3, "C", "resp_1"))
    (case,), (entry,) = imported(tmp_path, *(turn(*each, f"to {each[1]}") for each in steps))
    assert [event.output for event in case.trace if event.is_agent] == ["A", "B", "C"]
    assert (entry.severity, entry.field) == ("lost", "resp_1")


@pytest.mark.parametrize(("model", "provider"), [("gpt-4o", "openai"), ("claude-sonnet-4-5", "anthropic")])
@pytest.mark.parametrize(
    "answer", [{"status": 502, "response": "<html>Bad gateway</html>"}, {"response": None}]
)
def test_a_request_without_an_answer_goes_by_whom_it_asked(
    tmp_path: Path, model: str, provider: str, answer: dict[str, Any]
) -> None:
    (case,), entries = imported(tmp_path, {"request": {"model": model, "messages": [ASKED]}, **answer})
    assert case.metadata["imported"]["format"] == provider
    assert [event.type for event in case.trace] == ["message", "error"][: 1 + ("status" in answer)]
    assert entries == []


@pytest.mark.parametrize(
    ("host", "provider"),
    [
        ("shop.openai.azure.com", "azure.ai.openai"), ("api.openai.com", "openai"), ("api.x.ai", "x_ai"),
        ("max.ai", "openai"), ("[broken", "openai"),
    ],
)  # fmt: skip
def test_servers_of_others_are_named_as_the_provider(tmp_path: Path, host: str, provider: str) -> None:
    (case,), _ = imported(tmp_path, {**chat(says("Hi")), "uri": f"https://{host}/chat/completions"})
    assert case.trace[-1].attributes["gen_ai.provider.name"] == provider


@pytest.mark.parametrize(
    "fragments",
    [
        [(0, "c1", "a", '{"x":'), (0, None, None, "1}"), (0, "c2", "b", '{"y":2}')],
        [(None, "c1", "a", '{"x":1}'), (None, "c2", "b", '{"y":2}')],
        [(0, "c1", "a", '{"x":1}'), (1, "c2", "b", '{"y":2}'), (0, "c1", "a", "")],
        [(None, None, "a", '{"x":1}'), (None, None, "b", '{"y":2}')],
    ],
)
def test_parallel_calls_of_a_stream_are_told_apart_by_their_ids(
    fragments: list[tuple[Any, ...]], tmp_path: Path
) -> None:
    chunks = [
        chunk({"tool_calls": [{"index": index, "id": own, "function": {"name": name, "arguments": text}}]})
        for index, own, name, text in fragments
    ]
    (case,), entries = imported(tmp_path, stream(*chunks, chunk({}, "tool_calls"), "[DONE]"))
    assert [(event.tool, event.input) for event in case.trace] == [("a", {"x": 1}), ("b", {"y": 2})]
    assert entries == []


def test_python_and_googles_api_spell_fields_differently(tmp_path: Path) -> None:
    use = {"name": "f", "args": {"a": 1}}
    snake = {"content": {"parts": [{"function_call": use}]}, "finish_reason": "STOP"}
    tokens = {"usage_metadata": {"prompt_token_count": 5}}
    (first,), _ = imported(tmp_path, gemini({"functionCall": use}, usageMetadata={"promptTokenCount": 5}))
    (second,), _ = imported(tmp_path, asked_gemini({"candidates": [snake], **tokens}))
    assert first.trace == second.trace


# Records in which a request's own fields have the answer beside them, as many loggers write them.

OF_CHAT = chat(says("Hi"), usage={"prompt_tokens": 3, "completion_tokens": 1})["response"]
MESSAGES, CONTENTS = {"messages": [ASKED]}, {"contents": [CONTENT]}
CLAUDE, GEMINI = claude(block("Hi")), gemini({"text": "Hi"})["response"]
RESPONSE = {"object": "response", "output": [output_text("Hi")]}


@pytest.mark.parametrize("name", ["response", "completion", "response_body", "output"])
def test_an_answer_beside_the_messages_is_not_lost(tmp_path: Path, name: str) -> None:
    (case,), diagnostics = imported(tmp_path, {"model": "gpt-4o", **MESSAGES, name: OF_CHAT})
    assert (summary(case), diagnostics) == ([GO, HI], [])
    assert case.metadata["imported"]["request"] == {"model": "gpt-4o"}
    assert input_tokens(case) == [3]


@pytest.mark.parametrize(
    "record",
    [
        {"model": "claude-sonnet-4-5", **MESSAGES, "response": CLAUDE},
        {**CONTENTS, "response": GEMINI},
        {"model": "gpt-4o", "input": "Go", "response": RESPONSE},
        {**MESSAGES, "response": "Hi"},
        {**MESSAGES, **OF_CHAT},
        {**MESSAGES, **CLAUDE},
        {**CONTENTS, **GEMINI},
        {"input": "Go", **RESPONSE},
    ],
)
def test_a_request_and_its_answer_in_one_object_are_both_read(tmp_path: Path, record: Any) -> None:
    (case,), diagnostics = imported(tmp_path, record)
    assert (summary(case), diagnostics) == ([GO, HI], [])


@pytest.mark.parametrize(
    "record",
    [
        {**MESSAGES, "response": OF_CHAT},
        {"messages": [ASKED, {"role": "assistant", "content": "Hi"}]},
        {"custom_id": "a", "response": {"status_code": 200, "body": OF_CHAT}, "error": None},
        {**CONTENTS, "response": GEMINI},
        {"model": "claude-sonnet-4-5", **MESSAGES, "response": CLAUDE},
    ],
)
def test_fields_of_the_logger_itself_are_kept(tmp_path: Path, record: Any) -> None:
    (case,), diagnostics = imported(tmp_path, {**record, "feedback": "thumbs down"})
    assert case.metadata["imported"]["record"] == {"feedback": "thumbs down"}
    assert diagnostics == []
