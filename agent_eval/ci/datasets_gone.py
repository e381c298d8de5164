"""Say which datasets of the baseline no suite of a run evaluates any more."""

from __future__ import annotations

from collections.abc import Mapping

from agent_eval.ci.baseline import Search
from agent_eval.text.escape import one_line
from agent_eval.text.numbers import count

_NAMED, _NAME_LIMIT = 3, 60
"""Datasets that a sentence names, and characters of a name: it is to be read to its end."""


def lost_datasets(search: Search) -> list[str]:
    """Warn of datasets of the baseline that are not evaluated any more."""
    if not search.gone:
        return []
    return [
        f"The baseline has evidence of {_named(search.gone)}, which no suite of this run evaluates. If it "
        "was removed or renamed, these cases are compared with nothing."
    ]


def _named(gone: Mapping[str, int]) -> str:
    """Name the first datasets as code, with their numbers of cases; count the others."""
    named = []
    for dataset, cases in sorted(gone.items()):
        name = one_line(dataset, limit=_NAME_LIMIT).replace("`", "'").strip()
        named.append(f"`{name or '∅'}` ({count(cases, 'case')})")
    more = len(named) - _NAMED
    return ", ".join(named[:_NAMED]) + (f" and {count(more, 'more dataset')}" if more > 0 else "")
