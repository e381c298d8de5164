"""Trials lost through no fault of the agent: when a run has an outage, and what a resumed run repeats.

A lost trial is an error, and no run repeats it: that would raise a rate p to p + (1 - p)p. Only a run that is
resumed, as after an outage, runs what was lost before again.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from agent_eval.contracts import Event, Outcome, Trace
from agent_eval.contracts.base import EARLIER
from agent_eval.contracts.verdict import EXECUTION, TrialResult
from agent_eval.errors import Fault
from agent_eval.text.escape import one_line

OUTAGE = 5
"""Trials lost in a row from which a run has an outage; as many as run at once, where those are more.

Of runs of 1,000 trials that lose each with a chance of 5 %, one in 3,400 is stopped without an outage:
0.05**5 * 0.95 * 1000.
"""

_REASON_LIMIT = 300
_UNSCORED = (Outcome.ERROR, Outcome.INCONCLUSIVE)

Loss = tuple[Fault, str]
"""What a trial was lost to, and the reason as a sentence."""


def loss_of(result: TrialResult) -> Loss | None:
    """Tell what a trial was lost to; None where it says something of the agent."""
    if not result.is_lost or result.fault is None:
        return None
    unscored = [verdict for verdict in result.verdicts if verdict.outcome in _UNSCORED]
    # How the agent's attempt ended comes first: what judges miss follows from it.
    unscored.sort(key=lambda verdict: (verdict.judge_id != EXECUTION, verdict.outcome is not Outcome.ERROR))
    return result.fault, one_line(unscored[0].reason, limit=_REASON_LIMIT)


def is_repeated(result: TrialResult, events: Sequence[Mapping[str, Any]]) -> bool:
    """Whether a resumed run repeats a trial: it is lost, and no hard judge failed what the agent did.

    The trial in its place would take that verdict out of the evidence.
    """
    if not result.is_lost:
        return False
    failed = any(verdict.hard and verdict.outcome is Outcome.FAILED for verdict in result.verdicts)
    return not failed or not Trace([Event.model_validate(event, context=EARLIER) for event in events]).has_act


class Outage:
    """Watches the trials of a run, in whichever thread they end.

    `most` lost trials in a row are an outage.
    """

    def __init__(self, most: int = OUTAGE) -> None:
        self._most = most
        self._in_a_row: list[Loss] = []
        self._lock = threading.Lock()
        self.in_words = ""
        """Why the run must stop, as a clause; empty as long as it need not."""

    def see(self, loss: Loss | None) -> None:
        """Count a trial that has ended."""
        with self._lock:
            if loss is None:
                self._in_a_row.clear()
                return
            self._in_a_row.append(loss)
            if len(self._in_a_row) >= self._most and not self.in_words:
                [(fault, _)] = Counter(fault for fault, _ in self._in_a_row).most_common(1)
                reason = next(reason for other, reason in self._in_a_row if other is fault)
                self.in_words = (
                    f"{len(self._in_a_row)} trials in a row were lost to the {fault.value} "
                    f"({reason.rstrip('.')})"
                )
