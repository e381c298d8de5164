"""What an agent may use: in one attempt, in all attempts at a case, and in a whole run.

A new limit is a field here, a row of the table of options with the same name in `goes_to`, and its use in the
engine.
"""

from __future__ import annotations

from pydantic import Field, StrictInt

from agent_eval.contracts.base import Contract, SparseContract


class AttemptLimits(SparseContract):
    """What one attempt of an agent may use; None is without limit.

    Example:
        >>> AttemptLimits(seconds=60, tool_calls=None).steps
        50

    Attributes:
        seconds: Time in the agent's hands, tools included.
        output_bytes: What it may write or answer, each piece of it.
        steps: Answers of a model.
        tool_calls: Calls of tools.
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

    Example:
        >>> TrialLimits(seconds=300, cost_usd=0.25).tokens is None
        True

    Attributes:
        seconds: Time in the agent's hands; time in this program's queue and before a retry does not count.
        steps: Events of the agent: its messages and tool calls.
        tool_calls: Calls of tools.
        tokens: Input and output tokens.
        cost_usd: US dollars, recorded or by published prices.
    """

    seconds: float | None = Field(default=None, ge=0, allow_inf_nan=False)
    steps: StrictInt | None = Field(default=None, ge=0)
    tool_calls: StrictInt | None = Field(default=None, ge=0)
    tokens: StrictInt | None = Field(default=None, ge=0)
    cost_usd: float | None = Field(default=None, ge=0, allow_inf_nan=False)


class RunLimits(Contract, frozen=True):
    """What a whole run may use; None is without limit. They change no verdict, only where a run stops.

    Example:
        >>> RunLimits(cost_usd=5.0).seconds is None
        True

    Attributes:
        seconds: Time since the start of this process, not of the first start of a resumed run.
        cost_usd: US dollars, also of earlier starts.
    """

    seconds: float | None = Field(default=None, ge=0, allow_inf_nan=False)
    cost_usd: float | None = Field(default=None, ge=0, allow_inf_nan=False)
