"""A synthetic suite of support agents that look up orders: many cases, twenty events each.

    python benchmarks/generate.py --cases 10000 --out suite.jsonl

The same arguments give the same bytes. All five default judges have something to judge in every case;
about one case in twenty fails, in ways that depend on `--variant`, so that two variants can be compared.
"""

from __future__ import annotations

import argparse
import json
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

EVENTS = 20
TOOLS = ("lookup_order", "search_orders", "get_customer", "check_stock", "shipping_quote", "refund")
_TEXT = (
    "order customer parcel refund delivery address invoice carrier warehouse payment discount exchange "
    "tracking return label support delayed arrived damaged missing confirmed cancelled partial express "
    "standard please thanks today tomorrow within about between weekday morning evening"
)
WORDS = _TEXT.split()
SCHEMA = {
    "$schema": "https://json-schema.org/draft/2020-12/schema",
    "type": "object",
    "required": ["order_id", "status", "total"],
    "properties": {
        "order_id": {"type": "string", "pattern": "^ord-[0-9]{6}$"},
        "status": {"enum": ["shipped", "refunded", "delayed"]},
        "total": {"type": "number", "minimum": 0},
        "notes": {"type": "array", "items": {"type": "string"}, "maxItems": 5},
    },
    "additionalProperties": False,
}


def sentence(rng: random.Random, words: int) -> str:
    return " ".join(rng.choices(WORDS, k=words)).capitalize() + "."


def case(position: int, variant: int) -> dict[str, Any]:
    """One case; `variant` moves which cases fail and what the agent says, not what is asked."""
    rng = random.Random(position)
    order = f"ord-{rng.randrange(10**6):06d}"
    definition = {
        "case_id": f"case-{position:06d}",
        "input": {"order": order, "question": sentence(rng, 16)},
        "expected_output": order,
        "tool_contracts": {
            "lookup_order": {"required_args": ["order_id", "region"], "forbidden_args": ["sql"]},
            "refund": {"required_args": ["order_id", "amount"], "forbidden_args": []},
        },
        "policy": {"required_tools": ["lookup_order"], "forbidden_tools": ["delete_order"]},
        "regex_patterns": [order, r"(shipped|refunded|delayed)"],
        "json_schema": SCHEMA,
        "metadata": {
            "topic": rng.choice(WORDS),
            "difficulty": rng.randrange(1, 6),
            "final_output": {"mode": "contains"},
        },
    }
    return {**definition, "trace": list(trace(random.Random(f"{variant}/{position}"), order))}


def trace(rng: random.Random, order: str) -> Iterator[dict[str, Any]]:
    """A user's question, nine tool calls with their results, and the answer."""
    fails = rng.random() < 0.05
    seconds = rng.randrange(3600)

    def event(idx: int, actor: str, kind: str, **more: Any) -> dict[str, Any]:
        minute, second = divmod(seconds + idx, 60)
        stamp = f"2026-05-04T09:{minute % 60:02d}:{second:02d}Z"
        return {"idx": idx, "ts": stamp, "actor": actor, "type": kind, **more}

    yield event(0, "user", "message", input=sentence(rng, 16))
    for step in range((EVENTS - 2) // 2):
        tool = "lookup_order" if step == 0 else rng.choice(TOOLS)
        arguments = {
            "order_id": order,
            "region": "eu",
            "amount": rng.randrange(500),
            "note": sentence(rng, 2),
        }
        if fails and step == 4:
            tool = "delete_order"
        result = {
            "order_id": order,
            "line": sentence(rng, 3),
            "total": rng.randrange(900) / 4,
        }
        call_id = f"call-{step}"
        attributes = {"gen_ai.request.model": "demo-model", "gen_ai.usage.input_tokens": rng.randrange(900)}
        yield event(
            1 + 2 * step,
            "agent",
            "tool_call",
            tool=tool,
            call_id=call_id,
            input=arguments,
            attributes=attributes,
        )
        yield event(
            2 + 2 * step,
            "tool",
            "tool_result",
            tool=tool,
            call_id=call_id,
            output=result,
            latency_ms=rng.randrange(90),
        )
    answer = {
        "order_id": order,
        "status": rng.choice(["shipped", "refunded", "delayed"]),
        "total": rng.randrange(900) / 4,
    }
    yield event(EVENTS - 1, "agent", "message", output={**answer, "notes": [sentence(rng, 12)]})


def write_suite(path: Path, cases: int, *, variant: int = 0) -> None:
    """Write a suite of `cases` cases as `.jsonl` or `.json`, by the name of the file."""
    header = {"dataset_id": "benchmark", "metadata": {"schema_version": "1.1.0"}}
    with path.open("w", encoding="utf-8") as file:
        if path.suffix == ".jsonl":
            file.write(json.dumps(header) + "\n")
            for position in range(cases):
                file.write(json.dumps(case(position, variant)) + "\n")
        else:
            file.write(json.dumps(header)[:-1] + ', "cases": [\n')
            for position in range(cases):
                file.write(json.dumps(case(position, variant)) + (",\n" if position + 1 < cases else "\n"))
            file.write("]}\n")


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--cases", type=int, default=10_000)
    parser.add_argument("--variant", type=int, default=0)
    parser.add_argument("--out", type=Path, required=True)
    options = parser.parse_args()
    write_suite(options.out, options.cases, variant=options.variant)


if __name__ == "__main__":
    main()
