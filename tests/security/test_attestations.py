"""Every way to make a pack pass for one that its signer vouched for is refused, and the message says why.

Attackers can write every byte of a pack, its seal included. They have keys of their own, other packs of the
same signer, and the public key; they do not have the private key. The rows are listed in
docs/decisions/attestations.md, which a test compares with them.
"""

import json
import os
import re
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from agent_eval.attestations.dsse import MalformedAttestation, UntrustedPack, pae
from agent_eval.attestations.files import GATE, RESULT, Trust
from agent_eval.attestations.keys import SigningKey
from agent_eval.attestations.statement import Expected
from agent_eval.contracts import GateStatus
from agent_eval.errors import AgentEvalError, InvalidInput, InvalidPack
from agent_eval.evidence.archive import write_bundle
from agent_eval.evidence.reader import open_pack
from agent_eval.operations.trust import DECISION, Signer, attest, open_trusted
from agent_eval.storage.files import sha256_bytes
from agent_eval.storage.json import dumps
from tests.factories import make_config, make_pack, make_result
from tests.security.attested_packs import (
    COMMIT,
    SECRET,
    b64,
    bundle_of,
    decide,
    payload_of,
    put,
    remove,
    sign,
    signed_pack,
    trusting,
)

TABLE = Path(__file__).parents[2] / "docs" / "decisions" / "attestations.md"
SIGNER, ATTACKER = SigningKey.generate(), SigningKey.generate()


class Scene(NamedTuple):
    """The signed pack that is tampered with, and a place for more."""

    root: Path
    elsewhere: Path

    def envelope(self, change: Callable[[dict[str, Any]], object], name: str = RESULT.bundle) -> None:
        bundle = bundle_of(self.root, name)
        change(bundle["dsseEnvelope"])
        put(self.root, bundle, name)

    def statement(self, change: Callable[[dict[str, Any]], object], key: SigningKey = SIGNER) -> None:
        statement = payload_of(self.root)
        change(statement)
        sign(self.root, dumps(statement), key)


class Attack(NamedTuple):
    error: type[AgentEvalError]
    name: str
    tamper: Callable[[Scene], object]
    message: str
    trust: Trust = trusting(SIGNER)


@pytest.fixture
def scene(tmp_path: Path) -> Scene:
    return Scene(signed_pack(tmp_path / "p", SIGNER), tmp_path)


def forge_verdicts(scene: Scene) -> None:
    """Make a failing run pass, and seal it again; the attestations stay as they were."""
    old = scene.elsewhere / "old"
    scene.root.rename(old)
    results = [make_result("a"), make_result("b")]
    make_pack(scene.root, results, config=make_config(run_id="forged", git_commit=COMMIT))
    for name in (RESULT.bundle, RESULT.mac, GATE.bundle, GATE.mac):
        put(scene.root, (old / name).read_bytes(), name)


def forge_and_strip(scene: Scene) -> None:
    forge_verdicts(scene)
    remove(scene.root, RESULT.bundle, RESULT.mac, GATE.bundle, GATE.mac)


def forge_and_sign(scene: Scene) -> None:
    forge_and_strip(scene)
    attest(scene.root, Signer(ATTACKER), environ={})


def replay_old(scene: Scene) -> None:
    old = signed_pack(scene.elsewhere / "yesterday", SIGNER, run_id="yesterday")
    put(scene.root, (old / RESULT.bundle).read_bytes())


def swap_pack(scene: Scene, **config: Any) -> None:
    shutil.rmtree(scene.root)
    signed_pack(scene.root, SIGNER, **config)


def name_trusted_key(scene: Scene) -> None:
    forge_and_sign(scene)
    scene.envelope(lambda envelope: envelope["signatures"][0].update(keyid=SIGNER.public.key_id))
    bundle = bundle_of(scene.root)
    bundle["verificationMaterial"]["publicKey"]["hint"] = SIGNER.public.hint
    put(scene.root, bundle)


def bring_own_key(scene: Scene) -> None:
    forge_and_sign(scene)
    bundle = bundle_of(scene.root)
    bundle["verificationMaterial"]["publicKey"]["rawBytes"] = b64(ATTACKER.public.pem)
    put(scene.root, bundle)


