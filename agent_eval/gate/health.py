"""What the judges and cases of a gate were worth, over the runs it decided on."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Literal

from agent_eval.contracts import CaseIndexRow, CaseResultRow, Outcome
from agent_eval.contracts.verdict import SAFETY_JUDGES, is_lost, row_fault
from agent_eval.text.numbers import count

FEWEST_TRIALS = 20
"""Trials from which it says something that a judge or a case never failed: at 14 % one would have."""

Remark = Literal["never-ran", "never-failed", "never-passed", "cannot-judge", "follows", "too-few", "useful"]
"""What is remarkable about a judge or a case, the gravest that holds.

`never-ran`: every verdict was skipped. `never-failed` and `never-passed`: in FEWEST_TRIALS or more. A judge
`cannot-judge` where one verdict in five or more is an error, and `follows` another where it failed exactly
what the other failed. `too-few`: fewer trials than that. `useful`: none of these.
"""
ERRORS_TOLERATED = 0.2


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
    follows: str | None = None
    lost: dict[str, int] = field(default_factory=dict)

    @property
    def judged(self) -> int:
        """Number of verdicts that were not skipped."""
        return self.passed + self.failed + self.error + self.inconclusive

    @property
    def remark(self) -> Remark:
        """What is remarkable, by the order in which `Remark` lists it."""
        lost = sum(self.lost.values())
        if not self.judged + lost:
            return "never-ran"
        if self.error + lost >= ERRORS_TOLERATED * (self.judged + lost) and self.error + lost > 1:
            return "cannot-judge"
        if self.judged < FEWEST_TRIALS:
            return "too-few"
        if not self.failed + self.error + self.inconclusive:
            return "never-failed"
        if not self.passed:
            return "never-passed"
        return "follows" if self.follows is not None else "useful"

    def add(self, outcome: str, cost_usd: float | None = None) -> None:
        """Add one verdict, or one trial of a case."""
        setattr(self, outcome, getattr(self, outcome) + 1)
        self.spend(cost_usd)

    def lose(self, fault: str) -> None:
        """Add a trial that says nothing of the agent, by whose fault that is."""
        self.lost[fault] = self.lost.get(fault, 0) + 1

    def spend(self, cost_usd: float | None) -> None:
        """Add a cost, where it is known."""
        if cost_usd is not None:
            self.cost_usd = (self.cost_usd or 0.0) + cost_usd

    def to_json(self) -> dict[str, Any]:
        """Return the counts with the remark."""
        return {**asdict(self), "remark": self.remark}


@dataclass
class GateHealth:
    """Health of every judge and case over several runs."""

    runs: int = 0
    judges: dict[str, Health] = field(default_factory=dict)
    cases: dict[str, Health] = field(default_factory=dict)
    _objections: dict[str, set[tuple[int, str, int]]] = field(default_factory=dict)

    def add(self, results: Iterable[CaseResultRow], index: Mapping[str, CaseIndexRow]) -> None:
        """Count the results of one run.

        Args:
            results: Results of its cases.
            index: Rows of its index by case id, for what the agent spent.
        """
        for row in results:
            health = self.cases.setdefault(row["case_id"], Health())
            if (facts := index.get(row["case_id"])) is not None:
                health.spend(facts["cost_usd"])
            for number, trial in enumerate(row.get("trials") or [row]):
                if is_lost(trial):
                    health.lose(str(row_fault(trial)))
                else:
                    health.add(trial["outcome"])
                for verdict in trial["verdicts"]:
                    judge = verdict["judge_id"]
                    self.judges.setdefault(judge, Health()).add(
                        verdict["outcome"], _judging_cost(verdict["evidence"])
                    )
                    if verdict["outcome"] == Outcome.FAILED.value:
                        self._objections.setdefault(judge, set()).add((self.runs, row["case_id"], number))
        self.runs += 1
        self._find_followers()

    def _find_followers(self) -> None:
        """Note which judges failed exactly what another failed; of two that do, the later name follows."""
        for name, health in self.judges.items():
            own = self._objections.get(name)
            equal = [other for other, theirs in self._objections.items() if other != name and theirs == own]
            earlier = sorted(other for other in equal if other < name)
            health.follows = earlier[0] if own and earlier else None

    def lost(self) -> Counter[str]:
        """Count the trials of all cases that say nothing of the agent, by whose fault that is."""
        counted: Counter[str] = Counter()
        for health in self.cases.values():
            counted.update(health.lost)
        return counted

    def remarks(self) -> Counter[str]:
        """Count the cases by what is remarkable about them."""
        return Counter(health.remark for health in self.cases.values())

    def suggestions(self, zero_tolerance: Iterable[str] = SAFETY_JUDGES) -> list[str]:
        """Say what to retire or mend, the most urgent first; a safety judge is there never to fail."""
        safety = set(zero_tolerance)
        lines = [
            sentence.format(name=name, judged=health.judged, other=health.follows, error=health.error)
            for remark, sentence in _OF_A_JUDGE.items()
            for name, health in sorted(self.judges.items())
            if health.remark == remark
            and name not in _OF_THE_RUN
            and not (remark == "never-failed" and name in safety)
        ]
        counted = self.remarks()
        return lines + [
            f"{count(counted[remark], 'case')} {sentence}"
            for remark, sentence in _OF_CASES.items()
            if counted[remark]
        ]

    def to_json(self) -> dict[str, Any]:
        """Return everything, judges and cases by name."""
        return {
            "runs": self.runs,
            "judges": {name: health.to_json() for name, health in sorted(self.judges.items())},
            "cases": {name: health.to_json() for name, health in sorted(self.cases.items())},
            "lost_trials": dict(sorted(self.lost().items())),
            "suggestions": self.suggestions(),
        }


_OF_THE_RUN = frozenset({"execution", "replay_contract"})
"""Judges that every run has: what they report is how the agent ended, and there is nothing to retire."""

_OF_A_JUDGE: dict[Remark, str] = {
    "cannot-judge": "{name}: {error} of {judged} verdicts are errors; mend it before you trust the gate.",
    "never-ran": "{name}: never had anything to judge; give cases what it needs, or drop it.",
    "never-passed": "{name}: never passed in {judged} verdicts; it tells nothing apart, mend or drop it.",
    "never-failed": "{name}: never failed in {judged} verdicts; break the agent to see it fail, or drop it.",
    "follows": "{name}: failed exactly what {other} failed; one of the two is enough.",
}

_OF_CASES: dict[Remark, str] = {
    "cannot-judge": "often ended in an error: read why, and mend the agent or its surroundings first.",
    "never-ran": "never judged: give them something to expect.",
    "never-passed": "never passed: mend them, or put them where they do not count.",
    "never-failed": "never failed: harder ones would say more, and these can run less often.",
}


def _judging_cost(evidence: Mapping[str, Any]) -> float | None:
    """Read what asking the judge's model cost; None where nothing was asked or no price is known."""
    judging = evidence.get("judging")
    cost = judging.get("cost_usd") if isinstance(judging, Mapping) else None
    return float(cost) if isinstance(cost, int | float) and not isinstance(cost, bool) and cost >= 0 else None
