"""What `agent-eval init` writes works together: on every platform, and at a terminal."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from agent_eval.demo.scaffold import ALL, StarterAgent, scaffold
from agent_eval.errors import ExitCode
from tests.e2e.platforms import CiPlatform, OnGitHub, platform
from tests.e2e.program import agent_eval
from tests.extent import WHOLE_JOB

PLATFORMS = ("github", "gitlab", "buildkite", "circleci", "jenkins")
COMMAND = f"{sys.executable} -S -E agent.py"
GOOD, BAD = "In Lisbon it is sunny. Please confirm.", "I do not know."
NOTHING = {"suite": "", "max_regressed_cases": "", "max_new_hard_fail_cases": ""}
"""No input but the platform's own: everything else is in `agent-eval.yml`."""
POLICY = Path("config/gate.yml")


def write_agent(place: Path, answer: str) -> None:
    """An agent that says one thing, whatever it is asked."""
    (place / "agent.py").write_text(
        f"import json, sys\njson.load(sys.stdin)\njson.dump({{'assistant_output': {answer!r}}}, sys.stdout)\n"
    )


def set_up(ci: CiPlatform) -> None:
    """Make main of a repository what `init --agent` leaves, with an agent that passes."""
    agent = StarterAgent("agent-command", COMMAND, in_settings=True)
    scaffold(ci.workspace, platforms=ALL, agent=agent)
    write_agent(ci.workspace, GOOD)


def merge(ci: CiPlatform) -> None:
    """Make the base branch what the checkout is."""
    if isinstance(ci, OnGitHub):
        for name in (str(POLICY), "agent-eval.yml"):
            ci.github.files[name] = (ci.workspace / name).read_bytes()
    else:
        runner = ci.runner  # type: ignore[attr-defined]
        runner.base = runner.repository.commit()
        runner.repository.git("update-ref", "refs/remotes/origin/main", "HEAD")


def in_policy(ci: CiPlatform, before: str, after: str) -> None:
    """Change a line of the policy in the checkout."""
    file = ci.workspace / POLICY
    assert before in file.read_text()
    file.write_text(file.read_text().replace(before, after))


@pytest.mark.parametrize("name", PLATFORMS)
def test_the_policy_and_the_agent_of_a_repository_that_was_set_up_decide_in_ci(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with platform(name, tmp_path) as ci:
        monkeypatch.chdir(ci.workspace)
        set_up(ci)
        merge(ci)
        first = ci.push(**NOTHING)
        assert first.code == ExitCode.OK, first.text
        write_agent(ci.workspace, BAD)
        worse = ci.change(**NOTHING)
        assert worse.code == ExitCode.NO, worse.text
        assert "starter-weather" in worse.text
        # A change cannot lower the floor that the base branch's policy sets.
        in_policy(ci, "min_pass_rate: 0.95", "min_pass_rate: 0.0")
        in_policy(ci, "tracked: []", "tracked: [starter-weather, starter-refusal]")
        loosened = ci.change(502, **NOTHING)
        assert "min_pass_rate` was `0.95` and is now `0.0`." in loosened.text
        assert "`tracked` of case `starter-weather` is not on the base branch" in loosened.text
        assert ci.violations == []


@pytest.mark.parametrize("name", PLATFORMS)
@WHOLE_JOB
def test_a_case_that_the_policy_tracks_on_main_does_not_block(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with platform(name, tmp_path) as ci:
        monkeypatch.chdir(ci.workspace)
        set_up(ci)
        in_policy(ci, "min_pass_rate: 0.95", "min_pass_rate: 0.0")
        in_policy(ci, "tracked: []", "tracked: [starter-weather, starter-refusal]")
        merge(ci)
        assert ci.push(**NOTHING).code == ExitCode.OK
        write_agent(ci.workspace, BAD)
        ended = ci.change(**NOTHING)
        assert ended.code == ExitCode.OK, ended.text
        assert "2 cases tracked by the policy" in ended.text


@pytest.mark.parametrize("name", PLATFORMS)
def test_the_change_that_sets_agent_eval_up_passes(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with platform(name, tmp_path) as ci:
        monkeypatch.chdir(ci.workspace)
        set_up(ci)
        ended = ci.change(baseline="none", **NOTHING)
        assert ended.code == ExitCode.OK, ended.text
        assert "loosens" not in ended.text


@pytest.mark.parametrize("agent", [(), ("--agent", COMMAND)], ids=["recorded", "command"])
def test_ci_needs_no_argument_where_init_was(agent: tuple[str, ...], tmp_path: Path) -> None:
    assert agent_eval("init", "--out", ".", *agent, cwd=tmp_path).code == 0
    write_agent(tmp_path, GOOD)
    first = agent_eval("ci", cwd=tmp_path)
    assert first.code == 0, first.out
    assert "Passed" in first.out
    if agent:
        write_agent(tmp_path, BAD)
        worse = agent_eval("ci", cwd=tmp_path)
        assert worse.code == 1, worse.out
        assert "95% required" in worse.out
