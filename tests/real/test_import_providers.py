"""Recorded traffic of every provider: what the import holds equals an independent count of the raw file."""

import json
import random
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from agent_eval.contracts import Case
from agent_eval.errors import AgentEvalError
from agent_eval.operations.import_traces import ImportRequest, import_traces
from agent_eval.suites.reader import load_suite
from tests.extent import amount
from tests.shared_data import shared_path

Counts = dict[str, Any]


def imported(path: Path, home: Path) -> list[Case]:
    out = home / "suite.jsonl"
    result = import_traces(ImportRequest((path,), out, "provider", strict=True))
    assert set(result.diagnostics.counts) <= {"note"}
    return load_suite(out).cases


def counts_of(cases: list[Case]) -> Counts:
    """What an import holds, in the terms of the counts below."""
    events = [event for case in cases for event in case.trace]
    own = [event for event in events if event.ran_on is None]
    usage = [event.usage for event in events if event.usage]
    assert all(pair.call for case in cases for pair in case.recorded.calls), "a result without its call"
    return {
        "calls": sorted(call(event.tool, event.input) for event in own if event.type == "tool_call"),
        "results": sorted(
            json.dumps(event.output, sort_keys=True) for event in own if event.type == "tool_result"
        ),
        "hosted": sum(event.type == "tool_call" and event.ran_on is not None for event in events),
        "user": [event.input for event in events if event.role == "user"],
        "answers": sorted(str(event.output) for event in events if event.is_message and event.output),
        "responses": len({event.attributes.get("gen_ai.response.id") for event in events} - {None}),
        "input_tokens": sum(int(tokens.input_tokens or 0) for tokens in usage),
        "output_tokens": sum(int(tokens.output_tokens or 0) for tokens in usage),
        "errors": sum(event.error is not None for event in events),
    }


def exchanges(path: Path) -> list[dict[str, Any]]:
    return list(json.loads(path.read_text("utf-8")))


def datas(stream: str) -> Iterator[dict[str, Any]]:
    """The JSON of a recorded event stream, read without the importer's reader."""
    for line in stream.splitlines():
        if line.startswith("data: {"):
            yield json.loads(line.removeprefix("data: "))


def call(name: Any, arguments: Any) -> str:
    return json.dumps([name, arguments], sort_keys=True)


def texts(content: Any) -> str:
    return content if isinstance(content, str) else "".join(part.get("text", "") for part in content)


def of_chat(records: list[dict[str, Any]]) -> Counts:
    """Counts of Chat Completions: the last request has everything but the last answer."""
    messages = records[-1]["request"]["messages"] + [records[-1]["response"]["choices"][0]["message"]]
    calls = [made for message in messages for made in message.get("tool_calls") or []]
    functions = [made["function"] for made in calls]
    usage = [record["response"]["usage"] for record in records]
    answers = [each["content"] for each in messages if each["role"] == "assistant" and each.get("content")]
    return {
        "calls": sorted(call(each["name"], json.loads(each["arguments"])) for each in functions),
        "results": sorted(json.dumps(each["content"]) for each in messages if each["role"] == "tool"),
        "hosted": 0,
        "user": [texts(message["content"]) for message in messages if message["role"] == "user"],
        "answers": sorted(answers),
        "responses": len({record["response"]["id"] for record in records}),
        "input_tokens": sum(tokens["prompt_tokens"] for tokens in usage),
        "output_tokens": sum(tokens["completion_tokens"] for tokens in usage),
        "errors": 0,
    }


def body_of(record: dict[str, Any]) -> dict[str, Any]:
    answer = record["response"]
    if isinstance(answer, str):
        return next(data["response"] for data in datas(answer) if data["type"] == "response.completed")
    return dict(answer)


def of_responses(records: list[dict[str, Any]]) -> Counts:
    bodies = [body_of(record) for record in records]
    ended = [body for body in bodies if body.get("status") in (None, "completed")]
    whole = {body["id"]: body for body in ended if "output" in body}
    output = [item for body in whole.values() for item in body["output"]]
    calls = [item for item in output if item["type"] == "function_call"]
    said = [item for item in output if item["type"] == "message" and item["role"] == "assistant"]
    inputs = records[-1]["request"]["input"] if records[-1]["request"] else records[-3]["request"]["input"]
    usage = [body["usage"] for body in whole.values()]
    return {
        "calls": sorted(call(item["name"], json.loads(item["arguments"])) for item in calls),
        "results": sorted(
            json.dumps(item["output"]) for item in inputs if item.get("type") == "function_call_output"
        ),
        "hosted": sum(item["type"] == "web_search_call" for item in output),
        "user": [texts(item["content"]) for item in inputs if item.get("role") == "user"],
        "answers": sorted(texts(item["content"]) for item in said),
        "responses": len(whole),
        "input_tokens": sum(tokens["input_tokens"] for tokens in usage),
        "output_tokens": sum(tokens["output_tokens"] for tokens in usage),
        "errors": sum("error" in body and body.get("id") is None for body in bodies),
    }


