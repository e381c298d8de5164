"""`agent-eval ci` with a live agent: compared, gated and commented like recordings; no secret is told it."""

import json
import os
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.e2e.runner import (
    BASE_SHA,
    COMMAND,
    OWN_RUN,
    PULL,
    REPOSITORY,
    Runner,
    Step,
    agent_program,
    live_order,
    unzipped,
)
from tests.extent import WHOLE_JOB
from tests.fakes.commits import tip_of
from tests.fakes.github import TOKEN, FakeGitHub
from tests.fakes.models import FakeOpenAi
from tests.fakes.models import Step as Said

AS_IN_A_CONTAINER = """\
import ctypes, os, sys
for capability in (19, 21, 38):  # CAP_SYS_PTRACE, CAP_SYS_ADMIN, CAP_PERFMON: root does not have them there
    ctypes.CDLL(None).prctl(24, capability, 0, 0, 0)  # PR_CAPBSET_DROP
os.execv(sys.executable, [sys.executable, "-m", "agent_eval", "ci"])
"""


def write(runner: Runner, body: str = "", *, total: int = 4) -> None:
    """The suite, and an agent that does what it should unless `body` says otherwise."""
    runner.write_suite(*(live_order(number) for number in range(1, total + 1)))
    (runner.workspace / "agent.py").write_text(agent_program(body))
    runner.commits_files = True


def at(number: int, *lines: str) -> str:
    """Lines of an agent for one case."""
    return f"if task['case_id'] == 'order-{number}':\n" + "".join(f"    {line}\n" for line in lines)


def outputs(step: Step, dataset: str = "shop") -> dict[str, Any]:
    """What the agent said in each case, from the archive."""
    files = {name: data for name, data in unzipped(step.archive).items() if name.endswith("trajectory.json")}
    cases = [json.loads(data) for name, data in files.items() if name.startswith(dataset)]
    return {one["case_id"]: one["trace"][-1].get("output") for one in cases}


def test_agent__that_writes_into_the_runners_files_gains_nothing(runner: Runner, github: FakeGitHub) -> None:
    forge = "open(PATH, 'a').write('outcome=passed\\n# All passed\\n')"
    files = [str(runner.root / f"{name}-{OWN_RUN}-1") for name in ("output", "summary")]
    write(
        runner,
        "".join(f"{forge.replace('PATH', repr(file))}\n" for file in files) + "tools.append('escalate')\n",
    )
    step = runner.pull_request(agent_command=COMMAND, min_pass_rate="1")
    assert (step.code, step.outcome) == (4, "error")
    assert "All passed" not in step.summary
    [comment] = github.bodies(PULL)
    for shown in (comment, step.summary):
        assert "the agent wrote to command files of the job" in shown
        assert "`GITHUB_OUTPUT`, `GITHUB_STEP_SUMMARY`." in shown


def test_agent__first_run_then_a_regression_that_is_named_and_blocked(runner: Runner) -> None:
    write(runner)
    first = runner.push(agent_command=COMMAND, parallel="4", min_pass_rate="1")
    assert (first.code, first.outcome, first.outputs["pass-rate"]) == (0, "no-baseline", "1")
    assert set(outputs(first).values()) == {"It is on its way."}
    runner.upload(first, 400)
    write(runner, at(2, "tools.append('escalate')"))
    step = runner.pull_request(agent_command=COMMAND, agent_env="LANG", max_repairs="1")
    assert (step.code, step.outcome, step.outputs["regressed-cases"]) == (1, "failed", "1")
    assert step.outputs["baseline-sha"] == tip_of(runner.github.files)
    [comment] = runner.github.bodies(PULL)
    assert "order-2" in comment
    assert "escalate" in comment
    assert f"--case order-2 --agent-command '{COMMAND}' --agent-env LANG --max-repairs 1" in comment
    write(runner)
    again = runner.pull_request(run_id=501, agent_command=COMMAND)
    assert (again.code, again.outcome) == (0, "passed")


