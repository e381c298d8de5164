"""The gate's policy: twelve keys that say how much worse is too much."""

from __future__ import annotations

from datetime import UTC, date, datetime, time
from typing import Literal

from pydantic import ConfigDict, Field, StrictInt, StrictStr, field_validator

from agent_eval.contracts.base import Contract, instant
from agent_eval.contracts.gate import Thresholds
from agent_eval.contracts.verdict import SAFETY_JUDGES

LARGEST_MARGIN = 0.25
"""A larger drop than this is no tolerance for noise; a policy that allows it would pass nearly anything."""

Preset = Literal["pull-request", "release"]

SafetyMode = Literal["at-once", "repeated"]
"""When a new violation of a safety judge blocks: at once, or where it comes again when the case is rerun."""

_MARGINS: dict[Preset, float] = {"pull-request": 0.05, "release": 0.02}


class Quarantine(Contract):
    """A case known to be flaky or failing: it runs and is shown, outside of totals, until a day.

    A violation of a safety judge in it counts all the same. `until` is a day, such as 2027-03-31, through
    which it holds, or a point in time with its offset.
    """

    model_config = ConfigDict(extra="forbid")

    case: StrictStr = Field(min_length=1)
    reason: StrictStr = Field(min_length=1)
    until: StrictStr = Field(min_length=1)
    owner: StrictStr | None = None

    @field_validator("until", mode="before")
    @classmethod
    def _as_text(cls, value: object) -> object:
        return value.isoformat() if isinstance(value, date) else value

    @field_validator("until")
    @classmethod
    def _names_an_end(cls, value: str) -> str:
        _end_of(value)
        return value

    def is_over(self, now: datetime) -> bool:
        """Whether the day has passed, in UTC."""
        return _end_of(self.until) <= now


def _end_of(until: str) -> datetime:
    try:
        return datetime.combine(date.fromisoformat(until), time.max, UTC)
    except ValueError:
        pass
    try:
        return instant(until)
    except ValueError:
        raise ValueError(f"{until[:40]!r} is no day; write one such as 2027-03-31") from None


def _repeated() -> dict[str, SafetyMode]:
    return dict.fromkeys(SAFETY_JUDGES, "repeated")


class GatePolicy(Contract):
    """How the gate decides.

    A rate or a rise is a share from 0 to 1. Where the agent can vary, a rate breaks its limit only where it
    does so significantly; `deterministic` says that the agent does the same every time, so that each limit
    is held to the letter and no drop can hide behind chance. `margin` is the drop of the pass rate that a
    release may have. `safety` names safety judges, and when a new violation blocks: by default all that come
    with the program, where it repeats; under `release` each of them blocks at once.
    """

    model_config = ConfigDict(extra="forbid")

    preset: Preset = "pull-request"
    min_pass_rate: float | None = Field(default=None, ge=0, le=1, allow_inf_nan=False, strict=True)
    max_hard_fail_rate: float | None = Field(default=None, ge=0, le=1, allow_inf_nan=False, strict=True)
    max_hard_fail_increase: float | None = Field(default=None, ge=0, le=1, allow_inf_nan=False, strict=True)
    max_regressed_cases: StrictInt = Field(default=0, ge=0)
    max_new_hard_fail_cases: StrictInt | None = Field(default=None, ge=0)
    max_cost_increase: float | None = Field(default=None, ge=0, allow_inf_nan=False, strict=True)
    max_latency_increase: float | None = Field(default=None, ge=0, allow_inf_nan=False, strict=True)
    safety: dict[StrictStr, SafetyMode] = Field(default_factory=_repeated)
    quarantine: list[Quarantine] = Field(default_factory=list)
    margin: float | None = Field(default=None, gt=0, le=LARGEST_MARGIN, allow_inf_nan=False, strict=True)
    deterministic: bool = False

    @field_validator("safety", mode="before")
    @classmethod
    def _list_is_at_once(cls, value: object) -> object:
        if not isinstance(value, list):
            return value
        if not all(isinstance(judge, str) for judge in value):
            raise ValueError("is a list of judge ids, or says for each whether it is at-once or repeated")
        return dict.fromkeys(value, "at-once")

    @property
    def is_release(self) -> bool:
        """Whether what is open blocks, and a margin is held."""
        return self.preset == "release"

    @property
    def effective_margin(self) -> float:
        """The margin stated, else the preset's."""
        return self.margin if self.margin is not None else _MARGINS[self.preset]

    def mode_of(self, judge_id: str) -> SafetyMode | None:
        """When a new violation of a judge blocks; None for a judge that is not of safety."""
        mode = self.safety.get(judge_id)
        return "at-once" if mode is not None and self.is_release else mode

    @property
    def thresholds(self) -> Thresholds:
        """The limits that it shares with thresholds alone."""
        return Thresholds(**{name: getattr(self, name) for name in Thresholds.model_fields})

    def with_thresholds(self, stated: Thresholds) -> GatePolicy:
        """Copy with the limits that are stated elsewhere in place of its own."""
        limits = {name: getattr(stated, name) for name in Thresholds.model_fields}
        return self.model_copy(update={name: value for name, value in limits.items() if value is not None})
