"""The runs that a decision was held against are in its evidence, and `gate --pool` decides the same again."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from agent_eval.attestations.keys import SigningKey
from agent_eval.cli.main import main
from agent_eval.contracts.history import RunRecord
from agent_eval.errors import ExitCode
from agent_eval.evidence.archive import open_bundle
from agent_eval.evidence.derived import write_output
from agent_eval.evidence.reader import open_pack
from agent_eval.history.directory import HistoryDirectory
from agent_eval.history.files import decode, encode_all
from agent_eval.history.record import record_of
from agent_eval.operations.attest import Signer, attest
from agent_eval.storage.files import sha256_bytes
from agent_eval.storage.json import dumps
from tests.unit.ci.platforms.repository import Repository
from tests.unit.ci.test_history import Nights

PACK = Path("agent-eval-out/shop")
POOL = PACK / "compare/pool.jsonl"
DECISION = PACK / "compare/gate_decision.json"
CLOCK = "2026-11-06T08:00:00+00:00"
RULES = ("--preset", "pull-request", "--max-regressed-cases", "4")

Tampered = Callable[[list[RunRecord], RunRecord], bytes]


def checkout(top: Path, patch: pytest.MonkeyPatch) -> Nights:
    """An empty checkout, in which the test runs from now on."""
    repository = Repository(top)
    patch.chdir(top)
    return Nights(repository, top.parent / "store")


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A change that fails every order: unusual after five runs, and what chance explains after one.

    The evidence of the last night before it is base.zip.
    """
    with pytest.MonkeyPatch.context() as patch:
        nights = checkout(tmp_path_factory.mktemp("pool") / "checkout", patch)
        for failing in ((), (1,), (), (), ()):
            nights.evaluate(bad=failing)
        shutil.copy("agent-eval-out/evidence.zip", "base.zip")
        nights.repository.branch("change", nights.repository.commit())
        nights.evaluate(bad=(1, 2, 3, 4), baseline_runs="20")
        return nights.repository.top


