"""Trials that are lost through no fault of the agent are errors; only a resumed run tries them again."""

from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from agent_eval.agents.base import AttemptResult, Surroundings, Task
from agent_eval.agents.recorder import Recorder
from agent_eval.agents.tools import CaseTools
from agent_eval.contracts import Case, Trace, Verdict
from agent_eval.engine.agent_run import Execution, ExecutionPlan, execute
from agent_eval.engine.shard import JudgePlan
from agent_eval.engine.trial import TrialPlan
from agent_eval.errors import FailureKind
from agent_eval.http.retry import Patience
from agent_eval.judges import BaseJudge, JudgeConfig
from agent_eval.models.retries import Retries
from agent_eval.storage.journal import Journal
from tests.unit.engine.agents import STILL, Answer, FakeAgent
from tests.unit.engine.conftest import MakeSuite
from tests.unit.engine.test_agent_run import Go, results

DOWN = Answer(failure=FailureKind.INFRASTRUCTURE)


class Unsteady(BaseJudge[JudgeConfig]):
    """Raises as often as told, then passes every trace."""

    judge_id = "unsteady"
    Config = JudgeConfig

    def __init__(self, raises: int) -> None:
        super().__init__()
        self._raises, self.seen = raises, list[Any]()

    def evaluate(self, case: Case, trace: Trace) -> Verdict:
        self.seen.append(trace.final_output)
        if len(self.seen) <= self._raises:
            raise RuntimeError("the judge's server answered with HTTP 503")
        return self.passed(case, "fine")


@pytest.fixture
def go(make_suite: MakeSuite, tmp_path: Path) -> Go:
    """Begins a run that tries each request once, or goes on with it."""

    def run(
        cases: Any, agent: FakeAgent, *, judge: BaseJudge[JudgeConfig] | None = None, **more: Any
    ) -> Execution:
        judges = [*JudgePlan(("policy", "execution")).load(), *([judge] if judge is not None else [])]
        trial = TrialPlan(agent=agent, judges=judges, tools=CaseTools, clocks=STILL)
        once = Retries(patience=Patience(attempts=1), wait=lambda _: False)
        path = tmp_path / "j"
        with Journal.resume(path) or Journal.create(path, {}) as found:
            return execute(make_suite(cases), ExecutionPlan(trial=trial, retries=once, **more), found)

    return run


def down(times: int, *case_ids: str) -> FakeAgent:
    """An agent that cannot be reached the first times that these cases ask for it."""
    asked: Counter[str] = Counter()

    def behave(task: Task) -> Answer:
        asked[task.case.case_id] += 1
        is_down = task.case.case_id in case_ids and asked[task.case.case_id] <= times
        return DOWN if is_down else Answer()

    return FakeAgent(behave)


def asked_for(agent: FakeAgent) -> list[str]:
    return [task.case.case_id for task in agent.tasks]


OF_THE_AGENT = sorted(
    set(FailureKind) - {FailureKind.INFRASTRUCTURE, FailureKind.ENVIRONMENT, FailureKind.SIMULATOR_ERROR}
)


def test_a_lost_trial_is_an_error_and_not_run_again(go: Go) -> None:
    agent = down(1, "c0")
    done = go(3, agent)
    assert asked_for(agent) == ["c0", "c1", "c2"]
    assert (done.complete, done.progress.passed, done.progress.errors) == (True, 2, 1)
    assert results(done)["c0"].fault == "infrastructure"


@pytest.mark.parametrize("kind", OF_THE_AGENT)
def test_what_the_agent_failed_is_never_run_again(go: Go, kind: FailureKind) -> None:
    """Doing so would raise a rate p to p + (1 - p)p."""
    agent = FakeAgent(lambda task: Answer(failure=kind) if task.case.case_id == "c0" else Answer())
    done = go(2, agent)
    assert asked_for(agent) == ["c0", "c1"]
    failed, passed = results(done).values()
    assert (failed.outcome, failed.is_lost, passed.outcome) == ("error", False, "passed")
    assert kind in {verdict.failure for verdict in failed.verdicts}
    assert done.progress.errors == 1


def test_what_a_judge_failed_is_never_run_again(go: Go) -> None:
    agent = FakeAgent(lambda task: Answer(calls=("forbidden",)))
    judge = Unsteady(raises=9)
    done = go(2, agent, judge=judge)
    assert (asked_for(agent), len(judge.seen)) == (["c0", "c1"], 2)
    assert {result.outcome for result in results(done).values()} == {"error"}
    assert not any(result.is_lost for result in results(done).values())


