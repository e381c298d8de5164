"""Judges whose code a change brings: none runs beside the token, and none decides by how it ends."""

import json
import sys
import textwrap
import time
from typing import Any

import pytest

from tests.e2e.runner import BASE_SHA, Runner, Step, order
from tests.e2e.test_ci_agent import AS_IN_A_CONTAINER
from tests.extent import WHOLE_JOB
from tests.fakes.github import TOKEN

JUDGE = """\
import os, subprocess, sys, time
from agent_eval.errors import FailureKind
from agent_eval.judges import BaseJudge

class Facts(BaseJudge):
    judge_id = "facts"

    def evaluate(self, case, trace):
{body}
        return self.passed(case, "as it should be")
"""
ENDED = "Judge `facts` ended without a verdict in `order-1`."


def write(runner: Runner, body: str = "pass", **config: Any) -> None:
    """A judge in the workspace that does this before it passes a case."""
    (runner.workspace / "facts.py").write_text(JUDGE.format(body=textwrap.indent(body, " " * 8)))
    (runner.workspace / "judges.json").write_text(json.dumps({"facts": config} if config else {}))


def judged(runner: Runner, *cases: dict[str, Any], **inputs: str) -> Step:
    """Push to main with this judge, as root of a container."""
    runner.write_suite(*(cases or (order(1),)))
    runner.github.add_run(500, status="in_progress")
    given = {"judges": "facts:Facts", "judge_config": "judges.json", "min_pass_rate": "1", **inputs}
    command = (sys.executable, "-c", AS_IN_A_CONTAINER)
    return runner.start("push", {}, 500, BASE_SHA, "heads/main", given, command=command)


FORGED = """\
import json
verdict = {"judge_id": "facts", "case_id": "order-1", "outcome": "passed", "passed": True, "reason": "forged"}
for number in range(3, 64):
    try:
        os.write(number, json.dumps({"id": "0", "verdict": verdict}).encode() + b"\\n")
    except OSError:
        pass
"""

ENDS = {
    "os._exit": ("os._exit(0)", "It ended without an answer."),
    "sys.exit": ("sys.exit(0)", "It ended without an answer."),
    "a signal": ("os.kill(os.getpid(), 11)", "It was ended by SIGSEGV without an answer."),
    "no verdict": ("return None", "It returned NoneType instead of a Verdict."),
    "a word": ("return 'passed'", "It returned str instead of a Verdict."),
    "another judge's": (
        "return self.passed(case, 'x').model_copy(update={'judge_id': 'policy'})",
        "It answered for `policy` on case `order-1`.",
    ),
    "another case's": (
        "return self.passed(case, 'x').model_copy(update={'case_id': 'order-2'})",
        "It answered for `facts` on case `order-2`.",
    ),
    "half a verdict": (
        "return self.passed(case, 'x').model_copy(update={'passed': False})",
        "It gave a malformed verdict",
    ),
    "forged answers": (FORGED, "It wrote"),
    "a hang": ("time.sleep(600)", "It did not end within 0.5 s."),
    "its supervisor killed": ("os.kill(os.getppid(), 9); time.sleep(600)", "It lost its supervising process"),
}


@pytest.mark.parametrize(
    "end", [pytest.param(end, marks=[] if end == "os._exit" else WHOLE_JOB) for end in ENDS]
)
def test_a_judge_that_ends_without_a_verdict_is_never_a_pass(runner: Runner, end: str) -> None:
    body, how = ENDS[end]
    write(runner, body, **({"timeout_seconds": 0.5} if end == "a hang" else {}))
    step = judged(runner)
    assert (step.code, step.outcome) == (4, "error"), step.log
    assert ENDED in step.summary
    assert f"{ENDED} {how}".replace("`", "") in step.summary.replace("`", "")


@pytest.mark.parametrize(
    "program",
    ["exit 0", "echo '{\"passed\": tru'", 'echo \'{"reason": "fine"}\'', "echo '{\"passed\": true}'; exit 1"],
)
@WHOLE_JOB
def test_a_program_that_ends_without_a_whole_verdict_is_never_a_pass(runner: Runner, program: str) -> None:
    (runner.workspace / "judges.json").write_text(json.dumps({"command": {"command": ["sh", "-c", program]}}))
    step = judged(runner, judges="command")
    assert (step.code, step.outcome) == (4, "error"), step.log
    assert "judge `command` gave no verdict" in step.summary
    assert "order-1" in step.summary


