"""Suites to score."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from agent_eval.contracts import RunConfig, RunSummary
from agent_eval.engine import JudgePlan, score_suite
from agent_eval.suites.reader import SuiteSource, open_suite

MakeSuite = Callable[..., SuiteSource]
Score = Callable[..., RunSummary]
POLICY = JudgePlan(("policy",))


def case(case_id: str, **more: Any) -> dict[str, Any]:
    """A case that `policy` judges: it passes unless `tool` is `forbidden`."""
    tool = more.pop("tool", "lookup")
    trace = [
        {"idx": 0, "actor": "agent", "type": "tool_call", "tool": tool, "input": {"a": 1}, "attributes": {}},
        {"idx": 1, "actor": "tool", "type": "tool_result", "tool": tool, "output": "x"},
        {"idx": 2, "actor": "agent", "type": "message", "output": "done"},
    ]
    return {"case_id": case_id, "policy": {"forbidden_tools": ["forbidden"]}, "trace": trace, **more}


@pytest.fixture
def make_suite(tmp_path: Path) -> MakeSuite:
    def make(cases: list[Any] | int, name: str = "suite.jsonl") -> SuiteSource:
        if isinstance(cases, int):
            cases = [case(f"c{at}", tool="forbidden" if at % 7 == 3 else "lookup") for at in range(cases)]
        path = tmp_path / name
        if name.endswith(".jsonl"):
            rows = [{"dataset_id": "demo"}, *cases]
            text = "".join((row if isinstance(row, str) else json.dumps(row)) + "\n" for row in rows)
        else:
            text = json.dumps({"dataset_id": "demo", "cases": cases})
        path.write_text(text)
        return open_suite(path)

    return make


@pytest.fixture
def config() -> RunConfig:
    return RunConfig(
        run_id="run", dataset_id="demo", started_at="2026-01-01T00:00:00Z", judges=["policy", "execution"]
    )


@pytest.fixture
def out(tmp_path: Path) -> Path:
    """Where packs go; its parent holds nothing else."""
    (tmp_path / "packs").mkdir()
    return tmp_path / "packs" / "pack"


@pytest.fixture
def score(make_suite: MakeSuite, config: RunConfig, out: Path) -> Score:
    def run(
        cases: SuiteSource | Any, plan: JudgePlan = POLICY, *, place: Path = out, **options: Any
    ) -> RunSummary:
        suite = cases if isinstance(cases, SuiteSource) else make_suite(cases)
        return score_suite(suite, plan, config, place, **options)

    return run
