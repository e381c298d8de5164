"""`verify`: ten lines for an auditor who has only the pack, and three exit codes."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path
from typing import Any

import pytest

from agent_eval.attestations.files import RESULT
from agent_eval.attestations.keys import SigningKey
from agent_eval.cli.main import main
from agent_eval.contracts.base import SCHEMA_VERSION
from agent_eval.errors import ExitCode, InvalidInput, InvalidPack
from agent_eval.evidence.archive import write_bundle
from agent_eval.operations.trust import Signer, attest
from agent_eval.operations.verify import verify
from tests.factories import make_case, make_config, make_pack, make_result, make_suite
from tests.security.attested_packs import decide, remove
from tests.security.packs import edit
from tests.unit.cli.shell import Shell

KEY, OTHER = SigningKey.generate(), SigningKey.generate()


@pytest.fixture
def pack(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Path:
    """A pack as `run` writes it: its verdicts follow from its trajectories."""
    monkeypatch.chdir(tmp_path)
    cases = [
        make_case("a", policy={"forbidden_tools": ["refund"]}),
        make_case("b", policy={"forbidden_tools": ["lookup"]}),
    ]
    Path("suite.json").write_text(json.dumps(make_suite(*cases)))
    run = ("run", "--suite", "suite.json", "--judge", "policy", "--judge", "tool_contract", "--out", "p")
    assert main([*run, "--run-id", "run-1", "--model", "m-1", "--agent-version", "7"]) == 0
    capsys.readouterr()
    return Path("p")


def test_it_says_in_ten_lines_what_the_pack_is(pack: Path, cli: Shell) -> None:
    decide(pack)
    attest(pack, Signer(KEY), environ={})
    shown = cli.out("verify", "p").splitlines()
    assert len(shown) <= 10
    assert shown[0] == "Verified p: run run-1 of shop"
    assert shown[3].startswith("Written by agent-eval ")
    assert f"schema {SCHEMA_VERSION}" in shown[3]
    assert shown[4] == "Agent 7, model m-1, commit not recorded"
    assert shown[5] == "Result: 1 of 2 cases passed; gate: passed"
    assert f"Signature: not checked (claims key {KEY.public.key_id})" in shown[6]
    assert "Replays: yes" in shown[7]
    assert cli.out("pack", "verify", "--run", "p").splitlines() == shown


def test_a_key_makes_the_signature_count(pack: Path, cli: Shell) -> None:
    attest(pack, Signer(KEY), environ={})
    for name, key in (("key.pub", KEY), ("other.pub", OTHER)):
        Path(name).write_bytes(key.public.pem)
    shown = cli.out("verify", "p", "--public-key", "key.pub").splitlines()
    assert f"Signature: signed (key {KEY.public.key_id})" in shown[6]
    assert cli.error("verify", "p", "--public-key", "other.pub", code=1)["code"] == "untrusted_pack"
    remove(pack, RESULT.bundle)
    assert main(["verify", "p", "--public-key", "key.pub"]) == 1


def test_an_archive_is_verified_as_its_pack(pack: Path, cli: Shell) -> None:
    write_bundle({"shop": pack}, Path("evidence.zip"))
    archive, directory = cli.json("verify", "evidence.zip"), cli.json("verify", "p")
    assert {**archive, "pack": "p"} == directory
    assert (directory["whole"], directory["replays"], directory["signature"]) == (True, True, "unsigned")


def flip_byte(pack: Path) -> None:
    path = pack / "run/summary.json"
    path.write_bytes(path.read_bytes() + b" ")


@pytest.mark.parametrize(
    "tamper",
    [
        flip_byte,
        lambda pack: (pack / "extra").write_bytes(b""),
        lambda pack: (pack / "run/index.jsonl").unlink(),
        lambda pack: (pack / "manifest.json").write_bytes(b"{}"),
        lambda pack: edit(pack / "manifest.json", lambda manifest: manifest.update(run_id="other")),
    ],
)
def test_a_pack_that_is_not_whole_exits_1(pack: Path, tamper: Any, cli: Shell) -> None:
    tamper(pack)
    for words in (("verify", "p"), ("pack", "verify", "--run", "p")):
        assert cli.error(*words, code=1)["code"] == "invalid_pack"
    with pytest.raises(InvalidPack) as caught:
        verify(pack)
    assert caught.value.exit_code is ExitCode.NO


def test_what_cannot_be_read_exits_2(pack: Path) -> None:
    write_bundle({"one": pack, "two": pack}, Path("two.zip"))
    Path("no.zip").write_bytes(b"PK")
    Path("empty").mkdir()
    for path in ("nowhere", "no.zip", "two.zip", "empty"):
        assert main(["verify", path]) == 2, path
    assert main(["verify", "p", "--public-key", "nowhere.pub"]) == 2
    with pytest.raises(InvalidInput):
        verify(Path("two.zip"))


def test_verdicts_that_do_not_follow_are_named(tmp_path: Path) -> None:
    results = [make_result("a", failed="policy"), make_result("b")]
    replay = verify(make_pack(tmp_path / "p", results)).replay
    assert replay.same is False
    assert "judges 'a'" in replay.note


@pytest.mark.parametrize(
    ("judge", "why"), [("shop.judges:Tone", "there is no judge"), ("command", "runs a command")]
)
def test_no_plug_in_and_no_command_of_a_pack_is_run(tmp_path: Path, judge: str, why: str) -> None:
    name = judge.rpartition(":")[2].lower()
    results = [make_result("a", judges=("policy", name))]
    config = make_config(judges=["policy", judge], judge_configs={judge: {"command": ["touch", "ran"]}})
    replay = verify(make_pack(tmp_path / "p", results, config=config)).replay
    assert replay.same is None
    assert re.search(why, replay.note)
    assert not (tmp_path / "ran").exists()


def test_an_unfinished_run_is_whole_and_is_not_judged_again(pack: Path) -> None:
    edit(pack / "manifest.json", lambda manifest: manifest.update(complete=False))
    assert verify(pack).replay.same is None


def test_an_attestation_without_a_key_counts_for_nothing(pack: Path) -> None:
    assert verify(pack).signature.state == "unsigned"
    attest(pack, Signer(secret=b"secret"), environ={})
    assert verify(pack).signature.note.startswith("an HMAC by a shared secret")
    attest(pack, Signer(KEY), environ={})
    signature = verify(pack).signature
    assert (signature.checked, signature.key_id) == (False, KEY.public.key_id)
    shutil.rmtree(pack)
