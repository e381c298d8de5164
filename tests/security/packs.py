"""A small pack to tamper with, and what every refusal must say."""

from __future__ import annotations

import json
from collections.abc import Callable
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


def edit(path: Path, change: Callable[[Any], Any]) -> None:
    """Change a JSON file by way of its value."""
    value = json.loads(path.read_bytes())
    changed = change(value)
    path.write_bytes(pretty(value if changed is None else changed))


def files_of(root: Path) -> list[str]:
    """Paths of all files of a pack."""
    return sorted(path.relative_to(root).as_posix() for path in root.rglob("*") if path.is_file())


def reseal(root: Path, layout: str) -> None:
    """Seal a pack again, as whoever tampered would."""
    seal(root, make_config(), layout=layout, case_ids=IDS)