def bring_certificate(scene: Scene) -> None:
    bundle = bundle_of(scene.root)
    bundle["verificationMaterial"] = {"certificate": {"rawBytes": b64(b"certificate")}, "tlogEntries": []}
    put(scene.root, bundle)


def duplicate(text: bytes, key: str, value: str) -> bytes:
    """The same object with a key twice: a reader that takes the first sees another value."""
    assert text.startswith(b"{")
    return b"{" + f'"{key}":{value},'.encode() + text[1:]


def resign(scene: Scene, signature: bytes) -> None:
    scene.envelope(lambda envelope: envelope["signatures"][0].update(sig=b64(signature)))


def raw_payload(scene: Scene) -> bytes:
    return dumps(payload_of(scene.root))


def fixed_size_signature(scene: Scene) -> bytes:
    from cryptography.hazmat.primitives.asymmetric.utils import decode_dss_signature

    data = pae("application/vnd.in-toto+json", raw_payload(scene))
    r, s = decode_dss_signature(SIGNER.sign(data))
    return r.to_bytes(32, "big") + s.to_bytes(32, "big")


def move(scene: Scene, source: str, target: str) -> None:
    put(scene.root, (scene.root / source).read_bytes(), target)


def as_link(scene: Scene, name: str) -> None:
    (scene.root / name).rename(scene.elsewhere / "target")
    (scene.root / name).symlink_to(scene.elsewhere / "target")


def as_pipe(scene: Scene) -> None:
    (scene.root / RESULT.bundle).unlink()
    os.mkfifo(scene.root / RESULT.bundle)


def without_subject_digest(statement: dict[str, Any]) -> None:
    statement["subject"] = [subject for subject in statement["subject"] if "gitCommit" in subject["digest"]]


def write(path: Path, data: bytes) -> None:
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(data)


def hard_link(path: Path, other: Path) -> None:
    path.unlink()
    path.hardlink_to(other)


def listen(path: Path) -> None:
    import socket

    here = os.open(".", os.O_RDONLY)
    os.chdir(path.parent)  # names of sockets are short
    try:
        with socket.socket(socket.AF_UNIX) as listener:
            listener.bind(path.name)
    finally:
        os.fchdir(here)
        os.close(here)


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-20])


def reseal_index(scene: Scene, change: Callable[[list[bytes]], list[bytes]]) -> None:
    """Change the rows of the index, and make the seal fit again; the attestation stays as it was."""
    path, manifest = scene.root / "run/index.jsonl", scene.root / "manifest.json"
    path.write_bytes(b"".join(change(path.read_bytes().splitlines(keepends=True))))
    sealed = json.loads(manifest.read_bytes())
    for entry in sealed["files"]:
        if entry["path"] == "run/index.jsonl":
            data = path.read_bytes()
            entry.update(size=len(data), sha256=sha256_bytes(data))
    old = sha256_bytes(manifest.read_bytes())
    manifest.write_bytes(dumps(sealed, indent=True))
    derived = (scene.root / "derived.json").read_bytes()
    new = sha256_bytes(manifest.read_bytes())
    (scene.root / "derived.json").write_bytes(derived.replace(old.encode(), new.encode()))


WITH_SECRET = Trust(secret=SECRET)
WITH_GATE = trusting(SIGNER, gate=True)

Row = tuple[str, Callable[[Scene], object], str] | tuple[str, Callable[[Scene], object], str, Trust]
"""Name of an attack, what it does, what is said of it, and whom the verifier trusts if not the signer."""

