"""Confirmation: fresh trials of cases that newly fail, by the candidate and by the merge base's agent."""

from __future__ import annotations

from typing import Literal

from pydantic import Field, StrictBool, StrictInt, StrictStr

from agent_eval.contracts.base import SCHEMA_VERSION, Contract
from agent_eval.contracts.history import Tier

FreshResult = Literal["passed", "failed", "lost"]
"""Result of a fresh trial. `lost`: it was not run or judged, for a reason that says nothing of the agent."""

SuspectVerdict = Literal["confirmed", "cleared", "not-yours", "inconclusive"]
"""What fresh trials say of a case that passed before and does not now.

`confirmed`: it got worse by this change. `cleared`: the failure did not repeat, or the agent is unchanged.
`not-yours`: it fails on the merge base as well. `inconclusive`: fresh trials do not tell.
"""


class CachedTrials(Contract):
    """Trials of the merge base that an earlier run made at the same commit, all of them passed.

    `packs` names them in the archive of the trials; `started_at` is when the oldest began.

    Example:
        >>> CachedTrials(packs=["base-cached-0-3"], started_at="2026-06-01T00:00:00+00:00").packs
        ['base-cached-0-3']
    """

    packs: list[StrictStr]
    started_at: StrictStr


class FreshTrials(Contract):
    """The fresh trials of one case, by side, in the order in which they were run.

    `cached` says which of the merge base's, the last ones, an earlier run made; null where none.
    `changed`: the case or its judges are defined otherwise than in the baseline. `why_lost` says why a trial
    was lost, as a clause. `candidate_failing` and `base_failing` have the judges that failed in each trial,
    `candidate_unjudged` and `base_unjudged` those that gave an error or could not tell. Records of older
    versions have none of the latter two: there it is not known that any judge could tell.
    Of its newest trials in runs of the base branch with this setup, `history_passed` of `history_scored`
    passed: where that admits every case as blocking, results are not corrected for their number.

    Example:
        >>> FreshTrials(case_id="refund", candidate=["failed"] * 6, base=["passed"] * 6).changed
        False
    """

    case_id: StrictStr
    candidate: list[FreshResult] = Field(default_factory=list)
    base: list[FreshResult] = Field(default_factory=list)
    candidate_failing: list[list[StrictStr]] = Field(default_factory=list)
    base_failing: list[list[StrictStr]] = Field(default_factory=list)
    candidate_unjudged: list[list[StrictStr]] = Field(default_factory=list)
    base_unjudged: list[list[StrictStr]] = Field(default_factory=list)
    changed: StrictBool = False
    history_passed: StrictInt = Field(default=0, ge=0)
    history_scored: StrictInt = Field(default=0, ge=0)
    why_lost: StrictStr = ""
    cached: CachedTrials | None = None


class NewCaseTrial(Contract):
    """A new case, and how the merge base's agent did on it in one trial.

    `candidate_passed` is from the candidate's first run. `base_failing` has the judges that failed in the
    trial, `why_lost` why it was lost, as a clause. A case that both pass tells the two agents not apart.

    Example:
        >>> NewCaseTrial(case_id="refund", candidate_passed=True, base="passed").tells_nothing_apart
        True
    """

    case_id: StrictStr
    candidate_passed: StrictBool
    base: FreshResult
    base_failing: list[StrictStr] = Field(default_factory=list)
    why_lost: StrictStr = ""

    @property
    def tells_nothing_apart(self) -> bool:
        """Whether both agents pass it."""
        return self.candidate_passed and self.base == "passed"


class ConfirmedSide(Contract):
    """One of the two agents: its commit, and the digest of what was run."""

    commit: StrictStr | None = None
    build_sha256: StrictStr | None = None


class Spending(Contract):
    """Trials of both sides, the minutes they took, and what they cost; null where that is unknown."""

    trials: StrictInt = Field(default=0, ge=0)
    minutes: float | None = Field(default=None, ge=0, allow_inf_nan=False)
    cost_usd: float | None = Field(default=None, ge=0, allow_inf_nan=False)


class Confirmation(Contract):
    """The record of a confirmation: `compare/confirmation.json`.

    `pairs` is the number of fresh trials of each side, `max_cases` the number of cases that may be run again.
    With `agent_unchanged` nothing was run: the sources of the agent are those of the merge base. `problem`
    says, as a sentence, why no fresh trial clears or confirms a case; empty where they do. What judges
    without tolerance failed in trials of the candidate counts all the same. `stopped` says why the trials
    ended early. `doubt_of_base` says, as a sentence, why the merge base's failures excuse none of the
    candidate's; empty where they may. The digests name the two packs whose comparison raised the question,
    and `evidence_sha256` the archive with the packs of the fresh trials. `new_cases` are those that the merge
    base's agent was run on once, and `new_problem` says why it was not run on all of them.

    Example:
        >>> Confirmation(pairs=6, max_cases=8, problem="The merge base does not build.").cases
        []
    """

    schema_version: StrictStr = SCHEMA_VERSION
    pairs: StrictInt = Field(ge=0)
    max_cases: StrictInt = Field(ge=0)
    agent_unchanged: StrictBool = False
    problem: StrictStr = ""
    stopped: StrictStr = ""
    doubt_of_base: StrictStr = ""
    cases: list[FreshTrials] = Field(default_factory=list)
    new_cases: list[NewCaseTrial] = Field(default_factory=list)
    new_problem: StrictStr = ""
    candidate: ConfirmedSide = Field(default_factory=ConfirmedSide)
    base: ConfirmedSide = Field(default_factory=ConfirmedSide)
    expected: Spending = Field(default_factory=Spending)
    spent: Spending = Field(default_factory=Spending)
    baseline_manifest_sha256: StrictStr | None = None
    candidate_manifest_sha256: StrictStr | None = None
    evidence_sha256: StrictStr | None = None


class SuspectResult(Contract):
    """What fresh trials say of one case, their counts, and one sentence. `p_value` is null without trials.

    `base_cached` of the merge base's trials were made by an earlier run. `tier` is what the history of the
    base branch recommends: `history_passed` of `history_scored` trials.
    """

    case_id: StrictStr
    tier: Tier = "collecting"
    history_passed: StrictInt = 0
    history_scored: StrictInt = 0
    verdict: SuspectVerdict
    candidate_passed: StrictInt = 0
    candidate_trials: StrictInt = 0
    base_passed: StrictInt = 0
    base_trials: StrictInt = 0
    base_cached: StrictInt = 0
    p_value: float | None = Field(default=None, ge=0, le=1)
    reason: StrictStr
