"""Who vouches for a pack: `attest`, `verify`, and packs that are opened only if one holds.

An attestation is verified against the bytes of manifest.json that the pack is then opened with, and the pack
that was opened is handed on. Nothing is verified in one place and read again in another.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from agent_eval.attestations.dsse import (
    MAX_ATTESTATION_BYTES,
    MEDIA_TYPE,
    Envelope,
    UntrustedPack,
    sign_bundle,
)
from agent_eval.attestations.files import GATE, KINDS, RESULT, Integrity, Trust, Verified, admit
from agent_eval.attestations.keys import PublicKey, SigningKey, read_public_key
from agent_eval.attestations.statement import (
    GATE_FIELD,
    Statement,
    check_result,
    gate_predicate,
    result_predicate,
    subjects_of,
)
from agent_eval.contracts import GateStatus
from agent_eval.errors import InvalidInput
from agent_eval.evidence.derived import remove_unlisted, write_output
from agent_eval.evidence.reader import Pack, Watch, refuse_incomplete
from agent_eval.evidence.sources import PackSource, read_limited
from agent_eval.operations.environment import redactor_for
from agent_eval.operations.packs import (
    DECISION_IN_PACK,
    DEFAULT_PATH_IN_PACK,
    decision_from,
    listed_digests,
    open_run,
    outcomes_of,
    path_in_pack,
)
from agent_eval.storage.files import read_bytes, sha256_bytes
from agent_eval.storage.json import DEFAULT_LIMITS, dumps

COMPARISON, DECISION = DEFAULT_PATH_IN_PACK.as_posix(), DECISION_IN_PACK.as_posix()
"""Paths of the comparison, and of the decision on it, within the candidate's pack."""


@dataclass(frozen=True)
class Signer:
    """The credentials that statements are made with; without any, predicates alone are written."""

    key: SigningKey | None = None
    secret: bytes | None = None

    @property
    def integrity(self) -> Integrity:
        """What vouches for the statements."""
        if self.key is not None:
            return "signature"
        return "none" if self.secret is None else "shared secret"


def attest(
    path: Path,
    signer: Signer,
    *,
    decision: Path | None = None,
    environ: Mapping[str, str],
) -> dict[str, Any]:
    """Verify a pack, and write what its run and its gate found below `attestations/`.

    Returns what the command prints, as JSON values.

    Args:
        signer: Key, shared secret, or neither for a signer that makes the statement itself.
        decision: The gate's decision on the pack; None for `compare/gate_decision.json` in it, if any.

    Raises:
        InvalidInput: The decision is not on this pack, or a statement would hold a secret of `environ`.
        InvalidPack: The pack does not verify, or its run is not complete.
        UsageError: The pack is an archive.
    """
    path_in_pack(path, Path(RESULT.bundle), remedy="Attest the pack's directory, then archive it.")
    remove_unlisted(path, (name for kind in KINDS for name in (kind.predicate, kind.mac, kind.bundle)))
    pack = open_run(path)
    return attest_opened(pack, path, signer, gate=_passed_gate(pack, decision), environ=environ)


def attest_opened(
    pack: Pack,
    path: Path,
    signer: Signer,
    *,
    gate: dict[str, Any] | None,
    url: str | None = None,
    environ: Mapping[str, str],
) -> dict[str, Any]:
    """Write the attestations of a pack that is open, and of the decision that was made on it in memory.

    `gate` is the predicate from `gate_predicate`; None unless the gate passed.

    Raises:
        InvalidInput: A statement would hold a secret.
        InvalidPack: The run is not complete.
    """
    refuse_incomplete(pack.name, pack.manifest)
    result = result_predicate(pack.config, outcomes_of(pack), url=url)
    subjects = subjects_of(pack.manifest_sha256, pack.config)
    statements = {RESULT: Statement(subjects, RESULT.predicate_type, result)}
    if gate is not None:
        statements[GATE] = Statement(subjects, GATE.predicate_type, gate)
    redactor = redactor_for(environ)
    for statement in statements.values():
        if redactor.finds(statement.encode()):
            raise InvalidInput(
                f"{path}: an attestation of it would hold the value of a secret environment variable",
                remedy="Make the run again with that variable set, so that its evidence is redacted.",
                file=str(path),
            )
    paths: list[str] = []
    for kind, statement in statements.items():
        payload = statement.encode()
        files = {kind.predicate: dumps(dict(statement.predicate), indent=True)}
        if signer.secret is not None:
            envelope = Envelope.authenticated(payload, signer.secret)
            files[kind.mac] = dumps(envelope.to_json(), indent=True)
        if signer.key is not None:
            files[kind.bundle] = sign_bundle(payload, signer.key)
        for name, data in files.items():
            write_output(path / name, data)
        paths += files
    return {
        "pack": str(path),
        "manifest_sha256": pack.manifest_sha256,
        "result": result["result"],
        "gate_passed": GATE in statements,
        "integrity": signer.integrity,
        "key_id": signer.key.public.key_id if signer.key is not None else None,
        "files": paths,
    }


