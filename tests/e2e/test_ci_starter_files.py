"""What `agent-eval init` writes works together: on every platform, and at a terminal."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from agent_eval.demo.scaffold import ALL, StarterAgent, scaffold
from agent_eval.errors import ExitCode
from tests.e2e.platforms import CiPlatform, OnGitHub, platform
from tests.e2e.program import agent_eval
from tests.extent import crossed

PLATFORMS = ("github", "gitlab", "buildkite", "circleci", "jenkins")
COMMAND = f"{sys.executable} -S -E agent.py"
GOOD, BAD = "In Lisbon it is sunny. Please confirm.", "I do not know."
WITHOUT_WEATHER = "I do not know. Please confirm."
NOTHING = {"suite": "", "max_regressed_cases": "", "max_new_hard_fail_cases": ""}
"""No input but the platform's own: everything else is in `agent-eval.yml`."""
POLICY = Path("config/gate.yml")
QUARANTINE = "quarantine:\n  - {case: starter-weather, reason: known, until: 2027-01-31}\n"


def write_agent(place: Path, answer: str, of_change: str | None = None) -> None:
    """An agent that says one thing, whatever it is asked; as the change's another, if that is given."""
    said = f"{of_change!r} if 'change' in os.getcwd() else {answer!r}" if of_change else repr(answer)
    (place / "agent.py").write_text(
        f"import json, os, sys\njson.load(sys.stdin)\njson.dump({{'assistant_output': {said}}}, sys.stdout)\n"
    )


def set_up(ci: CiPlatform) -> None:
    """Make main of a repository what `init --agent` leaves, with an agent beside it that passes."""
    place = ci.workspace.parent
    agent = StarterAgent("agent-command", f"{sys.executable} -S -E {place / 'agent.py'}", in_settings=True)
    scaffold(ci.workspace, platforms=ALL, agent=agent)
    write_agent(place, GOOD)


def merge(ci: CiPlatform) -> None:
    """Make the base branch what the checkout is."""
    if isinstance(ci, OnGitHub):
        ci.runner.commits_files = True
        ci.runner.commit_to_main()
    else:
        runner = ci.runner  # type: ignore[attr-defined]
        runner.base = runner.repository.commit()
        runner.repository.push("main")


def in_policy(ci: CiPlatform, before: str, after: str) -> None:
    """Change a line of the policy in the checkout."""
    file = ci.workspace / POLICY
    assert before in file.read_text()
    file.write_text(file.read_text().replace(before, after))


@crossed(name=PLATFORMS)
def test_the_policy_and_the_agent_of_a_repository_that_was_set_up_decide_in_ci(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with platform(name, tmp_path) as ci:
        monkeypatch.chdir(ci.workspace)
        set_up(ci)
        merge(ci)
        first = ci.push(**NOTHING)
        assert first.code == ExitCode.OK, first.text
        write_agent(ci.workspace.parent, GOOD, of_change=BAD)
        (ci.workspace / "prompt.txt").write_text("An agent none of whose files differ is not run again.")
        worse = ci.change(**NOTHING)
        assert worse.code == ExitCode.NO, worse.text
        assert "starter-weather" in worse.text
        # What a change makes of the policy holds once it is merged.
        in_policy(ci, "max_regressed_cases: 0", "max_regressed_cases: 9")
        in_policy(ci, "quarantine: []", QUARANTINE)
        loosened = ci.change(502, **NOTHING)
        assert loosened.code == ExitCode.NO, loosened.text
        assert "`max_regressed_cases` 0 → 9" in loosened.text
        assert "`quarantine`" in loosened.text
        assert ci.violations == []


@crossed(name=PLATFORMS)
def test_a_case_that_is_in_quarantine_on_main_does_not_block(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with platform(name, tmp_path) as ci:
        monkeypatch.chdir(ci.workspace)
        set_up(ci)
        in_policy(ci, "quarantine: []", QUARANTINE)
        merge(ci)
        assert ci.push(**NOTHING).code == ExitCode.OK
        write_agent(ci.workspace.parent, GOOD, of_change=WITHOUT_WEATHER)
        (ci.workspace / "prompt.txt").write_text("An agent none of whose files differ is not run again.")
        ended = ci.change(**NOTHING)
        assert ended.code == ExitCode.OK, ended.text
        assert "in quarantine" in ended.text


@crossed(name=PLATFORMS)
def test_the_change_that_sets_agent_eval_up_passes(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with platform(name, tmp_path) as ci:
        monkeypatch.chdir(ci.workspace)
        set_up(ci)
        ended = ci.change(baseline="none", **NOTHING)
        assert ended.code == ExitCode.OK, ended.text


@pytest.mark.parametrize("agent", [(), ("--agent", COMMAND)], ids=["recorded", "command"])
def test_ci_needs_no_argument_where_init_was(agent: tuple[str, ...], tmp_path: Path) -> None:
    assert agent_eval("init", "--out", ".", *agent, cwd=tmp_path).code == 0
    policy = tmp_path / POLICY
    policy.write_text(policy.read_text().replace("# min_pass_rate", "min_pass_rate"))
    write_agent(tmp_path, GOOD)
    first = agent_eval("ci", cwd=tmp_path)
    assert first.code == 0, first.out
    assert "First run: nothing to compare with" in first.out
    if agent:
        write_agent(tmp_path, BAD)
        worse = agent_eval("ci", cwd=tmp_path)
        assert worse.code == 1, worse.out
        assert "an agent that keeps min_pass_rate 95% passes so few" in worse.out
