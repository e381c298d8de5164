"""How a run was made: the part of the suite that was judged, and the agent with everything that bounds it.

A value that a run does not have is absent from `run/config.json`, and one that a pack does not have stays
absent when a later version merges the pack, judges it again or converts it.
"""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field, StrictBool, StrictInt, StrictStr

from agent_eval.contracts.base import Contract, SparseContract


class AttemptLimits(SparseContract):
    """What one attempt of an agent may use; None is without limit.

    Attributes:
        output_bytes: What it may write or answer, each piece of it.
        steps: Answers of a model.
        tokens: Input and output tokens, as reported.
    """

    _writes_none = True

    seconds: float | None = Field(default=30.0, ge=0, allow_inf_nan=False)
    output_bytes: StrictInt = Field(default=8 << 20, gt=0)
    steps: StrictInt | None = Field(default=50, ge=0)
    tool_calls: StrictInt | None = Field(default=200, ge=0)
    tokens: StrictInt | None = Field(default=None, ge=0)

    def in_full(self) -> AttemptLimits:
        """Copy the limits with every default set, so that a pack names each of them."""
        return AttemptLimits(**dict(self))


class TrialLimits(SparseContract):
    """What one trial of a case may use, all its attempts together; None is without limit.

    Attributes:
        seconds: Time in the agent's hands; time in this program's queue and before a retry does not count.
        steps: Events of the agent: its messages and tool calls.
        cost_usd: US dollars, recorded or by published prices.
    """

    seconds: float | None = Field(default=None, ge=0, allow_inf_nan=False)
    steps: StrictInt | None = Field(default=None, ge=0)
    tool_calls: StrictInt | None = Field(default=None, ge=0)
    tokens: StrictInt | None = Field(default=None, ge=0)
    cost_usd: float | None = Field(default=None, ge=0, allow_inf_nan=False)


class RunLimits(Contract, frozen=True):
    """What a whole run may use; None is without limit. They change no verdict, only where a run stops.

    Attributes:
        seconds: Time since the start of this process, not of the first start of a resumed run.
        cost_usd: US dollars, also of earlier starts.
    """

    seconds: float | None = Field(default=None, ge=0, allow_inf_nan=False)
    cost_usd: float | None = Field(default=None, ge=0, allow_inf_nan=False)


MOST_TRIALS = 1000
"""Trials that a case may have in one run."""


class AgentDescription(SparseContract):
    """What `Agent.describe` says of an agent: its kind, and whatever that kind needs to be run again."""

    agent: StrictStr

    @property
    def kind(self) -> str:
        """The name of the kind in `agents.catalog`."""
        return self.agent


class SuiteShard(SparseContract):
    """One of `count` parts of a suite, made with `--shard`; `number` counts from 1.

    `positions` says which of the `total` cases of all parts are in this one (`suites.select.decode_positions`
    reads it), so that `merge` can restore the order of the suite.
    """

    number: StrictInt
    count: StrictInt | None = None
    total: StrictInt
    positions: StrictStr


class RejudgedFrom(SparseContract):
    """The pack whose trajectories were judged again: the name of its run, the sha256 of its manifest."""

    run_id: StrictStr
    manifest_sha256: StrictStr


class ExecutionConfig(SparseContract):
    """`execution_config` in `run/config.json`: which cases were run, and how.

    A run of recorded traces has at most `selected_cases`, `shard` and `case_policy`. Limits of the whole run
    and the number of cases at once are not recorded: they change no verdict.

    Attributes:
        selected_cases: The ids that were asked for, sorted; absent where all cases were.
        judge_code: Digests of the code of judges that are not built in, by judge id; absent where all are.
        agent: The agent under test; absent, with all that follows up to `cassette`, for recorded traces.
        strict_side_effects: Whether a tool call without an answer failed the attempt.
        tool_server: Live tools, as `module:function` or an address.
        cassette: What was done with the recorded answers of live tools.
        redacted_cases: In how many cases something was replaced by `[redacted:NAME]`; absent for none.
        redactions: How many replacements there are in them; absent for none, and in packs of 0.1.0.
        simulator: The model that played the users of conversations, and its prompt; absent for none.
        damaged_records: Records of finished trials that something damaged before the run was resumed; these
            trials were run again. Absent for none. The agent under test can have done that.
        trials_not_run: Trials that the run ended before, at a limit or in an outage; absent for none.
    """

    selected_cases: list[StrictStr] | None = None
    shard: SuiteShard | None = None
    case_policy: StrictStr | None = None
    judge_code: dict[StrictStr, StrictStr] | None = None
    agent: AgentDescription | None = None
    trials: StrictInt = Field(default=1, ge=1, le=MOST_TRIALS)
    max_repairs: StrictInt = Field(default=0, ge=0)
    strict_side_effects: StrictBool = False
    share_expected_output: StrictBool = False
    attempt_limits: AttemptLimits = Field(default_factory=AttemptLimits)
    case_limits: TrialLimits = Field(default_factory=TrialLimits)
    tool_server: StrictStr | None = None
    cassette: Literal["record", "replay", "update"] | None = None
    rejudged_from: RejudgedFrom | None = None
    simulator: dict[StrictStr, Any] | None = None
    redacted_cases: StrictInt | None = Field(default=None, ge=0)
    redactions: StrictInt | None = Field(default=None, ge=0)
    damaged_records: StrictInt | None = Field(default=None, ge=0)
    trials_not_run: StrictInt | None = Field(default=None, ge=0)

    def with_redactions(self, cases: int, replacements: int) -> ExecutionConfig:
        """Copy with the number of cases in which something was replaced, and of the replacements."""
        return self.model_copy(update={"redacted_cases": cases or None, "redactions": replacements or None})

    def of_whole_suite(
        self, redacted_cases: int = 0, redactions: int = 0, damaged_records: int = 0
    ) -> ExecutionConfig:
        """Copy for the run of which this is a shard, with the counts of all shards."""
        whole = self.with_redactions(redacted_cases, redactions)
        return whole.model_copy(update={"shard": None, "damaged_records": damaged_records or None})
