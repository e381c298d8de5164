"""The ready files for CI platforms: the same job everywhere, and the job does what it says.

The shell of a template is taken out of its file and run in a repository with a branch. GitLab's as a
whole is run by gitlab-ci-local in `tests/real/test_gitlab_template.py`.
"""

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import yaml

from agent_eval.ci.config import INPUTS
from agent_eval.demo.scaffold import PLATFORMS
from agent_eval.errors import ExitCode
from tests.e2e.platforms import platform
from tests.e2e.program import write_program
from tests.e2e.runner import agent_program, live_order, orders
from tests.extent import OTHERS, WHOLE_JOB
from tests.fakes.buildkite_upload import CannotInterpolate, uploaded
from tests.fakes.docker import docker_runs, write_docker
from tests.unit.ci.platforms.builds import BuildkiteRunner, BuildRunner, Step

ROOT = Path(__file__).parents[2]
TEMPLATES = ROOT / "ci-templates"
PINNED = re.compile(r"uses: ([\w.-]+/[\w./-]+)@([0-9a-f]{40})(?: # (v[\d.]+))?$", re.MULTILINE)


def buildkite(name: str) -> list[str]:
    """The commands of a Buildkite template, as its agent sees them."""
    text = (TEMPLATES / name).read_text()
    (step,) = yaml.safe_load(uploaded(text, {}))["steps"]
    return [step["command"]] if isinstance(step["command"], str) else list(step["command"])


def circleci(name: str) -> list[str]:
    """The commands of a CircleCI template."""
    steps = yaml.safe_load((TEMPLATES / name).read_text())["jobs"]["agent-eval"]["steps"]
    return [step["run"] for step in steps if isinstance(step, dict) and "run" in step]


def jenkins(name: str) -> list[str]:
    """The shell of a Jenkins template."""
    return re.findall(r"(?:sh |script: )'([^']*)'", (TEMPLATES / name).read_text())


COMMANDS: dict[str, Callable[[str], list[str]]] = {
    "buildkite.yml": buildkite, "buildkite-pip.yml": buildkite, "circleci.yml": circleci,
    "circleci-pip.yml": circleci, "Jenkinsfile": jenkins, "Jenkinsfile-pip": jenkins,
}  # fmt: skip


class InShell:
    """Runs a template's commands in bash, with programs in place of what it would install, and of docker."""

    def __init__(self, root: Path, commands: list[str]) -> None:
        self.programs = root / "programs"
        self.image = write_docker(self.programs)
        self.inherited = write_program(self.image / "agent-eval")
        (self.programs / "agent-eval").symlink_to(self.image / "agent-eval")
        for name in ("python", "python3"):
            self._write(name, f'exec {self.programs / "install"} "$@"')
        # `-I -m venv DIR` makes an environment with the program; everything else is an installation.
        self._write(
            "install",
            f'[ "$1" = -I ] || exit 9; shift; [ "$2" = venv ] || exit 0; '
            f'mkdir -p "$3/bin"; touch "$3/bin/activate"; '
            f'ln -sf {self.programs}/agent-eval "$3/bin/"; ln -sf {shutil.which("true")} "$3/bin/pip"',
        )
        self.script = "\n".join(commands)
        self.more: dict[str, str] = {}

    def _write(self, name: str, line: str) -> None:
        (self.programs / name).write_text(f"#!/bin/sh\n{line}\n")
        (self.programs / name).chmod(0o755)

    def execute(self, environ: dict[str, str]) -> tuple[int, str]:
        """Run the script as the platforms do: bash, stopping at the first failure."""
        coverage = {name: value for name, value in os.environ.items() if name.startswith("COVERAGE")}
        own = {
            "PATH": f"{self.programs}:{environ['PATH']}", "AGENT_EVAL_PACKAGE": "agent-eval.whl",
            "ACCOUNT_USR": "ci", "ACCOUNT_PSW": environ.get("AGENT_EVAL_JENKINS_TOKEN", ""),
            "SECRET_OF_THE_HOST": "not for the container", **self.more,
        }  # fmt: skip
        done = subprocess.run(
            ["bash", "-eo", "pipefail", "-c", self.script],
            env={**environ, **coverage, **own, "NO_PROXY": "127.0.0.1"}, pass_fds=self.inherited,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False, timeout=120,
        )  # fmt: skip
        return done.returncode, done.stdout


def platform_of(template: str) -> str:
    """The platform that a template is for."""
    return "jenkins" if template.startswith("Jenkinsfile") else re.split(r"[-.]", template)[0]


@contextmanager
def place(name: str, root: Path) -> Iterator[tuple[BuildRunner, Callable[[int], Step], Callable[[], Step]]]:
    """A runner of a platform, how a push to main is evaluated, and how a change is."""
    with platform(name, root) as ci:
        yield ci.runner, ci.runner.push, lambda: ci.kind.change(ci, 500)


