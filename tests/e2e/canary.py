"""Secrets that everything repeats, each as programs write it, and the search for them in what was left."""

import base64
import html
import io
import json
import re
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote, unquote_plus

from typing_extensions import override

from tests.fakes.models import FakeOpenAi, Step

CANARIES = {
    "MY_API_TOKEN": 'canary-one/"+é-4f81b7',
    "DATABASE_PASSWORD": "canary-two=&<%>-93ac01",
    "DEPLOY_KEY": "canary-three\\n-77d2e9",
}


def encoded(secret: str) -> Iterator[str]:
    """The secret as programs write it."""
    yield secret
    for before in ("", "a", "ab"):
        yield base64.b64encode(f"{before}{secret}:x".encode()).decode()
    yield base64.urlsafe_b64encode(f"user:{secret}".encode()).decode()
    yield quote(f"k={secret}", safe="")
    yield json.dumps({"authorization": f"Bearer {secret}"})
    yield json.dumps(json.dumps({"authorization": secret}))
    yield html.escape(secret)
    yield html.escape(secret).replace("&quot;", "&#34;")
    yield secret.encode().hex()


EVERYTHING = " | ".join(form for secret in CANARIES.values() for form in encoded(secret))


def decoded(data: bytes) -> Iterator[str]:
    """The data as text, and what a reader might decode from it."""
    text = data.decode("utf-8", "replace")
    yield text
    yield unquote_plus(text)
    yield html.unescape(text)
    unescaped = text
    for _ in range(3):
        unescaped = re.sub(r'\\(["\\/])', r"\1", unescaped)
        unescaped = re.sub(r"\\u([0-9a-f]{4})", lambda match: chr(int(match[1], 16)), unescaped)
        yield unescaped
    for run in re.findall(r"[A-Za-z0-9+/_-]{12,}", text):
        plain = run.replace("-", "+").replace("_", "/")
        for start in range(4):
            piece = plain[start:]
            usable = len(piece) - (len(piece) % 4 == 1)
            yield base64.b64decode(piece[:usable] + "=" * (-usable % 4)).decode("utf-8", "replace")
    for run in re.findall(r"(?:[0-9a-fA-F]{2}){8,}", text):
        yield bytes.fromhex(run).decode("utf-8", "replace")


def leaks(data: bytes) -> list[str]:
    """Names of the secrets that the data shows; of each, the part that no marker could have."""
    texts = list(decoded(data))
    tails = {name: secret.rpartition("-")[2] for name, secret in CANARIES.items()}
    return [name for name, tail in tails.items() if any(tail in text for text in texts)]


def everything_below(place: Path, inputs: set[str]) -> Iterator[tuple[str, bytes]]:
    """Every file but the inputs, and every member of every archive."""
    for path in sorted(place.rglob("*")):
        name = path.relative_to(place).as_posix()
        if not path.is_file() or name in inputs or name.startswith((".coverage", "__pycache__")):
            continue
        yield name, path.read_bytes()
        if path.suffix == ".zip":
            with zipfile.ZipFile(io.BytesIO(path.read_bytes())) as archive:
                yield from ((f"{name}!{member}", archive.read(member)) for member in archive.namelist())


class TellingModel(FakeOpenAi):
    """Judges and plays users, and says every secret whenever it may say something."""

    @override
    def answer(self, request: dict[str, Any], step: Step, number: int) -> dict[str, Any]:
        quoted = [{"turn": 1, "quote": EVERYTHING[:200]}]
        said = {"reasoning": EVERYTHING, "evidence": quoted, "verdict": "failed"}
        if '"verdict"' not in json.dumps(request["messages"]).replace("\\", ""):
            done = number % 2 == 1
            said = {
                "message": f"{number}: {EVERYTHING}", "done": done, "reason": "goal" if done else "continue",
            }  # fmt: skip
        return super().answer(request, Step(text=json.dumps(said)), number)
