"""What the judges and cases of a gate were worth, over the runs it decided on."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Literal

from agent_eval.contracts import CaseIndexRow, CaseResultRow
from agent_eval.contracts.verdict import is_lost, row_fault

FEWEST_TRIALS = 20
"""Trials from which it says something that a judge or a case never failed: at 14 % one would have."""
ERRORS_TOLERATED = 0.2

Remark = Literal["never-ran", "never-failed", "never-passed", "cannot-judge", "too-few", "useful"]
"""What is remarkable about a judge or a case, the gravest that holds.

`never-ran`: every verdict was skipped. `never-failed` and `never-passed`: in FEWEST_TRIALS or more.
`cannot-judge`: one verdict in five or more is an error. `too-few`: fewer trials than that.
"""


@dataclass
class Health:
    """How often a judge, or the trials of a case, ended in each way, and what that cost.

    `cost_usd` is null where it is not recorded: of a judge what asking its model cost, of a case what the
    agent spent on it. `lost` counts the trials of a case that say nothing of the agent, by whose fault that
    is; they are in none of the other counts.
    """

    passed: int = 0
    failed: int = 0
    error: int = 0
    inconclusive: int = 0
    skipped: int = 0
    cost_usd: float | None = None
    lost: Counter[str] = field(default_factory=Counter)

    @property
    def judged(self) -> int:
        """Number of verdicts that were not skipped."""
        return self.passed + self.failed + self.error + self.inconclusive

    @property
    def remark(self) -> Remark:
        """What is remarkable, by the order in which `Remark` lists it."""
        errors, tried = self.error + self.lost.total(), self.judged + self.lost.total()
        if not tried:
            return "never-ran"
        if errors >= ERRORS_TOLERATED * tried and errors > 1:
            return "cannot-judge"
        if self.judged < FEWEST_TRIALS:
            return "too-few"
        return (
            "useful" if 0 < self.passed < self.judged else "never-failed" if self.passed else "never-passed"
        )

    def add(self, outcome: str, cost_usd: float | None = None) -> None:
        """Count one verdict, or one trial of a case."""
        setattr(self, outcome, getattr(self, outcome) + 1)
        if cost_usd is not None:
            self.cost_usd = (self.cost_usd or 0.0) + cost_usd


@dataclass
class GateHealth:
    """Health of every judge and case over several runs."""

    runs: int = 0
    judges: dict[str, Health] = field(default_factory=dict)
    cases: dict[str, Health] = field(default_factory=dict)

    def add(self, results: Iterable[CaseResultRow], index: Mapping[str, CaseIndexRow]) -> None:
        """Count the results of one run; the rows of its index by case id have what the agent spent."""
        self.runs += 1
        for row in results:
            health = self.cases.setdefault(row["case_id"], Health())
            facts = index.get(row["case_id"])
            if facts is not None and (spent := facts["cost_usd"]) is not None:
                health.cost_usd = (health.cost_usd or 0.0) + spent
            for trial in row.get("trials") or [row]:
                if is_lost(trial):
                    health.lost[str(row_fault(trial))] += 1
                else:
                    health.add(trial["outcome"])
                for verdict in trial["verdicts"]:
                    # What asking the judge's model cost, where something was asked and its price is known.
                    judging = verdict["evidence"].get("judging")
                    cost = judging.get("cost_usd") if isinstance(judging, Mapping) else None
                    if not isinstance(cost, int | float) or isinstance(cost, bool) or cost < 0:
                        cost = None
                    judge = self.judges.setdefault(verdict["judge_id"], Health())
                    judge.add(verdict["outcome"], cost)

    def lost(self) -> Counter[str]:
        """Count the trials of all cases that say nothing of the agent, by whose fault that is."""
        return sum((health.lost for health in self.cases.values()), Counter())

    def to_json(self) -> dict[str, Any]:
        """Return everything, judges and cases by name, each with its remark."""
        return {
            "runs": self.runs,
            **{
                kind: {name: {**asdict(each), "remark": each.remark} for name, each in sorted(group.items())}
                for kind, group in (("judges", self.judges), ("cases", self.cases))
            },
            "lost_trials": dict(sorted(self.lost().items())),
        }
