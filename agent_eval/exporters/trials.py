"""The trials of a pack with their verdicts, one at a time: what every exporter writes a row or a test of."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from agent_eval.contracts.base import EARLIER
from agent_eval.contracts.suite import Case
from agent_eval.contracts.verdict import CaseResultRow, TrialResultRow
from agent_eval.evidence.reader import Pack


@dataclass(frozen=True, slots=True)
class JudgedTrial:
    """One trial of a case, with its verdicts; `result` is that of the case where it has one trial only."""

    case: CaseResultRow
    result: TrialResultRow
    number: int
    count: int

    @property
    def decides(self) -> bool:
        """Whether the result of the case is that of this trial."""
        return self.number == self.case["trial"]


def trials_of(case: CaseResultRow) -> list[JudgedTrial]:
    """List the trials of a case in order; the case itself where it has one trial."""
    trials: list[TrialResultRow] = case.get("trials") or []
    if not trials:
        return [JudgedTrial(case, case, case["trial"], 1)]
    return [JudgedTrial(case, trial, number, len(trials)) for number, trial in enumerate(trials)]


def trials_with_traces(pack: Pack) -> Iterator[tuple[JudgedTrial, Case]]:
    """Yield every trial of every case of a pack, in suite order, with the case as that trial recorded it."""
    for row in pack.results():
        case = Case.model_validate(pack.raw_trajectory(row["case_id"]), context=EARLIER)
        for trial in trials_of(row):
            yield trial, case.of_trial(trial.number)


def shard_name(pack: Pack) -> str | None:
    """Name the part of the suite that the pack holds, such as `3/8`; None if it holds all of it."""
    shard = pack.config.execution_config.shard
    if shard is None:
        return None
    return str(shard.number) if shard.count is None else f"{shard.number}/{shard.count}"
