"""The forms in which encodings show a secret: base64, percent-encoding, JSON, HTML, hexadecimal."""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Iterable
from urllib.parse import quote, quote_plus

_SHORTEST_LINE = 16
_LEVELS = 4
_OPAQUE_LINE = re.compile(rf"[A-Za-z0-9+/=_.-]{{{_SHORTEST_LINE},}}")


def forms_of(secret: str) -> Iterable[bytes]:
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
        yield from json_forms(text)
        # HTML is put into JSON, and JSON into HTML.
        for shown_in_html in _html_forms(text):
            yield shown_in_html.encode("utf-8", "surrogatepass")
            if shown_in_html != text:
                yield from json_forms(shown_in_html)
        for ascii_only in (False, True):
            for shown_in_html in _html_forms(json.dumps(text, ensure_ascii=ascii_only)[1:-1]):
                yield shown_in_html.encode("utf-8", "surrogatepass")


def _html_forms(text: str) -> tuple[str, str]:
    """Return a text as Python and most others escape it for HTML, and as template engines do."""
    import html  # its table of names is made on import; most runs have no secrets

    named = html.escape(text)
    return named, named.replace("&quot;", "&#34;").replace("&#x27;", "&#39;")


def json_forms(text: str) -> Iterable[bytes]:
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
