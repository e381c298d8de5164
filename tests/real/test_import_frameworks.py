"""Real exports of frameworks are imported whole: counts of the raw files equal what the suite holds."""

import json
import re
from pathlib import Path
from typing import Any

import pytest

from tests.extent import amount
from tests.shared_data import shared_path
from tests.unit.importers.importing import FRAMEWORK, contract_problems, imported, silent_losses

FORMATS = "data/formats"
CUTS = amount(5, 40, 200)
FILES = {
    "langgraph": (
        *("astream_events_v2.jsonl", "messages_lc_dumps.json", "messages_model_dump.json"),
        *("messages_openai.json", "messages_to_dict.json", "run_tree_langsmith_shape.json"),
        *("state_history.json", "state_snapshot.json", "stream_debug.jsonl", "stream_messages.jsonl"),
        *("stream_tasks.jsonl", "stream_updates.jsonl", "stream_values.jsonl"),
    ),
    "openai_agents": (
        *("run_result_to_input_list.json", "trace_guardrail_tripped.json"),
        *("trace_handoff_tools_guardrail.json", "trace_streamed.json"),
    ),
    "autogen": (
        *("v02_chat_history.json", "v02_chat_messages_assistant_view.json", "v02_chatresult.json"),
        *("v04_agent_save_state.json", "v04_swarm_run_stream.jsonl", "v04_taskresult_model_dump.json"),
        "v04_team_save_state.json",
    ),
    "crewai": ("crew_output_model_dump.json", "event_bus_events.jsonl", "output_log_file.json"),
    "semantic_kernel": (
        *("chat_history_messages_to_dict.json", "chat_history_model_dump.json"),
        "chat_history_serialize.json",
    ),
}
ALL = [f"{framework}/{name}" for framework, names in FILES.items() for name in names]
TOKENS = {
    "langgraph": ("usage_metadata", "input_tokens", "output_tokens"),
    "autogen": ("models_usage", "prompt_tokens", "completion_tokens"),
    "semantic_kernel": ("usage", "prompt_tokens", "completion_tokens"),
    "openai_agents": ("usage", "input_tokens", "output_tokens"),
    "crewai": ("usage", "prompt_tokens", "completion_tokens"),
}
"""Where each framework states the tokens of an answer."""


def documents(path: Path) -> list[Any]:
    text = path.read_text(encoding="utf-8")
    if path.suffix == ".jsonl":
        return [json.loads(line) for line in text.split("\n") if line.strip()]
    return [json.loads(text)]


def owners(node: Any, key: str) -> list[tuple[Any, dict[str, Any]]]:
    """Every object that has `key` as an object, with an id that tells repetitions."""
    if isinstance(node, list):
        return [found for inner in node for found in owners(inner, key)]
    if not isinstance(node, dict):
        return []
    own = [(json.dumps(node.get("id")), node[key])] if isinstance(node.get(key), dict) else []
    return own + [found for inner in node.values() for found in owners(inner, key)]


@pytest.mark.parametrize("name", ALL)
def test_every_call_is_there_once_with_its_result(name: str, tmp_path: Path) -> None:
    path = shared_path(f"{FORMATS}/{name}")
    ids = set(re.findall(r"call_0{10,}\d+", path.read_text(encoding="utf-8")))
    result = imported(FRAMEWORK, path, tmp_path, strict=True)
    assert result.formats == {name.partition("/")[0]}
    assert len(result.cases) == 1
    assert sorted(event["call_id"] for event in result.of("tool_call")) == sorted(ids)
    assert sorted(event["call_id"] for event in result.of("tool_result")) == sorted(ids)
    assert len(result.traces) == 1
    assert all(pair.call is not None and pair.result is not None for pair in result.pairs)
    # Each of these runs asks for the weather of two cities, and is answered for one.
    arguments = [event["input"] for event in result.of("tool_call") if event["tool"].endswith("get_weather")]
    assert arguments == [{"city": "Paris"}, {"city": "Atlantis"}] * (len(arguments) // 2)
    if ids:
        assert result.events[-1]["type"] in ("message", "model_call")
        assert "TERMINATE" in str(result.of("message")[-1]["output"])


@pytest.mark.parametrize("name", [name for name in ALL if not name.startswith("langgraph/messages_openai")])
def test_the_tokens_of_each_answer_count_once(name: str, tmp_path: Path) -> None:
    framework = name.partition("/")[0]
    key, read, written = TOKENS[framework]
    path = shared_path(f"{FORMATS}/{name}")
    found = [owner for document in documents(path) for owner in owners(document, key)]
    if framework == "openai_agents":
        # The steps around an answer repeat its tokens, and those of a streamed one are in its response too.
        exports = [document for document in documents(path) if isinstance(document, dict)]
        spans = [(item["id"], item.get("span_data", {})) for each in exports for item in each["data"]]
        found = [(span, data["usage"]) for span, data in spans if data.get("type") == "generation"]
    if framework == "langgraph" and "messages" in name and name.endswith("jsonl"):
        usages = [usage for _, usage in found]  # fragments, each with its part
    else:
        usages = list(dict(found).values())
    if framework in ("semantic_kernel", "crewai"):
        usages = [usage for _, usage in found]
    result = imported(FRAMEWORK, path, tmp_path)
    if name.endswith(("v02_chatresult.json", "crew_output_model_dump.json")):
        totals = documents(path)[0]
        cost = totals.get("token_usage") or totals["cost"]["usage_including_cached_inference"]
        of_models = [each for each in cost.values() if isinstance(each, dict)]
        usages = [cost] if "prompt_tokens" in cost else of_models
    assert result.tokens("input_tokens") == sum(usage[read] for usage in usages if usage.get(read))
    assert result.tokens("output_tokens") == sum(usage[written] for usage in usages if usage.get(written))


@pytest.mark.parametrize(
    ("name", "errors"),
    [
        ("openai_agents/trace_handoff_tools_guardrail.json", 1),
        ("autogen/v02_chatresult.json", 1),
        ("autogen/v04_taskresult_model_dump.json", 1),
        ("autogen/v04_team_save_state.json", 1),
        ("crewai/crew_output_model_dump.json", 2),
        ("crewai/event_bus_events.jsonl", 2),
        ("semantic_kernel/chat_history_serialize.json", 1),
    ],
)
def test_a_tool_that_failed_is_an_error(name: str, errors: int, tmp_path: Path) -> None:
    result = imported(FRAMEWORK, shared_path(f"{FORMATS}/{name}"), tmp_path)
    assert sum("error" in event for event in result.of("tool_result")) == errors


def test_a_tripped_guardrail_blocks_and_names_itself(tmp_path: Path) -> None:
    path = shared_path(f"{FORMATS}/openai_agents/trace_guardrail_tripped.json")
    (guardrail,) = imported(FRAMEWORK, path, tmp_path).events
    assert (guardrail["type"], guardrail["block_reason"]) == ("guardrail", "block")


@pytest.mark.parametrize("name", ALL)
def test_the_trace_can_be_judged_and_nothing_of_a_cut_file_lost_unsaid(name: str, tmp_path: Path) -> None:
    path = shared_path(f"{FORMATS}/{name}")
    assert contract_problems(imported(FRAMEWORK, path, tmp_path)) == []
    assert silent_losses(FRAMEWORK, path, tmp_path, cuts=CUTS, whole=lambda read: read.counts) == []
