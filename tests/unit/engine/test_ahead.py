"""Scoring while cases are still being run: earlier, and the same bytes."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import pytest

from agent_eval.agents.base import Task
from agent_eval.contracts import RunConfig
from agent_eval.contracts.trials import ALL
from agent_eval.engine.agent_run import execute
from agent_eval.engine.ahead import Ahead
from agent_eval.engine.journaled_suite import Slots, executed
from agent_eval.engine.plan import JudgePlan
from agent_eval.engine.scoring import open_scoring, score_suite
from agent_eval.errors import InvalidInput
from agent_eval.evidence.reader import open_pack
from agent_eval.storage.journal import Journal, JournalReader
from agent_eval.suites.reader import SuiteSource
from tests.e2e.program import tree
from tests.unit.engine.agents import Answer, FakeAgent
from tests.unit.engine.conftest import MakeSuite
from tests.unit.engine.test_agent_run import JUDGES, plan_for

PLAN = JudgePlan(JUDGES)


def behave(task: Task) -> Answer:
    return Answer(task.case.case_id, calls=("forbidden",) if task.case.case_id.endswith("7") else ("lookup",))


@pytest.fixture
def journal(make_suite: MakeSuite, tmp_path: Path) -> tuple[SuiteSource, Path]:
    """A suite of two shards and its journal."""
    suite = make_suite(300)
    with Journal.create(tmp_path / "j", {}) as found:
        execute(suite, plan_for(FakeAgent(behave), parallel=3), found)
    return suite, tmp_path / "j"


def slots_of(suite: SuiteSource, journal: Path, done: range) -> Slots:
    """The first trial of some cases, as if the others had not finished."""
    found = Journal.resume(journal)
    assert found is not None
    slots = Slots(suite.case_count, 1)
    with found:
        for offset, record in found.entries():
            if record["position"] in done:
                slots.put(0, record["position"], offset)
    return slots


@pytest.mark.parametrize("layout", ["files", "compact"])
@pytest.mark.parametrize("ahead", [1, 249, 250, 251, 300])
@pytest.mark.parametrize("done", [range(300), range(260)], ids=len)
def test_the_pack_does_not_depend_on_how_much_was_scored_ahead(
    journal: tuple[SuiteSource, Path], config: RunConfig, tmp_path: Path, layout: Any, ahead: int, done: range
) -> None:
    suite, path = journal
    slots = slots_of(suite, path, done)
    reader = JournalReader(path)
    rest = executed(suite, slots, reader)
    score_suite(rest, PLAN, config, tmp_path / "late", layout=layout)
    every = executed(suite, slots, reader, ALL, positions=range(300))
    with open_scoring(suite, PLAN, config, tmp_path / "ahead", layout=layout) as scoring:
        for _ in range(min(ahead, len(done))):
            scoring.score_next(every)
        summary = scoring.finish(rest)
    assert summary.total_cases == len(done)
    assert tree(tmp_path / "ahead") == tree(tmp_path / "late")


def test_cases_beyond_a_gap_come_later(
    journal: tuple[SuiteSource, Path], config: RunConfig, tmp_path: Path
) -> None:
    suite, path = journal
    slots = slots_of(suite, path, range(300))
    gap = Slots(300, 1)
    for position in (*range(100), *range(120, 300)):
        gap.put(0, position, slots.of_case(position)[0])
    reader = JournalReader(path)
    every = executed(suite, gap, reader, positions=range(300))
    with open_scoring(suite, PLAN, config, tmp_path / "pack") as scoring:
        for _ in range(100):
            scoring.score_next(every)
        scoring.finish(executed(suite, gap, reader), complete=False)
    pack = open_pack(tmp_path / "pack")
    assert pack.case_ids() == [f"c{number}" for number in (*range(100), *range(120, 300))]
    assert pack.manifest.complete is False


def test_while_it_runs_what_is_done_is_scored(
    make_suite: MakeSuite, config: RunConfig, tmp_path: Path
) -> None:
    """The last case does not end before all others are scored."""
    suite = make_suite(40)
    scored: list[int] = []
    gate = threading.Event()

    def wait_for_the_others(task: Task) -> Answer:
        if task.case.case_id == "c39":
            assert gate.wait(60)
        return behave(task)

    with (
        Journal.create(tmp_path / "j", {}) as journal,
        open_scoring(suite, PLAN, config, tmp_path / "pack") as scoring,
    ):

        def score_next(whole: SuiteSource) -> None:
            scoring.score_next(whole)
            scored.append(len(scored))
            if len(scored) == 39:
                gate.set()

        plan = plan_for(FakeAgent(wait_for_the_others), parallel=2, score_ahead=score_next)
        done = execute(suite, plan, journal)
        scoring.finish(done.suite)
    assert len(scored) >= 39
    with Journal.create(tmp_path / "j2", {}) as journal:
        late = execute(suite, plan_for(FakeAgent(behave)), journal)
        score_suite(late.suite, PLAN, config, tmp_path / "late")
    assert tree(tmp_path / "pack") == tree(tmp_path / "late")


def test_a_pack_that_is_not_finished_leaves_nothing(
    journal: tuple[SuiteSource, Path], config: RunConfig, tmp_path: Path
) -> None:
    suite, path = journal
    every = executed(suite, slots_of(suite, path, range(300)), JournalReader(path), positions=range(300))
    before = {entry.name for entry in tmp_path.iterdir()}
    with open_scoring(suite, PLAN, config, tmp_path / "pack", layout="compact") as scoring:
        scoring.score_next(every)
    assert {entry.name for entry in tmp_path.iterdir()} == before


def test_what_cannot_be_scored_is_told_at_once(
    journal: tuple[SuiteSource, Path], config: RunConfig, tmp_path: Path
) -> None:
    suite, path = journal
    every = executed(suite, slots_of(suite, path, range(300)), JournalReader(path), positions=range(300))
    path.write_bytes(path.read_bytes().replace(b'"c1"', b'"cX"'))

    def score_two() -> None:
        with open_scoring(suite, PLAN, config, tmp_path / "pack") as scoring:
            scoring.score_next(every)
            scoring.score_next(every)

    with pytest.raises(InvalidInput):
        score_two()
    assert not (tmp_path / "pack").exists()


class Processor:
    """A process that has used so much of so much time, in which scoring a case takes some."""

    def __init__(self) -> None:
        self.used = self.now = 0.0
        self.scored = 0

    def pass_by(self, seconds: float, used: float) -> None:
        self.now += seconds
        self.used += used

    def score(self, _: SuiteSource) -> None:
        self.scored += 1
        self.pass_by(0.03, 0.0)


def all_done(slots: Slots) -> Slots:
    for position in range(slots.cases):
        for trial in range(slots.trials):
            slots.put(trial, position, 1)
    return slots


@pytest.mark.parametrize(("share", "scored"), [(0.9, 0), (0.6, 4), (0.3, 44)], ids=["busy", "so-so", "idle"])
def test_the_less_others_do_the_more_is_scored_at_a_time(
    make_suite: MakeSuite, share: float, scored: int
) -> None:
    suite, slots, processor = make_suite(60), all_done(Slots(60, 2)), Processor()
    ahead = Ahead(suite, slots, processor.score, busy=lambda: processor.used, clock=lambda: processor.now)
    for times in range(1, 2 if scored == 44 else 5):
        processor.pass_by(1.0, share)
        while ahead.look():
            assert processor.scored <= scored
        assert processor.scored == scored * times


def test_nothing_is_scored_before_all_trials_of_a_case_are_done(make_suite: MakeSuite) -> None:
    suite, slots, processor = make_suite(6), Slots(6, 2), Processor()
    ahead = Ahead(suite, slots, processor.score, busy=lambda: processor.used, clock=lambda: processor.now)
    for trial, position in ((0, 0), (1, 0), (0, 1), (0, 2), (1, 2)):
        slots.put(trial, position, 1)
    processor.pass_by(1.0, 0.0)
    assert not ahead.look()
    assert processor.scored == 1
    all_done(slots)
    processor.pass_by(1.0, 0.0)
    while ahead.look():
        pass
    assert processor.scored == 6
    assert not ahead.look()