def message_of(record: dict[str, Any]) -> dict[str, Any]:
    if isinstance(record["response"], dict):
        return dict(record["response"])
    found = list(datas(record["response"]))
    blocks: dict[int, dict[str, Any]] = {
        data["index"]: dict(data["content_block"]) for data in found if data["type"] == "content_block_start"
    }
    for data in found:
        if data["type"] == "content_block_delta" and data["delta"]["type"] == "text_delta":
            blocks[data["index"]]["text"] += data["delta"]["text"]
    usage = next(data["message"]["usage"] for data in found if data["type"] == "message_start")
    usage |= next(data["usage"] for data in found if data["type"] == "message_delta")
    first = next(data["message"] for data in found if data["type"] == "message_start")
    return {**first, "content": list(blocks.values()), "usage": usage}


def of_anthropic(records: list[dict[str, Any]]) -> Counts:
    bodies = [message_of(record) for record in records]
    blocks = [block for body in bodies for block in body["content"]]
    asked = {json.dumps(message) for record in records for message in record["request"]["messages"]}
    requests = [message for message in map(json.loads, asked) if message["role"] == "user"]
    parts = [part for message in requests for part in message["content"]]
    totals = [usage for body in bodies for usage in usages(body["usage"])]
    return {
        "calls": sorted(call(each["name"], each["input"]) for each in blocks if each["type"] == "tool_use"),
        "results": sorted(json.dumps(part["content"]) for part in parts if part["type"] == "tool_result"),
        "hosted": sum(block["type"] in ("server_tool_use", "mcp_tool_use") for block in blocks),
        "user": sorted(part["text"] for part in parts if part["type"] == "text"),
        "answers": sorted(block["text"] for block in blocks if block["type"] == "text"),
        "responses": len({body["id"] for body in bodies}),
        "input_tokens": sum(
            usage["input_tokens"] + usage["cache_read_input_tokens"] + usage["cache_creation_input_tokens"]
            for usage in totals
        ),
        "output_tokens": sum(usage["output_tokens"] for usage in totals),
        "errors": sum(
            isinstance(block.get("content"), dict) and "error_code" in block["content"] for block in blocks
        )
        + sum(part.get("is_error", False) for part in parts),
    }


def usages(usage: dict[str, Any]) -> list[dict[str, Any]]:
    """The usage of an answer, and that of other models in it, which it leaves out."""
    return [usage, *(step for step in usage.get("iterations", []) if step["type"] != "message")]


def of_gemini(records: list[dict[str, Any]]) -> Counts:
    said = [record["response"] for record in records]
    chunks = [list(datas(each)) if isinstance(each, str) else [each] for each in said]
    answers = [
        [part for chunk in answer for candidate in chunk["candidates"] for part in parts_of(candidate)]
        for answer in chunks
    ]
    contents = records[-1]["request"]["contents"]
    asked = [part for content in contents if content["role"] == "user" for part in content["parts"]]
    usage = [answer[-1]["usageMetadata"] for answer in chunks]
    made = [part["functionCall"] for answer in answers for part in answer if "functionCall" in part]
    grounded = [candidate for answer in chunks for chunk in answer for candidate in chunk["candidates"]]
    results = [part["functionResponse"]["response"] for part in asked if "functionResponse" in part]
    return {
        "calls": sorted(call(function["name"], function["args"]) for function in made),
        "results": sorted(json.dumps(result, sort_keys=True) for result in results),
        "hosted": sum("groundingMetadata" in candidate for candidate in grounded),
        "user": [part["text"] for part in asked if "text" in part],
        "answers": sorted(
            filter(None, ("".join(part.get("text", "") for part in answer) for answer in answers))
        ),
        "responses": len({chunk["responseId"] for answer in chunks for chunk in answer}),
        "input_tokens": sum(tokens["promptTokenCount"] for tokens in usage),
        "output_tokens": sum(
            tokens.get("candidatesTokenCount", 0) + tokens.get("thoughtsTokenCount", 0) for tokens in usage
        ),
        "errors": sum("error" in result for result in results),
    }


