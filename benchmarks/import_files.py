"""Files to import for `imports.py`: exports of providers and recorders, of any size."""

from __future__ import annotations

import json
import zipfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

WORDS = ["the", "order", "of", "a", "customer", "was", "shipped", "on", "Monday", "within", "three", "days"]


def words(seed: int, number: int) -> str:
    return " ".join(WORDS[(seed * 7 + position * position) % len(WORDS)] for position in range(number))


def chat(number: int) -> dict[str, Any]:
    """One exchange of Chat Completions with a history of two calls."""
    calls = [
        {
            "id": f"call_{number}_{k}",
            "type": "function",
            "function": {"name": "lookup", "arguments": json.dumps({"id": k})},
        }
        for k in range(2)
    ]
    history = [
        {"role": "system", "content": words(1, 60)},
        {"role": "user", "content": f"{number} {words(number, 40)}"},
        {"role": "assistant", "content": None, "tool_calls": calls},
        *({"role": "tool", "tool_call_id": call["id"], "content": words(number + 3, 80)} for call in calls),
    ]
    message = {"role": "assistant", "content": words(number + 9, 120), "refusal": None, "annotations": []}
    return {
        "request": {"model": "gpt-4o-mini", "messages": history, "temperature": 0.0},
        "response": {
            "id": f"chatcmpl-{number}",
            "object": "chat.completion",
            "created": 1767225600 + number,
            "model": "gpt-4o-mini-2024-07-18",
            "choices": [{"index": 0, "message": message, "logprobs": None, "finish_reason": "stop"}],
            "usage": {"prompt_tokens": 400, "completion_tokens": 130, "total_tokens": 530},
        },
        "status": 200,
    }


def messages(number: int) -> dict[str, Any]:
    """One exchange of Anthropic's Messages with four parallel calls."""
    uses = [
        {"type": "tool_use", "id": f"toolu_{number}_{k}", "name": "lookup", "input": {"id": k}}
        for k in range(4)
    ]
    results = [
        {"type": "tool_result", "tool_use_id": use["id"], "content": words(number + 5, 60), "is_error": False}
        for use in uses
    ]
    history = [
        {"role": "user", "content": [{"type": "text", "text": f"{number} {words(number, 50)}"}]},
        {"role": "assistant", "content": uses},
        {"role": "user", "content": results},
    ]
    answer = {
        "id": f"msg_{number}",
        "type": "message",
        "role": "assistant",
        "model": "claude-sonnet-4-5",
        "content": [{"type": "text", "text": words(number + 2, 150)}],
        "stop_reason": "end_turn",
        "stop_sequence": None,
        "usage": {"input_tokens": 700, "output_tokens": 160},
    }
    return {
        "request": {"model": "claude-sonnet-4-5", "max_tokens": 1024, "messages": history},
        "response": answer,
    }


def rows(number: int) -> dict[str, Any]:
    """One row of Azure AI's evaluation SDK."""
    call = {
        "type": "tool_call",
        "tool_call_id": f"call_{number}",
        "name": "lookup",
        "arguments": {"id": number},
    }
    stamp = {"createdAt": "2026-01-01T00:00:00Z", "run_id": f"run_{number}"}
    result = {"type": "tool_result", "tool_result": {"text": words(number, 80)}}
    return {
        "query": [{"role": "user", "content": [{"type": "text", "text": words(number + 1, 60)}]}],
        "response": [
            {**stamp, "role": "assistant", "content": [call]},
            {**stamp, "role": "tool", "tool_call_id": f"call_{number}", "content": [result]},
            {**stamp, "role": "assistant", "content": [{"type": "text", "text": words(number + 2, 150)}]},
        ],
        "tool_definitions": [
            {"name": "lookup", "description": words(4, 20), "parameters": {"type": "object"}}
        ],
    }


def growing(number: int) -> dict[str, Any]:
    """One exchange of a dialogue of ten, each of which repeats all before it."""
    dialogue, turn = divmod(number, 10)
    history = [{"role": "user", "content": f"{dialogue} {words(dialogue, 30)}"}]
    for step in range(turn):
        history += [
            {"role": "assistant", "content": f"{step} {words(dialogue + step, 60)}"},
            {"role": "user", "content": f"{step} {words(dialogue + step + 1, 30)}"},
        ]
    made = chat(number)
    made["request"]["messages"] = history
    made["response"]["choices"][0]["message"]["content"] = f"{turn} {words(dialogue + turn, 60)}"
    return made


