"""A suite that ran in shards is decided on as one run: the shell of the reusable workflow, then the job."""

import json
import os
import shutil
import subprocess
from pathlib import Path

import pytest
import yaml

from tests.e2e.program import agent_eval, write_program
from tests.e2e.runner import (
    BASE_BRANCH_RUN,
    BASE_SHA,
    COMMAND,
    HEAD_SHA,
    PULL,
    REPOSITORY,
    Runner,
    Step,
    agent_program,
    live_order,
    orders,
    unzipped,
)
from tests.e2e.test_ci_platforms import BROKEN
from tests.fakes.github import FakeGitHub, sha

WORKFLOW = yaml.safe_load((REPOSITORY / "ci-templates" / "github-shards.yml").read_text())
SHARDS = 3


def commands(job: str) -> list[str]:
    """The shell of a job, without what it installs."""
    steps = [step["run"] for step in WORKFLOW["jobs"][job]["steps"] if "run" in step]
    return [step for step in steps if "pip install" not in step]


class Machines:
    """Runs the shell of the workflow's jobs as a runner does, each shard by itself."""

    def __init__(self, runner: Runner, programs: Path) -> None:
        self.runner = runner
        programs.mkdir()
        self.inherited = write_program(programs / "agent-eval")
        self.path = f"{programs}:{os.environ['PATH']}"

    def run(self, job: str, **environ: str) -> None:
        coverage = {name: value for name, value in os.environ.items() if name.startswith("COVERAGE")}
        variables = {"PATH": self.path, "GITHUB_RUN_ID": "500", **environ}
        for script in commands(job):
            subprocess.run(
                ["bash", "-e", "-c", script], cwd=self.runner.workspace,
                env={**coverage, "GITHUB_ACTIONS": "true", **variables}, pass_fds=self.inherited,
                check=True, capture_output=True, timeout=120,
            )  # fmt: skip

    def evaluate(self, body: str = "", *, commit: str = HEAD_SHA) -> None:
        """All shards and the merge, for an agent, with this commit checked out."""
        self.runner.check_out(commit)
        (self.runner.workspace / "agent.py").write_text(agent_program(body))
        for shard in range(1, SHARDS + 1):
            self.run(
                "shard", SUITE="suite.json", AGENT=COMMAND, SHARD=str(shard), SHARDS=str(SHARDS),
                OPENAI_API_KEY="",
            )  # fmt: skip
        self.run("decide")

    def clear(self) -> None:
        """A new machine has nothing of the one before."""
        for name in ("shards", "merged", "agent-eval-out"):
            shutil.rmtree(self.runner.workspace / name, ignore_errors=True)


@pytest.fixture
def machines(runner: Runner, tmp_path: Path) -> Machines:
    return Machines(runner, tmp_path / "programs")


CASES = [live_order(number) for number in range(1, 7)]


def test_shards_are_decided_on_as_one_run(runner: Runner, github: FakeGitHub, machines: Machines) -> None:
    runner.write_suite(*CASES)
    machines.evaluate(commit=BASE_SHA)
    whole = runner.push(evidence="merged")
    runner.upload(whole, BASE_BRANCH_RUN)
    machines.clear()
    machines.evaluate()
    unchanged = runner.pull_request(evidence="merged")
    assert (unchanged.code, unchanged.outcome) == (0, "passed"), unchanged.log
    assert unchanged.outputs["pass-rate"] == whole.outputs["pass-rate"] == "1"
    machines.clear()
    machines.evaluate(BROKEN)
    worse = runner.pull_request(run_id=501, evidence="merged")
    assert (worse.code, worse.outcome) == (1, "failed")
    assert worse.outputs["regressed-cases"] == "6"
    assert "6 of 6 recorded cases regressed" in github.bodies(PULL)[0]
    assert "suite.json" in github.bodies(PULL)[0]


def test_merged_evidence_is_kept_whole_as_the_next_baseline(runner: Runner, machines: Machines) -> None:
    runner.write_suite(*CASES)
    machines.evaluate(commit=BASE_SHA)
    step = runner.push(evidence="merged")
    merged = {
        path.relative_to(runner.workspace / "merged").as_posix(): path.read_bytes()
        for path in (runner.workspace / "merged").rglob("*")
        if path.is_file()
    }
    assert {f"shop/{name}": data for name, data in merged.items()}.items() <= unzipped(step.archive).items()
    runner.upload(step, BASE_BRANCH_RUN)
    machines.clear()
    machines.evaluate(BROKEN)
    assert runner.pull_request(evidence="merged").outputs["baseline-run-id"] == str(BASE_BRANCH_RUN)


