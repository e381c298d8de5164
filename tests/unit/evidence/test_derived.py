"""What is written into a pack after the run: listed, locked, never part of the run."""

import fcntl
import json
import os
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from agent_eval.contracts import DerivedManifest, FileEntry, Manifest
from agent_eval.errors import InvalidPack, StorageError, UsageError
from agent_eval.evidence import derived
from agent_eval.evidence.derived import enclosing_pack, is_pack, write_output
from agent_eval.evidence.layout import may_be_replaced
from agent_eval.evidence.reader import open_pack
from agent_eval.storage.json import dumps
from tests.factories import make_pack, make_result


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return make_pack(tmp_path / "p", [make_result("a")])


@pytest.mark.parametrize(
    "name", ["compare/delta.json", "attestations/x/bundle.json", "report.md", "exports/deep/spans.json"]
)
def test_outputs_in_a_pack_are_listed_and_the_run_stays_as_it_was(root: Path, name: str) -> None:
    before = open_pack(root)
    write_output(root / name, b"one")
    write_output(root / name, b"two")
    write_output(root / "compare/another.json", b"{}")
    after = open_pack(root)
    assert after.manifest_sha256 == before.manifest_sha256
    assert after.derived is not None
    assert [entry.path for entry in after.derived.files] == sorted([name, "compare/another.json"])
    assert (after.derived.run_manifest_sha256, after.read(name)) == (after.manifest_sha256, b"two")


def test_names_that_no_pack_may_hold_are_refused(root: Path) -> None:
    write_output(root / "compare/a.json", b"{}")
    with pytest.raises(UsageError, match=r"differs from compare/a\.json in case only"):
        write_output(root / "compare/A.json", b"{}")
    with pytest.raises(UsageError, match="cannot be printed"):
        write_output(root / "compare/a\nb", b"{}")
    assert open_pack(root).derived is not None


