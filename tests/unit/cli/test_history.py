"""`agent-eval history`, on everything that has a history."""

from __future__ import annotations

from pathlib import Path

import pytest

from agent_eval.contracts.history import RunRecord
from agent_eval.evidence.reader import open_pack
from agent_eval.history.records import record_of, write_history
from agent_eval.operations.gate import parse_policy_file
from tests.factories import make_config, make_pack, make_result
from tests.unit.cli.shell import Shell
from tests.unit.history.made import made_run


def evidence(root: Path, *earlier: RunRecord, dataset_id: str = "shop") -> Path:
    """A pack whose history is these runs, the newest first, after its own."""
    make_pack(root / dataset_id, config=make_config(dataset_id=dataset_id))
    write_history(root / dataset_id, record_of(open_pack(root / dataset_id)), earlier)
    return root


@pytest.fixture
def kept(tmp_path: Path) -> Path:
    runs = [made_run(number, {"refund": (number % 2, 1)}) for number in range(1, 5)]
    return evidence(tmp_path / "kept", *runs)


def test_evidence_and_a_directory_of_it_are_shown(kept: Path, cli: Shell) -> None:
    for words in (["history", str(kept)], ["history", "show", str(kept / "shop")]):
        shown = cli.json(*words)
        assert [run["pass_rate"] for run in shown["runs"] if run["counted"]] == [1.0, 0.0, 1.0, 0.0]
        assert shown["cases"][0]["letters"] == "PFPF"
    assert "History of shop: 5 runs" in cli.out("history", str(kept))


def test_a_run_in_which_nothing_was_judged_is_shown(tmp_path: Path, cli: Shell) -> None:
    pack = make_pack(tmp_path / "pack", [make_result("a", error="policy")])
    write_history(pack, record_of(open_pack(pack)), [])
    assert "History of shop: 1 run" in cli.out("history", str(pack))


def test_several_datasets_are_shown_one_after_the_other_or_the_one_that_is_named(
    kept: Path, cli: Shell
) -> None:
    evidence(kept, made_run(1, {"a": (1, 1)}, dataset_id="bank"), dataset_id="bank")
    assert sorted(cli.json("history", str(kept))["datasets"]) == ["bank", "shop"]
    shown = cli.out("history", str(kept))
    assert shown.index("History of bank") < shown.index("History of shop")
    assert "--dataset-id: bank, shop" in cli.err("history", str(kept), "--recommend")
    assert cli.json("history", str(kept), "--dataset-id", "bank")["runs"]
    cli.err("history", str(kept), "--dataset-id", "shops")


def test_what_a_policy_has_in_quarantine_is_shown(kept: Path, cli: Shell) -> None:
    policy = kept.parent / "gate.yml"
    policy.write_text("quarantine: [{case: refund, reason: sandbox, until: 2030-01-01}]")
    assert cli.json("history", str(kept), "--config", str(policy))["cases"][0]["kind"] == "quarantined"


def test_the_badge_is_refused_with_what_draws_one(kept: Path, cli: Shell) -> None:
    error = cli.error("history", "badge", str(kept), "--out", "badge.svg")
    assert error["message"] == "`agent-eval history badge` is gone."
    assert "history WHERE --format json" in error["details"]["remedy"]
    assert "https://shields.io/badges/endpoint-badge" in error["details"]["remedy"]


def test_a_recommended_quarantine_is_lines_of_a_policy_and_edits_nothing(tmp_path: Path, cli: Shell) -> None:
    runs = [made_run(number, {"refund": (number % 2, 1), "cancel": (1, 1)}) for number in range(20)]
    kept = evidence(tmp_path / "kept", *runs)
    policy = tmp_path / "gate.yml"
    policy.write_text("quarantine: [{case: cancel, reason: flaky, until: 2030-01-01}]\n")
    before = policy.read_bytes()
    asked = ["history", str(kept), "--config", str(policy), "--recommend", "--format"]
    printed = cli.out(*asked, "text")
    assert '# "cancel" passes again, 20 of 20 trials passed: take it out.' in printed
    [entry] = parse_policy_file(printed.encode(), "gate.yml").quarantine
    assert (entry.case, entry.reason) == ("refund", "flaky: 10 of 20 trials passed")
    assert policy.read_bytes() == before
    found = cli.json(*asked, "json")
    assert [each["case"] for each in found["quarantine"]] == ["refund"]
    assert [each["case"] for each in found["remove"]] == ["cancel"]


def test_a_case_that_the_policy_lists_and_no_run_has_is_said(kept: Path, cli: Shell) -> None:
    policy = kept.parent / "gate.yml"
    policy.write_text("quarantine: [{case: refnd, reason: flaky, until: 2030-01-01}]\n")
    said = "`quarantine` of the policy lists `refnd`, but none of these runs has it. Did you mean `refund`?"
    asked = ["history", str(kept), "--config", str(policy)]
    assert f"warning: {said}" in cli.out(*asked)
    assert cli.json(*asked, "--format", "json")["warnings"] == [said]
    assert f"# warning: {said}" in cli.out(*asked, "--recommend")
