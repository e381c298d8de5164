"""A pack that is not exactly the files that were sealed is refused, and the message names the file."""

import hashlib
import json
import os
import shutil
import socket
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_eval.errors import InvalidPack
from agent_eval.evidence.derived import write_output
from agent_eval.evidence.reader import open_pack
from tests.factories import make_pack, make_result
from tests.security.packs import GONE, IDS, LAYOUTS, Change, edit, files_of, pack_of, refused, reindex


@LAYOUTS
def test_every_file_is_held_to_its_bytes(tmp_path: Path, layout: str) -> None:
    root = pack_of(tmp_path, layout)
    for name in files_of(root):
        if name == "manifest.json":
            continue
        whole = (root / name).read_bytes()
        flipped = bytes([whole[0] ^ 1]) + whole[1:]
        for data, what in ((flipped, "sha256"), (whole + b"\n", "size"), (whole[:-1], "size"), (b"", "size")):
            (root / name).write_bytes(data)
            refused(root, name, f"was changed: its {what} is not what was sealed")
        (root / name).write_bytes(whole)
    assert open_pack(root).case_ids() == IDS


@LAYOUTS
def test_every_file_must_be_there(tmp_path: Path, layout: str) -> None:
    root = pack_of(tmp_path, layout)
    for name in files_of(root):
        if name != "manifest.json":
            (root / name).rename(tmp_path / "aside")
            if os.listdir((root / name).parent):
                refused(root, name, "is missing")
            else:
                refused(root, str(Path(name).parent), "is an empty directory")
            (tmp_path / "aside").rename(root / name)


@LAYOUTS
@pytest.mark.parametrize(
    "name", ["extra", "run/x.json", "cases/x", ".hidden", "derived.json.bak", "Manifest.json"]
)
def test_nothing_may_be_added(tmp_path: Path, layout: str, name: str) -> None:
    root = pack_of(tmp_path, layout)
    (root / name).write_bytes(b"{}")
    refused(root, name, "added after the pack was sealed")


@LAYOUTS
def test_empty_directories_are_refused(tmp_path: Path, layout: str) -> None:
    root = pack_of(tmp_path, layout)
    for name in ("compare", "attestations", "history"):
        (root / name).mkdir()
    assert open_pack(root).case_ids() == IDS, "a writer that was killed before its first file"
    for name in ("cases/zz", "compare/deeper"):
        (root / name).mkdir()
        refused(root, name, "is an empty directory")
        (root / name).rmdir()


@pytest.mark.parametrize("name", ["run/config.json", "cases/a", "cases", "cases/b/verdicts.json"])
@pytest.mark.parametrize("target", ["inside", "outside", "nowhere"])
def test_links_are_refused_wherever_they_lead(tmp_path: Path, name: str, target: str) -> None:
    root = pack_of(tmp_path)
    where = (root if target == "inside" else tmp_path) / "elsewhere"
    (root / name).rename(where)
    (root / name).symlink_to(where)
    if target == "nowhere":
        shutil.rmtree(where) if where.is_dir() else where.unlink()
    if target == "inside":
        with pytest.raises(InvalidPack):  # which of the two is met first does not matter
            open_pack(root)
    else:
        refused(root, name, "is a symbolic link")


@pytest.mark.parametrize("name", ["manifest.json", "derived.json"])
def test_manifests_that_are_links_are_refused(tmp_path: Path, name: str) -> None:
    root = pack_of(tmp_path)
    write_output(root / "compare/x.json", b"{}")
    (root / name).rename(tmp_path / name)
    (root / name).symlink_to(tmp_path / name)
    with pytest.raises(InvalidPack) as caught:
        open_pack(root)
    assert caught.value.details["file"] == name