def parts_of(candidate: dict[str, Any]) -> list[dict[str, Any]]:
    return list(candidate.get("content", {}).get("parts", []))


COUNTERS: dict[str, Callable[[list[dict[str, Any]]], Counts]] = {
    "openai_chat": of_chat, "openai_responses": of_responses, "anthropic": of_anthropic, "vertex": of_gemini,
}  # fmt: skip


def files(folder: str) -> list[Path]:
    return sorted(shared_path(f"data/formats/{folder}").glob("*.json"))


@pytest.mark.parametrize("folder", COUNTERS)
def test_every_recorded_file_is_imported_whole(folder, tmp_path):
    paths = files(folder)
    assert paths
    for path in paths:
        held = counts_of(imported(path, tmp_path))
        counted = COUNTERS[folder](exchanges(path))
        held["user"], counted["user"] = sorted(held["user"]), sorted(counted["user"])
        assert held == counted, path.name


def test_every_file_of_a_folder_can_be_imported_at_once(tmp_path):
    for folder in COUNTERS:
        cases = imported(shared_path(f"data/formats/{folder}"), tmp_path)
        alone = sum(len(imported(path, tmp_path)) for path in files(folder))
        assert len(cases) == alone


def test_adk_sessions_hold_every_part_and_token(tmp_path):
    for path in files("adk"):
        raw = json.loads(path.read_text("utf-8"))
        if "events" not in raw:
            continue
        (case,) = imported(path, tmp_path)
        parts = [part for event in raw["events"] for part in event["content"]["parts"]]
        usage = [log["model_response"]["usage_metadata"] for log in raw["event_logs"]]
        for kind, word in (("tool_call", "function_call"), ("tool_result", "function_response")):
            assert sum(event.type == kind for event in case.trace) == sum(word in part for part in parts)
        texts = [part["text"] for part in parts if "text" in part]
        assert [event.content for event in case.trace if event.type == "message"] == texts
        spent = sum(event.usage.output_tokens for event in case.trace if event.usage)
        assert spent == sum(tokens["candidates_token_count"] for tokens in usage)
        authors = {event["author"] for event in raw["events"]}
        assert {event.agent for event in case.trace if event.is_agent} == authors - {"user"}


def test_adk_evaluation_sets_hold_every_turn_and_expectation(tmp_path):
    for path in files("adk"):
        raw = json.loads(path.read_text("utf-8"))
        if "eval_cases" not in raw:
            continue
        cases = imported(path, tmp_path)
        assert [case.case_id for case in cases] == [stated["eval_id"] for stated in raw["eval_cases"]]
        turns = [turn for case in cases for turn in case.turns]
        stated = [turn for case in raw["eval_cases"] for turn in case["conversation"]]
        assert [turn.input for turn in turns] == [turn["user_content"]["parts"][0]["text"] for turn in stated]
        texts = [turn["final_response"]["parts"][0]["text"] for turn in stated]
        assert [turn.expected_output for turn in turns] == texts
        uses = [[use["args"] for use in turn["intermediate_data"]["tool_uses"]] for turn in stated]
        assert [[made.arguments for made in turn.expected_tool_calls] for turn in turns] == uses


def test_foundry_datasets_hold_every_row(tmp_path):
    for path in files("foundry"):
        raw = json.loads(path.read_text("utf-8"))
        cases = imported(path, tmp_path)
        assert [case.input for case in cases] == [row["query"] for row in raw["data"]]
        assert [case.expected_output for case in cases] == [row.get("ground_truth") for row in raw["data"]]
        assert len({case.case_id for case in cases}) == len(cases)


@pytest.mark.parametrize("folder", [*COUNTERS, "adk", "foundry"])
def test_every_recorded_file_that_is_cut_off_is_refused_or_reported(folder, tmp_path):
    for path in files(folder):
        data, chance = path.read_bytes().rstrip(), random.Random(path.name)
        for position in [chance.randrange(1, len(data)) for _ in range(amount(3, 40, 200))]:
            source = tmp_path / path.name
            source.write_bytes(data[:position])
            try:
                result = import_traces(ImportRequest((source,), tmp_path / "suite.jsonl", "provider"))
            except AgentEvalError:
                continue
            assert result.diagnostics.counts.get("lost"), (path.name, position)
