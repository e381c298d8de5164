"""Find the known name that a misspelt one resembles."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches


def nearest(name: str, known: Iterable[str], cutoff: float) -> str | None:
    """Return the known name that is most like `name`; None if none is like it.

    Names that differ only in letter case and separators are alike; of others, `cutoff` is the least
    likeness, from 0 to 1.

    Example:
        >>> nearest("finalOutput", {"final_output"}, 0.8), nearest("topic", {"final_output"}, 0.8)
        ('final_output', None)
    """
    plain, candidates = _plain(name), sorted(known)
    for candidate in candidates:
        if _plain(candidate) == plain:
            return candidate
    matches = get_close_matches(name, candidates, n=1, cutoff=cutoff)
    return matches[0] if matches else None


def _plain(name: str) -> str:
    return "".join(char for char in name.casefold() if char.isalnum())
