"""Real traces are imported whole: counts made from the raw files equal what the suite holds."""

import json
import re
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from tests.extent import amount
from tests.shared_data import shared_path
from tests.unit.importers.importing import TRANSCRIPT, contract_problems, imported, silent_losses

FORMATS = "data/formats"
CUTS = amount(6, 40, 200)
FILES = (
    "otel_genai/otlp_logs_openai_v2.json", "otel_genai/otlp_traces_openai_v2.json",
    "otel_genai/otlp_traces_openinference.json", "otel_genai/otlp_traces_otel_no_content.json",
    "otel_spans/adk_live_spans.json", "otel_spans/claude_adot_spans.json",
    "otel_spans/openai_agents_genai_adot_spans.json",
    "otel_spans/openai_agents_openinference_adot_spans.json", "otel_spans/openinference_adot_spans.json",
    "otel_spans/otel_genai_convention_spans.json", "otel_spans/smolagents_live_spans.json",
)  # fmt: skip


def raw_spans(path: Path) -> list[dict[str, Any]]:
    """Name and attributes of each span and log record, by another way than the importer's."""
    value = json.loads(path.read_text(encoding="utf-8"))
    found: list[dict[str, Any]] = []

    def walk(node: Any) -> None:
        if isinstance(node, list):
            for inner in node:
                walk(inner)
        elif isinstance(node, dict):
            attributes = node.get("attributes")
            if isinstance(attributes, list) and ("spanId" in node):
                flat = {pair["key"]: next(iter(pair["value"].values()), None) for pair in attributes}
                found.append({**node, "attributes": flat})
            elif isinstance(attributes, dict) and "span_id" in node and "start_time" in node:
                found.append(node)
                return
            for inner in node.values():
                walk(inner)

    walk(value)
    return found


def is_tool(span: dict[str, Any]) -> bool:
    attributes, name = span["attributes"], span.get("name", "")
    kind = attributes.get("openinference.span.kind")
    operation = attributes.get("gen_ai.operation.name")
    return operation == "execute_tool" or (kind == "TOOL" and not name.startswith("handoff"))


def is_model(span: dict[str, Any]) -> bool:
    attributes = span["attributes"]
    kind, operation = attributes.get("openinference.span.kind"), attributes.get("gen_ai.operation.name")
    return kind == "LLM" or operation in ("chat", "generate_content")


def tokens(spans: list[dict[str, Any]], kind: str) -> int:
    other = {"input": "prompt", "output": "completion"}[kind]
    stated = [span["attributes"] for span in spans if is_model(span)]
    return sum(
        int(each.get(f"gen_ai.usage.{kind}_tokens", each.get(f"llm.token_count.{other}", 0)))
        for each in stated
    )


@pytest.mark.parametrize("name", FILES)
def test_every_tool_span_is_a_call_with_its_result_and_no_token_is_lost(name: str, tmp_path: Path) -> None:
    path = shared_path(f"{FORMATS}/{name}")
    spans = raw_spans(path)
    result = imported(TRANSCRIPT, path, tmp_path)
    assert spans
    of_tools = [span["attributes"] for span in spans if is_tool(span)]
    by_tool = Counter(each.get("gen_ai.tool.name") or each.get("tool.name") for each in of_tools)
    calls = [event["tool"] for event in result.of("tool_call")]
    assert {tool: calls.count(tool) for tool in by_tool} == by_tool
    if any(is_model(span) for span in spans):
        assert result.tokens("input_tokens") == tokens(spans, "input")
        assert result.tokens("output_tokens") == tokens(spans, "output")
    assert all(pair.call is not None for pair in result.pairs)
    assert {entry["severity"] for entry in result.diagnostics} <= {"note", "changed"}


@pytest.mark.parametrize("name", [name for name in FILES if "no_content" not in name])
def test_every_call_id_of_the_file_is_there_once(name: str, tmp_path: Path) -> None:
    path = shared_path(f"{FORMATS}/{name}")
    raw = path.read_text(encoding="utf-8")
    # By OpenAI, Anthropic and this data's own names; the answers of one file are texts of a representation.
    ids = set(re.findall(r"\b(call_\w{6,}|toolu_\w+|tc_\d+|uwpsprd2)\b", raw))
    calls = imported(TRANSCRIPT, path, tmp_path).of("tool_call")
    found = [event["call_id"] for event in calls if "call_id" in event]
    assert len(found) == len(set(found))
    if "openai_agents_genai" not in name and "smolagents" not in name:
        assert set(found) == ids


def test_the_order_of_answers_and_results_is_that_of_time(tmp_path: Path) -> None:
    path = shared_path(f"{FORMATS}/otel_spans/openai_agents_openinference_adot_spans.json")
    result = imported(TRANSCRIPT, path, tmp_path)
    kinds = [event["type"] for event in result.events]
    assert kinds == [
        *("message", "message", "tool_call", "tool_call", "handoff", "message"),
        *("tool_result", "tool_result", "tool_call", "tool_result", "message"),
    ]


def test_a_sub_agents_steps_come_between_the_call_and_its_result(tmp_path: Path) -> None:
    path = shared_path(f"{FORMATS}/otel_spans/claude_adot_spans.json")
    result = imported(TRANSCRIPT, path, tmp_path)
    order = [(event["type"], event.get("call_id", "")[-4:]) for event in result.events if "call_id" in event]
    outer = {event["call_id"][-4:] for event in result.of("tool_call") if event["tool"] == "Agent"}
    for call_id in outer:
        start, end = order.index(("tool_call", call_id)), order.index(("tool_result", call_id))
        assert any(kind == "tool_call" and name not in outer for kind, name in order[start:end])


@pytest.mark.parametrize("name", FILES)
def test_the_trace_can_be_judged_and_nothing_of_a_cut_file_lost_unsaid(name: str, tmp_path: Path) -> None:
    path = shared_path(f"{FORMATS}/{name}")
    assert contract_problems(imported(TRANSCRIPT, path, tmp_path)) == []
    assert silent_losses(TRANSCRIPT, path, tmp_path, cuts=CUTS, whole=lambda read: read.counts) == []
