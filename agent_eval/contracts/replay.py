"""The reports of `replay`, which judges a pack again, or with `--run-agent` runs its agent again."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field, StrictStr

from agent_eval.contracts.base import SCHEMA_VERSION, Contract
from agent_eval.contracts.run import RunSummary


class ReplayedVerdict(Contract):
    """A judge with another verdict: outcome and, where there is one, the kind of failure."""

    trial: int
    judge_id: StrictStr
    saved: StrictStr
    replayed: StrictStr


class CaseMismatch(Contract):
    """A case whose result differs; `fields` names its fields that do, beside the verdicts in `judges`."""

    case_id: StrictStr
    saved_passed: bool
    replayed_passed: bool
    saved_hard_failed: bool
    replayed_hard_failed: bool
    judges: list[ReplayedVerdict]
    fields: list[StrictStr] = Field(default_factory=list)


class TraceMismatch(Contract):
    """A case whose trajectory differs. `difference` is that of the first such `trial`, counted from 0."""

    case_id: StrictStr
    trial: int
    saved_selected_attempt: int | None
    replayed_selected_attempt: int | None
    saved_event_count: int
    replayed_event_count: int
    difference: StrictStr


class EnvironmentMismatch(Contract):
    """A part of the pinned environment that was different when the pack was made."""

    field: StrictStr
    saved: Any
    current: Any


class PinnedDifference(EnvironmentMismatch):
    """A pin that differs, and whether `--allow-env-drift` allows it to."""

    allowed: bool = False


class ReplayReport(Contract):
    """Whether judging the trajectories of a pack again gives the same results, in the same environment.

    `replay_passed` is true only if the summary, every verdict of every case and every pin are the same;
    differences of pins that `env_drift_allowed` names do not count. `judges_from` says on whose word the
    judges ran: `pack` for built-in judges that start no program, `signed pack` for all judges of a pack whose
    signature was verified, `command line` for judges that the user named. `pins_of_agent` repeats what the
    pack records of the agent and its inputs; a replay runs no agent, so it compares none of it.
    """

    schema_version: StrictStr = SCHEMA_VERSION
    run_id: StrictStr
    dataset_id: StrictStr
    manifest_sha256: StrictStr
    generated_at: StrictStr
    judges: list[StrictStr]
    judges_from: Literal["pack", "signed pack", "command line"]
    cases: int
    replay_passed: bool
    summary_match: bool
    saved_summary: RunSummary
    replayed_summary: RunSummary
    case_mismatches: list[CaseMismatch] = Field(default_factory=list)
    env_match: bool
    env_mismatches: list[PinnedDifference] = Field(default_factory=list)
    env_drift_allowed: list[StrictStr] = Field(default_factory=list)
    pins: dict[str, Any] = Field(default_factory=dict)
    """Environment in which the pack was judged; each of these was compared with that of the replay."""
    pins_of_agent: dict[str, Any] = Field(default_factory=dict)
    redacted_cases: int = 0
    """Cases in which the pack has text without its secrets, which its judges saw; they may differ by that."""


class ReplayExecReport(Contract):
    """Whether the agent did the same again, and got the same verdicts.

    `replay_passed` is the same as `execution_replay_passed`, under the name that every report of a replay
    has. `trusted_by` says why the agent could be run: `command line`, `made here`, `named digest`, or
    `nothing run` for a recording.
    """

    schema_version: StrictStr = SCHEMA_VERSION
    run_id: StrictStr
    dataset_id: StrictStr
    manifest_sha256: StrictStr
    generated_at: StrictStr
    agent: dict[str, Any]
    trusted_by: StrictStr
    cases: int
    execution_replay_passed: bool
    replay_passed: bool
    summary_match: bool
    saved_summary: RunSummary
    replayed_summary: RunSummary
    case_mismatches: list[CaseMismatch] = Field(default_factory=list)
    trace_mismatches: list[TraceMismatch] = Field(default_factory=list)
    env_mismatches: list[EnvironmentMismatch] = Field(default_factory=list)
    environment_counts: bool = True
    """Whether the replay fails where the environment differs."""