def refused(step: Step, words: str) -> None:
    assert (step.code, step.outcome) == (2, "error"), step.log
    assert words in step.summary


def test_evidence_of_something_else_is_refused(runner: Runner, machines: Machines) -> None:
    runner.write_suite(*CASES)
    machines.evaluate()
    refused(runner.pull_request(evidence="missing"), "missing")
    refused(runner.pull_request(run_id=501, evidence="merged", checkout=sha("b")), "is of another commit")
    runner.write_suite(*CASES[:5])
    refused(runner.pull_request(run_id=502, evidence="merged"), "another version of `suite.json`")
    runner.write_suite(*orders(), dataset_id="other")
    refused(runner.pull_request(run_id=503, evidence="merged"), "no evidence of `other`")


def elsewhere(runner: Runner) -> Path:
    """Evidence that a flawless agent made of the same suite, outside of any job and any commit."""
    place = runner.root / "elsewhere"
    place.mkdir()
    shutil.copy(runner.workspace / "suite.json", place)
    (place / "agent.py").write_text(agent_program())
    ended = agent_eval(
        "run", "--suite", "suite.json", "--agent-command", COMMAND, "--out", "forged", cwd=place
    )
    assert ended.code == 0, ended.err
    return place / "forged"


def test_of_two_packs_of_one_dataset_none_is_taken(runner: Runner, machines: Machines) -> None:
    runner.write_suite(*CASES)
    machines.evaluate(BROKEN)
    both = runner.workspace / "both"
    shutil.copytree(runner.workspace / "merged", both / "0")
    shutil.copytree(elsewhere(runner), both / "1")
    step = runner.pull_request(evidence="both")
    assert (step.code, step.outcome) == (4, "error"), step.log
    assert "has `shop` twice" in step.summary


def test_evidence_without_a_commit_is_refused(runner: Runner, machines: Machines) -> None:
    runner.write_suite(*CASES)
    shutil.copytree(elsewhere(runner), runner.workspace / "merged")
    refused(runner.pull_request(evidence="merged"), "does not say of which commit it is")


def test_evidence_that_was_changed_is_refused(runner: Runner, machines: Machines) -> None:
    runner.write_suite(*CASES)
    machines.evaluate()
    file = "cases/order-1/verdicts.json"
    path = runner.workspace / "merged" / file
    verdicts = path.read_bytes()
    assert b"true" in verdicts
    path.write_bytes(verdicts.replace(b"true", b"false", 1))
    refused(runner.pull_request(evidence="merged"), file)


def test_a_change_cannot_bring_its_own_evidence(runner: Runner) -> None:
    runner.write_suite(*orders())
    (runner.workspace / "agent-eval.yml").write_text("evidence: {from: mine}\n")
    refused(runner.pull_request(), "there is no key `evidence.from`")


def test_a_missing_shard_is_an_error_of_the_merge(runner: Runner, machines: Machines) -> None:
    runner.write_suite(*CASES)
    machines.evaluate()
    for name in ("shards/1", "merged"):
        shutil.rmtree(runner.workspace / name)
    with pytest.raises(subprocess.CalledProcessError):
        machines.run("decide")


def test_the_workflow_gives_only_inputs_of_the_action_and_the_least_permissions() -> None:
    action = yaml.safe_load((REPOSITORY / "action.yml").read_text())
    (step,) = (step for step in WORKFLOW["jobs"]["decide"]["steps"] if "/agent-eval@" in step.get("uses", ""))
    assert set(step["with"]) <= set(action["inputs"])
    assert step["with"]["evidence"] == "merged"
    assert WORKFLOW["permissions"] == {}
    assert WORKFLOW["jobs"]["shard"]["permissions"] == {"contents": "read"}
    assert json.loads(WORKFLOW[True]["workflow_call"]["inputs"]["shards"]["default"]) == [1, 2, 3, 4]
    for job in ("shard", "decide"):
        assert not [script for script in commands(job) if "${{" in script]
