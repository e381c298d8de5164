from __future__ import annotations

import json
import shutil
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from agent_eval.contracts.registry import Registry, Waiver
from agent_eval.errors import InvalidInput, InvalidPack, StorageError, UsageError
from agent_eval.registry.baselines import (
    add_dataset,
    promote_baseline,
    resolve_baseline,
    set_baseline,
    show_baseline,
)
from agent_eval.registry.store import RegistryStore, path_for_registry, path_from_registry, verify_registry
from agent_eval.registry.waivers import add_waiver, list_waivers, revoke_waiver
from tests.factories import make_case, make_config, make_pack, make_suite

NOW = "2026-06-01T00:00:00+00:00"
LATER = "2026-07-01T00:00:00+00:00"


@pytest.fixture
def store(tmp_path: Path) -> RegistryStore:
    return RegistryStore(tmp_path / ".agent_eval" / "registry.json")


@pytest.fixture
def suite(tmp_path: Path) -> Path:
    path = tmp_path / "suites" / "shop.json"
    path.parent.mkdir()
    path.write_text(json.dumps(make_suite(make_case("a"), make_case("b"))))
    return path


@pytest.fixture
def pack(tmp_path: Path) -> Path:
    return make_pack(tmp_path / "runs" / "baseline")


def waive(store: RegistryStore, **fields: Any) -> Waiver:
    facts = {"baseline_name": "main", "approved_by": "qa@example.com", "reason": "known", "case_id": "a"}
    return add_waiver(store, **{**facts, "at": NOW, **fields})


def test_a_registry_that_is_not_there_is_empty(store: RegistryStore) -> None:
    assert store.read() == Registry()
    assert list_waivers(store, at=NOW) == []
    assert store.log() == []
    assert verify_registry(store).passed
    assert not store.path.exists()


def test_a_data_set_is_pinned_and_found_after_the_checkout_moved(
    store: RegistryStore, suite: Path, tmp_path: Path
) -> None:
    entry = add_dataset(store, suite, at=NOW, description="the shop", tags=["b", "a", "b"])
    assert (entry.dataset_id, entry.case_count, entry.tags) == ("shop", 2, ["a", "b"])
    assert entry.suite_path == "../suites/shop.json"
    moved = tmp_path.parent / f"{tmp_path.name}-moved"
    shutil.move(tmp_path, moved)
    store = RegistryStore(moved / ".agent_eval" / "registry.json")
    assert verify_registry(store).passed
    (moved / "suites" / "shop.json").write_text("{}")
    changed = "data set 'shop': ../suites/shop.json is not what was registered"
    assert verify_registry(store).problems == [changed]
    (moved / "suites" / "shop.json").unlink()
    assert not verify_registry(store).passed


def test_a_baseline_is_pinned_by_digest(store: RegistryStore, pack: Path, tmp_path: Path) -> None:
    entry = set_baseline(store, "main", pack, at=NOW, notes="first", dataset_id="shop")
    assert show_baseline(store, "main") == entry
    assert (entry.run_id, entry.run_path) == ("run-1", "../runs/baseline")
    found = resolve_baseline(store, "main")
    assert found.path == pack
    found.check(entry.manifest_sha256)
    shutil.rmtree(pack)
    make_pack(pack, config=make_config(run_id="forged"))
    with pytest.raises(InvalidPack, match="not the one that was registered"):
        found.check("f" * 64)
    assert verify_registry(store).problems == ["baseline 'main': ../runs/baseline is not what was registered"]
    shutil.rmtree(pack)
    with pytest.raises(InvalidInput, match="where there is nothing"):
        resolve_baseline(store, "main")
    assert not verify_registry(store).passed


def test_a_path_is_a_baseline_too_and_an_unknown_name_is_not(store: RegistryStore, pack: Path) -> None:
    found = resolve_baseline(store, str(pack))
    assert (found.path, found.entry) == (pack, None)
    found.check("whatever it is")
    with pytest.raises(InvalidInput, match="neither a path nor a baseline") as refused:
        resolve_baseline(store, "main")
    assert "Registered: none" in refused.value.remedy
    with pytest.raises(InvalidInput, match="neither"):
        show_baseline(store, "main")


