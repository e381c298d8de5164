"""What the reruns of a suite mean: which cases broke, what is open, and how the procedure ends.

Pure functions of a question and of the record of what was run. Nothing here is taken from what a record says
of itself but counts: a case is open where its reruns are not complete, whatever is said to have ended them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Literal

from agent_eval.contracts.reruns import Rerun, Reruns
from agent_eval.gate.procedure import (
    ALONE_RUNS,
    ALPHA,
    BUDGET,
    NONE,
    Case,
    Count,
    Question,
    blamed,
    budget,
    next_side,
    sign_flip,
    suite_round,
    tarone,
    violates,
)

ViolationState = Literal["blocks", "did-not-repeat", "known-on-main", "open", "waiting"]

SuiteState = Literal["worse", "not-worse", "open"]

LOW_ALONE_RUNS = 10
"""Runs of main from which a low run of a change without a base agent is run once more: by exchangeability
both are below ten runs of main in 1 of 66 unchanged changes, below twenty in 1 of 231."""

OpenReason = Literal["cut", "unjudged", "altered", "fails-on-both", "base-cannot-run", "not-rerun"]
"""Why a case is open: its reruns ended early; no judge could judge one; a side's set-up or agent altered what
the other, or it, runs; it passes on neither side; it does not pass, and the base cannot be run; it is beyond
the budget, and the suite was not run again."""


@dataclass(frozen=True, kw_only=True)
class Answer:
    """How the procedure ends for one suite.

    Attributes:
        broken: Cases that the change is blamed for.
        unsafe: Cases and safety judges whose violation blocks.
        open: Cases that are not settled, with why.
        open_safety: Cases and safety judges of which reruns could not tell.
        on_main: Cases that fail on main as well.
        again: Cases that newly failed and are none of these.
        left: Cases beyond the budget that were not run again and are not reliable.
        suite: What the rounds of the whole suite say; None where none were asked for.
    """

    broken: frozenset[str] = frozenset()
    unsafe: frozenset[tuple[str, str]] = frozenset()
    open: Mapping[str, OpenReason]
    open_safety: frozenset[tuple[str, str]] = frozenset()
    on_main: frozenset[str] = frozenset()
    again: frozenset[str] = frozenset()
    left: frozenset[str] = frozenset()
    suite: SuiteState | None = None
    max_regressed: int = 0

    @property
    def failed(self) -> bool:
        """Whether the change is to be blamed."""
        return len(self.broken) > self.max_regressed or bool(self.unsafe) or self.suite == "worse"

    @property
    def is_open(self) -> bool:
        """Whether something that used to hold is not settled."""
        return bool(self.open or self.open_safety) or self.suite == "open"


def asked(record: Reruns) -> list[str]:
    """Ids of the cases that both sides ran again."""
    return [row.case_id for row in (*record.cases, *record.late)]


def counted(question: Question, record: Reruns, case_id: str) -> Case:
    """Count the reruns of a case. What a waiver covers fails no trial; an altered side has no trials."""
    rows = [row for row in (*record.cases, *record.late) if row.case_id == case_id]
    covered = question.covered.get(case_id, frozenset())
    change = [trial for row in rows for trial in row.change] if "change" not in record.altered else []
    base = [trial for row in rows for trial in row.base] if "base" not in record.altered else []
    return replace(
        question.cases[case_id],
        change=_count(change, covered),
        base=_count(base, covered),
        unjudged=any(trial.result == "unjudged" for trial in (*change, *base)),
        alone=_is_alone(record),
    )


def _is_alone(record: Reruns) -> bool:
    """Whether there is no base agent by design, so that main's runs take its place."""
    return record.base_runs == "none" and record.base_problem is None


def _count(trials: Iterable[Rerun], covered: frozenset[str]) -> Count:
    count = NONE
    for trial in trials:
        if trial.result != "unjudged":
            is_covered = bool(trial.failing) and covered.issuperset(trial.failing) and not trial.unjudged
            count += Count(int(trial.result == "passed" or is_covered), 1)
    return count


