"""Trials that are lost through no fault of the agent: which are run again, and when a run has an outage.

A trial that the agent itself failed is never run again: that would raise a rate p to p + (1 - p)p. Whose
fault it is that a trial has no score is recorded by those who saw it (`contracts.verdict.fault_of`).

Nor is a lost trial run again in which the agent acted and a hard judge failed what it did: the trial in its
place would take that verdict out of the evidence, and one of a judge without tolerance must count. No policy
is known here, so this holds for every hard judge. The trial stays lost, which blames the agent for nothing
else: most judges fail what is cut off because it is cut off.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from agent_eval.contracts import CaseResult, Event, Outcome, Trace
from agent_eval.contracts.base import EARLIER
from agent_eval.contracts.verdict import EXECUTION, TrialResult
from agent_eval.errors import Fault
from agent_eval.text.escape import one_line

LOST_TRIES = "lost_tries"
"""Key of a trial's metadata: what was lost before the trial was run or judged again, in order."""

FAILED_BY = "failed_by"
"""Key of a lost try: hard judges that failed what the agent had done by then, so that the try is the last."""

MOST_RETRIES = 2
"""How often a trial may be run again, unless the caller sets fewer."""

OUTAGE = 5
"""Trials lost in a row from which a run has an outage; as many as run at once, where those are more.

Of runs of 1,000 trials that lose each with a chance of 5 %, one in 3,400 is stopped without an outage:
0.05**5 * 0.95 * 1000.
"""

_REASON_LIMIT = 300
_UNSCORED = (Outcome.ERROR, Outcome.INCONCLUSIVE)


def lost_try(result: TrialResult, cost_usd: float | None = None) -> dict[str, Any] | None:
    """Describe a trial that is lost, for the metadata of the one that takes its place; None for any other.

    Args:
        result: The result of the trial.
        cost_usd: What the agent spent on it; None if unknown.

    Example:
        >>> from agent_eval.contracts import Verdict, case_result
        >>> down = {"judge_id": "execution", "outcome": "error", "passed": False, "failure": "infrastructure"}
        >>> lost_try(case_result("refund", [Verdict(case_id="refund", reason="HTTP 503", **down)]))
        {'fault': 'infrastructure', 'reason': 'HTTP 503'}
    """
    if not result.is_lost or result.fault is None:
        return None
    unscored = [verdict for verdict in result.verdicts if verdict.outcome in _UNSCORED]
    # How the agent's attempt ended comes first: what judges miss follows from it.
    unscored.sort(key=lambda verdict: (verdict.judge_id != EXECUTION, verdict.outcome is not Outcome.ERROR))
    spent = {} if cost_usd is None else {"cost_usd": cost_usd}
    return {"fault": result.fault.value, "reason": one_line(unscored[0].reason, limit=_REASON_LIMIT), **spent}


class LostTrials:
    """Counts the lost trials of a run by their slot, and finds an outage.

    Args:
        retries: How often a trial may be run again.
        outage: How many in a row are an outage.

    Example:
        >>> lost = LostTrials(retries=1, outage=2)
        >>> down = {"fault": "infrastructure", "reason": "HTTP 503"}
        >>> lost.add(7, [down])
        >>> lost.to_retry()
        [7]
        >>> lost.see([down])
        >>> lost.see([down])
        >>> lost.outage
        '2 trials in a row were lost to the infrastructure (HTTP 503)'
    """

    def __init__(self, retries: int, outage: int = OUTAGE) -> None:
        self._retries, self._outage_from = retries, outage
        self._tries: dict[int, list[dict[str, Any]]] = {}
        self._in_a_row: list[Mapping[str, Any]] = []
        self._lock = threading.Lock()
        self.any_scored = False
        """Whether any trial of the run was not lost: otherwise nothing works, and waiting is of no use."""
        self.outage = ""
        """Why the run must stop, as a clause; empty as long as it need not."""

    def see(self, tries: Sequence[Mapping[str, Any]]) -> None:
        """Look for an outage as soon as a trial ends, in whichever thread.

        Args:
            tries: All of its tries that were lost, the last of which is this one; none where it was scored.
        """
        with self._lock:
            if not tries:
                self._in_a_row.clear()
                return
            self._in_a_row.append(tries[-1])
            if len(self._in_a_row) >= self._outage_from and not self.outage:
                self.outage = self._outage_in_words()

    def add(self, number: int, tries: Sequence[Mapping[str, Any]]) -> None:
        """Add a trial whose record is on disk. No other takes the place of one with `FAILED_BY`.

        Args:
            number: The trial's slot.
            tries: As for `see`.
        """
        if tries and FAILED_BY not in tries[-1]:
            self._tries[number] = [dict(entry) for entry in tries]
            return
        self._tries.pop(number, None)
        self.any_scored |= not tries

    def begin_round(self) -> None:
        """Begin to try lost trials again: what was lost before tells nothing of an outage now."""
        self._in_a_row.clear()
        self.outage = ""

    def holds(self, number: int) -> bool:
        """Tell whether the last try at a slot is lost, so that another may take its place."""
        return number in self._tries

    def may_retry(self, number: int) -> bool:
        """Tell whether a slot may be tried again."""
        return number in self._tries and len(self._tries[number]) <= self._retries

    def to_retry(self) -> list[int]:
        """List the slots that may be tried again, in order."""
        return sorted(filter(self.may_retry, self._tries))

    def is_of_judge(self, number: int) -> bool:
        """Tell whether a slot was lost to a judge, so that what the agent did is judged again."""
        return bool(self._tries[number][-1]["fault"] == Fault.JUDGE)

    def tries(self) -> dict[int, list[dict[str, Any]]]:
        """Return the lost tries by slot, for those whose last try is lost."""
        return dict(self._tries)

    def _outage_in_words(self) -> str:
        number = len(self._in_a_row)
        [(fault, _)] = Counter(entry["fault"] for entry in self._in_a_row).most_common(1)
        reason = next(entry["reason"] for entry in self._in_a_row if entry["fault"] == fault)
        return f"{number} trials in a row were lost to the {fault} ({reason.rstrip('.')})"


def tries_of(result: CaseResult, recorded: Mapping[str, Any], cost_usd: float | None) -> list[dict[str, Any]]:
    """List the lost tries of a recorded trial, its own included where that is lost; else none.

    Args:
        result: Result of the trial.
        recorded: Its `trace`, and its `metadata` with the tries before it.
        cost_usd: What the agent spent on it.
    """
    last = lost_try(result, cost_usd)
    if last is None:
        return []
    failed_by = sorted(
        verdict.judge_id for verdict in result.verdicts if verdict.hard and verdict.outcome is Outcome.FAILED
    )
    if failed_by and _has_act(recorded["trace"]):
        last[FAILED_BY] = failed_by
    return [*recorded["metadata"].get(LOST_TRIES, ()), last]


def _has_act(events: Sequence[Mapping[str, Any]]) -> bool:
    """Tell whether the agent did anything. What nothing was delivered to can have done nothing wrong."""
    return Trace([Event.model_validate(event, context=EARLIER) for event in events]).has_act
