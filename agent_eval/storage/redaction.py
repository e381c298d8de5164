"""Secrets out of everything that is written: exact values in the forms in which they travel."""

from __future__ import annotations

import base64
import html
import json
import re
from collections.abc import Iterable, Mapping
from functools import cached_property
from typing import Any
from urllib.parse import quote, quote_plus

import orjson

from agent_eval.storage.secret_names import SHORTEST, is_secret_name

REDACTED = "[redacted]"
_SHORTEST_LINE = 16
_OPAQUE_LINE = re.compile(rf"[A-Za-z0-9+/=_.-]{{{_SHORTEST_LINE},}}")


class Redactor:
    """Replaces known secrets in bytes by `[redacted]`.

    Found are a secret as it is, in base64 (standard and URL alphabet, at any of the three offsets
    within a longer text), percent-encoded, escaped for JSON, escaped for HTML, in hexadecimal, and
    the long lines of a secret of several lines (a private key).

    Can be sent to other processes.

    Args:
        secrets: The values. Those shorter than 8 characters are ignored: they are too likely to be
            ordinary words.
        vocabulary: Words of our own formats. A value that is part of one of them is no secret, and
            replacing it would break what is written.
    """

    def __init__(self, secrets: Iterable[str], *, vocabulary: Iterable[str] = ()) -> None:
        words = "\n".join(vocabulary)
        self._secrets = sorted(
            {secret for secret in secrets if len(secret.strip()) >= SHORTEST and secret.strip() not in words}
        )

    @classmethod
    def from_environment(
        cls, environ: Mapping[str, str], *more: str, vocabulary: Iterable[str] = ()
    ) -> Redactor:
        """A redactor for the values of variables whose names say that they are secret, and for `more`."""
        named = [value for name, value in environ.items() if is_secret_name(name)]
        return cls([*named, *more], vocabulary=vocabulary)

    def __bool__(self) -> bool:
        """Whether there is anything to look for."""
        return bool(self._secrets)

    def __repr__(self) -> str:
        return f"Redactor({len(self._secrets)} secrets)"

    def __getstate__(self) -> dict[str, Any]:
        return {"_secrets": self._secrets}  # the compiled pattern stays with the process

    def finds(self, data: bytes) -> bool:
        """Whether there is a secret in `data`."""
        return bool(self._secrets) and self._pattern.search(data) is not None

    def redact(self, data: bytes) -> bytes:
        """`data` with every form of every secret replaced. Text only: see `redact_json`."""
        if not self.finds(data):
            return data
        redacted: bytes = self._pattern.sub(REDACTED.encode(), data)
        return redacted

    def redact_json(self, data: bytes) -> bytes:
        """Like `redact` for one JSON value, which stays JSON.

        A secret may look like a number or reach over quotes, so values are replaced within strings,
        keys and numbers. Bytes without a secret are returned as they are; others come back compact,
        keys sorted. A key that changes into one that is there already gets a number.
        """
        if not self.finds(data):
            return data
        return orjson.dumps(self.redact_value(orjson.loads(data)), option=orjson.OPT_SORT_KEYS)

    def redact_text(self, text: str) -> str:
        """`redact` for text."""
        return self.redact(text.encode("utf-8", "surrogatepass")).decode("utf-8", "replace")

    def redact_value(self, value: Any, *, numbers: bool = True) -> Any:
        """A copy of plain JSON data without secrets in strings, keys and numbers.

        Args:
            value: The data.
            numbers: False where the numbers are our own figures.
        """
        if isinstance(value, str):
            return self.redact_text(value)
        if isinstance(value, (list, tuple)):
            return [self.redact_value(item, numbers=numbers) for item in value]
        if isinstance(value, dict):
            result: dict[str, Any] = {}
            for key, item in value.items():
                name = self.redact_value(key)
                free, count = name, 2
                while free in result:
                    free, count = f"{name} {count}", count + 1
                result[free] = self.redact_value(item, numbers=numbers)
            return result
        if numbers and isinstance(value, (int, float)) and not isinstance(value, bool):
            written = orjson.dumps(value)
            return value if self.redact(written) == written else REDACTED
        return value

    @cached_property
    def _pattern(self) -> Any:
        # RE2 matches hundreds of literals in one pass; `re` would try each at every byte.
        import re2

        options = re2.Options()
        options.encoding = re2.Options.Encoding.LATIN1
        options.max_mem = 256 << 20
        forms = sorted({form for secret in self._secrets for form in _forms(secret)}, key=len, reverse=True)
        return re2.compile(b"|".join(_literal(form) for form in forms), options)


def _literal(form: bytes) -> bytes:
    return b"".join(b"\\x%02x" % byte for byte in form)


def _forms(secret: str) -> Iterable[bytes]:
    texts = {secret, secret.strip()}
    texts |= {line for line in map(str.strip, secret.splitlines()) if _OPAQUE_LINE.fullmatch(line)}
    for text in texts:
        raw = text.encode("utf-8", "surrogatepass")
        yield raw
        yield raw.hex().encode()
        yield from _base64_forms(raw)
        yield quote(raw, safe="").encode()
        yield quote_plus(raw).encode()
        yield html.escape(text).encode("utf-8", "surrogatepass")
        yield from _json_forms(text)


def _json_forms(text: str) -> Iterable[bytes]:
    for ascii_only in (False, True):
        once = json.dumps(text, ensure_ascii=ascii_only)[1:-1]
        # Twice: JSON inside a JSON string, as tool arguments often are.
        for escaped in (once, json.dumps(once, ensure_ascii=ascii_only)[1:-1]):
            yield escaped.encode("utf-8", "surrogatepass")
            yield escaped.replace("/", "\\/").encode("utf-8", "surrogatepass")


def _base64_forms(raw: bytes) -> Iterable[bytes]:
    """The characters of base64 that depend on `raw` only, wherever it lies in what was encoded."""
    for offset in range(3):
        encoded = base64.b64encode(b"\0" * offset + raw).rstrip(b"=")
        # The first characters mix with the bytes before, the last one with those after.
        start = (0, 2, 3)[offset]
        end = len(encoded) if (offset + len(raw)) % 3 == 0 else len(encoded) - 1
        core = encoded[start:end]
        yield core
        yield core.translate(bytes.maketrans(b"+/", b"-_"))