def _attribute(key: str, value: str | int) -> dict[str, Any]:
    return {"key": key, "value": {"intValue" if isinstance(value, int) else "stringValue": str(value)}}


def _span(number: int, own: int, name: str, attributes: dict[str, str | int]) -> dict[str, Any]:
    made: dict[str, Any] = {
        "traceId": f"{number + 1:032x}",
        "spanId": f"{own:016x}",
        "name": name,
        "kind": 3,
        "startTimeUnixNano": f"{1770000000 + own}000000000",
        "endTimeUnixNano": f"{1770000001 + own}000000000",
        "attributes": [_attribute(*pair) for pair in attributes.items()],
        "status": {},
    }
    return made if own == 1 else {**made, "parentSpanId": f"{1:016x}"}


def otlp(number: int) -> dict[str, Any]:
    """One trace of OpenTelemetry: an agent, two calls of its model and two of a tool."""
    question = {
        "role": "user",
        "parts": [{"type": "text", "content": f"{number} {words(number, 40)}"}],
    }
    calls = [
        {"type": "tool_call", "id": f"call_{number}_{k}", "name": "lookup", "arguments": {"id": k}}
        for k in range(2)
    ]
    asked = {"role": "assistant", "parts": calls, "finish_reason": "tool_call"}
    results = [
        {"type": "tool_call_response", "id": call["id"], "response": words(number + 3, 80)} for call in calls
    ]
    repeated = [question, asked, {"role": "tool", "parts": results}]
    answer = {
        "role": "assistant",
        "parts": [{"type": "text", "content": words(number + 9, 120)}],
        "finish_reason": "stop",
    }
    chat_span: dict[str, str | int] = {
        "gen_ai.operation.name": "chat",
        "gen_ai.provider.name": "openai",
        "gen_ai.request.model": "gpt-4o-mini",
        "gen_ai.usage.input_tokens": 400,
        "gen_ai.usage.output_tokens": 130,
    }
    tools = [
        _span(
            number,
            3 + k,
            "execute_tool lookup",
            {
                "gen_ai.operation.name": "execute_tool",
                "gen_ai.tool.name": "lookup",
                "gen_ai.tool.call.id": call["id"],
                "gen_ai.tool.call.arguments": json.dumps(call["arguments"]),
                "gen_ai.tool.call.result": json.dumps(words(number + 3, 80)),
            },
        )
        for k, call in enumerate(calls)
    ]
    first = {"gen_ai.input.messages": json.dumps([question]), "gen_ai.output.messages": json.dumps([asked])}
    second = {"gen_ai.input.messages": json.dumps(repeated), "gen_ai.output.messages": json.dumps([answer])}
    spans = [
        _span(number, 1, "invoke_agent", {"gen_ai.operation.name": "invoke_agent"}),
        _span(number, 2, "chat", chat_span | first),
        *tools,
        _span(number, 5, "chat", chat_span | second),
    ]
    return {"resourceSpans": [{"resource": {}, "scopeSpans": [{"scope": {"name": "x"}, "spans": spans}]}]}


SESSION = 20
"""Lines of one session of Claude Code."""


def claude_code(number: int) -> dict[str, Any]:
    """One line of a session: a question, then calls and results by turns."""
    session, line = divmod(number, SESSION)
    about = {
        "parentUuid": f"u{number - 1}" if line else None,
        "isSidechain": False,
        "userType": "external",
        "cwd": "/project",
        "sessionId": f"session-{session}",
        "version": "2.1.14",
        "gitBranch": "main",
        "uuid": f"u{number}",
        "timestamp": f"2026-02-01T10:00:{line:02d}.000Z",
    }
    if line == 0:
        content: Any = f"{session} {words(session, 40)}"
    elif line % 2:
        content = [
            {"type": "tool_use", "id": f"toolu_{number}", "name": "Read", "input": {"file": f"{line}"}}
        ]
    else:
        content = [
            {"type": "tool_result", "tool_use_id": f"toolu_{number - 1}", "content": words(number, 250)}
        ]
    if line % 2 == 0:
        return {**about, "type": "user", "message": {"role": "user", "content": content}}
    message = {
        "id": f"msg_{number}",
        "type": "message",
        "role": "assistant",
        "model": "claude-sonnet-4-5",
        "content": content,
        "stop_reason": None,
        "usage": {"input_tokens": 4, "cache_read_input_tokens": 100, "output_tokens": 7},
    }
    return {**about, "type": "assistant", "message": message, "requestId": f"req_{number}"}


