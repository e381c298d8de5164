"""Words for reasons: short, bounded, and safe to put next to what an agent said.

A reason names tools, arguments and values that the agent chose. They are cut to a bounded length, and
what is not a plain name is quoted with its control characters escaped. Reports escape again for their
own medium.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence
from typing import Any

REASON_LIMIT = 300
"""Characters in a reason at most."""

EVIDENCE_LIMIT = 20
"""Entries of one kind in a verdict's evidence at most; totals are stated beside them."""

_PLAIN_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_.:/-]{0,59}")


def clipped(text: str, limit: int = REASON_LIMIT) -> str:
    """The text, or as much of it as fits into `limit` characters with an ellipsis at the end."""
    return text if len(text) <= limit else text[: limit - 1] + "…"


def quoted(value: Any, limit: int = 60) -> str:
    """The value as JSON text of bounded length; strings stand in quotes."""
    if isinstance(value, str):
        # Cutting before escaping keeps a megabyte of output out of the encoder.
        return json.dumps(clipped(value, limit), ensure_ascii=False)
    return clipped(json.dumps(value, ensure_ascii=False, default=repr), limit)


def named(name: str) -> str:
    """A tool's name as it is when it is a plain word, else quoted."""
    return name if _PLAIN_NAME.fullmatch(name) else quoted(name)


def listed(words: Iterable[str], *, limit: int = 5) -> str:
    """`a`, `a and b`, `a, b and 3 more`: an enumeration of bounded length of words ready to print."""
    items = list(words)
    if len(items) > limit:
        return f"{', '.join(items[:limit])} and {len(items) - limit} more"
    if len(items) < 2:
        return "".join(items)
    return f"{', '.join(items[:-1])} and {items[-1]}"


def at_events(indices: Sequence[int]) -> str:
    """` (event 3)`, ` (events 3, 5 and 9)`; nothing without indices."""
    if not indices:
        return ""
    return f" ({'event' if len(indices) == 1 else 'events'} {listed(str(index) for index in indices)})"
