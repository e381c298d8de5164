"""`keygen`, `attest` and `verify-attestation`: what they print and how they exit."""

from __future__ import annotations

import json
import stat
from pathlib import Path

import pytest

from agent_eval.attestations.keys import SECRET_VARIABLE, SIGNING_KEY_VARIABLE
from agent_eval.cli.main import main
from agent_eval.evidence.reader import open_pack
from tests.factories import make_config, make_pack, make_result
from tests.unit.cli.shell import Shell

PUBLIC = ("--public-key", "key.pem.pub")


@pytest.fixture
def pack(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in (SECRET_VARIABLE, SIGNING_KEY_VARIABLE):
        monkeypatch.delenv(name, raising=False)
    assert main(["keygen", "--out", "key.pem"]) == 0
    return make_pack(Path("p"), [make_result("a"), make_result("b")], config=make_config(model="m"))


def test_keys_are_made_once(pack: Path, cli: Shell) -> None:
    made = cli.json("keygen", "--out", "other.pem")
    assert made["public_key"] == "other.pem.pub"
    assert stat.S_IMODE(Path("other.pem").stat().st_mode) == 0o600
    before = Path("other.pem").read_bytes()
    assert "not overwritten" in cli.err("keygen", "--out", "other.pem")
    Path("other.pem").unlink()
    assert "not overwritten" in cli.err("keygen", "--out", "other.pem")
    assert b"PRIVATE KEY" in before
    shown = cli.out("keygen", "--out", "third.pem")
    assert "mode 0600" in shown
    assert not any(line in shown for line in Path("third.pem").read_text().splitlines()[1:-1])


def test_no_half_of_a_pair_is_left_and_no_link_is_replaced(pack: Path, cli: Shell) -> None:
    too_long_for_the_public_key = "k" * 253
    cli.err("keygen", "--out", too_long_for_the_public_key, code=4)
    assert not Path(too_long_for_the_public_key).exists()
    Path("linked.pem.pub").symlink_to("nowhere")
    assert "not overwritten" in cli.err("keygen", "--out", "linked.pem")
    assert not Path("linked.pem").exists()


def test_a_signed_pack_is_verified_and_stays_whole(pack: Path, cli: Shell) -> None:
    attested = cli.json("attest", "--run", "p", "--key", "key.pem")
    assert attested["integrity"] == "signature"
    assert attested["result"] == "PASSED"
    assert attested["files"] == [
        "attestations/test-result.predicate.json",
        "attestations/test-result.sigstore.json",
    ]
    assert open_pack(pack).derived is not None
    verified = cli.json("verify-attestation", "--run", "p", *PUBLIC, "--require", "signature")
    assert verified["verified"]
    assert verified["key_id"] == attested["key_id"]
    assert verified["manifest_sha256"] == attested["manifest_sha256"] == open_pack(pack).manifest_sha256
    shown = cli.out("verify-attestation", "--run", "p", *PUBLIC)
    assert f"Integrity: signed by key {attested['key_id']}" in shown


def test_the_key_may_come_from_the_environment_and_is_printed_nowhere(
    pack: Path, cli: Shell, monkeypatch: pytest.MonkeyPatch
) -> None:
    pem = Path("key.pem").read_text()
    monkeypatch.setenv(SIGNING_KEY_VARIABLE, pem)
    shown = cli.out("attest", "--run", "p")
    assert "signed by key" in shown
    cli.json("verify-attestation", "--run", "p", *PUBLIC)
    written = shown + "".join(path.read_text() for path in pack.rglob("*.json*"))
    assert not any(line in written for line in pem.splitlines()[1:-1])


@pytest.mark.parametrize("source", ["flag", "environment"])
def test_a_shared_secret_is_integrity_and_no_signature(
    pack: Path, cli: Shell, monkeypatch: pytest.MonkeyPatch, source: str
) -> None:
    given = ["--secret", "hunter2"] if source == "flag" else []
    if source == "environment":
        monkeypatch.setenv(SECRET_VARIABLE, "hunter2")
    shown = cli.out("attest", "--run", "p", *given)
    assert "not a signature" in shown
    assert "the secret has 7 bytes" in shown
    assert "hunter2" not in shown
    verified = cli.json("verify-attestation", "--run", "p", *given)
    assert (verified["integrity"], verified["key_id"]) == ("shared secret", None)
    refused = cli.json("verify-attestation", "--run", "p", *given, "--require", "signature", code=1)
    assert "signature is required" in refused["reason"]


def test_without_key_or_secret_a_pack_is_unsigned_and_fails(pack: Path, cli: Shell) -> None:
    assert cli.json("attest", "--run", "p")["integrity"] == "none"
    refused = cli.json("verify-attestation", "--run", "p", code=1)
    assert not refused["verified"]
    assert "unsigned" in refused["reason"]
    assert "--allow-unsigned" in refused["remedy"]
    allowed = cli.json("verify-attestation", "--run", "p", "--allow-unsigned")
    assert (allowed["verified"], allowed["integrity"], allowed["attestations"]) == (True, "none", [])
    (pack / "run/summary.json").write_bytes(b"{}")
    assert "was changed" in cli.json("verify-attestation", "--run", "p", "--allow-unsigned", code=1)["reason"]


def test_each_credential_that_is_given_must_verify(pack: Path, cli: Shell) -> None:
    cli.json("attest", "--run", "p", "--key", "key.pem")
    both = ("verify-attestation", "--run", "p", *PUBLIC, "--secret", "hunter2")
    assert "has no HMAC" in cli.json(*both, code=1)["reason"]
    cli.json("attest", "--run", "p", "--key", "key.pem", "--secret", "hunter2")
    assert len(cli.json(*both)["attestations"]) == 2


def test_an_attestation_may_be_somewhere_else(pack: Path, cli: Shell) -> None:
    cli.json("attest", "--run", "p", "--key", "key.pem", "--secret", "hunter2")
    make_pack(Path("bare"), [make_result("a"), make_result("b")], config=make_config(model="m"))
    for name, given in (("sigstore", PUBLIC), ("hmac", ("--secret", "hunter2"))):
        Path(f"p/attestations/test-result.{name}.json").rename(f"{name}.json")
        verified = cli.json("verify-attestation", "--run", "bare", *given, "--attestation", f"{name}.json")
        assert verified["verified"]
    refused = cli.json("verify-attestation", "--run", "bare", *PUBLIC, "--attestation", "hmac.json", code=1)
    assert "has no signature" in refused["reason"]


def test_what_cannot_be_checked_is_no_refusal(pack: Path, cli: Shell) -> None:
    assert "no such directory" in cli.err("verify-attestation", "--run", "nowhere", *PUBLIC)
    assert "no such file" in cli.err("verify-attestation", "--run", "p", "--public-key", "gone.pub")
    assert "private key" in cli.err("verify-attestation", "--run", "p", "--public-key", "key.pem")
    Path("p.zip").write_bytes(b"PK")
    assert "is an archive" in cli.err("attest", "--run", "p.zip", "--key", "key.pem")


def test_an_unfinished_run_is_not_attested(pack: Path, cli: Shell) -> None:
    manifest = json.loads((pack / "manifest.json").read_bytes())
    (pack / "manifest.json").write_text(json.dumps({**manifest, "complete": False}))
    assert "not complete" in cli.err("attest", "--run", "p", "--key", "key.pem")
