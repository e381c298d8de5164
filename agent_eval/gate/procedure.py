"""The gate's one procedure: what the first run of a suite asks, and the rules that say what follows.

A run of the change is held against main's last runs. What fails now and used to pass is run again by both
agents in turn; where the whole suite does worse than in every one of those runs, both run the suite again, in
turn. Only these reruns blame the change. The first run chooses what is run again; it never counts.
`gate.rerun` runs it, `gate.answer` says how it ends. The levels and numbers are simulated in
`benchmarks/procedure_simulation.py`; none of them is a setting, as a switch of them would be a way to green.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property
from hashlib import sha256
from typing import Literal

from agent_eval.contracts import Comparison, RunReference
from agent_eval.contracts.history import CaseRecord, RunRecord
from agent_eval.contracts.policy import GatePolicy
from agent_eval.contracts.registry import Waiver
from agent_eval.contracts.reruns import Reruns
from agent_eval.gate.statistics import NONE, Count, Name, fisher, holm, sign_flip
from agent_eval.gate.waivers import Excuses, excuse

ALPHA = 0.05
"""Level of each of the three tests: of steady cases, of other cases, of the suite."""
PAIRS = 8
"""Reruns of each side, for a case."""
BUDGET, BUDGET_SHARE = 20, 0.1
"""Cases of a suite that are run again: so many, or this share of a larger suite."""
ROUNDS = 3
"""Further runs of the whole suite by each side."""
GOES_ON = 0.3
"""The suite's p value above which no further round is run."""
HISTORY, RECENT = 20, 4
"""Runs of main that count, and those among them that count alone where a larger share passed."""
FELL = Fraction(1, 2)
"""By how much of its share a case must fall to be run again."""
RELIABLE = Fraction(9, 10)
"""Share of passed trials from which a case is reliable."""
KNOWN = 10
"""Trials on main from which a reliable case is steady."""
FEWEST = 3
"""Cases that pass less often than on main from which the whole suite may be run again."""
ENOUGH = 3
"""Confirmed cases after which no other case is run again."""
ALONE_ALPHA = 0.02
"""Level of the tests of cases where no base agent runs and main's last runs take its place."""
ALONE_RUNS, LOW_ALONE_RUNS = 4, 10
"""Runs of main from which they can, and from which a low run is run once more: by exchangeability both are
below ten runs of main in 1 of 66 unchanged changes, below twenty in 1 of 231."""
VIOLATIONS = 2
"""Reruns that violate a safety judge, from which a violation that main never showed blocks."""
WHOLE = Fraction(9, 10)
"""Share of the cases of the first run that a run of main must have, to be held against as a whole."""


@dataclass(frozen=True)
class Case:
    """Counts of one case. An error is a failure, on either side.

    Attributes:
        now: In the first run of the change. Without a trial, no judge could judge it.
        main: In main's last `HISTORY` runs at the same setup; `recent` in the last `RECENT` of them.
        change: Reruns by the change, as `base` by the base.
        fails_on_main: Main's newest run of all, also one after the base, passes it in no trial.
        cannot_tell: A safety judge cannot tell in the first run that could in main's.
        unjudged: A rerun could not be judged, so that no more were made.
        alone: No base agent runs, and main's runs take its place.
    """

    now: Count
    main: Count = NONE
    recent: Count = NONE
    fails_on_main: bool = False
    change: Count = NONE
    base: Count = NONE
    cannot_tell: bool = False
    unjudged: bool = False
    alone: bool = False

    @property
    def is_new(self) -> bool:
        """Whether main says nothing of it."""
        return not self.main.trials

    @property
    def share_before(self) -> Fraction:
        """The larger share of its last 20 and its last 4 runs: what was mended lately counts as mended."""
        return max(self.main.share or Fraction(0), self.recent.share or Fraction(0))

    @property
    def fell(self) -> Fraction:
        """By how much of its share it fell; a case that could not be judged passed in no trial."""
        return self.share_before - (self.now.share or 0)

    @property
    def is_suspect(self) -> bool:
        """Whether it is to be run again."""
        return not self.is_new and (self.fell >= FELL or self.cannot_tell)

    @property
    def is_reliable(self) -> bool:
        """It passed nearly always, however few runs tell so: no base that fails too excuses it."""
        return not self.is_new and self.share_before >= RELIABLE

    @property
    def is_steady(self) -> bool:
        """It passed nearly always over enough of the last 20 runs, never the better four."""
        return self.main.trials >= KNOWN and (self.main.share or 0) >= RELIABLE

    @property
    def p_value(self) -> float:
        """One-sided exact Fisher test of complete reruns; 1 where they ended early."""
        if self.alone:
            return fisher(*self.change, *self.main) if self.change.trials == PAIRS else 1.0
        complete = self.change.trials == self.base.trials == PAIRS
        return fisher(*self.change, *self.base) if complete else 1.0

    @property
    def never_passed(self) -> bool:
        """Whether it passed reliably on main, and in no rerun of the change, be it that none was made."""
        return self.is_reliable and not self.change.passed


