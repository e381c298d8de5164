"""Find the lines of a suite's file where its cases begin, for places that show a file beside its review."""

from __future__ import annotations

import re
from collections.abc import Collection
from pathlib import Path

from agent_eval.errors import AgentEvalError
from agent_eval.storage.files import read_bytes
from agent_eval.storage.json import parse

MAX_BYTES = 32 << 20
"""Of a larger file no line is looked for."""

_CASE_ID = re.compile(
    r"""["']?\bcase_id["']?[ \t]*:[ \t]*("(?:[^"\\]|\\.)*"|'(?:[^']|'')*'|[^\s,#}\]][^,#}\]\n]*)"""
)


def lines_of_cases(path: Path, case_ids: Collection[str]) -> dict[str, int]:
    """Find where the ids of cases are written in a suite's file, as text: JSON, JSON Lines or YAML.

    The lines count from 1. An id that is not found, or of a file that cannot be read, has none.
    """
    wanted = set(case_ids)
    line_of: dict[str, int] = {}
    try:
        text = read_bytes(path, max_bytes=MAX_BYTES).decode("utf-8", "replace") if wanted else ""
    except AgentEvalError:
        return line_of
    for number, line in enumerate(text.split("\n"), start=1):
        for match in _CASE_ID.finditer(line) if "case_id" in line else ():
            case_id = match[1].strip()
            if case_id.startswith("'"):
                case_id = case_id[1:-1].replace("''", "'")
            elif case_id.startswith('"'):
                try:
                    case_id = str(parse(case_id.encode("utf-8", "replace"), source="case_id"))
                except AgentEvalError:
                    continue
            if case_id in wanted:
                line_of.setdefault(case_id, number)
    return line_of
