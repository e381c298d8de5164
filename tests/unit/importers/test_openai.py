"""Chat Completions, Responses and Batch, in the variants that matter to a verdict."""

from __future__ import annotations

import base64
import hashlib
from pathlib import Path
from typing import Any

import pytest

from tests.unit.importers.exports import imported, stream, summary

ASKED = {"role": "user", "content": "Go"}


def chat(*choices: dict[str, Any], messages: Any = (ASKED,), **body: Any) -> dict[str, Any]:
    made = [{"index": number, "finish_reason": "stop", **choice} for number, choice in enumerate(choices)]
    answer = {"object": "chat.completion", "choices": made, **body}
    return {"request": {"model": "m", "messages": list(messages)}, "response": answer}


def says(text: Any, **fields: Any) -> dict[str, Any]:
    return {"message": {"role": "assistant", "content": text, **fields}}


def response(*output: Any, request: Any = None, **body: Any) -> dict[str, Any]:
    answer = {"object": "response", "id": "resp_1", "created_at": 1767225600, "status": "completed", **body}
    return {
        "request": request or {"model": "m", "input": "Go"},
        "response": {**answer, "output": list(output)},
    }


def test_several_choices_are_trials_of_one_case(tmp_path):
    (case,), _ = imported(tmp_path, chat(says("A"), says("B"), says("C"), usage={"prompt_tokens": 9}))
    assert [case.of_trial(number).recorded.final_output for number in range(3)] == ["A", "B", "C"]
    usage = [event.usage for number in range(3) for event in case.of_trial(number).trace if event.usage]
    assert [tokens.input_tokens for tokens in usage] == [9]


def test_text_and_calls_of_one_answer_are_both_there(tmp_path):
    call = {"id": "c", "type": "function", "function": {"name": "f", "arguments": "{}"}}
    (case,), _ = imported(tmp_path, chat(says("I look.", tool_calls=[call])))
    assert summary(case) == [("message", "Go"), ("message", "I look."), ("tool_call", {})]


def test_a_refusal_and_a_filter_stop_the_answer_short(tmp_path):
    refused = chat(says(None, refusal="No."), messages=[{"role": "user", "content": "a"}])
    filtered = chat(
        {**says(""), "finish_reason": "content_filter"}, messages=[{"role": "user", "content": "b"}]
    )
    cases, _ = imported(tmp_path, refused, filtered)
    assert [case.trace[-1].stop[0] for case in cases] == ["refused", "refused"]


def test_reasoning_beside_the_answer_is_no_answer(tmp_path):
    (case,), _ = imported(tmp_path, chat(says("42", reasoning_content="6 times 7")))
    assert summary(case) == [("message", "Go"), ("reasoning", "6 times 7"), ("message", "42")]
    assert case.recorded.final_output == "42"


def test_the_call_of_an_old_function_gets_its_result(tmp_path):
    messages = [
        ASKED,
        {"role": "assistant", "content": None, "function_call": {"name": "f", "arguments": '{"a": 1}'}},
        {"role": "function", "name": "f", "content": "one"},
    ]
    (case,), _ = imported(tmp_path, chat(says("One."), messages=messages))
    (call,) = case.recorded.calls
    assert (call.arguments, call.result.output) == ({"a": 1}, "one")


def test_images_are_kept_by_digest_type_and_size(tmp_path):
    raw = b"\x89PNG and more"
    address = f"data:image/png;base64,{base64.b64encode(raw).decode()}"
    content = [{"type": "text", "text": "See"}, {"type": "image_url", "image_url": {"url": address}}]
    (case,), _ = imported(tmp_path, chat(says("A cat."), messages=[{"role": "user", "content": content}]))
    text, image = case.trace[0].parts
    assert (text.text, image.media_type, image.size) == ("See", "image/png", len(raw))
    assert image.sha256 == hashlib.sha256(raw).hexdigest()
    assert base64.b64encode(raw).decode() not in (tmp_path / "suite.jsonl").read_text()


def test_an_unknown_usage_is_left_out(tmp_path):
    (case,), _ = imported(tmp_path, chat(says("A"), usage={"prompt_tokens": None, "completion_tokens": 0}))
    assert case.trace[-1].usage.to_json() == {"output_tokens": 0}