def test_what_is_of_another_data_set_and_a_broken_pack_are_refused(
    store: RegistryStore, suite: Path, pack: Path
) -> None:
    for add in (partial(set_baseline, store, "main", pack), partial(add_dataset, store, suite)):
        with pytest.raises(InvalidInput, match="is of data set 'shop', not 'other'"):
            add(at=NOW, dataset_id="other")
    (pack / "extra").write_text("x")
    with pytest.raises(InvalidPack):
        set_baseline(store, "main", pack, at=NOW)
    assert not store.path.exists()


def test_a_promotion_records_who_and_why(store: RegistryStore, pack: Path) -> None:
    who = {"approved_by": " qa@example.com ", "rationale": "release 2"}
    entry, approval = promote_baseline(store, "main", pack, **who, at=NOW)
    assert entry.approval_id == approval.approval_id
    stated = (approval.approved_by, approval.rationale, approval.run_id)
    assert stated == ("qa@example.com", "release 2", "run-1")
    _, second = promote_baseline(store, "next", pack, approved_by="a", rationale="b", at=LATER)
    assert store.read().approvals == [approval, second]
    assert set_baseline(store, "main", pack, at=LATER).approval_id is None
    assert [entry.action for entry in store.log()] == ["baseline-promote", "baseline-promote", "baseline-set"]


@pytest.mark.parametrize("bad", ["", "   ", "a\nb", "\x1b[31m", "x" * 1_001])
def test_names_and_words_are_plain_text(store: RegistryStore, pack: Path, bad: str) -> None:
    for change in (
        lambda: set_baseline(store, bad, pack, at=NOW),
        lambda: promote_baseline(store, "main", pack, approved_by=bad, rationale="r", at=NOW),
        lambda: waive(store, reason=bad),
    ):
        with pytest.raises(UsageError):
            change()
    assert not store.path.exists()


def test_waivers_are_listed_newest_first_by_baseline_and_while_they_hold(store: RegistryStore) -> None:
    first = waive(store)
    second = waive(store, judge_id="policy", expires_at="2026-06-15T00:00:00+02:00")
    other = waive(store, baseline_name="release", case_id=None, regression_key="0" * 16)
    assert len({first.waiver_id, second.waiver_id, other.waiver_id}) == 3
    assert list_waivers(store, at=NOW) == [other, second, first]
    assert list_waivers(store, at=NOW, baseline_name="main") == [second, first]
    assert list_waivers(store, at=NOW, baseline_name="main", active_only=True) == [second, first]
    assert list_waivers(store, at=LATER, baseline_name="main", active_only=True) == [first]
    # It may end with a day.
    assert waive(store, expires_at="2027-01-31").expires_at == "2027-01-31T23:59:59+00:00"
    assert waive(store, expires_at=NOW[:10]).expires_at == f"{NOW[:10]}T23:59:59+00:00"


def test_a_revoked_waiver_stays_listed_and_holds_no_more(store: RegistryStore) -> None:
    waiver = waive(store)
    revoked = revoke_waiver(store, waiver.waiver_id, revoked_by="lead@example.com", at=LATER)
    assert (revoked.revoked_at, revoked.revoked_by) == (LATER, "lead@example.com")
    assert list_waivers(store, at=LATER) == [revoked]
    assert list_waivers(store, at=LATER, active_only=True) == []
    for unknown in (waiver.waiver_id, "w-unknown"):
        with pytest.raises(InvalidInput, match="could be revoked"):
            revoke_waiver(store, unknown, revoked_by="lead@example.com", at=LATER)


@pytest.mark.parametrize(
    ("fields", "says", "remedy"),
    [
        ({"case_id": None}, "waive everything", ""),
        ({"case_id": ""}, "case_id is empty", ""),
        ({"expires_at": "soon"}, "'soon'", ""),
        ({"expires_at": "2027-02-30"}, "write a time", ""),
        ({"expires_at": "31 July"}, "write a time of ISO 8601, such as", "a day, such as 2027-01-31"),
        ({"expires_at": "2026-05-31"}, "over already", ""),
        ({"expires_at": "2026-07-31T12:30"}, "has no offset; write 2026-07-31T12:30:00+00:00",
         "or a time with its offset"),
        ({"expires_at": "2026-05-31T00:00:00Z"}, "is over already", f"a time after now, which is {NOW}"),
        ({"expires_at": NOW}, "over already", ""),
    ],
)  # fmt: skip
def test_a_waiver_that_says_too_little_is_refused_with_how_to_write_it(
    store: RegistryStore, fields: Any, says: str, remedy: str
) -> None:
    with pytest.raises(UsageError) as refused:
        waive(store, **fields)
    assert says in refused.value.message
    assert repr(fields["expires_at"]) in refused.value.message if "expires_at" in fields else True
    assert remedy in refused.value.remedy
    assert not store.path.exists()


