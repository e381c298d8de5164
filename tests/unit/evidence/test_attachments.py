"""Artifacts of cases: written, sealed, read and converted in both layouts, whatever they are called."""

import base64
import json
import zipfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agent_eval.contracts import SHARD_CASES
from agent_eval.errors import InvalidInput, InvalidPack, UsageError
from agent_eval.evidence import attachments as kept
from agent_eval.evidence import writer as writing
from agent_eval.evidence.archive import compact, expand, open_bundle, write_bundle
from agent_eval.evidence.attachments import artifact_line, names_problem, storable
from agent_eval.evidence.layout import Layout, case_directory
from agent_eval.evidence.reader import Pack, open_pack
from tests.extent import examples
from tests.factories import make_config, make_pack, make_result, seal
from tests.unit.evidence.test_archive_convert import CONVERT, OTHER, bytes_of
from tests.unit.evidence.test_writer import LAYOUTS, case, write_pack

BINARY = bytes(range(256))
SHARD_FILE = "cases/artifacts-00000.jsonl"


def write(root: Path, layout: Layout, artifacts: dict[str, dict[str, bytes]]) -> Path:
    """A sealed pack with these artifacts by case."""
    write_pack(root, layout, [case(case_id) for case_id in artifacts], artifacts=artifacts)
    return root


def artifacts_of(pack: Pack) -> dict[str, dict[str, bytes]]:
    return {case_id: pack.artifacts(case_id) for case_id in pack.case_ids()}


@LAYOUTS
def test_what_is_written_is_read_and_sealed(tmp_path: Path, layout: Layout) -> None:
    made = {
        "a": {"stderr.txt": "Grüße\n".encode(), "core.bin": BINARY},
        "../../b": {"stderr.txt": b"\x1b[31m"},
        "none": {},
    }
    root = write(tmp_path / "p", layout, made)
    pack = open_pack(root)
    assert artifacts_of(pack) == made
    assert list(pack.artifacts("a")) == ["core.bin", "stderr.txt"]
    listed = {entry.path for entry in pack.run_files()}
    on_disk = {path for path in bytes_of(root) if path != "manifest.json"}
    assert listed == on_disk
    with pytest.raises(InvalidInput, match="no case 'nobody'"):
        pack.artifacts("nobody")


def test_the_files_layout_has_a_file_for_each(tmp_path: Path) -> None:
    root = write(tmp_path / "p", "files", {"a/b": {"stderr.txt": b"oh", "logs/one.txt": b"1"}})
    folder = root / "cases" / case_directory("a/b") / "artifacts"
    assert bytes_of(folder) == {"stderr.txt": b"oh", "logs/one.txt": b"1"}


def test_the_compact_layout_has_one_file_a_shard_and_only_where_it_is_needed(tmp_path: Path) -> None:
    many: dict[str, dict[str, bytes]] = {f"c{number}": {} for number in range(2 * SHARD_CASES)}
    many["c3"] = {"b.txt": b"second", "a.txt": b"first"}
    many["c2"] = {"x": BINARY}
    root = write(tmp_path / "p", "compact", many)
    lines = [json.loads(line) for line in (root / SHARD_FILE).read_bytes().splitlines()]
    assert lines == [
        {"case_id": "c2", "name": "x", "base64": base64.b64encode(BINARY).decode()},
        {"case_id": "c3", "name": "a.txt", "text": "first"},
        {"case_id": "c3", "name": "b.txt", "text": "second"},
    ]
    assert not (root / "cases/artifacts-00001.jsonl").exists()
    assert open_pack(root).artifacts(f"c{SHARD_CASES}") == {}


def test_text_with_many_escapes_does_not_grow_beyond_base64() -> None:
    assert b"base64" in artifact_line("a", "x", b"\x01" * 90)
    assert len(artifact_line("a", "x", b"\x01" * 900)) < 1300


