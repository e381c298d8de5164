"""The ready files for CI platforms: the same job everywhere, and the job does what it says.

The shell of a template is taken out of its file and run in a repository with a branch. GitLab's, which is one
command, is run by gitlab-ci-local in `tests/real/test_gitlab_template.py`.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import textwrap
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml

from agent_eval.ci.inputs import INPUTS
from agent_eval.demo.scaffold import PLATFORMS
from agent_eval.errors import ExitCode
from tests.e2e.program import write_program

ROOT = Path(__file__).parents[2]
TEMPLATES = ROOT / "ci-templates"
PINNED = re.compile(r"uses: ([\w.-]+/[\w./-]+)@([0-9a-f]{40})(?: # (v[\d.]+))?$", re.MULTILINE)


def circleci() -> str:
    """The evaluation's command of the CircleCI template."""
    steps = yaml.safe_load((TEMPLATES / "circleci.yml").read_text())["jobs"]["agent-eval"]["steps"]
    runs = [step["run"] for step in steps if isinstance(step, dict) and "run" in step]
    (command,) = (run["command"] for run in runs if run["name"] == "Evaluate")
    return command


def jenkins() -> str:
    """The evaluation's shell of the Jenkins template, after the lines that set it up."""
    (script,) = re.findall(
        r"'''#!/usr/bin/env bash\n(.*?)'''", (TEMPLATES / "Jenkinsfile").read_text(), re.DOTALL
    )
    return script.split(". .agent-eval/bin/activate\n", 1)[1]


SCRIPTS: dict[str, Callable[[], str]] = {
    "circleci": circleci,
    "jenkins": jenkins,
}


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A clone on a branch, whose suite is as on main."""
    origin = tmp_path / "origin"
    (origin / "suites").mkdir(parents=True)
    shutil.copyfile(ROOT / "examples" / "suite_good.json", origin / "suites" / "support.json")
    git(origin, "init", "--quiet", "--initial-branch=main")
    commit(origin)
    git(tmp_path, "clone", "--quiet", str(origin), "clone")
    git(tmp_path / "clone", "checkout", "--quiet", "-b", "change")
    return tmp_path / "clone"


def git(where: Path, *arguments: str) -> None:
    """Run git without the machine's configuration."""
    environ = {**os.environ, "GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_NOSYSTEM": "1"}
    identity = ["-c", "user.name=Ada", "-c", "user.email=ada@example.com"]
    subprocess.run(["git", *identity, *arguments], cwd=where, env=environ, check=True, timeout=60)


def commit(where: Path) -> None:
    """Commit everything."""
    git(where, "add", ".")
    git(where, "commit", "--quiet", "--message", "change")


def run(
    script: str, where: Path, suite: str = "suites/support.json", **inputs: str
) -> subprocess.CompletedProcess[str]:
    """Run a template's shell as the platforms do: bash, stopping at the first failure."""
    tools = where.parent / "bin"
    tools.mkdir(exist_ok=True)
    inherited = write_program(tools / "agent-eval")
    environ = {name: value for name, value in os.environ.items() if name.startswith("COVERAGE")}
    environ |= {
        "PATH": f"{tools}:{Path(sys.executable).parent}:{os.environ['PATH']}",
        "HOME": str(where),
        "AGENT_EVAL_BRANCH": "main",
        "AGENT_EVAL_SUITE": suite,
        "AGENT_EVAL_MAX_REGRESSED_CASES": "0",
        "AGENT_EVAL_MAX_NEW_HARD_FAIL_CASES": "0",
        **inputs,
    }
    command = ["bash", "-euo", "pipefail", "-c", script]
    return subprocess.run(
        command,
        cwd=where,
        env=environ,
        pass_fds=inherited,
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )


def test_platforms_without_a_baseline_of_their_own_run_the_same_shell():
    assert len({textwrap.dedent(read()).strip() for read in SCRIPTS.values()}) == 1


