"""What earlier commands wrote is read back, and held against the pack in which it lies."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from agent_eval.errors import InvalidInput, InvalidPack
from agent_eval.evidence.derived import write_output
from agent_eval.operations import packs as artifacts
from agent_eval.operations.compare import compare_packs
from agent_eval.operations.gate import Rules, decide_on
from agent_eval.operations.packs import ReadComparison, read_comparison, read_decision
from agent_eval.operations.report_material import comparison_material
from agent_eval.storage.files import sha256_bytes
from tests.factories import make_config, make_pack, make_result

ENVIRON = {"AGENT_EVAL_CLOCK": "2026-01-14T10:00:00+00:00"}


@pytest.fixture
def candidate(tmp_path: Path) -> Path:
    """A pack that was compared with another one."""
    before = make_pack(tmp_path / "before", [make_result("a"), make_result("b")])
    results = [make_result("a"), make_result("b", failed="policy")]
    now = make_pack(tmp_path / "now", results, config=make_config(run_id="run-2"))
    compare_packs(before, now, environ=ENVIRON)
    return now


@pytest.fixture
def delta(candidate: Path) -> Path:
    return candidate / "compare/baseline_delta.json"


def test_a_comparison_is_read_with_the_digest_of_its_bytes_also_outside_of_a_pack(
    delta: Path, tmp_path: Path
) -> None:
    (tmp_path / "delta.json").write_bytes(delta.read_bytes())
    for path in (delta, tmp_path / "delta.json"):
        found = read_comparison(path)
        assert (found.comparison.candidate_run_id, found.sha256) == ("run-2", sha256_bytes(path.read_bytes()))


def test_a_comparison_in_a_pack_that_changed_is_refused(delta: Path, candidate: Path) -> None:
    (candidate / "run/events.jsonl").write_bytes(b"")
    with pytest.raises(InvalidPack, match="was changed"):
        read_comparison(delta)


@pytest.mark.parametrize("lost", [["manifest.json"], ["manifest.json", "derived.json", "run"]])
def test_a_pack_that_lost_its_manifest_is_no_way_around_that(
    delta: Path, candidate: Path, lost: list[str]
) -> None:
    for name in lost:
        (candidate / name).rename(candidate.parent / f"lost-{name}")
    with pytest.raises(InvalidPack, match=r"manifest\.json"):
        read_comparison(delta)


def test_a_comparison_of_another_run_is_refused(delta: Path, candidate: Path) -> None:
    value = json.loads(delta.read_bytes())
    value["candidate"]["manifest_sha256"] = "0" * 64
    write_output(delta, json.dumps(value).encode())
    with pytest.raises(InvalidPack, match="compares another run") as caught:
        read_comparison(delta)
    assert str(candidate) in caught.value.remedy


def test_a_run_that_was_broken_off_is_not_decided_on(delta: Path, candidate: Path) -> None:
    manifest, data = json.loads((candidate / "manifest.json").read_bytes()), delta.read_bytes()
    (candidate / "manifest.json").write_text(json.dumps({**manifest, "complete": False}))
    (candidate / "derived.json").unlink()
    delta.unlink()
    write_output(delta, data)
    with pytest.raises(InvalidPack, match="not complete"):
        read_comparison(delta)


def test_a_comparison_that_changes_while_it_is_read_is_refused(
    delta: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sealed = delta.read_bytes()
    monkeypatch.setattr(artifacts, "read_bytes", lambda path, max_bytes: sealed + b"\n")
    with pytest.raises(InvalidPack, match="changed while it was read"):
        read_comparison(delta)


@pytest.mark.parametrize(("value", "field"), [({"kind": "no"}, "generated_at"), ([], "the whole file")])
def test_what_is_no_comparison_is_named_with_its_first_fault(tmp_path: Path, value: Any, field: str) -> None:
    (tmp_path / "x.json").write_text(json.dumps(value))
    with pytest.raises(InvalidInput, match="is not a comparison; `agent-eval compare` writes one") as caught:
        read_comparison(tmp_path / "x.json")
    assert caught.value.details["field"] == field
    assert caught.value.details["file"] == str(tmp_path / "x.json")


def test_a_decision_belongs_to_the_comparison_it_was_made_on(delta: Path, candidate: Path) -> None:
    made = decide_on(delta, Rules.stated({"max_regressed_cases": 0}), environ=ENVIRON).path
    comparison = read_comparison(delta)
    assert read_decision(made, comparison).comparison_sha256 == comparison.sha256
    other = ReadComparison(comparison.comparison, "0" * 64)
    with pytest.raises(InvalidInput, match="decided on another comparison"):
        read_decision(made, other)
    with pytest.raises(InvalidInput, match="is not a gate decision"):
        read_decision(delta, comparison)


def test_the_report_of_a_replay_is_an_object(delta: Path, tmp_path: Path) -> None:
    (tmp_path / "object.json").write_text('{"a": 1}')
    (tmp_path / "list.json").write_text("[1]")
    assert comparison_material(delta, replay=tmp_path / "object.json").replay == {"a": 1}
    with pytest.raises(InvalidInput, match="must hold a JSON object"):
        comparison_material(delta, replay=tmp_path / "list.json")
