"""The ready files for CI platforms: the same job everywhere, and the job does what it says.

The shell of a template is taken out of its file and run in a repository with a branch. GitLab's as a
whole is run by gitlab-ci-local in `tests/real/test_gitlab_template.py`.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import pytest
import yaml

from agent_eval.ci.inputs import INPUTS
from agent_eval.demo.scaffold import PLATFORMS
from agent_eval.errors import ExitCode
from tests.e2e.program import write_program
from tests.e2e.runner import orders
from tests.fakes.buildkite import FakeBuildkite
from tests.fakes.circleci import FakeCircleCI
from tests.fakes.contract import Contract
from tests.fakes.jenkins import FOLDER, FakeJenkins
from tests.unit.ci.platforms.build_runner import BuildRunner, Step
from tests.unit.ci.platforms.buildkite.runner import BuildkiteRunner
from tests.unit.ci.platforms.circleci.runner import CircleCIRunner
from tests.unit.ci.platforms.jenkins.runner import JenkinsRunner

ROOT = Path(__file__).parents[2]
TEMPLATES = ROOT / "ci-templates"
PINNED = re.compile(r"uses: ([\w.-]+/[\w./-]+)@([0-9a-f]{40})(?: # (v[\d.]+))?$", re.MULTILINE)


def buildkite() -> list[str]:
    """The commands of the Buildkite template, as its agent sees them."""
    text = (TEMPLATES / "buildkite.yml").read_text()
    (step,) = yaml.safe_load(interpolated(text, {}))["steps"]
    return list(step["command"])


def interpolated(text: str, environ: Mapping[str, str]) -> str:
    """Replace variables as Buildkite does when it reads a pipeline; `$$` is a dollar for the shell."""

    def value(found: re.Match[str]) -> str:
        if found[0] in ("$$", "\\$"):
            return "$"
        return environ.get(found["name"], found["default"] or "")

    pattern = r"\$\$|\\\$|\$\{?(?P<name>[A-Za-z_][A-Za-z0-9_]*)(?::?[-?](?P<default>[^}]*))?\}?"
    return re.sub(pattern, value, text)


def circleci() -> list[str]:
    """The commands of the CircleCI template."""
    steps = yaml.safe_load((TEMPLATES / "circleci.yml").read_text())["jobs"]["agent-eval"]["steps"]
    return [step["run"] for step in steps if isinstance(step, dict) and "run" in step]


def jenkins() -> list[str]:
    """The shell of the Jenkins template."""
    return re.findall(r"(?:sh |script: )'([^']*)'", (TEMPLATES / "Jenkinsfile").read_text())


COMMANDS: dict[str, Callable[[], list[str]]] = {
    "buildkite": buildkite,
    "circleci": circleci,
    "jenkins": jenkins,
}


class InShell:
    """Runs a template's commands in bash, with a program in place of what it would install."""

    def __init__(self, root: Path, commands: list[str]) -> None:
        self.programs = root / "programs"
        self.programs.mkdir()
        self.inherited = write_program(self.programs / "agent-eval")
        for name in ("python", "python3"):
            self._write(name, f'exec {self.programs / "install"} "$@"')
        # `-m venv DIR` makes an environment with the program; everything else is an installation.
        self._write(
            "install",
            f'[ "$2" = venv ] || exit 0; mkdir -p "$3/bin"; touch "$3/bin/activate"; '
            f'ln -sf {self.programs}/agent-eval "$3/bin/"; ln -sf {shutil.which("true")} "$3/bin/pip"',
        )
        self.script = "\n".join(commands)

    def _write(self, name: str, line: str) -> None:
        (self.programs / name).write_text(f"#!/bin/sh\n{line}\n")
        (self.programs / name).chmod(0o755)

    def execute(self, environ: dict[str, str]) -> tuple[int, str]:
        """Run the script as the platforms do: bash, stopping at the first failure."""
        coverage = {name: value for name, value in os.environ.items() if name.startswith("COVERAGE")}
        own = {
            "PATH": f"{self.programs}:{environ['PATH']}",
            "AGENT_EVAL_PACKAGE": "agent-eval.whl",
            "ACCOUNT_USR": "ci",
            "ACCOUNT_PSW": environ.get("AGENT_EVAL_JENKINS_TOKEN", ""),
        }
        done = subprocess.run(
            ["bash", "-euo", "pipefail", "-c", self.script],
            env={**environ, **coverage, **own, "NO_PROXY": "127.0.0.1"},
            pass_fds=self.inherited,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
            timeout=120,
        )
        return done.returncode, done.stdout


@contextmanager
def place(
    platform: str, root: Path
) -> Iterator[tuple[BuildRunner, Callable[[int], Step], Callable[[], Step]]]:
    """A runner of a platform, how a push to main is evaluated, and how a change is."""
    if platform == "buildkite":
        with FakeBuildkite(Contract("buildkite")) as server:
            build = BuildkiteRunner(root, server)
            yield build, build.push, build.pull_request
    elif platform == "circleci":
        with FakeCircleCI(Contract("circleci")) as circle:
            job = CircleCIRunner(root, circle)
            yield job, job.push, job.branch
    else:
        with FakeJenkins() as server_of_jenkins:
            server_of_jenkins.builds[f"{FOLDER}/job/main"] = []
            run = JenkinsRunner(root, server_of_jenkins)
            yield run, run.push, run.pull_request


