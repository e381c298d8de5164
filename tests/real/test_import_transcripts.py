"""Real sessions and logs are imported whole: counts made from the raw files equal what the suite holds."""

import gzip
import json
import zipfile
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from agent_eval.contracts import Case, Trace
from agent_eval.errors import NothingMeasured
from agent_eval.judges.builtin.recorded import RecordedJudge
from tests.extent import amount
from tests.shared_data import shared_path
from tests.unit.importers.importing import TRANSCRIPT, Result, contract_problems, imported, silent_losses

FORMATS = "data/formats"
CUTS = amount(8, 40, 200)
FILES = (
    "claude_code/coverage-test-fix.jsonl", "claude_code/strands_claude_code_skill_tool.json",
    "codex/strands_codex_exec_json.json", "swe_agent/demonstrations__function_calling_simple.traj",
    "inspect/2024-11-05T13-31-45-05-00_input-task_8zXjbRzCWrL9GXiXo2vus9.json",
    "inspect/2025-05-12T20-28-26-04-00_security-guide.json", "inspect/log_formats.json",
    "inspect/log_message_deduplication.eval",
)  # fmt: skip


def counts(result: Result) -> dict[str, Any]:
    return {
        "calls": len(result.of("tool_call")),
        "results": len(result.of("tool_result")),
        "errors": sum("error" in event for event in result.of("tool_result")),
        "messages": Counter(event["actor"] for event in result.of("message")),
        "ids": {event["call_id"] for event in result.of("tool_call") if "call_id" in event},
    }


def column(result: Result, kind: str, key: str) -> list[Any]:
    return [event[key] for event in result.of(kind)]


def paired(result: Result) -> bool:
    return all(pair.call is not None for pair in result.pairs)


def test_a_session_of_claude_code_is_imported_whole(tmp_path: Path) -> None:
    path = shared_path(f"{FORMATS}/claude_code/coverage-test-fix.jsonl")
    lines = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    said = [line for line in lines if line["type"] in ("user", "assistant")]
    blocks = [
        (line, block)
        for line in said
        for block in (line["message"]["content"] if isinstance(line["message"]["content"], list) else [])
    ]
    texts = [line for line in said if isinstance(line["message"]["content"], str)]
    usage = {line["message"]["id"]: line["message"]["usage"] for line in said if line["type"] == "assistant"}
    result = imported(TRANSCRIPT, path, tmp_path)
    found = counts(result)
    assert found["calls"] == sum(block["type"] == "tool_use" for _, block in blocks)
    assert found["results"] == sum(block["type"] == "tool_result" for _, block in blocks)
    assert found["errors"] == sum(block.get("is_error") is True for _, block in blocks)
    assert found["ids"] == {block["id"] for _, block in blocks if block["type"] == "tool_use"}
    assert found["messages"]["agent"] == sum(block["type"] == "text" for _, block in blocks)
    assert found["messages"]["user"] == sum(not line.get("isMeta") for line in texts)
    assert found["messages"]["system"] == sum(bool(line.get("isMeta")) for line in texts)
    assert result.tokens("output_tokens") == sum(one["output_tokens"] for one in usage.values())
    assert result.tokens("input_tokens") == sum(
        one["input_tokens"] + one["cache_read_input_tokens"] + one["cache_creation_input_tokens"]
        for one in usage.values()
    )
    assert (len(result.cases), paired(result), result.diagnostics) == (1, True, [])


def test_events_of_codex_are_imported_whole(tmp_path: Path) -> None:
    path = shared_path(f"{FORMATS}/codex/strands_codex_exec_json.json")
    events = json.loads(path.read_text(encoding="utf-8"))["events"]
    done = [event["item"] for event in events if event["type"] == "item.completed"]
    result = imported(TRANSCRIPT, path, tmp_path)
    commands = [item for item in done if item["type"] == "command_execution"]
    asked = [each["command"] for each in column(result, "tool_call", "input")]
    assert asked == [item["command"] for item in commands]
    assert column(result, "tool_result", "output") == [item["aggregated_output"] for item in commands]
    texts = [item["text"] for item in done if item["type"] == "agent_message"]
    assert column(result, "message", "output") == texts


@pytest.mark.parametrize("name", ["demonstrations__function_calling_simple", "replay__marshmallow"])
def test_a_trajectory_of_swe_agent_is_imported_whole(name: str, tmp_path: Path) -> None:
    (path,) = (path for path in shared_path(f"{FORMATS}/swe_agent").iterdir() if path.name.startswith(name))
    document = json.loads(path.read_text(encoding="utf-8"))
    history, submitted = document["history"], bool(document.get("info", {}).get("submission"))
    calls = [call for message in history for call in message.get("tool_calls") or []]
    result = imported(TRANSCRIPT, path, tmp_path)
    arguments = [json.loads(call["function"]["arguments"]) for call in calls]
    assert column(result, "tool_call", "input") == arguments
    assert column(result, "tool_call", "call_id") == [call["id"] for call in calls]
    answered = [message for message in history if message.get("tool_call_ids")]
    assert [event["output"] for event in result.of("tool_result")] == [each["content"] for each in answered]
    roles = Counter(message["role"] for message in history)
    found = counts(result)["messages"]
    assert (found["system"], found["agent"]) == (roles["system"], roles["assistant"] + submitted)
    assert paired(result)


def _samples(path: Path) -> list[dict[str, Any]]:
    if path.suffix == ".json":
        return json.loads(path.read_text(encoding="utf-8"))["samples"]  # type: ignore[no-any-return]
    with zipfile.ZipFile(path) as archive:
        return [json.loads(archive.read(name)) for name in archive.namelist() if name.startswith("samples/")]


