"""Read strict, bounded YAML: the part of YAML 1.2 that corresponds to JSON.

The reader builds values from libyaml's events, so it never constructs a Python object that the file names.
Plain scalars follow the core schema of YAML 1.2 (https://yaml.org/spec/1.2.2/#103-core-schema): `yes`, `on`
and dates are text, `012` is twelve.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

from agent_eval.errors import InvalidInput
from agent_eval.storage.files import read_bytes
from agent_eval.storage.json import DEFAULT_LIMITS, MAX_INTEGER, MIN_INTEGER, Limits

_WORDS = {
    **dict.fromkeys(("null", "Null", "NULL", "~", "")),
    **dict.fromkeys(("true", "True", "TRUE"), True),
    **dict.fromkeys(("false", "False", "FALSE"), False),
}
_INTEGER = re.compile(r"[-+]?[0-9]+|0o[0-7]+|0x[0-9a-fA-F]+", re.ASCII)
_FLOAT = re.compile(r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?", re.ASCII)
_NOT_FINITE = re.compile(r"[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN)")
_LONGEST_INTEGER = 40

_STRING_TAGS = ("tag:yaml.org,2002:str", "!")
_COLLECTION_TAGS = ("tag:yaml.org,2002:map", "tag:yaml.org,2002:seq", "!")

_MOST_REPEATED = 16 << 20
"""What all aliases of a document may repeat: each value weighs 16, and a character 1."""

_FIX_SYNTAX = "Fix the YAML at this place; check indentation, quotes and control characters."

_LOADER: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


def read_yaml(path: Path, *, limits: Limits = DEFAULT_LIMITS) -> Any:
    """Read a YAML file and return its value as plain JSON data.

    Raises:
        InvalidInput: As `json.read_json`; also for merge keys, tags, keys that are not text, several
            documents, and aliases that repeat too much. Names file, line, column and remedy.
        StorageError: The disk failed.
    """
    return parse_yaml(read_bytes(path, max_bytes=limits.max_bytes), source=str(path), limits=limits)


def parse_yaml(data: bytes, *, source: str, limits: Limits = DEFAULT_LIMITS) -> Any:
    """Parse YAML as `read_yaml` does; `source` is the name of the text in errors.

    Example:
        >>> parse_yaml(b"judges: [policy]\\nhard: yes", source="config.yml")
        {'judges': ['policy'], 'hard': 'yes'}
    """
    if len(data) > limits.max_bytes:
        message = f"{source}: {len(data):,} bytes, more than the {limits.max_bytes:,} that are read"
        raise InvalidInput(message, file=source, remedy="Split the file.")
    try:
        text = data.decode("utf-8")
        return _Reader(yaml.parse(text, Loader=_LOADER), limits.max_depth).document()
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        message = f"{source}: line {line}: not UTF-8"
        raise InvalidInput(message, file=source, line=line, remedy="Save the file as UTF-8.") from None
    except EOFError:
        remedy = "The file has no YAML in it: write it again."
        raise InvalidInput(f"{source}: empty", file=source, remedy=remedy) from None
    except yaml.YAMLError as error:
        # Errors of PyYAML's reader have no column.
        mark = error.problem_mark if isinstance(error, yaml.MarkedYAMLError) else None
        line = text.count("\n", 0, getattr(error, "position", 0)) if mark is None else mark.line
        line, column = line + 1, None if mark is None else mark.column + 1
        problem = getattr(error, "problem", None) or getattr(error, "reason", None) or "malformed YAML"
        raise InvalidInput(
            f"{source}: line {line}{'' if column is None else f', column {column}'}: {problem}",
            remedy=getattr(error, "remedy", _FIX_SYNTAX),
            file=source,
            line=line,
            column=column,
        ) from None


class _Refused(yaml.MarkedYAMLError):
    """Valid YAML that JSON cannot express."""

    def __init__(self, event: Any, problem: str, remedy: str) -> None:
        super().__init__(problem=problem, problem_mark=event.start_mark)
        self.remedy = remedy


class _Reader:
    """Builds values from libyaml's events; recurses no deeper than `max_depth`."""

    def __init__(self, events: Iterator[Any], max_depth: int) -> None:
        self._events = events
        self._max_depth = max_depth
        self._anchored: dict[str, Any] = {}
        self._repeated = 0

    def document(self) -> Any:
        next(self._events)  # the start of the stream
        if isinstance(next(self._events), yaml.StreamEndEvent):
            raise EOFError
        value = self._value(next(self._events), 0)
        next(self._events)  # the end of the document
        event = next(self._events)
        if isinstance(event, yaml.DocumentStartEvent):
            raise _Refused(event, "more than one document", "Keep one document in the file.")
        return value

    def _value(self, event: Any, depth: int) -> Any:
        if isinstance(event, yaml.AliasEvent):
            if event.anchor not in self._anchored:
                remedy = "Write the anchor, such as `&name`, at a whole value before its aliases."
                raise _Refused(event, f"no anchor {str(event.anchor)[:80]!r} before it", remedy)
            return self._copied(self._anchored[event.anchor], event, depth)
        value: Any
        if isinstance(event, yaml.ScalarEvent):
            value = _scalar(event)
        else:
            _refuse_tags(event, _COLLECTION_TAGS)
            self._refuse_depth(event, depth)
            if isinstance(event, yaml.SequenceStartEvent):
                value = [self._value(item, depth + 1) for item in self._until(yaml.SequenceEndEvent)]
            else:
                value = {}
                for key in self._until(yaml.MappingEndEvent):
                    if not isinstance(key, yaml.ScalarEvent):
                        raise _Refused(key, "a key must be text", "Use a plain word as the key.")
                    _refuse_tags(key, _STRING_TAGS)
                    if key.value == "<<" and key.implicit[0]:
                        raise _Refused(key, "merge keys are not supported", "Write the members out.")
                    if key.value in value:
                        words = f"duplicate key {key.value[:80]!r}"
                        raise _Refused(key, words, "Keep one of the two.")
                    if key.anchor is not None:
                        self._anchored[key.anchor] = key.value
                    value[key.value] = self._value(next(self._events), depth + 1)
        if event.anchor is not None:
            self._anchored[event.anchor] = value
        return value

    def _refuse_depth(self, event: Any, depth: int) -> None:
        if depth == self._max_depth:
            raise _Refused(event, f"nested deeper than {self._max_depth} levels", "Flatten the data.")

    def _copied(self, value: Any, event: Any, depth: int) -> Any:
        """Copy what an anchor names, for an alias: readers may change one and not the other."""
        texts = (value,) if isinstance(value, str) else value if isinstance(value, dict) else ()
        self._repeated += 16 + sum(map(len, texts))
        if self._repeated > _MOST_REPEATED:
            raise _Refused(event, "aliases repeat more than is read", "Use fewer of them.")
        if not isinstance(value, list | dict):
            return value
        self._refuse_depth(event, depth)
        if isinstance(value, list):
            return [self._copied(item, event, depth + 1) for item in value]
        return {name: self._copied(item, event, depth + 1) for name, item in value.items()}

    def _until(self, end: type[yaml.Event]) -> Iterator[Any]:
        while not isinstance(event := next(self._events), end):
            yield event


def _refuse_tags(event: Any, allowed: tuple[str, ...]) -> None:
    if event.tag is not None and event.tag not in allowed:
        raise _Refused(event, f"tag {event.tag[:80]!r} is not supported", "Remove the tag.")


def _scalar(event: Any) -> Any:
    """Return the value of a scalar: text in quotes as it is, plain text by the core schema."""
    text = event.value
    _refuse_tags(event, _STRING_TAGS)
    if event.tag is not None or not event.implicit[0]:
        return text
    if text in _WORDS:
        return _WORDS[text]
    if _INTEGER.fullmatch(text):
        base = {"0o": 8, "0x": 16}.get(text[:2], 10)
        integer = int(text, base) if len(text) <= _LONGEST_INTEGER else MAX_INTEGER + 1
        if not MIN_INTEGER <= integer <= MAX_INTEGER:
            raise _Refused(event, "integer outside 64 bit", "Write it in quotes.")
        return integer
    if _FLOAT.fullmatch(text):
        if math.isinf(number := float(text)):
            raise _Refused(event, "number too large for a 64-bit float", "Write a finite number or null.")
        return number
    if _NOT_FINITE.fullmatch(text):
        raise _Refused(event, f"{text} is not JSON", "Write a finite number or null.")
    return text
