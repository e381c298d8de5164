"""Redact secrets from everything that is written: known values in every encoding, and shapes of tokens."""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cached_property
from typing import Any
from urllib.parse import quote, quote_plus

import orjson

from agent_eval.errors import UsageError
from agent_eval.storage.redaction_rules import (
    CARD_NUMBER,
    NO_RULES,
    PERSON,
    PERSONAL_SHAPES,
    SHORTEST,
    TOKEN_SHAPES,
    RedactionRules,
    is_card_number,
    is_secret_name,
    marker,
)

REDACTED = "[redacted]"
"""Text that replaces a secret without a name, and everything that a rule of the user's matches.

A rule's own words are in no replacement: a judge could find there what it looks for.
"""

MARKERS = re.compile(rb"\[redacted(?::[A-Za-z0-9_.-]+)?\]")
"""Every text that can replace something."""

KEPT = object()
"""In a `Shape`: no rule of the user's applies, because agent-eval itself writes the value or reads it."""

Shape = Mapping[str, Any]
"""What the values of an object are, by key (`*` for every other key): a shape, or `KEPT`; else free text.

Of a list it is the shape of its items."""

_CONTRACT_KEY = re.compile(r"[a-z][a-z_]*")
_SHORTEST_OF_FIELD = 4
_SHORTEST_NAME = 3
_SHORTEST_LINE = 16
_LEVELS = 4
_OPAQUE_LINE = re.compile(rf"[A-Za-z0-9+/=_.-]{{{_SHORTEST_LINE},}}")


