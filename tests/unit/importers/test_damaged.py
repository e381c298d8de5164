"""Damaged, hostile and large exports: an error or a diagnostic, never a traceback or a silent loss."""

from __future__ import annotations

import copy
import json
import os
import random
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from agent_eval.errors import AgentEvalError
from agent_eval.importers.catalog import Family
from agent_eval.operations.import_traces import Imported, ImportRequest, import_traces
from agent_eval.suites.reader import load_suite
from tests.e2e.program import unmeasured
from tests.extent import amount
from tests.unit.importers.importing import EXPORTS, FAMILIES

PARALLEL = amount(1_000, 10_000, 10_000)
CUTS = amount(12, 50, 200)
CHANGES = amount(6, 25, 100)
FIXTURES = [path for path in EXPORTS if FAMILIES[path.parent.name] == "provider"]
EVERY_FORMAT = [path for path in EXPORTS if path.suffix in (".json", ".jsonl", ".traj")]


def attempt(source: Path, home: Path, family: Family = "provider") -> Imported | None:
    """Import, or refuse with an error of agent-eval; anything else fails the test."""
    out = home / "out.jsonl"
    try:
        imported = import_traces(ImportRequest((source,), out, family))
    except AgentEvalError:
        return None
    load_suite(out)
    return imported


@pytest.mark.parametrize("fixture", FIXTURES, ids=lambda path: f"{path.parent.name}-{path.name}")
def test_a_file_that_is_cut_off_is_an_error_or_a_diagnostic(fixture, tmp_path):
    data = fixture.read_bytes().rstrip()
    chance = random.Random(fixture.name)
    for position in [chance.randrange(1, len(data)) for _ in range(CUTS)]:
        source = tmp_path / fixture.name
        source.write_bytes(data[:position])
        imported = attempt(source, tmp_path)
        at_the_end_of_a_record = data[position : position + 1] == b"\n" or data[:position].endswith(b"\n")
        assert imported is None or imported.diagnostics.counts.get("lost") or at_the_end_of_a_record, position


def places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """The path of every value in a JSON value."""
    yield path
    children = (
        value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    )
    for key, child in children:
        yield from places(child, (*path, key))


ODD: tuple[Any, ...] = (
    None, "", [], {}, 0, -1, 1e300, True, "\u0000\u202e", [[[]]], {"type": "unknown"}, [None], "{",
)  # fmt: skip


def changed(value: Any, chance: random.Random) -> Any:
    """Replace one value by an odd one, or remove it."""
    value = copy.deepcopy(value)
    paths = [path for path in places(value) if path]
    *way, last = chance.choice(paths)
    parent = value
    for key in way:
        parent = parent[key]
    if isinstance(parent, dict) and chance.random() < 0.3:
        del parent[last]
    else:
        parent[last] = chance.choice(ODD)
    return value


def value_of(path: Path) -> Any:
    text = path.read_text("utf-8")
    return [json.loads(line) for line in text.splitlines()] if path.suffix == ".jsonl" else json.loads(text)


DOCUMENTS = [path for path in FIXTURES if path.suffix != ".sse"]
LISTS = [path for path in DOCUMENTS if isinstance(value_of(path), list)]


@pytest.mark.parametrize("fixture", EVERY_FORMAT, ids=lambda path: f"{path.parent.name}-{path.name}")
def test_odd_values_anywhere_give_no_traceback(fixture, tmp_path):
    value = value_of(fixture)
    chance = random.Random(fixture.name)
    for _ in range(CHANGES):
        source = tmp_path / "odd.json"
        source.write_text(json.dumps(changed(value, chance)))
        attempt(source, tmp_path, FAMILIES[fixture.parent.name])


@pytest.mark.parametrize("fixture", LISTS, ids=lambda path: f"{path.parent.name}-{path.name}")
def test_records_in_another_order_hold_the_same(fixture, tmp_path):
    value = value_of(fixture)
    (tmp_path / "whole.json").write_text(json.dumps(value))
    whole = attempt(tmp_path / "whole.json", tmp_path)
    for seed in range(4):
        random.Random(seed).shuffle(value)
        (tmp_path / "shuffled.json").write_text(json.dumps(value))
        assert attempt(tmp_path / "shuffled.json", tmp_path).totals == whole.totals


def chat_with(messages: list[Any], **answer: Any) -> dict[str, Any]:
    message = {"role": "assistant", "content": "Done.", **answer}
    choice = {"index": 0, "message": message, "finish_reason": "stop"}
    return {"request": {"messages": messages}, "response": {"object": "chat.completion", "choices": [choice]}}


