"""The gate's policy, `gate.yml`: how much worse is too much, and what follows when that is undecided."""

from __future__ import annotations

from typing import Annotated, Literal, Self

from pydantic import (
    ConfigDict,
    Field,
    StrictInt,
    StrictStr,
    ValidationInfo,
    field_validator,
    model_validator,
)

from agent_eval.contracts.base import Contract
from agent_eval.contracts.gate import Thresholds
from agent_eval.contracts.verdict import ZERO_TOLERANCE

LARGEST_MARGIN = 0.25
"""A larger drop than this is no tolerance for noise; a policy that allows it would pass nearly anything."""

Preset = Literal["pull-request", "release"]

Ceiling = Annotated[float, Field(gt=0, le=LARGEST_MARGIN, allow_inf_nan=False)]

MAX_BASELINE_ERROR_RATE = 0.2
"""The default of `GatePolicy.max_baseline_error_rate`."""

MAX_LOST_SHARE = 0.2
"""The default of `GatePolicy.max_lost_share`."""


class Quarantine(Contract):
    """A case known to be flaky: it runs and is reported, but is counted apart.

    `expires_at` is ISO 8601 with its offset; after it the case counts again. A policy file must state it.
    Quarantine never hides a failure of a zero-tolerance judge.

    Example:
        >>> Quarantine(case_id="refund-7", reason="the sandbox times out").expires_at is None
        True
    """

    model_config = ConfigDict(extra="forbid")

    case_id: StrictStr = Field(min_length=1)
    reason: StrictStr = Field(min_length=1)
    owner: StrictStr | None = None
    expires_at: StrictStr | None = None


class GatePolicy(Contract):
    """How the gate decides beyond fixed thresholds.

    A preset fills in what is left out: `pull-request` has margin 0.05 and warns when the evidence does not
    decide, `release` has margin 0.02 and blocks. `margin` is the drop of the pass rate that would still be
    acceptable, a share. `alpha` bounds the chance of calling noise a regression: once for the tests over
    suite, judges and topics together, and once for the cases that fresh trials confirm. `confidence` is that
    of the printed two-sided interval, whose upper end must stay below the margin.
    A new failure of a judge in `zero_tolerance` blocks at once, unless the judge is also in
    `zero_tolerance_repeat` or `zero_tolerance_ceiling`; a release ignores these two.

    Example:
        >>> GatePolicy(preset="release").effective_margin
        0.02
    """

    model_config = ConfigDict(extra="forbid")

    schema_version: StrictStr | None = None
    preset: Preset = "pull-request"
    margin: float | None = Field(default=None, gt=0, le=LARGEST_MARGIN, allow_inf_nan=False)
    on_inconclusive: Literal["warn", "block"] | None = None
    alpha: float = Field(default=0.05, ge=0.001, lt=0.5, allow_inf_nan=False)
    confidence: float = Field(default=0.95, ge=0.8, lt=1, allow_inf_nan=False)
    power: float = Field(default=0.8, gt=0, lt=1, allow_inf_nan=False)
    zero_tolerance: list[StrictStr] = Field(default_factory=lambda: list(ZERO_TOLERANCE))
    zero_tolerance_repeat: list[StrictStr] = Field(default_factory=list)
    """Those of `zero_tolerance` whose new failure blocks only if it repeats in fresh trials."""
    zero_tolerance_ceiling: dict[StrictStr, Ceiling] = Field(default_factory=dict)
    """Share of the judged cases that a judge of `zero_tolerance` may newly fail before it blocks."""
    deterministic: bool = False
    """Whether the agent is declared to do the same every time, so that no drop can hide behind chance."""
    max_new_error_cases: StrictInt = Field(default=0, ge=0)
    """How many cases may end in an error that did not in the baseline."""
    max_baseline_error_rate: float = Field(default=MAX_BASELINE_ERROR_RATE, ge=0, le=1, allow_inf_nan=False)
    """The share of cases that may end in an error in a run that is to be a baseline."""
    max_lost_share: float = Field(default=MAX_LOST_SHARE, ge=0, le=1, allow_inf_nan=False)
    """The share of a run's trials that may be lost through no fault of the agent."""
    on_case_removed: Literal["warn", "fail"] = "warn"
    thresholds: Thresholds = Field(default_factory=Thresholds)
    quarantine: list[Quarantine] = Field(default_factory=list)
    tracked: list[StrictStr] = Field(default_factory=list)
    """Ids of cases that are flaky, or measure what the agent may learn: they run, are shown, and never block
    by themselves, and the tests over the suite count them. A zero-tolerance judge blocks in any case."""
    expected_fail: list[StrictStr] = Field(default_factory=list)
    """Ids of cases that the agent is known not to pass yet. Like those in `tracked`, they never block by
    themselves; after three passes in a row on the base branch a report asks to promote them."""

    @field_validator("expected_fail")
    @classmethod
    def _in_one_list(cls, case_ids: list[str], info: ValidationInfo) -> list[str]:
        tracked = set(info.data.get("tracked", ()))
        for case_id in case_ids:
            if case_id in tracked:
                raise ValueError(f"case {case_id[:80]!r} is in `tracked` as well; keep it in one of them")
        return case_ids

    @model_validator(mode="after")
    def _check_softened(self) -> Self:
        """Refuse to soften a judge that has no zero tolerance, or one in two ways."""
        repeat = self.zero_tolerance_repeat
        for key, names in (("repeat", repeat), ("ceiling", list(self.zero_tolerance_ceiling))):
            for name in names:
                if name not in self.zero_tolerance:
                    raise ValueError(
                        f"zero_tolerance_{key} names {name[:200]!r}, which is not in zero_tolerance"
                    )
        both = sorted(set(repeat).intersection(self.zero_tolerance_ceiling))
        if both:
            raise ValueError(
                f"{both[0][:200]!r} is in zero_tolerance_repeat and in zero_tolerance_ceiling; choose one"
            )
        return self

    def overridden(
        self, *, preset: Preset | None = None, max_baseline_error_rate: float | None = None
    ) -> GatePolicy:
        """Copy the policy with what flags state in place of its own; None states nothing."""
        stated = {"preset": preset, "max_baseline_error_rate": max_baseline_error_rate}
        return self.model_copy(update={name: value for name, value in stated.items() if value is not None})

    @property
    def never_blocking(self) -> frozenset[str]:
        """Ids of the cases that do not block by themselves: those tracked, and those expected to fail."""
        return frozenset((*self.tracked, *self.expected_fail))

    @property
    def effective_margin(self) -> float:
        """The margin stated, else the preset's."""
        return self.margin if self.margin is not None else _MARGINS[self.preset]

    @property
    def repeated(self) -> frozenset[str]:
        """Judges whose new failures are run again before they block. None for a release, which blocks."""
        return frozenset() if self.preset == "release" else frozenset(self.zero_tolerance_repeat)

    @property
    def ceilings(self) -> dict[str, float]:
        """The share of cases that a judge may newly fail, by judge. None for a release, which blocks."""
        return {} if self.preset == "release" else dict(self.zero_tolerance_ceiling)

    @property
    def blocks_on_inconclusive(self) -> bool:
        """Whether an inconclusive decision stops the change. It always stops a release."""
        return self.preset == "release" or self.on_inconclusive == "block"


_MARGINS: dict[Preset, float] = {"pull-request": 0.05, "release": 0.02}