@pytest.mark.parametrize("name", [name for name in FILES if name.startswith("inspect/")])
def test_a_log_of_inspect_is_imported_whole_with_its_scores_and_targets(name: str, tmp_path: Path) -> None:
    path = shared_path(f"{FORMATS}/{name}")
    samples = _samples(path)
    result = imported(TRANSCRIPT, path, tmp_path)
    messages = [message for sample in samples for message in sample["messages"]]
    assert [case["case_id"] for case in result.cases] == [str(sample["id"]) for sample in samples]
    targets = [sample["target"] or None for sample in samples]
    assert [case.get("expected_output") for case in result.cases] == targets
    recorded = [case["metadata"]["recorded_verdicts"].keys() for case in result.cases]
    assert recorded == [sample["scores"].keys() for sample in samples]
    calls = [call for message in messages for call in message.get("tool_calls") or []]
    assert column(result, "tool_call", "input") == [call["arguments"] for call in calls]
    assert len(result.of("tool_result")) == sum(message["role"] == "tool" for message in messages)
    assert len(result.of("message", "user")) == sum(message["role"] == "user" for message in messages)
    said = [each["content"] for each in messages if each["role"] == "assistant" and each["content"]]
    assert len(result.of("message", "agent")) == len(said)
    assert not any("attachment://" in json.dumps(event) for event in result.events)
    assert paired(result)


def test_the_tokens_of_inspect_are_those_of_the_agents_answers(tmp_path: Path) -> None:
    path = shared_path(f"{FORMATS}/inspect/2025-05-12T20-28-26-04-00_security-guide.json")
    result = imported(TRANSCRIPT, path, tmp_path)
    samples = _samples(path)
    # The model that grades is asked as well, but is not the agent.
    assert result.tokens("output_tokens") == sum(each["output"]["usage"]["output_tokens"] for each in samples)


def _rows(name: str) -> list[dict[str, Any]]:
    with gzip.open(shared_path(f"data/datasets/{name}.jsonl.gz"), "rt", encoding="utf-8") as lines:
        return [json.loads(line) for line in lines]


def test_tau_bench_is_imported_whole(tmp_path: Path) -> None:
    rows = _rows("tau-bench-gpt-4o-airline")
    path = shared_path("data/datasets/tau-bench-gpt-4o-airline.jsonl.gz")
    result = imported(TRANSCRIPT, path, tmp_path)
    messages = [message for row in rows for message in row["traj"]]
    found = counts(result)
    assert (len(result.cases), len(result.traces)) == (50, 200)
    assert found["calls"] == sum(len(message.get("tool_calls") or []) for message in messages) == 1164
    assert found["results"] == sum(message["role"] == "tool" for message in messages) == 1164
    wrong = [message for message in messages if message["role"] == "tool"]
    assert found["errors"] == sum(message["content"].startswith("Error") for message in wrong) == 73
    assert found["messages"]["user"] == sum(message["role"] == "user" for message in messages)
    said = [each for each in messages if each["role"] == "assistant" and each["content"]]
    assert found["messages"]["agent"] == len(said)
    assert paired(result)
    assert [entry for entry in result.diagnostics if entry["severity"] != "note"] == []
    cases = [Case.model_validate(case) for case in result.cases]
    trials = [(case.case_id, number, case.of_trial(number)) for case in cases for number in range(4)]
    judge = RecordedJudge()
    passed = {(name, number): judge.evaluate(trial, Trace([])).passed for name, number, trial in trials}
    assert passed == {(str(row["task_id"]), row["trial"]): row["reward"] == 1.0 for row in rows}


@pytest.mark.parametrize("name", ["agentdojo-gpt-4o-2024-05-13", "agentdojo-gpt-4o-mini-2024-07-18"])
def test_agentdojo_is_imported_whole(name: str, tmp_path: Path) -> None:
    rows = _rows(name)
    result = imported(TRANSCRIPT, shared_path(f"data/datasets/{name}.jsonl.gz"), tmp_path)
    messages = [message for row in rows for message in row["messages"]]
    found = counts(result)
    assert len(result.cases) == len({case["case_id"] for case in result.cases}) == len(rows) == 753
    assert found["calls"] == sum(len(message.get("tool_calls") or []) for message in messages)
    assert found["results"] == sum(message["role"] == "tool" for message in messages)
    assert found["errors"] == sum(bool(message.get("error")) for message in messages)
    assert paired(result)
    assert result.diagnostics == []
    verdicts = [case["metadata"]["recorded_verdicts"] for case in result.cases]
    assert [verdict["utility"]["passed"] for verdict in verdicts] == [row["utility"] for row in rows]
    attacked = [pair for pair in zip(rows, verdicts, strict=True) if pair[0]["injection_task_id"]]
    assert len(attacked) == sum("security" in verdict for verdict in verdicts) == 629
    assert all(verdict["security"]["passed"] is not row["security"] for row, verdict in attacked)


def test_a_specification_of_spans_without_any_answer_is_no_log_and_refused(tmp_path: Path) -> None:
    path = shared_path(f"{FORMATS}/inspect/parallel_spans.json")
    events = json.loads(path.read_bytes())["events"]
    assert [event["output"] for event in events if event["event"] == "model"] == [{}, {}]
    with pytest.raises(NothingMeasured, match=r"parallel_spans\.json: is not of .*inspect"):
        imported(TRANSCRIPT, path, tmp_path)


@pytest.mark.parametrize("name", FILES)
def test_the_trace_can_be_judged_and_nothing_of_a_cut_file_lost_unsaid(name: str, tmp_path: Path) -> None:
    path = shared_path(f"{FORMATS}/{name}")
    assert contract_problems(imported(TRANSCRIPT, path, tmp_path)) == []
    assert silent_losses(TRANSCRIPT, path, tmp_path, cuts=CUTS, whole=counts) == []
