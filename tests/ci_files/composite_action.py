"""The composite variant of the action, for agents that need the job's own Python."""

from agent_eval.ci.config import OUTPUTS
from agent_eval.ci.platforms.github import ACTION_INPUTS, GITHUB
from tests.ci_files.rows import as_yaml

_HEAD = """\
# The composite variant of action.yml, made from the same table by `make generated`. It installs agent-eval
# into an environment of its own; the agent runs with the job's Python, and with what is installed there.
"""
_PIP = '"$RUNNER_TEMP/agent-eval/bin/python3" -I -m pip install --quiet --disable-pip-version-check'
_INSTALL = f"""\
python3 -I -m venv "$RUNNER_TEMP/agent-eval"
source="$GITHUB_ACTION_PATH/../.."
{_PIP} --require-hashes --no-deps --only-binary :all: \\
  --requirement "$source/requirements/build.lock" --requirement "$source/requirements/runtime.lock"
{_PIP} --no-index --no-deps --no-build-isolation "$source"
"""
_EVALUATE = '"$RUNNER_TEMP/agent-eval/bin/python3" -IBu -m agent_eval ci\n'


def action_inputs() -> dict[str, dict[str, object]]:
    """The inputs as action.yml has them, other names included."""
    inputs: dict[str, dict[str, object]] = {}
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
    return inputs


def composite_action() -> str:
    inputs = action_inputs()
    steps = [
        {"name": "Install agent-eval in an environment of its own", "shell": "bash", "run": _INSTALL},
        {
            "name": "Evaluate", "id": "evaluate", "shell": "bash",
            "env": {GITHUB.input_variable(name): f"${{{{ inputs.{name} }}}}" for name in inputs},
            "run": _EVALUATE,
        },
    ]  # fmt: skip
    body = {
        "name": "Agent evaluation in the job's own Python",
        "description": "The same as the action, installed beside the job's Python, not run as an image.",
        "author": "The agent-eval authors",
        "inputs": inputs,
        "outputs": {
            row.name: {
                "description": row.description,
                "value": f"${{{{ steps.evaluate.outputs.{row.name} }}}}",
            }
            for row in OUTPUTS
        },
        "runs": {"using": "composite", "steps": steps},
        "branding": {"icon": "check-circle", "color": "green"},
    }
    return f"{_HEAD}{as_yaml(body, '')}\n"