INVALID: tuple[Row, ...] = (
    ("a byte of a file", lambda s: (s.root / "run/summary.json").write_bytes(b"{}"), "was changed"),
    ("a file added below attestations/", lambda s: (s.root / "attestations/extra.json").write_bytes(b"{}"),
     "added after"),
    ("an empty directory added", lambda s: (s.root / "attestations/more").mkdir(), "is an empty directory"),
    ("attestation replaced by a link", lambda s: as_link(s, RESULT.bundle), "link"),
    ("attestations/ replaced by a link", lambda s: as_link(s, "attestations"), "irectory|link"),
    ("attestation replaced by a FIFO", as_pipe, "is not a regular file"),
    ("attestation removed, still listed", lambda s: (s.root / GATE.bundle).unlink(), "is missing"),
    ("a file renamed", lambda s: (s.root / "run/summary.json").rename(s.root / "run/summary2.json"),
     "added after"),
    ("a file removed", lambda s: (s.root / "run/events.jsonl").unlink(), "is missing"),
    ("a directory added, with a file", lambda s: write(s.root / "more/notes.json", b"{}"), "added after"),
    ("a file of the run replaced by a link", lambda s: as_link(s, "run/summary.json"), "is a symbolic link"),
    ("a directory of the run replaced by a link", lambda s: as_link(s, "cases/a"), "symbolic link"),
    ("a file replaced by a hard link to another one of the pack",
     lambda s: hard_link(s.root / "cases/a/verdicts.json", s.root / "cases/b/verdicts.json"), "was changed"),
    ("a FIFO added", lambda s: os.mkfifo(s.root / "run/pipe"), "is not a regular file"),
    ("a socket added, which is a device to a reader", lambda s: listen(s.root / "s"),
     "is not a regular file"),
    ("a name that Windows reserves", lambda s: write(s.root / "run/CON", b""), "run/CON"),
    ("a name that differs in case only", lambda s: write(s.root / "run/Summary.json", b"{}"), "added after"),
    ("the last line of the index torn", lambda s: cut(s.root / "run/index.jsonl"), "was changed"),
    ("derived.json of another pack",
     lambda s: shutil.copy(signed_pack(s.elsewhere / "other", SIGNER, run_id="other") / "derived.json",
     s.root), "belongs to another run"),
)  # fmt: skip
UNTRUSTED: tuple[Row, ...] = (
    ("verdicts forged and sealed again", forge_verdicts, "attestation of another run"),
    ("verdicts forged, attestations removed", forge_and_strip, "has no signature"),
    ("verdicts forged, signed with another key", forge_and_sign, "not signed by a trusted key"),
    ("another key that names the trusted one in keyid and hint", name_trusted_key,
     "not signed by a trusted key"),
    ("another key that is in the bundle itself", bring_own_key, "not signed by a trusted key"),
    ("a certificate in place of the key", bring_certificate, "needs Sigstore's trust root"),
    ("an old attestation of the same signer", replay_old, "attestation of another run"),
    ("another signed pack: other dataset", lambda s: swap_pack(s, dataset_id="toys"), "is of dataset 'toys'",
     trusting(SIGNER, expected=Expected(dataset_id="shop"))),
    ("another signed pack: other commit", lambda s: swap_pack(s, git_commit="0" * 40), "is of commit '0000",
     trusting(SIGNER, expected=Expected(commit=COMMIT))),
    ("another signed pack: other run", lambda s: swap_pack(s, run_id="run-0"), "is of run 'run-0'",
     trusting(SIGNER, expected=Expected(run_id="run-1"))),
    ("signature as r and s without DER", lambda s: resign(s, fixed_size_signature(s)),
     "not signed by a trusted key"),
    ("signature over the payload without its type", lambda s: resign(s, SIGNER.sign(raw_payload(s))),
     "not signed by a trusted key"),
    ("a bit of the payload",
     lambda s: s.envelope(lambda e: e.update(payload=b64(raw_payload(s).replace(b'"a"', b'"c"')))),
     "not signed by a trusted key"),
    ("payload in other bytes of the same JSON",
     lambda s: s.envelope(lambda e: e.update(payload=b64(raw_payload(s) + b" "))),
     "not signed by a trusted key"),
    ("gate's attestation in place of the result's", lambda s: move(s, GATE.bundle, RESULT.bundle),
     "statement of another type"),
    ("result's attestation in place of the gate's", lambda s: move(s, RESULT.bundle, GATE.bundle),
     "statement of another type", WITH_GATE),
    ("HMAC where a signature is required", lambda s: None, "a shared secret is not a signature",
     Trust(secret=SECRET, require_signature=True)),
    ("HMAC removed", lambda s: remove(s.root, RESULT.mac), "has no HMAC", WITH_SECRET),
    ("HMAC by another secret", lambda s: None, "not made with this secret", Trust(secret=b"another")),
    ("HMAC truncated", lambda s: s_hmac(s, lambda mac: mac[:16]), "not made with this secret", WITH_SECRET),
    ("duplicate keys in manifest.json",
     lambda s: (s.root / "manifest.json").write_bytes(duplicate((s.root / "manifest.json").read_bytes(),
     "run_id", '"x"')), "attestation of another run"),
    ("predicate of another type",
     lambda s: s.statement(lambda v: v.update(predicateType="https://slsa.dev/provenance/v1")),
     "statement of another type"),
    ("statement about the commit alone", lambda s: s.statement(without_subject_digest),
     "attestation of another run"),
    ("signer states PASSED of other cases",
     lambda s: s.statement(lambda v: v["predicate"].update(passedTests=["a", "z"])),
     "contradicts the pack: its passedTests"),
    ("signer states another model",
     lambda s: s.statement(lambda v: v["predicate"]["agentEval_run"].update(model="better")),
     "contradicts the pack: its model"),
    ("gate's attestation removed", lambda s: remove(s.root, GATE.bundle), "has no signature", WITH_GATE),
    ("decision replaced after it was attested", lambda s: decide(s.root, GateStatus.FAILED),
     "another decision", WITH_GATE),
    ("no key given for a signed pack", lambda s: None, "no key was given", Trust()),
    ("no attestation at all", lambda s: remove(s.root, RESULT.bundle, RESULT.mac), "is unsigned", Trust()),
    ("rows of the index in another order, sealed again", lambda s: reseal_index(s, lambda lines: lines[::-1]),
     "attestation of another run"),
    ("a row of the index twice, sealed again", lambda s: reseal_index(s, lambda lines: [*lines, lines[0]]),
     "attestation of another run"),
)  # fmt: skip
MALFORMED: tuple[Row, ...] = (
    ("signature removed", lambda s: s.envelope(lambda e: e["signatures"].clear()),
     "not exactly one signature"),
    ("signature null", lambda s: s.envelope(lambda e: e["signatures"][0].update(sig=None)),
     "its signature is missing"),
    ("signature empty", lambda s: s.envelope(lambda e: e["signatures"][0].update(sig="")),
     "its signature is missing"),
    ("signature not ASCII", lambda s: s.envelope(lambda e: e["signatures"][0].update(sig="é" * 96)),
     "is not base64"),
    ("signature in another base64 of the same bytes",
     lambda s: s.envelope(lambda e: e["signatures"][0].update(sig=e["signatures"][0]["sig"] + "\n")),
     "is not base64"),
    ("a second signature beside the true one",
     lambda s: s.envelope(lambda e: e["signatures"].append({"sig": b64(b"x")})), "not exactly one signature"),
    ("payload type swapped", lambda s: s.envelope(lambda e: e.update(payloadType="application/json")),
     "its payloadType is not"),
    ("HMAC in place of the signature", lambda s: move(s, RESULT.mac, RESULT.bundle), "its mediaType is not"),
    ("HMAC replaced by a signature", lambda s: move(s, RESULT.bundle, RESULT.mac), "its payloadType is not",
     WITH_SECRET),
    ("duplicate keys in the bundle",
     lambda s: put(s.root, duplicate((s.root / RESULT.bundle).read_bytes(), "mediaType", '"x"')),
     "mediaType"),
    ("duplicate keys in the statement",
     lambda s: sign(s.root, duplicate(raw_payload(s), "predicateType", '"x"'), SIGNER), "predicateType"),
    ("NaN in the statement", lambda s: sign(s.root, duplicate(raw_payload(s), "x", "NaN"), SIGNER), "NaN"),
    ("a bundle nested without end", lambda s: put(s.root, b"[" * 100_000), "nested deeper"),
    ("bundle of another version",
     lambda s: put(s.root,
     {**bundle_of(s.root), "mediaType": "application/vnd.dev.sigstore.bundle+json;version=0.1"}),
     "its mediaType is not"),
    ("statement of another type",
     lambda s: s.statement(lambda v: v.update(_type="https://in-toto.io/Statement/v0.1")),
     "its _type is not"),
    ("statement without a subject", lambda s: s.statement(lambda v: v.update(subject=[])),
     "it has no subject"),
    ("digest in capital letters",
     lambda s: s.statement(lambda v: v["subject"][0]["digest"].update(sha256="AB" * 32)),
     "not lower-case hexadecimal"),
    ("statement without its run", lambda s: s.statement(lambda v: v["predicate"].pop("agentEval_run")),
     "agentEval_run is not an object"),
)  # fmt: skip
ATTACKS = [
    Attack(error, *row)
    for error, rows in ((UntrustedPack, UNTRUSTED), (MalformedAttestation, MALFORMED), (InvalidPack, INVALID))
    for row in rows
]


