"""`agent-eval init`: what it writes, and what it asks a person."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest
import yaml

from agent_eval.ci.config import INPUT_BY_NAME
from agent_eval.cli.main import main
from agent_eval.demo.scaffold import PLATFORMS
from tests.unit.cli.shell import Shell, Terminal

COMMIT = "0123456789" * 4
WORKFLOW = ".github/workflows/agent-eval.yml"


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def answer(monkeypatch: pytest.MonkeyPatch, *lines: str) -> Terminal:
    """Put a person at a terminal who types these lines."""
    screen = Terminal()
    monkeypatch.setattr(sys, "stdin", Terminal("".join(f"{line}\n" for line in lines)))
    monkeypatch.setattr(sys, "stdout", screen)
    return screen


def test_a_program_gets_the_file_of_every_platform_and_is_asked_nothing(
    cli: Shell,
) -> None:
    written = cli.json("init", "--out", ".")["written"]
    assert {place for place, _ in PLATFORMS.values()} <= set(written)
    assert all(Path(name).is_file() for name in written)
    assert (
        cli.json("run", "suites/starter_suite.json", "--judge-config", "config/judges.json")["summary"][
            "pass_rate"
        ]
        == 1
    )


def test_a_person_is_asked_for_agent_platform_and_action(monkeypatch: pytest.MonkeyPatch) -> None:
    screen = answer(monkeypatch, "python agent.py", "", f"acme/agent-eval@{COMMIT}")
    assert main(["init"]) == 0
    step = yaml.safe_load(Path(WORKFLOW).read_text())["jobs"]["evaluate"]["steps"][1]
    assert step["uses"] == f"acme/agent-eval@{COMMIT}"
    assert yaml.safe_load(Path("agent-eval.yml").read_text())["agent-command"] == "python agent.py"
    assert not Path("Jenkinsfile").exists()
    assert screen.getvalue().endswith(
        "Next: agent-eval run suites/starter_suite.json --agent 'python agent.py'\n"
    )


def test_the_last_line_lists_what_is_still_to_be_filled_in(cli: Shell) -> None:
    action, image = (
        cli.out("init", "--ci", "all", "--ci", "github", "--out", "a").splitlines()[-1].split("; ")
    )
    assert action == f"Still to fill in: the action, your-organisation/agent-eval@000… (a/{WORKFLOW})"
    assert image == (
        "the image, ghcr.io/your-organisation/agent-eval:v1 "
        "(a/.gitlab-ci.yml, a/.buildkite/pipeline.yml, a/.circleci/config.yml, a/Jenkinsfile)."
    )
    pip = [word for name in PLATFORMS if name.endswith("-pip") for word in ("--ci", name)]
    (package,) = cli.json("init", "--format", "json", *pip, "--out", "b")["to_fill_in"]
    assert package.startswith("what pip installs, AGENT_EVAL_PACKAGE (b/.gitlab-ci.yml, ")
    assert package.endswith(", b/Jenkinsfile)")


def test_nothing_is_left_to_fill_in_where_action_and_image_are_given(
    cli: Shell,
) -> None:
    where = ["--action", f"acme/agent-eval@{COMMIT}", "--image", "ghcr.io/acme/agent-eval:v1", "--ci", "all"]
    assert cli.json("init", "--format", "json", *where)["to_fill_in"] == []


def test_empty_answers_leave_out_what_is_not_known(monkeypatch: pytest.MonkeyPatch) -> None:
    answer(monkeypatch, "", "gitlab")
    assert main(["init"]) == 0
    assert Path(".gitlab-ci.yml").is_file()
    assert not Path(WORKFLOW).exists()
    assert "trace" in json.loads(Path("suites/starter_suite.json").read_text())["cases"][0]


def test_a_person_who_leaves_at_a_question_gets_no_files(
    monkeypatch: pytest.MonkeyPatch, cli: Shell, here: Path
) -> None:
    answer(monkeypatch, "python agent.py")  # then the input ends, as by Ctrl-D
    assert "Interrupted at a question. Nothing was written." in cli.err("init", code=130)
    assert not list(here.iterdir())


@pytest.mark.parametrize("flags", [("--out", "x"), ("--ci", "github"), ("--agent", "./agent"), ("--force",)])
def test_a_person_who_says_something_by_a_flag_is_asked_nothing(
    flags: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    answer(monkeypatch)
    assert main(["init", *flags]) == 0


@pytest.mark.parametrize(
    ("agent", "inputs"),
    [
        ("python agent.py", {"agent-command": "python agent.py"}),
        ("command:python agent.py", {"agent-command": "python agent.py"}),
        ("https://agent.example/ask", {"agent-url": "https://agent.example/ask"}),
        ("anthropic:claude", {"agent": "anthropic:claude"}),
    ],
)
def test_the_agent_is_named_once_by_the_input_of_its_kind_where_that_may_be(
    agent: str, inputs: dict[str, str]
) -> None:
    assert main(["init", "--agent", agent, "--ci", "github"]) == 0
    in_ci = yaml.safe_load(Path(WORKFLOW).read_text())["jobs"]["evaluate"]["steps"][1].get("with", {})
    settings = yaml.safe_load(Path("agent-eval.yml").read_text())
    in_settings = {name: value for name, value in settings.items() if name.startswith("agent")}
    [name] = inputs
    assert (in_settings, in_ci) == ((inputs, {}) if INPUT_BY_NAME[name].in_file else ({}, inputs))


def test_the_merge_base_is_in_the_checkout_of_every_job_that_runs_a_program() -> None:
    assert main(["init", "--agent", "python agent.py", "--out", "."]) == 0
    checkout = yaml.safe_load(Path(WORKFLOW).read_text())["jobs"]["evaluate"]["steps"][0]
    assert checkout["with"] == {"fetch-depth": 0, "persist-credentials": False}
    gitlab = yaml.safe_load(Path(".gitlab-ci.yml").read_text())["agent-eval"]
    assert gitlab["variables"]["GIT_DEPTH"] == "0"
    circleci = yaml.safe_load(Path(".circleci/config.yml").read_text())["jobs"]["agent-eval"]
    assert circleci["steps"][0] == {"checkout": {"method": "full"}}
    assert "git fetch" in yaml.safe_load(Path(".buildkite/pipeline.yml").read_text())["steps"][0]["command"]


@pytest.mark.parametrize("flags", [(), ("--agent", "https://agent.example/ask")])
def test_a_workflow_that_runs_no_program_fetches_one_commit(flags: tuple[str, ...]) -> None:
    assert main(["init", *flags, "--ci", "github", "--out", "."]) == 0
    checkout = yaml.safe_load(Path(WORKFLOW).read_text())["jobs"]["evaluate"]["steps"][0]
    assert checkout["with"] == {"persist-credentials": False}


@pytest.mark.parametrize(
    ("agent", "message"),
    [("python:agents:answer", "the job's token"), ("agentt", "names no agent")],
)
def test_an_agent_that_ci_cannot_run_is_refused(agent: str, message: str, cli: Shell, here: Path) -> None:
    assert message in cli.error("init", "--agent", agent)["message"]
    assert not list(here.iterdir())
