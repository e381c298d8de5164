"""Records of runs, written as sentences."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

from agent_eval.contracts.history import CaseRecord, HistoryRun, RunRecord

BEGUN = datetime(2026, 11, 1, 8, tzinfo=UTC)


def made_run(number: int, cases: dict[str, tuple[int, int]], **fields: Any) -> RunRecord:
    """Run `number`, a day after the one before: passed and scored trials by case."""
    run = HistoryRun(
        **{"schema_version": "1.2.0", "run_id": f"ci-{number}", "dataset_id": "shop", "key": "0f" * 8,
           "started_at": (BEGUN + timedelta(days=number)).isoformat(), "cases": len(cases),
           "git_commit": f"{number:040x}", **fields},
    )  # fmt: skip
    return RunRecord(run, {case_id: made_case(case_id, *counts) for case_id, counts in cases.items()})


def made_case(case_id: str, passed: int, scored: int, **fields: Any) -> CaseRecord:
    """A case, whose misses are violations of the policy."""
    missed = {"missed": {"policy_violation": scored - passed}} if scored > passed else {}
    return CaseRecord(
        **{
            "case_id": case_id, "definition": "ab" * 6, "passed": int(passed), "scored": scored, **missed,
            **fields,
        }
    )  # fmt: skip