def s_hmac(scene: Scene, change: Callable[[bytes], bytes]) -> None:
    """Change the bytes of the HMAC."""
    import base64

    envelope = bundle_of(scene.root, RESULT.mac)
    mac = base64.b64decode(envelope["signatures"][0]["sig"])
    envelope["signatures"][0]["sig"] = b64(change(mac))
    put(scene.root, envelope, RESULT.mac)


def test_what_was_not_tampered_with_is_accepted(scene: Scene) -> None:
    expected = Expected(commit=COMMIT, dataset_id="shop", run_id="run-1")
    for trust in (
        trusting(SIGNER),
        WITH_SECRET,
        WITH_GATE,
        trusting(SIGNER, secret=SECRET, expected=expected),
    ):
        assert open_trusted(scene.root, trust).pack.case_ids() == ["a", "b"]
    trusted = open_trusted(scene.root, Trust(keys=(ATTACKER.public, SIGNER.public)))
    assert trusted.key_id == SIGNER.public.key_id


@pytest.mark.parametrize("archived", [False, True], ids=["directory", "archive"])
@pytest.mark.parametrize("attack", [pytest.param(attack, id=attack.name) for attack in ATTACKS])
def test_an_attack_is_refused(attack: Attack, scene: Scene, archived: bool) -> None:
    attack.tamper(scene)
    if archived and attack.name == "a name that differs in case only":
        with pytest.raises(InvalidInput, match="are the same file"):
            open_archived(scene, attack.trust)
        return
    with pytest.raises(attack.error) as caught:
        open_archived(scene, attack.trust) if archived else open_trusted(scene.root, attack.trust)
    assert type(caught.value) is attack.error
    assert re.search(attack.message, f"{caught.value.message} {caught.value.remedy}")
    assert caught.value.remedy