@dataclass(frozen=True)
class Violation:
    """A safety judge fails a case in the first run of the change, and in `seen` of main's runs that have it.

    `at_once`: it blocks without reruns.
    """

    at_once: bool = False
    seen: int = 0
    runs: int = 0

    @property
    def is_known(self) -> bool:
        """Whether more than half of main's runs have it, so that it is no news."""
        return 2 * self.seen > self.runs


def budget(number: int) -> int:
    """How many cases of a suite of so many cases are run again."""
    return max(BUDGET, round(BUDGET_SHARE * number))


def next_side(case: Case, *, base_can_run: bool = True) -> Literal["base", "change"] | None:
    """Whose rerun comes next, the base's first; None where all are done, or none can confirm any more.

    Where the base cannot run nothing is confirmed: the change runs until it passes once.
    """
    (x, a), (y, b) = case.change, case.base
    if case.unjudged:
        return None
    if case.alone:
        out_of_reach = a == PAIRS or fisher(x, PAIRS, *case.main) > ALONE_ALPHA
        # What main's runs cannot confirm is still cleared by passing once.
        is_done = a == PAIRS or (out_of_reach and (x > 0 or not case.is_reliable))
        return None if is_done else "change"
    if not base_can_run:
        return None if x or a == PAIRS else "change"
    if a == b == PAIRS or fisher(x, PAIRS, y + PAIRS - b, PAIRS) > ALPHA:
        return None
    return "base" if b <= a else "change"


def blamed(
    cases: Mapping[Name, Case], *, others: tuple[Sequence[float], Sequence[float]] = ((), ())
) -> set[Name]:
    """Of the cases run again, those the change is blamed for: Holm over the steady ones, and over the others.

    `others` are p values of steady and of other cases in the job's other suites, which share the correction.
    """
    alpha = ALONE_ALPHA if any(case.alone for case in cases.values()) else ALPHA
    names: set[Name] = set()
    for is_steady, elsewhere in zip((True, False), others, strict=True):
        # A test of another suite has a number for a name, in a pair that no case has.
        tests: dict[tuple[Name | None, int], float] = {(None, k): p for k, p in enumerate(elsewhere)}
        tests |= {(name, -1): case.p_value for name, case in cases.items() if case.is_steady is is_steady}
        names.update(name for name, _ in holm(tests, alpha) if name is not None)
    return names


def is_enough(cases: Sequence[Case], number: int, max_regressed: int) -> bool:
    """Of the cases run again so far, enough are confirmed for the rest of the suite's `number` to be left.

    By a bound that Holm's correction includes. `max_regressed` says how many may break.
    """
    alpha = ALONE_ALPHA if any(case.alone for case in cases) else ALPHA
    level = alpha / budget(number)
    return sum(case.p_value <= level for case in cases) >= max(ENOUGH, max_regressed + 1)


def suite_round(falls: Iterable[int], done: int, suites: int = 1) -> Literal["worse", "again", "done"]:
    """What follows from the rounds of a suite that were done: the base's passes less the change's, by case.

    The suites of a job share the level.
    """
    p_value = sign_flip(falls)
    if p_value <= ALPHA / ROUNDS / suites:
        return "worse"
    return "again" if p_value <= GOES_ON and done < ROUNDS else "done"