def test_bodies_that_a_recorder_kept_as_text_are_read(tmp_path):
    import json

    whole = chat(says("Hi"))
    record = {
        "request": {"method": "POST", "uri": "https://api.openai.com", "body": json.dumps(whole["request"])},
        "response": {"status": {"code": 200}, "body": {"string": json.dumps(whole["response"])}},
    }
    (case,), _ = imported(tmp_path, record)
    assert summary(case) == [("message", "Go"), ("message", "Hi")]


def test_free_text_of_a_custom_tool_is_no_malformed_argument(tmp_path):
    call = {
        "type": "custom_tool_call",
        "id": "ctc_1",
        "call_id": "c1",
        "name": "patch",
        "input": '{"not json',
    }
    (case,), _ = imported(tmp_path, response(call))
    assert case.trace[-1].input == '{"not json'
    assert "agent_eval.malformed_arguments" not in case.trace[-1].attributes


def test_hosted_tools_carry_their_result_and_say_where_they_ran(tmp_path):
    output = [
        {
            "type": "file_search_call",
            "id": "fs_1",
            "status": "completed",
            "queries": ["a"],
            "results": [{"id": 1}],
        },
        {"type": "code_interpreter_call", "id": "ci_1", "status": "failed", "code": "1/0", "outputs": None},
        {"type": "mcp_list_tools", "id": "l", "server_label": "wiki", "tools": [{"name": "ask"}]},
        {
            "type": "local_shell_call",
            "id": "sh_1",
            "call_id": "c9",
            "status": "completed",
            "action": {"command": ["ls"]},
        },
    ]
    (case,), entries = imported(tmp_path, response(*output))
    assert [(call.tool, call.call.ran_on) for call in case.recorded.calls] == [
        ("file_search", "server"),
        ("code_interpreter", "server"),
        ("local_shell", "client"),
    ]
    search, code, shell = case.recorded.calls
    assert (search.result.output, code.error, shell.result) == ([{"id": 1}], "status failed", None)
    assert entries == []


def test_an_incomplete_answer_says_why(tmp_path):
    message = {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "Once"}]}
    body = {"status": "incomplete", "incomplete_details": {"reason": "max_output_tokens"}}
    (case,), _ = imported(tmp_path, response(message, **body))
    assert case.trace[-1].stop == ("cut", "max_output_tokens")


def test_a_failed_response_is_an_error(tmp_path):
    (case,), _ = imported(tmp_path, response(status="failed", error={"code": "server_error", "message": "x"}))
    assert case.trace[-1].error == {"code": "server_error", "message": "x"}


def test_answers_that_continue_an_earlier_response_are_one_case_with_each_turn_once(tmp_path):
    said = {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "Yes."}]}
    records = [response(said)] + [
        response(
            said,
            request={"model": "m", "input": "Go", "previous_response_id": f"resp_{number - 1}"},
            id=f"resp_{number}",
            previous_response_id=f"resp_{number - 1}",
            created_at=1767225600 + number,
        )
        for number in (2, 3)
    ]
    (case,), _ = imported(tmp_path, *reversed(records))
    assert [content for _, content in summary(case)] == ["Go", "Yes."] * 3


def test_polls_of_one_answer_count_its_usage_once(tmp_path):
    said = {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "Yes."}]}
    queued = response(status="queued")
    polled = {**response(said, usage={"input_tokens": 5, "output_tokens": 1}), "request": "", "method": "GET"}
    (case,), _ = imported(tmp_path, polled, queued, polled)
    assert summary(case) == [("message", "Go"), ("message", "Yes.")]
    assert [event.usage.input_tokens for event in case.trace if event.usage] == [5]


def test_a_stream_that_is_cut_off_is_reported_and_what_came_is_kept(tmp_path):
    chunk = {"object": "chat.completion.chunk", "choices": [{"index": 0, "delta": {"content": "Hel"}}]}
    (case,), (entry,) = imported(tmp_path, stream(chunk))
    assert summary(case) == [("message", "Hel")]
    assert (entry.severity, entry.reason) == ("lost", "ends before the answer does")


