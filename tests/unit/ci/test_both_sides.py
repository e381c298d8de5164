"""When a job confirms, and what it says where the merge base's agent cannot be run."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from agent_eval.ci.both_sides import A_PROGRAM, BEHIND_AN_ADDRESS, EQUAL_BUILDS, BothSides
from agent_eval.ci.confirm import Question, Side
from agent_eval.ci.platforms.base import CiRun, Platform
from agent_eval.config.spec import Output, RunSpec
from tests.unit.ci.jobs import make_job, settings_of
from tests.unit.ci.test_confirm import question

__all__ = ["question"]

ON_A_CHANGE = CiRun(base_sha="b" * 40)
ADDRESS = {"agent_url": "https://agent.example.org/run"}


def prepared(run: CiRun = ON_A_CHANGE, **flags: str) -> BothSides | None:
    platform = cast(Platform, SimpleNamespace(run=run, say=print))
    return BothSides.prepare(make_job(settings_of(**flags), platform=platform))


@pytest.mark.parametrize(
    ("run", "flags"),
    [
        (CiRun(), ADDRESS),
        (ON_A_CHANGE, {}),
        (ON_A_CHANGE, {**ADDRESS, "confirm_pairs": "0"}),
    ],
    ids=["not on a change", "recorded traces", "no pairs"],
)
def test_nothing_is_confirmed_without_a_change_an_agent_and_pairs(run: CiRun, flags: dict[str, str]) -> None:
    assert prepared(run, **flags) is None


@pytest.mark.parametrize(
    ("flags", "problem"),
    [
        (ADDRESS, BEHIND_AN_ADDRESS),
        ({**ADDRESS, "base_agent": "command:python agent.py"}, A_PROGRAM),
        ({**ADDRESS, "base_agent": "python agent.py"}, A_PROGRAM),
        ({**ADDRESS, "base_agent": "recorded"}, A_PROGRAM),
        ({**ADDRESS, "base_agent": "openai:small"}, "The job does not run in a git checkout."),
        ({"agent_command": "python agent.py"}, "The job does not run in a git checkout."),
    ],
    ids=[
        "behind an address",
        "a program by its kind",
        "a command line",
        "what the suite recorded",
        "a hosted model whose prompt at the merge base is unknown",
        "outside of a repository",
    ],
)
def test_without_a_merge_base_to_run_the_record_says_why(
    question: Question,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    flags: dict[str, str],
    problem: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    sides = prepared(**flags)
    assert sides is not None
    with sides:
        sides.installed()
        spec: Any = RunSpec(suite=question.suite, output=Output(pack=tmp_path / "pack"))
        record = sides.confirm(question, spec, tmp_path / "trials.zip")
    assert record.problem == problem
    assert record.candidate_manifest_sha256 == question.pack.manifest_sha256
    assert not (tmp_path / "trials.zip").exists()


def test_equal_builds_of_sources_that_differ_settle_nothing(
    question: Question, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    sides = prepared(**{**ADDRESS, "base_agent": "https://agent.example.org/base"})
    assert sides is not None
    side = Side("base", RunSpec(suite=question.suite, output=Output(pack=tmp_path / "pack")))
    monkeypatch.setattr(sides, "_candidate_side", lambda *_: (side, "d" * 64))
    monkeypatch.setattr(sides, "_base_side", lambda *_: (side, "d" * 64))
    record = sides.confirm(question, side.spec, tmp_path / "trials.zip")
    assert record.problem == EQUAL_BUILDS
    assert record.spent.trials == 0
