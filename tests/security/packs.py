"""A small pack to tamper with, and what every refusal must say."""

import json
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pytest

from agent_eval.errors import InvalidPack
from agent_eval.evidence.reader import open_pack
from tests.factories import make_config, make_pack, make_result, pretty, seal

LAYOUTS = pytest.mark.parametrize("layout", ["files", "compact"])
IDS = ["a", "b", "c"]


def pack_of(tmp_path: Path, layout: str = "files", **options: Any) -> Path:
    """A pack of the cases a, b and c, of which b fails."""
    results = [make_result("a"), make_result("b", failed="policy"), make_result("c")]
    return make_pack(tmp_path / "p", results, layout=layout, **options)


def refused(root: Path, place: str | None, what: str) -> InvalidPack:
    """The pack is refused for one file; whoever tampered has no other way in."""
    with pytest.raises(InvalidPack, match=what) as caught:
        open_pack(root)
    assert caught.value.details.get("file") == place
    assert caught.value.details["pack"] == str(root)
    assert caught.value.message.startswith(f"{root}: " if place is None else f"{root}: {place[:300]}: ")
    assert caught.value.remedy
    return caught.value


Change = Callable[[Any], Any] | dict[str, Any]
"""What is done to a value: a function, or what to put at places such as `verdicts.2.score`."""


def apply(value: Any, change: Change) -> None:
    """Change a value in its place."""
    if callable(change):
        change(value)
        return
    for place, new in change.items():
        put(value, place, new)


def edit(path: Path, change: Change) -> None:
    """Change a JSON file by way of its value."""
    value = json.loads(path.read_bytes())
    apply(value, change)
    path.write_bytes(pretty(value))


def files_of(root: Path) -> list[str]:
    """Paths of all files of a pack."""
    return sorted(path.relative_to(root).as_posix() for path in root.rglob("*") if path.is_file())


def reseal(root: Path, layout: str) -> None:
    """Seal a pack again, as whoever tampered would."""
    seal(root, make_config(), layout=layout, case_ids=IDS)


def reindex(root: Path, rows: Iterable[dict[str, Any]], layout: str = "files") -> None:
    """Replace the index of a pack, and seal it again."""
    (root / "run/index.jsonl").write_bytes(b"".join(json.dumps(row).encode() + b"\n" for row in rows))
    reseal(root, layout)


GONE = object()
"""In place of a value: the member is removed."""


def put(value: Any, place: str, new: Any) -> None:
    """Set, or remove, what is at a place such as `verdicts.2.score`."""
    *above, last = [int(part) if part.isdecimal() else part for part in place.split(".")]
    for part in above:
        value = value[part]
    if new is GONE:
        del value[last]
    else:
        value[last] = new
