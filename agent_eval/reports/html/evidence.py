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
class PackSide:
    """What a report reads of one pack; nothing where it is not at hand."""

    pack: Pack | None
    redactor: Redactor

    @cached_property
    def results(self) -> Mapping[str, CaseResultRow]:
        """The result of every case."""
        return self.pack.results_by_id() if self.pack is not None else {}

    @cached_property
    def index(self) -> Mapping[str, CaseIndexRow]:
        """The row of the index of every case."""
        return self.pack.index_by_id() if self.pack is not None else {}

    def case(self, case_id: str) -> Case | None:
        """Read a case with its trace; None where the pack does not have it."""
        if self.pack is None or case_id not in self.results:
            return None
        case = self.pack.trajectory(case_id)
        # Before texts are compared: a secret of which only a part differs would not be found later.
        return without_secrets(case, self.redactor) if self.redactor else case


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

    @cached_property
    def now(self) -> PackSide:
        """The candidate's pack."""
        return PackSide(self.candidate, self.redactor)

    @cached_property
    def before(self) -> PackSide:
        """The baseline's pack."""
        return PackSide(self.baseline, self.redactor)
