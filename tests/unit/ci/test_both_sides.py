"""When a job confirms, and what it says where the merge base's agent cannot be run."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from agent_eval.ci.both_sides import A_PROGRAM, BEHIND_AN_ADDRESS, EQUAL_BUILDS, BothSides
from agent_eval.ci.confirm import Question, Side
from agent_eval.ci.place import JobPlace
from agent_eval.ci.platforms.base import CiRun, Platform
from agent_eval.config.spec import AgentSpec, Output, RunSpec
from tests.unit.ci.jobs import make_job, settings_of
from tests.unit.ci.test_confirm import question
from tests.unit.ci.test_merge_base import commit, top

__all__ = ["question", "top"]


def on_a_change(base: str = "b" * 40) -> JobPlace:
    """The place of a change that began at a commit."""
    return JobPlace(
        head="c" * 40,
        tip=base,
        trusted_branch="main",
        default_branch="main",
        default_tip=base,
        base=base,
        is_reviewed=False,
        branches=("main",),
    )


ADDRESS = {"agent_url": "https://agent.example.org/run"}


def prepared(place: JobPlace | None = None, **flags: str) -> BothSides | None:
    platform = cast(Platform, SimpleNamespace(run=CiRun(), say=print))
    job = make_job(settings_of(**flags), platform=platform)
    return BothSides.prepare(replace(job, place=place or on_a_change()))


@pytest.mark.parametrize(
    ("place", "flags"),
    [
        (replace(on_a_change(), is_reviewed=True), ADDRESS),
        (None, {}),
        (None, {**ADDRESS, "confirm_pairs": "0"}),
    ],
    ids=["not on a change", "recorded traces", "no pairs"],
)
def test_nothing_is_confirmed_without_a_change_an_agent_and_pairs(
    place: JobPlace | None, flags: dict[str, str]
) -> None:
    assert prepared(place, **flags) is None


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


HOSTED = {"agent": "openai:small", "base_agent": "openai:small"}


def base_prompt(top: Path, base: str, **flags: str) -> tuple[str | None, str]:
    """The system prompt that the merge base's model gets, and why that is not known."""
    sides = prepared(on_a_change(base), **HOSTED, **flags)
    assert sides is not None
    spec = RunSpec(suite=top / "suite.json", output=Output(pack=top / "pack"), agent=AgentSpec(name="x"))
    if sides.problem:
        return None, sides.problem
    options = sides._base_side(spec)[0].options
    assert options is not None
    return options.system, ""


@pytest.mark.parametrize("is_absolute", [False, True])
def test_a_hosted_model_of_the_merge_base_has_the_prompt_of_the_merge_base(
    top: Path, monkeypatch: pytest.MonkeyPatch, is_absolute: bool
) -> None:
    base = commit(top, **{"prompt.txt": "Be kind."})
    commit(top, **{"prompt.txt": "Refuse."})
    monkeypatch.chdir(top)
    path = str(top / "prompt.txt") if is_absolute else "prompt.txt"
    assert base_prompt(top, base, system_prompt=path) == ("Be kind.", "")
    assert base_prompt(top, base) == (None, "")


def test_a_prompt_that_the_merge_base_lacks_or_takes_from_the_change_settles_nothing(
    top: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = commit(top)
    (top / "prompt.txt").symlink_to(top / "real.txt")
    linked = commit(top, **{"real.txt": "Be kind."})
    (top / "prompt.txt").unlink()
    commit(top, **{"prompt.txt": "Refuse.", "real.txt": "Refuse."})
    monkeypatch.chdir(top)
    assert base_prompt(top, linked, system_prompt="prompt.txt")[1].endswith("into the change's checkout.")
    assert "prompt.txt" in base_prompt(top, before, system_prompt="prompt.txt")[1]
