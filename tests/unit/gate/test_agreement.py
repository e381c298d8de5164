"""The statistics of a judge against people: known values, and intervals that cover what they should."""

from __future__ import annotations

import random
from fractions import Fraction

import pytest

from agent_eval.gate.statistics import wilson
from agent_eval.operations.judge_agreement import Confusion, Labelled, confusion, kappa, may_block


def label(*, start: int = 0, **cells: int) -> list[Labelled]:
    """One labelled trial a case: `label(both_passed=3)`."""
    verdicts = {
        "both_passed": ("passed", "passed"), "wrongly_failed": ("passed", "failed"),
        "wrongly_passed": ("failed", "passed"), "both_failed": ("failed", "failed"),
    }  # fmt: skip
    found = [verdicts[name] for name, number in cells.items() for _ in range(number)]
    return [Labelled(f"c{start + number}", *verdict) for number, verdict in enumerate(found)]


def table(**cells: int) -> Confusion:
    return Confusion(*(Fraction(cells.get(name, 0)) for name in Confusion._fields))


# Two readers of 50 applications agree on 20 that pass and on 15 that fail.
TEXTBOOK = table(both_passed=20, wrongly_failed=5, wrongly_passed=10, both_failed=15)
KAPPAS = {
    "the textbook's": (TEXTBOOK, pytest.approx(0.4)), "nothing": (table(), None),
    "all passed": (table(both_passed=20), None), "all failed": (table(both_failed=3), None),
    "complete agreement": (table(both_passed=10, both_failed=10), 1.0),
    "complete disagreement": (table(wrongly_failed=10, wrongly_passed=10), -1.0),
}  # fmt: skip
"""It cannot be estimated where all verdicts are the same."""


@pytest.mark.parametrize(("cells", "expected"), KAPPAS.values(), ids=KAPPAS)
def test_kappa(cells: Confusion, expected: float | None):
    assert kappa(cells) == expected


@pytest.mark.parametrize(
    ("failed", "passed", "blocks"),
    [
        ((0, 30), (0, 30), True), ((3, 30), (3, 30), True), ((4, 30), (0, 30), False),
        ((0, 30), (4, 30), False), ((0, 29), (0, 30), False), ((0, 30), (0, 29), False),
        ((5, 50), (0, 30), True), ((5, 49), (0, 30), False), ((0, 30), (5, 50), True),
        ((0, 50), (5, 30), False), ((5, 30), (0, 50), False),
    ],
)  # fmt: skip
def test_a_criterion_blocks_by_thirty_cases_of_each_verdict_with_three_errors(
    failed: tuple[int, int], passed: tuple[int, int], blocks: bool
):
    labelled = label(
        both_passed=passed[1] - passed[0], wrongly_passed=passed[0], wrongly_failed=failed[0],
        both_failed=failed[1] - failed[0],
    )  # fmt: skip
    assert may_block(labelled) is blocks
    # More trials of the same cases are no further cases, and change nothing where they are alike.
    assert may_block(labelled * 10) is blocks


@pytest.mark.parametrize(("wrong", "blocks"), [(6, True), (7, False)])
def test_a_case_is_wrong_by_the_share_of_its_verdicts(wrong: int, blocks: bool):
    """30 cases of each verdict with two trials each; some of those judged failed are wrong in one of them."""
    labelled = label(both_failed=30, both_passed=30)
    second = label(wrongly_failed=wrong, both_failed=30 - wrong) + label(start=30, both_passed=30)
    cells = confusion(labelled + second, "failed")
    assert (cells.cases, cells.right) == (30, 30 - wrong / 2)
    assert may_block(labelled + second) is blocks


def test_a_case_with_both_verdicts_counts_for_each():
    labelled = [Labelled("a", "failed", "failed"), *[Labelled("a", "failed", "passed")] * 3]
    assert [confusion(labelled, verdict).cases for verdict in ("failed", "passed")] == [1, 1]
    assert confusion(labelled, "passed").right == 0
    assert (confusion(labelled).cases, float(confusion(labelled).right)) == (1, 0.25)


@pytest.mark.parametrize(("cases", "trials"), [(6, 10), (15, 4), (15, 20), (40, 4)])
@pytest.mark.parametrize("wrong", [0.05, 0.15, 0.3])
@pytest.mark.parametrize("alike", [0.0, 0.5, 1.0])
def test_intervals_cover_also_where_trials_are_alike(cases: int, trials: int, wrong: float, alike: float):
    rng = random.Random(5)
    intervals = []
    for _ in range(200):
        labelled = []
        for number in range(cases):
            own = rng.random() < wrong
            human = "passed" if rng.random() < 0.5 else "failed"
            for _ in range(trials):
                errs = own if rng.random() < alike**0.5 else rng.random() < wrong
                judge = human if not errs else "failed" if human == "passed" else "passed"
                labelled.append(Labelled(f"c{number}", human, judge))
        cells = confusion(labelled)
        intervals.append(wilson(cells.right, cells.cases))
    assert sum(each.low <= 1 - wrong <= each.high for each in intervals) / len(intervals) >= 0.89