ARTIFACTS = st.dictionaries(
    st.sampled_from(["stderr.txt", "STDOUT.TXT", "dir/inner.log", "dir/other", "é.bin", "a b"]),
    st.binary(max_size=40) | st.text(max_size=20).map(lambda text: text.encode("utf-8", "replace")),
    max_size=4,
)
IDS = st.sampled_from(["a", "A", "../x", "artifacts", "artifacts-00000.jsonl", "🎉", "nul"])


@settings(max_examples=examples(40))
@given(st.dictionaries(IDS, ARTIFACTS, min_size=1, max_size=4), st.sampled_from(["files", "compact"]))
def test_there_and_back_are_the_same_bytes(
    tmp_path_factory: pytest.TempPathFactory, made: dict[str, dict[str, bytes]], layout: Layout
) -> None:
    tmp_path = tmp_path_factory.mktemp("p")
    first = write(tmp_path / "first", layout, made)
    CONVERT[layout](open_pack(first), tmp_path / "second")
    second = open_pack(tmp_path / "second")
    assert artifacts_of(second) == made
    CONVERT[OTHER[layout]](second, tmp_path / "third")
    assert bytes_of(tmp_path / "third") == bytes_of(first)


def test_archives_of_packs_hold_them_and_a_compact_one_has_no_member_for_each(tmp_path: Path) -> None:
    made = {"a": {"stderr.txt": b"oh no", "core.bin": BINARY}, "b": {}}
    made |= {f"c{number}": {"stderr.txt": b"oh"} for number in range(SHARD_CASES - 2)}
    layouts: tuple[Layout, ...] = ("files", "compact")
    for layout in layouts:
        write_bundle({"shop": write(tmp_path / layout, layout, made)}, tmp_path / "b.zip")
        assert artifacts_of(open_bundle(tmp_path / "b.zip")["shop"]) == made
    assert len(zipfile.ZipFile(tmp_path / "b.zip").namelist()) == 7


@LAYOUTS
@pytest.mark.parametrize(
    ("names", "problem"),
    [
        (["../../run/config.json"], "'..'"), (["/etc/passwd"], "absolute"), (["a\\b"], "backslash"),
        ([""], "empty"), (["A.txt", "a.txt"], "same file"), (["a", "a/b"], "below the artifact"),
        (["x" * 300], "too long"), (["a/" * 20 + "b"], "too deep"),
    ],
)  # fmt: skip
def test_names_that_lead_out_are_not_written(
    tmp_path: Path, layout: Layout, names: list[str], problem: str
) -> None:
    with pytest.raises(InvalidInput, match=problem) as caught:
        write(tmp_path / "p", layout, {"a": dict.fromkeys(names, b"x")})
    assert caught.value.details["case_id"] == "a"
    assert not list(tmp_path.rglob("passwd"))


def rewritten(tmp_path: Path, *rows: Any, ids: tuple[str, ...] = ("a",)) -> Path:
    """A compact pack whose artifacts are these lines, sealed by somebody else."""
    root = make_pack(tmp_path / "p", [make_result(case_id) for case_id in ids], layout="compact")
    (root / SHARD_FILE).write_bytes(b"".join(json.dumps(row).encode() + b"\n" for row in rows))
    seal(root, make_config(), layout="compact", case_ids=ids)
    return root


@pytest.mark.parametrize(
    ("rows", "problem"),
    [
        ([{"case_id": "a", "name": "../../../x", "text": ""}], "'..'"),
        ([{"case_id": "a", "name": "x", "text": ""}] * 2, "line 2: has an artifact twice"),
        *(([row],
            "line 1: is not an artifact") for row in ({"case_id": "a", "name": "x", "base64": "not base64!"},
            {"case_id": "a", "name": "x", "base64": "ü"}, {"case_id": "a", "name": "x"},
            {"case_id": "a", "name": "x", "text": "", "base64": ""}, {"case_id": "a", "name": 1, "text": ""},
            ["a", "x", ""])),
    ],
)  # fmt: skip
def test_lines_that_are_no_artifacts_are_refused(tmp_path: Path, rows: list[Any], problem: str) -> None:
    pack = open_pack(rewritten(tmp_path, *rows))
    with pytest.raises(InvalidPack, match=problem) as caught:
        pack.artifacts("a")
    assert caught.value.details["file"] == SHARD_FILE
    with pytest.raises(InvalidPack):
        expand(pack, tmp_path / "q")
    assert not (tmp_path / "q").exists()


