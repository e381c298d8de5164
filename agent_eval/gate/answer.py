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
from agent_eval.errors import InvalidInput
from agent_eval.gate.procedure import (
    ALONE_RUNS,
    ALPHA,
    BUDGET,
    NONE,
    PAIRS,
    ROUNDS,
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

OpenReason = Literal[
    "cut",
    "unjudged",
    "altered",
    "fails-on-both",
    "control-fails",
    "base-cannot-run",
    "no-base-agent",
    "not-rerun",
    "recorded",
]
"""Why a case is open: its reruns ended early; no judge could judge one; a side's set-up or agent altered
what the other, or it, runs; it passes in no rerun of the change, and the base does not either, does not run
here at all, cannot be built, or has no agent to run; it is beyond the budget, and the suite was not run
again; its recorded trials are too few to blame the change."""


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
        not_rerun: Cases beyond the budget that were not run again and are not reliable.
        suite: What the rounds of the whole suite say; None where none were asked for.
    """

    broken: frozenset[str] = frozenset()
    unsafe: frozenset[tuple[str, str]] = frozenset()
    open: Mapping[str, OpenReason]
    open_safety: frozenset[tuple[str, str]] = frozenset()
    on_main: frozenset[str] = frozenset()
    again: frozenset[str] = frozenset()
    not_rerun: frozenset[str] = frozenset()
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


def refuse_contradictions(record: Reruns) -> None:
    """Refuse a record of more than the procedure runs, as one that was not made by it.

    Raises:
        InvalidInput: A case is there twice or has too many reruns, or there are too many rounds.
    """
    for rows, most in ((record.safety, PAIRS + 1), ((*record.cases, *record.late), PAIRS)):
        if len({row.case_id for row in rows}) < len(rows):
            raise _contradiction("has a case twice")
        if any(len(side) > most for row in rows for side in (row.change, row.base)):
            raise _contradiction("has more reruns of a case than are made")
    if len(record.rounds) > ROUNDS:
        raise _contradiction("has more rounds than are run")


def _contradiction(why: str) -> InvalidInput:
    return InvalidInput(
        f"the record of reruns {why}", remedy="Give it as the job wrote it; it is never edited by hand."
    )


def tested(question: Question, record: Reruns) -> dict[str, Case]:
    """Cases that both sides ran again, with what these reruns counted; without those that nothing asked for.

    Where no base agent runs, main's runs take its place, if there are enough of them.
    """
    if _is_alone(record) and len(question.on_main) < ALONE_RUNS:
        return {}
    suspects = set(question.order)
    rows = (*record.cases, *record.late)
    return {row.case_id: counted(question, record, row.case_id) for row in rows if row.case_id in suspects}


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
        unjudged=any(_is_unjudged(trial, covered) for trial in (*change, *base)),
        alone=_is_alone(record),
    )


def _is_alone(record: Reruns) -> bool:
    """Whether there is no base agent by design, so that main's runs take its place."""
    return record.base_runs == "none" and record.base_problem is None


def _is_unjudged(trial: Rerun, covered: frozenset[str]) -> bool:
    return trial.result == "unjudged" and not (trial.unjudged and covered.issuperset(trial.unjudged))


def _count(trials: Iterable[Rerun], covered: frozenset[str]) -> Count:
    """Count the trials that were judged. One that no other judges failed than a waiver covers passes."""
    count = NONE
    for trial in trials:
        if not _is_unjudged(trial, covered):
            named = {*trial.failing, *trial.unjudged}
            is_covered = bool(named) and covered.issuperset(named)
            count += Count(int(trial.result == "passed" or is_covered), 1)
    return count


def blamed_cases(question: Question, record: Reruns) -> set[str]:
    """Cases that the change is blamed for, corrected for all that the job ran again."""
    return blamed(tested(question, record), others=(record.others.steady, record.others.others))


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
    beyond = question.order[budget(len(question.cases)) :]
    return [case_id for case_id in beyond if question.cases[case_id].is_reliable and case_id not in passed]


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
    judged, count = violation_trials(record, case_id, judge_id)
    verdict = violates(count, judged, seen_on_main=violation.seen > 0)
    if verdict is None:
        trials = sum(len(row.change) for row in record.safety if row.case_id == case_id)
        return "open" if record.cut or trials > judged + 1 else "waiting"
    return "blocks" if verdict else "did-not-repeat"


def violation_trials(record: Reruns | None, case_id: str, judge_id: str) -> tuple[int, int]:
    """Count the further trials of the change in which a safety judge could tell, and those that it failed."""
    rows = [row for row in record.safety if row.case_id == case_id] if record is not None else []
    judged = [trial for row in rows for trial in row.change if judge_id not in trial.unjudged]
    return len(judged), sum(judge_id in trial.failing for trial in judged)


def is_failed(question: Question, record: Reruns) -> bool:
    """Whether cases or safety judges blame the change, so that nothing else need be run."""
    states = (violation_state(question, record, *place) for place in question.violations)
    return len(blamed_cases(question, record)) > question.max_regressed or "blocks" in states


def needs_control(question: Question, record: Reruns) -> bool:
    """Whether a case used to pass reliably, passes in no rerun of the change, and is not its fault."""
    broken = blamed_cases(question, record)
    return any(case.never_passed for name, case in tested(question, record).items() if name not in broken)


def base_runs(record: Reruns) -> bool:
    """Whether the base's agent passes a case that the change passes too."""
    return any(trial.result == "passed" for row in record.control for trial in row.base)


def answer(question: Question, record: Reruns | None) -> Answer:
    """Say how the procedure ends for one suite.

    Args:
        question: What the first run asks.
        record: What was run again; None where nothing was, as with recorded traces.

    Raises:
        InvalidInput: The record is of more than the procedure runs.
    """
    if record is None or not question.may_rerun:
        return _of_recorded(replace(question, may_rerun=False))
    refuse_contradictions(record)
    order = [] if record.agent_unchanged else question.order
    number = len(question.cases)
    asked = {row.case_id for row in (*record.cases, *record.late)}
    broken = blamed_cases(question, record)
    late = set(late_cases(question, record)) if record.rounds else set()
    is_blamed = len(broken) > question.max_regressed
    open_: dict[str, OpenReason] = {}
    on_main: set[str] = set()
    for place, case_id in enumerate(order):
        case = counted(question, record, case_id)
        if case_id in broken:
            continue
        if place >= budget(number) and case_id not in late:
            if case.is_reliable and not record.rounds:
                open_[case_id] = "not-rerun"
            continue
        reason = _why_open(case, record)
        is_excused = case.fails_on_main or (record.base_runs == "isolated" and base_runs(record))
        if reason in _NEVER_PASSES and is_excused:
            on_main.add(case_id)
        elif reason is not None and not (reason == "cut" and is_blamed and case_id not in asked):
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
        again=frozenset(case_id for case_id in order if case_id in asked and case_id not in named),
        not_rerun=frozenset(case_id for case_id in order if case_id not in asked and case_id not in named),
        suite=_of_suite(question, record, is_failed=is_failed(question, record)),
        max_regressed=question.max_regressed,
    )