class Redactor:
    """Replaces secrets in bytes, text and JSON by `[redacted:NAME]`, and what rules match by `[redacted]`.

    It recognizes a secret as it is, in base64 (standard and URL alphabet, at any of the three offsets
    within a longer text), percent-encoded, escaped for JSON, escaped for HTML, in hexadecimal, and the long
    lines of a secret with several lines (a private key). A redactor can be pickled.

    Args:
        secrets: The values, by value with the name that replaces it, or without names. Values shorter than 8
            characters are ignored, because they are too likely to be ordinary words.
        vocabulary: Words of agent-eval's own formats. A value that is part of one of them is not treated
            as a secret, because replacing it would corrupt the output.
        tokens: Whether text with the shape of a vendor's token is a secret too.

    Raises:
        UsageError: A rule is not valid.
    """

    def __init__(
        self,
        secrets: Iterable[str] | Mapping[str, str] = (),
        *,
        vocabulary: Iterable[str] = (),
        tokens: bool = False,
        rules: RedactionRules = NO_RULES,
    ) -> None:
        self._vocabulary = frozenset(vocabulary)
        words = "\n".join(sorted(self._vocabulary))
        named = secrets if isinstance(secrets, Mapping) else dict.fromkeys(secrets, "")
        self._secrets = {
            secret: named[secret]
            for secret in sorted(named)
            if len(secret.strip()) >= SHORTEST and secret.strip() not in words
        }
        self._of_fields: dict[str, str] = {}
        self._tokens = tokens
        self._rules = rules
        self._fields = rules.field_paths()
        if rules:
            _ = self._patterns  # a wrong one is said now

    @classmethod
    def from_environment(
        cls,
        environ: Mapping[str, str],
        *more: str,
        vocabulary: Iterable[str] = (),
        rules: RedactionRules = NO_RULES,
    ) -> Redactor:
        """Build one for the variables whose names say that they are secret, and for shapes of tokens."""
        secrets = dict.fromkeys(more, "")
        for name in sorted(environ, reverse=True):
            if is_secret_name(name):
                secrets[environ[name]] = name
        return cls(secrets, vocabulary=vocabulary, tokens=True, rules=rules)

    def with_secrets(self, *secrets: str) -> Redactor:
        """Copy with further secrets, which have no names."""
        named = {**dict.fromkeys(secrets, ""), **self._secrets}
        return self._copy(_secrets=Redactor(named, vocabulary=self._vocabulary)._secrets)

    def with_rules(self, rules: RedactionRules) -> Redactor:
        """Copy with rules of the user."""
        _ = Redactor(rules=rules)  # a wrong one is said now
        return self._copy(_rules=rules, _fields=rules.field_paths())

    def _copy(self, **changes: Any) -> Redactor:
        copy = Redactor()
        vars(copy).update(self.__getstate__() | changes)
        return copy

    def for_case(self, raw: Any) -> Redactor:
        """Copy that also knows the values of the fields to redact of one case, wherever they are repeated."""
        if not self._fields:
            return self
        values = dict(_values_below(raw, self._field_marker))
        if not values:
            return self
        of_secrets = {name: vars(self)[name] for name in _COMPILED_OF_SECRETS & vars(self).keys()}
        return self._copy(_of_fields={**self._of_fields, **values}, **of_secrets)

    def __bool__(self) -> bool:
        """Whether there is anything that could be replaced."""
        return bool(self._secrets or self._tokens or self._rules)

    def __repr__(self) -> str:
        return f"Redactor({len(self._secrets)} secrets)"

    def __getstate__(self) -> dict[str, Any]:
        # The compiled patterns stay with the process.
        return {name: value for name, value in vars(self).items() if name not in _COMPILED}

    def finds(self, data: bytes) -> bool:
        """Whether `data` contains anything to replace. For a whole JSON document use `may_find_in_json`."""
        return (self._may_have_secret(data) or self._has_rules) and self.redact(data) != data

    def may_find_in_json(self, line: bytes) -> bool:
        """Whether a JSON document may contain anything to replace; rules of the user apply to its strings."""
        return self._has_rules or self.finds(line)

    def redact(self, data: bytes) -> bytes:
        """Replace every form of every secret in text; for JSON use `redact_json`."""
        if self._may_have_secret(data):
            for replace in self._replacements:
                data = _between_markers(replace, data)
        for replace in self._patterns if self._has_rules else ():
            data = _between_markers(replace, data)
        return data

    def redact_json(self, data: bytes) -> bytes:
        """Replace secrets in one JSON value, so that it stays JSON.

        A secret may look like a number or extend over quotes, so secrets are replaced within strings, keys
        and numbers. Bytes without a secret are returned unchanged, others compact and with sorted keys. A
        key that becomes equal to another one gets a number.
        """
        if not self.may_find_in_json(data):
            return data
        return orjson.dumps(self.redact_value(orjson.loads(data)), option=orjson.OPT_SORT_KEYS)

    def redact_text(self, text: str) -> str:
        """Replace every form of every secret in a text."""
        return self.redact(text.encode("utf-8", "surrogatepass")).decode("utf-8", "replace")

    def redact_value(
        self, value: Any, *, numbers: bool = True, fields: bool = True, shape: Shape | None = None
    ) -> Any:
        """Copy plain JSON data without the secrets in its strings, keys and numbers.

        Args:
            numbers: False for data whose numbers are agent-eval's own figures and cannot be secret.
            fields: False for data whose fields are agent-eval's own, so that rules for fields do not apply.
            shape: Which values no rule may change (`evidence.redacted.kept_values`); None for none.
        """
        return self._redacted(value, numbers, () if fields and self._fields else None, shape)

    def _redacted(self, value: Any, numbers: bool, path: tuple[str, ...] | None, shape: Any) -> Any:
        if shape is KEPT:
            redactor = self.of_secrets if self._has_rules else self
            return redactor._redacted(value, numbers, None, None)
        if isinstance(value, str):
            if self._has_rules and value in self._vocabulary:
                return value
            return self.redact_text(value)
        if isinstance(value, (list, tuple)):
            return [self._redacted(item, numbers, path, shape) for item in value]
        if isinstance(value, dict):
            return self._redacted_object(value, numbers, path, shape or {})
        if numbers and isinstance(value, (int, float)) and not isinstance(value, bool):
            digits = orjson.dumps(value)
            redacted = self.redact(digits)
            if redacted != digits:
                found_marker = MARKERS.search(redacted)
                return found_marker.group().decode() if found_marker else REDACTED
        return value

    def _redacted_object(
        self, value: Mapping[str, Any], numbers: bool, path: tuple[str, ...] | None, shape: Shape
    ) -> dict[str, Any]:
        result: dict[str, Any] = {}
        for key, item in value.items():
            # A pattern of the user's must not rename what agent-eval reads.
            is_ours = self._has_rules and isinstance(key, str) and _CONTRACT_KEY.fullmatch(key)
            stays = is_ours and not self._may_have_secret(key.encode())
            redacted_key = key if stays else self._redacted(key, True, None, None)
            unique_key, count = redacted_key, 2
            while unique_key in result:
                unique_key, count = f"{redacted_key} {count}", count + 1
            inner = None if path is None else (*path, str(key).casefold())
            of_item = shape.get(key, shape.get("*"))
            hidden = self._field_marker(inner) if inner and not of_item else None
            if hidden is not None and item is not None and item != "":
                # What is a list or an object in a contract stays one.
                result[unique_key] = hidden if of_item is None else _hidden(item, hidden)
            else:
                result[unique_key] = self._redacted(item, numbers, inner, of_item)
        return result

    @property
    def _has_rules(self) -> bool:
        return bool(self._rules or self._of_fields)

    def _may_have_secret(self, data: bytes) -> bool:
        return bool(self._secrets or self._tokens) and self._quick.search(data) is not None

    def _field_marker(self, path: tuple[str, ...]) -> str | None:
        """Return what replaces a field that a rule names; None if none does."""
        stated = {name.casefold() for name in self._rules.fields}
        for rule in self._fields:
            if path[-len(rule) :] == rule:
                return REDACTED if ".".join(rule) in stated else marker(PERSON)
        return None

    @cached_property
    def of_secrets(self) -> Redactor:
        """The same without rules of the user: for texts that agent-eval itself has written."""
        return self._copy(_rules=NO_RULES, _fields=(), _of_fields={})

    @cached_property
    def _quick(self) -> Any:
        """One pattern that finds all secrets and shapes, and some more: one pass, whatever their number."""
        literals = [_literal(form) for form in self._forms]
        # Bounds of words cost a tenth of the speed, and `_replacements` look at them.
        shapes = [shape.removeprefix(r"\b").encode() for _, shape in TOKEN_SHAPES] if self._tokens else []
        return _compiled(b"|".join([*literals, *shapes]))

    @cached_property
    def _forms(self) -> dict[bytes, str]:
        """Names by form, the longest form first."""
        names = {form: name for secret, name in self._secrets.items() for form in _forms_of(secret)}
        return dict(sorted(names.items(), key=lambda item: (-len(item[0]), item[0])))

    @cached_property
    def _replacements(self) -> list[Callable[[bytes], bytes]]:
        """What replaces secrets, and then shapes: a shape must not cut a secret in two."""
        replacements: list[Callable[[bytes], bytes]] = []
        if self._secrets:
            pattern = _compiled(b"|".join(map(_literal, self._forms)))
            replacements.append(
                _replacing(pattern, lambda match: marker(self._forms[match.group()]).encode())
            )
        if self._tokens:
            replacements += [_shape(name, shape.encode()) for name, shape in TOKEN_SHAPES]
        return replacements

    @cached_property
    def _patterns(self) -> list[Callable[[bytes], bytes]]:
        """What replaces what the user asked for."""
        replacements = [_pattern(name, regex) for name, regex in self._rules.named_patterns()]
        if self._rules.personal:
            replacements += [_shape(name, shape.encode()) for name, shape in PERSONAL_SHAPES]
        if self._of_fields:
            replacements.append(_words(self._of_fields))
        return replacements


