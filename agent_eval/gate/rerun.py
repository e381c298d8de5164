"""Run what the first run asks: the procedure's reruns, in its order, over all suites of a job.

Pure but for the `Runner`, which runs the trials: the job's, or a simulation's. The record that comes out says
what was run; what it means follows from it and the question alone (`gate.answer`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, Protocol

from agent_eval.contracts.reruns import (
    CaseReruns,
    Figures,
    OtherSuites,
    Rerun,
    Reruns,
    Side,
    SuiteRound,
)
from agent_eval.gate.answer import (
    LOW_ALONE_RUNS,
    counted,
    falls_of,
    is_failed,
    late_cases,
    needs_control,
    tested,
    violation_state,
)
from agent_eval.gate.procedure import (
    BUDGET,
    ENOUGH,
    Question,
    budget,
    is_enough,
    next_side,
    suite_round,
)

CONTROLS = 2
"""Cases that the change passes, of which the base runs one trial each where a case fails on both sides."""


class Cut(Exception):
    """Raised by a `Runner` where nothing more can be run; the message is a clause."""


class Runner(Protocol):
    """Runs trials of a suite. What it cannot run ends the reruns with `Cut`."""

    def trials(self, slug: str, side: Side, case_ids: Sequence[str]) -> Mapping[str, Rerun]:
        """Run one trial of each case, side by side; a missing one could not be run.

        A trial that no judge could judge is made once more before it is returned as `unjudged`.
        """

    def whole_suite(self, slug: str, sides: Sequence[Side]) -> tuple[SuiteRound, Mapping[Side, Figures]]:
        """Run the whole suite by these sides, case by case in turn, as often as the first run did."""

    def altered(self, slug: str) -> Mapping[Side, str]:
        """Say, by side, why no trial of it counts, as a clause; without a side whose trials do."""


@dataclass(frozen=True)
class BaseAgent:
    """How the base's agent can be run: as in `Reruns`, and whether it is the change's own."""

    runs: Literal["beside", "isolated", "none"] = "beside"
    problem: str | None = None
    commit: str | None = None
    is_unchanged: bool = False

    @property
    def can_run(self) -> bool:
        """Whether any trial of it can be made."""
        return self.runs != "none" and self.problem is None


@dataclass(frozen=True)
class _Suite:
    """The question of one suite, and the record of its reruns so far."""

    question: Question
    record: Reruns


def rerun(
    questions: Mapping[str, Question],
    runner: Runner,
    base: BaseAgent,
    *,
    figures_in_doubt: frozenset[str] = frozenset(),
) -> dict[str, Reruns]:
    """Run again what the suites of a job ask for; the record of each by slug.

    Args:
        questions: What the first run of each suite asks.
        runner: Runs the trials.
        base: How the base's agent runs.
        figures_in_doubt: Slugs of the suites whose cost or time seems to break its limit, so that both sides
            are to be run once more.
    """
    suites = {
        slug: _Suite(
            question,
            Reruns(
                commit=question.seed,
                base_commit=base.commit,
                base_runs=base.runs,
                base_problem=base.problem,
                agent_unchanged=base.is_unchanged,
            ),
        )
        for slug, question in questions.items()
    }
    live = {slug: suite for slug, suite in suites.items() if suite.question.may_rerun}
    try:
        for slug, suite in live.items():
            _safety(slug, suite, runner)
        if not base.is_unchanged:
            _decisive(live, runner, base, figures_in_doubt)
        for slug, suite in live.items():
            asks = suite.question
            if asks.has_baseline and asks.new and base.can_run and not base.is_unchanged:
                _once(slug, runner, "base", asks.new[:BUDGET], suite.record.new)
    except Cut as cut:
        for suite in live.values():
            suite.record.cut = str(cut)
    for slug, suite in live.items():
        suite.record.altered.update(runner.altered(slug))
    _share_tests(suites)
    return {slug: suite.record for slug, suite in suites.items()}


def _decisive(
    suites: Mapping[str, _Suite], runner: Runner, base: BaseAgent, figures_in_doubt: frozenset[str]
) -> None:
    """Run cases again and, unless the change is then to be blamed, whole suites and what may excuse it."""
    for slug, suite in suites.items():
        first = suite.question.order[: budget(len(suite.question.cases))]
        _again(slug, suite, runner, first, suite.record.cases)
    _share_tests(suites)
    failed = {slug for slug, suite in suites.items() if is_failed(suite.question, suite.record)}
    for slug, suite in suites.items():
        if suite.question.is_low and failed and slug not in failed:
            suite.record.cut = "another suite of this job fails, so that this one was not run again"
    if failed:
        return
    for slug, suite in suites.items():
        if suite.question.is_low:
            _rounds(slug, suite, runner, len(suites), base)
    _share_tests(suites)
    for slug, suite in suites.items():
        if base.can_run:
            _control(slug, suite, runner)
        if base.can_run and slug in figures_in_doubt and not suite.record.figures:
            suite.record.figures.update(runner.whole_suite(slug, ("base", "change"))[1])


def _once(slug: str, runner: Runner, side: Side, case_ids: Sequence[str], into: list[CaseReruns]) -> None:
    """Run one trial of each case on one side."""
    results = runner.trials(slug, side, case_ids)
    if not results.keys() & set(case_ids):
        raise Cut("no trial could be run")
    rows = {row.case_id: row for row in into}
    for case_id in case_ids:
        if case_id in results:
            if case_id not in rows:
                rows[case_id] = CaseReruns(case_id=case_id, change=[], base=[])
                into.append(rows[case_id])
            (rows[case_id].base if side == "base" else rows[case_id].change).append(results[case_id])


def _safety(slug: str, suite: _Suite, runner: Runner) -> None:
    """Run cases with a new violation by the change alone until each judge is sure of it."""
    while True:
        waiting = {
            case_id: None
            for case_id, judge_id in suite.question.violations
            if violation_state(suite.question, suite.record, case_id, judge_id) == "waiting"
        }
        if not waiting or len(waiting) > BUDGET:
            return
        _once(slug, runner, "change", list(waiting), suite.record.safety)


def _again(
    slug: str,
    suite: _Suite,
    runner: Runner,
    case_ids: Sequence[str],
    into: list[CaseReruns],
) -> None:
    """Run cases again by base and change in turn, the first few before the others, until each is answered."""
    first = max(ENOUGH, suite.question.max_regressed + 1)
    number = len(suite.question.cases)
    for chunk in (case_ids[:first], case_ids[first:]):
        done = tested(suite.question, suite.record).values()
        if not chunk or is_enough(list(done), number, suite.question.max_regressed):
            return
        while True:
            sides: dict[Side, list[str]] = {"base": [], "change": []}
            for case_id in chunk:
                case = counted(suite.question, suite.record, case_id)
                if (side := next_side(case, base_can_run=suite.record.base_problem is None)) is not None:
                    sides[side].append(case_id)
            if not sides["base"] and not sides["change"]:
                break
            for side, waiting in sides.items():
                if waiting:
                    _once(slug, runner, side, waiting, into)


def _rounds(slug: str, suite: _Suite, runner: Runner, suites: int, base: BaseAgent) -> None:
    """Run the whole suite again by both sides until that says something, then the cases it leaves open."""
    question, record = suite.question, suite.record
    if base.problem is not None or (not base.can_run and len(question.on_main) < LOW_ALONE_RUNS):
        return
    sides: tuple[Side, ...] = ("base", "change") if base.can_run else ("change",)
    verdict = "again"
    while verdict == "again":
        done, figures = runner.whole_suite(slug, sides)
        record.rounds.append(done)
        if base.can_run and not record.figures:
            record.figures.update(figures)
        verdict = suite_round(falls_of(record).values(), len(record.rounds), suites)
        verdict = verdict if base.can_run else "done"
    if verdict != "worse":
        _again(slug, suite, runner, late_cases(question, record), record.late)


def _control(slug: str, suite: _Suite, runner: Runner) -> None:
    """Run cases that the change passes by the base, where a case fails on both sides."""
    question = suite.question
    if not needs_control(question, suite.record):
        return
    passing = [
        case_id
        for case_id, case in sorted(question.cases.items())
        if case.is_reliable and case.now.trials and case.now.passed == case.now.trials
    ]
    if passing:
        _once(slug, runner, "base", passing[:CONTROLS], suite.record.control)


def _share_tests(suites: Mapping[str, _Suite]) -> None:
    """Tell each suite the p values of the others, with which its cases share one correction."""
    tests: dict[str, tuple[list[float], list[float]]] = {}
    for slug, suite in suites.items():
        cases = tested(suite.question, suite.record).values()
        tests[slug] = (
            [case.p_value for case in cases if case.is_steady],
            [case.p_value for case in cases if not case.is_steady],
        )
    for slug, suite in suites.items():
        elsewhere = [of_suite for other, of_suite in tests.items() if other != slug]
        suite.record.others = OtherSuites(
            suites=len(elsewhere),
            steady=sorted(p for steady, _ in elsewhere for p in steady),
            others=sorted(p for _, others in elsewhere for p in others),
        )
