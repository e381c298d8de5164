"""What the reruns of a suite mean: which cases broke, what is open, and how the procedure ends.

Pure functions of a question and of the record of what was run. Nothing here is taken from what a record says
of itself but counts: a case is open where its reruns are not complete, whatever is said to have ended them.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import Literal, NamedTuple, get_args

from agent_eval.contracts import Comparison
from agent_eval.contracts.policy import GatePolicy
from agent_eval.contracts.reruns import CaseReruns, Rerun, Reruns
from agent_eval.errors import InvalidInput
from agent_eval.gate.procedure import (
    ALONE_RUNS,
    ALPHA,
    BUDGET,
    LOW_ALONE_RUNS,
    PAIRS,
    ROUNDS,
    Case,
    Counts,
    Question,
    blamed,
    budget,
    next_side,
    suite_round,
    violates,
)
from agent_eval.gate.statistics import Count, sign_flip, tarone

ViolationState = Literal["blocks", "did-not-repeat", "known-on-main", "open", "waiting"]

SuiteState = Literal["worse", "not-worse", "open"]

NeverPasses = Literal["fails-on-both", "control-fails", "base-cannot-run", "no-base-agent"]
"""It passes in no rerun of the change, and the base does not either, does not run here at all, cannot be
built, or has no agent to run."""

OpenReason = Literal["cut", "unjudged", "altered", "not-rerun", "recorded"] | NeverPasses
"""Why a case is open: its reruns ended early; no judge could judge one; a side's set-up or agent altered
what the other, or it, runs; it is beyond the budget, and the suite was not run again; its recorded trials are
too few to blame the change; or it never passes."""


@dataclass(frozen=True, kw_only=True)
class Answer:
    """How the procedure ends for one suite.

    Attributes:
        broken: Cases that the change is blamed for.
        unsafe: Cases and safety judges whose violation blocks; `open_safety`: of which reruns could not tell.
        open: Cases that are not settled, with why.
        on_main: Cases that fail on main as well.
        again: Cases that newly failed and are none of these; `not_rerun`: those that were not run again.
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


def answer(question: Question, record: Reruns | None) -> Answer:
    """Say how the procedure ends for one suite; without a record where nothing was run again.

    Raises `InvalidInput` where the record is of more than the procedure runs.
    """
    if record is None or not question.may_rerun:
        question, record = replace(question, may_rerun=False), Reruns()
        ends, order, asked = _of_recorded(question), question.order, set(question.order)
        pairs = recorded_pairs(question)
        suite: SuiteState | None = "worse" if recorded_chance(pairs) <= ALPHA else "not-worse"
        suite = suite if pairs else None
    else:
        why = "has more rounds than are run" if len(record.rounds) > ROUNDS else None
        for rows, most in ((record.safety, PAIRS + 1), (_reruns(record), PAIRS)):
            if any(len(side) > most for row in rows for side in (row.change, row.base)):
                why = "has more reruns of a case than are made"
            if len({row.case_id for row in rows}) < len(rows):
                why = "has a case twice"
        if why is not None:
            remedy = "Give it as the job wrote it; it is never edited by hand."
            raise InvalidInput(f"the record of reruns {why}", remedy=remedy)
        order = [] if record.agent_unchanged else question.order
        asked = {row.case_id for row in _reruns(record)}
        ends, suite = _of_reruns(question, record, order), _of_suite(question, record)
    states = {place: violation_state(question, record, *place) for place in question.violations}
    rest = [case_id for case_id in order if case_id not in ends.broken.union(ends.open, ends.on_main)]
    return Answer(
        broken=frozenset(ends.broken),
        unsafe=frozenset(place for place, state in states.items() if state == "blocks"),
        open=ends.open,
        open_safety=frozenset(place for place, state in states.items() if state in ("open", "waiting")),
        on_main=frozenset(ends.on_main),
        again=frozenset(asked.intersection(rest)),
        not_rerun=frozenset(rest) - asked,
        suite=suite,
        max_regressed=question.max_regressed,
    )


class _Ends(NamedTuple):
    broken: set[str]
    open: dict[str, OpenReason]
    on_main: set[str]


def _of_reruns(question: Question, record: Reruns, order: Sequence[str]) -> _Ends:
    ends = _Ends(blamed_cases(question, record), {}, set())
    asked = {row.case_id for row in _reruns(record)}
    late = set(late_cases(question, record)) if record.rounds else set()
    for place, case_id in enumerate(order):
        case = counted(question, record, case_id)
        if case_id in ends.broken:
            continue
        is_enough = len(ends.broken) > question.max_regressed
        if place >= budget(len(question.cases)) and case_id not in late:
            if case.is_reliable and not record.rounds and not is_enough:
                ends.open[case_id] = "not-rerun"
            continue
        reason = _why_open(case, record)
        is_excused = case.fails_on_main or (record.base_runs == "isolated" and _base_runs(record))
        # Once enough cases are confirmed, no other is run again.
        is_left = reason == "cut" and is_enough and case_id not in asked
        if reason in get_args(NeverPasses) and is_excused:
            ends.on_main.add(case_id)
        elif reason is not None and not is_left:
            ends.open[case_id] = reason
    return ends