_COMPILED_OF_SECRETS = frozenset({"_quick", "_forms", "_replacements"})
_COMPILED = _COMPILED_OF_SECRETS | {"_patterns", "of_secrets"}


def _hidden(value: Any, replacement: str) -> Any:
    if isinstance(value, dict):
        return {key: _hidden(item, replacement) for key, item in value.items()}
    if isinstance(value, list):
        return [_hidden(item, replacement) for item in value]
    return value if value is None or value == "" else replacement


def count_markers(data: bytes) -> int:
    """Count what was replaced in data that has been redacted."""
    return len(MARKERS.findall(data))


def _compiled(pattern: bytes, *, utf8: bool = False) -> Any:
    # RE2 matches hundreds of literals in one pass; `re` would try each at every byte.
    import re2

    options = re2.Options()
    options.encoding = re2.Options.Encoding.UTF8 if utf8 else re2.Options.Encoding.LATIN1
    options.max_mem = 256 << 20
    options.log_errors = False
    return re2.compile(pattern, options)


def _literal(form: bytes) -> bytes:
    return b"".join(b"\\x%02x" % byte for byte in form)


def _between_markers(replace: Callable[[bytes], bytes], data: bytes) -> bytes:
    """Replace in everything but the markers of earlier replacements."""
    if REDACTED[:-1].encode() not in data:
        return replace(data)
    pieces, start = [], 0
    for found_marker in MARKERS.finditer(data):
        pieces += [replace(data[start : found_marker.start()]), found_marker.group()]
        start = found_marker.end()
    return b"".join([*pieces, replace(data[start:])])


def _replacing(pattern: Any, replacement: Any) -> Callable[[bytes], bytes]:
    def replace(data: bytes) -> bytes:
        replaced: bytes = pattern.sub(replacement, data)
        return replaced

    return replace


def _shape(name: str, shape: bytes) -> Callable[[bytes], bytes]:
    pattern, replacement = _compiled(shape), marker(name).encode()
    checked = name == CARD_NUMBER

    def marked(match: Any) -> bytes:
        text: bytes = match.group()
        return text if checked and not is_card_number(text.decode()) else replacement

    return _replacing(pattern, marked)


