"""Records in which a request's own fields have the answer beside them, as many loggers write them."""

from __future__ import annotations

from typing import Any

import pytest

from tests.unit.importers.exports import imported, summary

MESSAGES = [{"role": "user", "content": "Hi"}]
CONTENTS = [{"role": "user", "parts": [{"text": "Hi"}]}]
CHAT = {
    "object": "chat.completion",
    "choices": [{"index": 0, "message": {"role": "assistant", "content": "Hello"}, "finish_reason": "stop"}],
    "usage": {"prompt_tokens": 3, "completion_tokens": 1},
}
CLAUDE = {
    "type": "message",
    "role": "assistant",
    "content": [{"type": "text", "text": "Hello"}],
    "stop_reason": "end_turn",
}
GEMINI = {
    "candidates": [{"content": {"role": "model", "parts": [{"text": "Hello"}]}, "finishReason": "STOP"}]
}
RESPONSE = {
    "object": "response",
    "output": [
        {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "Hello"}]}
    ],
}
SAID = [("message", "Hi"), ("message", "Hello")]


@pytest.mark.parametrize("name", ["response", "completion", "response_body", "output"])
def test_an_answer_beside_the_messages_is_not_lost(tmp_path, name):
    (case,), diagnostics = imported(tmp_path, {"model": "gpt-4o", "messages": MESSAGES, name: CHAT})
    assert (summary(case), diagnostics) == (SAID, [])
    assert case.metadata["imported"]["request"] == {"model": "gpt-4o"}
    assert case.trace[-1].usage.input_tokens == 3


@pytest.mark.parametrize(
    "record",
    [
        {"model": "claude-sonnet-4-5", "messages": MESSAGES, "response": CLAUDE},
        {"contents": CONTENTS, "response": GEMINI},
        {"model": "gpt-4o", "input": "Hi", "response": RESPONSE},
        {"messages": MESSAGES, "response": "Hello"},
        {"messages": MESSAGES, **CHAT},
        {"messages": MESSAGES, **CLAUDE},
        {"contents": CONTENTS, **GEMINI},
        {"input": "Hi", **RESPONSE},
    ],
)
def test_a_request_and_its_answer_in_one_object_are_both_read(tmp_path, record):
    (case,), diagnostics = imported(tmp_path, record)
    assert (summary(case), diagnostics) == (SAID, [])


def test_an_error_beside_the_messages_is_the_answer(tmp_path):
    failure = {"error": {"message": "overloaded"}}
    (case,), _ = imported(tmp_path, {"model": "gpt-4o", "messages": MESSAGES, "response": failure})
    assert [(event.type, event.error) for event in case.trace][1:] == [("error", {"message": "overloaded"})]


@pytest.mark.parametrize(
    "record",
    [
        {"messages": MESSAGES, "response": CHAT},
        {"messages": [*MESSAGES, {"role": "assistant", "content": "Hello"}]},
        {"custom_id": "a", "response": {"status_code": 200, "body": CHAT}, "error": None},
        {"contents": CONTENTS, "response": GEMINI},
        {"model": "claude-sonnet-4-5", "messages": MESSAGES, "response": CLAUDE},
    ],
)
def test_fields_of_the_logger_itself_are_kept(tmp_path, record: dict[str, Any]):
    (case,), diagnostics = imported(tmp_path, {**record, "feedback": "thumbs down"})
    assert case.metadata["imported"]["record"] == {"feedback": "thumbs down"}
    assert diagnostics == []