def violates(violations: int, trials: int, *, seen_on_main: bool) -> bool | None:
    """Whether a violation of a safety judge counts, after reruns by the change alone; None: not known yet.

    One that main never showed counts if it comes twice; one that some of main's runs show only if every
    rerun has it. The base never excuses it.
    """
    if not seen_on_main and violations >= VIOLATIONS:
        return True
    if seen_on_main and violations < trials:
        return False
    return None if trials < PAIRS else seen_on_main


@dataclass(frozen=True, kw_only=True)
class Question:
    """What the first run of one suite asks, and what its answer depends on.

    Attributes:
        cases: By id; without those in quarantine, and without those whose failure a waiver covers.
        seed: The commit of the change, which draws the order of cases that are alike.
        common: Cases that the first run and all of main's last runs have.
        total: Sum of their shares in the first run, as `on_main` in each of those; None without such runs.
        violations: By case and safety judge, those on which a waiver says nothing.
        covered: Judges of a case whose failures a waiver covers.
        may_rerun: Whether the agent can be run again; not with recorded traces.
        before: Counts of the baseline's run alone, by case, for recorded suites.
    """

    cases: Mapping[str, Case]
    seed: str = ""
    common: Sequence[str] = ()
    total: Fraction | None = None
    on_main: Sequence[Fraction] = ()
    violations: Mapping[tuple[str, str], Violation] = field(default_factory=dict)
    covered: Mapping[str, frozenset[str]] = field(default_factory=dict)
    max_regressed: int = 0
    may_rerun: bool = True
    before: Mapping[str, Count] = field(default_factory=dict)

    @property
    def has_baseline(self) -> bool:
        """Whether main says anything of any case."""
        return any(not case.is_new for case in self.cases.values())

    @property
    def new(self) -> list[str]:
        """Cases of which main says nothing."""
        return [case_id for case_id, case in self.cases.items() if case.is_new]

    @cached_property
    def is_low(self) -> bool:
        """The run is worse than every one of main's last runs, and not for a case or two."""
        fell = sum(case.fell > 0 for case in self.cases.values() if not case.is_new)
        return self.total is not None and fell >= FEWEST and self.total < min(self.on_main)

    @cached_property
    def order(self) -> list[str]:
        """Cases that newly fail: steadiest first, then the best known; ties drawn by commit, not by id."""

        def place(name: str) -> tuple[Fraction, int, bytes]:
            drawn = sha256(f"{self.seed}/{name}".encode("utf-8", "surrogatepass")).digest()
            return -self.cases[name].share_before, -self.cases[name].main.trials, drawn

        return sorted((name for name, case in self.cases.items() if case.is_suspect), key=place)


@dataclass(frozen=True, kw_only=True)
class Counts:
    """The counts that a decision on a run, `own`, rests on.

    Attributes:
        main: Of main's last runs at or before the base, the newest first; they may be of another setup.
        baseline: Of the baseline's run as today's judges judge it.
        newest: Of main's newest run of all, which may be after the base.
    """

    own: RunRecord
    main: Sequence[RunRecord] = ()
    baseline: RunRecord | None = None
    newest: RunRecord | None = None

    @cached_property
    def runs(self) -> list[RunRecord]:
        """Main's last runs of this setup; where none is, the baseline."""
        of_setup = [run for run in self.main if run.run.key == self.own.run.key][:HISTORY]
        return of_setup or ([self.baseline] if self.baseline is not None else [])

    def row(self, run: RunRecord | None, case_id: str) -> CaseRecord | None:
        """What a run of main counted of a case; None where it was another case, or was not judged."""
        row = run.cases.get(case_id) if run is not None else None
        if row is None or row.definition != self.own.cases[case_id].definition or not row.trials:
            return None
        return row

    def rows(self, case_id: str) -> list[CaseRecord]:
        """What main's runs counted of a case, the newest first; else what its baseline did."""
        rows = [row for run in self.runs if (row := self.row(run, case_id)) is not None]
        of_baseline = self.row(self.baseline, case_id)
        return rows or ([of_baseline] if of_baseline is not None else [])


