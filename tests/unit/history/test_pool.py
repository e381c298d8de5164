"""Which runs of a history are pooled, and which cases."""

from __future__ import annotations

import random

from agent_eval.contracts.history import RunRecord
from agent_eval.history.pool import pooled_runs
from tests.unit.history.made import made_case, made_run

IDS = [f"case-{number}" for number in range(10)]


def run(number: int, *, passed: int = 1, scored: int = 1, **fields: str) -> RunRecord:
    return made_run(number, dict.fromkeys(IDS, (passed, scored)), **fields)


def pooled_ids(own: RunRecord, earlier: list[RunRecord], most: int = 20) -> list[str]:
    pool = pooled_runs(own, earlier, IDS, most)
    return list(pool.run_ids) if pool is not None else []


def newest_first(total: int) -> list[RunRecord]:
    return [run(number) for number in range(total)][::-1]


def test_runs_are_pooled_until_each_case_has_twenty_trials() -> None:
    assert len(pooled_ids(run(99), newest_first(30))) == 20
    with_four = [run(number, passed=4, scored=4) for number in range(30)][::-1]
    newest_eight = [f"ci-{number}" for number in range(29, 21, -1)]
    assert pooled_ids(run(99, passed=4, scored=4), with_four) == newest_eight


def test_no_more_runs_are_pooled_than_asked_for() -> None:
    assert pooled_ids(run(99), newest_first(30), most=6) == [f"ci-{number}" for number in range(29, 23, -1)]


def test_fewer_than_four_runs_are_no_pool() -> None:
    assert pooled_ids(run(99), newest_first(3)) == []
    assert len(pooled_ids(run(99), newest_first(4))) == 4


def test_runs_of_another_key_and_the_run_itself_are_not_pooled() -> None:
    earlier = [run(9, key="other"), run(8), *newest_first(4)]
    assert pooled_ids(run(8), earlier) == ["ci-3", "ci-2", "ci-1", "ci-0"]


def test_runs_that_failed_are_pooled() -> None:
    earlier = [run(5, passed=0), *newest_first(4)]
    assert pooled_ids(run(99), earlier)[0] == "ci-5"


def test_a_run_of_a_part_of_the_suite_is_not_pooled() -> None:
    part = made_run(5, dict.fromkeys(IDS[:5], (1, 1)))
    assert "ci-5" not in pooled_ids(run(99), [part, *newest_first(4)])


def test_a_case_that_is_new_or_was_not_scored_is_left_out_of_the_pool() -> None:
    earlier = newest_first(5)
    del earlier[0].cases["case-3"]
    pool = pooled_runs(run(99), earlier, IDS, 20)
    assert pool is not None
    assert sorted(pool.cases) == [case_id for case_id in IDS if case_id != "case-3"]
    assert all(len(case.runs) == 5 for case in pool.cases.values())


def test_a_run_that_would_leave_less_than_nine_tenths_of_the_cases_is_skipped() -> None:
    earlier = newest_first(6)
    del earlier[0].cases["case-3"]
    del earlier[1].cases["case-4"]
    pool = pooled_runs(run(99), earlier, IDS, 20)
    assert pool is not None
    assert pool.run_ids == ("ci-5", "ci-3", "ci-2", "ci-1", "ci-0")
    assert "case-3" not in pool.cases


def test_a_pool_that_lacks_more_than_a_tenth_of_the_cases_is_none() -> None:
    earlier = newest_first(6)
    for record in earlier:
        del record.cases["case-3"], record.cases["case-4"]
    assert pooled_runs(run(99), earlier, IDS, 20) is None


def test_runs_that_lost_one_trial_in_a_hundred_still_make_a_pool() -> None:
    ids = [f"case-{number:03}" for number in range(100)]
    source = random.Random(7)

    def with_losses(number: int) -> RunRecord:
        return made_run(number, {case_id: (1, 1) for case_id in ids if source.random() > 0.01})

    earlier = [with_losses(number) for number in range(60)][::-1]
    pool = pooled_runs(made_run(99, dict.fromkeys(ids, (1, 1))), earlier, ids, 20)
    assert pool is not None
    assert len(pool.run_ids) >= 8
    assert len(pool.cases) >= 90


def test_counts_of_another_definition_are_not_pooled() -> None:
    earlier = newest_first(5)
    for record in earlier:
        record.cases["case-3"] = made_case("case-3", 1, 1, definition="cd" * 6)
    pool = pooled_runs(run(99), earlier, IDS, 20)
    assert pool is not None
    assert "case-3" not in pool.cases
