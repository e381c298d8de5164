"""Names and words that people give: never empty, never unprintable, never endless."""

from __future__ import annotations

from agent_eval.errors import UsageError

LIMIT = 1_000


def checked(text: str, field: str) -> str:
    """`text` without white space around it.

    Raises:
        UsageError: It is empty, too long, or has characters that cannot be printed.
    """
    stripped = text.strip()
    if not stripped or len(stripped) > LIMIT or not stripped.isprintable():
        raise UsageError(
            f"{field} must be 1 to {LIMIT} printable characters, not {stripped[:80]!r}",
            remedy=f"Give --{field.replace('_', '-')} a plain text of one line.",
            field=field,
        )
    return stripped