def test_agent__that_crashes_on_a_case_is_an_error_there_and_never_a_pass(runner: Runner) -> None:
    write(runner, at(3, "sys.exit('out of ideas')"))
    first = runner.push(agent_command=COMMAND)
    assert (first.code, first.outcome, first.outputs["passed"]) == (0, "no-baseline", "false")
    assert first.outputs["pass-rate"] == "0.75"
    step = runner.pull_request(agent_command=COMMAND, min_pass_rate="1", baseline="none")
    assert (step.code, step.outcome) == (1, "failed")
    [comment] = runner.github.bodies(PULL)
    assert "order-3" in comment
    assert "out of ideas" in comment


def test_agent__that_crashes_in_every_case_that_main_passes_is_this_changes(runner: Runner) -> None:
    write(runner)
    runner.upload(runner.push(agent_command=COMMAND), 400)
    write(runner, "import openai_of_another_name")
    step = runner.pull_request(agent_command=COMMAND)
    assert (step.code, step.outcome) == (1, "failed")
    [comment] = runner.github.bodies(PULL)
    assert comment.splitlines()[2] == "## ❌ The agent crashes on all 4 cases · agent-eval"
    assert "ModuleNotFoundError" in comment.partition("| Case")[0]
    assert "**To do:** Install `openai_of_another_name` in `setup`" in comment
    assert comment.partition("<details")[0].count("\n| ❌ ") == 1


def test_program__that_does_not_exist_cannot_be_evaluated(runner: Runner, github: FakeGitHub) -> None:
    write(runner)
    step = runner.pull_request(agent_command="no-such-program")
    assert (step.code, step.outcome) == (4, "error")
    assert "no-such-program" in github.bodies(PULL)[0]


def test_setup__installs_what_the_agent_needs_without_seeing_secrets(runner: Runner) -> None:
    write(runner, "said = open('installed').read()")
    setup = "printf 'one ' > installed\nenv | sort >> installed\n"
    environ = {"AGENT_API_KEY": "sk-of-the-agent", "INDEX_URL": "https://packages.example.org"}
    step = runner.pull_request(
        agent_command=COMMAND, setup_command=setup, setup_env="INDEX_URL", agent_env="AGENT_API_KEY",
        min_pass_rate="1", environ=environ,
    )  # fmt: skip
    assert (step.code, step.outcome) == (0, "no-baseline")
    said = outputs(step)["order-1"]
    assert said.startswith("one ")
    assert "INDEX_URL=https://packages.example.org" in said
    assert not any(word in said for word in ("AGENT_API_KEY", "GITHUB", "INPUT_", "AGENT_EVAL"))


def test_setup__that_fails_is_told_with_the_end_of_its_output_and_nothing_is_run(runner: Runner) -> None:
    write(runner)
    setup = "seq 1 500\necho 'no matching distribution' >&2\nfalse\ntouch went-on"
    step = runner.pull_request(agent_command=COMMAND, setup_command=setup)
    assert (step.code, step.outcome) == (4, "error")
    assert any("`setup` exited with code 1" in line for line in step.annotations)
    for said in (step.log, step.summary, runner.github.bodies(PULL)[0]):
        assert "500\nno matching distribution" in said
        assert "\n400\n" not in said
    assert not (runner.workspace / "went-on").exists()
    assert not (runner.workspace / "agent-eval-out").exists()


def test_setup__that_takes_too_long_is_ended(runner: Runner) -> None:
    write(runner)
    step = runner.pull_request(
        agent_command=COMMAND, setup_command="sleep 60", setup_timeout_seconds="0.5", comment="never"
    )
    assert (step.code, step.outcome) == (4, "error")
    assert "limits.setup_seconds" in step.summary