@pytest.mark.parametrize(
    "rows",
    [
        [{"case_id": "stranger", "name": "x", "text": ""}], [{"case_id": "a", "name": "x", "base64": "YQ=="}],
        [{"case_id": name, "name": "x", "text": ""} for name in "ba"],
        [{"case_id": "a", "name": "x", "text": "", "added_later": 1}], [],
    ],
    ids=["of no case", "spelled otherwise", "not in order", "a field more", "nothing"],
)  # fmt: skip
def test_what_converting_would_lose_is_refused(tmp_path: Path, rows: list[Any]) -> None:
    pack = open_pack(rewritten(tmp_path, *rows, ids=("a", "b")))
    with pytest.raises(InvalidPack, match="does not follow") as caught:
        expand(pack, tmp_path / "q")
    assert caught.value.details["file"] == SHARD_FILE
    assert not (tmp_path / "q").exists()


@pytest.mark.parametrize(
    "name", ["cases/artifacts-00001.jsonl", "cases/a/artifacts/x", "cases/artifacts-0.jsonl"]
)
def test_a_compact_pack_lists_no_other_artifacts(tmp_path: Path, name: str) -> None:
    root = make_pack(tmp_path / "p", [make_result("a")], layout="compact")
    (root / name).parent.mkdir(parents=True, exist_ok=True)
    (root / name).write_bytes(b"")
    seal(root, make_config(), layout="compact", case_ids=["a"])
    with pytest.raises(InvalidPack, match="belongs to no case"):
        open_pack(root)


def test_too_large_artifacts_are_not_compacted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    root = write(tmp_path / "p", "files", {"a": {"x": b"x" * 600}, "b": {"x": b"x" * 600}})
    monkeypatch.setattr(writing, "MAX_FILE_BYTES", 1000)
    with pytest.raises(UsageError, match="exceed 1,000 bytes"):
        compact(open_pack(root), tmp_path / "q")
    assert not (tmp_path / "q").exists()


def test_storable_artifacts_have_safe_names_and_a_limit() -> None:
    made = storable({"../../x": b"1", "stderr.txt": b"2", "CON": b"3", "empty": b"", "a/b": b"4"})
    assert sorted(made.values()) == [b"1", b"2", b"3", b"4"]
    assert made["stderr.txt"] == b"2"
    assert names_problem("a", made) is None
    assert all("/" not in name for name in made)


def test_of_a_long_artifact_the_end_is_kept_and_it_says_so() -> None:
    data = b"begin" + b"x" * kept.MAX_ARTIFACT_BYTES + b"the end"
    stored = storable({"stderr.txt": data})["stderr.txt"]
    assert len(stored) <= kept.MAX_ARTIFACT_BYTES
    assert stored.endswith(b"xthe end")
    note, _, rest = stored.partition(b"\n")
    assert note == b"[%d bytes left out]" % (len(data) - len(rest))


def test_what_exceeds_a_case_is_named() -> None:
    full = {f"{number}.txt": b"x" * kept.MAX_ARTIFACT_BYTES for number in range(5)}
    stored = storable(full)
    assert list(stored) == ["0.txt", "1.txt", "2.txt", "3.txt", "_left-out.txt"]
    assert stored["_left-out.txt"] == b"There was no room for these artifacts:\n4.txt\n"
    many = storable({f"{number:03d}": b"x" for number in range(100)})
    assert len(many) == kept.MAX_ARTIFACTS + 1
    assert many["_left-out.txt"].endswith(b"\n083\nand 16 more\n")


@given(st.dictionaries(st.text(max_size=20), st.binary(max_size=20), max_size=6))
def test_storable_is_safe_and_keeps_all(artifacts: dict[str, bytes]) -> None:
    once = storable(artifacts)
    assert names_problem("a", once) is None
    assert sorted(once.values()) == sorted(data for data in artifacts.values() if data)
