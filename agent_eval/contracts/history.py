"""The history of a branch: what each run counted of each case, small enough to be kept for a hundred runs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from pydantic import Field, StrictInt, StrictStr

from agent_eval.contracts.base import SparseContract

Count = Annotated[StrictInt, Field(ge=1)]


class CaseRecord(SparseContract, frozen=True):
    """What one run counted of one case: a line of the run's record, less than 200 bytes for a usual id.

    Attributes:
        definition: The first 12 digits of the digest of its definition: counts of another one are not added.
        scored: Trials that say something about the agent: they passed, or the agent is why they did not.
        lost: Trials that say nothing about the agent, by what they were lost to.
        missed: Scored trials that did not pass, by kind of failure.
        failing: Trials that a judge failed, by the judge's id.
        untold: Trials on which a judge gave an error or could not tell, by the judge's id.
        cost_usd: What the case cost in this run, in US dollars; absent when unknown.
        latency_ms: How long it took, in milliseconds; absent when unknown.
    """

    case_id: StrictStr
    definition: StrictStr
    passed: StrictInt = Field(ge=0)
    scored: StrictInt = Field(ge=0)
    lost: dict[StrictStr, Count] = Field(default_factory=dict)
    missed: dict[StrictStr, Count] = Field(default_factory=dict)
    failing: dict[StrictStr, Count] = Field(default_factory=dict)
    untold: dict[StrictStr, Count] = Field(default_factory=dict)
    hard_failed: StrictInt = Field(default=0, ge=0)
    cost_usd: float | None = Field(default=None, ge=0, allow_inf_nan=False)
    latency_ms: float | None = Field(default=None, ge=0, allow_inf_nan=False)

    @property
    def trials(self) -> int:
        """Trials that count for the gate: an error is a failure, and no fault excuses it.

        What no judge could judge, or could not tell, counts neither as passed nor as failed.
        """
        unjudged = self.lost.get("judge", 0) + self.lost.get("not_judged", 0)
        return self.scored - self.missed.get("inconclusive", 0) + sum(self.lost.values()) - unjudged

    @property
    def is_consistent(self) -> bool:
        """Whether the scored trials are those that passed and those that missed."""
        return self.scored - self.passed == sum(self.missed.values())


class HistoryRun(SparseContract, frozen=True):
    """The first line of a run's record; one line for each case follows.

    Attributes:
        key: Digest of the setup: only runs of one key say the same (`history.records`).
        manifest_sha256: Digest of the evidence from which the record was made.
        run_url: Address of the CI run.
    """

    schema_version: StrictStr
    run_id: StrictStr = Field(min_length=1)
    dataset_id: StrictStr
    key: StrictStr
    started_at: StrictStr
    cases: StrictInt = Field(ge=0)
    model: StrictStr = "unknown"
    git_commit: StrictStr | None = None
    manifest_sha256: StrictStr | None = None
    run_url: StrictStr | None = None


@dataclass(frozen=True)
class RunRecord:
    """One run of the history."""

    run: HistoryRun
    cases: dict[str, CaseRecord]

    @property
    def pass_rate(self) -> float | None:
        """Mean over the cases of the share of scored trials that passed; None where none was scored."""
        shares = [case.passed / case.scored for case in self.cases.values() if case.scored]
        return sum(shares) / len(shares) if shares else None