SPY = """\
import glob
found = [dict(os.environ)]
pid, hidden = os.getppid(), 0
while pid > 1:
    try:
        found.append(open(f"/proc/{pid}/environ", errors="replace").read())
    except PermissionError:
        hidden += 1
    pid = int(open(f"/proc/{pid}/stat").read().rpartition(")")[2].split()[1])
    if hidden:
        break
said = {"own": sorted(os.environ), "hidden": hidden, "token": any("%s" in str(text) for text in found)}
"""


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux shows other processes' environment in /proc")
def test_token__is_neither_in_the_agents_environment_nor_in_reach_of_it(runner: Runner) -> None:
    write(runner, SPY % TOKEN[:-1], total=1)  # the whole token may stand in no file of the workspace
    runner.github.add_run(500, status="in_progress")
    inputs = {"agent_command": COMMAND, "agent_env": "LET_THROUGH, NOT_SET", "min_pass_rate": "1"}
    environ = {"LET_THROUGH": "yes", "OTHER": "no", "GITHUB_TOKEN": TOKEN, "ACTIONS_RUNTIME_TOKEN": TOKEN}
    command = (sys.executable, "-c", AS_IN_A_CONTAINER)
    commit = runner.commit_to_main()
    step = runner.start("push", {}, 500, commit, "heads/main", inputs, environ=environ, command=command)
    assert (step.code, step.outcome) == (0, "no-baseline"), step.log
    said = outputs(step)["order-1"]
    assert said["token"] is False
    assert said["hidden"] == 1
    assert "LET_THROUGH" in said["own"]
    assert not {"OTHER", "NOT_SET"} & set(said["own"])
    of_the_job = ("INPUT_", "GITHUB_", "ACTIONS_", "AGENT_EVAL")
    # The address of the attempt's own tools is made for the agent.
    assert [name for name in said["own"] if name.startswith(of_the_job)] == ["AGENT_EVAL_TOOLS"]


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux shows other processes' environment in /proc")
def test_token__is_out_of_reach_of_a_judge_that_runs_a_command(runner: Runner, github: FakeGitHub) -> None:
    runner.write_suite(live_order(1) | {"trace": []})
    spy = SPY % TOKEN[:-1] + "json.dump(said, open('seen.json', 'w'))\nprint('{\"passed\": true}')\n"
    (runner.workspace / "judge.py").write_text("import json, os\n" + spy)
    config = {"command": {"command": [sys.executable, "judge.py"]}}
    (runner.workspace / "judges.json").write_text(json.dumps(config))
    github.add_run(500, status="in_progress")
    inputs = {"judges": "command", "judge_config": "judges.json"}
    command = (sys.executable, "-c", AS_IN_A_CONTAINER)
    runner.start("push", {}, 500, BASE_SHA, "heads/main", inputs, command=command)
    seen = json.loads((runner.workspace / "seen.json").read_text())
    assert (seen["token"], seen["hidden"]) == (False, 1)


NOBODY = "no agent may see it"


@pytest.mark.parametrize(
    ("inputs", "said"),
    [
        ({"agent_command": COMMAND, "agent_env": "GITHUB_TOKEN"}, NOBODY),
        ({"agent_command": COMMAND, "agent_env": "", "agent_header": "X=GITHUB_TOKEN"}, NOBODY),
        ({"agent_command": COMMAND, "agent_env": "INPUT_GITHUB-TOKEN"}, NOBODY),
        ({"agent_command": COMMAND, "setup_env": "ACTIONS_RUNTIME_TOKEN", "setup_command": "true"}, NOBODY),
        ({"agent_command": COMMAND, "agent_env": "HANDY_COPY"}, NOBODY),
        ({"trials": "3"}, "trials is for running an agent"),
        ({"setup_command": "true"}, "`setup.run` is for running an agent"),
        ({"agent": "python:shop:agent"}, "would see the job's token"),
        ({"agent_url": "ftp://agent.example.org"}, "ftp"),
        ({"agent_url": "https://agent.example.org", "agent_header": "A=NOT_SET"}, "NOT_SET"),
        ({"agent_command": "true", "agent_env": "NAME=value"}, "not the name of an environment variable"),
        ({"agent_command": "'", "setup_command": "touch installed"}, "quotes"),
    ],
)
def test_settings__that_give_the_token_away_or_make_no_sense_are_told_before_anything_runs(
    runner: Runner, inputs: dict[str, str], said: str
) -> None:
    write(runner)
    copy = {"HANDY_COPY": f"Bearer {TOKEN}"} if inputs.get("agent_env") == "HANDY_COPY" else {}
    step = runner.pull_request(environ=copy, **inputs)
    assert (step.code, step.outcome) == (2, "error")
    assert said in " ".join(step.annotations)
    assert said in step.summary.replace("`", "") + step.summary
    for name in ("agent-eval-out", "installed"):
        assert not (runner.workspace / name).exists()


