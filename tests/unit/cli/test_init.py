"""`agent-eval init`: what it writes, and what it asks a person."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from agent_eval.cli.main import main
from agent_eval.demo.scaffold import PLATFORMS
from tests.unit.cli.shell import Shell, Terminal

COMMIT = "0123456789" * 4
WORKFLOW = ".github/workflows/agent-eval.yml"


def answer(monkeypatch: pytest.MonkeyPatch, *lines: str) -> Terminal:
    """Put a person at a terminal who types these lines."""
    screen = Terminal()
    monkeypatch.setattr(sys, "stdin", Terminal("".join(f"{line}\n" for line in lines)))
    monkeypatch.setattr(sys, "stdout", screen)
    return screen


def test_a_program_gets_the_file_of_every_platform_and_is_asked_nothing(cli: Shell) -> None:
    written = cli.json("init", "--out", ".")["written"]
    assert {place for place, _ in PLATFORMS.values()} <= set(written)
    assert all(Path(name).is_file() for name in written)
    assert cli.json("run", "suites/starter_suite.json")["summary"]["pass_rate"] == 1


@pytest.mark.parametrize(
    "agent",
    [
        (),
        ("--agent", "python3 mine.py"),
        ("--agent", "python:my_agent:answer"),
        ("--agent", "python:my_agent.py:answer"),
        ("--agent", "python:my_agent:agent"),
    ],
)
def test_what_it_writes_works_at_once(
    agent: tuple[str, ...], cli: Shell, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", f"{Path(sys.executable).parent}:{os.environ['PATH']}")
    said = "{'assistant_output': 'I can help you.'}"
    Path("mine.py").write_text(f"import json, sys\njson.load(sys.stdin)\njson.dump({said}, sys.stdout)\n")
    Path("my_agent.py").write_text(
        f"def answer(task):\n    print('Hello')\n    return {said}\nagent = answer\n"
    )
    cli.json("init", "--out", ".", *agent)
    for name in ("before", "now"):
        assert cli.json("run", "--out", name)["summary"]["pass_rate"] == 1
    cli.json("compare", "--baseline", "before", "--candidate", "now")
    assert cli.json("gate", "--compare", "now")["gate_status"] == "passed"
    loop = ("run-loop", "--suite", "suites/starter_suite.json", "--out", "loop", "--strict-side-effects")
    if not agent:
        looped = cli.json(*loop, "--propose-command", "python3 agent.py", "--max-repairs", "2")
        assert looped["summary"]["pass_rate"] == 1


def test_an_agent_object_is_told_what_a_job_installs_for_it(cli: Shell) -> None:
    Path("mine.py").write_text("agent = object()\n")
    cli.json("init", "--ci", "none", "--agent", "python:mine.py:agent")
    written = Path("agent-eval.yml").read_text()
    assert "agent-eval-gate @ git+https://" in written
    installing = yaml.safe_load(
        written.replace("#setup:", "setup:").replace("python3 -m", ".venv/bin/python -m", 1)
    )
    assert installing["setup"].endswith(".venv/bin/pip install -r requirements.txt")
    assert cli.json("validate", "agent-eval.yml")


@pytest.mark.parametrize(("head", "branch"), [("refs/remotes/origin/HEAD", "release"), ("HEAD", "master")])
def test_the_repository_and_its_remote_are_looked_at(head: str, branch: str, cli: Shell, here: Path) -> None:
    git = here / ".git"
    subprocess.run(["git", "init", "--quiet", str(here)], check=True)
    (git / head).parent.mkdir(parents=True, exist_ok=True)
    (git / head).write_text(f"ref: {head.rpartition('HEAD')[0] or 'refs/heads/'}{branch}\n")
    (git / "config").write_text('[core]\n\tbare = false\n[remote "origin"]\n\turl = git@github.com:a/b.git\n')
    written = cli.json("init", "--format", "json")["written"]
    assert written[4:] == [WORKFLOW]
    assert yaml.safe_load(Path(WORKFLOW).read_text())[True]["push"] == {"branches": [branch]}


def test_no_file_of_a_platform_is_written_where_none_is_wanted(cli: Shell) -> None:
    files = ["agent-eval.yml", "suites/starter_suite.json", "agent.py", ".gitignore"]
    assert cli.json("init", "--ci", "none")["written"] == files


def test_a_person_is_asked_for_agent_platform_and_action(monkeypatch: pytest.MonkeyPatch) -> None:
    screen = answer(monkeypatch, "python agent.py", "github", f"acme/agent-eval@{COMMIT}")
    assert main(["init"]) == 0
    step = yaml.safe_load(Path(WORKFLOW).read_text())["jobs"]["evaluate"]["steps"][1]
    assert step["uses"] == f"acme/agent-eval@{COMMIT}"
    assert yaml.safe_load(Path("agent-eval.yml").read_text())["agent"] == "python agent.py"
    assert not Path("Jenkinsfile").exists()
    assert screen.getvalue().endswith("Replace the two cases by what your users ask.\n")


@pytest.mark.parametrize(
    ("known", "answers", "written"),
    [(True, [""], ".gitlab/agent-eval.yml"), (False, ["", "gitlab"], ".gitlab-ci.yml")],
)
def test_a_person_is_asked_for_a_platform_that_is_not_known_and_may_leave_the_agent_out(
    known: bool, answers: list[str], written: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if known:
        Path(".gitlab-ci.yml").write_text("stages: [test]\n")
    answer(monkeypatch, *answers)
    assert main(["init"]) == 0
    assert Path(written).is_file()
    assert (Path(".gitlab-ci.yml").read_text() == "stages: [test]\n") == known
    assert not Path(WORKFLOW).exists()
    assert "trace" in json.loads(Path("suites/starter_suite.json").read_text())["cases"][0]


def test_what_is_still_to_be_filled_in_is_listed(cli: Shell) -> None:
    shown = cli.out("init", "--ci", "all", "--ci", "github", "--out", "a").splitlines()
    assert shown[0] == "Wrote a/agent-eval.yml"
    action, image = next(line for line in shown if line.startswith("Still")).split("; ")
    assert shown[-3] == "Next: cd a && agent-eval run   # what agent-eval.yml says"
    assert action == f"Still to fill in: the action, your-organisation/agent-eval@000… (a/{WORKFLOW})"
    assert image == (
        "the image, ghcr.io/your-organisation/agent-eval:v1 "
        "(a/.gitlab-ci.yml, a/.buildkite/pipeline.yml, a/.circleci/config.yml, a/Jenkinsfile)."
    )
    pip = [word for name in PLATFORMS if name.endswith("-pip") for word in ("--ci", name)]
    (package,) = cli.json("init", "--format", "json", *pip, "--out", "b")["to_fill_in"]
    assert package.startswith("what pip installs, AGENT_EVAL_PACKAGE (b/.gitlab-ci.yml, ")
    assert package.endswith(", b/Jenkinsfile)")
    given = ["--action", f"acme/agent-eval@{COMMIT}", "--image", "ghcr.io/acme/agent-eval:v1", "--ci", "all"]
    assert cli.json("init", *given, "--out", "c")["to_fill_in"] == []


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


def test_the_merge_base_is_in_the_checkout_of_every_job() -> None:
    assert main(["init", "--out", "."]) == 0
    checkout = yaml.safe_load(Path(WORKFLOW).read_text())["jobs"]["evaluate"]["steps"][0]
    assert checkout["with"] == {"fetch-depth": 0, "persist-credentials": False}
    gitlab = yaml.safe_load(Path(".gitlab-ci.yml").read_text())["agent-eval"]
    assert gitlab["variables"]["GIT_DEPTH"] == "0"
    circleci = yaml.safe_load(Path(".circleci/config.yml").read_text())["jobs"]["agent-eval"]
    assert circleci["steps"][0] == {"checkout": {"method": "full"}}
    assert "git fetch" in yaml.safe_load(Path(".buildkite/pipeline.yml").read_text())["steps"][0]["command"]


@pytest.mark.parametrize("agent", ["python:agents", "agentt", "python:a b:c"])
def test_what_names_no_agent_is_refused(agent: str, cli: Shell, here: Path) -> None:
    assert "names no agent" in cli.error("init", "--agent", agent)["message"]
    assert not list(here.iterdir())
