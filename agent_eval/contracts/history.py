"""The history of a branch: what each run counted of each case, small enough to be kept for a hundred runs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Literal, NamedTuple

from pydantic import Field, StrictInt, StrictStr

from agent_eval.contracts.base import SparseContract

Tier = Literal["blocking", "collecting", "tracked", "expected-fail", "quarantined"]
"""What the history of a case recommends that a gate makes of it; a reviewed policy decides."""

WINDOW = 20
"""Scored trials, the newest first in whole runs, from which a case's rate and tier are computed."""

PASSES_TO_BLOCK = 18
"""Of `WINDOW` trials: a case that passes as often may block a change."""

Count = Annotated[StrictInt, Field(ge=1)]


class CaseRecord(SparseContract, frozen=True):
    """What one run counted of one case: a line of the run's record, less than 200 bytes for a usual id.

    Example:
        >>> CaseRecord(case_id="refund", definition="9be1f04c11aa", passed=4, scored=4).to_json()
        {'case_id': 'refund', 'definition': '9be1f04c11aa', 'passed': 4, 'scored': 4}

    Attributes:
        case_id: The case.
        definition: The first 12 digits of the digest of its definition: counts of another one are not added.
        passed: Trials that passed.
        scored: Trials that say something about the agent: they passed, or the agent is why they did not.
        lost: Trials that say nothing about the agent, by what they were lost to.
        missed: Scored trials that did not pass, by kind of failure.
        cost_usd: What the case cost in this run, in US dollars; absent when unknown.
        latency_ms: How long it took, in milliseconds; absent when unknown.
    """

    case_id: StrictStr
    definition: StrictStr
    passed: StrictInt = Field(ge=0)
    scored: StrictInt = Field(ge=0)
    lost: dict[StrictStr, Count] = Field(default_factory=dict)
    missed: dict[StrictStr, Count] = Field(default_factory=dict)
    cost_usd: float | None = Field(default=None, ge=0, allow_inf_nan=False)
    latency_ms: float | None = Field(default=None, ge=0, allow_inf_nan=False)

    @property
    def is_consistent(self) -> bool:
        """Whether the scored trials are those that passed and those that missed."""
        return self.scored - self.passed == sum(self.missed.values())


class HistoryRun(SparseContract, frozen=True):
    """The first line of a run's record; one line for each case follows.

    Example:
        >>> facts = {"run_id": "ci-17", "dataset_id": "shop", "started_at": "2026-11-21T08:00Z"}
        >>> HistoryRun(schema_version="1.2.0", key="0f", cases=0, **facts).key
        '0f'

    Attributes:
        schema_version: Version of the format.
        run_id: The run.
        dataset_id: Its dataset.
        key: Digest of the setup: only runs of one key say the same (`history.key`).
        started_at: ISO 8601 with its offset.
        cases: Number of lines that follow.
        model: The agent's model, as the run states it.
        git_commit: The commit that was evaluated; absent when unknown.
        manifest_sha256: Digest of the evidence from which the record was made.
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


def tier_of(passed: int, scored: int, declared: Tier | None = None) -> Tier:
    """Recommend the tier of a case from its newest trials.

    Example:
        >>> tier_of(18, 20), tier_of(17, 20), tier_of(19, 19)
        ('blocking', 'tracked', 'collecting')

    Args:
        passed: Trials that passed.
        scored: All that were scored.
        declared: What the policy says; it is never overruled.
    """
    if declared is not None:
        return declared
    if scored < WINDOW:
        return "collecting"
    return "blocking" if passed * WINDOW >= PASSES_TO_BLOCK * scored else "tracked"


class PooledCase(NamedTuple):
    """One case of a pooled baseline: passed and scored trials, of which there is at least one.

    Example:
        >>> PooledCase(runs=((1, 1), (0, 1)), own=(1, 1)).own
        (1, 1)
    """

    runs: tuple[tuple[int, int], ...]
    """In each pooled run."""
    own: tuple[int, int]
    """In the run that is held against them."""


@dataclass(frozen=True)
class PooledRuns:
    """Runs of the base branch that a run is held against, instead of against one of them.

    Example:
        >>> PooledRuns(run_ids=("ci-1",), cases={}).run_ids
        ('ci-1',)

    Attributes:
        run_ids: Their ids, the newest first.
        cases: What they counted, by case id; each case is in every run.
        sha256: Digest of the file with their records; None where they are not kept.
    """

    run_ids: tuple[str, ...]
    cases: Mapping[str, PooledCase]
    sha256: str | None = None