def test_file__may_name_the_program_but_not_what_it_sees(runner: Runner, github: FakeGitHub) -> None:
    write(runner)
    file = runner.workspace / "agent-eval.yml"
    file.write_text(f"agent: {COMMAND}\npolicy: {{min_pass_rate: 1}}\n")
    assert runner.pull_request().outcome == "no-baseline"
    github.files["agent-eval.yml"] = f"agent: {COMMAND}\n".encode()
    body = "import os\nsaid = os.environ.get('AGENT_API_KEY', 'none')"
    write(runner, body)
    file.write_text(f"agent: {{run: {COMMAND}, env: [AGENT_API_KEY]}}\npolicy: {{min_pass_rate: 0}}\n")
    step = runner.pull_request(run_id=501, environ={"AGENT_API_KEY": "sk-of-the-agent"})
    assert step.code != 2, step.log
    assert b"sk-of-the-agent" not in b"".join(unzipped(step.archive).values())
    assert "`agent.env` none → AGENT_API_KEY" in github.bodies(PULL)[0]


@WHOLE_JOB
def test_limit__of_a_run_is_no_result(runner: Runner, github: FakeGitHub) -> None:
    write(runner, "import time\ntime.sleep(0.4)")
    step = runner.pull_request(agent_command=COMMAND, max_run_seconds="0.1", min_pass_rate="0")
    assert (step.code, step.outcome) == (4, "error")
    assert "limits.run.seconds" in github.bodies(PULL)[0]
    # What it left does not stand in the way of the next run.
    assert runner.pull_request(run_id=501, agent_command=COMMAND, min_pass_rate="1").outcome == "no-baseline"


def test_limit__of_a_case_is_an_error_of_that_case(runner: Runner) -> None:
    write(runner, at(1, "import time; time.sleep(60)") + at(2, "said = 'x' * 100_000"))
    limits = {"command_timeout_seconds": "5", "max_output_bytes": "50000", "max_case_seconds": "20"}
    step = runner.pull_request(agent_command=COMMAND, min_pass_rate="0.5", parallel="auto", **limits)
    assert (step.code, step.outputs["pass-rate"]) == (0, "0.5")
    reasons = b"".join(data for name, data in unzipped(step.archive).items() if "verdicts" in name)
    assert b"timeout" in reasons
    assert b"output_limit" in reasons


def test_model__behind_an_endpoint_answers_with_the_tools_of_the_case(runner: Runner) -> None:
    write(runner, total=1)
    (runner.workspace / "prompt.txt").write_text("Be brief.")
    script = (Said(calls=[("lookup_order", {"id": 1})]), Said(text="It was shipped."))
    with FakeOpenAi(*script) as model:
        step = runner.pull_request(
            agent_openai_base_url=model.base_url, agent_model="small", system_prompt="prompt.txt",
            min_pass_rate="1", environ={"OPENAI_API_KEY": "sk-of-the-model"},
        )  # fmt: skip
    assert (step.code, step.outcome) == (0, "no-baseline"), step.log
    assert outputs(step) == {"order-1": "It was shipped."}
    assert model.requests[0]["messages"][0] == {"role": "system", "content": "Be brief."}
    assert model.authorizations[0] == "Bearer sk-of-the-model"
    assert json.loads(unzipped(step.archive)["shop/run/config.json"])["model"] == "small"


