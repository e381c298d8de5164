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
    """

    quarantined: frozenset[str] = frozenset()
    waived: frozenset[str] = frozenset()
    covered: Mapping[str, frozenset[str]] = field(default_factory=dict)


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
    own, runs = counts.own, counts.runs
    ids = own.cases.keys() - left_out.quarantined - left_out.waived
    rows = {case_id: _rows(case_id, counts, runs) for case_id in sorted(own.cases)}
    cases = {
        case_id: _case(case_id, counts, rows[case_id], policy, left_out) for case_id in rows if case_id in ids
    }
    common, whole = _common(cases, own, runs)
    if not whole and counts.baseline is not None:
        common, whole = _common(cases, own, [counts.baseline])
    baseline = counts.baseline.cases if counts.baseline is not None else {}
    violations = {
        (case_id, judge_id): Violation(
            at_once=policy.mode_of(judge_id) == "at-once",
            seen=sum(judge_id in row.failing for row in rows[case_id]),
            runs=len(rows[case_id]),
        )
        for case_id, row in own.cases.items()
        for judge_id in row.failing
        if judge_id in policy.safety and judge_id not in left_out.covered.get(case_id, ())
    }
    return Question(
        cases=cases,
        seed=seed,
        common=common,
        total=_total(own, common) if whole else None,
        on_main=[_total(run, common) for run in whole],
        violations=dict(sorted(violations.items(), key=lambda each: (each[1].seen > 0, each[0]))),
        covered=left_out.covered,
        max_regressed=policy.max_regressed_cases,
        may_rerun=may_rerun,
        before={
            case_id: Count(row.passed, row.trials)
            for case_id, row in baseline.items()
            if case_id in cases and row.definition == own.cases[case_id].definition
        },
        new=[case_id for case_id, case in cases.items() if case.is_new],
    )


def _rows(case_id: str, counts: Counts, runs: Sequence[RunRecord]) -> list[CaseRecord]:
    """What main's runs counted of the same case, the newest first; else what its baseline did."""
    own = counts.own.cases[case_id]
    rows = [row for run in runs if (row := _row(run, case_id, own)) is not None]
    of_baseline = _row(counts.baseline, case_id, own) if counts.baseline is not None else None
    return rows or ([of_baseline] if of_baseline is not None else [])


def _row(run: RunRecord, case_id: str, own: CaseRecord) -> CaseRecord | None:
    """The counts of a case in a run of main, where it was the same case and was judged."""
    row = run.cases.get(case_id)
    return row if row is not None and row.definition == own.definition and row.trials else None


def _case(
    case_id: str, counts: Counts, rows: Sequence[CaseRecord], policy: GatePolicy, left_out: LeftOut
) -> Case:
    own = counts.own.cases[case_id]
    on_main = [Count(row.passed, row.trials) for row in rows]
    newest = counts.newest if counts.newest and counts.newest.run.key == counts.own.run.key else None
    of_newest = _row(newest, case_id, own) if newest is not None else None
    untold = own.untold.keys() & policy.safety.keys() - left_out.covered.get(case_id, frozenset())
    return Case(
        now=Count(own.passed, own.trials),
        main=sum(on_main, NONE),
        recent=sum(on_main[:RECENT], NONE),
        fails_on_main=of_newest is not None and not of_newest.passed,
        cannot_tell=any(all(judge_id not in row.untold for row in rows) for judge_id in untold),
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