def open_archived(scene: Scene, trust: Trust) -> None:
    """Archive the pack, which refuses links, pipes and empty directories itself, and open the archive."""
    archive = scene.elsewhere / "evidence.zip"
    write_bundle({"shop": scene.root}, archive)
    open_trusted(archive, trust)


def test_the_table_of_the_docs_has_every_attack() -> None:
    section = TABLE.read_text(encoding="utf-8").partition("## Attacks\n")[2].partition("\n## ")[0]
    rows = [line.split("|")[1].strip() for line in section.splitlines() if line.startswith("| ")][1:]
    assert sorted(rows) == sorted(attack.name for attack in ATTACKS)


def test_what_was_tampered_with_is_not_attested(scene: Scene) -> None:
    (scene.root / "run/summary.json").write_bytes(b"{}")
    with pytest.raises(InvalidPack, match="was changed"):
        attest(scene.root, Signer(SIGNER), environ={})


@pytest.mark.parametrize("status", [GateStatus.FAILED, GateStatus.INCONCLUSIVE, GateStatus.NO_BASELINE])
def test_a_gate_that_did_not_pass_is_never_attested(tmp_path: Path, status: GateStatus) -> None:
    root = make_pack(tmp_path / "p", [make_result("a")])
    decide(root, status)
    assert not attest(root, Signer(SIGNER), environ={})["gate_passed"]
    assert not (root / GATE.bundle).exists()
    with pytest.raises(InvalidInput, match="did not pass"):
        attest(root, Signer(SIGNER), decision=root / DECISION, environ={})


def test_a_decision_on_another_pack_is_not_attested(tmp_path: Path) -> None:
    root, other = make_pack(tmp_path / "p", [make_result("a")]), make_pack(tmp_path / "q", [make_result("b")])
    decide(other)
    with pytest.raises(InvalidInput, match="was not decided on this pack"):
        attest(root, Signer(SIGNER), decision=other / DECISION, environ={})


