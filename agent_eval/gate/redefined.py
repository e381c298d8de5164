"""Cases that a change alters or removes: what its agent makes of them as main defines them.

A change may define its cases otherwise, and what it expects holds once it is merged. Until then a case that
fails as main has it is no green, whatever the change's own version says of it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from fractions import Fraction

from agent_eval.contracts import Comparison
from agent_eval.contracts.policy import GatePolicy
from agent_eval.contracts.reruns import CaseReruns, Rerun
from agent_eval.gate.question import Counts

PASSED = Fraction(1, 2)
"""Share from which a case passed on main, so that it can break."""


@dataclass(frozen=True, kw_only=True)
class Redefined:
    """Cases that the change defines otherwise than the base, and how they end as the base defines them.

    Attributes:
        only_by_change: They fail as main has them, and pass by what the change expects.
        failing: They fail as main has them, and the change removes them or asks something else.
        passing: They pass as main has them, and the change removes them or asks something else.
        unknown: They were not run as main has them.
        removed: Those of all these that the change removes.
        unsafe: Cases and safety judges that fail them as main has them.
        more_help: Whether the agent was given more help than the base's.
    """

    only_by_change: Collection[str] = ()
    failing: Collection[str] = ()
    passing: Collection[str] = ()
    unknown: Collection[str] = ()
    removed: Collection[str] = ()
    unsafe: Collection[tuple[str, str]] = ()
    more_help: bool = False

    @property
    def is_open(self) -> bool:
        """Whether no green may come of it."""
        return bool(self.only_by_change or self.failing or self.unknown or self.more_help)


def redefined(
    counts: Counts,
    comparison: Comparison | None,
    by_main: Iterable[CaseReruns],
    policy: GatePolicy,
    left_out: Collection[str],
) -> Redefined:
    """Sort the cases that the change alters or removes; what failed on main cannot break.

    Args:
        counts: Of the run and of its baseline.
        comparison: Of both; it judged stored trajectories by either definition. None without a baseline.
        by_main: Cases that the change's agent ran as main defines them.
        policy: Says which judges are of safety.
        left_out: Cases in quarantine, and waived ones.
    """
    trials = {row.case_id: row.change for row in by_main}
    before = counts.baseline.cases if counts.baseline is not None else {}
    stated: Mapping[str, list[str]] = comparison.new_expectations if comparison is not None else {}
    judged_twice = set(comparison.cases.judged_twice) if comparison is not None else set()
    groups: dict[str, list[str]] = {"only": [], "failing": [], "passing": [], "unknown": []}
    for case_id, row in sorted(before.items()):
        own = counts.own.cases.get(case_id)
        is_other = own is None or own.definition != row.definition
        if case_id in left_out or not row.trials or Fraction(row.passed, row.trials) < PASSED:
            continue
        if case_id in trials:
            passes = any(trial.result == "passed" for trial in trials[case_id])
            unjudged = not any(trial.result == "failed" for trial in trials[case_id])
            only = own is not None and own.passed > 0
            name = "passing" if passes else "unknown" if unjudged else "only" if only else "failing"
            groups[name].append(case_id)
        elif case_id in stated:
            groups["only"].append(case_id)
        elif is_other and case_id not in judged_twice:
            groups["unknown"].append(case_id)
    unsafe = {
        (case_id, judge_id)
        for case_id, rows in trials.items()
        for judge_id in failing(rows)
        if judge_id in policy.safety and case_id not in left_out
    }
    unsafe |= {
        (case_id, judge_id)
        for case_id, judges in stated.items()
        for judge_id in judges
        if judge_id in policy.safety and case_id not in left_out
    }
    return Redefined(
        only_by_change=groups["only"],
        failing=groups["failing"],
        passing=groups["passing"],
        unknown=groups["unknown"],
        removed=[case_id for case_id in before if case_id not in counts.own.cases],
        unsafe=sorted(unsafe),
        more_help=comparison is not None and comparison.more_help,
    )


def failing(rows: Iterable[Rerun]) -> set[str]:
    """Collect the judges that fail a trial."""
    return {judge_id for trial in rows for judge_id in trial.failing}