def tau_bench(number: int) -> dict[str, Any]:
    """One trial of tau-bench; two belong to each task."""
    task = number // 2
    trajectory: list[dict[str, Any]] = [{"role": "system", "content": words(1, 300)}]
    for step in range(6):
        call = {"name": "lookup", "arguments": json.dumps({"id": step})}
        call_id = f"call_{number}_{step}"
        trajectory += [
            {"role": "user", "content": f"{task} {words(number + step, 30)}"},
            {
                "role": "assistant",
                "content": None,
                "tool_calls": [{"id": call_id, "type": "function", "function": call}],
            },
            {"role": "tool", "tool_call_id": call_id, "name": "lookup", "content": words(number, 80)},
            {"role": "assistant", "content": words(number + step, 60)},
        ]
    about = {"task": {"user_id": f"user_{task}", "instruction": words(task, 40), "actions": []}}
    return {"task_id": task, "reward": 1.0, "trial": number % 2, "info": about, "traj": trajectory}


def inspect_sample(number: int) -> dict[str, Any]:
    """One sample of Inspect with ten calls; two epochs belong to each."""
    sample, epoch = divmod(number, 2)
    question = f"{sample} {words(sample, 40)}"
    messages: list[dict[str, Any]] = [{"id": "m0", "role": "user", "content": question, "source": "input"}]
    for step in range(10):
        call = {"id": f"c{step}", "function": "bash", "arguments": {"cmd": f"ls {step}"}, "type": "function"}
        messages += [
            {"id": f"a{step}", "role": "assistant", "content": "", "model": "m", "tool_calls": [call]},
            {"id": f"t{step}", "role": "tool", "content": words(number, 300), "tool_call_id": f"c{step}"},
        ]
    return {
        "id": f"sample-{sample}",
        "epoch": epoch + 1,
        "input": question,
        "target": "3",
        "messages": messages,
        "output": {"model": "m", "choices": [], "usage": {"input_tokens": 20, "output_tokens": 1}},
        "scores": {"match": {"value": "C", "answer": "3"}},
        "metadata": {},
        "events": [],
    }


@dataclass(frozen=True)
class Kind:
    """A kind of file: the command that imports it, and how to make a record of it."""

    family: Literal["provider", "transcript"]
    make: Callable[[int], dict[str, Any]]
    suffix: str = ".jsonl"


KINDS = {
    "openai chat": Kind("provider", chat),
    "openai chat, repeated histories": Kind("provider", growing),
    "anthropic messages": Kind("provider", messages),
    "foundry rows": Kind("provider", rows),
    "otel": Kind("transcript", otlp),
    "claude_code": Kind("transcript", claude_code),
    "tau_bench": Kind("transcript", tau_bench),
    "inspect .eval": Kind("transcript", inspect_sample, ".eval"),
}


def write(path: Path, kind: Kind, size: int) -> int:
    """Write records until they have `size` bytes, unpacked; returns how many."""
    return _write_archive(path, kind, size) if kind.suffix == ".eval" else _write_lines(path, kind, size)


def _write_lines(path: Path, kind: Kind, size: int) -> int:
    number = 0
    with path.open("w", encoding="utf-8") as file:
        while file.tell() < size:
            for _ in range(100):
                file.write(json.dumps(kind.make(number)) + "\n")
                number += 1
    return number


def _write_archive(path: Path, kind: Kind, size: int) -> int:
    header = {"version": 2, "status": "success", "eval": {"task": "count", "model": "m"}, "plan": {}}
    number = written = 0
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive:
        archive.writestr("header.json", json.dumps(header))
        while written < size:
            sample = kind.make(number)
            data = json.dumps(sample)
            archive.writestr(f"samples/{sample['id']}_epoch_{sample['epoch']}.json", data)
            number, written = number + 1, written + len(data)
    return number
