"""Coverage: which share of what the baseline judged is still compared, and by what the rest was lost."""

from __future__ import annotations

from typing import Literal

from pydantic import Field, StrictStr

from agent_eval.contracts.base import Contract

Cause = Literal[
    "removed",
    "changed",
    "helped",
    "baseline-error",
    "quarantined",
    "judge-gone",
    "judge-changed",
    "fewer-trials",
    "new-expectation",
    "waived",
    "lost",
    "lost-failing",
]
"""How a part of the baseline is lost to a comparison.

`removed`: the candidate has no case of that id (a renamed case is one). `changed`: the case asks something
else. `baseline-error`: the baseline could not be judged on the case, and the candidate does not pass it.
`judge-gone`: a judge does not judge any more, or finds nothing to judge where it passed the case.
`judge-changed`: it judges by another configuration, and the stored trajectories could not be judged by it.
`helped`: the agent was given what it was not in the baseline: the expected output, or more repairs after what
the judges said. `fewer-trials`: the candidate has fewer trials of the case than the baseline, and than it was
to have at its last look (`trials: auto`).
`new-expectation`: the case passes by today's definition and judges, and regresses by the baseline's.
`lost`: no trial of the candidate has a score, through no fault of the agent (`Fault`); `lost-failing`: the
same of a case that did not pass in the baseline, so that it cannot have regressed.
`quarantined` and `waived`: the policy or a waiver that names no case leaves a verdict out of the decision.
"""


class CoverageLoss(Contract):
    """What one cause takes from the comparison: the share of each case's verdicts, by case id.

    `judge_id` is null where it concerns every judge of the cases.

    Example:
        >>> CoverageLoss(cause="removed", cases={"refund": 1.0}).size
        1.0
    """

    cause: Cause
    judge_id: StrictStr | None = None
    cases: dict[StrictStr, float] = Field(default_factory=dict)

    @property
    def size(self) -> float:
        """How many cases it amounts to."""
        return sum(self.cases.values())


class Coverage(Contract):
    """Which share of the baseline's cases, judges and trials is still compared.

    Each case that the baseline judged counts one, and within a case every verdict of a judge on a trial that
    was not skipped counts the same. A verdict is lost by one cause only.

    Example:
        >>> lost = CoverageLoss(cause="removed", cases={"refund": 1.0})
        >>> Coverage(cases=4, losses=[lost]).share
        0.75
    """

    cases: int = Field(ge=0)
    losses: list[CoverageLoss] = Field(default_factory=list)

    @property
    def share(self) -> float:
        """The share that is still compared, from 0 to 1; 0 where the baseline judged nothing."""
        lost = sum(loss.size for loss in self.losses)
        if not self.cases:
            return 0.0
        # Only what is whole is 1: a loss of any size must not vanish in a rounded sum.
        return max(0.0, 1 - lost / self.cases) if lost else 1.0

    @property
    def is_nothing(self) -> bool:
        """Whether nothing is left to compare."""
        return self.share < 1e-9
