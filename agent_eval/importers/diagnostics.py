"""What an import could not take over as it was: a diagnostic for each loss, with record, field and reason."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from enum import StrEnum
from typing import Any, NamedTuple

from agent_eval.errors import InvalidInput


class Severity(StrEnum):
    """How much a diagnostic matters."""

    LOST = "lost"
    """Content of the source is not in the suite. `--strict` refuses it."""
    UNKNOWN = "unknown"
    """A field that the format does not define. `--strict` refuses it."""
    CHANGED = "changed"
    """Content is in the suite in another form: an argument that is no JSON as text, a digest for bytes."""
    NOTE = "note"
    """Something that explains the result, such as records that repeat each other."""


_LOSSES = (Severity.LOST, Severity.UNKNOWN)

_MOST = 10_000
"""Diagnostics that are kept; all are counted."""


class Diagnostic(NamedTuple):
    """One finding: which record, which field of it, and why."""

    severity: Severity
    record: str
    field: str
    reason: str

    def to_json(self) -> dict[str, Any]:
        """Return the diagnostic as an import writes it beside the suite."""
        return {**self._asdict(), "severity": str(self.severity)}


class Diagnostics:
    """Collects the diagnostics of an import; the first 10,000 in full, all of them by number.

    If `strict`, it refuses the import at the first loss or unknown field. `redacted` replaces secrets:
    records name their own fields, and are quoted.
    """

    def __init__(self, *, strict: bool = False, redacted: Callable[[str], str] = str) -> None:
        self.strict, self._redacted = strict, redacted
        self.entries: list[Diagnostic] = []
        self._counts: Counter[Severity] = Counter()

    @property
    def counts(self) -> dict[str, int]:
        """Number of diagnostics by severity, without zeros."""
        return {str(severity): self._counts[severity] for severity in Severity if self._counts[severity]}

    @property
    def has_losses(self) -> bool:
        """Whether there is a diagnostic that a strict import refuses."""
        return any(self._counts[severity] for severity in _LOSSES)

    def lost(self, record: str, field: str, reason: str) -> None:
        """Report content that the suite will not have; refused if the import is strict."""
        self.add(Diagnostic(Severity.LOST, record, field, reason))

    def unknown(self, record: str, field: str) -> None:
        """Report a field that the format does not define, and the suite leaves out; refused if strict."""
        self.add(Diagnostic(Severity.UNKNOWN, record, field, "is not a field of this format; left out"))

    def changed(self, record: str, field: str, reason: str) -> None:
        """Report content that the suite has in another form."""
        self.add(Diagnostic(Severity.CHANGED, record, field, reason))

    def note(self, record: str, field: str, reason: str) -> None:
        """Report something that explains the result."""
        self.add(Diagnostic(Severity.NOTE, record, field, reason))

    def add(self, diagnostic: Diagnostic) -> None:
        """Add a diagnostic.

        Raises:
            InvalidInput: The import is strict, and the diagnostic is a loss or an unknown field.
        """
        self._counts[diagnostic.severity] += 1
        if len(self.entries) < _MOST:
            texts = (diagnostic.record, diagnostic.field, diagnostic.reason)
            self.entries.append(Diagnostic(diagnostic.severity, *map(self._redacted, texts)))
        if self.strict and diagnostic.severity in _LOSSES:
            raise InvalidInput(
                f"{diagnostic.record}: {diagnostic.field or 'record'}: {diagnostic.reason}",
                remedy="Correct the export, or import without --strict and read the diagnostics.",
                record=diagnostic.record,
                field=diagnostic.field,
            )
