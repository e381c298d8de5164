"""Artifacts: files that belong to a case, such as the standard error of its agent or an unreadable answer.

In the layout `files` each is a file below `cases/<directory>/artifacts/`. In `compact` the artifacts of a
shard's cases are lines of one file, so that a large run has few files: in suite order, within a case by
name, each as `text` where it is UTF-8 and that is not longer, else as `base64`.
"""

from __future__ import annotations

import binascii
from base64 import b64decode, b64encode
from collections.abc import Iterable, Mapping
from typing import Any

from agent_eval.errors import InvalidInput
from agent_eval.evidence import layout as at
from agent_eval.evidence.rows import lines_of, parse_json
from agent_eval.evidence.sources import invalid_pack
from agent_eval.storage.files import check_member_name, safe_name, same_place
from agent_eval.storage.json import dumps

MAX_ARTIFACT_BYTES = 256 << 10
"""Maximum bytes of one artifact that `storable` keeps."""

MAX_CASE_BYTES = 1 << 20
"""Maximum bytes of all artifacts of a case that `storable` keeps."""

MAX_ARTIFACTS = 64
"""Maximum number of artifacts of a case that `storable` keeps."""

LEFT_OUT = "_left-out.txt"
"""Artifact that lists those beyond the limits; no safe name begins with an underscore."""

_DEEPEST = 8
_LONGEST_PART = 255
_NAMED_LEFT_OUT = 20


def storable(artifacts: Mapping[str, bytes]) -> dict[str, bytes]:
    """Make artifacts fit for a pack. Use it on artifacts from agents and other untrusted sources.

    Names become safe file names (`storage.files.safe_name`), and different names stay different. Empty
    artifacts are dropped; a long one is cut to its end, with a first line that says so. `_left-out.txt` names
    the artifacts beyond the limits of a case. Deterministic.
    """
    stored: dict[str, bytes] = {}
    left_out: list[str] = []
    room = MAX_CASE_BYTES
    for name in sorted(name for name, data in artifacts.items() if data):
        safe = safe_name(name)
        limit = min(MAX_ARTIFACT_BYTES, room)
        if len(stored) >= MAX_ARTIFACTS or len(artifacts[name]) > limit < MAX_ARTIFACT_BYTES:
            left_out.append(safe)
            continue
        data = artifacts[name]
        if len(data) > limit:
            end = limit - 100
            data = b"[%d bytes left out]\n" % (len(data) - end) + data[-end:]
        stored[safe] = data
        room -= len(data)
    if left_out:
        lines = ["There was no room for these artifacts:", *left_out[:_NAMED_LEFT_OUT]]
        lines += [f"and {len(left_out) - _NAMED_LEFT_OUT} more"] * (len(left_out) > _NAMED_LEFT_OUT)
        stored[LEFT_OUT] = ("\n".join(lines) + "\n").encode()
    return stored


def in_order(case_id: str, artifacts: Mapping[str, bytes]) -> list[tuple[str, bytes]]:
    """Check the names of a case's artifacts, and sort the artifacts by name, as they are written.

    Raises:
        InvalidInput: A name leads out of the case's directory, or is not valid everywhere. `storable` makes
            valid names.
    """
    if problem := names_problem(case_id, artifacts):
        remedy = "Give artifacts plain file names."
        raise InvalidInput(f"case {case_id[:200]!r}: {problem}", remedy=remedy, case_id=case_id)
    return sorted(artifacts.items())


def names_problem(case_id: str, names: Iterable[str]) -> str | None:
    """Find the first problem of artifact names, which must be relative paths of different files; or None."""
    directory = at.case_directory(case_id)
    places: dict[str, str] = {}
    for name in names:
        problem = check_member_name(name) or check_member_name(at.artifact_file(directory, name))
        parts = name.split("/")
        if len(parts) > _DEEPEST or any(len(part.encode()) > _LONGEST_PART for part in parts):
            problem = problem or "is too long or too deep"
        if problem:
            return f"artifact {name[:200]!r} {problem}"
        if (place := same_place(name)) in places:
            return f"artifacts {places[place][:200]!r} and {name[:200]!r} are the same file"
        places[place] = name
    for place, name in places.items():
        above = place
        while above := above.rpartition("/")[0]:
            if above in places:
                return f"artifact {name[:200]!r} is below the artifact {places[above][:200]!r}"
    return None


def artifact_line(case_id: str, name: str, data: bytes) -> bytes:
    """Encode an artifact as a line of the compact layout, with its line feed."""
    row: dict[str, Any] = {"case_id": case_id, "name": name}
    encoded = dumps({**row, "base64": b64encode(data).decode()}) + b"\n"
    try:
        text = dumps({**row, "text": data.decode()}) + b"\n"
    except UnicodeDecodeError:
        return encoded
    # Escapes can make text six times as long.
    return min(text, encoded, key=len)


def artifacts_in(content: bytes, *, pack: str, path: str) -> dict[str, dict[str, bytes]]:
    """Read the artifacts of a shard of the compact layout: by the id of their case, then by name.

    Raises:
        InvalidPack: A line is no artifact, or the names of a case's artifacts lead out of its directory.
    """
    by_case: dict[str, dict[str, bytes]] = {}
    for number, line in enumerate(lines_of(content, pack=pack, path=path), start=1):
        row = parse_json(line, pack=pack, path=path, first_line=number)
        data = _data(row)
        if data is None:
            raise invalid_pack(pack, path, f"line {number}: is not an artifact")
        of_case = by_case.setdefault(row["case_id"], {})
        if row["name"] in of_case:
            raise invalid_pack(pack, path, f"line {number}: has an artifact twice")
        of_case[row["name"]] = data
    for case_id, artifacts in by_case.items():
        if problem := names_problem(case_id, artifacts):
            raise invalid_pack(pack, path, f"case {case_id[:200]!r}: {problem}")
    return by_case


def _data(row: Any) -> bytes | None:
    """Decode an artifact from its parsed line; None where the line is no artifact."""
    if not isinstance(row, dict) or type(row.get("case_id")) is not str or type(row.get("name")) is not str:
        return None
    text, encoded = row.get("text"), row.get("base64")
    if isinstance(text, str) and encoded is None:
        return text.encode()
    if isinstance(encoded, str) and text is None:
        try:
            return b64decode(encoded, validate=True)
        except (binascii.Error, ValueError):
            return None
    return None
