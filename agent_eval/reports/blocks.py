"""Blocks of markdown that other blocks are put together from."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from agent_eval.text.markdown import code_span


def document(blocks: Iterable[str]) -> str:
    """Blocks with an empty line between them, empty ones left out, a line break at the end."""
    return "\n\n".join(block for block in blocks if block) + "\n"


def table(header: Sequence[str], align: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table. Every cell is a literal or the result of a function in `text.markdown`.

    Args:
        header: Words at the top of the columns.
        align: `:--`, `--:` or `:-:` for each column.
        rows: Cells.
    """
    lines = [header, align, *rows]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in lines)


def bullets(items: Iterable[str]) -> str:
    """A list, one item a line."""
    return "\n".join(f"- {item}" for item in items)


def folded(title: str, blocks: Iterable[str]) -> str:
    """Blocks that open on a click; nothing when there are none.

    Args:
        title: A literal with figures at most: markup in it is not escaped.
        blocks: What is folded away.
    """
    inside = [block for block in blocks if block]
    if not inside:
        return ""
    return "\n\n".join([f"<details>\n<summary>{title}</summary>", *inside, "</details>"])


def names(identifiers: Sequence[str], *, shown: int, limit: int) -> str:
    """Identifiers as code, `and N more` when there are more than `shown`."""
    listed = [code_span(name, limit=limit) for name in identifiers[:shown]]
    hidden = len(identifiers) - len(listed)
    if hidden:
        listed.append(f"and {hidden:,} more" if listed else f"{hidden:,}")
    return ", ".join(listed)
