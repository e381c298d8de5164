"""Manifests that are broken, lead elsewhere or contradict themselves are refused."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.security.packs import GONE, Change, edit, pack_of, refused, reindex


@pytest.mark.parametrize(
    ("data", "what"),
    [
        (b"", "empty"),
        (b"{", "line 1, column 2"),
        (b'{"kind": "run", "kind": "run"}', 'duplicate key "kind"'),
        (b"[" * 200_000, "nested deeper"),
        (b'{"case_count": NaN}', "NaN is not JSON"),
        (b'{"case_count": ' + b"9" * 5000 + b"}", "integer outside 64 bit"),
        (b"[]", "Input should be"),
        (b"{}", "Field required"),
    ],
)
def test_broken_manifests_are_refused_with_their_place(tmp_path: Path, data: bytes, what: str) -> None:
    root = pack_of(tmp_path)
    (root / "manifest.json").write_bytes(data)
    refused(root, "manifest.json", what)


@pytest.mark.parametrize(
    "path",
    [
        *("../x", "/etc/passwd", "a\\b", "a//b", "./a", "a/../b", "", "nul\0", "C:/x", "line\nfeed"),
        *("manifest.json", "DERIVED.JSON"),
    ],
)
def test_manifests_with_impossible_paths_are_refused(tmp_path: Path, path: str) -> None:
    root = pack_of(tmp_path)
    edit(root / "manifest.json", {"files.0.path": path})
    refused(root, "manifest.json", "lists ")


def spelled(change: Callable[[str], str]) -> Callable[[Any], None]:
    """List the first file a second time, as spelled so."""

    def add(manifest: Any) -> None:
        first = manifest["files"][0]
        manifest["files"].insert(0, {**first, "path": change(first["path"])})

    return add


def without(path: str) -> Callable[[Any], None]:
    def change(manifest: Any) -> None:
        manifest["files"] = [entry for entry in manifest["files"] if entry["path"] != path]

    return change


@pytest.mark.parametrize(
    ("change", "place", "what"),
    [
        (spelled(str), "manifest.json", "twice or not in order"),
        (lambda value: value["files"].reverse(), "manifest.json", "twice or not in order"),
        (spelled(str.upper), "manifest.json", "under two spellings"),
        ({"schema_version": "2.0.0"}, "manifest.json", "has schema version '2.0.0'"),
        ({"case_directories.b": "a"}, "manifest.json", "two cases have the directory 'a'"),
        ({"case_directories.b": "../b"}, "manifest.json", "is not a plain name"),
        ({"case_directories.b": "b/c"}, "manifest.json", "is not a plain name"),
        ({"case_directories.b": GONE}, "manifest.json",
         "lists cases/b/trajectory.json, which belongs to no case"),
        (without("cases/b/verdicts.json"), "manifest.json", "does not list cases/b/verdicts.json"),
        (without("run/summary.json"), "manifest.json", "does not list run/summary.json"),
        ({"case_count": 4}, "run/index.jsonl", "has 3 cases, manifest.json says 4"),
        ({"run_id": "run-2"}, "run/config.json", "names another run"),
    ],
)  # fmt: skip
def test_contradictory_manifests_are_refused(tmp_path: Path, change: Change, place: str, what: str) -> None:
    root = pack_of(tmp_path)
    edit(root / "manifest.json", change)
    refused(root, place, what)


def test_directories_for_no_case_of_the_index_are_refused(tmp_path: Path) -> None:
    root = pack_of(tmp_path, "compact")
    edit(root / "manifest.json", {"case_directories": {"a": "a"}})
    refused(root, "manifest.json", "has no case directories")
    root = pack_of(tmp_path / "files")
    reindex(root, [json.loads(row) for row in (root / "run/index.jsonl").read_bytes().splitlines()[:2]])
    edit(root / "manifest.json", {"case_count": 2})
    refused(root, "manifest.json", "directories for cases that the index does not list")
