"""Tiers: what a reviewed policy says of single cases, and which cases a history admits as blocking.

The history recommends and the policy decides: a case that the policy does not name blocks.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime

from agent_eval.contracts import Comparison
from agent_eval.contracts.policy import GatePolicy
from agent_eval.contracts.registry import Waiver
from agent_eval.gate.waivers import Excuses, excuse


def excuses_by(
    comparison: Comparison, policy: GatePolicy, waivers: Sequence[Waiver], *, now: datetime
) -> Excuses:
    """Apply waivers, quarantine and the declared tiers of a policy to a comparison.

    A case that is tracked or expected to fail stays in every test over the suite and in every rate, so that
    nothing is hidden from them; it only counts in no rule on single cases. What waiver or quarantine excuses
    is theirs.

    Args:
        comparison: The comparison to decide on.
        policy: Its quarantine, `tracked` and `expected_fail` count.
        waivers: Waivers of the baseline; expired and revoked ones excuse nothing.
        now: The time of the decision.
    """
    excuses = excuse(comparison, waivers, policy.quarantine, now=now)
    regressed = frozenset(comparison.regressed_case_ids)
    declared = policy.never_blocking
    return replace(excuses, tracked=regressed & declared - excuses.cases, never_blocking=declared)
