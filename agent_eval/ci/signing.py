"""Sign the evidence of a job, and use only a baseline that was signed."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from agent_eval.attestations.files import Trust
from agent_eval.attestations.keys import PublicKey, parse_signing_key
from agent_eval.attestations.predicates import gate_predicate
from agent_eval.attestations.statement import Expected
from agent_eval.ci.config import Settings
from agent_eval.contracts import GateDecision, GateStatus
from agent_eval.operations.trust import Admission, Signer, attest_opened
from agent_eval.storage.files import sha256_bytes
from agent_eval.storage.json import dumps

if TYPE_CHECKING:
    from agent_eval.ci.context import JobContext
    from agent_eval.evidence.reader import Pack


def signer_of(settings: Settings) -> Signer:
    """Parse the job's key, an ECDSA P-256 key, before anything is run; a signer without one signs nothing."""
    if settings.signing_key is None:
        return Signer()
    return Signer(parse_signing_key(settings.signing_key.encode() + b"\n", source="signing-key"))


def sign(job: JobContext, signer: Signer, pack: Pack, place: Path, decision: GateDecision) -> None:
    """Attest the run of a pack and, if it passed, the gate, from what the job has in memory.

    Without a key only predicates are written, and only with `attest`. Raises `InvalidInput` where a statement
    would hold a secret.
    """
    if signer.key is None and not job.settings.attest:
        return
    passed = decision.gate_status is GateStatus.PASSED and decision.passed and not decision.blocks
    decision_sha256 = sha256_bytes(dumps(decision.to_json(), indent=True))
    attest_opened(
        pack,
        place,
        signer,
        gate=gate_predicate(pack.config, decision, decision_sha256) if passed else None,
        url=job.platform.run.run_url,
        environ=job.environ,
    )


def admission_by(key: PublicKey | None, commit: str | None = None) -> Admission | None:
    """Make the check that a baseline is signed, and of the commit that its run says; None without a key."""
    return Admission(Trust(keys=(key,), expected=Expected(commit=commit))) if key is not None else None
