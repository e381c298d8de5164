"""A badge: the pass rate of the newest run of a history as a small picture (SVG)."""

from __future__ import annotations

from xml.sax.saxutils import escape, quoteattr

from agent_eval.history.board import Board
from agent_eval.reports.history import rates, runs_above
from agent_eval.text.escape import one_line
from agent_eval.text.numbers import percent

LABEL_LIMIT = 40
_HEIGHT = 20
_PADDING = 7
_WIDE, _NARROW = frozenset("mwMW@%"), frozenset("fijltI.,:;'|! ()[]")
# White text on these has a contrast of at least 4.5 to 1.
_USUAL, _LOW, _UNKNOWN, _LABEL = "#1a7f37", "#b35900", "#57606a", "#24292f"


def badge_svg(history: Board, label: str) -> str:
    """Draw the badge. It names the rate in words as well, for those who do not see it.

    Args:
        history: From `history.board.board`.
        label: The words on the left.
    """
    label = one_line(label, limit=LABEL_LIMIT)
    value, colour = _value(history)
    label_width, value_width = _width(label), _width(value)
    total = label_width + value_width
    title = escape(f"{label}: {value}")
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" width="{total}" height="{_HEIGHT}" role="img"'
            f" aria-label={quoteattr(f'{label}: {value}')}>",
            f"<title>{title}</title>",
            f'<clipPath id="r"><rect width="{total}" height="{_HEIGHT}" rx="3"/></clipPath>',
            '<g clip-path="url(#r)">',
            f'<rect width="{label_width}" height="{_HEIGHT}" fill="{_LABEL}"/>',
            f'<rect x="{label_width}" width="{value_width}" height="{_HEIGHT}" fill="{colour}"/>',
            "</g>",
            '<g fill="#fff" text-anchor="middle" font-size="11"'
            ' font-family="Verdana,DejaVu Sans,Geneva,sans-serif">',
            _text(label, label_width / 2, label_width),
            _text(value, label_width + value_width / 2, value_width),
            "</g>",
            "</svg>",
            "",
        ]
    )


def _value(history: Board) -> tuple[str, str]:
    rate = rates(history.counted).newest
    if rate is None:
        return "no runs", _UNKNOWN
    is_low = bool(runs_above(history))
    return f"{percent(rate)} passed{', low' if is_low else ''}", _LOW if is_low else _USUAL


def _text(words: str, middle: float, room: float) -> str:
    # The length is stated, so that another font of the reader's keeps within its box.
    length = room - 2 * _PADDING
    return f'<text x="{middle:g}" y="14" textLength="{length:g}">{escape(words)}</text>'


def _width(words: str) -> int:
    """Estimate how wide words are in Verdana of 11 pixels, with padding on both sides."""
    widths = (10.5 if char in _WIDE else 4.2 if char in _NARROW else 6.9 for char in words)
    return round(sum(widths)) + 2 * _PADDING