def blamed_cases(question: Question, record: Reruns) -> set[str]:
    """Cases that the change is blamed for, corrected for all that the job ran again."""
    cases = {
        case_id: counted(question, record, case_id) for case_id in asked(record) if case_id in question.cases
    }
    if _is_alone(record):
        cases = {name: case for name, case in cases.items() if len(question.on_main) >= ALONE_RUNS}
    return blamed(cases, others=(record.others.steady, record.others.others))


def falls_of(record: Reruns) -> dict[str, int]:
    """Passes of the base less those of the change, by case, over all rounds."""
    falls: dict[str, int] = {}
    for done in record.rounds:
        for case_id in done.base.keys() & done.change.keys():
            base, change = done.base[case_id], done.change[case_id]
            # With unequal numbers of judged trials, one passed on the side that has more says nothing.
            most = min(base.trials, change.trials)
            falls[case_id] = falls.get(case_id, 0) + min(base.passed, most) - min(change.passed, most)
    return falls


def late_cases(question: Question, record: Reruns) -> list[str]:
    """Reliable cases beyond the budget that the change passed in none of the rounds."""
    passed = {case_id for done in record.rounds for case_id, count in done.change.items() if count.passed}
    left = question.order[budget(len(question.cases)) :]
    return [case_id for case_id in left if question.cases[case_id].is_reliable and case_id not in passed]


def violation_state(question: Question, record: Reruns, case_id: str, judge_id: str) -> ViolationState:
    """What becomes of a violation; `waiting` where its reruns do not tell yet."""
    violation = question.violations[case_id, judge_id]
    if violation.is_known:
        return "known-on-main"
    pending = [place for place, other in question.violations.items() if not (other.at_once or other.is_known)]
    if violation.at_once or not question.may_rerun or len({place[0] for place in pending}) > BUDGET:
        return "blocks"
    if "change" in record.altered:
        return "open"
    trials = [trial for row in record.safety if row.case_id == case_id for trial in row.change]
    told = [trial for trial in trials if judge_id not in trial.unjudged]
    count = sum(judge_id in trial.failing for trial in told)
    verdict = violates(count, len(told), seen_on_main=violation.seen > 0)
    if verdict is None:
        return "open" if record.cut or len(trials) > len(told) + 1 else "waiting"
    return "blocks" if verdict else "did-not-repeat"


def needs_control(question: Question, record: Reruns) -> bool:
    """Whether a case used to pass reliably, passes in no rerun of the change, and is not its fault."""
    not_its = set(asked(record)) - blamed_cases(question, record)
    return any(counted(question, record, case_id).never_passed for case_id in not_its)


def base_runs(record: Reruns) -> bool:
    """Whether the base's agent passes a case that the change passes too."""
    return any(trial.result == "passed" for row in record.control for trial in row.base)


def answer(question: Question, record: Reruns | None) -> Answer:
    """Say how the procedure ends for one suite.

    Args:
        question: What the first run asks.
        record: What was run again; None where nothing was, as with recorded traces.
    """
    if record is None or not question.may_rerun:
        return _of_recorded(question)
    order = question.order
    number = len(question.cases)
    again = [
        case_id for case_id in order if case_id in {row.case_id for row in (*record.cases, *record.late)}
    ]
    cases = {case_id: counted(question, record, case_id) for case_id in again}
    broken = blamed_cases(question, record)
    unchanged = record.agent_unchanged
    is_failed = len(broken) > question.max_regressed
    isolated = record.base_runs == "isolated" and base_runs(record)
    open_: dict[str, OpenReason] = {}
    on_main: set[str] = set()
    late = set(late_cases(question, record))
    for place, case_id in enumerate(order):
        if case_id in broken or unchanged:
            continue
        case = cases.get(case_id, question.cases[case_id])
        is_due = place < budget(number) or (bool(record.rounds) and case_id in late)
        if not is_due:
            if case.is_reliable and not record.rounds:
                open_[case_id] = "not-rerun"
            continue
        reason = _why_open(case, record)
        if reason is None and not case.never_passed:
            continue
        if case.never_passed and (question.cases[case_id].fails_on_main or isolated):
            on_main.add(case_id)
        elif reason is not None and not (reason == "cut" and is_failed):
            # Once enough cases are confirmed, no other is run again.
            open_[case_id] = reason
    states = {place: violation_state(question, record, *place) for place in question.violations}
    named = broken.union(open_, on_main)
    return Answer(
        broken=frozenset(broken),
        unsafe=frozenset(place for place, state in states.items() if state == "blocks"),
        open=open_,
        open_safety=frozenset(place for place, state in states.items() if state in ("open", "waiting")),
        on_main=frozenset(on_main),
        again=frozenset(case_id for case_id in again if case_id not in named),
        left=frozenset(case_id for case_id in order if case_id not in named and case_id not in cases),
        suite=_of_suite(question, record, is_failed=is_failed),
        max_regressed=question.max_regressed,
    )


