"""Reasons of judges: cut to size, freed of their particulars, and made into keys."""

from __future__ import annotations

import re

from agent_eval.contracts import digest

KIND_LIMIT = 300
"""Characters of a reason that decide what kind of failure it is."""
KEY_LENGTH = 16

# Quoted parts, then words that hold a digit (numbers, ids, digests, dates), joined by id punctuation.
_PARTICULARS = re.compile(
    r"""(?<!\w)'[^'\n]*'(?!\w) | "[^"\n]*" | `[^`\n]*` | “[^”\n]*” | \b[\w.:/@-]*\d[\w.:/@-]*""",
    re.VERBOSE,
)
_SPACE = re.compile(r"\s+")


def cut(text: str, limit: int) -> str:
    """`text`, or its first `limit` characters with an ellipsis as the last of them."""
    return text if len(text) <= limit else text[: limit - 1] + "…"


def normalise(reason: str) -> str:
    """A reason without numbers, ids and quoted parts: equal for failures of the same kind."""
    return _SPACE.sub(" ", _PARTICULARS.sub("…", cut(reason, KIND_LIMIT))).strip()


def regression_key(case_id: str, judge_id: str, failure: str | None, reason: str) -> str:
    """Sixteen hexadecimal digits that name a regression: another kind of failure has another key."""
    return digest([case_id, judge_id, failure, normalise(reason)])[:KEY_LENGTH]
