"""A decision whose run was cut short in a later look: nothing that was seen there is dropped.

The trials of such a look decide no rate and no test: which of them there are depends on what ended it, and
that may be the agent, which says what it costs. A new failure of a judge without tolerance needs no other
trial.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from agent_eval.contracts import Comparison, GateDecision, GateStatus, GateStep
from agent_eval.contracts.base import instant
from agent_eval.contracts.policy import GatePolicy
from agent_eval.contracts.registry import Waiver
from agent_eval.gate.explanation import explain
from agent_eval.gate.losses import marked_not_evaluated
from agent_eval.gate.tiers import excuses_by
from agent_eval.gate.zero_tolerance import zero_tolerance

IN_A_CUT_LOOK = "This was seen in a look that was cut short, whose trials decide nothing else."


@dataclass(frozen=True)
class CutLook:
    """A look that ended before all of its trials were run.

    Example:
        >>> CutLook(["A look was cut short: the money is spent."], is_outage=False).failing
        {}

    Attributes:
        why_not_evaluated: Why the run says nothing of the change, and what to do, as sentences.
        is_outage: Whether an outage ended it, not a limit of the run.
        failing: Cases that a judge failed in its trials and in no earlier trial of either run, by judge id.
    """

    why_not_evaluated: Sequence[str]
    is_outage: bool
    failing: Mapping[str, Sequence[str]] = field(default_factory=dict)


def with_cut_look(
    decision: GateDecision,
    comparison: Comparison,
    cut: CutLook,
    policy: GatePolicy,
    waivers: Sequence[Waiver] = (),
) -> GateDecision:
    """Decide on a run whose last look was cut short, by the decision on the look before and what was seen.

    It fails where a zero-tolerance judge newly fails a trial of the cut look, on the terms of the policy:
    what must repeat was not run again, so it counts. Otherwise it is not evaluated, as a run with a fixed
    number of trials that ends like that. What a complete look failed stays failed, unless an outage ended the
    next: fresh trials might have cleared it.

    Args:
        decision: On the look before.
        comparison: The one it was made on.
        cut: The look that was cut short.
        policy: Names the zero-tolerance judges and their terms.
        waivers: Waivers of the baseline.
    """
    seen = _with_failures(comparison, cut.failing)
    excuses = excuses_by(seen, policy, waivers, now=instant(decision.generated_at))
    step = zero_tolerance(seen, excuses, policy)
    if step.status == "failed":
        return _failed_by(decision, step)
    if decision.gate_status is GateStatus.FAILED and not cut.is_outage:
        return decision
    return marked_not_evaluated(decision, cut.why_not_evaluated)


def _with_failures(comparison: Comparison, failing: Mapping[str, Sequence[str]]) -> Comparison:
    """Add failures to those that no compared result shows."""
    merged = {judge_id: set(case_ids) for judge_id, case_ids in comparison.failures_apart.items()}
    for judge_id, case_ids in failing.items():
        merged.setdefault(judge_id, set()).update(case_ids)
    rows = {judge_id: sorted(case_ids) for judge_id, case_ids in sorted(merged.items())}
    return comparison.model_copy(update={"failures_apart": rows})


def _failed_by(decision: GateDecision, step: GateStep) -> GateDecision:
    """Fail a decision by this step, in the place of the one that it has."""
    if any(known.name == step.name and known.status == "failed" for known in decision.steps):
        return decision
    step = step.model_copy(update={"message": f"{step.message} {IN_A_CUT_LOOK}"})
    failed = decision.model_copy(
        update={
            "gate_status": GateStatus.FAILED,
            "passed": False,
            "blocks": True,
            "steps": [step if known.name == step.name else known for known in decision.steps],
            "failures": [*decision.failures, step.message],
        }
    )
    return failed.model_copy(update={"explanation": explain(failed)})
