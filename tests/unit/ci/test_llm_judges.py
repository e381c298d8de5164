"""LLM judges in the CI job: what the baseline's evidence restores, and what a change cannot do."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from agent_eval.ci.config import INPUTS
from agent_eval.ci.evaluate import evaluate
from agent_eval.config.rows.file import GRANTS, KEYS
from agent_eval.config.table import options_of
from agent_eval.contracts import GateStatus
from agent_eval.contracts.run import ModelsUse
from tests.fakes.models import FakeOpenAi, Step
from tests.unit.ci.evaluations import job, write_suite

KEY = "canary-key-0123456789"


@pytest.fixture(autouse=True)
def working_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def cases(*answers: str, criterion: str = "The agent refunds the order.") -> list[dict[str, Any]]:
    return [
        {
            "case_id": f"case-{number}",
            "metadata": {"llm": [{"criterion": criterion}, {"criterion": "It is polite."}]},
            "trace": [
                {"idx": 0, "actor": "user", "type": "message", "input": "My money!"},
                {"idx": 1, "actor": "agent", "type": "message", "output": answer},
            ],
        }
        for number, answer in enumerate(answers)
    ]


def ruled(verdict: str = "passed") -> Step:
    return Step(text=json.dumps({"reasoning": f"Key {KEY}.", "evidence": [], "verdict": verdict}))


def run(server: FakeOpenAi, out: str, **flags: str) -> Any:
    model = {"provider": "openai", "llm-base-url": server.base_url, "llm-model": "small", "llm-key": KEY}
    return evaluate(job(suite="s.json", judge="llm", out=out, secrets=(KEY,), **{**model, **flags}))


def test_an_unchanged_suite_is_restored_from_the_baseline_without_a_call():
    write_suite(cases("Refunded.", "Done."))
    with FakeOpenAi(ruled()) as server:
        before = run(server, "before")
        assert before.suites[0].candidate.summary.judging == ModelsUse(
            calls=4, input_tokens=400, output_tokens=40, cached_tokens=20, unpriced=4
        )
        after = run(server, "after", baseline=str(before.archive))
        assert len(server.requests) == 4
        assert after.suites[0].candidate.summary.judging == ModelsUse(reused=4)
        assert after.suites[0].decision.gate_status is GateStatus.PASSED
        write_suite(cases("Refunded.", "Never."))
        changed = run(server, "changed", baseline=str(before.archive))
        assert changed.suites[0].candidate.summary.judging.calls == 2
        assert len(server.requests) == 6


def test_a_key_is_in_no_file_of_the_job():
    write_suite(cases("Refunded."))
    with FakeOpenAi(ruled()) as server:
        run(server, "out")
        assert KEY in str(server.authorizations)
    files = [path for path in Path().rglob("*") if path.is_file()]
    assert len(files) > 5
    assert [path for path in files if KEY.encode() in path.read_bytes()] == []


def test_a_change_cannot_name_address_key_provider_or_kept_replies():
    of_the_job = {row.name: row for row in INPUTS}
    assert not {"cassette", "cassette-mode"} & set(of_the_job)
    assert {"cassette", "cassette-mode"} < {row.name for row in options_of("rejudge")}
    assert {"provider", "llm-base-url", "llm-script"} < GRANTS
    assert "llm-key" not in KEYS
    assert of_the_job["llm-key"].kind == "secret"
