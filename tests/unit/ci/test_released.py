"""What of a release is run again where its agent is a hosted model: its prompt and its name."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from agent_eval.ci.context import JobContext
from agent_eval.ci.released import NotRun, ReleasedAgent
from agent_eval.ci.suites import Target
from agent_eval.config.spec import RunSpec
from agent_eval.errors import NotEvaluable
from tests.unit.ci.jobs import make_job, settings_of
from tests.unit.ci.platforms.repository import Repository

TARGET = Target(Path("s.json"), "shop")


class Asked:
    """Stands in for the run of an agent, and notes what was asked for and the prompt as it was then."""

    def __init__(self) -> None:
        self.spec: RunSpec | None = None
        self.prompt = ""

    def __call__(self, spec: RunSpec, **_: Any) -> None:
        self.spec = spec
        if spec.agent is not None and spec.agent.system_prompt is not None:
            self.prompt = spec.agent.system_prompt.read_text()
        raise NotEvaluable("no model here")


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> Asked:
    made = Asked()
    monkeypatch.setattr("agent_eval.ci.released.run_agent", made)
    return made


@pytest.fixture
def repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Repository:
    """A checkout whose prompt has changed since its release."""
    made = Repository(tmp_path / "checkout")
    monkeypatch.chdir(made.top)
    Path("prompt.md").write_text("Be careful.")
    made.git("add", "prompt.md")
    made.git("commit", "--quiet", "-m", "release")
    made.git("tag", "v1")
    Path("prompt.md").write_text("Be quick.")
    made.git("commit", "--quiet", "-am", "worse")
    return made


def job(repository: Repository, released: dict[str, str] | None = None, **flags: str) -> JobContext:
    """A job of main with a hosted agent; `released` are the settings as of the release, if they differ."""
    hosted = {"agent": "openai:small", "system_prompt": "prompt.md", "release_agent": "auto", **flags}
    then = settings_of(**(hosted if released is None else released))
    environ = {**repository.environ, "OPENAI_API_KEY": "sk-none"}
    return replace(make_job(settings_of(**hosted), environ), settings_at=lambda _: then)


def run(made: JobContext, commit: str) -> str:
    """Run the released agent, which cannot be asked here; return why."""
    with ReleasedAgent(made) as agent, pytest.raises(NotRun) as caught:
        agent.run(TARGET, commit)
    return caught.value.message


def test_a_hosted_model_is_asked_with_the_prompt_of_the_release(repository: Repository, asked: Asked) -> None:
    assert "no model here" in run(job(repository), repository.git("rev-parse", "v1"))
    assert asked.prompt == "Be careful."
    assert asked.spec is not None
    assert asked.spec.identity.git_commit == repository.git("rev-parse", "v1")
    # The worktree is gone afterwards.
    assert asked.spec.agent is not None
    assert not asked.spec.agent.system_prompt.exists()


@pytest.mark.parametrize(("trials", "run_with"), [("auto", 1), ("3", 3)])
def test_it_is_run_with_a_fixed_number_of_trials(
    repository: Repository, asked: Asked, trials: str, run_with: int
) -> None:
    run(job(repository, trials=trials), repository.git("rev-parse", "v1"))
    assert asked.spec is not None
    assert asked.spec.agent is not None
    assert asked.spec.agent.trials == run_with


def test_a_model_that_the_release_names_is_asked_and_not_todays(repository: Repository, asked: Asked) -> None:
    run(job(repository, {"agent": "openai:large"}), repository.git("rev-parse", "v1"))
    assert asked.spec is not None
    assert asked.spec.agent is not None
    assert asked.spec.agent.name == "openai:large"


def test_a_release_that_judged_recorded_traces_has_no_agent(repository: Repository, asked: Asked) -> None:
    assert "the release names no agent" in run(job(repository, {}), repository.git("rev-parse", "v1"))
    assert asked.spec is None


def test_evidence_without_a_commit_says_of_no_agent_what_it_was(repository: Repository, asked: Asked) -> None:
    with ReleasedAgent(job(repository)) as agent, pytest.raises(NotRun, match="does not say of which commit"):
        agent.run(TARGET, None)
    assert asked.spec is None


def test_a_release_that_main_does_not_come_from_is_not_run(repository: Repository, asked: Asked) -> None:
    repository.git("checkout", "--quiet", "--orphan", "elsewhere")
    repository.git("commit", "--quiet", "--allow-empty", "-m", "elsewhere")
    elsewhere = repository.git("rev-parse", "HEAD")
    repository.git("checkout", "--quiet", "--force", "main")
    assert "is not among those that the checkout comes from" in run(job(repository), elsewhere)
    assert asked.spec is None
