"""Where attestations are in a pack, and how they are read and verified before the pack itself is."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

from agent_eval.attestations.dsse import UntrustedPack, read_bundle, read_envelope
from agent_eval.attestations.keys import PublicKey
from agent_eval.attestations.statement import TEST_RESULT, VERIFICATION_RESULT, Expected, Statement


class Kind(NamedTuple):
    """A kind of attestation, and its files in a pack."""

    name: str
    predicate_type: str

    @property
    def bundle(self) -> str:
        """Path of the signed statement."""
        return f"attestations/{self.name}.sigstore.json"

    @property
    def mac(self) -> str:
        """Path of the statement with an HMAC by a shared secret."""
        return f"attestations/{self.name}.hmac.json"

    @property
    def predicate(self) -> str:
        """Path of the bare predicate, for signers that make the statement themselves."""
        return f"attestations/{self.name}.predicate.json"


RESULT = Kind("test-result", TEST_RESULT)
GATE = Kind("gate", VERIFICATION_RESULT)
KINDS = (RESULT, GATE)

Integrity = Literal["signature", "shared secret", "none"]

_ANYTHING = Expected()

ReadFile = Callable[[str], bytes | None]
"""Reads a file of a pack by its path; None where it does not exist."""


@dataclass(frozen=True)
class Trust:
    """What a verifier trusts and expects. Each credential that is given must verify.

    Attributes:
        keys: Public keys, one of which must have signed.
        secret: Shared secret with which the statement must have been authenticated; None for none.
        require_signature: Whether a shared secret is not enough.
        allow_unsigned: Whether a pack is accepted without any check of its origin.
        gate: Whether there must also be an attestation that the gate passed.
    """

    keys: tuple[PublicKey, ...] = ()
    secret: bytes | None = field(default=None, repr=False)
    require_signature: bool = False
    allow_unsigned: bool = False
    expected: Expected = _ANYTHING
    gate: bool = False

    @property
    def integrity(self) -> Integrity:
        """What vouches for a pack that satisfies this."""
        if self.keys or self.require_signature:
            return "signature"
        return "none" if self.secret is None else "shared secret"


class Verified(NamedTuple):
    """A statement whose origin was verified, by which file and which key."""

    kind: Kind
    statement: Statement
    path: str
    key_id: str


def admit(read: ReadFile, manifest_sha256: str, trust: Trust, *, pack: str) -> tuple[Verified, ...]:
    """Verify the attestations of a pack, before anything else in it is parsed.

    The order: signature over the bytes, then strict parsing, then type of the predicate, subject, and what
    is expected of the run. Nothing is believed that a bundle says of its key.

    `read` reads each attestation once. `manifest_sha256` is that of the bytes of `manifest.json` that are
    used from now on. Returns the verified statements; none where `trust` allows an unsigned pack and gives no
    credential.

    Raises:
        UntrustedPack: A required attestation is missing, or does not hold.
    """
    if trust.require_signature and not trust.keys:
        raise UntrustedPack(
            f"{pack}: a signature is required, and no public key was given to verify it with",
            remedy="Give the signer's key with --public-key; a shared secret is not a signature.",
            pack=pack,
        )
    if not trust.keys and trust.secret is None:
        if trust.allow_unsigned:
            return ()
        raise unsigned(read, pack)
    verified: list[Verified] = []
    for kind in KINDS if trust.gate else (RESULT,):
        if trust.keys:
            source, data = _required(read, kind.bundle, pack, "signature")
            envelope = read_bundle(data, source=source)
            key = envelope.verified_by(trust.keys, source=source)
            statement = Statement.parse(envelope.payload, source=source)
            verified.append(Verified(kind, statement, source, key.key_id))
        if trust.secret is not None:
            source, data = _required(read, kind.mac, pack, "HMAC")
            envelope = read_envelope(data, source=source)
            envelope.check_secret(trust.secret, source=source)
            verified.append(Verified(kind, Statement.parse(envelope.payload, source=source), source, ""))
    for kind, statement, source, _ in verified:
        if statement.predicate_type != kind.predicate_type:
            raise UntrustedPack(
                f"{source}: is a statement of another type: {statement.predicate_type[:120]}",
                remedy="Get the pack from its origin again.",
                file=source,
            )
        if not any(subject["digest"].get("sha256") == manifest_sha256 for subject in statement.subjects):
            raise UntrustedPack(
                f"{source}: is the attestation of another run: this manifest.json is not its subject",
                remedy="Get the pack from its origin again; an attestation cannot be moved to another pack.",
                file=source,
            )
        trust.expected.check(statement.predicate, source=source)
    return tuple(verified)


def unsigned(read: ReadFile, pack: str) -> UntrustedPack:
    """Build the error for a pack whose origin nothing vouches for."""
    if read(RESULT.bundle) is not None:
        what, remedy = "is signed, but no key was given to verify it with", "Give it with --public-key."
    elif read(RESULT.mac) is not None:
        what = "has an HMAC, but no shared secret was given to check it with"
        remedy = "Give it in AGENT_EVAL_ATTESTATION_SECRET."
    else:
        what, remedy = "is unsigned", "Sign it with `agent-eval attest --key`."
    return UntrustedPack(
        f"{pack}: {what}",
        remedy=f"{remedy} To check only that the pack is whole, add --allow-unsigned.",
        pack=pack,
    )


def _required(read: ReadFile, path: str, pack: str, what: str) -> tuple[str, bytes]:
    data = read(path)
    if data is None:
        raise UntrustedPack(
            f"{pack}: has no {what}: {path} is missing",
            remedy="Get the pack from its origin again, or attest it with `agent-eval attest`.",
            pack=pack,
            file=path,
        )
    return f"{pack}: {path}", data
