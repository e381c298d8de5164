"""Decide which format a record has, by its structure; refuse to guess where two are as likely."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from agent_eval.errors import InvalidInput
from agent_eval.importers.catalog import Family, load_others, unsupported
from agent_eval.importers.diagnostics import Diagnostics
from agent_eval.importers.format import Format, Match
from agent_eval.importers.records import Record

_TOO_CLOSE = 0.15
"""Difference of confidence up to which two formats count as equally likely."""

_SURE = 0.85
"""Confidence from which a record is of a format, though it looks like one that cannot be imported."""

_ONE_RECORD = 0.5
"""Confidence from which an array counts as one record."""


@dataclass
class Recognised:
    """How many records had a format, and how sure that is at least."""

    format: str
    variant: str
    records: int = 0
    confidence: float = 1.0

    def to_json(self) -> dict[str, Any]:
        """Return it as the command prints it."""
        return asdict(self)


def match_of(candidate: Format, value: Any) -> Match | None:
    """Ask a format whether a record is its own; one that breaks on it does not know it."""
    try:
        return candidate.detect(value)
    except (TypeError, AttributeError, LookupError, ValueError, RecursionError):
        return None


class Recogniser:
    """Recognises the formats of records, and counts them.

    `family` says where other records belong. `named`: there is one format, which every record is read by that
    looks like it or like no other.
    """

    def __init__(self, formats: Sequence[Format], family: Family, *, named: bool = False) -> None:
        self.formats = list(formats)
        self._named = named
        self._family: Family = family
        self._counts: dict[tuple[str, str], Recognised] = {}

    @property
    def recognised(self) -> list[Recognised]:
        """What was recognised, by format and variant."""
        return [self._counts[key] for key in sorted(self._counts)]

    def is_one_record(self, items: list[Any]) -> bool:
        """Tell whether an array is one record of some format."""
        matches = (match_of(candidate, items) for candidate in self.formats)
        return any(match is not None and match.confidence >= _ONE_RECORD for match in matches)

    def recognise(self, record: Record, diagnostics: Diagnostics) -> tuple[int, Match] | None:
        """Return the number of the record's format; None, with a diagnostic, if it has none of them.

        The record is not counted; `count` does that.

        Raises:
            InvalidInput: Two formats are as likely, or the import is strict and no format is.
        """
        matches = [
            (match.confidence, number, match)
            for number, candidate in enumerate(self.formats)
            if (match := match_of(candidate, record.value)) is not None
        ]
        if not matches and self._named and self.elsewhere(record.value) is None:
            return 0, Match(0.0, "named")
        is_unsure = not self._named and max(matches, default=(0.0,))[0] < _SURE
        if not matches or (is_unsure and unsupported(record.value) is not None):
            named, value = ", ".join(candidate.name for candidate in self.formats), record.value
            elsewhere = self.elsewhere(value, _SURE) or unsupported(value) or self.elsewhere(value)
            hint = "" if elsewhere is None else f"; {elsewhere}"
            diagnostics.lost(record.place, "", f"is not of {named}{hint}")
            return None
        matches.sort(key=lambda candidate: (-candidate[0], candidate[1]))
        if len(matches) > 1 and matches[0][0] - matches[1][0] < _TOO_CLOSE:
            shares = {self.formats[number].name: confidence for confidence, number, _ in matches}
            first, second = list(shares)[:2]
            raise InvalidInput(
                f"{record.place}: could be {first} or {second}",
                remedy=f"Say which with --from {first} or --from {second}.",
                record=record.place,
                confidence=shares,
            )
        _, number, match = matches[0]
        return number, match

    def count(self, number: int, match: Match) -> None:
        """Count a record of a format."""
        key = (self.formats[number].name, match.variant)
        counted = self._counts.setdefault(key, Recognised(*key))
        counted.records += 1
        counted.confidence = min(counted.confidence, match.confidence)

    def elsewhere(self, value: Any, than: float = 0.0) -> str | None:
        """Say which format of another family a record looks like, surer `than`; None where none does."""
        matches = [
            (match.confidence, entry)
            for entry, candidate in load_others(self._family)
            if (match := match_of(candidate, value)) is not None and match.confidence > than
        ]
        if not matches:
            return None
        _, entry = max(matches, key=lambda match: match[0])
        return f"it looks like {entry.name}, which `agent-eval import --from {entry.name}` imports"
