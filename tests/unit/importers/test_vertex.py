"""Gemini and ADK, in the variants that matter to a verdict."""

from __future__ import annotations

from typing import Any

import pytest

from tests.unit.importers.exports import imported, stream, summary

ASKED = {"role": "user", "parts": [{"text": "Go"}]}


def gemini(*parts: Any, contents: Any = (ASKED,), reason: str = "STOP", **body: Any) -> dict[str, Any]:
    candidate = {"content": {"role": "model", "parts": list(parts)}, "finishReason": reason}
    return {"request": {"contents": list(contents)}, "response": {"candidates": [candidate], **body}}


def test_python_and_the_api_spell_fields_differently(tmp_path):
    camel = gemini({"functionCall": {"name": "f", "args": {"a": 1}}}, usageMetadata={"promptTokenCount": 5})
    snake = {
        "request": {"contents": [ASKED]},
        "response": {
            "candidates": [
                {
                    "content": {"parts": [{"function_call": {"name": "f", "args": {"a": 1}}}]},
                    "finish_reason": "STOP",
                }
            ],
            "usage_metadata": {"prompt_token_count": 5},
        },
    }
    ((first,), _), ((second,), _) = imported(tmp_path, camel), imported(tmp_path, snake)
    assert first.trace == second.trace


def test_calls_without_ids_get_the_results_of_their_tool_in_order(tmp_path):
    calls = [{"functionCall": {"name": name, "args": {"k": k}}} for k, name in enumerate("ffg")]
    results = [
        {"functionResponse": {"name": name, "response": {"k": k}}}
        for name, k in (("g", 2), ("f", 0), ("f", 1))
    ]
    contents = [ASKED, {"role": "model", "parts": calls}, {"role": "function", "parts": results}]
    (case,), _ = imported(tmp_path, gemini({"text": "Done."}, contents=contents))
    assert [(call.arguments["k"], call.result.output["k"]) for call in case.recorded.calls] == [
        (0, 0),
        (1, 1),
        (2, 2),
    ]


def test_code_that_the_model_ran_is_a_call_with_its_result(tmp_path):
    parts = [
        {"executableCode": {"language": "PYTHON", "code": "1/0"}},
        {"codeExecutionResult": {"outcome": "OUTCOME_FAILED", "output": "ZeroDivisionError"}},
        {"text": "It fails."},
    ]
    (case,), _ = imported(tmp_path, gemini(*parts))
    (call,) = case.recorded.calls
    assert (call.tool, call.error, call.result.output) == (
        "code_execution",
        "OUTCOME_FAILED",
        "ZeroDivisionError",
    )


@pytest.mark.parametrize(
    ("response", "stop"),
    [
        ({"promptFeedback": {"blockReason": "SAFETY"}}, ("blocked", "SAFETY")),
        ({"candidates": [{"finishReason": "MODEL_ARMOR"}]}, ("blocked", "MODEL_ARMOR")),
        (
            {"candidates": [{"content": {"role": "model"}, "finishReason": "MAX_TOKENS"}]},
            ("cut", "MAX_TOKENS"),
        ),
    ],
)
def test_an_answer_without_content_says_why(tmp_path, response, stop):
    (case,), _ = imported(tmp_path, {"request": {"contents": [ASKED]}, "response": response})
    assert case.trace[-1].stop == stop


def test_a_malformed_call_of_the_model_is_an_error(tmp_path):
    (case,), _ = imported(tmp_path, gemini(reason="MALFORMED_FUNCTION_CALL"))
    assert case.trace[-1].error == {"finish_reason": "MALFORMED_FUNCTION_CALL"}


def test_thoughts_are_output_tokens_that_gemini_counts_apart(tmp_path):
    usage = {
        "promptTokenCount": 57,
        "candidatesTokenCount": 15,
        "thoughtsTokenCount": 124,
        "cachedContentTokenCount": 8,
    }
    (case,), _ = imported(
        tmp_path, gemini({"text": "Hm", "thought": True}, {"text": "Hi"}, usageMetadata=usage)
    )
    assert summary(case) == [("message", "Go"), ("reasoning", "Hm"), ("message", "Hi")]
    assert case.trace[-1].usage.to_json() == {
        "input_tokens": 57,
        "output_tokens": 139,
        "cached_tokens": 8,
        "reasoning_tokens": 124,
    }


def test_chunks_of_one_answer_are_put_together(tmp_path):
    chunks = [
        {"candidates": [{"content": {"parts": [{"text": "Hel"}]}}], "responseId": "r"},
        {"candidates": [{"content": {"parts": [{"text": "lo"}]}, "finishReason": "STOP"}], "responseId": "r"},
    ]
    (case,), _ = imported(tmp_path, stream(*chunks))
    (listed,), _ = imported(tmp_path, {"request": {"contents": [ASKED]}, "response": chunks})
    assert (summary(case), summary(listed)[1:]) == ([("message", "Hello")], [("message", "Hello")])


def test_a_session_names_its_agents_and_keeps_state_errors_and_handoffs(tmp_path):
    events: list[dict[str, Any]] = [
        {"author": "user", "content": {"role": "user", "parts": [{"text": "Go"}]}, "timestamp": 1767225600.5},
        {"author": "triage", "errorCode": "429", "errorMessage": "slow down", "timestamp": 1767225601.5},
        {
            "author": "triage",
            "actions": {"transferToAgent": "refunds", "stateDelta": {"a": 1}},
            "timestamp": 1767225602.5,
        },
    ]
    (case,), _ = imported(tmp_path, {"id": "s", "appName": "shop", "userId": "u", "events": events})
    assert [(event.type, event.agent) for event in case.trace] == [
        ("message", None),
        ("error", "triage"),
        ("state", "triage"),
        ("handoff", "triage"),
    ]
    assert case.trace[1].error == {"code": "429", "message": "slow down"}
    assert case.metadata["imported"]["app_name"] == "shop"
