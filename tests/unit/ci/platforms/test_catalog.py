"""The table of platforms: which one a job runs on, and what holds for all of them at once."""

from __future__ import annotations

import io
from importlib import import_module
from pathlib import Path
from pkgutil import iter_modules
from typing import TypeGuard

import pytest

from agent_eval.ci import platforms
from agent_eval.ci.agents import check_agent
from agent_eval.ci.platforms import catalog
from agent_eval.ci.platforms.base import Platform
from agent_eval.ci.platforms.catalog import (
    detected_platform,
    is_secret_of_a_job,
    platform_for,
    platform_specs,
    reporter_for,
)
from agent_eval.ci.platforms.github import GITHUB, GitHub
from agent_eval.ci.platforms.local import LOCAL, LocalDirectory
from agent_eval.ci.platforms.spec import PlatformSpec, Words
from agent_eval.config.options import CI, Option
from agent_eval.errors import UsageError
from tests.unit.ci.jobs import make_job, settings_of

ELSEWHERE = PlatformSpec(
    name="elsewhere",
    detect=lambda environ: environ.get("ELSEWHERE") == "yes",
    comment_limit=1_000,
    words=Words(change="merge request", full_report="job page"),
    inputs=(Option("elsewhere-token", "secret", "Token.", goes_to="platform.x", commands=(CI,)),),
    secret_names=frozenset({"ELSEWHERE_JOB_TOKEN"}),
    secret_prefixes=("ELSEWHERE_SECRET_",),
)


class Elsewhere(LocalDirectory):
    spec = ELSEWHERE


@pytest.fixture
def elsewhere(monkeypatch: pytest.MonkeyPatch) -> PlatformSpec:
    """A further platform that this job does not run on."""
    rows = (GitHub, Elsewhere, LocalDirectory)
    monkeypatch.setattr("agent_eval.ci.platforms.catalog.platforms", lambda: rows)
    return ELSEWHERE


def test_every_platform_that_is_written_has_its_row() -> None:
    modules = [import_module(f"{platforms.__name__}.{row.name}") for row in iter_modules(platforms.__path__)]
    written = [value for module in modules for value in vars(module).values()]
    assert {value for value in written if _is_platform(value)} == set(catalog.platforms())
    assert {value.name for value in written if isinstance(value, PlatformSpec)} == {
        spec.name for spec in platform_specs()
    }


def test_every_platform_has_unit_tests() -> None:
    names = [row.partition(":")[0].rpartition(".")[2] for row in catalog.PLATFORMS]
    tested = {path.stem.removeprefix("test_") for path in Path(__file__).parent.iterdir()}
    assert [name for name in names if name not in tested] == [], (
        "add tests/unit/ci/platforms/test_PLATFORM.py"
    )


def _is_platform(value: object) -> TypeGuard[type[Platform]]:
    return isinstance(value, type) and issubclass(value, Platform) and value is not Platform


def test_names_are_unique_and_the_last_platform_takes_every_job() -> None:
    names = [spec.name for spec in platform_specs()]
    assert len(set(names)) == len(names)
    assert [spec.name for spec in platform_specs() if spec.detect({})] == [names[-1]]


def test_a_job_runs_on_the_platform_that_detects_itself(elsewhere: PlatformSpec) -> None:
    assert detected_platform({"GITHUB_ACTIONS": "true"}).spec is GITHUB
    assert detected_platform({"ELSEWHERE": "yes"}).spec is elsewhere
    assert detected_platform({"GITHUB_ACTIONS": ""}).spec is LOCAL


def test_outside_ci_the_local_directory_is_built_and_the_caller_reports_wrong_settings() -> None:
    stream = io.StringIO()
    assert isinstance(platform_for(settings_of().for_platform, {}, stream), LocalDirectory)
    assert reporter_for({}, stream) is None
    assert reporter_for({"GITHUB_ACTIONS": "true"}, stream) is not None


@pytest.mark.parametrize(
    ("variable", "secret"),
    [
        *(
            (name, True)
            for name in ("GITHUB_TOKEN", "GH_TOKEN", "ACTIONS_RUNTIME_TOKEN", "INPUT_GITHUB-TOKEN")
        ),
        *((name, True) for name in ("AGENT_EVAL_GITHUB_TOKEN", "AGENT_EVAL_ELSEWHERE_TOKEN")),
        *((name, True) for name in ("ELSEWHERE_JOB_TOKEN", "ELSEWHERE_SECRET_A")),
        *((name, False) for name in ("OPENAI_API_KEY", "GITHUB_SHA", "ELSEWHERE_COMMIT")),
    ],
)
def test_secrets_of_platforms_reach_no_agent(elsewhere: PlatformSpec, variable: str, secret: bool) -> None:
    assert is_secret_of_a_job(variable) is secret


def test_an_agent_on_one_platform_may_not_see_the_token_of_another(elsewhere: PlatformSpec) -> None:
    settings = settings_of(agent_command="true", agent_env="ELSEWHERE_JOB_TOKEN")
    with pytest.raises(UsageError, match="ELSEWHERE_JOB_TOKEN is the job's own"):
        check_agent(make_job(settings, {"ELSEWHERE_JOB_TOKEN": "x"}))
