"""Rows, threads and run steps of Azure AI Foundry, in the variants that matter to a verdict."""

from __future__ import annotations

from typing import Any

from tests.unit.importers.exports import imported, summary


def step(number: int, *calls: Any, **fields: Any) -> dict[str, Any]:
    details = {"type": "tool_calls", "tool_calls": list(calls)}
    made = {
        "object": "thread.run.step",
        "id": f"step_{number}",
        "thread_id": "t",
        "run_id": "r",
        "type": "tool_calls",
    }
    return {
        **made,
        "created_at": 1767225600 + number,
        "status": "completed",
        "step_details": details,
        **fields,
    }


def message(number: int, role: str, text: str) -> dict[str, Any]:
    content = [{"type": "text", "text": {"value": text, "annotations": []}}]
    made = {
        "object": "thread.message",
        "id": f"m{number}",
        "thread_id": "t",
        "role": role,
        "content": content,
    }
    return {**made, "created_at": 1767225600 + number}


def function(call_id: str, arguments: str = "{}", **fields: Any) -> dict[str, Any]:
    return {"id": call_id, "type": "function", "function": {"name": "f", "arguments": arguments, **fields}}


def test_objects_of_a_thread_are_one_case_in_any_order(tmp_path):
    objects = [message(0, "user", "Go"), step(1, function("c", output="1")), message(2, "assistant", "One.")]
    for order in (1, -1):
        (case,), _ = imported(tmp_path, *objects[::order])
        assert case.case_id == "t"
        assert summary(case) == [
            ("message", "Go"),
            ("tool_call", {}),
            ("tool_result", "1"),
            ("message", "One."),
        ]


def test_a_step_says_how_long_it_took_and_what_it_used(tmp_path):
    made = step(
        1,
        function("c", output="1"),
        completed_at=1767225604,
        usage={"prompt_tokens": 7, "completion_tokens": 2},
    )
    (case,), _ = imported(tmp_path, made)
    call, result = case.trace
    assert (result.latency_ms, call.usage.input_tokens) == (3000, 7)


def test_usage_of_a_run_counts_only_without_that_of_its_steps(tmp_path):
    run = {
        "object": "thread.run",
        "id": "r",
        "thread_id": "t",
        "status": "completed",
        "model": "m",
        "created_at": 1767225600,
    }
    run["usage"] = {"prompt_tokens": 9, "completion_tokens": 3}
    used = step(1, function("c", output="1"), usage={"prompt_tokens": 9, "completion_tokens": 3})
    ((alone,), _), ((both,), _) = imported(tmp_path, run), imported(tmp_path, run, used)
    for case in (alone, both):
        assert sum(event.usage.input_tokens for event in case.trace if event.usage) == 9


def test_the_error_of_a_run_is_an_error(tmp_path):
    run = {"object": "thread.run", "id": "r", "thread_id": "t", "status": "failed", "failed_at": 1767225609}
    run["last_error"] = {"code": "rate_limit_exceeded", "message": "slow down"}
    (case,), _ = imported(tmp_path, message(0, "user", "Go"), run)
    assert case.trace[-1].error == {"code": "rate_limit_exceeded", "message": "slow down"}


def test_a_failed_step_keeps_the_results_that_it_has(tmp_path):
    made = step(
        1, function("a", output="1"), function("b"), status="failed", last_error={"code": "server_error"}
    )
    (case,), _ = imported(tmp_path, made)
    assert [(call.result.output, call.error) for call in case.recorded.calls] == [
        ("1", None),
        (None, {"code": "server_error"}),
    ]


def test_the_sdks_first_spelling_of_a_call_is_read(tmp_path):
    call = {
        "type": "tool_call",
        "tool_call": {"id": "c", "type": "function", "function": {"name": "f", "arguments": {"a": 1}}},
    }
    result = {
        "role": "tool",
        "tool_call_id": "c",
        "content": [{"type": "tool_result", "tool_result": {"b": 2}}],
    }
    response = [{"role": "assistant", "run_id": "r", "content": [call]}, result]
    (case,), _ = imported(tmp_path, {"query": "Go", "response": response})
    (made,) = case.recorded.calls
    assert (made.arguments, made.result.output) == ({"a": 1}, {"b": 2})


def test_columns_under_other_names_are_found_and_the_others_kept(tmp_path):
    row = {
        "inputs.question": "Go",
        "outputs.answer": "Gone.",
        "outputs.f1": 0.5,
        "inputs.ground_truth": "Gone.",
    }
    (case,), _ = imported(tmp_path, row)
    assert (case.input, case.recorded.final_output, case.expected_output) == ("Go", "Gone.", "Gone.")
    assert case.metadata["imported"]["columns"] == {"outputs.f1": 0.5}


def test_calls_in_a_column_of_their_own_come_before_the_answer(tmp_path):
    call = {"type": "tool_call", "tool_call_id": "c", "name": "f", "arguments": {"a": 1}}
    (case,), _ = imported(tmp_path, {"query": "Go", "response": "Gone.", "tool_calls": [call]})
    assert summary(case) == [("message", "Go"), ("tool_call", {"a": 1}), ("message", "Gone.")]


def test_messages_without_an_order_are_put_in_that_of_their_times(tmp_path):
    rows = [
        {"role": "assistant", "run_id": "r", "createdAt": f"2026-01-01T00:00:0{s}Z", "content": str(s)}
        for s in (3, 1, 2)
    ]
    (case,), _ = imported(
        tmp_path,
        {"query": [{"role": "user", "createdAt": "2026-01-01T00:00:00Z", "content": "0"}], "response": rows},
    )
    assert [content for _, content in summary(case)] == ["0", "1", "2", "3"]
