"""Prompts of the simulated user: files with a version in their name, which an operator may replace."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from hashlib import sha256
from importlib.resources import files
from pathlib import Path

from agent_eval.errors import InvalidInput
from agent_eval.storage.files import read_bytes

CURRENT = "user-1"
"""The prompt that is used where no other is named. A prompt that was released is never changed."""

_REQUIRED = ("guidelines", "user_info")
_MOST_BYTES = 1 << 20
_PLACEHOLDER = re.compile(r"\{\{(guidelines|user_info|language)\}\}")


@dataclass(frozen=True, slots=True)
class Prompt:
    """The prompt of a simulated user."""

    name: str
    text: str

    @property
    def digest(self) -> str:
        """The sha256 of the text, which differs where two runs had different prompts."""
        return sha256(self.text.encode()).hexdigest()

    def filled(self, values: Mapping[str, str]) -> str:
        """Fill the places in one pass, so that a value which looks like a place stays as it is."""
        return _PLACEHOLDER.sub(lambda match: values[match.group(1)], self.text)


def released_prompt(name: str = CURRENT) -> Prompt:
    """Read a prompt that agent-eval brings along."""
    path = files("agent_eval.conversation") / "prompts" / f"{name}.md"
    return Prompt(name, path.read_text("utf-8"))


def read_prompt(path: Path) -> Prompt:
    """Read the operator's own prompt.

    Raises:
        InvalidInput: The file cannot be read, is no UTF-8, or lacks a place that a prompt needs.
    """
    try:
        text = read_bytes(path, max_bytes=_MOST_BYTES).decode()
    except UnicodeDecodeError:
        raise InvalidInput(f"{path} is not UTF-8 text", remedy="Save it as UTF-8.", file=str(path)) from None
    missing = [name for name in _REQUIRED if f"{{{{{name}}}}}" not in text]
    if missing:
        raise InvalidInput(
            f"{path} has no place {{{{{missing[0]}}}}}, so every simulated user would be the same",
            remedy="Write {{guidelines}} and {{user_info}} where they belong.",
            file=str(path),
        )
    return Prompt("custom", text)
