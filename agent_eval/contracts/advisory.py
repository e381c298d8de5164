"""What judges found that count nowhere, such as those that a change adds: shown, and part of no result."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from agent_eval.contracts.verdict import Outcome, VerdictRow

ADVISORY = "advisory"
"""Member of the evidence of a trial's first verdict: what judges found that count nowhere, such as those that
a change adds. A list of objects with `judge_id`, `outcome` and `reason`."""


class AdvisoryFinding(NamedTuple):
    """What an advisory judge found: its id, an outcome, and the reason.

    Example:
        >>> AdvisoryFinding("mine", "failed", "it shouts").outcome
        'failed'
    """

    judge_id: str
    outcome: str
    reason: str


def advisory_in(verdicts: Iterable[VerdictRow]) -> list[AdvisoryFinding]:
    """Read what advisory judges found of a trial; entries of another shape, as a pack may have, are left out.

    Example:
        >>> stated = {"judge_id": "mine", "outcome": "failed", "reason": "it shouts"}
        >>> advisory_in([{"evidence": {"advisory": [stated, 3]}}])
        [AdvisoryFinding(judge_id='mine', outcome='failed', reason='it shouts')]
    """
    findings = []
    for verdict in verdicts:
        stated = verdict["evidence"].get(ADVISORY)
        for each in stated if isinstance(stated, list) else ():
            values = [each.get(name) if isinstance(each, dict) else None for name in AdvisoryFinding._fields]
            if all(isinstance(value, str) for value in values) and values[1] in list(Outcome):
                findings.append(AdvisoryFinding(*map(str, values)))
    return findings
