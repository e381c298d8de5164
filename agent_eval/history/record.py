"""Make the record of a run from its evidence."""

from __future__ import annotations

from collections import Counter

from agent_eval.contracts import CaseIndexRow, CaseResultRow, Outcome
from agent_eval.contracts.history import CaseRecord, HistoryRun, RunRecord
from agent_eval.contracts.verdict import TrialResultRow, row_fault
from agent_eval.errors import FailureKind, Fault
from agent_eval.evidence.reader import Pack
from agent_eval.history.key import history_key

DEFINITION_LENGTH = 12
_FAILED = Outcome.FAILED.value
_UNTOLD = (Outcome.ERROR.value, Outcome.INCONCLUSIVE.value)

INCONCLUSIVE = "inconclusive"
"""As a kind of miss: a judge looked and could not tell."""

NOT_JUDGED = "not_judged"
"""As what a trial was lost to: no judge had anything to judge."""

_NOT_OF_THE_AGENT = frozenset(
    {
        FailureKind.JUDGE_ERROR.value,
        FailureKind.SIMULATOR_ERROR.value,
        FailureKind.ENVIRONMENT.value,
        FailureKind.INFRASTRUCTURE.value,
    }
)
"""Kinds of failure that are never why the agent missed."""


def record_of(pack: Pack) -> RunRecord:
    """Count what a verified pack says of each case."""
    config, index = pack.config, pack.index_by_id()
    cases = {row["case_id"]: case_record(row, index[row["case_id"]]) for row in pack.results()}
    run = HistoryRun(
        schema_version=config.schema_version,
        run_id=config.run_id,
        dataset_id=config.dataset_id,
        key=history_key(config),
        started_at=config.started_at,
        cases=len(cases),
        model=config.model,
        git_commit=config.git_commit,
        manifest_sha256=pack.manifest_sha256,
    )
    return RunRecord(run, dict(sorted(cases.items())))


def case_record(row: CaseResultRow, index: CaseIndexRow) -> CaseRecord:
    """Count what the result of a case, and its row of the index, say of it."""
    lost: Counter[str] = Counter()
    missed: Counter[str] = Counter()
    passed = 0
    failing: Counter[str] = Counter()
    untold: Counter[str] = Counter()
    hard_failed = 0
    trials: list[CaseResultRow | TrialResultRow] = [*(row.get("trials") or [row])]
    for trial in trials:
        hard_failed += trial["hard_failed"]
        failing.update(
            {verdict["judge_id"] for verdict in trial["verdicts"] if verdict["outcome"] == _FAILED}
        )
        untold.update({verdict["judge_id"] for verdict in trial["verdicts"] if verdict["outcome"] in _UNTOLD})
        if trial["passed"]:
            passed += 1
        elif (why := lost_to(trial)) is not None:
            lost[why] += 1
        else:
            missed[_kind_of_miss(trial)] += 1
    counts = {
        name: dict(sorted(count.items()))
        for name, count in (("lost", lost), ("missed", missed), ("failing", failing), ("untold", untold))
    }
    figures = {
        "cost_usd": _rounded(index["cost_usd"], 6),
        "latency_ms": _rounded(index["latency_ms"], 0),
    }
    return CaseRecord(
        case_id=row["case_id"],
        definition=index["definition_digest"][:DEFINITION_LENGTH],
        passed=passed,
        scored=passed + missed.total(),
        **({"hard_failed": hard_failed} if hard_failed else {}),
        **{name: value for name, value in counts.items() if value},
        **{name: value for name, value in figures.items() if value is not None},
    )


def lost_to(trial: CaseResultRow | TrialResultRow) -> str | None:
    """Tell what a trial that did not pass was lost to; None where it says something about the agent."""
    if trial["outcome"] == Outcome.SKIPPED.value:
        return NOT_JUDGED
    fault = row_fault(trial)
    return None if fault is None or fault is Fault.AGENT else fault.value


def _kind_of_miss(trial: CaseResultRow | TrialResultRow) -> str:
    """Name the kind of the first failure that is the agent's."""
    kinds = [str(verdict["failure"]) for verdict in trial["verdicts"] if verdict["failure"] is not None]
    if trial["outcome"] == Outcome.INCONCLUSIVE.value or not kinds:
        return INCONCLUSIVE
    return next((kind for kind in kinds if kind not in _NOT_OF_THE_AGENT), kinds[0])


def _rounded(figure: float | None, digits: int) -> float | None:
    return round(figure, digits) if figure is not None and figure >= 0 else None
