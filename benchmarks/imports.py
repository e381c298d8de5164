"""How long an import takes beside the standard library's reading of the same JSON, and what memory it needs.

python -m benchmarks.imports                # speed, of every kind of file
python -m benchmarks.imports --memory 1024  # peak memory for 1,024 MiB of JSON Lines
"""

from __future__ import annotations

import argparse
import json
import platform
import resource
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

from agent_eval.operations.import_traces import ImportRequest, import_traces

ROUNDS = 5
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


KINDS: dict[str, Callable[[int], dict[str, Any]]] = {
    "openai chat": chat,
    "openai chat, repeated histories": growing,
    "anthropic messages": messages,
    "foundry rows": rows,
}


def write(path: Path, make: Callable[[int], dict[str, Any]], size: int) -> int:
    """Write records until the file has `size` bytes; returns how many."""
    number = 0
    with path.open("w", encoding="utf-8") as file:
        while file.tell() < size:
            for _ in range(50):
                file.write(json.dumps(make(number)) + "\n")
                number += 1
    return number


def parsed(path: Path) -> None:
    with path.open("rb") as file:
        for line in file:
            json.loads(line)


def timed(function: Callable[[], object]) -> float:
    started = time.process_time()
    function()
    return time.process_time() - started


def speed(home: Path, size: int) -> Iterator[dict[str, Any]]:
    for name, make in KINDS.items():
        source, out = home / "dump.jsonl", home / "suite.jsonl"
        count = write(source, make, size)
        request = ImportRequest((source,), out, "provider")
        pairs = [
            (timed(partial(parsed, source)), timed(partial(import_traces, request))) for _ in range(ROUNDS)
        ]
        library = statistics.median(pair[0] for pair in pairs)
        ours = statistics.median(pair[1] for pair in pairs)
        yield {
            "kind": name,
            "records": count,
            "mib": round(source.stat().st_size / 2**20, 1),
            "json_seconds": round(library, 3),
            "import_seconds": round(ours, 3),
            "times": round(statistics.median(pair[1] / pair[0] for pair in pairs), 2),
        }


def memory(home: Path, mebibytes: int) -> dict[str, Any]:
    source, out = home / "dump.jsonl", home / "suite.jsonl"
    count = write(source, chat, mebibytes << 20)
    started = time.monotonic()
    imported = import_traces(ImportRequest((source,), out, "provider"))
    return {
        "records": count,
        "cases": imported.totals.cases,
        "mib": round(source.stat().st_size / 2**20, 1),
        "seconds": round(time.monotonic() - started, 1),
        "peak_mib": round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024, 1),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--memory", type=int, metavar="MIB", help="Measure peak memory for a file of this size."
    )
    parser.add_argument("--size", type=int, default=16, metavar="MIB", help="Size of the files for speed.")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as directory:
        home = Path(directory)
        measured = (
            {"memory": memory(home, arguments.memory)}
            if arguments.memory
            else {"speed": list(speed(home, arguments.size << 20))}
        )
    about = {"python": platform.python_version(), "machine": platform.machine(), "rounds": ROUNDS}
    json.dump({**about, **measured}, sys.stdout, indent=1)
    print()


if __name__ == "__main__":
    main()