@pytest.mark.parametrize("name", ["pipe", "run/config.json", "manifest.json", "socket"])
def test_pipes_are_refused_and_never_block(
    tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = pack_of(tmp_path)
    (root / name).unlink(missing_ok=True)
    monkeypatch.chdir(root)
    if name == "socket":
        with socket.socket(socket.AF_UNIX) as listener:
            listener.bind(name)
    else:
        os.mkfifo(name)
    refused(root, name, "is not a regular file")


@pytest.mark.parametrize("name", [b"not-utf-8-\xff", b"back\\slash", b"new\nline", b"esc\x1b[31m"])
def test_odd_names_are_refused(tmp_path: Path, name: bytes) -> None:
    root = pack_of(tmp_path)
    with open(os.fsencode(root) + b"/" + name, "wb"):
        pass
    with pytest.raises(InvalidPack) as caught:
        open_pack(root)
    assert caught.value.message.isprintable() or name == b"esc\x1b[31m" or name == b"new\nline"


def test_very_deep_directories_are_refused(tmp_path: Path) -> None:
    root = pack_of(tmp_path)
    deep = root / "/".join("d" for _ in range(200))
    deep.mkdir(parents=True)
    (deep / "x").write_bytes(b"")
    with pytest.raises(InvalidPack, match="is too deep"):
        open_pack(root)


@LAYOUTS
def test_files_changed_after_opening_are_noticed_when_they_are_read(tmp_path: Path, layout: str) -> None:
    root = pack_of(tmp_path, layout)
    name = "cases/b/trajectory.json" if layout == "files" else "cases/trajectories-00000.jsonl"
    pack = open_pack(root)
    original = (root / name).read_bytes()
    (root / name).write_bytes(original.replace(b"done", b"fake"))
    with pytest.raises(InvalidPack, match="was changed"):
        pack.trajectory("b")
    (root / name).unlink()
    with pytest.raises(InvalidPack, match="is missing"):
        pack.trajectory("b")
    (tmp_path / "copy").write_bytes(original)
    (root / name).symlink_to(tmp_path / "copy")
    with pytest.raises(InvalidPack, match="symbolic links"):
        pack.trajectory("b")


def test_verdicts_in_use_are_those_that_were_verified(tmp_path: Path) -> None:
    root = pack_of(tmp_path)
    pack = open_pack(root)
    shutil.rmtree(root)
    assert [row["passed"] for row in pack.results()] == [True, False, True]


def derived_pack(tmp_path: Path) -> Path:
    root = pack_of(tmp_path)
    write_output(root / "compare/delta.json", b"{}")
    assert open_pack(root).derived is not None
    return root


def test_derived_files_are_held_to_their_bytes_and_the_remedy_spares_the_run(tmp_path: Path) -> None:
    root = derived_pack(tmp_path)
    (root / "compare/delta.json").write_bytes(b"[]")
    assert "derived.json" in refused(root, "compare/delta.json", "was changed").remedy
    shutil.rmtree(root / "compare")
    assert "derived.json" in refused(root, "compare/delta.json", "is missing").remedy
    (root / "derived.json").unlink()
    assert open_pack(root).derived is None


def test_a_derived_part_cannot_move_to_another_run(tmp_path: Path) -> None:
    root = derived_pack(tmp_path)
    other = make_pack(tmp_path / "other", [make_result("a")])
    shutil.copytree(root / "compare", other / "compare")
    shutil.copy(root / "derived.json", other / "derived.json")
    refused(other, "derived.json", "belongs to another run")


@pytest.mark.parametrize("path", ["run/extra.json", "cases/a/extra.json", "judges/x.json", "run/config.json"])
def test_a_derived_manifest_cannot_add_to_the_run(tmp_path: Path, path: str) -> None:
    root = derived_pack(tmp_path)
    (root / path).write_bytes(b"{}")
    entry = {"path": path, "size": 2, "sha256": hashlib.sha256(b"{}").hexdigest()}
    edit(root / "derived.json", lambda derived: derived.update(files=[entry]))
    refused(root, "derived.json", "which is part of the run")


@given(position=st.integers(0, 100_000), byte=st.integers(0, 255), which=st.integers(0, 100))
def test_no_changed_byte_goes_unnoticed(
    tmp_path_factory: pytest.TempPathFactory, position: int, byte: int, which: int
) -> None:
    place = tmp_path_factory.mktemp("fuzz")
    root, true = (
        make_pack(place / name, [make_result("a", failed="regex")], layout="compact") for name in ("p", "q")
    )
    names = files_of(root)
    path = root / names[which % len(names)]
    data = bytearray(path.read_bytes())
    old = data[position % len(data)]
    data[position % len(data)] = byte
    path.write_bytes(data)
    try:
        pack = open_pack(root)
    except InvalidPack:
        assert byte != old
        return
    # Only the manifest's own free text may change (the digest, this pack's identity, changes with it).
    before = open_pack(true)
    assert (pack.manifest_sha256 == before.manifest_sha256) is (byte == old)
    assert byte == old or path.name == "manifest.json"
    assert pack.results() == before.results()


# Manifests that are broken, lead elsewhere or contradict themselves are refused


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