def parallel_chat(number: int) -> Any:
    calls = [
        {"id": f"c{k}", "type": "function", "function": {"name": "f", "arguments": json.dumps({"k": k})}}
        for k in range(number)
    ]
    results = [{"role": "tool", "tool_call_id": f"c{k}", "content": str(k)} for k in reversed(range(number))]
    asked = {"role": "user", "content": "Go"}
    return chat_with([asked, {"role": "assistant", "content": None, "tool_calls": calls}, *results])


def parallel_anthropic(number: int) -> Any:
    uses = [{"type": "tool_use", "id": f"c{k}", "name": "f", "input": {"k": k}} for k in range(number)]
    results = [
        {"type": "tool_result", "tool_use_id": f"c{k}", "content": str(k)} for k in reversed(range(number))
    ]
    turns = (("user", "Go"), ("assistant", uses), ("user", results))
    return {"messages": [{"role": role, "content": content} for role, content in turns]}


@pytest.mark.parametrize("make", [parallel_chat, parallel_anthropic])
def test_thousands_of_parallel_calls_get_their_own_results(make: Callable[[int], Any], tmp_path):
    (tmp_path / "dump.json").write_text(json.dumps(make(PARALLEL)))
    imported = attempt(tmp_path / "dump.json", tmp_path)
    numbers = imported.totals.numbers()
    assert (numbers["tool_calls"], numbers["tool_results"]) == (PARALLEL, PARALLEL)
    (case,) = load_suite(tmp_path / "out.jsonl").cases
    assert all(str(call.arguments["k"]) == call.result.output for call in case.recorded.calls)


def read_chat(home: Path, *messages: Any, **answer: Any) -> Imported | None:
    """Import a chat of a first message and these; `answer` has more fields of the response."""
    record = chat_with([{"role": "user", "content": "Go"}, *messages])
    record["response"] |= answer
    (home / "dump.json").write_text(json.dumps([record]))
    return attempt(home / "dump.json", home)


def test_an_unknown_role_or_block_is_reported_with_its_place(tmp_path):
    (entry,) = read_chat(tmp_path, {"role": "narrator", "content": "Meanwhile"}).diagnostics.entries
    assert (entry.record, entry.field) == ("dump.json[0]", "messages[1]")
    assert "'narrator'" in entry.reason


def test_unknown_fields_of_an_answer_are_reported_once_each(tmp_path):
    (entry,) = read_chat(tmp_path, new_field={"a": 1}).diagnostics.entries
    assert (entry.severity, entry.field) == ("unknown", "response.new_field")


def test_empty_content_makes_no_message(tmp_path):
    read_chat(tmp_path, *({"role": "assistant", "content": content} for content in ("", [], None)))
    (case,) = load_suite(tmp_path / "out.jsonl").cases
    assert [event.content for event in case.trace] == ["Go", "Done."]


# Memory does not grow with the input.

MEASURE = """
import resource, sys
from pathlib import Path
from agent_eval.operations.import_traces import ImportRequest, import_traces
imported = import_traces(ImportRequest((Path(sys.argv[1]),), Path(sys.argv[2]), "provider"))
print(imported.totals.cases, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)
"""


def write(path: Path, size: int) -> int:
    """Write exchanges of Chat Completions until the file has `size` bytes; returns how many."""
    number = 0
    with path.open("w", encoding="utf-8") as file:
        while file.tell() < size:
            messages = [{"role": "user", "content": f"{number} {'where is my order? ' * 200}"}]
            file.write(json.dumps(chat_with(messages, content="No." * 400)) + "\n")
            number += 1
    return number


def peak_kib(home: Path, size: int) -> int:
    source = home / "dump.jsonl"
    number = write(source, size)
    command = [sys.executable, "-c", MEASURE, str(source), str(home / "out.jsonl")]
    done = subprocess.run(command, env=unmeasured(os.environ), capture_output=True, text=True, check=True)
    cases, peak = map(int, done.stdout.split())
    assert cases == number
    return peak


@pytest.mark.parametrize("mebibytes", [9, pytest.param(65, marks=pytest.mark.slow)])
def test_memory_does_not_grow_with_the_file(mebibytes: int, tmp_path: Path) -> None:
    small, large = peak_kib(tmp_path, 1 << 20), peak_kib(tmp_path, mebibytes << 20)
    assert large - small < 4 << 10, f"{mebibytes - 1} MiB more took more than 4"
