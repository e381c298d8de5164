"""Judges that misbehave, for tests: what a plug-in may do, someone's will."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path
from typing import Any

from agent_eval.contracts import Case, Trace, Verdict
from agent_eval.errors import FailureKind
from agent_eval.judges import BaseJudge, JudgeConfig

PARENT = "AGENT_EVAL_TEST_PARENT"
"""Environment variable with the process id of who started the workers."""

MARKS = "AGENT_EVAL_TEST_MARKS"
"""Environment variable with a directory in which each process leaves a file named by its id."""


def in_worker() -> bool:
    return os.environ.get(PARENT) != str(os.getpid())


def leave_mark() -> None:
    (Path(os.environ[MARKS]) / str(os.getpid())).touch()


def wait_for_worker() -> None:
    """Hold the calling process up until a worker has judged something."""
    deadline = time.monotonic() + 60
    own = str(os.getpid())
    while not [name for name in os.listdir(os.environ[MARKS]) if name != own]:
        if time.monotonic() > deadline:
            raise TimeoutError("no worker ever judged anything")
        time.sleep(0.01)


class Plain(BaseJudge[JudgeConfig]):
    judge_id = "plain"
    Config = JudgeConfig

    def evaluate(self, case: Case, trace: Trace) -> Verdict:
        return self.passed(case, "fine")


class Marking(Plain):
    """Shows which processes judged; makes sure that a worker is among them."""

    judge_id = "marking"

    def evaluate(self, case: Case, trace: Trace) -> Verdict:
        leave_mark()
        if not in_worker():
            wait_for_worker()
        return self.passed(case, "fine")


class Dying(Marking):
    """Is killed in the first worker that judges, as the kernel kills who takes too much memory."""

    judge_id = "dying"

    def evaluate(self, case: Case, trace: Trace) -> Verdict:
        leave_mark()
        if in_worker():
            os.kill(os.getpid(), signal.SIGKILL)
        wait_for_worker()
        return self.passed(case, "fine")


class Exiting(Dying):
    """Ends the first worker that judges with an exit code."""

    judge_id = "exiting"

    def evaluate(self, case: Case, trace: Trace) -> Verdict:
        leave_mark()
        if in_worker():
            os._exit(7)
        wait_for_worker()
        return self.passed(case, "fine")


class Endless(Plain):
    """Never comes back."""

    judge_id = "endless"

    def evaluate(self, case: Case, trace: Trace) -> Verdict:
        leave_mark()
        time.sleep(600)
        return self.passed(case, "fine")


class Slow(Plain):
    """Takes a moment for each case."""

    judge_id = "slow"

    def evaluate(self, case: Case, trace: Trace) -> Verdict:
        leave_mark()
        time.sleep(0.01)
        return self.passed(case, "fine")


class NotJson(Plain):
    """Gives evidence that JSON cannot hold on one case."""

    judge_id = "not_json"

    def evaluate(self, case: Case, trace: Trace) -> Verdict:
        found: Any = {"tools": {1, 2}} if case.case_id == "c1" else {"tools": [1, 2]}
        return self.passed(case, "fine", evidence=found)


class Poisoned(Plain):
    """Answers with verdicts of its own class, which cannot be read."""

    judge_id = "poisoned"

    def evaluate(self, case: Case, trace: Trace) -> Verdict:
        class Poison(Verdict):
            @property
            def model_extra(self) -> dict[str, Any] | None:
                raise ZeroDivisionError("poison")

        return Poison.model_construct(**self.passed(case, "fine").__dict__)


class Meddling(Plain):
    """Changes what it was only asked to look at."""

    judge_id = "meddling"

    def evaluate(self, case: Case, trace: Trace) -> Verdict:
        for event in trace.events:
            event.output = "changed"
            event.attributes["changed"] = True
        case.metadata["changed"] = True
        return self.failed(case, "meddled", FailureKind.CONTRACT_VIOLATION)