def test_the_final_chunk_of_a_stream_has_the_usage(tmp_path):
    chunk: dict[str, Any] = {"object": "chat.completion.chunk", "id": "c", "model": "m"}
    parts = [
        {**chunk, "choices": [{"index": 0, "delta": {"role": "assistant", "content": "Hel"}}]},
        {**chunk, "choices": [{"index": 0, "delta": {"content": "lo"}, "finish_reason": "stop"}]},
        {**chunk, "choices": [], "usage": {"prompt_tokens": 3, "completion_tokens": 2}},
        "[DONE]",
    ]
    (case,), entries = imported(tmp_path, stream(*parts))
    (event,) = case.trace
    assert (event.output, event.usage.output_tokens, event.stop_reason, entries) == ("Hello", 2, "stop", [])


@pytest.mark.parametrize("order", [1, -1])
def test_lines_of_a_batch_are_joined_in_any_order(tmp_path, order):
    lines = [
        {"custom_id": "t", "method": "POST", "url": "/v1/responses", "body": {"model": "m", "input": "Go"}},
        {
            "id": "b",
            "custom_id": "t",
            "error": None,
            "response": {"status_code": 429, "request_id": "r", "body": {"error": {"message": "slow down"}}},
        },
    ]
    (case,), _ = imported(tmp_path, *lines[::order])
    assert case.case_id == "t"
    assert [(event.type, event.error) for event in case.trace] == [
        ("message", None),
        ("error", {"message": "slow down"}),
    ]


def test_two_answers_that_continue_one_response_are_said(tmp_path):
    records = [
        response(
            {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": text}]},
            request={"model": "m", "input": f"to {text}", "previous_response_id": previous},
            id=f"resp_{text}",
        )
        for text, previous in (("A", None), ("B", "resp_A"), ("C", "resp_A"))
    ]
    (case,), (entry,) = imported(tmp_path, *records)
    assert [event.output for event in case.trace if event.is_agent] == ["A", "B", "C"]
    assert (entry.severity, entry.field) == ("lost", "resp_A")


@pytest.mark.parametrize(
    ("model", "provider", "answer"),
    [
        ("gpt-4o", "openai", {"status": 502, "response": "<html>Bad gateway</html>"}),
        ("gpt-4o", "openai", {"response": None}),
        ("claude-sonnet-4-5", "anthropic", {"status": 502, "response": "<html>Bad gateway</html>"}),
        ("claude-sonnet-4-5", "anthropic", {"response": None}),
    ],
)
def test_a_request_without_an_answer_goes_by_whom_it_asked(tmp_path, model, provider, answer):
    (case,), entries = imported(tmp_path, {"request": {"model": model, "messages": [ASKED]}, **answer})
    assert case.metadata["imported"]["format"] == provider
    assert [event.type for event in case.trace] == ["message", "error"][: 1 + ("status" in answer)]
    assert entries == []


def test_servers_of_others_are_named_as_the_provider(tmp_path):
    names = []
    for host in ("shop.openai.azure.com", "api.openai.com", "api.x.ai", "max.ai", "[broken"):
        (case,), _ = imported(tmp_path, {**chat(says("Hi")), "uri": f"https://{host}/chat/completions"})
        names.append(case.trace[-1].attributes["gen_ai.provider.name"])
    assert names == ["azure.ai.openai", "openai", "x_ai", "openai", "openai"]


def test_what_a_record_says_beside_its_request_is_kept(tmp_path):
    record = {**chat(says("Hi")), "latency_ms": 640, "user": "u1", "metadata": {"ticket": 7}, "status": 200}
    (case,), entries = imported(tmp_path, record)
    assert case.trace[-1].latency_ms == 640
    assert case.metadata["imported"]["record"] == {"user": "u1", "metadata": {"ticket": 7}}
    assert entries == []


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
        chunk_of({"tool_calls": [{"index": index, "id": own, "function": {"name": name, "arguments": text}}]})
        for index, own, name, text in fragments
    ]
    (case,), entries = imported(tmp_path, stream(*chunks, chunk_of({}, "tool_calls"), "[DONE]"))
    assert [(event.tool, event.input) for event in case.trace] == [("a", {"x": 1}), ("b", {"y": 2})]
    assert entries == []


def chunk_of(delta: dict[str, Any], reason: str | None = None) -> dict[str, Any]:
    choice = {"index": 0, "delta": delta, "finish_reason": reason}
    return {"object": "chat.completion.chunk", "id": "x", "choices": [choice]}
