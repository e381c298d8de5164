"""Open a pack only if its origin is trusted, and `verify-attestation`.

The attestation is verified against the bytes of manifest.json that the pack is then opened with, and the pack
that was opened is handed on. Nothing is verified in one place and read again in another.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from agent_eval.attestations.dsse import MAX_ATTESTATION_BYTES, MEDIA_TYPE, UntrustedPack
from agent_eval.attestations.files import RESULT, Trust, Verified, admit
from agent_eval.attestations.keys import PublicKey, read_public_key
from agent_eval.attestations.predicates import GATE_FIELD, check_result
from agent_eval.evidence.reader import Pack, refuse_incomplete
from agent_eval.evidence.sources import PackSource, read_limited
from agent_eval.operations.packs import DECISION_IN_PACK, listed_digests, open_run, outcomes_of
from agent_eval.storage.files import read_bytes


@dataclass
class Admission:
    """Admits packs whose attestations hold: the `admit` of `open_pack` and `open_bundle`.

    Attributes:
        detached: The result's attestation from another place than the pack; None for the pack's own.
        verified: The verified statements by the name of their pack.
    """

    trust: Trust
    detached: bytes | None = None
    verified: dict[str, tuple[Verified, ...]] = field(default_factory=dict)

    def __call__(self, source: PackSource, manifest_sha256: str) -> None:
        """Verify the attestations of one pack.

        Raises:
            UntrustedPack: One is missing or does not hold.
        """

        def read(path: str) -> bytes | None:
            if self.detached is not None and path in (RESULT.bundle, RESULT.mac):
                is_bundle = MEDIA_TYPE.encode() in self.detached
                return self.detached if is_bundle == (path == RESULT.bundle) else None
            return read_limited(source, path, MAX_ATTESTATION_BYTES)

        self.verified[source.name] = admit(read, manifest_sha256, self.trust, pack=source.name)

    def check(self, pack: Pack) -> tuple[Verified, ...]:
        """Check that the verified statements follow from the pack that was opened.

        Raises:
            UntrustedPack: A statement contradicts the pack.
        """
        verified = self.verified[pack.name]
        for each in verified:
            if each.kind is RESULT:
                _check_result(pack, each)
            else:
                _check_decision(pack, each)
        return verified


@dataclass(frozen=True)
class TrustedPack:
    """A pack that was admitted, and the statements that vouch for it. Returned by `open_trusted`."""

    path: Path
    pack: Pack
    verified: tuple[Verified, ...]
    trust: Trust

    @property
    def key_id(self) -> str:
        """Id of the key that signed the result; empty without a verified signature."""
        return next((each.key_id for each in self.verified if each.key_id), "")

    def to_json(self) -> dict[str, Any]:
        """Return what `verify-attestation` prints, as JSON values."""
        manifest = self.pack.manifest
        predicate: Mapping[str, Any] = next(
            (each.statement.predicate for each in self.verified if each.kind is RESULT), {}
        )
        return {
            "verified": True,
            "pack": str(self.path),
            "run_id": manifest.run_id,
            "dataset_id": manifest.dataset_id,
            "git_commit": self.pack.config.git_commit,
            "manifest_sha256": self.pack.manifest_sha256,
            "integrity": self.trust.integrity,
            "key_id": self.key_id or None,
            "result": predicate.get("result"),
            "attestations": [{"file": each.path, "kind": each.kind.name} for each in self.verified],
        }


def open_trusted(path: Path, trust: Trust, *, attestation: Path | None = None) -> TrustedPack:
    """Open and verify a pack, or an archive of one, whose attestations hold.

    `attestation` is one of the result that is not in the pack; None for that of the pack.

    Raises:
        InvalidInput: There is no pack, or the attestation cannot be read.
        InvalidPack: The pack does not verify, or is of an incomplete run.
        UntrustedPack: A required attestation is missing or does not hold.
    """
    detached = read_bytes(attestation, max_bytes=MAX_ATTESTATION_BYTES) if attestation is not None else None
    admission = Admission(trust, detached)
    pack = open_run(path, admit=admission)
    refuse_incomplete(pack.name, pack.manifest)
    return TrustedPack(path, pack, admission.check(pack), trust)


@dataclass(frozen=True)
class SignerKeys:
    """The keys with which baseline and candidate must have been signed; None where they need not be."""

    baseline: PublicKey | None = None
    candidate: PublicKey | None = None

    @classmethod
    def read(cls, baseline: Path | None, candidate: Path | None) -> SignerKeys:
        """Read the public keys from their files.

        Raises:
            InvalidInput: A file cannot be read, or is no ECDSA P-256 public key.
        """
        return cls(*(read_public_key(file) if file is not None else None for file in (baseline, candidate)))


UNSIGNED = SignerKeys()
"""No pack need be signed."""


def open_signed(path: Path, key: PublicKey | None) -> Pack:
    """Open and verify a pack, or an archive of one; with a key, only if it was signed with that."""
    return open_run(path) if key is None else open_trusted(path, Trust(keys=(key,))).pack


def _check_result(pack: Pack, verified: Verified) -> None:
    if differs := check_result(verified.statement.predicate, pack.config, outcomes_of(pack)):
        raise _contradicts(
            verified, f"its {differs} does not follow from the verdicts and configuration of the run"
        )


def _check_decision(pack: Pack, verified: Verified) -> None:
    """Check that the decision in the pack, if there is one, is the one that was attested."""
    gate = verified.statement.predicate.get(GATE_FIELD)
    attested = gate.get("decisionSha256") if isinstance(gate, dict) else None
    decision = DECISION_IN_PACK.as_posix()
    if listed_digests(pack).get(decision, attested) != attested:
        raise _contradicts(verified, f"it is of another decision than {decision}")


def _contradicts(verified: Verified, what: str) -> UntrustedPack:
    return UntrustedPack(
        f"{verified.path}: contradicts the pack: {what}",
        remedy="Do not rely on it: the signer stated something else than the pack holds.",
        file=verified.path,
    )
