"""Packs with attestations, and an attacker's tools: signing with any key, over any bytes."""

import base64
import json
from pathlib import Path
from typing import Any

from agent_eval.attestations.dsse import sign_bundle
from agent_eval.attestations.files import RESULT, Trust
from agent_eval.attestations.keys import SigningKey
from agent_eval.contracts import GateDecision, GateStatus, Thresholds
from agent_eval.evidence.derived import write_output
from agent_eval.operations.trust import DECISION, Signer, attest
from agent_eval.storage.files import sha256_bytes
from agent_eval.storage.json import dumps
from tests.factories import make_config, make_pack, make_result

SECRET = b"a shared secret of at least 32 bytes"
COMMIT = "4b825dc642cb6eb9a060e54bf8d69288fbee4904"


def signed_pack(root: Path, key: SigningKey, *, passing: bool = True, **config: Any) -> Path:
    """A pack of two cases with a passed gate, attested by key and secret."""
    results = [make_result("a"), make_result("b", failed=() if passing else "policy")]
    make_pack(root, results, config=make_config(**{"git_commit": COMMIT, **config}))
    decide(root)
    attest(root, Signer(key, SECRET), environ={})
    return root


def decide(root: Path, status: GateStatus = GateStatus.PASSED) -> None:
    """Write a decision on the pack into it."""
    manifest = sha256_bytes((root / "manifest.json").read_bytes())
    decision = GateDecision(
        generated_at="2026-01-14T10:00:00+00:00", gate_status=status, passed=status is GateStatus.PASSED,
        thresholds=Thresholds(min_pass_rate=0.5), candidate_run_id="run-1",
        candidate_manifest_sha256=manifest, baseline_manifest_sha256="9f" * 32,
    )  # fmt: skip
    write_output(root / DECISION, dumps(decision.to_json(), indent=True))


def trusting(key: SigningKey, **more: Any) -> Trust:
    """Trust in signatures by this key alone."""
    return Trust(keys=(key.public,), **more)


def bundle_of(root: Path, name: str = RESULT.bundle) -> dict[str, Any]:
    """The bundle of a pack as JSON."""
    return dict(json.loads((root / name).read_bytes()))


def put(root: Path, data: dict[str, Any] | bytes, name: str = RESULT.bundle) -> None:
    """Replace a file of the derived part as an attacker would, who can list it as well."""
    write_output(root / name, data if isinstance(data, bytes) else dumps(data, indent=True))


def remove(root: Path, *names: str) -> None:
    """Remove files of the derived part, and their entries."""
    derived = json.loads((root / "derived.json").read_bytes())
    for name in names:
        (root / name).unlink()
    derived["files"] = [entry for entry in derived["files"] if entry["path"] not in names]
    (root / "derived.json").write_bytes(dumps(derived, indent=True))


def payload_of(root: Path, name: str = RESULT.bundle) -> dict[str, Any]:
    """The statement of a bundle."""
    return dict(json.loads(base64.b64decode(bundle_of(root, name)["dsseEnvelope"]["payload"])))


def sign(root: Path, payload: bytes, key: SigningKey, name: str = RESULT.bundle) -> None:
    """Sign any bytes, and put the bundle in place."""
    put(root, sign_bundle(payload, key), name)


def b64(data: bytes) -> str:
    """As base64."""
    return base64.b64encode(data).decode()
