"""What teams include instead of pasting it: Buildkite's plugin and CircleCI's orb, run as they stand."""

import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

from agent_eval.errors import ExitCode
from tests.contract.test_ci_templates import InShell, at_work, place
from tests.e2e.runner import orders
from tests.fakes.docker import docker_runs
from tests.unit.ci.platforms.builds import BuildkiteRunner

ROOT = Path(__file__).parents[2]
HOOKS = ROOT / "ci-templates" / "agent-eval-buildkite-plugin" / "hooks"


def configured(configuration: Mapping[str, Any]) -> dict[str, str]:
    """The variables in which Buildkite's agent gives a plugin its configuration."""
    environ: dict[str, str] = {}
    for key, value in configuration.items():
        name = f"BUILDKITE_PLUGIN_AGENT_EVAL_{key.upper().replace('-', '_')}"
        for number, item in enumerate(value if isinstance(value, list) else []):
            environ[f"{name}_{number}"] = str(item)
        if not isinstance(value, list):
            environ[name] = str(value).lower() if isinstance(value, bool) else str(value)
    return environ


class Hooked(InShell):
    """Runs the plugin's hook in place of a command."""

    def configure(self, **configuration: Any) -> None:
        self.script = str(HOOKS / "command")
        given = {name.replace("_", "-"): value for name, value in configuration.items()}
        self.more = configured(given)

    def execute(self, environ: dict[str, str]) -> tuple[int, str]:
        own = ("AGENT_EVAL_SUITE", "AGENT_EVAL_MAX_REGRESSED_CASES")
        return super().execute({name: value for name, value in environ.items() if name not in own})


def hooked(root: Path, runner: BuildkiteRunner) -> Hooked:
    at_work("buildkite.yml", root / "unused", runner)
    shell = Hooked(root, [])
    runner.execute = shell.execute  # type: ignore[method-assign]
    return shell