def down_from(number: int, until: int = 10**9) -> FakeAgent:
    """An agent that cannot be reached from its nth request on."""
    agent = FakeAgent(lambda _: DOWN if number < len(agent.tasks) <= until else Answer())
    return agent


def test_an_outage_stops_the_run_and_keeps_what_is_there(go: Go) -> None:
    agent = down_from(10)
    done = go(40, agent)
    assert len(agent.tasks) == 15
    assert (
        done.outage == done.stopped == ("5 trials in a row were lost to the infrastructure (the agent broke)")
    )
    assert (done.progress.done, done.progress.errors, done.complete) == (15, 5, False)


def test_a_run_that_an_outage_stopped_goes_on_and_tries_the_lost_trials_again(go: Go) -> None:
    suite = [{"case_id": f"c{number}", "policy": {"forbidden_tools": ["x"]}} for number in range(40)]
    go(suite, down_from(10))
    again = FakeAgent(lambda _: Answer())
    done = go(suite, again)
    assert (done.complete, done.progress.passed, done.progress.errors) == (True, 40, 0)
    assert asked_for(again) == [f"c{number}" for number in range(10, 40)]


def test_losses_that_are_not_in_a_row_are_no_outage(go: Go) -> None:
    lost = {f"c{number}" for number in range(40) if number % 5}
    done = go(40, down(1, *lost))
    assert (done.complete, done.outage, done.progress.errors) == (True, "", 32)


def test_as_many_as_run_at_once_may_be_lost_together(go: Go) -> None:
    agent = FakeAgent(lambda task: DOWN if task.case.case_id in ("c7", "c8") else Answer())
    done = go(20, agent, parallel=8)
    assert (done.complete, done.outage) == (True, "")


class Leaks(BaseJudge[JudgeConfig]):
    """Fails every trace of a case in which `send_mail` was called, and where `strict` also an empty one."""

    judge_id = "pii"
    Config = JudgeConfig

    def __init__(self, *, strict: bool = False) -> None:
        super().__init__()
        self._strict = strict

    def evaluate(self, case: Case, trace: Trace) -> Verdict:
        is_leak = any(event.tool == "send_mail" for event in trace.events) or (
            self._strict and not trace.has_act
        )
        if is_leak:
            return self.failed(case, "an address was sent", FailureKind.POLICY_VIOLATION)
        return self.passed(case, "fine")


class CutOff(FakeAgent):
    """Calls a tool in its first attempt at c0; then the infrastructure ends that attempt."""

    def __init__(self, *calls: str) -> None:
        super().__init__(lambda _: Answer())
        self._calls = calls

    def attempt(self, task: Task, surroundings: Surroundings) -> AttemptResult:
        if task.case.case_id != "c0" or "c0" in asked_for(self):
            return super().attempt(task, surroundings)
        self.tasks.append(task)
        recorder = Recorder(task, surroundings)
        recorder.record_input()
        for tool in self._calls:
            recorder.call_tool(tool, {}, recorder.record_call(tool, {}))
        return recorder.result(
            None, FailureKind.INFRASTRUCTURE, "the model's provider answered with HTTP 503"
        )


def test_a_lost_trial_that_a_hard_judge_failed_is_not_replaced(go: Go) -> None:
    agent = CutOff("send_mail")
    done = go(3, agent, judge=Leaks())
    assert asked_for(agent) == ["c0", "c1", "c2"]
    kept = results(done)["c0"]
    assert (kept.fault, kept.outcome) == ("infrastructure", "error")
    assert [row.outcome for row in kept.verdicts if row.judge_id == "pii"] == ["failed"]
    assert (done.complete, done.progress.done, done.progress.errors) == (True, 3, 1)
    # Nor is it when the run goes on later.
    again = go(3, agent, judge=Leaks())
    assert asked_for(agent) == ["c0", "c1", "c2"]
    assert (again.complete, again.progress.resumed) == (True, 3)


@pytest.mark.parametrize(
    ("calls", "strict"), [(("lookup",), False), ((), True)], ids=["every judge passed", "did nothing"]
)
def test_a_lost_trial_of_which_nothing_is_known_is_run_again_by_a_resumed_run(
    go: Go, calls: tuple[str, ...], strict: bool
) -> None:
    agent = CutOff(*calls)
    first = go(3, agent, judge=Leaks(strict=strict))
    assert (asked_for(agent), first.progress.errors) == (["c0", "c1", "c2"], 1)
    go(3, agent, judge=Leaks(strict=strict))
    assert asked_for(agent) == ["c0", "c1", "c2", "c0"]