def test_the_log_chains_every_change(store: RegistryStore) -> None:
    for number in range(5):
        waive(store, case_id=f"case-{number}")
    entries = store.log()
    assert [entry.sequence for entry in entries] == [0, 1, 2, 3, 4]
    assert [entry.previous for entry in entries[1:]] == [entry.hash for entry in entries[:-1]]
    check = verify_registry(store)
    assert (check.passed, check.changes) == (True, 5)


def lines(store: RegistryStore) -> list[bytes]:
    return store.log_path.read_bytes().splitlines(keepends=True)


def edited(line: bytes, **fields: Any) -> bytes:
    return json.dumps({**json.loads(line), **fields}).encode() + b"\n"


@pytest.mark.parametrize(
    "tamper",
    [
        lambda old: [old[0], edited(old[1], at="2020-01-01T00:00:00+00:00"), old[2]],
        lambda old: [old[0], edited(old[1], details={}), old[2]],
        lambda old: [old[0], edited(old[1], added="field"), old[2]],
        lambda old: [old[0], old[2]],
        lambda old: [old[1], old[0], old[2]],
        lambda old: [old[0], old[1]],
        lambda old: [old[0], old[1], b"not json\n"],
        lambda old: [old[0], old[1], b"{}\n"],
        lambda old: [],
    ],
    ids=["time", "details", "new field", "removed", "swapped", "cut", "garbage", "no entry", "emptied"],
)
def test_a_changed_log_is_noticed(store: RegistryStore, tamper: Any) -> None:
    for number in range(3):
        waive(store, case_id=f"case-{number}")
    store.log_path.write_bytes(b"".join(tamper(lines(store))))
    assert not verify_registry(store).passed


def test_a_log_that_does_not_belong_to_the_registry_stops_the_next_change(store: RegistryStore) -> None:
    waive(store)
    waive(store)
    whole, state = store.log_path.read_bytes(), store.path.read_bytes()
    first = lines(store)[0]
    for broken in (first, first + first, whole[:-1] + b"x", b""):
        store.log_path.write_bytes(broken)
        with pytest.raises(InvalidInput, match="audit log"):
            waive(store)
        assert store.path.read_bytes() == state
    store.log_path.unlink()
    with pytest.raises(InvalidInput, match="is not there"):
        waive(store)
    store.log_path.write_bytes(whole)
    waive(store)
    assert verify_registry(store).changes == 3


def test_what_a_killed_writer_left_in_the_log_never_took_effect(store: RegistryStore) -> None:
    waive(store)
    with store.log_path.open("ab") as log:
        log.write(b'{"half an ent')
    assert len(store.log()) == 1
    assert verify_registry(store).passed
    waive(store)
    assert len(store.log()) == 2
    assert verify_registry(store).passed


@pytest.mark.parametrize("content", ["", "[]", "{", '{"waivers": [{"waiver_id": 1}]}', '{"datasets": 3}'])
def test_a_file_that_is_no_registry_is_refused_and_left_alone(store: RegistryStore, content: str) -> None:
    store.path.parent.mkdir()
    store.path.write_text(content)
    with pytest.raises(InvalidInput):
        waive(store)
    assert store.path.read_text() == content


def test_a_registry_that_cannot_be_written_says_so(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(StorageError):
        waive(RegistryStore(tmp_path / "file" / "registry.json"))


def test_the_same_changes_give_the_same_bytes(tmp_path: Path) -> None:
    written = set()
    for store in (RegistryStore(tmp_path / name / "registry.json") for name in ("one", "two")):
        waive(store)
        waive(store, judge_id="policy")
        written.add((store.path.read_bytes(), store.log_path.read_bytes()))
    assert len(written) == 1


def test_paths_without_a_common_directory_are_kept_absolute(pack: Path) -> None:
    elsewhere = Path("/srv/registry/registry.json")
    assert path_for_registry(Path("/var/runs/x"), elsewhere) == "/var/runs/x"
    assert path_from_registry("/var/runs/x", elsewhere) == Path("/var/runs/x")
    assert path_for_registry(Path("/srv/runs/x"), elsewhere) == "../runs/x"
    assert path_from_registry("../runs/x", elsewhere) == Path("/srv/runs/x")
