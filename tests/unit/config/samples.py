"""A value of every option that is not its default, as text and as what the text means."""

from __future__ import annotations

from functools import reduce
from pathlib import Path
from typing import Any

from agent_eval.config.options import Option
from agent_eval.config.values import parse

_BY_KIND: dict[str, tuple[str, Any]] = {
    "text": ("some words", "some words"),
    "id": ("\x1b[31mred", "\x1b[31mred"),
    "path": ("some/file.json", Path("some/file.json")),
    "url": ("https://example.org/v1", "https://example.org/v1"),
    "secret": ("hunter2-hunter2", "hunter2-hunter2"),
    "private key": ("a-private-key", "a-private-key"),
    "script": ("pip install x\npip list", "pip install x\npip list"),
    "switch": ("true", True),
    "share": ("0.25", 0.25),
    "amount": ("7.5", 7.5),
    "count": ("7", 7),
    "integer": ("7", 7),
    "seed": ("-7", -7),
    "parallel": ("auto", "auto"),
    "lines": ("one thing", ("one thing",)),
    "list": ("one,two", ("one", "two")),
    "variables": ("HTTPS_PROXY,NO_PROXY", ("HTTPS_PROXY", "NO_PROXY")),
    "headers": ("X-Key=MY_KEY", (("X-Key", "MY_KEY"),)),
}

_BY_NAME: dict[str, tuple[str, Any]] = {"comment-id": ("nightly", "nightly")}


def sample(option: Option) -> tuple[str, Any]:
    """A text for the option, and the value that it stands for."""
    if option.choices:
        other = next(choice for choice in option.choices if choice != option.default)
        return (other, (other,)) if option.is_listed else (other, other)
    return _BY_NAME.get(option.name) or _BY_KIND[option.kind]


def at(parts: Any, place: str) -> Any:
    """The attribute of an attribute that a place such as `limits.attempt.steps` names."""
    return reduce(getattr, place.split("."), parts)


def default_of(option: Option) -> Any:
    """The value that holds when the option is not given; None, or no values, without a default."""
    if option.default:
        return parse(option, option.default)
    return () if option.is_listed else None
