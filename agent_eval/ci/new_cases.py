"""New cases that the merge base's agent is run on once: one that it passes too tells nothing apart."""

from __future__ import annotations

from collections.abc import Sequence

from agent_eval.contracts.confirmation import FreshTrials, NewCaseTrial
from agent_eval.evidence.reader import Pack
from agent_eval.text.numbers import count


class NewCaseTrials:
    """The new cases of one suite that are run, and their results.

    Example:
        `NewCaseTrials(pack, ["refund"], most=8).rows` are to be run once on the side of the merge base.

    Args:
        pack: The candidate's first run.
        case_ids: All new cases.
        most: How many may be run.

    Attributes:
        rows: The records of their trials, to be filled in.
        problem: Why not all of them were run, as a sentence; empty where they were.
    """

    def __init__(self, pack: Pack, case_ids: Sequence[str], most: int) -> None:
        self._pack = pack
        self.rows = [FreshTrials(case_id=case_id) for case_id in case_ids[:most]]
        not_run = len(case_ids) - len(self.rows)
        cap = f"At most {count(most, 'new case')} may be run (`max-confirm-cases`): {not_run:,} were not."
        self.problem = cap if not_run else ""

    @property
    def in_words(self) -> str:
        """How many are to be run, as a phrase; empty for none."""
        number = len(self.rows)
        return f"{count(number, 'new case')} by the merge base's agent" if number else ""

    def tried(self) -> list[NewCaseTrial]:
        """Return the results of those that were run."""
        results = self._pack.results_by_id() if any(row.base for row in self.rows) else {}
        return [
            NewCaseTrial(
                case_id=row.case_id,
                candidate_passed=bool(results[row.case_id]["passed"]),
                base=row.base[0],
                base_failing=row.base_failing[0],
                why_lost=row.why_lost,
            )
            for row in self.rows
            if row.base
        ]
