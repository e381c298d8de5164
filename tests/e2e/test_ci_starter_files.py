"""What `agent-eval init` writes works together: on every platform, and at a terminal."""

from __future__ import annotations

from pathlib import Path

import pytest

from agent_eval.demo.scaffold import ALL, SAMPLE, SETTINGS, scaffold
from agent_eval.errors import ExitCode
from tests.e2e.platforms import CiPlatform, OnGitHub, platform
from tests.e2e.program import agent_eval
from tests.extent import crossed

PLATFORMS = ("github", "gitlab", "buildkite", "circleci", "jenkins")
WEATHER = "°C in Lisbon"
NOTHING = {"suite": "", "max_regressed_cases": "", "max_new_hard_fail_cases": ""}
"""No input but the platform's own: everything else is in `agent-eval.yml`."""
QUARANTINE = "quarantine: [{case: weather, reason: known, until: 2027-01-31}]"


def replace(file: Path, before: str, after: str) -> None:
    text = file.read_text()
    assert before in text
    file.write_text(text.replace(before, after))


def set_up(ci: CiPlatform) -> None:
    """Make the checkout what `init` leaves, the sample agent included."""
    scaffold(ci.workspace, platforms=ALL)


def merge(ci: CiPlatform) -> None:
    """Make the base branch what the checkout is."""
    if isinstance(ci, OnGitHub):
        ci.runner.commits_files = True
        ci.runner.commit_to_main()
    else:
        runner = ci.runner  # type: ignore[attr-defined]
        runner.base = runner.repository.commit()
        runner.repository.push("main")


@crossed(name=PLATFORMS)
def test_what_init_writes_decides_in_ci_on_the_agent_that_it_names(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with platform(name, tmp_path) as ci:
        monkeypatch.chdir(ci.workspace)
        set_up(ci)
        merge(ci)
        first = ci.push(**NOTHING)
        assert first.code == ExitCode.OK, first.text
        replace(ci.workspace / SAMPLE, WEATHER, "°C in Porto")
        worse = ci.change(**NOTHING)
        assert worse.code == ExitCode.NO, worse.text
        assert "weather" in worse.text
        # What a change makes of the policy holds once it is merged.
        replace(ci.workspace / SETTINGS, "quarantine: []", f"max_regressed_cases: 9\n  {QUARANTINE}")
        loosened = ci.change(502, **NOTHING)
        assert loosened.code == ExitCode.NO, loosened.text
        assert "max_regressed_cases" in loosened.text
        assert "quarantine" in loosened.text
        assert ci.violations == []


@crossed(name=PLATFORMS)
def test_a_case_that_is_in_quarantine_on_main_does_not_block(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with platform(name, tmp_path) as ci:
        monkeypatch.chdir(ci.workspace)
        set_up(ci)
        replace(ci.workspace / SETTINGS, "quarantine: []", QUARANTINE)
        merge(ci)
        assert ci.push(**NOTHING).code == ExitCode.OK
        replace(ci.workspace / SAMPLE, WEATHER, "°C in Porto")
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


def test_ci_needs_no_argument_where_init_was(tmp_path: Path) -> None:
    assert agent_eval("init", "--out", ".", cwd=tmp_path).code == 0
    replace(tmp_path / SETTINGS, "quarantine: []", "min_pass_rate: 0.95")
    first = agent_eval("ci", cwd=tmp_path)
    assert first.code == 0, first.out
    assert "First run: nothing to compare with" in first.out
    replace(tmp_path / SAMPLE, "It is 18", "")
    replace(tmp_path / SAMPLE, WEATHER, "Rain in Porto")
    replace(tmp_path / SAMPLE, "Please confirm", "Done")
    worse = agent_eval("ci", cwd=tmp_path)
    assert worse.code == 1, worse.out
    assert "an agent that keeps min_pass_rate 95% passes so few" in worse.out
