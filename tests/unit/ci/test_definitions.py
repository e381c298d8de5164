"""Which suites are evaluated, and what a change makes of the base's cases."""

from __future__ import annotations

import json
import os
from contextlib import closing
from pathlib import Path

import pytest

from agent_eval.ci.clone import PrivateClone
from agent_eval.ci.definitions import define, find_targets
from agent_eval.ci.place import Refs, Versions, find_place
from agent_eval.ci.sides import CannotCheckOut
from agent_eval.errors import InvalidInput, UsageError
from tests.factories import make_case, make_suite
from tests.fakes.git_host import commit, keep_lfs, pointer


def write(path: Path, dataset_id: str) -> str:
    path.write_text(json.dumps(make_suite(make_case("a"), dataset_id=dataset_id)))
    return str(path)


def test_globs_and_paths_are_taken_once_in_order(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("b", "a", "z"):
        write(tmp_path / f"{name}.json", f"Suite {name}")
    (tmp_path / "a.losses.jsonl").write_text("{}")  # of an import, and no suite
    found = find_targets(["z.json", "*.json*", "a.json"])
    assert [target.path.name for target in found] == ["z.json", "a.json", "b.json"]
    assert len({target.slug for target in found}) == 3
    assert not any(target.source for target in found)
    assert find_targets(["a.json"])[0].source is not None


def test_no_suite_two_of_a_name_and_too_many_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    one, other = write(tmp_path / "a.json", "same"), write(tmp_path / "b.json", "same")
    with pytest.raises(InvalidInput, match="same dataset_id") as caught:
        find_targets([one, other])
    assert caught.value.details["file"] == other
    with pytest.raises(UsageError, match="No suite matches"):
        find_targets([str(tmp_path / "*.yaml")])
    for name in ("evidence.zip", "report.md"):
        with pytest.raises(InvalidInput, match="same dataset_id as the job's own files"):
            find_targets([write(tmp_path / "own.json", name)])
    monkeypatch.setattr("agent_eval.suites.paths.MAX_SUITES", 1)
    with pytest.raises(UsageError, match="more than 1"):
        find_targets([one, other])


def test_a_file_that_is_called_like_a_pattern_is_that_file(tmp_path: Path) -> None:
    assert [target.slug for target in find_targets([write(tmp_path / "[a].json", "odd")])] == ["odd"]


@pytest.mark.parametrize("is_kept", [True, False])
def test_a_suite_of_the_base_is_read_also_where_git_has_a_pointer_to_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_kept: bool
) -> None:
    """A change could else remove what it breaks from a suite that LFS keeps."""
    top = tmp_path / "checkout"
    old, new = (json.dumps(make_suite(*map(make_case, names))).encode() for names in ("ab", "a"))
    base = commit(top, **{".gitattributes": "*.json filter=lfs -text\n", "s.json": pointer(old)})
    commit(top, **{"s.json": pointer(new)})
    (top / "s.json").write_bytes(new)
    if is_kept:
        keep_lfs(top, old)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.chdir(top)
    with closing(PrivateClone.of(top, os.environ)) as clone:
        place = find_place(Refs(default_branch="main", target="main"), clone, lambda _: base, lambda _: [])
        found = find_targets(["s.json"])
        if not is_kept:
            with pytest.raises(CannotCheckOut, match=r"LFS file `s\.json`: the checkout does not have it"):
                define(found, ["s.json"], Versions(place))
            return
        [redefinition] = define(found, ["s.json"], Versions(place)).redefinitions.values()
        assert redefinition.replaced == ["b"]


@pytest.mark.parametrize(
    "case", ['{"case_id": "a", "case_id": "b"}', '{"case_id": "a", "x": NaN}', '{"case_id": 1}', "{"]
)
def test_a_change_may_mend_a_suite_of_the_base_that_cannot_be_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, case: str
) -> None:
    top = tmp_path / "checkout"
    base = commit(top, **{"s.json": f'{{"dataset_id": "s", "cases": [{case}]}}'})
    commit(top, **{"s.json": json.dumps(make_suite(make_case("a"), dataset_id="s"))})
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.chdir(top)
    with closing(PrivateClone.of(top, os.environ)) as clone:
        place = find_place(Refs(default_branch="main", target="main"), clone, lambda _: base, lambda _: [])
        defined = define(find_targets(["s.json"]), ["s.json"], Versions(place))
    assert [target.slug for target in defined.targets] == ["s"]
    assert not defined.redefinitions
