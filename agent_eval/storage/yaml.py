"""Strict, bounded YAML: the part of YAML 1.2 that says the same as JSON.

Values are built from libyaml's events, so nothing recurses and no Python object is ever constructed.
Plain scalars follow the core schema of YAML 1.2 (https://yaml.org/spec/1.2.2/#103-core-schema): `yes`,
`on` and dates are text, `012` is twelve.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NoReturn

import yaml

from agent_eval.errors import InvalidInput
from agent_eval.storage.files import read_bytes
from agent_eval.storage.json import DEFAULT_LIMITS, MAX_INTEGER, MIN_INTEGER, Limits

_NULL = re.compile(r"null|Null|NULL|~|")
_TRUE = re.compile(r"true|True|TRUE")
_FALSE = re.compile(r"false|False|FALSE")
_INTEGER = re.compile(r"[-+]?[0-9]+|0o[0-7]+|0x[0-9a-fA-F]+", re.ASCII)
_FLOAT = re.compile(r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?", re.ASCII)
_NOT_FINITE = re.compile(r"[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN)")
_LONGEST_INTEGER = 40

_STRING_TAGS = ("tag:yaml.org,2002:str", "!")
_COLLECTION_TAGS = ("tag:yaml.org,2002:map", "tag:yaml.org,2002:seq", "!")

_LOADER: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


def read_yaml(path: Path, *, limits: Limits = DEFAULT_LIMITS) -> Any:
    """Read and parse a YAML file into what JSON could hold.

    Raises:
        InvalidInput: What `json_reader.read_json` refuses, and anchors, aliases, merge keys, tags,
            keys that are not text, several documents. Names file, line, column and remedy.
        StorageError: The disk failed.
    """
    return parse_yaml(read_bytes(path, max_bytes=limits.max_bytes), source=str(path), limits=limits)


def parse_yaml(data: bytes, *, source: str, limits: Limits = DEFAULT_LIMITS) -> Any:
    """`read_yaml` for bytes at hand; `source` is what errors call them."""
    if len(data) > limits.max_bytes:
        message = f"{source}: {len(data):,} bytes, more than the {limits.max_bytes:,} that are read"
        raise InvalidInput(message, file=source, remedy="Split the file.")
    builder = _Builder(source, limits.max_depth)
    try:
        text = data.decode("utf-8")
        for event in _events(text):
            builder.take(event)
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        message = f"{source}: line {line}: not UTF-8"
        raise InvalidInput(message, file=source, line=line, remedy="Save the file as UTF-8.") from None
    except yaml.YAMLError as error:
        raise _malformed(source, text, error) from None
    if not builder.documents:
        raise InvalidInput(
            f"{source}: empty", file=source, remedy="The file has no YAML in it: write it again."
        )
    return builder.documents[0]


def _events(text: str) -> Iterator[Any]:
    parsed: Iterator[Any] = yaml.parse(text, Loader=_LOADER)
    return parsed


def _malformed(source: str, text: str, error: yaml.YAMLError) -> InvalidInput:
    mark = getattr(error, "problem_mark", None)
    if mark is None:  # the reader's own errors know a position only
        line, column = text.count("\n", 0, getattr(error, "position", 0)) + 1, None
    else:
        line, column = mark.line + 1, mark.column + 1
    problem = getattr(error, "problem", None) or getattr(error, "reason", None) or "malformed YAML"
    place = f"line {line}" if column is None else f"line {line}, column {column}"
    return InvalidInput(
        f"{source}: {place}: {problem}",
        remedy="Fix the YAML at this place; check indentation, quotes and control characters.",
        file=source,
        line=line,
        column=column,
    )


_NO_KEY = object()


@dataclass(slots=True)
class _Open:
    """A mapping or sequence whose end has not come yet."""

    value: dict[str, Any] | list[Any]
    key: Any = field(default=_NO_KEY)


class _Builder:
    """Takes libyaml's events one by one and builds plain values."""

    def __init__(self, source: str, max_depth: int) -> None:
        self.source = source
        self.max_depth = max_depth
        self.documents: list[Any] = []
        self.open: list[_Open] = []

    def take(self, event: yaml.Event) -> None:
        if isinstance(event, yaml.AliasEvent):
            self.refuse(event, "aliases are not supported", "Write the value out.")
        elif isinstance(event, yaml.NodeEvent) and event.anchor is not None:
            self.refuse(event, "anchors are not supported", "Write the value out where it is needed.")
        elif isinstance(event, yaml.ScalarEvent):
            self.scalar(event)
        elif isinstance(event, (yaml.MappingStartEvent, yaml.SequenceStartEvent)):
            self.start(event)
        elif isinstance(event, (yaml.MappingEndEvent, yaml.SequenceEndEvent)):
            self.add(self.open.pop().value)
        elif isinstance(event, yaml.DocumentStartEvent) and self.documents:
            self.refuse(event, "more than one document", "Keep one document in the file.")

    def start(self, event: yaml.CollectionStartEvent) -> None:
        if event.tag is not None and event.tag not in _COLLECTION_TAGS:
            self.refuse_tag(event)
        if len(self.open) >= self.max_depth:
            self.refuse(event, f"nested deeper than {self.max_depth} levels", "Flatten the data.")
        if self.expects_key():
            self.refuse(event, "a key must be text", "Use a plain word as the key.")
        self.open.append(_Open({} if isinstance(event, yaml.MappingStartEvent) else []))

    def scalar(self, event: yaml.ScalarEvent) -> None:
        if self.expects_key():
            self.key(event)
        elif event.tag in _STRING_TAGS or (event.tag is None and not event.implicit[0]):
            self.add(event.value)
        elif event.tag is None:
            self.add(self.plain(event))
        else:
            self.refuse_tag(event)

    def expects_key(self) -> bool:
        return bool(self.open) and isinstance(self.open[-1].value, dict) and self.open[-1].key is _NO_KEY

    def key(self, event: yaml.ScalarEvent) -> None:
        if event.tag is not None and event.tag not in _STRING_TAGS:
            self.refuse_tag(event)
        if event.value == "<<" and event.implicit[0]:
            self.refuse(event, "merge keys are not supported", "Write the members out.")
        if event.value in self.open[-1].value:
            self.refuse(event, f"duplicate key {event.value[:80]!r}", "Keep one of the two.")
        self.open[-1].key = event.value

    def plain(self, event: yaml.ScalarEvent) -> Any:
        """The value of an unquoted scalar under the core schema."""
        text = event.value
        for pattern, value in ((_NULL, None), (_TRUE, True), (_FALSE, False)):
            if pattern.fullmatch(text):
                return value
        if _INTEGER.fullmatch(text):
            return self.integer(event)
        if _FLOAT.fullmatch(text):
            number = float(text)
            if math.isfinite(number):
                return number
            self.refuse(event, "number too large for a 64-bit float", "Write a finite number or null.")
        if _NOT_FINITE.fullmatch(text):
            self.refuse(event, f"{text} is not JSON", "Write a finite number or null.")
        return text

    def integer(self, event: yaml.ScalarEvent) -> int:
        text = event.value
        base = {"0o": 8, "0x": 16}.get(text[:2], 10)
        number = int(text, base) if len(text) <= _LONGEST_INTEGER else MAX_INTEGER + 1
        if not MIN_INTEGER <= number <= MAX_INTEGER:
            self.refuse(event, "integer outside 64 bit", "Write it in quotes.")
        return number

    def add(self, value: Any) -> None:
        if not self.open:
            self.documents.append(value)
            return
        top = self.open[-1]
        if isinstance(top.value, list):
            top.value.append(value)
        else:
            top.value[top.key] = value
            top.key = _NO_KEY

    def refuse_tag(self, event: yaml.NodeEvent) -> NoReturn:
        tag = getattr(event, "tag", "")
        self.refuse(event, f"tag {str(tag)[:80]!r} is not supported", "Remove the tag.")

    def refuse(self, event: yaml.Event, what: str, remedy: str) -> NoReturn:
        mark: Any = event.start_mark
        line, column = mark.line + 1, mark.column + 1
        message = f"{self.source}: line {line}, column {column}: {what}"
        raise InvalidInput(message, remedy=remedy, file=self.source, line=line, column=column)
