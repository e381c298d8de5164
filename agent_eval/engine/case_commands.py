"""Run the commands that set a case up before each of its trials, and tear it down after.

They come with the suite, so they are run only where the operator allows it. A command that fails makes its
trial an error of the kind `environment`: the agent did nothing wrong. A teardown that fails does so only
where the trial passed. An agent can break what is torn down after it, and must not be excused by that.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping
from pathlib import Path

from agent_eval.agents.base import Task
from agent_eval.agents.command import split_command
from agent_eval.contracts import Case
from agent_eval.errors import AgentEvalError
from agent_eval.processes.child import ChildLimits, run_child
from agent_eval.processes.pool import SUPERVISORS
from agent_eval.storage.json import dumps
from agent_eval.text.escape import last_line

OUTPUT_BYTES = 1 << 20
"""How much a command may write."""
_LAST_LINE_LIMIT = 300


class CaseCommands:
    """Runs the `setup` and `teardown` commands of cases. Closing it tears down whatever is still set up.

    A command is run without a shell, in the agent's own environment and working directory, with the case's
    task as JSON on standard input.

    Args:
        env: The whole environment of the commands.
        cwd: Their working directory; None for this program's.
        seconds: Time limit of each command.
    """

    def __init__(self, env: Mapping[str, str], *, cwd: Path | None = None, seconds: float) -> None:
        self._env, self._cwd, self._seconds = dict(env), cwd, seconds
        self.prepared: dict[PreparedCase, None] = {}
        """Trials that have to be torn down; any thread may add and remove one."""

    def prepare(self, case: Case) -> PreparedCase:
        """Register a trial, which has to be torn down from now on."""
        prepared = PreparedCase(case, self)
        self.prepared[prepared] = None
        return prepared

    def run(self, command: str, case: Case, name: str) -> str:
        """Run a command; return why it failed, in words, or an empty text."""
        limits = ChildLimits(self._seconds, stdout_bytes=OUTPUT_BYTES, stderr_bytes=OUTPUT_BYTES)
        task = dumps(Task(case.model_copy(update={"trace": [], "trials": []})).payload())
        try:
            result = run_child(
                split_command(command), stdin=task, env=self._env, limits=limits, cwd=self._cwd
            )
        except AgentEvalError as error:
            return f"could not be evaluated: the case's {name} command failed: {error.message}"
        if result.failure is None:
            return ""
        words = f"{result.problem}{last_line(result.stderr, limit=_LAST_LINE_LIMIT)}"
        return f"could not be evaluated: the case's {name} command {words}"

    def close(self) -> None:
        """Tear down the trials that a run left when it was ended, once their agents have ended."""
        remaining = list(self.prepared)
        if remaining:
            SUPERVISORS.end_children()
        for prepared in remaining:
            prepared.tear_down()


class PreparedCase:
    """One trial that is set up, until it is torn down: once, whichever thread asks for it."""

    def __init__(self, case: Case, commands: CaseCommands) -> None:
        self._case, self._commands = case, commands
        self._lock = threading.Lock()
        self._is_over = False
        self._problem = ""

    def set_up(self) -> str:
        """Run the set-up command; return why it failed, in words, or an empty text."""
        with self._lock:
            if self._is_over or self._case.setup is None:
                return ""
            return self._commands.run(self._case.setup, self._case, "setup")

    def tear_down(self) -> str:
        """Run the tear-down command, if it was not run yet; return why it failed, or an empty text."""
        with self._lock:
            if not self._is_over:
                self._is_over = True
                if self._case.teardown is not None:
                    self._problem = self._commands.run(self._case.teardown, self._case, "teardown")
                self._commands.prepared.pop(self, None)
            return self._problem