@pytest.mark.parametrize(
    "template", [pytest.param(name, marks=[WHOLE_JOB] if at else []) for at, name in enumerate(COMMANDS)]
)
def test_a_change_that_got_worse_fails_the_job_and_an_unchanged_one_passes(
    template: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with place(platform_of(template), tmp_path) as (runner, push, change):
        shell = at_work(template, tmp_path, runner)
        monkeypatch.chdir(runner.repository.top)
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
        if isinstance(runner, BuildkiteRunner):
            assert runner.annotation()[0] == "error"
        runs = docker_runs(shell.programs)
        assert len(runs) == (3 if "docker run" in shell.script else 0)
        assert all("SECRET_OF_THE_HOST" not in run["names"] for run in runs)


def at_work(template: str, root: Path, runner: BuildRunner) -> InShell:
    """Make the shell of a template the job of a runner, whose checkout is given a remote."""
    origin = root / "origin"
    runner.repository.git("clone", "--quiet", "--bare", ".", str(origin))
    runner.repository.git("remote", "add", "origin", str(origin))
    shell = InShell(root, COMMANDS[template](template))
    runner.execute = shell.execute  # type: ignore[method-assign]
    return shell


@pytest.mark.parametrize(
    "template", [pytest.param(name, marks=[OTHERS] if "-pip" in name else []) for name in COMMANDS]
)
def test_the_agent_that_is_named_runs_and_sees_the_variable_that_it_is_given(
    template: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with place(platform_of(template), tmp_path) as (runner, push, _):
        runner.write_suite(live_order(1))
        (runner.repository.top / "agent.py").write_text(
            agent_program("if os.environ.get('AGENT_KEY') != 'k-1': tools = []")
        )
        runner.base = runner.repository.commit()
        runner.repository.push("main")
        shell = at_work(template, tmp_path, runner)
        monkeypatch.chdir(runner.repository.top)
        shell.more = {
            "AGENT_EVAL_AGENT_COMMAND": f"{sys.executable} -S -E agent.py",
            "AGENT_EVAL_AGENT_ENV": "AGENT_KEY", "AGENT_KEY": "k-1", "AGENT_EVAL_MIN_PASS_RATE": "1",
        }  # fmt: skip
        ran = push(400)
        assert ran.code == ExitCode.OK, ran.log
        assert "k-1" not in ran.log


@pytest.mark.parametrize(
    ("text", "made"),
    [
        ("$$BRANCH \\$BRANCH $BRANCH ${BRANCH}", "$BRANCH $BRANCH replaced replaced"),
        ("${NONE:-default} ${EMPTY:-default} ${EMPTY-default}", "default default "),
        ("$${BRANCH:-x} $$(id -u) $(id -u)", "${BRANCH:-x} $(id -u) $(id -u)"),
        ("${BRANCH:2} ${BRANCH:0:3} ${BRANCH?}", "placed rep replaced"),
        ("costs $5 or 5$", "costs $5 or 5$"),
    ],
)
def test_a_pipeline_is_uploaded_by_buildkites_rules(text: str, made: str) -> None:
    assert uploaded(text, {"BRANCH": "replaced", "EMPTY": ""}) == made


@pytest.mark.parametrize("text", ["${NONE?}", "${EMPTY:?say it}", "${BRANCH/a/b}", "${not closed"])
def test_a_pipeline_that_buildkite_cannot_read_is_not_uploaded(text: str) -> None:
    with pytest.raises(CannotInterpolate):
        uploaded(text, {"BRANCH": "replaced", "EMPTY": ""})


@pytest.mark.parametrize(
    ("environ", "image"),
    [
        ({"CI_JOB_IMAGE": "python@sha256:4f"}, "container_image=python@sha256:4f"),
        ({"CI_JOB_IMAGE": "python:3.11", "AGENT_EVAL_LABEL": "model=m"}, "model=m"),
        ({}, "container_image="),
    ],
)
@pytest.mark.parametrize("template", ["gitlab.yml", "gitlab-pip.yml"])
def test_gitlabs_evidence_names_the_jobs_image(environ: dict[str, str], image: str, template: str) -> None:
    job = yaml.safe_load((TEMPLATES / template).read_text())["agent-eval"]
    script = [line.replace("agent-eval ci", 'printf %s "$AGENT_EVAL_LABEL"') for line in job["script"]]
    done = subprocess.run(["/bin/sh", "-ec", "\n".join(script)], env=environ, capture_output=True, check=True)
    assert done.stdout.decode() == image


def test_a_template_sets_only_inputs_that_exist() -> None:
    own = {"AGENT_EVAL_PACKAGE", *(row.variable for row in INPUTS)}
    for path in filter(Path.is_file, TEMPLATES.iterdir()):
        assert set(re.findall(r"\bAGENT_EVAL_[A-Z_]*[A-Z]\b", path.read_text(encoding="utf-8"))) <= own, path


WITH_INPUTS = {
    "github": lambda text: yaml.safe_load(text)["jobs"]["evaluate"]["steps"][1].get("with", {}),
    "gitlab": lambda text: yaml.safe_load(text)["agent-eval"]["variables"],
    "buildkite": lambda text: yaml.safe_load(text).get("env", {}),
    "circleci": lambda text: yaml.safe_load(text)["jobs"]["agent-eval"]["environment"],
    "jenkins": lambda text: dict(re.findall(r"^ +(AGENT_EVAL_\w+) = '([^']*)'$", text, re.MULTILINE)),
}


@pytest.mark.parametrize("platform", PLATFORMS)
def test_init_writes_the_template_which_leaves_what_is_decided_to_the_settings(platform: str) -> None:
    bundled = PLATFORMS[platform][1].removeprefix("demo/starter/")
    text = (TEMPLATES / {"workflow.yml": "github.yml"}.get(bundled, bundled)).read_text(encoding="utf-8")
    assert text == (ROOT / "agent_eval" / "demo" / "starter" / bundled).read_text(encoding="utf-8")
    own = {row.variable: row.name for row in INPUTS}
    sets = WITH_INPUTS[platform.removesuffix("-pip")](text)
    assert {own.get(name, name) for name in sets if name in own or platform == "github"} <= {
        "circleci-project-slug"
    }


def test_a_workflow_gives_only_inputs_and_reads_only_outputs_of_the_action() -> None:
    action = yaml.safe_load((ROOT / "action.yml").read_text(encoding="utf-8"))
    for name in ("github.yml", "github-agent.yml", "github-attest.yml", "github-nightly.yml"):
        text = (TEMPLATES / name).read_text(encoding="utf-8")
        steps = yaml.safe_load(text)["jobs"]["evaluate"]["steps"]
        (step,) = (step for step in steps if "/agent-eval@" in step.get("uses", ""))
        assert set(step.get("with", {})) <= set(action["inputs"]), name
        read = set(re.findall(rf"steps\.{step['id']}\.outputs\.([\w-]+)", text))
        assert read, name
        assert read <= set(action["outputs"]), name


def test_no_workflow_may_write_issues_and_no_change_can_start_the_nightly_one():
    permitted = {
        path.name: job.get("permissions", {}).get("issues")
        for path in sorted(TEMPLATES.glob("github*.yml"))
        for job in yaml.safe_load(path.read_text(encoding="utf-8"))["jobs"].values()
    }
    assert not any(permitted.values())
    nightly = yaml.safe_load((TEMPLATES / "github-nightly.yml").read_text(encoding="utf-8"))
    assert set(nightly[True]) == {"schedule", "workflow_dispatch"}  # YAML 1.1 reads `on` as true
    job = yaml.safe_load((TEMPLATES / "gitlab-nightly.yml").read_text(encoding="utf-8"))["agent-eval-nightly"]
    assert [rule["if"].split(" && ")[0] for rule in job["rules"]] == ['$CI_PIPELINE_SOURCE == "schedule"']


def test_nothing_that_starts_the_job_softens_its_exit_code() -> None:
    """What is not settled, exit 3, blocks as a failure does."""
    places = [*TEMPLATES.rglob("*"), *(ROOT / "vars").iterdir(), ROOT / "templates" / "agent-eval.yml"]
    places += [ROOT / "action.yml"]
    soft = re.compile(r"allow_failure|soft_fail|unstable\(|continue-on-error|\|\| true|when: on_fail")
    says_which = (
        rf"if \(code == {ExitCode.INCONCLUSIVE:d}\) {{ error\([^)]*\) }}\s*else if \(code != 0\) {{ error\("
    )
    for place in filter(Path.is_file, places):
        text = place.read_text(encoding="utf-8")
        assert soft.search(text) is None, place
        assert "circleci" not in place.name or "exit 0" not in text, place
        assert not place.name.startswith("Jenkinsfile") or re.search(says_which, text), place


def test_the_page_has_a_row_for_each_exit_code() -> None:
    text = (ROOT / "docs" / "guides" / "errors.md").read_text(encoding="utf-8")
    part = text.partition("## Exit codes\n")[2].partition("\n## ")[0]
    lines = [line for line in part.splitlines() if line.startswith("|")]
    heads, _, *rows = [[cell.strip() for cell in line.strip("| ").split("|")] for line in lines]
    assert heads == ["Exit code", "GitHub", "GitLab", "Buildkite", "CircleCI", "Jenkins"]
    assert [row[0].partition(" ")[0] for row in rows] == [str(int(code)) for code in ExitCode]
    assert all(rows[0][1:])
    assert all(row[1:] == ["failure", "failed", "failed", "failed", "failure"] for row in rows[1:])


def test_every_action_is_pinned_by_commit_and_everywhere_by_the_same() -> None:
    places = [*ROOT.glob(".github/workflows/*.yml"), *TEMPLATES.glob("*.yml"), ROOT / "README.md"]
    pins: dict[str, set[tuple[str, str]]] = {}
    for place in [*places, *ROOT.glob("docs/**/*.md")]:
        text = place.read_text(encoding="utf-8")
        for used in re.findall(r"^\s*(?:- )?uses: (\S+)", text, re.MULTILINE) if place in places else ():
            assert used == "./" or re.search(r"@[0-9a-f]{40}$", used), f"{place.name}: {used}"
        for action, commit_, version in PINNED.findall(text):
            pins.setdefault(action, set()).add((commit_, version))
    assert "actions/checkout" in pins
    assert {action: found for action, found in pins.items() if len(found) > 1} == {}