_NEVER_PASSES = ("fails-on-both", "control-fails", "base-cannot-run", "no-base-agent")


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
    if case.alone:
        return "no-base-agent"
    if not can_run:
        return "base-cannot-run"
    return "control-fails" if record.control and not base_runs(record) else "fails-on-both"


def _of_suite(question: Question, record: Reruns, *, is_failed: bool) -> SuiteState | None:
    """What the rounds say. Where the change alone ran, a run that is low again is open: no base says why."""
    if not question.is_low or record.agent_unchanged or (is_failed and not record.rounds):
        return None
    if _is_alone(record) and len(question.on_main) < LOW_ALONE_RUNS:
        return None
    if record.base_problem is not None or record.altered or not _are_whole(question, record):
        return "open"
    if _is_alone(record):
        return "open" if is_low_again(question, record) else "not-worse"
    state = suite_round(falls_of(record).values(), len(record.rounds), record.others.suites + 1)
    return "worse" if state == "worse" else "not-worse" if state == "done" else "open"


def _are_whole(question: Question, record: Reruns) -> bool:
    """Whether there are rounds, and each has every case that main knows, of both sides where a base runs."""
    known = {name for name, case in question.cases.items() if not case.is_new}
    sides = [done.change for done in record.rounds]
    sides += [] if _is_alone(record) else [done.base for done in record.rounds]
    return bool(record.rounds) and all(known <= side.keys() for side in sides)


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
    pairs = recorded_pairs(question)
    several = pairs.keys()
    broken = tarone({name: (known[name].now, known[name].main) for name in several}) if several else set()
    open_: dict[str, OpenReason] = {}
    on_main: set[str] = set()
    for name in question.order:
        case = known[name]
        is_flip = case.is_reliable and name not in several
        if case.cannot_tell or (case.is_reliable and not case.now.trials):
            open_[name] = "unjudged"
        elif case.is_reliable and case.fails_on_main:
            on_main.add(name)
        elif is_flip:
            broken.add(name)
        elif case.is_reliable and not case.now.passed and name not in broken:
            open_[name] = "recorded"
    broken -= on_main
    states = {place: violation_state(question, Reruns(), *place) for place in question.violations}
    suite: SuiteState = "worse" if recorded_chance(pairs) <= ALPHA else "not-worse"
    named = broken.union(open_, on_main)
    return Answer(
        broken=frozenset(broken),
        unsafe=frozenset(place for place, state in states.items() if state == "blocks"),
        open=open_,
        on_main=frozenset(on_main),
        again=frozenset(name for name in question.order if name not in named),
        suite=suite if several else None,
        max_regressed=question.max_regressed,
    )


def recorded_pairs(question: Question) -> dict[str, tuple[Count, Count]]:
    """Recorded trials of the baseline and of the run, by case, where both have several."""
    pairs = {
        name: (question.before.get(name, case.main), case.now)
        for name, case in sorted(question.cases.items())
    }
    return {name: pair for name, pair in pairs.items() if min(pair[0].trials, pair[1].trials) > 1}


def recorded_chance(pairs: Mapping[str, tuple[Count, Count]]) -> float:
    """The chance that recorded trials of a suite fall so far, if each case fell or rose by chance."""
    return sign_flip(
        before.passed * now.trials - now.passed * before.trials for before, now in pairs.values()
    )
