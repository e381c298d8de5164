"""Reruns: trials that a job ran again, by the change's agent and by the base's: `compare/reruns.json`."""

from __future__ import annotations

from typing import Literal

from pydantic import Field, StrictBool, StrictInt, StrictStr

from agent_eval.contracts.base import SCHEMA_VERSION, Contract, SparseContract

Side = Literal["base", "change"]

RerunResult = Literal["passed", "failed", "unjudged"]
"""Result of one rerun. An error of the agent or of what surrounds it is `failed`, on either side; `unjudged`:
no judge failed it, and one could not tell, also when the agent was run once more."""


class Rerun(SparseContract, frozen=True):
    """One trial that was run again.

    `failing` are the judges that failed it, `unjudged` those that gave an error or could not tell; `reason`
    is the first reason of a failure, redacted.
    """

    result: RerunResult
    failing: list[StrictStr] = Field(default_factory=list)
    unjudged: list[StrictStr] = Field(default_factory=list)
    reason: StrictStr = ""


class CaseReruns(SparseContract, frozen=True):
    """The reruns of one case, by side, in the order in which they were run."""

    case_id: StrictStr
    change: list[Rerun] = Field(default_factory=list)
    base: list[Rerun] = Field(default_factory=list)

    @property
    def failing(self) -> list[str]:
        """Judges that failed a trial of the change."""
        return sorted({judge_id for trial in self.change for judge_id in trial.failing})


class TrialCounts(Contract):
    """How many trials passed, of how many that were judged."""

    passed: StrictInt = Field(ge=0)
    trials: StrictInt = Field(ge=0)


class SuiteRound(Contract):
    """One more run of the whole suite by each side, by case id."""

    base: dict[StrictStr, TrialCounts] = Field(default_factory=dict)
    change: dict[StrictStr, TrialCounts] = Field(default_factory=dict)


class Figures(SparseContract, frozen=True):
    """What the whole suite took in one round: cost in US dollars and time in milliseconds, by case id."""

    cost_usd: dict[StrictStr, float] = Field(default_factory=dict)
    latency_ms: dict[StrictStr, float] = Field(default_factory=dict)


class Spending(Contract):
    """Trials of both sides, the minutes they took, and what they cost; null where that is unknown."""

    trials: StrictInt = Field(default=0, ge=0)
    minutes: float | None = Field(default=None, ge=0, allow_inf_nan=False)
    cost_usd: float | None = Field(default=None, ge=0, allow_inf_nan=False)


class OtherSuites(Contract):
    """The other suites of the job, which share one correction: how many, and the p values of their cases.

    `steady`: of cases that passed steadily on main. `others`: of the rest.
    """

    suites: StrictInt = Field(default=0, ge=0)
    steady: list[float] = Field(default_factory=list)
    others: list[float] = Field(default_factory=list)


class Reruns(Contract):
    """What a job ran again for one suite, and under which conditions.

    Attributes:
        commit: The change; with a case's id it draws the order of cases that are alike.
        base_commit: Commit of the base; None where it did not run here.
        base_runs: How the base's agent ran: `beside` in a place of its own on this machine, `isolated` at an
            address or in an image that the tip names, `none` not at all.
        base_problem: Why the base's agent cannot run, as a clause; None where it can, or was not needed.
        altered: Why no trial of a side counts, as a clause, by side.
        agent_unchanged: Whether no file of the agent differs from the base, so that nothing was run.
        safety: Cases with a violation of a safety judge, run again by the change alone.
        cases: Cases that newly fail, run again by both.
        control: Cases that the change passes, run once more by the base, to tell whether it runs at all.
        rounds: Runs of the whole suite by both.
        late: Cases beyond the budget that the change passed in none of the rounds, run again after them.
        new: New cases, run once by the base: one that it passes too tells nothing apart. For the report.
        by_main: Cases that the change alters or removes, run by its agent and judged as main defines them.
        figures: Cost and time of one run of the suite by each side, where a limit of them was in doubt.
        cut: What ended the reruns early, as a clause; None where nothing did.
        others: The job's other suites.
        spent: What the reruns took.
        baseline_manifest_sha256: Digest of the baseline's pack.
        candidate_manifest_sha256: Digest of the pack of the run that raised the question.
        evidence_sha256: Digest of the archive with the packs of the reruns.
    """

    schema_version: StrictStr = SCHEMA_VERSION
    commit: StrictStr = ""
    base_commit: StrictStr | None = None
    base_runs: Literal["beside", "isolated", "none"] = "none"
    base_problem: StrictStr | None = None
    altered: dict[Side, StrictStr] = Field(default_factory=dict)
    agent_unchanged: StrictBool = False
    safety: list[CaseReruns] = Field(default_factory=list)
    cases: list[CaseReruns] = Field(default_factory=list)
    control: list[CaseReruns] = Field(default_factory=list)
    rounds: list[SuiteRound] = Field(default_factory=list)
    late: list[CaseReruns] = Field(default_factory=list)
    new: list[CaseReruns] = Field(default_factory=list)
    by_main: list[CaseReruns] = Field(default_factory=list)
    figures: dict[Side, Figures] = Field(default_factory=dict)
    cut: StrictStr | None = None
    others: OtherSuites = Field(default_factory=OtherSuites)
    spent: Spending = Field(default_factory=Spending)
    baseline_manifest_sha256: StrictStr | None = None
    candidate_manifest_sha256: StrictStr | None = None
    evidence_sha256: StrictStr | None = None
