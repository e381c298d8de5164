"""Cases with several turns at the command line, and `async` functions under limits."""

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.program import agent_eval

AGENTS = """
import asyncio, os
async def answers(task, call_tool):
    await asyncio.sleep(0.01)
    if task["input"] == "hang": await asyncio.sleep(60)
    if task["input"] == "crash": raise ValueError("no such order")
    found = call_tool("lookup", {"order": task["input"]})
    return f"{found} in turn {task['turn']} after {len(task['history'])}"
"""
PROGRAM = """
import json, sys
task = json.load(sys.stdin)
print(json.dumps({"assistant_output": f"{task['input']} after {[t['input'] for t in task['history']]}"}))
"""


def case(case_id: str, *turns: dict[str, Any]) -> dict[str, Any]:
    metadata = {"tool_responses": {"lookup": "found"}, "final_output": {"mode": "exact"}}
    return {"case_id": case_id, "turns": list(turns), "metadata": metadata}


SUITE = {
    "dataset_id": "orders",
    "cases": [
        *(
            case(
                f"good-{number}",
                {"input": "7", "expected_output": "found in turn 1 after 0"},
                {"input": "8", "expected_output": "found in turn 2 after 1"},
            )
            for number in range(4)
        ),
        case("hangs", {"input": "7"}, {"input": "hang", "expected_output": "never"}),
        case("crashes", {"input": "crash", "expected_output": "never"}, {"input": "8"}),
    ],
}


@pytest.fixture
def place(tmp_path: Path) -> Path:
    (tmp_path / "conversations.py").write_text(AGENTS)
    (tmp_path / "program.py").write_text(PROGRAM)
    (tmp_path / "suite.json").write_text(json.dumps(SUITE))
    return tmp_path


def run(place: Path, agent: str, *more: str) -> dict[str, dict[str, Any]]:
    """Run the suite; return each case's result by its id."""
    of_run = [
        *("run", "--suite", "suite.json", "--out", "out", "--set", "evidence.layout=files"),
        *("--judge", "final_output"),
    ]
    ended = agent_eval(*of_run, "--agent", agent, "--set", "limits.attempt.seconds=2", *more, cwd=place)
    assert ended.code == 0, ended.err
    rows = [json.loads(path.read_bytes()) for path in (place / "out/cases").glob("*/verdicts.json")]
    return {row["case_id"]: row for row in rows}


def failure(row: dict[str, Any]) -> str | None:
    return next((one["failure"] for one in row["verdicts"] if one["judge_id"] == "execution"), None)


@pytest.mark.parametrize("more", [(), ("--parallel", "4")])
def test_an_async_function_converses_under_a_time_limit(place: Path, more: tuple[str, ...]) -> None:
    found = run(place, "python:conversations:answers", *more)
    assert {name: row["outcome"] for name, row in found.items() if name.startswith("good")} == {
        f"good-{number}": "passed" for number in range(4)
    }
    assert (found["hangs"]["outcome"], failure(found["hangs"])) == ("error", "timeout")
    assert (found["crashes"]["outcome"], failure(found["crashes"])) == ("error", "agent_error")


def test_the_evidence_has_every_turn_of_a_programs_conversation(place: Path) -> None:
    run(place, f"command:{sys.executable} program.py", "--case", "good-1")
    (stored,) = (place / "out/cases").glob("*/trajectory.json")
    events = json.loads(stored.read_bytes())["trace"]
    assert [(event["turn"], event["actor"], event.get("output")) for event in events] == [
        (1, "user", None),
        (1, "agent", "7 after []"),
        (2, "user", None),
        (2, "agent", "8 after ['7']"),
    ]