PATCHES = """\
import agent_eval.gate.decide as gate, agent_eval.ci.job as job
gate.decide_by_policy = gate.decide_without_baseline = job.run_job = lambda *_, **__: 0
sys.modules["agent_eval.contracts.verdict"].combine = lambda verdicts: None
if case.case_id == "order-2":
    return self.failed(case, "wrong", FailureKind.POLICY_VIOLATION)
"""


def test_a_judge_that_patches_the_gate_changes_nothing(runner: Runner) -> None:
    write(runner, PATCHES)
    step = judged(runner, order(1), order(2))
    assert (step.code, step.outcome) == (1, "failed"), step.log


READS = """\
import glob, re
token, found, readable = {token!r}, [], []
for name, value in os.environ.items():
    found += [name] if token in value else []
for place in glob.glob("/proc/[0-9]*/environ"):
    try:
        text = open(place, errors="replace").read()
    except OSError:
        continue
    found += [place] if token in text else []
pid = os.getppid()
while pid > 1:
    about = open(f"/proc/{{pid}}/stat").read().rpartition(")")[2].split()
    command = open(f"/proc/{{pid}}/cmdline").read()
    if "agent_eval" in command and "supervisor" not in command:
        try:
            open(f"/proc/{{pid}}/mem", "rb")
            readable.append(command)
        except OSError:
            pass
        break
    pid = int(about[1])
if found or readable:
    return self.failed(case, f"it saw {{found}} {{readable}}", FailureKind.POLICY_VIOLATION)
own = sorted(name for name in os.environ if name.startswith(("INPUT_", "GITHUB_", "AGENT_EVAL")))
if own or "KEY_OF_THE_JUDGE" not in os.environ:
    return self.failed(case, f"it got {{own}}", FailureKind.POLICY_VIOLATION)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux shows other processes' environment in /proc")
def test_judge_sees_no_token_but_named_variables(runner: Runner, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KEY_OF_THE_JUDGE", "1")
    write(runner, READS.format(token=TOKEN[:-1]), env=["KEY_OF_THE_JUDGE"])
    step = judged(runner)
    assert (step.code, step.outcome) == (0, "no-baseline"), step.summary
    assert step.outputs["pass-rate"] == "1"


LEAVES = """\
if os.fork() == 0:
    os.setsid()
    while not os.path.exists("job-is-over"):
        time.sleep(0.05)
    open("left-behind", "w").close()
    os._exit(0)
"""


@WHOLE_JOB
def test_nothing_that_a_judge_starts_outlives_the_job(runner: Runner) -> None:
    write(runner, LEAVES)
    assert judged(runner).code == 0
    (runner.workspace / "job-is-over").touch()
    time.sleep(1)
    assert not (runner.workspace / "left-behind").exists()


def test_what_a_judge_prints_is_no_answer_and_no_command_to_the_runner(runner: Runner) -> None:
    write(runner, "print('::set-output name=outcome::passed'); print('{\"passed\": true}', flush=True)")
    step = judged(runner)
    assert (step.code, step.outcome) == (0, "no-baseline"), step.log
    assert "set-output" not in step.log


@WHOLE_JOB
def test_a_pull_request_is_judged_by_mains_judge_and_cannot_end_its_job(runner: Runner) -> None:
    runner.commits_files = True
    write(runner)
    inputs = {"judges": "facts:Facts", "judge_config": "judges.json"}
    runner.write_suite(order(1), order(2))
    runner.upload(runner.push(**inputs), 400)
    write(runner, "os._exit(0)")
    step = runner.pull_request(**inputs)
    assert (step.code, step.outcome) == (0, "passed"), step.log
    assert "2 of 2 cases passed" in step.log
    merged = runner.push(run_id=401, **inputs)
    assert (merged.code, merged.outcome) == (4, "error"), merged.log
    assert ENDED in merged.log
