"""Each judge of the catalog passes what it should and nothing else; a judge without a row fails the test."""

import json
import shlex
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from tests.blackbox.installed import Program
from tests.blackbox.rows import load
from tests.blackbox.services import POINTING, serving

ROWS = {row["judge"]: row for row in load("judges.yaml")}
PROMISED_OF_A_RESULT = {"judge_id", "case_id", "score", "passed", "reason", "evidence_refs"}


def test_every_judge_of_the_catalog_has_a_row(program: Program, tmp_path: Path) -> None:
    source = "from agent_eval.judges import JUDGES; print(*sorted(JUDGES))"
    assert program.run(["python", "-c", source], tmp_path).out.split() == sorted(ROWS)


@pytest.mark.parametrize("name", ROWS)
def test_a_judge_passes_what_it_should_and_nothing_else(name: str, program: Program, tmp_path: Path) -> None:
    row = ROWS[name]
    for file, content in row.get("files", {}).items():
        (tmp_path / file).write_text(content)
    cases = [case_of(which, row[which]) for which in ("kept", "broken")]
    (tmp_path / "suite.json").write_text(json.dumps({"dataset_id": "judges", "cases": cases}))
    (tmp_path / "judges.json").write_text(json.dumps({name: row.get("config", {})}))
    line = f"agent-eval run --suite suite.json --judge {name} --judge-config judges.json --out pack"
    with ExitStack() as stack:
        more = row.get("flags", "")
        if "serve" in row:
            word, flags = POINTING[row["serve"]]
            more = more.replace(word, flags.format(url=stack.enter_context(serving(row["serve"]))))
        ended = program.run(shlex.split(f"{line} {more}"), tmp_path)
    assert ended.code == 0, ended
    found = {which: verdict_of(tmp_path / "pack", which, name) for which in ("kept", "broken")}
    outcomes = {which: (verdict["outcome"], verdict["passed"]) for which, verdict in found.items()}
    kept, broken = row.get("kept_outcome", "passed"), row.get("outcome", "failed")
    assert outcomes == {"kept": (kept, kept == "passed"), "broken": (broken, False)}, found
    assert all(verdict.keys() >= PROMISED_OF_A_RESULT and verdict["reason"] for verdict in found.values())
    assert (tmp_path / "pack" / "judges" / f"{name}.json").is_file()


def verdict_of(pack: Path, case_id: str, judge: str) -> dict[str, Any]:
    result = json.loads((pack / "cases" / case_id / "verdicts.json").read_text())
    (verdict,) = [each for each in result["verdicts"] if each["judge_id"] == judge]
    return dict(verdict)


def case_of(case_id: str, fields: dict[str, Any]) -> dict[str, Any]:
    """A case with the trace that its row writes in short."""
    short = fields.get("trace", [{"call": "lookup", "input": {"order": 7}}, {"says": "done"}])
    trace: list[dict[str, Any]] = []
    for number, event in enumerate(short):
        trace += events_of(dict(event), f"c{number}")
    whole = [{"idx": idx, **event} for idx, event in enumerate(trace)]
    return {"case_id": case_id, "input": "Do it.", **fields, "trace": whole}


def events_of(event: dict[str, Any], call_id: str) -> list[dict[str, Any]]:
    if "call" in event:
        tool, output = event.pop("call"), event.pop("output", "ok")
        call = {"actor": "agent", "type": "tool_call", "tool": tool, "call_id": call_id, **event}
        return [
            call,
            {"actor": "tool", "type": "tool_result", "tool": tool, "call_id": call_id, "output": output},
        ]
    if "calls_without_result" in event:
        return [{"actor": "agent", "type": "tool_call", "tool": event.pop("calls_without_result")}]
    if "asks" in event:
        return [{"actor": "user", "type": "message", "input": event.pop("asks"), **event}]
    return [{"actor": "agent", "type": "message", "output": event.pop("says"), **event}]
