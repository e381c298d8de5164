"""The packs that a report reads trajectories from, without what is secret."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property

from agent_eval.contracts import Case, CaseIndexRow, CaseResultRow
from agent_eval.evidence.reader import Pack
from agent_eval.evidence.redacted import without_secrets
from agent_eval.storage.redaction import Redactor


@dataclass(frozen=True)
class SuiteEvidence:
    """The two packs of a suite's report, as far as they are at hand.

    Attributes:
        candidate: Pack of the run in question; None where only a comparison is known.
        place: Path of the candidate's pack, for the command that shows a case.
        redactor: Replaces secrets, which an earlier run's evidence may hold.
    """

    candidate: Pack | None = None
    baseline: Pack | None = None
    place: str = ""
    redactor: Redactor = field(default_factory=lambda: Redactor([]))

    def case(self, case_id: str) -> Case | None:
        """Read a case with the candidate's trace; None where the candidate does not have it."""
        return self._read(self.candidate, self.results, case_id)

    def earlier_case(self, case_id: str) -> Case | None:
        """Read a case with the baseline's trace; None where the baseline does not have it."""
        return self._read(self.baseline, self.earlier_results, case_id)

    @cached_property
    def results(self) -> Mapping[str, CaseResultRow]:
        """The candidate's result of every case."""
        return self.candidate.results_by_id() if self.candidate is not None else {}

    @cached_property
    def earlier_results(self) -> Mapping[str, CaseResultRow]:
        """The baseline's result of every case."""
        return self.baseline.results_by_id() if self.baseline is not None else {}

    @cached_property
    def index(self) -> Mapping[str, CaseIndexRow]:
        """The candidate's row of the index by case."""
        return self.candidate.index_by_id() if self.candidate is not None else {}

    @cached_property
    def earlier_index(self) -> Mapping[str, CaseIndexRow]:
        """The baseline's row of the index by case."""
        return self.baseline.index_by_id() if self.baseline is not None else {}

    def behaved_alike(self, case_id: str) -> bool:
        """Whether calls and final output were the same in both runs."""
        before, now = self.earlier_index.get(case_id), self.index.get(case_id)
        if before is None or now is None:
            return False
        return before["calls"] == now["calls"] and before["output_digest"] == now["output_digest"]

    def _read(self, pack: Pack | None, known: Mapping[str, CaseResultRow], case_id: str) -> Case | None:
        if pack is None or case_id not in known:
            return None
        case = pack.trajectory(case_id)
        if not self.redactor:
            return case
        # Before texts are compared: a secret of which only a part differs would not be found later.
        return without_secrets(case, self.redactor)
