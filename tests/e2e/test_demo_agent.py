"""The demonstration's agents as a process of their own, and a bundled suite that is run against them."""

from __future__ import annotations

import json
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from agent_eval.contracts.conversation import EndReason, conversation_end
from agent_eval.evidence.reader import open_pack
from tests.e2e import program
from tests.e2e.program import Process

KEY = "API_KEY_canary_5b1f0c77"
REPLIES = [
    {"purpose": "judge", "object": {"reasoning": "It does.", "evidence": [], "verdict": "passed"}},
    {
        "purpose": "simulate",
        "contains": "Zzz?",
        "object": {"message": "Zzz again.", "done": True, "reason": "goal"},
    },
    {"purpose": "simulate", "text": "Zzz?"},
]


@pytest.fixture
def place(tmp_path: Path) -> Path:
    script = {"kind": "model_script", "schema_version": "1.2.0", "replies": REPLIES}
    (tmp_path / "script.json").write_text(json.dumps(script))
    return tmp_path


@pytest.fixture
def served(place: Path) -> Iterator[tuple[Process, str]]:
    words = ["demo-agent", "--port", "0", "--defect", "integrations-down"]
    process = program.start(*words, cwd=place, own_group=True)
    try:
        assert process.stdout is not None
        line = process.stdout.readline().decode()
        yield process, line.split(" at ")[1].split(". ")[0]
    finally:
        process.kill()
        process.communicate()


def test_a_bundled_suite_finds_the_defect_of_its_agent(place: Path, served: tuple[Process, str]) -> None:
    process, url = served
    words = [
        "run", "demo:hr", "--set", f"agent.base_url={url}", "--judge-model", "scripted:script.json",
        "--out", "out", "--parallel", "4",
    ]  # fmt: skip
    ran = program.start(*words, cwd=place, environ={"AUI_API_KEY": KEY})
    out, err = ran.communicate(timeout=120)
    assert ran.returncode == 0, err
    pack = open_pack(next(path for path in (place / "out", *(place / "out").rglob("*")) if is_pack(path)))
    failed = {
        evaluation["strict"]
        for result in pack.results()
        for verdict in result["verdicts"]
        for evaluation in verdict["evidence"].get("evaluations", [])
        if verdict["judge_id"] == "strict" and evaluation["outcome"] == "failed"
    }
    assert failed == {"integration_called"}
    ends = [conversation_end(pack.trajectory(case_id).trace) for case_id in pack.case_ids()]
    assert {end.reason for end in ends if end} == {
        *(EndReason.GOAL, EndReason.ESCALATION, EndReason.AGENT_ERROR)
    }
    written = [path.read_bytes() for path in place.rglob("*") if path.is_file()]
    assert not any(KEY.encode() in data for data in [*written, out, err])
    process.send_signal(signal.SIGINT)
    assert process.wait(timeout=20) == 0


def is_pack(path: Path) -> bool:
    return (path / "manifest.json").is_file()