def _of_recorded(question: Question) -> _Ends:
    """Nothing can be run again: an exact test of several trials; of one, a flip of a reliable case."""
    pairs = recorded_pairs(question)
    counts = {name: (question.cases[name].now, question.cases[name].main) for name in pairs}
    ends = _Ends(tarone(counts, ALPHA), {}, set())
    for name in question.order:
        case = question.cases[name]
        if case.cannot_tell or (case.is_reliable and not case.now.trials):
            ends.open[name] = "unjudged"
        elif case.is_reliable and case.fails_on_main:
            ends.on_main.add(name)
        elif case.is_reliable and name not in pairs:
            ends.broken.add(name)
        elif case.is_reliable and not case.now.passed and name not in ends.broken:
            ends.open[name] = "recorded"
    return ends._replace(broken=ends.broken - ends.on_main)


def _reruns(record: Reruns) -> list[CaseReruns]:
    return [*record.cases, *record.late]


def _is_alone(record: Reruns) -> bool:
    """Whether there is no base agent by design, so that main's runs take its place."""
    return record.base_runs == "none" and record.base_problem is None


def tested(question: Question, record: Reruns) -> dict[str, Case]:
    """Cases that both sides ran again, with what these reruns counted; without those that nothing asked for.

    Where no base agent runs, main's runs take its place, if there are enough of them.
    """
    if _is_alone(record) and len(question.on_main) < ALONE_RUNS:
        return {}
    suspects = set(question.order)
    names = [row.case_id for row in _reruns(record) if row.case_id in suspects]
    return {name: counted(question, record, name) for name in names}


def counted(question: Question, record: Reruns | None, case_id: str) -> Case:
    """Count the reruns of a case. What a waiver covers fails no trial; an altered side has no trials."""
    case = question.cases[case_id]
    if record is None:
        return case
    rows = [row for row in _reruns(record) if row.case_id == case_id]
    covered = question.covered.get(case_id, frozenset())
    change = [trial for row in rows for trial in row.change] if "change" not in record.altered else []
    base = [trial for row in rows for trial in row.base] if "base" not in record.altered else []
    return replace(
        case,
        change=_count(change, covered),
        base=_count(base, covered),
        unjudged=any(_is_unjudged(trial, covered) for trial in (*change, *base)),
        alone=_is_alone(record),
    )


def _is_unjudged(trial: Rerun, covered: frozenset[str]) -> bool:
    return trial.result == "unjudged" and not (trial.unjudged and covered.issuperset(trial.unjudged))


def _count(trials: Iterable[Rerun], covered: frozenset[str]) -> Count:
    """Count the trials that were judged. One that no other judges failed than a waiver covers passes."""
    judged = [trial for trial in trials if not _is_unjudged(trial, covered)]
    named = [{*trial.failing, *trial.unjudged} for trial in judged]
    passes = (
        trial.result == "passed" or (bool(of) and of <= covered)
        for trial, of in zip(judged, named, strict=True)
    )
    return Count(sum(passes), len(judged))


def blamed_cases(question: Question, record: Reruns) -> set[str]:
    """Cases that the change is blamed for, corrected for all that the job ran again."""
    return blamed(tested(question, record), others=(record.others.steady, record.others.others))


def late_cases(question: Question, record: Reruns) -> list[str]:
    """Reliable cases beyond the budget that the change passed in none of the rounds."""
    passed = {case_id for done in record.rounds for case_id, count in done.change.items() if count.passed}
    beyond = question.order[budget(len(question.cases)) :]
    return [case_id for case_id in beyond if question.cases[case_id].is_reliable and case_id not in passed]


def is_failed(question: Question, record: Reruns) -> bool:
    """Whether cases or safety judges blame the change, so that nothing else need be run."""
    states = (violation_state(question, record, *place) for place in question.violations)
    return len(blamed_cases(question, record)) > question.max_regressed or "blocks" in states


def _base_runs(record: Reruns) -> bool:
    """Whether the base's agent passes a case that the change passes too."""
    return any(trial.result == "passed" for row in record.control for trial in row.base)


def _why_open(case: Case, record: Reruns) -> OpenReason | None:
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
    return "control-fails" if record.control and not _base_runs(record) else "fails-on-both"


