"""Redact secrets from everything that is written: exact values, and the forms that encodings give them."""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Iterable, Mapping
from functools import cached_property
from typing import Any
from urllib.parse import quote, quote_plus

import orjson

from agent_eval.storage.secret_names import SHORTEST, is_secret_name

REDACTED = "[redacted]"
"""Text that replaces a secret."""

_SHORTEST_LINE = 16
_OPAQUE_LINE = re.compile(rf"[A-Za-z0-9+/=_.-]{{{_SHORTEST_LINE},}}")


class Redactor:
    """Replaces known secrets in bytes by `[redacted]`.

    It recognizes a secret as it is, in base64 (standard and URL alphabet, at any of the three offsets
    within a longer text), percent-encoded, escaped for JSON, escaped for HTML, in hexadecimal, and the long
    lines of a secret with several lines (a private key). A redactor can be pickled.

    Args:
        secrets: The values. Values shorter than 8 characters are ignored, because they are too likely to
            be ordinary words.
        vocabulary: Words of agent-eval's own formats. A value that is part of one of them is not treated
            as a secret, because replacing it would corrupt the output.

    Example:
        >>> redactor = Redactor(["s3cret-value"])
        >>> redactor.redact(b"key=s3cret-value base64=czNjcmV0LXZhbHVl")
        b'key=[redacted] base64=[redacted]'
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
        """Build a redactor for the variables whose names say that they are secret, and for `more` values."""
        secrets = [value for name, value in environ.items() if is_secret_name(name)]
        return cls([*secrets, *more], vocabulary=vocabulary)

    def __bool__(self) -> bool:
        """Whether there are any secrets to replace."""
        return bool(self._secrets)

    def __repr__(self) -> str:
        return f"Redactor({len(self._secrets)} secrets)"

    def __getstate__(self) -> dict[str, Any]:
        return {"_secrets": self._secrets}  # the compiled pattern stays with the process

    def finds(self, data: bytes) -> bool:
        """Whether `data` contains a secret."""
        return bool(self._secrets) and self._pattern.search(data) is not None

    def redact(self, data: bytes) -> bytes:
        """Replace every form of every secret in text; for JSON use `redact_json`."""
        if not self.finds(data):
            return data
        redacted: bytes = self._pattern.sub(REDACTED.encode(), data)
        return redacted

    def redact_json(self, data: bytes) -> bytes:
        """Replace secrets in one JSON value, so that it stays JSON.

        A secret may look like a number or extend over quotes, so secrets are replaced within strings, keys
        and numbers. Bytes without a secret are returned unchanged, others compact and with sorted keys. A
        key that becomes equal to another one gets a number.
        """
        if not self.finds(data):
            return data
        return orjson.dumps(self.redact_value(orjson.loads(data)), option=orjson.OPT_SORT_KEYS)

    def redact_text(self, text: str) -> str:
        """Replace every form of every secret in a text."""
        return self.redact(text.encode("utf-8", "surrogatepass")).decode("utf-8", "replace")

    def redact_value(self, value: Any, *, numbers: bool = True) -> Any:
        """Copy plain JSON data without the secrets in its strings, keys and numbers.

        Args:
            value: The data.
            numbers: False for data whose numbers are agent-eval's own figures and cannot be secret.
        """
        if isinstance(value, str):
            return self.redact_text(value)
        if isinstance(value, (list, tuple)):
            return [self.redact_value(item, numbers=numbers) for item in value]
        if isinstance(value, dict):
            result: dict[str, Any] = {}
            for key, item in value.items():
                redacted_key = self.redact_value(key)
                unique_key, count = redacted_key, 2
                while unique_key in result:
                    unique_key, count = f"{redacted_key} {count}", count + 1
                result[unique_key] = self.redact_value(item, numbers=numbers)
            return result
        if numbers and isinstance(value, (int, float)) and not isinstance(value, bool):
            digits = orjson.dumps(value)
            return value if self.redact(digits) == digits else REDACTED
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
    import html  # its table of names is made on import; most runs have no secrets

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
        escaped_once = json.dumps(text, ensure_ascii=ascii_only)[1:-1]
        # Escaped twice for JSON within a JSON string, as tool arguments often are.
        for escaped in (escaped_once, json.dumps(escaped_once, ensure_ascii=ascii_only)[1:-1]):
            yield escaped.encode("utf-8", "surrogatepass")
            yield escaped.replace("/", "\\/").encode("utf-8", "surrogatepass")


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
