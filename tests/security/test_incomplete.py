"""A run that was broken off decides nothing, whoever asks."""

import hashlib
import json
from pathlib import Path

import pytest

from tests.e2e.program import agent_eval, tree
from tests.factories import make_case, make_suite
from tests.security.packs import edit


def broken_off(pack: Path) -> None:
    edit(pack / "manifest.json", {"complete": False})


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """Two packs of the same suite."""
    suite = make_suite(make_case("a", policy={"required_tools": ["lookup"]}))
    (tmp_path / "suite.json").write_text(json.dumps(suite))
    for name in ("baseline", "candidate"):
        assert agent_eval("run", "--suite", "suite.json", "--out", name, cwd=tmp_path).code == 0
    return tmp_path


COMPARE = ("compare", "--baseline", "baseline", "--candidate", "candidate")


REFUSED = {
    "compare with it": ("baseline", " ".join(COMPARE)),
    "compare it": ("candidate", " ".join(COMPARE)),
    "rejudge": ("baseline", "rejudge --run baseline --judge policy --out anew"),
    "merge": ("shard", "merge shard --out whole"),
    "registry": (
        "baseline",
        "registry baseline-set --registry-path registry.json --name main --run baseline",
    ),
}


@pytest.mark.parametrize("command", REFUSED)
def test_it_is_refused_and_nothing_is_made_of_it(command: str, place: Path) -> None:
    which, words = REFUSED[command]
    if command == "merge":
        options = ("--suite", "suite.json", "--shard", "1/1", "--run-id", "r", "--out", "shard")
        assert agent_eval("run", *options, cwd=place).code == 0
    broken_off(place / which)
    before = tree(place)
    ended = agent_eval(*words.split(), cwd=place)
    assert (ended.code, ended.error["code"]) == (2, "invalid_pack")
    assert "not complete" in ended.error["message"]
    assert which in ended.error["message"]
    assert "--resume" in ended.error["details"]["remedy"]
    assert tree(place) == before


def test_ci_refuses_it_as_a_baseline_that_was_named(place: Path) -> None:
    broken_off(place / "baseline")
    options = ("--suite", "suite.json", "--baseline", "baseline", "--out", "out", "--comment", "never")
    ended = agent_eval("ci", *options, cwd=place)
    assert ended.code == 2
    assert "not complete" in ended.out


def test_gate_refuses_a_comparison_in_it(place: Path) -> None:
    assert agent_eval(*COMPARE, cwd=place).code == 0
    comparison = (place / "candidate" / "compare" / "baseline_delta.json").read_bytes()
    broken_off(place / "candidate")
    (place / "candidate" / "derived.json").unlink()
    (place / "candidate" / "compare" / "baseline_delta.json").unlink()
    (place / "candidate" / "compare").rmdir()
    (place / "c.json").write_bytes(comparison)
    # Even whoever seals everything anew does not get it past the gate.
    manifest = hashlib.sha256((place / "candidate" / "manifest.json").read_bytes()).hexdigest()
    edit(place / "c.json", {"candidate.manifest_sha256": manifest})
    forged = (place / "c.json").read_bytes()
    (place / "candidate" / "compare").mkdir()
    (place / "candidate" / "compare" / "c.json").write_bytes(forged)
    entry = {"path": "compare/c.json", "size": len(forged), "sha256": hashlib.sha256(forged).hexdigest()}
    derived = {"kind": "derived", "run_manifest_sha256": manifest, "files": [entry]}
    (place / "candidate" / "derived.json").write_text(json.dumps(derived))
    options = ("--compare", "candidate/compare/c.json", "--max-regressed-cases", "5")
    ended = agent_eval("gate", *options, cwd=place)
    assert ended.code == 2
    assert "not complete" in ended.error["message"]


def test_verify_says_so_and_converting_keeps_it(place: Path) -> None:
    broken_off(place / "baseline")
    verify = ("pack", "verify", "--run", "baseline", "--format")
    assert agent_eval(*verify, "json", cwd=place).json()["complete"] is False
    assert "not complete" in agent_eval(*verify, "text", cwd=place).out
    compact = ("pack", "compact", "--format", "json", "--run", "baseline", "--out", "compact")
    assert agent_eval(*compact, cwd=place).json()["complete"] is False
