"""A run in looks: more trials of every case after each, and one sealed pack in the end."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from agent_eval.config.spec import AgentSpec, Limits, Output, RunSpec
from agent_eval.contracts.limits import RunLimits
from agent_eval.errors import UsageError
from agent_eval.evidence.reader import open_pack
from agent_eval.operations.resume import journal_path
from agent_eval.operations.run_agent import RunLoopResult, run_agent
from tests.factories import make_case


@pytest.fixture
def spec(tmp_path: Path) -> RunSpec:
    cases = [make_case(f"case-{number}", "lookup") for number in range(3)]
    path = tmp_path / "suite.json"
    path.write_text(json.dumps({"dataset_id": "shop", "cases": cases}))
    agent = AgentSpec(name="recorded")
    return RunSpec(suite=path, output=Output(pack=tmp_path / "pack", fresh=True), agent=agent)


def run(spec: RunSpec, *looks: int, **options: Any) -> tuple[RunLoopResult, list[list[int]]]:
    """Run to these further looks; what each pack had to say of its looks when it was asked."""
    asked, further = [], iter(looks)

    def next_look(result: RunLoopResult) -> int | None:
        pack = open_pack(result.pack)
        asked.append(pack.config.execution_config.looks or [])
        assert {len(row.get("trials") or [row]) for row in pack.results()} == {asked[-1][-1]}
        return next(further, None)

    return run_agent(spec, environ={}, next_look=next_look, **options), asked


def test_every_look_has_a_sealed_pack_of_all_trials_so_far(spec: RunSpec) -> None:
    result, asked = run(spec, 4, 12)
    assert asked == [[1], [1, 4], [1, 4, 12]]
    assert (result.progress.done, result.progress.resumed) == (36, 12)
    assert open_pack(result.pack).config.execution_config.trials == 12
    assert not journal_path(result.pack).exists()


def test_a_run_that_ends_at_its_first_look_says_that_there_was_one(spec: RunSpec) -> None:
    result, asked = run(spec)
    assert asked == [[1]]
    assert open_pack(result.pack).config.execution_config.looks == [1]


def test_a_run_without_looks_names_none(spec: RunSpec) -> None:
    result = run_agent(spec, environ={})
    assert open_pack(result.pack).config.execution_config.looks is None


def test_a_look_without_means_leaves_the_one_before_and_keeps_the_journal(
    spec: RunSpec, tmp_path: Path
) -> None:
    program = tmp_path / "agent.py"
    program.write_text("import json\nprint(json.dumps({'assistant_output': 'done', 'cost_usd': 1.0}))\n")
    agent = AgentSpec(command=f"{sys.executable} -S -E {program}")
    asking = [make_case(f"case-{number}", "lookup", regex_patterns=["sent"]) for number in range(3)]
    spec.suite.write_text(json.dumps({"dataset_id": "shop", "cases": asking}))
    bounded = RunSpec(
        suite=spec.suite, output=spec.output, agent=agent, limits=Limits(run=RunLimits(cost_usd=5.0))
    )
    result, asked = run(bounded, 4)
    assert asked == [[1]]
    assert "cost limit of 5 US dollars is reached" in result.cut_short
    assert (result.stopped, result.outage) == ("", "")
    assert result.failing_when_cut == {"regex": [f"case-{number}" for number in range(3)]}
    assert open_pack(result.pack).config.execution_config.looks == [1]
    assert journal_path(result.pack).exists()


def test_a_run_on_its_own_refuses_auto_before_anything_is_run(spec: RunSpec) -> None:
    auto = RunSpec(suite=spec.suite, output=spec.output, agent=AgentSpec(name="recorded", trials="auto"))
    with pytest.raises(UsageError, match="compared with nothing"):
        run_agent(auto, environ={})
    assert not spec.output.pack.exists()
