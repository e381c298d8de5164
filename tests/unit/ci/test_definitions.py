"""Which suites are evaluated, and which of them stay open until their turn."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from agent_eval.ci import definitions as targets
from agent_eval.ci.definitions import find_targets
from agent_eval.errors import InvalidInput, UsageError
from tests.factories import make_case, make_suite


def write(path: Path, dataset_id: str) -> str:
    suite = make_suite(make_case("a"), dataset_id=dataset_id)
    if path.suffix == ".jsonl":
        cases = suite.pop("cases")
        path.write_text("".join(json.dumps(row) + "\n" for row in (suite, *cases)))
    else:
        path.write_text(json.dumps(suite))
    return str(path)


def test_globs_and_paths_are_taken_once_in_their_order(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("b", "a", "z"):
        write(tmp_path / f"{name}.json", f"Suite {name}")
    found = find_targets(["z.json", "*.json", "a.json"])
    assert [target.path.name for target in found] == ["z.json", "a.json", "b.json"]
    assert len({target.slug for target in found}) == 3


def test_small_suites_are_read_once(tmp_path: Path) -> None:
    found = find_targets([write(tmp_path / "a.json", "a"), write(tmp_path / "b.jsonl", "b")])
    assert [target.source is not None for target in found] == [True, True]


def test_many_large_suites_are_not_held_at_a_time_unless_it_is_the_only_one_or_lines(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    paths = [write(tmp_path / f"{name}.json", name) for name in "abc"]
    lines = [write(tmp_path / f"{name}.jsonl", name) for name in "de"]
    size = Path(paths[0]).stat().st_size
    monkeypatch.setattr(targets, "HELD_BYTES", size * 2)
    assert [bool(target.source) for target in find_targets([*paths, *lines])] == [
        True,
        True,
        False,
        True,
        True,
    ]
    monkeypatch.setattr(targets, "HELD_BYTES", 0)
    assert find_targets(paths[:1])[0].source is not None


def test_nothing_found_two_of_a_name_and_too_many_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    one, other = write(tmp_path / "a.json", "same"), write(tmp_path / "b.json", "same")
    with pytest.raises(InvalidInput, match="same dataset_id") as caught:
        find_targets([one, other])
    assert caught.value.details["file"] == other
    with pytest.raises(UsageError, match="No suite matches"):
        find_targets([str(tmp_path / "*.yaml")])
    monkeypatch.setattr("agent_eval.suites.paths.MAX_SUITES", 1)
    with pytest.raises(UsageError, match="more than 1"):
        find_targets([one, other])


def test_a_file_that_is_called_like_a_pattern_is_that_file(tmp_path: Path) -> None:
    assert [target.slug for target in find_targets([write(tmp_path / "[a].json", "odd")])] == ["odd"]
