"""JSON as this program writes it: the same bytes for the same value."""

from __future__ import annotations

from typing import Any

import orjson

_PLAIN = orjson.OPT_SORT_KEYS
_INDENTED = orjson.OPT_SORT_KEYS | orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE


def dumps(value: Any, *, indent: bool = False) -> bytes:
    """UTF-8 JSON with sorted keys.

    Args:
        value: Plain JSON data (what `Contract.to_json` gives). NaN and infinity become null, so keep
            them out; integers must fit in 64 bit.
        indent: For files that people open: two spaces and a newline at the end. Otherwise one line,
            without a newline, as JSON Lines wants it.

    Raises:
        TypeError: `value` is not JSON.
    """
    return orjson.dumps(value, option=_INDENTED if indent else _PLAIN)