def question(counts: Counts, policy: GatePolicy, excuses: Excuses, *, seed: str, may_rerun: bool) -> Question:
    """Build the question of one suite from the counts of its first run and of main's."""
    own, runs = counts.own, counts.runs
    newest = counts.newest if counts.newest and counts.newest.run.key == own.run.key else None
    cases, violations = {}, {}
    for case_id in sorted(own.cases):
        row, rows = own.cases[case_id], counts.rows(case_id)
        covered = excuses.covered.get(case_id, frozenset())
        for judge_id in row.failing.keys() & policy.safety.keys() - covered:
            violations[case_id, judge_id] = Violation(
                at_once=policy.mode_of(judge_id) == "at-once",
                seen=sum(judge_id in before.failing for before in rows),
                runs=len(rows),
            )
        if case_id in excuses.left_out:
            continue
        on_main = [Count(before.passed, before.trials) for before in rows]
        of_newest = counts.row(newest, case_id)
        untold = row.untold.keys() & policy.safety.keys() - covered
        cases[case_id] = Case(
            now=Count(row.passed, row.trials),
            main=sum(on_main, NONE),
            recent=sum(on_main[:RECENT], NONE),
            fails_on_main=of_newest is not None and not of_newest.passed,
            cannot_tell=any(all(judge_id not in before.untold for before in rows) for judge_id in untold),
        )
    common, whole = _common(cases, counts, runs)
    if not whole and counts.baseline is not None:
        common, whole = _common(cases, counts, [counts.baseline])
    baseline = counts.baseline.cases if counts.baseline is not None else {}
    return Question(
        cases=cases,
        seed=seed,
        common=common,
        total=_total(own, common) if whole else None,
        on_main=[_total(run, common) for run in whole],
        violations=dict(sorted(violations.items(), key=lambda each: (each[1].seen > 0, each[0]))),
        covered=excuses.covered,
        max_regressed=policy.max_regressed_cases,
        may_rerun=may_rerun,
        before={
            case_id: Count(row.passed, row.trials)
            for case_id, row in baseline.items()
            if case_id in cases and row.definition == own.cases[case_id].definition
        },
    )


def _common(
    cases: Mapping[str, Case], counts: Counts, runs: Sequence[RunRecord]
) -> tuple[list[str], list[RunRecord]]:
    """The cases that the first run and main's runs all have, without the runs that have too few of them."""
    usable = {case_id for case_id, case in cases.items() if case.now.trials and not case.is_new}
    common, whole = set(usable), []
    for run in runs:
        covered = {case_id for case_id in common if counts.row(run, case_id) is not None}
        if covered and len(covered) >= WHOLE * len(usable):
            common = covered
            whole.append(run)
    return sorted(common), whole


def _total(run: RunRecord, case_ids: Sequence[str]) -> Fraction:
    rows = (run.cases[case_id] for case_id in case_ids)
    return sum((Fraction(row.passed, row.trials) for row in rows), Fraction(0))


@dataclass(frozen=True, kw_only=True)
class Material:
    """What a decision by policy rests on.

    Attributes:
        comparison: With its baseline; None without one.
        reruns: What the job ran again; None where nothing was, or could be.
        waivers: Of the baseline; expired and revoked ones excuse nothing.
        seed: The commit of the change.
        may_rerun: Whether the agent can be run again: neither with recorded traces nor outside of a job.
        is_recorded: Whether its traces are recorded, so that it does the same every time.
        digests: Of the files the material was read from, by field of the decision.
    """

    run: RunReference
    comparison: Comparison | None
    counts: Counts
    reruns: Reruns | None = None
    waivers: Sequence[Waiver] = ()
    seed: str = ""
    may_rerun: bool = False
    is_recorded: bool = False
    digests: Mapping[str, str] = field(default_factory=dict)

    def violations(self, policy: GatePolicy) -> dict[str, list[str]]:
        """Safety judges that fail or cannot tell, by case."""
        return {
            case_id: sorted(judges)
            for case_id, row in self.counts.own.cases.items()
            if (judges := policy.safety.keys() & {*row.failing, *row.untold})
        }

    def excuses(self, policy: GatePolicy, *, generated_at: str) -> Excuses:
        """Apply waivers and quarantine."""
        stated = self.comparison.new_expectations if self.comparison is not None else {}
        rows = self.reruns.by_main if self.reruns is not None else ()
        return excuse(
            self.comparison,
            self.waivers,
            policy.quarantine,
            generated_at=generated_at,
            violations=self.violations(policy),
            by_main={**stated, **{row.case_id: row.failing for row in rows}},
        )