def _why_open(case: Case, record: Reruns) -> OpenReason | None:
    """Why a case that is due is not settled; None where it is."""
    if record.altered and not case.change.passed:
        return "altered"
    if case.unjudged:
        return "unjudged"
    can_run = record.base_problem is None
    if next_side(case, base_can_run=can_run) is not None:
        return "cut"
    if not case.never_passed:
        return None
    return "fails-on-both" if can_run and not case.alone else "base-cannot-run"


def _of_suite(question: Question, record: Reruns, *, is_failed: bool) -> SuiteState | None:
    """What the rounds say. Where the change alone ran, a run that is low again is open: no base says why."""
    if not question.is_low or record.agent_unchanged or (is_failed and not record.rounds):
        return None
    if record.base_runs == "none" or record.base_problem is not None:
        if len(question.on_main) < LOW_ALONE_RUNS:
            return None
        return "open" if not record.rounds or is_low_again(question, record) else "not-worse"
    if not record.rounds or record.altered:
        return "open"
    said = suite_round(falls_of(record).values(), len(record.rounds), record.others.suites + 1)
    return "worse" if said == "worse" else "not-worse" if said == "done" else "open"


def is_low_again(question: Question, record: Reruns) -> bool:
    """Whether the change's last round is below every one of main's last runs too."""
    shares = {
        name: Count(count.passed, count.trials).share for name, count in record.rounds[-1].change.items()
    }
    total = sum((shares.get(case_id) or Fraction(0) for case_id in question.common), Fraction(0))
    return total < min(question.on_main)


def _of_recorded(question: Question) -> Answer:
    """Nothing can be run again: an exact test of several trials; of one, a flip of a reliable case."""
    known = {name: case for name, case in question.cases.items() if not case.is_new}
    before = {name: question.before.get(name, case.main) for name, case in known.items()}
    several = any(case.now.trials > 1 for case in known.values()) and any(
        c.trials > 1 for c in before.values()
    )
    suite: SuiteState | None = None
    if several:
        tests = {name: (case.now, case.main) for name, case in known.items() if case.now.trials}
        broken = tarone(tests) if tests else set()
        falls = [
            before[name].passed * case.now.trials - case.now.passed * before[name].trials
            for name, case in known.items()
        ]
        suite = "worse" if sign_flip(falls) <= ALPHA else "not-worse"
    else:
        broken = {name for name in question.order if known[name].is_reliable and known[name].now.trials}
    unjudged = {name for name, case in known.items() if case.is_reliable and not case.now.trials}
    states = {place: violation_state(question, Reruns(), *place) for place in question.violations}
    return Answer(
        broken=frozenset(broken),
        unsafe=frozenset(place for place, state in states.items() if state == "blocks"),
        open=dict.fromkeys(sorted(unjudged), "unjudged"),
        again=frozenset(question.order) - broken - unjudged,
        suite=suite,
        max_regressed=question.max_regressed,
    )
