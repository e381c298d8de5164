"""Cost and latency: tested before anything is said, and measured again before a limit blocks."""

from __future__ import annotations

from random import Random

import pytest

from agent_eval.contracts.history import CaseRecord, HistoryRun, RunRecord
from agent_eval.contracts.policy import GatePolicy
from agent_eval.contracts.reruns import Figures, Reruns
from agent_eval.gate.limits import figure_changes, figures_in_doubt
from agent_eval.gate.procedure import Counts


def run_of(costs: list[float | None], definition: str = "d") -> RunRecord:
    rows = {
        f"c{place}": CaseRecord(
            case_id=f"c{place}", definition=definition, passed=1, scored=1, cost_usd=cost, latency_ms=None
        )
        for place, cost in enumerate(costs)
    }
    facts = {"schema_version": "1.2.0", "dataset_id": "shop", "key": "k", "started_at": "2026-11-21T08:00Z"}
    return RunRecord(HistoryRun(run_id="run", cases=len(rows), **facts), rows)


def counts(factor: float, number: int = 20, spread: float = 0.1) -> Counts:
    source = Random(3)
    before = [source.lognormvariate(0, 1) for _ in range(number)]
    now = [cost * factor * source.lognormvariate(0, spread) for cost in before]
    return Counts(own=run_of(list(now)), baseline=run_of(list(before)))


def reruns(factor: float) -> Reruns:
    base = {f"c{place}": 1.0 for place in range(20)}
    change = {name: cost * factor * (1 + 0.01 * place) for place, (name, cost) in enumerate(base.items())}
    return Reruns(figures={"base": Figures(cost_usd=base), "change": Figures(cost_usd=change)})


LIMITED = GatePolicy(max_cost_increase=0.2)


@pytest.mark.parametrize(("factor", "answer"), [(1.0, "not-shown"), (1.3, "rose"), (0.7, "not-shown")])
def test_a_rise_is_said_where_chance_rarely_does_as_much(factor: float, answer: str) -> None:
    [change] = figure_changes(counts(factor), GatePolicy(), None, may_rerun=True)
    assert (change.name, change.answer, change.cases) == ("cost_usd", answer, 20)


def test_a_total_beyond_the_limit_is_no_rise_where_one_case_makes_it() -> None:
    before = [1.0] * 20
    now = [0.99] * 19 + [20.0]
    own = Counts(own=run_of(list(now)), baseline=run_of(list(before)))
    [change] = figure_changes(own, LIMITED, None, may_rerun=False)
    assert change.ratio > 1.2
    assert change.answer == "not-shown"


@pytest.mark.parametrize(
    ("record", "may_rerun", "answer"),
    [
        (None, True, "open"),
        (None, False, "breaks-limit"),
        (reruns(1.5), True, "breaks-limit"),
        (reruns(0.9), True, "rose"),
    ],
)
def test_a_limit_breaks_only_where_it_does_so_again_beside_the_base(
    record: Reruns | None, may_rerun: bool, answer: str
) -> None:
    [change] = figure_changes(counts(1.5), LIMITED, record, may_rerun=may_rerun)
    assert change.answer == answer
    assert figures_in_doubt(counts(1.5), LIMITED)


def test_within_the_limit_nothing_is_measured_again() -> None:
    assert not figures_in_doubt(counts(1.1), LIMITED)
    assert not figures_in_doubt(counts(1.5), GatePolicy())


def test_fewer_than_eight_cases_that_both_know_say_nothing() -> None:
    known = Counts(own=run_of([2.0] * 7 + [None]), baseline=run_of([1.0] * 8))
    assert figure_changes(known, LIMITED, None, may_rerun=False) == []
    redefined = Counts(own=run_of([2.0] * 8), baseline=run_of([1.0] * 8, "other"))
    assert figure_changes(redefined, LIMITED, None, may_rerun=False) == []
