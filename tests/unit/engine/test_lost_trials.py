"""Trials that are lost through no fault of the agent are tried again; what the agent failed is not."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from agent_eval.agents.base import AttemptResult, Surroundings, Task
from agent_eval.agents.recorder import Recorder
from agent_eval.agents.tools import CaseTools
from agent_eval.contracts import Case, Trace, Verdict
from agent_eval.engine.agent_run import Execution, ExecutionPlan, execute
from agent_eval.engine.journaled_suite import ARTIFACTS
from agent_eval.engine.plan import JudgePlan
from agent_eval.engine.progress import RunProgress
from agent_eval.engine.trial import TrialPlan
from agent_eval.errors import FailureKind
from agent_eval.http.retry import Patience
from agent_eval.judges import BaseJudge, JudgeConfig
from agent_eval.models.retries import Retries
from agent_eval.storage.journal import Journal
from agent_eval.suites.reader import SuiteSource
from tests.unit.engine.agents import STILL, Answer, FakeAgent
from tests.unit.engine.conftest import MakeSuite
from tests.unit.engine.test_agent_run import cases, results

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


def run(
    suite: SuiteSource,
    agent: FakeAgent,
    journal: Path,
    *,
    judge: BaseJudge[JudgeConfig] | None = None,
    on_progress: Callable[[RunProgress], None] = lambda _: None,
    **more: Any,
) -> Execution:
    judges = [*JudgePlan(("policy", "execution")).load(), *([judge] if judge is not None else [])]
    trial = TrialPlan(agent=agent, judges=judges, tools=CaseTools, clocks=STILL)
    once = Retries(patience=Patience(attempts=1), wait=lambda _: False)
    with Journal.resume(journal) or Journal.create(journal, {}) as found:
        return execute(
            suite, ExecutionPlan(trial=trial, retries=once, **more), found, on_progress=on_progress
        )


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


def test_a_lost_trial_is_run_again_after_the_others_and_what_was_scored_is_not(
    make_suite: MakeSuite, tmp_path: Path
) -> None:
    agent = down(1, "c0")
    done = run(make_suite(3), agent, tmp_path / "j")
    assert asked_for(agent) == ["c0", "c1", "c2", "c0"]
    assert (done.complete, done.progress.passed, done.progress.errors, done.progress.retried) == (
        True, 3, 0, 1,
    )  # fmt: skip
    assert cases(done)["c0"]["metadata"]["lost_tries"] == [
        {"fault": "infrastructure", "reason": "the agent broke"}
    ]
    assert "lost_tries" not in cases(done)["c1"]["metadata"]


def test_a_trial_is_run_again_at_most_twice_and_every_try_is_on_record(
    make_suite: MakeSuite, tmp_path: Path
) -> None:
    agent = down(9, "c1")
    done = run(make_suite(3), agent, tmp_path / "j")
    assert Counter(asked_for(agent)) == {"c0": 1, "c1": 3, "c2": 1}
    assert results(done)["c1"].fault == "infrastructure"
    assert [entry["fault"] for entry in cases(done)["c1"]["metadata"]["lost_tries"]] == ["infrastructure"] * 2
    assert (done.complete, done.progress.done, done.progress.errors) == (True, 3, 1)


@pytest.mark.parametrize("retries", [0, 1])
def test_fewer_retries_can_be_asked_for(make_suite: MakeSuite, tmp_path: Path, retries: int) -> None:
    agent = down(9, "c1")
    run(make_suite(3), agent, tmp_path / "j", lost_retries=retries)
    assert asked_for(agent).count("c1") == 1 + retries


OF_THE_AGENT = sorted(
    set(FailureKind) - {FailureKind.INFRASTRUCTURE, FailureKind.ENVIRONMENT, FailureKind.SIMULATOR_ERROR}
)


@pytest.mark.parametrize("kind", OF_THE_AGENT)
def test_what_the_agent_failed_is_never_run_again(
    make_suite: MakeSuite, tmp_path: Path, kind: FailureKind
) -> None:
    """Doing so would raise a rate p to p + (1 - p)p."""
    agent = FakeAgent(lambda task: Answer(failure=kind) if task.case.case_id == "c0" else Answer())
    done = run(make_suite(2), agent, tmp_path / "j")
    assert asked_for(agent) == ["c0", "c1"]
    assert (results(done)["c0"].outcome, results(done)["c0"].is_lost) == ("error", False)


def test_what_a_judge_failed_is_never_run_again(make_suite: MakeSuite, tmp_path: Path) -> None:
    agent = FakeAgent(lambda task: Answer(calls=("forbidden",)))
    judge = Unsteady(raises=9)
    done = run(make_suite(2), agent, tmp_path / "j", judge=judge)
    assert (asked_for(agent), len(judge.seen)) == (["c0", "c1"], 2)
    assert {result.outcome for result in results(done).values()} == {"error"}
    assert not any(result.is_lost for result in results(done).values())


def test_a_trial_that_no_judge_could_judge_is_judged_again_without_the_agent(
    make_suite: MakeSuite, tmp_path: Path
) -> None:
    said = iter(range(100))
    agent = FakeAgent(lambda _: Answer(f"answer {next(said)}"))
    judge = Unsteady(raises=1)
    done = run(make_suite(3), agent, tmp_path / "j", judge=judge)
    assert asked_for(agent) == ["c0", "c1", "c2"]
    assert judge.seen == ["answer 0", "answer 1", "answer 2", "answer 0"]
    metadata = cases(done)["c0"]["metadata"]
    assert metadata["lost_tries"] == [
        {
            "fault": "judge",
            "reason": "the judge raised RuntimeError: the judge's server answered with HTTP 503",
        }
    ]
    assert (metadata["loop_passed"], metadata["attempt_history"][-1]["passed"]) == (True, True)
    assert (results(done)["c0"].passed, done.progress.passed) == (True, 3)


def test_a_judge_that_stays_broken_is_asked_three_times_and_the_trial_is_lost_to_it(
    make_suite: MakeSuite, tmp_path: Path
) -> None:
    class OnlyFirst(Unsteady):
        def evaluate(self, case: Case, trace: Trace) -> Verdict:
            return super().evaluate(case, trace) if case.case_id == "c0" else self.passed(case, "fine")

    judge = OnlyFirst(raises=9)
    agent = FakeAgent(lambda _: Answer())
    done = run(make_suite(2), agent, tmp_path / "j", judge=judge)
    assert (len(judge.seen), len(agent.tasks)) == (3, 2)
    assert results(done)["c0"].fault == "judge"


def test_where_every_trial_is_lost_none_is_run_again(make_suite: MakeSuite, tmp_path: Path) -> None:
    agent = down(9, "c0", "c1")
    done = run(make_suite(2), agent, tmp_path / "j")
    assert (len(agent.tasks), done.complete, done.progress.errors) == (2, True, 2)


def down_from(number: int, until: int = 10**9) -> FakeAgent:
    """An agent that cannot be reached from its nth request on."""
    agent = FakeAgent(lambda _: DOWN if number < len(agent.tasks) <= until else Answer())
    return agent


def test_an_outage_stops_the_run_and_keeps_what_is_there(make_suite: MakeSuite, tmp_path: Path) -> None:
    agent = down_from(10)
    done = run(make_suite(40), agent, tmp_path / "j")
    assert len(agent.tasks) == 15
    assert (
        done.outage == done.stopped == ("5 trials in a row were lost to the infrastructure (the agent broke)")
    )
    assert (done.progress.done, done.progress.errors, done.complete) == (15, 5, False)


def test_a_run_that_an_outage_stopped_goes_on_and_tries_the_lost_trials_again(
    make_suite: MakeSuite, tmp_path: Path
) -> None:
    suite = make_suite(
        [{"case_id": f"c{number}", "policy": {"forbidden_tools": ["x"]}} for number in range(40)]
    )
    run(suite, down_from(10), tmp_path / "j")
    again = FakeAgent(lambda _: Answer())
    done = run(suite, again, tmp_path / "j")
    assert (done.complete, done.progress.passed, done.progress.errors) == (True, 40, 0)
    assert asked_for(again)[:25] == [f"c{number}" for number in range(15, 40)]
    assert asked_for(again)[25:] == [f"c{number}" for number in range(10, 15)]


def test_losses_that_are_not_in_a_row_are_no_outage(make_suite: MakeSuite, tmp_path: Path) -> None:
    lost = {f"c{number}" for number in range(40) if number % 5}
    done = run(make_suite(40), down(1, *lost), tmp_path / "j")
    assert (done.complete, done.outage, done.progress.retried) == (True, "", 32)


def test_as_many_as_run_at_once_may_be_lost_together(make_suite: MakeSuite, tmp_path: Path) -> None:
    agent = FakeAgent(lambda task: DOWN if task.case.case_id in ("c7", "c8") else Answer())
    done = run(make_suite(20), agent, tmp_path / "j", parallel=8)
    assert (done.complete, done.outage) == (True, "")


class Killed(Exception):
    """Ends a run where SIGKILL would: what is in the journal stays."""


def test_tries_are_counted_over_starts_of_a_run(make_suite: MakeSuite, tmp_path: Path) -> None:
    suite, first = make_suite(4), down(9, "c1")

    def kill(progress: RunProgress) -> None:
        if progress.retried:
            raise Killed

    with pytest.raises(Killed):
        run(suite, first, tmp_path / "j", on_progress=kill)
    assert asked_for(first) == ["c0", "c1", "c2", "c3"]
    second = down(9, "c1")
    done = run(suite, second, tmp_path / "j")
    assert asked_for(second) == ["c1", "c1"]
    assert len(cases(done)["c1"]["metadata"]["lost_tries"]) == 2
    assert (done.progress.done, done.progress.resumed, done.progress.errors) == (4, 3, 1)


def test_a_judgement_that_was_repeated_is_not_repeated_by_a_resume(
    make_suite: MakeSuite, tmp_path: Path
) -> None:
    suite, agent = make_suite(3), FakeAgent(lambda _: Answer())
    run(suite, agent, tmp_path / "j", judge=Unsteady(raises=1))
    judge = Unsteady(raises=0)
    done = run(suite, agent, tmp_path / "j", judge=judge)
    assert (judge.seen, len(agent.tasks), done.progress.passed) == ([], 3, 3)


def test_artifacts_of_a_trial_survive_its_second_judging(make_suite: MakeSuite, tmp_path: Path) -> None:
    agent = FakeAgent(lambda _: Answer(stderr=b"a warning"))
    run(make_suite(2), agent, tmp_path / "j", judge=Unsteady(raises=1))
    journal = Journal.resume(tmp_path / "j")
    assert journal is not None
    with journal:
        records = [record for _, record, _ in journal.entries()]
    assert [record["case_id"] for record in records] == ["c0", "c1", "c0"]
    assert records[2][ARTIFACTS] == records[0][ARTIFACTS]


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


def test_a_lost_trial_that_a_hard_judge_failed_is_not_replaced(make_suite: MakeSuite, tmp_path: Path) -> None:
    agent = CutOff("send_mail")
    done = run(make_suite(3), agent, tmp_path / "j", judge=Leaks())
    assert asked_for(agent) == ["c0", "c1", "c2"]
    kept = results(done)["c0"]
    assert (kept.fault, kept.outcome) == ("infrastructure", "error")
    assert [row.outcome for row in kept.verdicts if row.judge_id == "pii"] == ["failed"]
    assert (done.complete, done.progress.done, done.progress.errors) == (True, 3, 1)
    # Nor is it when the run goes on later.
    again = run(make_suite(3), agent, tmp_path / "j", judge=Leaks())
    assert asked_for(agent) == ["c0", "c1", "c2"]
    assert (again.complete, again.progress.resumed) == (True, 3)


def test_a_lost_trial_that_every_judge_passed_is_run_again(make_suite: MakeSuite, tmp_path: Path) -> None:
    agent = CutOff("lookup")
    done = run(make_suite(3), agent, tmp_path / "j", judge=Leaks())
    assert asked_for(agent) == ["c0", "c1", "c2", "c0"]
    assert results(done)["c0"].passed


def test_a_trial_in_which_the_agent_did_nothing_is_run_again_whatever_a_judge_says_of_it(
    make_suite: MakeSuite, tmp_path: Path
) -> None:
    agent = CutOff()
    done = run(make_suite(3), agent, tmp_path / "j", judge=Leaks(strict=True))
    assert asked_for(agent) == ["c0", "c1", "c2", "c0"]
    assert results(done)["c0"].passed