def test_relative_paths_and_links_lead_where_they_lead(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(root)
    write_output(Path("compare/x.json"), b"{}")
    write_output(Path("run/../report.md"), b"#")
    (root.parent / "link").symlink_to(root)
    write_output(root.parent / "link/compare/y.json", b"{}")
    derived = open_pack(root).derived
    assert derived is not None
    assert [entry.path for entry in derived.files] == ["compare/x.json", "compare/y.json", "report.md"]
    (root.parent / "loop").symlink_to("loop")
    with pytest.raises(StorageError):
        write_output(root.parent / "loop/x", b"")


def test_the_nearest_pack_above_a_path_encloses_it(root: Path, tmp_path: Path) -> None:
    assert enclosing_pack(root / "compare/x/y.json") == root.resolve()
    assert enclosing_pack(root) is None
    assert enclosing_pack(tmp_path / "elsewhere") is None


@pytest.mark.parametrize(
    "data", [None, b"{}", b"[]", b'{"name": "my web app", "icons": []}', b"not json", b""]
)
def test_outputs_outside_of_packs_are_just_files(tmp_path: Path, data: bytes | None) -> None:
    if data is not None:
        (tmp_path / "manifest.json").write_bytes(data)
    assert not is_pack(tmp_path)
    write_output(tmp_path / "out/report.md", b"text")
    assert (tmp_path / "out/report.md").read_bytes() == b"text"
    assert not list(tmp_path.rglob("derived.json"))


def test_a_broken_pack_is_not_added_to(root: Path) -> None:
    manifest = json.loads((root / "manifest.json").read_bytes())
    manifest["files"] = [{"path": "../x", "size": 1, "sha256": "0" * 64}]
    (root / "manifest.json").write_bytes(json.dumps(manifest).encode())
    assert is_pack(root)
    with pytest.raises(InvalidPack):
        write_output(root / "compare/x.json", b"{}")
    assert not (root / "compare").exists()


WRITER = "import sys\nfrom pathlib import Path\nfrom agent_eval.evidence.derived import write_output\n"


def test_parallel_writers_lose_nothing(root: Path) -> None:
    code = WRITER + (
        "for number in range(15):\n"
        "    write_output(Path(sys.argv[1]) / 'compare' / f'{sys.argv[2]}-{number}', b'x')"
    )
    writers = [subprocess.Popen([sys.executable, "-c", code, root, name]) for name in "ab"]
    while any(writer.poll() is None for writer in writers):
        open_pack(root)  # a reader at any time sees a pack that verifies
    assert [writer.returncode for writer in writers] == [0, 0]
    derived = open_pack(root).derived
    assert derived is not None
    assert len(derived.files) == 30


def test_readers_wait_for_a_writer(root: Path) -> None:
    descriptor = os.open(root, os.O_RDONLY)
    fcntl.flock(descriptor, fcntl.LOCK_EX)
    opened = threading.Event()
    reader = threading.Thread(target=lambda: (open_pack(root), opened.set()))
    reader.start()
    time.sleep(0.05)
    assert not opened.is_set()
    os.close(descriptor)
    reader.join(10)
    assert opened.is_set()


def test_partial_files_lie_within_a_closed_parent(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "access", lambda path, mode: False)
    write_output(root / "compare/x", b"1")
    assert open_pack(root).read("compare/x") == b"1"


def test_a_pack_that_vanishes_meanwhile_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    root = make_pack(tmp_path / "p")
    monkeypatch.setattr(derived, "enclosing_pack", lambda _: (root.rename(tmp_path / "moved"), root)[1])
    with pytest.raises(StorageError, match="No such file") as caught:
        derived.write_output(root / "compare/delta.json", b"{}")
    assert caught.value.details["file"] == str(root)
    assert not root.exists()


# What a new pack may replace, and what nobody asked to lose.

ENTRY = {"size": 0, "sha256": "0" * 64}


@pytest.fixture
def pack(tmp_path: Path) -> Path:
    root = tmp_path / "pack"
    manifest = Manifest(layout="files", run_id="r", dataset_id="d", case_count=0, files=[])
    for name in ("run", "cases", "judges", "compare", "attestations", "history"):
        (root / name).mkdir(parents=True)
    (root / "manifest.json").write_bytes(dumps(manifest.to_json()))
    return root


def test_only_a_pack_may_be_replaced_by_another(pack: Path, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    (tmp_path / "empty").mkdir()
    assert may_be_replaced(pack)
    assert not any(may_be_replaced(tmp_path / name) for name in ("missing", "empty", "file"))


@pytest.mark.parametrize("manifest", [None, "", "[]", '{"name": "web app", "icons": []}'])
def test_directory_of_someone_else_is_refused(tmp_path: Path, manifest: str | None) -> None:
    (tmp_path / "notes.txt").write_text("mine")
    if manifest is not None:
        (tmp_path / "manifest.json").write_text(manifest)
    with pytest.raises(UsageError, match="is not an evidence pack") as caught:
        may_be_replaced(tmp_path)
    assert caught.value.remedy


def test_what_was_derived_goes_with_the_pack_and_a_strangers_file_does_not(pack: Path) -> None:
    (pack / "otel.jsonl").write_text("")
    (pack / "reports").mkdir()
    entries = [FileEntry(path=path, **ENTRY) for path in ("otel.jsonl", "reports/a.md")]
    derived = DerivedManifest(run_manifest_sha256="0" * 64, files=entries)
    (pack / "derived.json").write_bytes(dumps(derived.to_json()))
    assert may_be_replaced(pack)
    (pack / "notes.txt").write_text("mine")
    with pytest.raises(UsageError, match=r"'notes\.txt' in it is not part of it"):
        may_be_replaced(pack)
    (pack / "notes.txt").unlink()
    (pack / "derived.json").write_text("broken")
    with pytest.raises(UsageError, match=r"otel\.jsonl"):
        may_be_replaced(pack)


def test_directory_that_cannot_be_looked_at_is_a_storage_error(tmp_path: Path) -> None:
    with pytest.raises(StorageError) as caught:
        may_be_replaced(tmp_path / ("x" * 300))
    assert caught.value.exit_code == 4
