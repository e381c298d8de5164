"""The system prompt of a hosted model, from a file."""

from __future__ import annotations

from pathlib import Path

from agent_eval.errors import InvalidInput
from agent_eval.storage.bytes_reader import read_bytes

LARGEST_PROMPT = 1 << 20


def read_prompt(path: Path) -> str:
    """The text of a file.

    Raises:
        InvalidInput: It is missing, larger than a MiB, or not UTF-8.
    """
    try:
        return read_bytes(path, max_bytes=LARGEST_PROMPT).decode()
    except UnicodeDecodeError:
        raise InvalidInput(f"{path} is not UTF-8 text", remedy="Save it as UTF-8.", file=str(path)) from None
