"""Run what the first run asks: the procedure's reruns, in its order, over all suites of a job.

Pure but for the `Runner`, which runs the trials: the job's, or a simulation's. The record that comes out says
what was run; what it means follows from it and the question alone (`gate.answer`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, Protocol

from agent_eval.contracts.reruns import CaseReruns, Figures, OtherSuites, Rerun, Reruns, Side, SuiteRound
from agent_eval.gate.answer import (
    blamed_cases,
    counted,
    falls_of,
    is_failed,
    late_cases,
    tested,
    violation_state,
)
from agent_eval.gate.procedure import (
    BUDGET,
    ENOUGH,
    LOW_ALONE_RUNS,
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


def rerun(
    questions: Mapping[str, Question],
    runner: Runner,
    base: BaseAgent,
    *,
    figures_in_doubt: frozenset[str] = frozenset(),
) -> dict[str, Reruns]:
    """Run again what the first runs of the suites of a job ask, by slug; the record of each.

    Suites whose figures are in doubt, as cost or time seems to break its limit, are run once more by both.
    """
    suites = {
        slug: _Suite(
            slug,
            question,
            Reruns(
                commit=question.seed,
                base_commit=base.commit,
                base_runs=base.runs,
                base_problem=base.problem,
                agent_unchanged=base.is_unchanged,
            ),
            runner,
        )
        for slug, question in questions.items()
    }
    live = [suite for suite in suites.values() if suite.question.may_rerun]
    try:
        for suite in live:
            suite.safety()
        if not base.is_unchanged:
            _decisive(live, base, figures_in_doubt)
        for suite in live:
            asks = suite.question
            if asks.has_baseline and asks.new and base.can_run and not base.is_unchanged:
                suite.once("base", asks.new[:BUDGET], suite.record.new)
    except Cut as cut:
        for suite in live:
            suite.record.cut = str(cut)
    for suite in live:
        suite.record.altered.update(runner.altered(suite.slug))
    _share_tests(list(suites.values()))
    return {slug: suite.record for slug, suite in suites.items()}


def _decisive(suites: Sequence[_Suite], base: BaseAgent, figures_in_doubt: frozenset[str]) -> None:
    """Run cases again and, unless the change is then to be blamed, whole suites and what may excuse it."""
    for suite in suites:
        suite.again(suite.question.order[: budget(len(suite.question.cases))], suite.record.cases)
    _share_tests(suites)
    failed = {suite.slug for suite in suites if is_failed(suite.question, suite.record)}
    if failed:
        for suite in suites:
            if suite.question.is_low and suite.slug not in failed:
                suite.record.cut = "another suite of this job fails, so that this one was not run again"
        return
    for suite in suites:
        if suite.question.is_low:
            suite.rounds(len(suites), base)
    _share_tests(suites)
    for suite in suites:
        if base.can_run:
            suite.control()
        if base.can_run and suite.slug in figures_in_doubt and not suite.record.figures:
            suite.record.figures.update(suite.runner.whole_suite(suite.slug, ("base", "change"))[1])


@dataclass(frozen=True)
class _Suite:
    slug: str
    question: Question
    record: Reruns
    runner: Runner

    def once(self, side: Side, case_ids: Sequence[str], into: list[CaseReruns]) -> None:
        """Run one trial of each case on one side."""
        results = self.runner.trials(self.slug, side, case_ids)
        if not results.keys() & set(case_ids):
            raise Cut("no trial could be run")
        rows = {row.case_id: row for row in into}
        for case_id in case_ids:
            if case_id in results:
                if case_id not in rows:
                    rows[case_id] = CaseReruns(case_id=case_id, change=[], base=[])
                    into.append(rows[case_id])
                (rows[case_id].base if side == "base" else rows[case_id].change).append(results[case_id])

    def safety(self) -> None:
        """Run cases with a new violation by the change alone until each judge is sure of it."""
        while True:
            waiting = {
                case_id: None
                for case_id, judge_id in self.question.violations
                if violation_state(self.question, self.record, case_id, judge_id) == "waiting"
            }
            if not waiting or len(waiting) > BUDGET:
                return
            self.once("change", list(waiting), self.record.safety)

    def again(self, case_ids: Sequence[str], into: list[CaseReruns]) -> None:
        """Run cases again by both in turn, the first few before the others, until each is answered."""
        number, most = len(self.question.cases), self.question.max_regressed
        first = max(ENOUGH, most + 1)
        for chunk in (case_ids[:first], case_ids[first:]):
            done = tested(self.question, self.record).values()
            if not chunk or is_enough(list(done), number, most):
                return
            while True:
                sides: dict[Side, list[str]] = {"base": [], "change": []}
                for case_id in chunk:
                    case = counted(self.question, self.record, case_id)
                    if (side := next_side(case, base_can_run=self.record.base_problem is None)) is not None:
                        sides[side].append(case_id)
                if not sides["base"] and not sides["change"]:
                    break
                for side, waiting in sides.items():
                    if waiting:
                        self.once(side, waiting, into)

    def rounds(self, suites: int, base: BaseAgent) -> None:
        """Run the whole suite again by both until that says something, then the cases it leaves open."""
        record = self.record
        if base.problem is not None or (not base.can_run and len(self.question.on_main) < LOW_ALONE_RUNS):
            return
        sides: tuple[Side, ...] = ("base", "change") if base.can_run else ("change",)
        verdict = "again"
        while verdict == "again":
            done, figures = self.runner.whole_suite(self.slug, sides)
            record.rounds.append(done)
            if base.can_run and not record.figures:
                record.figures.update(figures)
            verdict = suite_round(falls_of(record).values(), len(record.rounds), suites)
            verdict = verdict if base.can_run else "done"
        if verdict != "worse":
            self.again(late_cases(self.question, record), record.late)

    def control(self) -> None:
        """Run cases that the change passes by the base, where a case fails on both sides.

        Such a case used to pass reliably, passes in no rerun of the change, and is not its fault.
        """
        broken = blamed_cases(self.question, self.record)
        cases = tested(self.question, self.record)
        if not any(case.never_passed for name, case in cases.items() if name not in broken):
            return
        passing = [
            case_id
            for case_id, case in sorted(self.question.cases.items())
            if case.is_reliable and case.now.trials and case.now.passed == case.now.trials
        ]
        if passing:
            self.once("base", passing[:CONTROLS], self.record.control)


def _share_tests(suites: Sequence[_Suite]) -> None:
    """Tell each suite the p values of the others, with which its cases share one correction."""
    tests = [list(tested(suite.question, suite.record).values()) for suite in suites]
    for place, suite in enumerate(suites):
        elsewhere = [case for other, cases in enumerate(tests) if other != place for case in cases]
        suite.record.others = OtherSuites(
            suites=len(suites) - 1,
            steady=sorted(case.p_value for case in elsewhere if case.is_steady),
            others=sorted(case.p_value for case in elsewhere if not case.is_steady),
        )
