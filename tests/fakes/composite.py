"""A runner of GitHub's composite actions: inputs in, steps in bash, outputs out."""

import re
import subprocess
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import yaml

_EXPRESSION = re.compile(r"\$\{\{ (.+?) \}\}")
_OUTPUT = re.compile(r"^([\w-]+)<<(\S+)\n(.*?)\n?^\2$", re.MULTILINE | re.DOTALL)
BASH = ("bash", "--noprofile", "--norc", "-e", "-o", "pipefail")
"""How a runner starts a step with `shell: bash`."""


def outputs_in(text: str) -> dict[str, str]:
    """The outputs that a step wrote into its file."""
    return {name: value for name, _, value in _OUTPUT.findall(text)}


class CompositeAction:
    """Runs an action's steps.

    Args:
        file: The action's `action.yml`.
        temporary: What the runner calls RUNNER_TEMP.
    """

    def __init__(self, file: Path, temporary: Path) -> None:
        self.action: dict[str, Any] = yaml.safe_load(file.read_text(encoding="utf-8"))
        self._place, self._temporary = file.parent, temporary

    def run(
        self,
        inputs: Mapping[str, str],
        environ: Mapping[str, str],
        *,
        cwd: Path,
        pass_fds: tuple[int, ...] = (),
    ) -> tuple[int, str, dict[str, str]]:
        """Run the steps until one fails; the exit code, the log, and the action's outputs."""
        unknown = set(inputs) - set(self.action["inputs"])
        assert not unknown, f"no inputs of the action: {unknown}"
        values = {name: str(row.get("default", "")) for name, row in self.action["inputs"].items()}
        values |= inputs
        of_steps: dict[str, str] = {}

        def known(expression: str) -> str:
            kind, _, name = expression.partition(".")
            if kind == "inputs":
                return values[name]
            if kind == "steps":
                return of_steps.get(name, "")
            if expression == "github.token":
                return environ.get("GITHUB_TOKEN_OF_THE_JOB", "")
            raise AssertionError(f"an expression that this runner does not know: {expression}")

        values = {name: evaluated(value, known) for name, value in values.items()}
        code, log = 0, ""
        for number, step in enumerate(self.action["runs"]["steps"]):
            assert step["shell"] == "bash"
            script = self._temporary / f"step-{number}.sh"
            assert not _EXPRESSION.search(step["run"]), "an expression would be pasted into the shell"
            script.write_text(step["run"])
            written = self._temporary / f"output-{number}"
            written.write_bytes(b"")
            own = {name: evaluated(value, known) for name, value in step.get("env", {}).items()}
            done = subprocess.run(
                [*BASH, str(script)], cwd=cwd,
                env={**environ, "RUNNER_TEMP": str(self._temporary), "GITHUB_ACTION_PATH": str(self._place),
                     "GITHUB_OUTPUT": str(written), **own},
                pass_fds=pass_fds, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False,
                timeout=300,
            )  # fmt: skip
            code, log = done.returncode, log + done.stdout
            found = outputs_in(written.read_text())
            of_steps |= {f"{step.get('id')}.outputs.{name}": value for name, value in found.items()}
            if code:
                break
        declared = self.action["outputs"].items()
        return code, log, {name: evaluated(row["value"], known) for name, row in declared}


def evaluated(text: str, known: Callable[[str], str]) -> str:
    """Replace the expressions in a text."""
    return _EXPRESSION.sub(lambda found: known(found[1]), text)