@pytest.mark.parametrize("platform", COMMANDS)
def test_a_change_that_got_worse_fails_the_job_and_an_unchanged_one_passes(
    platform: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with place(platform, tmp_path) as (runner, push, change):
        origin = tmp_path / "origin"
        runner.repository.git("clone", "--quiet", "--bare", ".", str(origin))
        runner.repository.git("remote", "add", "origin", str(origin))
        monkeypatch.chdir(runner.repository.top)
        runner.execute = InShell(tmp_path, COMMANDS[platform]()).execute  # type: ignore[method-assign]
        runner.write_suite(*orders())
        first = push(400)
        assert first.code == ExitCode.OK, first.log
        unchanged = change()
        assert unchanged.code == ExitCode.OK, unchanged.log
        assert "merge base" in unchanged.report
        runner.write_suite(*orders(bad=(2,)))
        worse = change()
        assert worse.code == ExitCode.NO, worse.log
        assert "order-2" in worse.report


def test_the_shell_of_buildkite_gets_its_dollars() -> None:
    environ = {"BRANCH": "replaced", "EMPTY": ""}
    text = "$$BRANCH \\$BRANCH $BRANCH ${BRANCH} ${NONE:-default} $${BRANCH:-x}"
    assert interpolated(text, environ) == "$BRANCH $BRANCH replaced replaced default ${BRANCH:-x}"


@pytest.mark.parametrize(
    ("environ", "image"),
    [
        ({"CI_JOB_IMAGE": "python@sha256:4f"}, "python@sha256:4f"),
        ({"CI_JOB_IMAGE": "python:3.11", "AGENT_EVAL_CONTAINER_IMAGE": "agent@sha256:81"}, "agent@sha256:81"),
        ({}, ""),
    ],
)
def test_the_evidence_of_gitlab_names_the_image_of_the_job(environ: dict[str, str], image: str) -> None:
    job = yaml.safe_load((TEMPLATES / "gitlab.yml").read_text())["agent-eval"]
    script = [
        line.replace("agent-eval ci", 'printf %s "$AGENT_EVAL_CONTAINER_IMAGE"') for line in job["script"]
    ]
    done = subprocess.run(["/bin/sh", "-ec", "\n".join(script)], env=environ, capture_output=True, check=True)
    assert done.stdout.decode() == image


@pytest.mark.parametrize("template", sorted(path.name for path in TEMPLATES.iterdir()))
def test_a_template_sets_only_inputs_that_exist(template):
    text = (TEMPLATES / template).read_text(encoding="utf-8")
    own = {"AGENT_EVAL_PACKAGE"}
    used = set(re.findall(r"\bAGENT_EVAL_[A-Z_]*[A-Z]\b", text)) - own
    assert used <= {row.variable for row in INPUTS}


@pytest.mark.parametrize("platform", PLATFORMS)
def test_the_templates_are_what_init_writes(platform):
    bundled = PLATFORMS[platform][1].removeprefix("demo/starter/")
    template = {"workflow.yml": "github.yml"}.get(bundled, bundled)
    starter = ROOT / "agent_eval" / "demo" / "starter"
    assert (TEMPLATES / template).read_bytes() == (starter / bundled).read_bytes()


@pytest.mark.parametrize("template", ["github.yml", "github-agent.yml", "github-attest.yml"])
def test_the_workflow_gives_only_inputs_and_reads_only_outputs_of_the_action(template):
    action = yaml.safe_load((ROOT / "action.yml").read_text(encoding="utf-8"))
    text = (TEMPLATES / template).read_text(encoding="utf-8")
    (step,) = (
        step
        for step in yaml.safe_load(text)["jobs"]["evaluate"]["steps"]
        if "/agent-eval@" in step.get("uses", "")
    )
    assert set(step["with"]) <= set(action["inputs"])
    read = set(re.findall(rf"steps\.{step['id']}\.outputs\.([\w-]+)", text))
    assert read
    assert read <= set(action["outputs"])


def test_the_same_action_has_the_same_pin_wherever_it_is_named():
    places = [*ROOT.glob(".github/workflows/*.yml"), *TEMPLATES.glob("*.yml"), ROOT / "README.md"]
    places += ROOT.glob("docs/**/*.md")
    pins: dict[str, set[tuple[str, str]]] = {}
    for place in places:
        for action, commit_, version in PINNED.findall(place.read_text(encoding="utf-8")):
            pins.setdefault(action, set()).add((commit_, version))
    assert "actions/checkout" in pins
    assert {action: found for action, found in pins.items() if len(found) > 1} == {}


def test_every_action_is_pinned_by_commit():
    for place in [*ROOT.glob(".github/workflows/*.yml"), *TEMPLATES.glob("*.yml"), ROOT / "README.md"]:
        for used in re.findall(r"^\s*(?:- )?uses: (\S+)", place.read_text(encoding="utf-8"), re.MULTILINE):
            assert used == "./" or re.search(r"@[0-9a-f]{40}$", used), f"{place.name}: {used}"