def _passed_gate(pack: Pack, decision: Path | None) -> dict[str, Any] | None:
    """Build the predicate of the gate; None where there is no decision, or it is not a pass."""
    if decision is not None:
        data, source = read_bytes(decision, max_bytes=DEFAULT_LIMITS.max_bytes), str(decision)
    else:
        if DECISION not in listed_digests(pack):
            return None
        data, source = pack.read(DECISION), f"{pack.name}: {DECISION}"
    decided = decision_from(data, source)
    if decided.candidate_manifest_sha256 != pack.manifest_sha256:
        raise InvalidInput(
            f"{source} was not decided on this pack",
            remedy="Run `agent-eval compare` and `gate` on this pack again.",
            file=source,
        )
    if decision is None and decided.gate_status is not GateStatus.PASSED:
        return None
    # The comparison in the pack, if there is one, must be the one that was decided on.
    if listed_digests(pack).get(COMPARISON, decided.comparison_sha256) != decided.comparison_sha256:
        raise InvalidInput(
            f"{source} was decided on another comparison than {COMPARISON}",
            remedy="Run `agent-eval gate` again.",
            file=source,
        )
    return gate_predicate(pack.config, decided, sha256_bytes(data))


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
            predicate, contradiction = each.statement.predicate, None
            if each.kind is RESULT:
                if differs := check_result(predicate, pack.config, outcomes_of(pack)):
                    contradiction = (
                        f"its {differs} does not follow from the verdicts and configuration of the run"
                    )
            else:
                # The decision in the pack, if there is one, must be the one that was attested.
                gate = predicate.get(GATE_FIELD)
                attested = gate.get("decisionSha256") if isinstance(gate, dict) else None
                if listed_digests(pack).get(DECISION, attested) != attested:
                    contradiction = f"it is of another decision than {DECISION}"
            if contradiction is not None:
                raise UntrustedPack(
                    f"{each.path}: contradicts the pack: {contradiction}",
                    remedy="Do not rely on it: the signer stated something else than the pack holds.",
                    file=each.path,
                )
        return verified


@dataclass(frozen=True)
class TrustedPack:
    """A pack that was admitted, and the statements that vouch for it. Returned by `open_trusted`."""

    pack: Pack
    verified: tuple[Verified, ...]

    @property
    def key_id(self) -> str:
        """Id of the key that signed the result; empty without a verified signature."""
        return next((each.key_id for each in self.verified if each.key_id), "")


def open_trusted(
    path: Path, trust: Trust, *, attestation: Path | None = None, watch: Watch | None = None
) -> TrustedPack:
    """Open and verify a pack, or an archive of one, whose attestations hold.

    `attestation` is one of the result that is not in the pack; None for that of the pack. `watch` gets every
    case.

    Raises:
        InvalidInput: There is no pack, or the attestation cannot be read.
        InvalidPack: The pack does not verify, or is of an incomplete run.
        UntrustedPack: A required attestation is missing or does not hold.
    """
    detached = read_bytes(attestation, max_bytes=MAX_ATTESTATION_BYTES) if attestation is not None else None
    admission = Admission(trust, detached)
    pack = open_run(path, admit=admission, watch=watch)
    refuse_incomplete(pack.name, pack.manifest)
    return TrustedPack(pack, admission.check(pack))


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
