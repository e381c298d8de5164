"""Judges and suites that misbehave, for tests: what a plug-in may do, someone's will."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from agent_eval.contracts import Case, Trace, Verdict
from agent_eval.errors import FailureKind
from agent_eval.judges import BaseJudge, JudgeConfig
from agent_eval.suites.document import RawCase, Shard
from agent_eval.suites.reader import SuiteSource

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


class Watched(SuiteSource):
    """A suite of which each case does something to the process that judges it, before it is judged.

    A judge that is no built-in one has a process of its own, so that it is not there to do that.
    """

    @classmethod
    def of(cls, suite: SuiteSource) -> SuiteSource:
        return cls(suite.document, suite.header)

    def read(self, shard: Shard) -> Iterator[tuple[RawCase, Case]]:
        for case in super().read(shard):
            leave_mark()
            self.do()
            yield case

    def do(self) -> None:
        raise NotImplementedError


class Marking(Watched):
    """Shows which processes judged; makes sure that a worker is among them."""

    def do(self) -> None:
        if not in_worker():
            wait_for_worker()


class Dying(Watched):
    """Is killed in the first worker that judges, as the kernel kills who takes too much memory."""

    def do(self) -> None:
        if in_worker():
            os.kill(os.getpid(), signal.SIGKILL)
        wait_for_worker()


class Exiting(Watched):
    """Ends the first worker that judges with an exit code."""

    def do(self) -> None:
        if in_worker():
            os._exit(7)
        wait_for_worker()


class Endless(Watched):
    """Never comes back."""

    def do(self) -> None:
        time.sleep(600)


class Slow(Watched):
    """Takes a moment for each case."""

    def do(self) -> None:
        time.sleep(0.01)


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