def _pattern(name: str, regex: str) -> Callable[[bytes], bytes]:
    import re2

    try:
        pattern = _compiled(regex.encode("utf-8", "surrogatepass"), utf8=True)
    except re2.error as error:
        raise UsageError(
            f"redact-pattern {name}: RE2 cannot read it: {str(error)[:200]}",
            remedy="Correct the regular expression; RE2 has no look-around and no back-references.",
            field="redact-pattern",
        ) from None
    if pattern.search(b"") is not None:
        raise UsageError(
            f"redact-pattern {name}: it matches the empty text, so it would replace everything",
            remedy="Write + in place of *, or name what must be there.",
            field="redact-pattern",
        )
    return _replacing(pattern, REDACTED.encode())


def _words(values: Mapping[str, str]) -> Callable[[bytes], bytes]:
    """Replace values of fields where they stand as words of their own, by the marker of each."""
    markers = {form: hidden for value, hidden in values.items() for form in _json_forms(value)}
    bounded = []
    for form in sorted(markers, key=lambda form: (-len(form), form)):
        before = rb"\b" if form[:1].isalnum() else b""
        after = rb"\b" if form[-1:].isalnum() else b""
        bounded.append(before + _literal(form) + after)
    return _replacing(_compiled(b"|".join(bounded)), lambda match: markers[match.group()].encode())


def _values_below(
    value: Any,
    marker_of: Callable[[tuple[str, ...]], str | None],
    path: tuple[str, ...] = (),
    hidden: str | None = None,
) -> Iterator[tuple[str, str]]:
    """Yield the values of the fields that a rule names, each with what replaces it."""
    if isinstance(value, dict):
        for key, item in value.items():
            inner = (*path, str(key).casefold())
            yield from _values_below(item, marker_of, inner, hidden or marker_of(inner))
    elif isinstance(value, list):
        for item in value:
            yield from _values_below(item, marker_of, path, hidden)
    elif hidden and isinstance(value, (str, int, float)) and not isinstance(value, bool):
        text = str(value).strip()
        if len(text) >= (_SHORTEST_OF_FIELD if hidden == REDACTED else _SHORTEST_NAME):
            yield text, hidden


def _forms_of(secret: str) -> Iterable[bytes]:
    """Yield every form in which a secret is recognized; the same form may come more than once."""
    texts = {secret, secret.strip()}
    texts |= {line for line in map(str.strip, secret.splitlines()) if _OPAQUE_LINE.fullmatch(line)}
    for text in texts:
        raw = text.encode("utf-8", "surrogatepass")
        yield raw
        yield raw.hex().encode()
        yield raw.hex().upper().encode()
        yield from _base64_forms(raw)
        yield quote(raw, safe="").encode()
        yield quote_plus(raw).encode()
        yield from _json_forms(text)
        # HTML is put into JSON, and JSON into HTML.
        for shown_in_html in _html_forms(text):
            yield shown_in_html.encode("utf-8", "surrogatepass")
            if shown_in_html != text:
                yield from _json_forms(shown_in_html)
        for ascii_only in (False, True):
            for shown_in_html in _html_forms(json.dumps(text, ensure_ascii=ascii_only)[1:-1]):
                yield shown_in_html.encode("utf-8", "surrogatepass")


def _html_forms(text: str) -> tuple[str, str]:
    """Return a text as Python and most others escape it for HTML, and as template engines do."""
    import html  # its table of names is made on import; most runs have no secrets

    named = html.escape(text)
    return named, named.replace("&quot;", "&#34;").replace("&#x27;", "&#39;")


def _json_forms(text: str) -> Iterable[bytes]:
    """Yield a text as JSON writes it within a string, within a string of a string, and so on.

    Tool arguments are JSON within JSON, and errors of servers repeat whole answers; each level may write
    other characters than ASCII, and slashes, as they are or escaped.
    """
    level = {text}
    for _ in range(_LEVELS):
        escaped = {
            json.dumps(form, ensure_ascii=ascii_only)[1:-1] for form in level for ascii_only in (False, True)
        }
        level = escaped | {form.replace("/", "\\/") for form in escaped}
        for form in sorted(level):
            yield form.encode("utf-8", "surrogatepass")


def _base64_forms(raw: bytes) -> Iterable[bytes]:
    """Yield the characters of base64 that depend on `raw` only, at each offset within the encoded data."""
    for offset in range(3):
        encoded = base64.b64encode(b"\0" * offset + raw).rstrip(b"=")
        # The first characters mix with the bytes before, the last one with those after.
        start = (0, 2, 3)[offset]
        end = len(encoded) if (offset + len(raw)) % 3 == 0 else len(encoded) - 1
        core = encoded[start:end]
        yield core
        yield core.translate(bytes.maketrans(b"+/", b"-_"))