def test_a_large_attestation_is_refused_unread(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("agent_eval.operations.trust.MAX_ATTESTATION_BYTES", 1000)
    with pytest.raises(InvalidPack, match="larger than 1,000 bytes"):
        open_trusted(scene.root, trusting(SIGNER))


def test_the_manifest_that_was_admitted_is_the_one_that_is_used(scene: Scene) -> None:
    """An attacker who swaps manifest.json while it is verified gains nothing: it is read once."""
    from agent_eval.evidence.sources import DirectorySource
    from agent_eval.operations.trust import Admission

    reads: list[str] = []

    class Counting(DirectorySource):
        def content(self, path: str) -> Iterator[bytes] | None:
            reads.append(path)
            return super().content(path)

    from agent_eval.evidence.reader import open_pack

    admission = Admission(trusting(SIGNER))
    pack = open_pack(Counting(scene.root), admit=admission)
    assert (reads.count("manifest.json"), reads.count(RESULT.bundle)) == (1, 1)
    assert reads.index(RESULT.bundle) < reads.index("derived.json")
    assert admission.check(pack)[0].statement.subjects[0]["digest"] == {"sha256": pack.manifest_sha256}


def test_a_secret_of_the_environment_in_a_statement_is_refused(tmp_path: Path) -> None:
    root = make_pack(tmp_path / "p", [make_result("order-s3cret-value")])
    with pytest.raises(InvalidInput, match="would hold the value of a secret"):
        attest(root, Signer(SIGNER), environ={"SHOP_TOKEN": "s3cret-value"})
    assert not (root / "attestations").exists()


def test_the_private_key_is_in_no_file_of_the_pack_and_in_no_repr(scene: Scene) -> None:
    import pickle

    inner = SIGNER.pem().splitlines()[1]
    number = SIGNER._key.private_numbers().private_value.to_bytes(32, "big")
    for path in scene.root.rglob("*"):
        if path.is_file():
            data = path.read_bytes()
            assert inner not in data
            assert number not in data
            assert number.hex().encode() not in data
    assert repr(SIGNER) == f"SigningKey({SIGNER.public.key_id[:16]})"
    assert "secret" not in repr(Trust(secret=SECRET))
    with pytest.raises(TypeError, match="never passed"):
        pickle.dumps(SIGNER)


def test_a_statement_of_the_docs_is_what_is_written(scene: Scene) -> None:
    statement = payload_of(scene.root)
    assert [subject["name"] for subject in statement["subject"]] == ["manifest.json", "agent"]
    assert statement["predicate"]["passedTests"] == ["a", "b"]
    assert json.loads((scene.root / RESULT.predicate).read_bytes()) == statement["predicate"]


# `attest` mends what a kill left of its own, and removes nothing else; `test_fault_injection` kills it

KEY = SigningKey.generate()


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return make_pack(tmp_path / "p", [make_result("a")], config=make_config())


@pytest.mark.parametrize("name", ["attestations/other.json", "compare/x.json", "run/extra.json"])
def test_attest_removes_no_file_but_its_own(root: Path, name: str) -> None:
    (root / name).parent.mkdir(exist_ok=True)
    (root / name).write_bytes(b"{}")
    with pytest.raises(InvalidPack, match="added after"):
        attest(root, Signer(KEY), environ={})
    assert (root / name).exists()


def test_attest_removes_nothing_through_a_link(root: Path, tmp_path: Path) -> None:
    outside = tmp_path / "attestations"
    outside.mkdir()
    (outside / Path(RESULT.bundle).name).write_bytes(b"not of the pack")
    (root / "attestations").symlink_to(outside)
    with pytest.raises(InvalidPack, match="symbolic link"):
        attest(root, Signer(KEY), environ={})
    assert (outside / Path(RESULT.bundle).name).read_bytes() == b"not of the pack"


def test_a_file_of_its_own_that_is_not_listed_is_made_again_and_not_trusted(root: Path) -> None:
    (root / "attestations").mkdir()
    for name in (RESULT.bundle, GATE.bundle):
        (root / name).write_bytes(b"planted")
    with pytest.raises(InvalidPack, match="added after"):
        open_pack(root)
    attest(root, Signer(KEY), environ={})
    assert open_trusted(root, trusting(KEY)).key_id == KEY.public.key_id
    assert not (root / GATE.bundle).exists()