@pytest.fixture
def buildkite(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    (tmp_path / "unused").mkdir()
    with place("buildkite", tmp_path) as (runner, push, change):
        assert isinstance(runner, BuildkiteRunner)
        monkeypatch.chdir(runner.repository.top)
        yield runner, hooked(tmp_path, runner), push, change


def test_plugin__gates_a_change_by_the_inputs_of_its_configuration(buildkite: Any) -> None:
    runner, shell, push, change = buildkite
    shell.configure(
        suite=["suite.json"], max_regressed_cases=0, set="ci.title=Shop agent", image="ci.example/ae:v1"
    )
    runner.write_suite(*orders())
    first = push(400)
    assert first.code == ExitCode.OK, first.log
    assert change().code == ExitCode.OK
    runner.write_suite(*orders(bad=(2,)))
    worse = change()
    assert worse.code == ExitCode.NO, worse.log
    assert runner.annotation()[0] == "error"
    assert "Shop agent" in runner.annotation()[1]
    for run in docker_runs(shell.programs):
        assert run["image"] == "ci.example/ae:v1"
        assert "SECRET_OF_THE_HOST" not in run["names"]


def test_plugin__hands_lists_over_as_lines_and_names_what_the_container_is_given(buildkite: Any) -> None:
    runner, shell, *_ = buildkite
    many = [f"ssn-{number}" for number in range(12)]
    shell.configure(suite="suite.json", label=many, agent_env=["KEY_A", "KEY_B"])
    shell.more |= {"KEY_A": "a", "KEY_B": "b", "KEY_C": "c"}
    left = shell.image / "agent-eval"
    left.unlink()
    left.write_text(
        '#!/bin/sh\nprintf "%s|" "$AGENT_EVAL_LABEL" "$AGENT_EVAL_AGENT_ENV" "$KEY_A$KEY_B$KEY_C"\n'
    )
    left.chmod(0o755)
    _, log = shell.execute({**runner.repository.environ, **dict.fromkeys(NEEDED, "main")})
    assert log == "{}|{}|ab|".format("\n".join(many), "KEY_A\nKEY_B")


NEEDED = ("BUILDKITE_PIPELINE_DEFAULT_BRANCH",)


@pytest.mark.parametrize("name", ["suites", "max-regressed", "gitlab-token", "suite-x"])
def test_plugin__refuses_what_is_no_input(buildkite: Any, name: str) -> None:
    runner, shell, *_ = buildkite
    shell.configure()
    shell.more = configured({name: "x"})
    code, log = shell.execute(runner.repository.environ)
    assert (code, "there is no input" in log) == (2, True), log
    assert docker_runs(shell.programs) == []


@pytest.mark.parametrize(
    ("configuration", "directory"),
    [({}, "agent-eval-out"), ({"out": "results"}, "results"), ({"out": "nowhere"}, None)],
)
def test_plugin__keeps_results(configuration: dict[str, str], directory: str | None, tmp_path: Path) -> None:
    shell = InShell(tmp_path, [str(HOOKS / "post-command")])
    shell._write("buildkite-agent", 'echo "$@"')
    for made in ("agent-eval-out", "results"):
        (tmp_path / made).mkdir()
    shell.script = f"cd {tmp_path}; {shell.script}"
    code, log = shell.execute({"PATH": os.environ["PATH"], **configured(configuration)})
    assert (code, log) == (0, f"artifact upload {directory}/**/*\n" if directory else "")


def orb_job(**parameters: str) -> dict[str, Any]:
    """The job of the orb, with the parameters in their places."""
    orb = yaml.safe_load((ROOT / "ci-templates" / "circleci-orb" / "src" / "@orb.yml").read_text())
    job = orb["jobs"]["evaluate"]
    declared = job.pop("parameters")
    given = {name.replace("_", "-"): value for name, value in parameters.items()}
    assert set(given) <= set(declared)

    def placed(node: Any) -> Any:
        if isinstance(node, dict):
            return {key: placed(value) for key, value in node.items()}
        if isinstance(node, list):
            return [placed(value) for value in node]
        if not isinstance(node, str):
            return node
        return re.sub(
            r"<< parameters\.([a-z-]+) >>",
            lambda found: given.get(found[1], declared[found[1]]["default"]),
            node,
        )

    placed_job: dict[str, Any] = placed(job)
    return placed_job


def test_orb__gates_a_change_by_its_parameters(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with place("circleci", tmp_path) as (runner, push, change):
        shell = at_work("circleci.yml", tmp_path, runner)
        job = orb_job(
            suite="suite.json", max_regressed_cases="0", set="policy.max_new_hard_fail_cases=0",
            image="ci.example/ae:v1",
        )  # fmt: skip
        shell.script = job["steps"][1]["run"]["command"]
        given = {name: value for name, value in job["environment"].items() if value or "SLUG" not in name}
        monkeypatch.chdir(runner.repository.top)
        shell.more = {name: value for name, value in given.items() if "CIRCLECI" not in name}
        runner.write_suite(*orders())
        assert push(400).code == ExitCode.OK
        runner.write_suite(*orders(bad=(2,)))
        worse = change()
        assert worse.code == ExitCode.NO, worse.log
        assert [run["image"] for run in docker_runs(shell.programs)] == ["ci.example/ae:v1"] * 2


def test_orb__no_parameter_is_pasted_into_a_shell() -> None:
    hostile = '"; echo pwned; "$(id)'
    job = orb_job(suite=hostile, image=hostile)
    assert "pwned" not in str([step.get("run") for step in job["steps"] if isinstance(step, dict)])
    assert job["environment"]["AGENT_EVAL_SUITE"] == hostile


def test_orb__keeps_what_the_job_leaves_where_it_leaves_it() -> None:
    *_, tests, artifacts = orb_job(results="kept")["steps"]
    assert tests == {"store_test_results": {"path": "kept/junit"}}
    assert artifacts == {"store_artifacts": {"path": "kept", "destination": "kept"}}