@pytest.fixture
def evidence(made: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of that evidence, in which the test runs at the time of the job."""
    where = tmp_path / "checkout"
    shutil.copytree(made, where, symlinks=True)
    monkeypatch.chdir(where)
    monkeypatch.setenv("AGENT_EVAL_CLOCK", CLOCK)
    return where


def gate(*arguments: str, rules: tuple[str, ...] = RULES) -> int:
    return main(["gate", "--compare", str(PACK), "--baseline", "base.zip", *rules, *arguments])


def error_of(capsys: pytest.CaptureFixture[str]) -> dict[str, Any]:
    error: dict[str, Any] = json.loads(capsys.readouterr().err)["error"]
    return error


def decided(path: Path = DECISION) -> dict[str, Any]:
    decision: dict[str, Any] = json.loads(path.read_bytes())
    return decision


def relist(data: bytes, *, named: bool = True) -> None:
    """Put another pool into the pack, listed in its manifest and perhaps named by its decision."""
    write_output(POOL, data)
    if named:
        decision = decided()
        decision["evidence"]["pooled"]["sha256"] = sha256_bytes(data)
        write_output(DECISION, dumps(decision, indent=True))


@pytest.mark.parametrize("place", ["in the pack", "elsewhere"])
def test_the_evidence_gives_the_decision_of_the_job_again(evidence: Path, place: str) -> None:
    of_job = DECISION.read_bytes()
    pooled = json.loads(of_job)["evidence"]["pooled"]
    assert pooled["sha256"] == sha256_bytes(POOL.read_bytes())
    assert pooled["run_ids"] == [record.run.run_id for record in decode(POOL.read_bytes(), source="pool")]
    assert (json.loads(of_job)["gate_status"], pooled["runs"]) == ("failed", 5)
    if place == "in the pack":
        assert gate("--pool", str(POOL)) == ExitCode.NO
        assert DECISION.read_bytes() == of_job
    else:
        shutil.copy(POOL, "copy.jsonl")
        archive = ("--candidate", "agent-eval-out/evidence.zip", "--out", "again.json")
        assert gate("--pool", "copy.jsonl", *archive) == ExitCode.NO
        assert Path("again.json").read_bytes() == of_job


def test_the_counts_of_the_candidate_are_those_of_its_pack(evidence: Path) -> None:
    assert [record.run.run_id for record in decode(POOL.read_bytes(), source="pool")].count(
        decided()["candidate_run_id"]
    ) == 0
    assert gate("--pool", str(POOL), "--out", "again.json") == ExitCode.NO
    assert decided(Path("again.json"))["evidence"]["pooled"]["rate"] == 0.0


def test_a_pooled_decision_is_not_made_again_without_its_pool(
    evidence: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    of_job = DECISION.read_bytes()
    for arguments in ((), ("--out", "again.json")):
        assert gate(*arguments) == ExitCode.WRONG_REQUEST
        error = error_of(capsys)
        assert error["details"]["field"] == "pool"
        assert "5 runs of the base branch" in error["message"]
        assert "Give their records with --pool compare/pool.jsonl" in error["details"]["remedy"]
    assert DECISION.read_bytes() == of_job
    assert not Path("again.json").exists()


def test_the_one_baseline_decides_where_that_is_asked_for_and_then_it_is_said(
    evidence: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    of_job = DECISION.read_bytes()
    assert gate("--pool", "none") == ExitCode.WRONG_REQUEST
    assert "would be replaced" in error_of(capsys)["message"]
    assert DECISION.read_bytes() == of_job
    assert gate("--pool", "none", "--out", "again.json", "--format", "text") == ExitCode.OK
    assert "the job held this one against 5 runs of the base branch" in capsys.readouterr().out
    again = decided(Path("again.json"))
    assert (again["evidence"]["pooled"], again["evidence"]["method"]) == (None, "mcnemar-tango")
    assert "which --pool none leaves out" in again["explanation"][-1]


def test_thresholds_alone_know_no_pool_and_do_not_replace_what_does(
    evidence: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    of_job = DECISION.read_bytes()
    alone = ("--max-regressed-cases", "4")
    assert gate(rules=alone) == ExitCode.WRONG_REQUEST
    assert "would be replaced" in error_of(capsys)["message"]
    assert gate("--pool", str(POOL), rules=alone) == ExitCode.WRONG_REQUEST
    assert "needs a policy" in error_of(capsys)["message"]
    assert DECISION.read_bytes() == of_job
    assert gate("--out", "again.json", rules=alone) == ExitCode.OK


def test_the_output_names_the_runs(evidence: Path, capsys: pytest.CaptureFixture[str]) -> None:
    gate("--pool", str(POOL), "--format", "text")
    shown = " ".join(capsys.readouterr().out.split())
    assert (
        f"Held against 5 runs, the newest first: {', '.join(decided()['evidence']['pooled']['run_ids'])}."
        in (shown)
    )
    report = ("report", "markdown", "--compare", str(PACK), "--gate", str(DECISION))
    assert main([*report, "--out", "report.md"]) == 0
    assert "held against 5 runs, the newest first: `" in Path("report.md").read_text()


def more_passed(record: RunRecord, passed: int) -> RunRecord:
    """The record with another count of its first case."""
    name, case = next(iter(record.cases.items()))
    missed = {"policy_violation": 1 - passed} if passed == 0 else {}
    changed = case.model_copy(update={"passed": passed, "scored": 1, "missed": missed})
    return RunRecord(record.run, {**record.cases, name: changed})


def renamed(record: RunRecord, **fields: Any) -> RunRecord:
    return replace(record, run=record.run.model_copy(update=fields))


def redefined(record: RunRecord) -> RunRecord:
    cases = {name: case.model_copy(update={"definition": "0" * 12}) for name, case in record.cases.items()}
    return RunRecord(record.run, cases)


COPIES: dict[str, Tampered] = {
    "edited": lambda records, own: encode_all([more_passed(records[0], 0), *records[1:]]),
    "added": lambda records, own: encode_all(
        [*records, renamed(records[0], run_id="local-9", manifest_sha256="9" * 64)]
    ),
    "removed": lambda records, own: encode_all(records[1:]),
    "reordered": lambda records, own: encode_all(records[::-1]),
    "empty": lambda records, own: b"",
}


@pytest.mark.parametrize("tampered", COPIES.values(), ids=COPIES)
@pytest.mark.parametrize("listed", [False, True], ids=["a copy", "listed anew"])
def test_another_pool_than_that_of_the_job_is_refused(
    evidence: Path, tampered: Tampered, listed: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    data = tampered(decode(POOL.read_bytes(), source="pool"), record_of(open_pack(PACK)))
    if listed:
        relist(data, named=False)
    place = POOL if listed else Path("copy.jsonl")
    place.write_bytes(data)
    assert gate("--pool", str(place), "--out", "again.json") == ExitCode.WRONG_REQUEST
    error = error_of(capsys)
    why = "the decision in the candidate's pack was not made on it" if listed else "lists no such file"
    assert why in error["message"]
    assert error["details"]["file"] == str(place)
    assert error["details"]["field"] == "pool"
    assert "as the job wrote it" in error["details"]["remedy"]
    assert not Path("again.json").exists()


FORGED: dict[str, tuple[Tampered, str]] = {
    "another key": (
        lambda records, own: encode_all([renamed(records[0], key="0" * 16), *records[1:]]),
        "has another key",
    ),
    "the candidate itself": (
        lambda records, own: encode_all([own, *records]),
        "is the candidate itself",
    ),
    "the candidate under another name": (
        lambda records, own: encode_all([renamed(own, run_id="local-9"), *records]),
        "is the candidate itself",
    ),
    "a run twice": (lambda records, own: encode_all([records[0], *records]), "twice"),
    "a run twice under two names": (
        lambda records, own: encode_all([renamed(records[0], run_id="local-9"), *records]),
        "twice",
    ),
    "another dataset": (
        lambda records, own: encode_all([renamed(records[0], dataset_id="other"), *records[1:]]),
        "is of dataset 'other'",
    ),
    "other definitions": (
        lambda records, own: encode_all([redefined(records[0]), *records[1:]]),
        "call for other runs",
    ),
    "too few": (lambda records, own: encode_all(records[:3]), "call for other runs"),
    "cut off": (lambda records, own: encode_all(records)[:-9], "cut off"),
    "no record": (lambda records, own: b'{"runs": 5}\n', "not the first line of a record"),
    "not JSON": (lambda records, own: b"{\n", "no list of records"),
    "of a later version": (
        lambda records, own: encode_all([renamed(records[0], schema_version="9.0.0"), *records[1:]]),
        "of version '9.0.0'",
    ),
    "counts that contradict each other": (
        lambda records, own: encode_all(records).replace(b'"passed":1', b'"passed":7', 1),
        "contradict each other",
    ),
}


@pytest.mark.parametrize(("tampered", "why"), FORGED.values(), ids=FORGED)
def test_a_pool_that_no_job_makes_is_refused_whatever_lists_and_names_it(
    evidence: Path, tampered: Tampered, why: str, capsys: pytest.CaptureFixture[str]
) -> None:
    relist(tampered(decode(POOL.read_bytes(), source="pool"), record_of(open_pack(PACK))))
    assert gate("--pool", str(POOL), "--out", "again.json") == ExitCode.WRONG_REQUEST
    error = error_of(capsys)
    assert why in error["message"]
    assert error["details"]["file"] == str(POOL)
    assert error["details"]["field"] == "pool"
    assert not Path("again.json").exists()


def test_invented_runs_are_found_where_the_gate_is_signed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("AGENT_EVAL_CLOCK", CLOCK)
    nights = checkout(tmp_path / "checkout", monkeypatch)
    # So few cases tell little: with this margin, that an unchanged agent passes.
    nights.orders = 12
    Path("gate.yml").write_text("preset: pull-request\nmargin: 0.25\nconfidence: 0.8\n")
    for _ in range(4):
        nights.evaluate(policy="gate.yml")
    shutil.copy("agent-eval-out/evidence.zip", "base.zip")
    nights.repository.branch("change", nights.repository.commit())
    nights.evaluate(policy="gate.yml", baseline_runs="20")
    key = SigningKey.generate()
    Path("key.pub").write_bytes(key.public.pem)
    kept = attest(PACK, Signer(key), environ={})
    verify = ("verify-attestation", "--run", str(PACK), "--public-key", "key.pub", "--require-gate")
    rules = ("--policy", "gate.yml", "--max-regressed-cases", "4")
    assert kept.gate_passed
    assert main(list(verify)) == ExitCode.OK
    assert gate("--pool", str(POOL), "--out", "again.json", rules=rules) == ExitCode.OK
    records = decode(POOL.read_bytes(), source="pool")
    invented = renamed(more_passed(records[0], 0), run_id="local-9", manifest_sha256="9" * 64)
    relist(encode_all([*records, invented]))
    assert gate("--pool", str(POOL), "--out", "again.json", rules=rules) == ExitCode.OK
    assert decided(Path("again.json"))["evidence"]["pooled"]["runs"] == 5
    capsys.readouterr()
    assert main(list(verify)) == ExitCode.NO
    assert "another decision than compare/gate_decision.json" in capsys.readouterr().out


def test_a_baseline_of_another_setup_is_refused(evidence: Path, capsys: pytest.CaptureFixture[str]) -> None:
    suite = ("run", "--suite", "suite.json", "--run-id", "main-1", "--model", "other", "--out", "main-1")
    assert main(list(suite)) == ExitCode.OK
    other = ("--baseline", "main-1", "--candidate", str(PACK))
    assert main(["compare", *other, "--out", "delta.json"]) == ExitCode.OK
    decision = decided()
    decision["baseline_manifest_sha256"] = open_pack(Path("main-1")).manifest_sha256
    write_output(DECISION, dumps(decision, indent=True))
    capsys.readouterr()
    pool = ("--pool", str(POOL), "--out", "again.json")
    assert main(["gate", "--compare", "delta.json", *other, *RULES, *pool]) == ExitCode.WRONG_REQUEST
    assert (
        "the setup of the candidate (model, judges, conditions) is not the baseline's"
        in (error_of(capsys)["message"])
    )


def test_a_pool_that_is_not_there_is_refused(evidence: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert gate("--pool", "nowhere.jsonl", "--out", "again.json") == ExitCode.WRONG_REQUEST
    error = error_of(capsys)
    assert (error["details"]["file"], error["details"]["field"]) == ("nowhere.jsonl", "pool")
    assert "no such file" in error["message"]


def test_a_pack_whose_pool_was_altered_or_removed_does_not_verify(
    evidence: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["verify", str(PACK)]) == ExitCode.OK
    data = POOL.read_bytes()
    POOL.write_bytes(data.replace(b'"passed":1', b'"passed":0', 1))
    assert main(["verify", str(PACK)]) == ExitCode.NO
    assert gate("--pool", str(POOL), "--out", "again.json") == ExitCode.WRONG_REQUEST
    POOL.unlink()
    assert main(["verify", str(PACK)]) == ExitCode.NO
    derived = json.loads((PACK / "derived.json").read_bytes())
    derived["files"] = [entry for entry in derived["files"] if entry["path"] != "compare/pool.jsonl"]
    (PACK / "derived.json").write_bytes(dumps(derived, indent=True))
    capsys.readouterr()
    assert main(["verify", str(PACK)]) == ExitCode.NO
    assert (
        "compare/pool.jsonl is not the one that compare/gate_decision.json rests on"
        in (error_of(capsys)["message"])
    )
    assert gate("--out", "again.json") == ExitCode.WRONG_REQUEST
    assert "They are not kept" in error_of(capsys)["details"]["remedy"]


def test_without_the_decision_of_the_job_its_pool_counts_for_nothing(
    evidence: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_output(DECISION, b"{}\n")
    for arguments in ((), ("--pool", str(POOL))):
        assert gate(*arguments, "--out", "again.json") == ExitCode.WRONG_REQUEST
    assert not Path("again.json").exists()


def test_against_another_baseline_the_pool_is_no_question(
    evidence: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    suite = ("run", "--suite", "suite.json", "--run-id", "release-1", "--out", "release")
    assert main(list(suite)) == ExitCode.OK
    other = ("--baseline", "release", "--candidate", str(PACK))
    assert main(["compare", *other, "--out", "delta.json"]) == ExitCode.OK
    decide = ["gate", "--compare", "delta.json", *other, *RULES]
    assert main([*decide, "--out", "again.json"]) == ExitCode.OK
    capsys.readouterr()
    assert main([*decide, "--pool", str(POOL), "--out", "with.json"]) == ExitCode.WRONG_REQUEST
    assert "was not made on it" in error_of(capsys)["message"]


def test_one_baseline_leaves_no_pool_and_asks_for_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    nights = checkout(tmp_path / "checkout", monkeypatch)
    nights.evaluate()
    shutil.copy("agent-eval-out/evidence.zip", "base.zip")
    nights.evaluate(bad=(1,), baseline_runs="20")
    assert not POOL.exists()
    assert gate() == ExitCode.OK


def test_a_secret_in_the_counts_of_an_earlier_run_is_not_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    secret = "tok-9f8e7d6c5b4a"
    place = tmp_path / "kept"
    monkeypatch.setenv("AGENT_EVAL_CLOCK", CLOCK)
    nights = checkout(tmp_path / "checkout", monkeypatch)
    for _ in range(4):
        nights.evaluate(history=str(place))
    shutil.copy("agent-eval-out/evidence.zip", "base.zip")
    kept = HistoryDirectory(place).read("shop")
    shutil.rmtree(place)
    for record in kept:
        first = next(iter(record.cases.values()))
        cases = {**record.cases, secret: first.model_copy(update={"case_id": secret})}
        run = record.run.model_copy(
            update={"run_id": f"{record.run.run_id}-{secret}", "model": secret, "cases": len(cases)}
        )
        HistoryDirectory(place).write(RunRecord(run, cases))
    nights.repository.branch("change", nights.repository.commit())
    # The key is that of the model that the runs state; only their words are another's.
    nights.repository.environ["DEPLOY_TOKEN"] = secret
    nights.evaluate(history=str(place), baseline_runs="20", bad=(1, 2, 3, 4))
    for path in Path("agent-eval-out").rglob("*"):
        assert not path.is_file() or secret.encode() not in path.read_bytes(), path
    assert secret.encode() not in b"".join(
        pack.read("compare/pool.jsonl") for pack in open_bundle(Path("agent-eval-out/evidence.zip")).values()
    )
    assert decided()["evidence"]["pooled"]["runs"] == 4
    assert gate("--pool", str(POOL), "--out", "again.json") == ExitCode.NO
    assert decided(Path("again.json"))["evidence"] == decided()["evidence"]