def violation_state(question: Question, record: Reruns, case_id: str, judge_id: str) -> ViolationState:
    """What becomes of a violation; `waiting` where its reruns do not tell yet."""
    violation = question.violations[case_id, judge_id]
    if violation.is_known:
        return "known-on-main"
    pending = {
        place[0] for place, other in question.violations.items() if not (other.at_once or other.is_known)
    }
    if violation.at_once or not question.may_rerun or len(pending) > BUDGET:
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


def _of_suite(question: Question, record: Reruns) -> SuiteState | None:
    """What the rounds say. Where the change alone ran, a run that is low again is open: no base says why."""
    if not question.is_low or record.agent_unchanged or (not record.rounds and is_failed(question, record)):
        return None
    if _is_alone(record) and len(question.on_main) < LOW_ALONE_RUNS:
        return None
    known = {name for name, case in question.cases.items() if not case.is_new}
    sides = [done.change for done in record.rounds]
    sides += [] if _is_alone(record) else [done.base for done in record.rounds]
    are_whole = bool(record.rounds) and all(known <= side.keys() for side in sides)
    if record.base_problem is not None or record.altered or not are_whole:
        return "open"
    if _is_alone(record):
        last = record.rounds[-1].change
        counts = [last[name] for name in question.common if name in last and last[name].trials]
        total = sum((Fraction(count.passed, count.trials) for count in counts), Fraction(0))
        return "open" if total < min(question.on_main) else "not-worse"
    state = suite_round(falls_of(record).values(), len(record.rounds), record.others.suites + 1)
    return "worse" if state == "worse" else "not-worse" if state == "done" else "open"


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


ByMain = Literal["only-by-change", "fails", "passes", "not-run"]
"""What the change's agent makes of a case as main defines it: it fails, and passes only by what the change
expects; it fails; it passes; it was not run so."""


@dataclass(frozen=True, kw_only=True)
class Redefined:
    """Cases that the change alters or removes, by what its agent makes of them as main defines them.

    A change may define its cases otherwise, and what it expects holds once it is merged. Until then a case
    that fails as main has it is no green, whatever the change's own version says of it.

    Attributes:
        cases: Those that passed on main, in the order of their ids.
        unsafe: Cases and safety judges that fail them as main has them.
        more_help: The agent was given more help than the base's.
    """

    cases: Mapping[str, ByMain] = field(default_factory=dict)
    removed: Collection[str] = ()
    unsafe: Collection[tuple[str, str]] = ()
    more_help: bool = False

    def named(self, state: ByMain, *, removed: bool) -> list[str]:
        """The cases of a state that the change removes, or alters."""
        return [name for name, of in self.cases.items() if of == state and (name in self.removed) is removed]


def redefined(
    counts: Counts,
    comparison: Comparison | None,
    by_main: Collection[CaseReruns],
    policy: GatePolicy,
    left_out: Collection[str],
) -> Redefined:
    """Sort the cases that the change alters or removes; what failed on main cannot break.

    The comparison judged stored trajectories by either definition; `by_main` are cases that the change's
    agent ran as main defines them, and `left_out` those in quarantine or waived.
    """
    trials = {row.case_id: row.change for row in by_main}
    failing = {row.case_id: row.failing for row in by_main}
    before = counts.baseline.cases if counts.baseline is not None else {}
    stated: Mapping[str, list[str]] = comparison.new_expectations if comparison is not None else {}
    judged_twice = set(comparison.cases.judged_twice) if comparison is not None else set()
    cases: dict[str, ByMain] = {}
    for case_id, row in sorted(before.items()):
        own = counts.own.cases.get(case_id)
        # A share of a half or more passed on main, so that it can break.
        if case_id in left_out or not row.trials or 2 * row.passed < row.trials:
            continue
        if case_id in trials:
            results = {trial.result for trial in trials[case_id]}
            fails: ByMain = "only-by-change" if own is not None and own.passed > 0 else "fails"
            cases[case_id] = "passes" if "passed" in results else fails if "failed" in results else "not-run"
        elif case_id in stated:
            cases[case_id] = "only-by-change"
        elif (own is None or own.definition != row.definition) and case_id not in judged_twice:
            cases[case_id] = "not-run"
    unsafe = {
        (case_id, judge_id)
        for judges_of in (failing, stated)
        for case_id, judges in judges_of.items()
        for judge_id in judges
        if judge_id in policy.safety and case_id not in left_out
    }
    more_help = comparison is not None and comparison.more_help
    removed = before.keys() - counts.own.cases.keys()
    return Redefined(cases=cases, removed=removed, unsafe=sorted(unsafe), more_help=more_help)
