"""Counts of runs, and a runner of trials whose results are written down, for tests of the gate."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from agent_eval.contracts import RunReference, RunSummary
from agent_eval.contracts.history import CaseRecord, HistoryRun, RunRecord
from agent_eval.contracts.policy import GatePolicy
from agent_eval.contracts.reruns import Figures, Rerun, Side, SuiteRound, TrialCounts
from agent_eval.gate.procedure import Counts, Material, Question, question
from agent_eval.gate.rerun import Cut
from agent_eval.gate.waivers import Excuses

Cell = int | tuple[int, int] | CaseRecord
"""Trials that passed, of one; or of how many; or a whole record."""

PASSED, FAILED = Rerun(result="passed"), Rerun(result="failed", failing=["policy"])
UNJUDGED = Rerun(result="unjudged", unjudged=["tool_abuse"], reason="A call of kind `x` was not read.")


def row(case_id: str, passed: int, trials: int = 1, **more: Any) -> CaseRecord:
    missed = {"policy_violation": trials - passed} if trials > passed else {}
    facts = {"definition": "d1", "passed": passed, "scored": trials, "missed": missed}
    return CaseRecord(case_id=case_id, **{**facts, **more})


def run(cases: Mapping[str, Cell], run_id: str = "run", **more: Any) -> RunRecord:
    rows = {}
    for name, cell in cases.items():
        counts = cell if isinstance(cell, tuple) else (cell,)
        rows[name] = cell if isinstance(cell, CaseRecord) else row(name, *counts)
    facts = {
        "schema_version": "1.2.0", "dataset_id": "shop", "key": "k1", "started_at": "2026-11-20T08:00:00Z",
    }  # fmt: skip
    return RunRecord(HistoryRun(run_id=run_id, cases=len(rows), **{**facts, **more}), rows)


def runs(cases: Mapping[str, Sequence[Cell] | Cell], number: int = 20) -> list[RunRecord]:
    """Main's last runs, the newest first; a list has a case's cells by run."""
    at = [
        {c: cell[k] if isinstance(cell, list) else cell for c, cell in cases.items()} for k in range(number)
    ]
    return [run(each, f"main-{number - k}") for k, each in enumerate(at)]


def asked(
    now: Mapping[str, Cell],
    main: Sequence[RunRecord] = (),
    *,
    policy: GatePolicy | None = None,
    may_rerun: bool = True,
    left_out: Excuses | None = None,
    **counts: Any,
) -> Question:
    baseline = counts.pop("baseline", main[0] if main else None)
    newest = counts.pop("newest", None)
    return question(
        Counts(own=run(now, "now"), main=main, baseline=baseline, newest=newest), policy or GatePolicy(),
        left_out or Excuses(), seed="c0ffee", may_rerun=may_rerun,
    )  # fmt: skip


Told = Rerun | list[Rerun] | Callable[[int], Rerun]
"""What every trial of a case on one side gives; a list has them in turn, the last again and again."""


@dataclass
class Script:
    """A runner whose trials are written down: by side and case, else `otherwise`.

    It stops with `Cut` after `most` trials. `log` has each trial as side and case.
    """

    change: Mapping[str, Told] = field(default_factory=dict)
    base: Mapping[str, Told] = field(default_factory=dict)
    otherwise: Rerun = PASSED
    most: int = 10_000
    alterations: Mapping[Side, str] = field(default_factory=dict)
    rounds: Callable[[Side, int], Mapping[str, TrialCounts]] | None = None
    figures: Mapping[Side, Figures] = field(default_factory=dict)
    log: list[tuple[Side, str]] = field(default_factory=list)
    suites: list[tuple[str, tuple[Side, ...]]] = field(default_factory=list)

    def trials(self, slug: str, side: Side, case_ids: Sequence[str]) -> Mapping[str, Rerun]:
        results = {}
        for case_id in case_ids:
            if len(self.log) >= self.most:
                raise Cut("the time of the run was used up")
            told = (self.change if side == "change" else self.base).get(case_id, self.otherwise)
            number = sum(done == (side, case_id) for done in self.log)
            self.log.append((side, case_id))
            if callable(told):
                told = told(number)
            results[case_id] = told[min(number, len(told) - 1)] if isinstance(told, list) else told
        return results

    def whole_suite(self, slug: str, sides: Sequence[Side]) -> tuple[SuiteRound, Mapping[Side, Figures]]:
        number = len(self.suites)
        self.suites.append((slug, tuple(sides)))
        assert self.rounds is not None, "no round was expected"
        counts = {side: dict(self.rounds(side, number)) for side in sides}
        return SuiteRound(base=counts.get("base", {}), change=counts.get("change", {})), self.figures

    def altered(self, slug: str) -> Mapping[Side, str]:
        return self.alterations

    def times(self, side: Side, case_id: str) -> int:
        return sum(done == (side, case_id) for done in self.log)


def counts_of(passed: Mapping[str, int], trials: int = 1) -> dict[str, TrialCounts]:
    return {case_id: TrialCounts(passed=number, trials=trials) for case_id, number in passed.items()}


def reference(record: RunRecord, **summary: Any) -> RunReference:
    cases = record.cases.values()
    passed = sum(each.passed == each.trials > 0 for each in cases)
    facts = {
        "run_id": record.run.run_id, "dataset_id": "shop", "total_cases": len(record.cases),
        "passed_cases": passed, "failed_cases": len(record.cases) - passed, "hard_fail_cases": 0,
        "pass_rate": passed / max(1, len(record.cases)), "hard_fail_rate": 0.0,
    }  # fmt: skip
    return RunReference(
        run_id=record.run.run_id, dataset_id="shop", summary=RunSummary(**{**facts, **summary})
    )


def material(
    now: Mapping[str, Cell],
    main: Sequence[RunRecord] = (),
    *,
    summary: Mapping[str, Any] | None = None,
    **more: Any,
) -> Material:
    own, baseline = run(now, "now"), more.pop("baseline", main[0] if main else None)
    counts = Counts(own=own, main=main, baseline=baseline, newest=more.pop("newest", None))
    facts = {"run": reference(own, **(summary or {})), "comparison": None, "counts": counts, "seed": "c0ffee"}
    return Material(**{**facts, "may_rerun": True, **more})
