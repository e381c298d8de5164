"""Messages of Anthropic, in the variants that matter to a verdict."""

from __future__ import annotations

from typing import Any

from tests.unit.importers.exports import imported, stream, summary

ASKED = {"role": "user", "content": "Go"}


def message(*content: Any, **fields: Any) -> dict[str, Any]:
    usage = {"input_tokens": 3, "output_tokens": 2}
    made = {
        "id": "msg_1",
        "type": "message",
        "role": "assistant",
        "model": "claude",
        "stop_reason": "end_turn",
    }
    return {**made, "usage": usage, "content": list(content), **fields}


def exchange(*content: Any, messages: Any = (ASKED,), **fields: Any) -> dict[str, Any]:
    return {"request": {"max_tokens": 9, "messages": list(messages)}, "response": message(*content, **fields)}


def test_input_tokens_are_all_that_the_model_read(tmp_path):
    usage = {
        "input_tokens": 3,
        "cache_read_input_tokens": 1111,
        "cache_creation_input_tokens": 418,
        "output_tokens": 7,
    }
    (case,), _ = imported(tmp_path, exchange({"type": "text", "text": "Hi"}, usage=usage))
    assert case.trace[-1].usage.to_json() == {
        "input_tokens": 1532,
        "output_tokens": 7,
        "cached_tokens": 1111,
        "cache_write_tokens": 418,
    }


def test_thinking_is_kept_and_hidden_thinking_is_said_to_be_hidden(tmp_path):
    blocks = [
        {"type": "thinking", "thinking": "Hm.", "signature": "c2ln"},
        {"type": "redacted_thinking", "data": "b3BhcXVl"},
        {"type": "text", "text": "Hi"},
    ]
    (case,), _ = imported(tmp_path, exchange(*blocks))
    assert [(event.type, event.content_recorded) for event in case.trace[1:]] == [
        ("reasoning", None),
        ("reasoning", False),
        ("message", None),
    ]
    assert "c2ln" not in (tmp_path / "suite.jsonl").read_text()


def test_an_error_of_a_server_tool_is_an_error_of_its_result(tmp_path):
    blocks = [
        {"type": "server_tool_use", "id": "s1", "name": "web_search", "input": {"query": "a"}},
        {
            "type": "web_search_tool_result",
            "tool_use_id": "s1",
            "content": {"type": "web_search_tool_result_error", "error_code": "max_uses_exceeded"},
        },
    ]
    (case,), _ = imported(tmp_path, exchange(*blocks))
    (call,) = case.recorded.calls
    assert (call.error, call.result.ran_on) == ("max_uses_exceeded", "server")


def test_results_of_an_mcp_server_ran_where_their_calls_did(tmp_path):
    blocks = [
        {"type": "mcp_tool_use", "id": "m1", "name": "ask", "server_name": "wiki", "input": {}},
        {
            "type": "mcp_tool_result",
            "tool_use_id": "m1",
            "is_error": True,
            "content": [{"type": "text", "text": "no"}],
        },
    ]
    (case,), _ = imported(tmp_path, exchange(*blocks))
    (call,) = case.recorded.calls
    assert (call.result.ran_on, call.result.output, call.error) == ("mcp:wiki", None, "no")


def test_an_empty_answer_is_there_with_its_reason(tmp_path):
    (case,), _ = imported(tmp_path, exchange(stop_reason="refusal"))
    assert (case.trace[-1].content, case.trace[-1].stop) == (None, ("refused", "refusal"))


def test_a_user_message_in_several_blocks_is_one_message(tmp_path):
    content = [{"type": "text", "text": "One. "}, {"type": "text", "text": "Two."}]
    (case,), _ = imported(
        tmp_path, exchange({"type": "text", "text": "Hi"}, messages=[{"role": "user", "content": content}])
    )
    assert summary(case) == [("message", "One. Two."), ("message", "Hi")]


def test_an_error_answer_is_an_error(tmp_path):
    body = {"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}}
    (case,), _ = imported(tmp_path, {"request": {"messages": [ASKED]}, "response": body, "status": 529})
    assert case.trace[-1].error == {"type": "overloaded_error", "message": "Overloaded"}


def test_a_stream_with_malformed_arguments_keeps_them_and_marks_them(tmp_path):
    events = [
        {"type": "message_start", "message": message(stop_reason=None)},
        {
            "type": "content_block_start",
            "index": 0,
            "content_block": {"type": "tool_use", "id": "t", "name": "f", "input": {}},
        },
        {
            "type": "content_block_delta",
            "index": 0,
            "delta": {"type": "input_json_delta", "partial_json": '{"a": '},
        },
        {"type": "message_delta", "delta": {"stop_reason": "max_tokens"}, "usage": {"output_tokens": 5}},
        {"type": "message_stop"},
    ]
    (case,), entries = imported(tmp_path, stream(*events))
    (event,) = case.trace
    assert (event.input, event.usage.output_tokens, event.stop[0], entries) == ('{"a": ', 5, "cut", [])
    assert event.attributes["agent_eval.malformed_arguments"] is True


def test_a_count_of_tokens_is_no_answer(tmp_path):
    counted = {
        "request": {"messages": [ASKED]},
        "response": {"input_tokens": 12},
        "uri": "https://h/v1/messages/count_tokens",
    }
    (case,), _ = imported(tmp_path, counted, exchange({"type": "text", "text": "Hi"}))
    assert summary(case) == [("message", "Go"), ("message", "Hi")]
