"""action.yml, the table of inputs and outputs, the entrypoint and the Dockerfile belong together."""

import os
import re
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from agent_eval.ci.config import OUTPUTS
from agent_eval.ci.platforms.github import ACTION_INPUTS, GITHUB
from agent_eval.errors import ExitCode
from tests.e2e.fork_server import ENTRYPOINT, ISOLATED, Command
from tests.e2e.program import environment, execute

ROOT = Path(__file__).parents[2]
ACTION = ROOT / "action.yml"
HEAD = {
    "name": "Agent evaluation",
    "description": (
        "Run your agent or judge its recorded traces, compare with the last good run, "
        "gate the pull request and say why in one comment."
    ),
    "author": "The agent-eval authors",
}
TAIL = {
    "runs": {"using": "docker", "image": "Dockerfile"},
    "branding": {"icon": "check-circle", "color": "green"},
}


def described() -> dict[str, Any]:
    """action.yml as the table has it."""
    inputs: dict[str, Any] = {}
    for row in ACTION_INPUTS:
        inputs[row.name] = {"description": row.documentation, "required": False}
        if row.action_default:
            inputs[row.name]["default"] = row.action_default
    for row in ACTION_INPUTS:
        for alias in row.aliases:
            inputs[alias] = {
                "description": f"Another name of `{row.name}`.",
                "required": False,
                "deprecationMessage": f"Write {row.name} instead of {alias}.",
            }
    outputs = {row.name: {"description": row.description} for row in OUTPUTS}
    return {**HEAD, "inputs": inputs, "outputs": outputs, **TAIL}


def test_action_yml_says_what_the_table_says():
    if os.environ.get("UPDATE_GOLDEN") == "1":
        text = yaml.safe_dump(described(), sort_keys=False, width=108, allow_unicode=True)
        heading = (
            "# Inputs come from the table of options in agent_eval/config and from the platforms, outputs\n"
            "# from agent_eval/ci/config.py; `make generated` writes this file anew."
        )
        ACTION.write_text(f"{heading}\n{text}", encoding="utf-8")
    committed = yaml.safe_load(ACTION.read_text(encoding="utf-8"))
    assert committed == described(), "the table changed: `make generated` writes action.yml anew"


def test_no_input_but_the_token_has_a_default_that_would_hide_the_configuration_file():
    committed = yaml.safe_load(ACTION.read_text(encoding="utf-8"))
    assert [name for name, row in committed["inputs"].items() if "default" in row] == ["github-token"]


def test_the_entrypoint_can_be_executed_and_is_no_shell_script():
    first = (ROOT / "entrypoint").read_text(encoding="utf-8").splitlines()[0]
    assert os.access(ROOT / "entrypoint", os.X_OK)
    assert first == f"#!/opt/agent-eval/bin/python3 {ISOLATED}", "sh would drop INPUT_MAX-PASS-RATE-DROP"


@pytest.mark.parametrize("module", ["sitecustomize", "usercustomize", "click", "agent_eval", "json"])
def test_no_module_of_the_workspace_runs_in_the_process_that_holds_the_token(module, tmp_path):
    (tmp_path / f"{module}.py").write_text("open('was_here', 'w'); raise SystemExit(0)\n")
    environ = {"PYTHONPATH": str(tmp_path), "PYTHONUSERBASE": str(tmp_path)}
    assert version(environ, tmp_path).split()[0] == "agent-eval"
    assert not (tmp_path / "was_here").exists()


@pytest.mark.parametrize(
    "variable", [{"PYTHONHASHSEED": "none"}, {"PYTHONHOME": "/nowhere"}, {"PYTHONMALLOC": "none"}], ids=list
)
def test_no_variable_makes_python_itself_exit_as_if_the_gate_had_said_no(variable, tmp_path):
    version(variable, tmp_path)


def version(environ: dict[str, str], place: Path) -> str:
    done = execute(Command((*ENTRYPOINT, "--version"), str(place), environment(environ)), fresh=True)
    assert done.code == 0, done.err
    return done.out


def test_as_agent_eval_it_shows_the_commands(tmp_path):
    program = tmp_path / "agent-eval"
    program.symlink_to(ROOT / "entrypoint")
    done = execute(Command((sys.executable, ISOLATED, str(program)), str(tmp_path), environment()))
    assert (done.code, "Usage: agent-eval COMMAND" in done.out) == (ExitCode.OK, True)


def test_the_dockerfile_names_the_entrypoint_in_exec_form_and_pins_its_base():
    text = (ROOT / "Dockerfile").read_text(encoding="utf-8")
    assert 'ENTRYPOINT ["/entrypoint"]' in text
    assert re.search(r"^ARG BASE=\S+:\S+@sha256:[0-9a-f]{64}$", text, re.MULTILINE)


@pytest.mark.parametrize("row", ACTION_INPUTS, ids=lambda row: row.name)
def test_every_input_arrives_in_the_real_entrypoint_under_the_name_the_runner_gives_it(row, tmp_path):
    environ = environment({GITHUB.input_variable(row.name): "a\abell"})
    done = execute(Command(ENTRYPOINT, str(tmp_path), environ), join=True)
    assert done.code == ExitCode.WRONG_REQUEST
    assert row.name in done.out
    assert list(tmp_path.iterdir()) == []
