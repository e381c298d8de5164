"""What tool calls a case expects: the object in the case's `metadata.trajectory_match`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator

from agent_eval.judges.matching import Rules
from agent_eval.judges.patterns import InvalidPattern, compile_glob, compile_pattern
from agent_eval.judges.wording import quoted

Mode = Literal["exact", "in_order", "any_order", "subset", "superset"]

MAX_EXPECTED_CALLS = 500
"""Calls one case may expect."""


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True, frozen=True, allow_inf_nan=False)


class ArgumentRules(_Strict):
    """How arguments are compared; see `matching.Rules`. Set for a case, or for one call."""

    match: Literal["exact", "partial"] | None = None
    """`partial` allows more members than expected, at every level; null asks the judge's config."""
    tolerance: float | None = Field(default=None, ge=0)
    """By how much numbers may differ, absolutely."""
    ignore: list[str] = Field(default_factory=list)
    """Globs of places that are not compared: `request_id`, `*.created_at`, `items.*.id`."""
    patterns: dict[str, str] = Field(default_factory=dict)
    """RE2 patterns by place, instead of equality."""
    defaults: dict[str, Any] = Field(default_factory=dict)
    """Arguments that may be left out when they would have this value."""

    @field_validator("patterns")
    @classmethod
    def _usable(cls, patterns: dict[str, str]) -> dict[str, str]:
        for glob, pattern in patterns.items():
            _refuse_unusable(compile_glob, glob)
            _refuse_unusable(compile_pattern, pattern)
        return patterns

    @field_validator("ignore")
    @classmethod
    def _usable_globs(cls, globs: list[str]) -> list[str]:
        for glob in globs:
            _refuse_unusable(compile_glob, glob)
        return globs


def _refuse_unusable(compiled: Callable[[str], Any], text: str) -> None:
    try:
        compiled(text)
    except InvalidPattern as problem:
        raise ValueError(f"{quoted(text)}: {problem}; {problem.remedy}") from None


class ExpectedCall(ArgumentRules):
    """One call. Without `arguments` any will do; `{}` means none."""

    tool: str = Field(min_length=1)
    arguments: dict[str, Any] | None = None


class Count(_Strict):
    """How often a tool is called, both ends included."""

    min: int = Field(default=0, ge=0)
    max: int | None = Field(default=None, ge=0)

    @model_validator(mode="after")
    def _ordered(self) -> Count:
        if self.max is not None and self.max < self.min:
            raise ValueError(f"max {self.max} is less than min {self.min}")
        return self


class ExpectedTrajectory(ArgumentRules):
    """Everything a case expects of its tool calls. `calls: []` expects none; null says nothing of them."""

    mode: Mode | None = None
    """null asks the judge's config."""
    calls: list[ExpectedCall] | None = Field(default=None, max_length=MAX_EXPECTED_CALLS)
    forbidden: list[ExpectedCall] = Field(default_factory=list, max_length=MAX_EXPECTED_CALLS)
    """Calls that must not happen; their arguments are compared in part unless they say otherwise."""
    counts: dict[str, Count] = Field(default_factory=dict)

    @field_validator("counts", mode="before")
    @classmethod
    def _exact_counts(cls, counts: Any) -> Any:
        if not isinstance(counts, dict):
            return counts
        return {
            tool: {"min": count, "max": count} if type(count) is int else count
            for tool, count in counts.items()
        }


def rules_for(call: ExpectedCall, case: ArgumentRules, match: str, tolerance: float) -> Rules:
    """The rules of one call: its own, else its case's, else the given ones; lists add up."""
    own = call.match or case.match or match
    allowed = next((value for value in (call.tolerance, case.tolerance) if value is not None), tolerance)
    return Rules(
        partial=own == "partial",
        tolerance=allowed,
        ignore=(*case.ignore, *call.ignore),
        patterns={**case.patterns, **call.patterns},
        defaults={**case.defaults, **call.defaults},
    )