def test_an_unchanged_suite_passes_and_leaves_a_report(checkout):
    done = run(circleci(), checkout)
    assert done.returncode == ExitCode.OK, done.stdout + done.stderr
    assert (checkout / "agent-eval-out" / "report.md").is_file()


def test_a_suite_that_got_worse_fails_the_job(checkout):
    shutil.copyfile(ROOT / "examples" / "suite_bad.json", checkout / "suites" / "support.json")
    commit(checkout)
    done = run(circleci(), checkout)
    assert done.returncode == ExitCode.NO, done.stdout + done.stderr
    assert "regressed" in done.stdout.lower()


def test_a_suite_that_main_does_not_have_yet_is_no_failure(checkout):
    (checkout / "suites" / "support.json").rename(checkout / "suites" / "new.json")
    commit(checkout)
    done = run(circleci(), checkout, "suites/new.json")
    assert done.returncode == ExitCode.OK, done.stdout + done.stderr


AGENT = """\
import json, sys
calls = [{{"tool": "{tool}", "arguments": {{}}}}]
json.dump({{"assistant_output": "done", "tool_calls": calls}}, sys.stdout)
"""
RUN_AGENT = {
    "AGENT_EVAL_AGENT_COMMAND": f"{sys.executable} agent.py",
    "AGENT_EVAL_JUDGES": "policy",
    "AGENT_EVAL_JUDGE_CONFIG": "judges.json",
}


@pytest.mark.parametrize(("tool", "code"), [("look", ExitCode.OK), ("escalate", ExitCode.NO)])
def test_the_baseline_is_evaluated_with_its_own_agent_and_the_same_judges(checkout, tool, code):
    git(checkout, "checkout", "--quiet", "main")
    case = {"case_id": "a", "policy": {"forbidden_tools": ["escalate"]}}
    case["metadata"] = {"tool_responses": {"look": 1, "escalate": 1}}
    (checkout / "suites" / "agent.json").write_text(json.dumps({"dataset_id": "shop", "cases": [case]}))
    (checkout / "judges.json").write_text(json.dumps({"policy": {"weight": 2}}))
    (checkout / "agent.py").write_text(AGENT.format(tool="look"))
    commit(checkout)
    git(checkout, "push", "--quiet", "origin", "main:next")
    git(checkout, "checkout", "--quiet", "-b", "new-agent")
    (checkout / "agent.py").write_text(AGENT.format(tool=tool) + "# changed\n")
    commit(checkout)
    done = run(circleci(), checkout, "suites/agent.json", AGENT_EVAL_BRANCH="next", **RUN_AGENT)
    assert done.returncode == code, done.stdout + done.stderr
    comparison = next((checkout / "agent-eval-out").rglob("baseline_delta.json"))
    assert json.loads(comparison.read_text())["cases"]["compared"] == 1
    again = run(circleci(), checkout, "suites/agent.json", AGENT_EVAL_BRANCH="next", **RUN_AGENT)
    assert again.returncode == code, "a workspace is used more than once"


def test_a_baseline_that_cannot_be_evaluated_is_no_pass(checkout):
    git(checkout, "checkout", "--quiet", "main")
    shutil.copyfile(ROOT / "examples" / "suite_good.json", checkout / "suites" / "broken.json")
    (checkout / "agent-eval.yml").write_text("no-such-setting: 1\n")
    commit(checkout)
    git(checkout, "push", "--quiet", "origin", "main:next")
    (checkout / "agent-eval.yml").unlink()
    done = run(circleci(), checkout, "suites/broken.json", AGENT_EVAL_BRANCH="next")
    assert done.returncode == ExitCode.WRONG_REQUEST
    assert "agent-eval-baseline/evidence.zip does not exist" in done.stdout + done.stderr


@pytest.mark.parametrize("template", sorted(path.name for path in TEMPLATES.iterdir()))
def test_a_template_sets_only_inputs_that_exist(template):
    text = (TEMPLATES / template).read_text(encoding="utf-8")
    own = {"AGENT_EVAL_PACKAGE", "AGENT_EVAL_BRANCH"}
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
