"""What the first run of a suite asks: its counts beside those of main's last runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction

from agent_eval.contracts.history import CaseRecord, RunRecord
from agent_eval.contracts.policy import GatePolicy
from agent_eval.gate.procedure import HISTORY, NONE, RECENT, Case, Count, Question, Violation

WHOLE = Fraction(9, 10)
"""Share of the cases of the first run that a run of main must have, to be held against as a whole."""


@dataclass(frozen=True, kw_only=True)
class Counts:
    """The counts that a decision rests on.

    Attributes:
        own: Of the run that is decided on.
        main: Of main's last runs at or before the base, the newest first; they may be of another setup.
        baseline: Of the baseline's run as today's judges judge it; None without a baseline.
        newest: Of main's newest run of all, which may be after the base.
    """

    own: RunRecord
    main: Sequence[RunRecord] = ()
    baseline: RunRecord | None = None
    newest: RunRecord | None = None

    @property
    def runs(self) -> list[RunRecord]:
        """Main's last runs of this setup; where none is, the baseline."""
        of_setup = [run for run in self.main if run.run.key == self.own.run.key][:HISTORY]
        return of_setup or ([self.baseline] if self.baseline is not None else [])


@dataclass(frozen=True, kw_only=True)
class LeftOut:
    """What is no question of the procedure, by whose word.

    Attributes:
        quarantined: Cases that the policy's quarantine names.
        waived: Cases whose failure waivers cover wholly.
        covered: Judges by case whose failure a waiver covers.
        redefined: Cases that the change alters or removes, of which its own version says something else.
    """

    quarantined: frozenset[str] = frozenset()
    waived: frozenset[str] = frozenset()
    covered: Mapping[str, frozenset[str]] = field(default_factory=dict)
    redefined: frozenset[str] = frozenset()


def question(
    counts: Counts, policy: GatePolicy, left_out: LeftOut, *, seed: str, may_rerun: bool
) -> Question:
    """Build the question of one suite.

    Args:
        counts: Of the first run, and of main's.
        policy: Says which judges are of safety, and how many cases may break.
        left_out: What the procedure does not ask.
        seed: The commit of the change.
        may_rerun: Whether the agent can be run again.
    """
    runs = counts.runs
    ids = counts.own.cases.keys() - left_out.quarantined - left_out.waived - left_out.redefined
    cases = {case_id: _case(case_id, counts, runs) for case_id in sorted(ids)}
    common, whole = _common(cases, counts.own, runs)
    baseline = counts.baseline.cases if counts.baseline is not None else {}
    return Question(
        cases=cases,
        seed=seed,
        common=common,
        total=_total(counts.own, common) if whole else None,
        on_main=[_total(run, common) for run in whole],
        violations={
            (case_id, judge_id): _violation(case_id, judge_id, counts.own, runs, policy)
            for case_id, row in sorted(counts.own.cases.items())
            for judge_id in sorted(row.failing)
            if judge_id in policy.safety and judge_id not in left_out.covered.get(case_id, ())
        },
        covered=left_out.covered,
        max_regressed=policy.max_regressed_cases,
        may_rerun=may_rerun,
        before={
            case_id: Count(row.passed, row.trials)
            for case_id, row in baseline.items()
            if case_id in cases and _is_same(row, counts.own.cases[case_id])
        },
        new=[case_id for case_id, case in cases.items() if case.is_new],
    )


def _case(case_id: str, counts: Counts, runs: Sequence[RunRecord]) -> Case:
    own = counts.own.cases[case_id]
    on_main = [Count(row.passed, row.trials) for run in runs if (row := _row(run, case_id, own)) is not None]
    newest = _row(counts.newest, case_id, own) if counts.newest is not None else None
    is_of_setup = counts.newest is not None and counts.newest.run.key == counts.own.run.key
    return Case(
        now=Count(own.passed, own.trials),
        main=sum(on_main, NONE),
        recent=sum(on_main[:RECENT], NONE),
        fails_on_main=is_of_setup and newest is not None and not newest.passed,
    )


def _row(run: RunRecord, case_id: str, own: CaseRecord) -> CaseRecord | None:
    """The counts of a case in a run of main, where it was the same case and was judged."""
    row = run.cases.get(case_id)
    return row if row is not None and _is_same(row, own) and row.trials else None


def _is_same(row: CaseRecord, own: CaseRecord) -> bool:
    return row.definition == own.definition


def _violation(
    case_id: str, judge_id: str, own: RunRecord, runs: Sequence[RunRecord], policy: GatePolicy
) -> Violation:
    rows = [row for run in runs if (row := run.cases.get(case_id)) and _is_same(row, own.cases[case_id])]
    return Violation(
        at_once=policy.mode_of(judge_id) == "at-once",
        seen=sum(judge_id in row.failing for row in rows),
        runs=len(rows),
    )


def _common(
    cases: Mapping[str, Case], own: RunRecord, runs: Sequence[RunRecord]
) -> tuple[list[str], list[RunRecord]]:
    """The cases that the first run and main's runs all have, without the runs that have too few of them."""
    usable = {case_id for case_id, case in cases.items() if case.now.trials and not case.is_new}
    common, whole = set(usable), []
    for run in runs:
        covered = {case_id for case_id in common if _row(run, case_id, own.cases[case_id]) is not None}
        if covered and len(covered) >= WHOLE * len(usable):
            common = covered
            whole.append(run)
    return sorted(common), whole


def _total(run: RunRecord, case_ids: Sequence[str]) -> Fraction:
    rows = (run.cases[case_id] for case_id in case_ids)
    return sum((Fraction(row.passed, row.trials) for row in rows), Fraction(0))
