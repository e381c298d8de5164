"""What a new pack may replace, and what nobody asked to lose."""

from __future__ import annotations

from pathlib import Path

import pytest

from agent_eval.contracts import DerivedManifest, FileEntry, Manifest
from agent_eval.errors import StorageError, UsageError
from agent_eval.evidence.layout import may_be_replaced
from agent_eval.storage.json import dumps

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