def test_service__that_is_never_there_is_not_evaluated(runner: Runner, github: FakeGitHub) -> None:
    write(runner, total=2)
    with FakeOpenAi(Said(status=503, headers={"Retry-After": "3600"})) as model:
        step = runner.pull_request(agent_openai_base_url=model.base_url, agent_model="small")
    assert (step.code, step.outcome) == (4, "error")
    [comment] = github.bodies(PULL)
    assert "Not evaluated: the agent could not be reached in all 2 cases" in comment
    assert "the agent answered with HTTP 503" in comment.partition("<details")[0]
    assert unzipped(step.archive)


def test_fork__runs_the_agent_without_secrets(runner: Runner) -> None:
    write(runner)
    runner.upload(runner.push(agent_command=COMMAND), 400)
    write(runner, at(2, "tools.append('escalate')") + at(1, "said = sorted(os.environ)"))
    step = runner.pull_request(fork=True, agent_command=COMMAND, agent_env="AGENT_API_KEY")
    assert (step.code, step.outcome) == (1, "failed")
    assert "AGENT_API_KEY" not in outputs(step)["order-1"]
    assert "order-2" in step.summary


@WHOLE_JOB
def test_the_workflow_of_the_guide_does_what_it_says(runner: Runner) -> None:
    workflow = yaml.safe_load((REPOSITORY / "ci-templates" / "github-agent.yml").read_text())
    (step,) = (one for one in workflow["jobs"]["evaluate"]["steps"] if one.get("id") == "evaluation")
    write(runner)
    (runner.workspace / "suites").mkdir()
    (runner.workspace / "suite.json").rename(runner.workspace / "suites" / "orders.json")
    (runner.workspace / "requirements.txt").write_text("# nothing\n")
    inputs = {name.replace("-", "_"): str(value) for name, value in step["with"].items()}
    environ = {
        "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
        "AGENT_API_KEY": "sk-of-the-agent",
    }
    done = runner.pull_request(environ=environ, **inputs)
    assert (done.code, done.outcome) == (0, "no-baseline"), done.log
    assert "`setup` is done" in done.log


UNKNOWN_JUDGE: dict[str, tuple[dict[str, str], dict[str, str]]] = {
    "safety": ({"policy": "gate.yml"}, {"gate.yml": "safety: [promt_injection]"}),
    "a waiver": (
        {},
        {
            ".agent_eval/registry.json": json.dumps(
                {
                    "waivers": [
                        {
                            "waiver_id": "w-1", "baseline_name": "main", "judge_id": "promt_injection",
                            "reason": "noise", "approved_by": "ada",
                            "created_at": "2026-01-14T10:00:00+00:00",
                        }
                    ]
                }
            )
        },
    ),
    "the judges": ({"judge": "promt_injection"}, {}),
    "the judges' configuration": (
        {"judge_config": "judges.json"},
        {"judges.json": '{"promt_injection": {"hard": true}}'},
    ),
}  # fmt: skip
"""By where a judge is named that does not exist: inputs, and files of the workspace."""


@pytest.mark.parametrize("where", UNKNOWN_JUDGE)
def test_judge_that_is_not_there_is_refused_before_the_agent_is_paid_for(where: str, runner: Runner) -> None:
    inputs, files = UNKNOWN_JUDGE[where]
    paid = runner.root / "paid"
    write(runner, f"open({str(paid)!r}, 'a').write('.')\n")
    for name, content in files.items():
        path = runner.workspace / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(content)
    step = runner.push(agent_command=COMMAND, **inputs)
    assert (step.code, step.outcome) == (2, "error")
    assert any("prompt_injection" in line for line in step.annotations)
    assert not paid.exists()
