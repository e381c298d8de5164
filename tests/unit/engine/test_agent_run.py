"""Running an agent: every finished trial is kept, and only what is missing is run."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from agent_eval.agents.base import Task
from agent_eval.agents.tools import CaseTools
from agent_eval.contracts import AttemptLimits, Case, RunConfig, RunLimits, Trace, TrialLimits
from agent_eval.contracts.trials import case_policy
from agent_eval.engine.agent_run import Execution, ExecutionPlan, execute
from agent_eval.engine.progress import RunProgress, RunUse
from agent_eval.engine.scoring import score_suite
from agent_eval.engine.shard import JudgePlan
from agent_eval.engine.trial import TrialPlan
from agent_eval.engine.usage import TrialUse
from agent_eval.errors import FailureKind, InvalidInput
from agent_eval.evidence.reader import open_pack
from agent_eval.http.retry import Patience
from agent_eval.models.retries import Retries
from agent_eval.storage.journal import Journal
from agent_eval.storage.redaction import Redactor
from agent_eval.suites.reader import SuiteSource
from tests.e2e.program import tree
from tests.extent import crossed
from tests.factories import make_case, make_event
from tests.unit.engine.agents import STILL, Answer, FakeAgent
from tests.unit.engine.conftest import MakeSuite

JUDGES = ("policy", "execution")
Go = Callable[..., Execution]


def plan_for(agent: FakeAgent, **more: Any) -> ExecutionPlan:
    of_run = {
        name: more.pop(name)
        for name in ("parallel", "limits", "retries", "redactor", "trials", "policy", "keep_calls")
        if name in more
    }
    judges = JudgePlan(more.pop("judges", JUDGES)).load()
    limits = more.pop("trial_limits", TrialLimits())
    trial = TrialPlan(agent=agent, judges=judges, tools=CaseTools, clocks=STILL, limits=limits, **more)
    of_run.setdefault("retries", Retries(wait=lambda _: False))
    return ExecutionPlan(trial=trial, **of_run)


@pytest.fixture
def go(make_suite: MakeSuite, tmp_path: Path) -> Go:
    """Begins a run, or goes on with the one of the same journal."""

    def run(
        suite: SuiteSource | Any,
        agent: FakeAgent,
        on_progress: Callable[[RunProgress], None] = lambda _: None,
        journal: str = "j",
        **more: Any,
    ) -> Execution:
        if not isinstance(suite, SuiteSource):
            suite = make_suite(suite)
        path = tmp_path / journal
        with Journal.resume(path) or Journal.create(path, {}) as found:
            return execute(suite, plan_for(agent, **more), found, on_progress=on_progress)

    return run


def cases(execution: Execution) -> dict[str, dict[str, Any]]:
    return {raw["case_id"]: raw for raw, _ in execution.suite.cases()}


def results(execution: Execution) -> dict[str, Any]:
    found = {}
    for shard in execution.suite.shards:
        for case in execution.suite.document.read(shard):
            found[case.raw["case_id"]] = case.result
    return found


def test_the_agent_is_not_shown_what_was_recorded_before(go: Go) -> None:
    suite = [{"case_id": "a", "metadata": {"loop_passed": False, "kept": 1}, "trace": []}]
    agent = FakeAgent(lambda _: Answer())
    go(suite, agent)
    assert agent.tasks[0].case.metadata == {"kept": 1}


def test_repair_stops_at_the_first_pass(go: Go) -> None:
    agent = FakeAgent(lambda task: Answer(calls=("forbidden",) if task.attempt < 2 else ("lookup",)))
    metadata = cases(go(1, agent, max_repairs=5))["c0"]["metadata"]
    assert [task.mode for task in agent.tasks] == ["propose", "repair", "repair"]
    assert [entry["passed"] for entry in metadata["attempt_history"]] == [False, False, True]
    assert metadata["selected_attempt"] == 2
    assert metadata["max_repairs"] == 5
    previous = agent.tasks[2].previous_attempts
    assert [entry["attempt"] for entry in previous] == [0, 1]
    assert previous[0]["response"]["tool_calls"] == [{"tool": "forbidden", "arguments": {}}]
    failed = next(verdict for verdict in previous[0]["verdicts"] if verdict["judge_id"] == "policy")
    assert failed["passed"] is False
    assert "forbidden" in failed["reason"]


def test_repairs_end(go: Go) -> None:
    agent = FakeAgent(lambda _: Answer(calls=("forbidden",)))
    done = go(1, agent, max_repairs=2)
    assert len(agent.tasks) == 3
    assert done.progress.failed == 1
    assert results(done)["c0"].outcome == "failed"


PARIS = {"expected_output": "the capital is Paris"}


@pytest.mark.parametrize("shared", [False, True])
@pytest.mark.parametrize("case", [PARIS, {"turns": [{"input": "?", **PARIS}]}], ids=["case", "turn"])
def test_the_answer_is_not_told_by_a_reason(go: Go, case: dict[str, Any], shared: bool) -> None:
    suite = [{"case_id": "a", **case}]
    agent = FakeAgent(lambda _: Answer("Rome"))
    judges = ("final_output",)
    go(suite, agent, max_repairs=1, judges=judges, share_expected_output=shared)
    assert ("Paris" in json.dumps(agent.tasks[1].previous_attempts)) is shared


def test_infrastructure_is_tried_again_and_counted(go: Go) -> None:
    waits: list[float] = []
    failures = iter([3.5, None])

    def behave(_: Task) -> Answer:
        try:
            return Answer(failure=FailureKind.INFRASTRUCTURE, asked_wait=next(failures))
        except StopIteration:
            return Answer()

    retries = Retries(wait=lambda seconds: bool(waits.append(seconds)), chance=lambda: 1.0)
    done = go(1, FakeAgent(behave), retries=retries)
    assert waits == [3.5, 2.0]
    assert done.progress.passed == 1
    assert done.progress.retries == 2
    assert cases(done)["c0"]["metadata"]["attempt_history"][0]["retries"] == 2


def test_patience_ends_in_an_error_without_repair(go: Go) -> None:
    agent = FakeAgent(lambda _: Answer(failure=FailureKind.INFRASTRUCTURE))
    retries = Retries(Patience(attempts=3), wait=lambda _: False)
    done = go(1, agent, retries=retries, max_repairs=4)
    assert len(agent.tasks) == 1
    assert done.progress.retries == 2
    verdict = next(verdict for verdict in results(done)["c0"].verdicts if verdict.judge_id == "execution")
    assert verdict.failure is FailureKind.INFRASTRUCTURE


@pytest.mark.parametrize(
    ("answer", "limits", "kind"),
    [
        (Answer(calls=("a", "b", "c")), TrialLimits(steps=3), "budget_exceeded"),
        (Answer(seconds=9.0), TrialLimits(seconds=8.0), "timeout"),
        (
            Answer(attributes={"input_tokens": 60, "output_tokens": 50}),
            TrialLimits(tokens=100),
            "budget_exceeded",
        ),
        (Answer(attributes={"cost_usd": 0.5}), TrialLimits(cost_usd=0.4), "budget_exceeded"),
    ],
    ids=["steps", "time", "tokens", "cost"],
)
def test_a_limit_of_the_case_is_a_verdict(go: Go, answer: Answer, limits: TrialLimits, kind: str) -> None:
    agent = FakeAgent(lambda _: answer)
    done = go(2, agent, trial_limits=limits, max_repairs=3)
    found = results(done)
    assert {result.outcome for result in found.values()} == {"error"}
    assert {verdict.failure for verdict in found["c0"].verdicts if verdict.failure} == {FailureKind(kind)}
    assert len(agent.tasks) == 2  # nothing is left for a repair


def test_the_next_attempt_gets_what_is_left(go: Go) -> None:
    agent = FakeAgent(lambda task: Answer(calls=("forbidden",), seconds=3.0))
    limits = TrialLimits(seconds=10.0, tool_calls=3)
    go(1, agent, max_repairs=2, trial_limits=limits,
        attempt_limits=AttemptLimits(seconds=6.0, tool_calls=None),
    )  # fmt: skip
    assert [(task.limits.seconds, task.limits.tool_calls) for task in agent.tasks] == [
        (6.0, 3), (6.0, 2), (4.0, 1),
    ]  # fmt: skip


@pytest.mark.parametrize(
    "wrong",
    [
        {"case_id": "b", "regex_patterns": ["("]},
        {"case_id": "b", "metadata": {"tool_responses": 3}},
        {"case_id": "a"},
    ],
    ids=["pattern", "tools", "twice"],
)
def test_nothing_is_run_when_a_case_is_wrong(go: Go, wrong: dict[str, Any]) -> None:
    agent = FakeAgent(lambda _: Answer())
    with pytest.raises(InvalidInput):
        go([{"case_id": "a"}, wrong], agent, judges=("regex",))
    assert agent.tasks == []


def test_a_journal_of_more_cases_is_refused(go: Go) -> None:
    go(5, FakeAgent(lambda _: Answer()))
    with pytest.raises(InvalidInput, match="does not have"):
        go(2, FakeAgent(lambda _: Answer()))


def test_a_journal_of_other_cases_is_refused(go: Go) -> None:
    go([{"case_id": "x"}], FakeAgent(lambda _: Answer()))
    done = go(1, FakeAgent(lambda _: Answer()))
    with pytest.raises(InvalidInput, match="'x'"):
        list(done.suite.cases())


@crossed(layout=["files", "compact"], parallel=[1, 7, None])
def test_the_pack_does_not_depend_on_how_it_was_run(
    go: Go, config: RunConfig, tmp_path: Path, layout: Any, parallel: int | None
) -> None:

    def behave(task: Task) -> Answer:
        return Answer(calls=("forbidden",) if task.case.case_id.endswith("7") else ("lookup",))

    whole = go(300, FakeAgent(behave), journal="j1")
    score_suite(whole.suite, JudgePlan(JUDGES), config, tmp_path / "whole", layout=layout)

    def interrupt(progress: RunProgress) -> None:
        if progress.done > 50:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        go(300, FakeAgent(behave), interrupt, journal="j2", parallel=parallel)
    resumed = go(300, FakeAgent(behave), journal="j2", parallel=parallel)
    score_suite(resumed.suite, JudgePlan(JUDGES), config, tmp_path / "resumed", layout=layout)
    assert tree(tmp_path / "whole") == tree(tmp_path / "resumed")
    assert open_pack(tmp_path / "whole").summary.failed_cases == 30


def test_each_case_has_its_first_trial_before_any_second(go: Go, config: RunConfig, tmp_path: Path) -> None:
    def behave(task: Task) -> Answer:
        bad = task.case.case_id == "c1" and len(agent.tasks) > 3
        return Answer(calls=("forbidden",) if bad else ("lookup",))

    agent = FakeAgent(behave)
    done = go(3, agent, trials=3, policy=case_policy("majority"))
    assert [task.case.case_id for task in agent.tasks] == ["c0", "c1", "c2"] * 3
    assert done.progress.total == done.progress.done == 9
    score_suite(done.suite, JudgePlan(JUDGES), config, tmp_path / "pack")
    pack = open_pack(tmp_path / "pack")
    assert [row["outcome"] for row in pack.results()] == ["passed", "failed", "passed"]
    assert [trial["passed"] for trial in pack.results()[1]["trials"]] == [True, False, False]
    assert [trial["trace"][1]["tool"] for trial in pack.raw_trajectory("c1")["trials"]] == ["forbidden"] * 2
    assert pack.summary.flaky_cases == 1


@pytest.mark.parametrize("layout", ["files", "compact"])
def test_what_an_agent_wrote_to_standard_error_is_kept_as_a_file_of_the_case(
    go: Go, config: RunConfig, tmp_path: Path, layout: Any
) -> None:
    redactor = Redactor(["hunter2hunter2"])

    def behave(task: Task) -> Answer:
        silent = task.case.case_id == "c1"
        stderr = b"" if silent else b"\xff hunter2hunter2 " + b"x" * 10_000
        return Answer(calls=("lookup",) if task.attempt else ("forbidden",), stderr=stderr)

    for name, trials in (("one", 1), ("two", 2)):
        done = go(2, FakeAgent(behave), journal=f"j{name}", max_repairs=1, trials=trials, redactor=redactor)
        score_suite(done.suite, JudgePlan(JUDGES), config, tmp_path / name, layout=layout, redactor=redactor)
    pack = open_pack(tmp_path / "one")
    kept = pack.artifacts("c0")
    assert list(kept) == ["attempt-0-stderr.txt", "attempt-1-stderr.txt"]
    assert kept["attempt-0-stderr.txt"] == b"\xff [redacted] " + b"x" * 10_000
    assert pack.artifacts("c1") == {}
    shown = pack.trajectory("c0").metadata["attempt_history"][0]["artifacts"]["stderr.txt"]
    assert "bytes left out" in shown
    assert list(open_pack(tmp_path / "two").artifacts("c0")) == [
        "attempt-0-stderr.txt", "attempt-1-stderr.txt", "trial-1-attempt-0-stderr.txt",
        "trial-1-attempt-1-stderr.txt",
    ]  # fmt: skip


# What a trial and a run have used, and costs that are unknown


def used(*events: dict[str, Any], seconds: float = 1.0) -> TrialUse:
    case = Case.model_validate({"case_id": "c", "trace": list(events)})
    use = TrialUse()
    use.add(case, Trace(case.trace), seconds)
    return use


def test_agent_steps_and_tool_calls_are_counted() -> None:
    case = Case.model_validate(make_case("c", "a", "b"))
    use = TrialUse()
    use.add(case, Trace(case.trace), 1.0)
    use.add(case, Trace(case.trace), 2.0)
    assert (use.seconds, use.steps, use.tool_calls) == (3.0, 6, 4)


def test_what_nothing_tells_is_unknown_and_not_0() -> None:
    use = used(make_event(0, attributes={"note": 1}))
    assert use.tokens is None
    assert use.cost_usd is None
    assert use.reached(TrialLimits(tokens=1, cost_usd=0.1)) is None


def test_tokens_are_priced_where_no_cost_is_recorded() -> None:
    tokens = {"gen_ai.usage.input_tokens": 1_000_000, "gen_ai.usage.output_tokens": 0}
    use = used(make_event(0, attributes={"gen_ai.response.model": "gpt-4o", **tokens}))
    assert use.tokens == 1_000_000
    assert use.cost_usd == pytest.approx(2.5)


def test_a_limit_that_is_met_exactly_is_kept_but_leaves_nothing() -> None:
    use = used(make_event(0, attributes={"cost_usd": 0.5}))
    assert use.reached(TrialLimits(cost_usd=0.5)) is None
    assert use.is_spent(TrialLimits(cost_usd=0.5))
    assert not use.is_spent(TrialLimits(cost_usd=0.6, tokens=3))


def test_a_run_knows_what_it_does_not_know() -> None:
    now = [0.0]
    run = RunUse(RunLimits(seconds=10, cost_usd=1.0), lambda: now[0])
    run.add(None)
    run.add(0.4)
    assert (run.cost_usd, run.average, run.reached()) == (0.4, 0.4, "")
    assert (run.may_start(0), run.may_start(1)) == (True, False)
    run.add(0.4)
    assert "cost limit of 1 US dollars is reached (0.8 spent, and a trial costs 0.4" in run.reached()
    now[0] = 10.0
    assert "time limit of 10 s" in run.reached()
