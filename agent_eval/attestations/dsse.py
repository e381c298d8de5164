"""DSSE envelopes and Sigstore bundles: the bytes that are signed, and the strict reading of what arrives.

Protocol version 1 of the Dead Simple Signing Envelope. The payload is verified as bytes; it is parsed
only afterwards. A bundle (version 0.3) is an envelope and a hint at the key, as cosign and sigstore-js read.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from agent_eval.attestations.keys import PublicKey, SigningKey
from agent_eval.errors import InvalidInput, InvalidPack
from agent_eval.storage.json import Limits, dumps, parse

PAYLOAD_TYPE = "application/vnd.in-toto+json"
MAX_ATTESTATION_BYTES = 64 << 20
"""Maximum size of an attestation: one of a million cases has some 50 MB."""
MEDIA_TYPE = "application/vnd.dev.sigstore.bundle.v0.3+json"
_LIMITS = Limits(max_bytes=MAX_ATTESTATION_BYTES, max_depth=32)
_REMEDY = "Get the attestation again, or attest again with `agent-eval attest`."


class UntrustedPack(InvalidPack):
    """A pack lacks a required attestation, or has one that does not hold: wrong key, content or subject."""

    code = "untrusted_pack"


class MalformedAttestation(UntrustedPack):
    """An attestation is not in the form that its format requires."""

    code = "malformed_attestation"


def pae(payload_type: str, payload: bytes) -> bytes:
    """Encode type and payload unambiguously (pre-authentication encoding): the bytes that are signed.

    Example:
        >>> pae("text/plain", b"hello")
        b'DSSEv1 10 text/plain 5 hello'
    """
    kind = payload_type.encode()
    return b"DSSEv1 %d %s %d %s" % (len(kind), kind, len(payload), payload)


@dataclass(frozen=True, slots=True)
class Envelope:
    """A payload with exactly one signature over it and its type.

    `signature` is DER of an ECDSA signature, or a MAC. `key_id` is not signed, so only a hint.
    """

    payload: bytes
    signature: bytes
    key_id: str = ""

    @classmethod
    def signed(cls, payload: bytes, key: SigningKey) -> Envelope:
        """Sign a payload."""
        return cls(payload, key.sign(pae(PAYLOAD_TYPE, payload)), key.public.key_id)

    @classmethod
    def authenticated(cls, payload: bytes, secret: bytes) -> Envelope:
        """Authenticate a payload by HMAC-SHA256 with a shared secret.

        It names no key: a digest of the secret would help to guess a weak one.
        """
        return cls(payload, hmac.digest(secret, pae(PAYLOAD_TYPE, payload), hashlib.sha256))

    def to_json(self) -> dict[str, Any]:
        """Return the envelope as plain JSON data."""
        signature = {"sig": _encode(self.signature)}
        if self.key_id:
            signature["keyid"] = self.key_id
        return {"payload": _encode(self.payload), "payloadType": PAYLOAD_TYPE, "signatures": [signature]}

    @classmethod
    def parse(cls, value: object, *, source: str) -> Envelope:
        """Read an envelope from parsed JSON; `source` names the file in errors.

        Raises:
            MalformedAttestation: A field is missing or wrong, or there is not exactly one signature.
        """
        envelope = as_object(value, "the envelope", source)
        if envelope.get("payloadType") != PAYLOAD_TYPE:
            raise malformed(source, f"its payloadType is not {PAYLOAD_TYPE}")
        signatures = envelope.get("signatures")
        if not isinstance(signatures, list) or len(signatures) != 1:
            raise malformed(source, "it has not exactly one signature")
        signature = as_object(signatures[0], "the signature", source)
        key_id = signature.get("keyid", "")
        if not isinstance(key_id, str):
            raise malformed(source, "its keyid is no text")
        return cls(
            payload=_decode(envelope.get("payload"), "payload", source),
            signature=_decode(signature.get("sig"), "signature", source),
            key_id=key_id,
        )

    def verified_by(self, keys: Sequence[PublicKey], *, source: str) -> PublicKey:
        """Return the one of the trusted keys that made the signature.

        The envelope's key id is not asked: an attacker can write any.

        Raises:
            UntrustedPack: None of them did.
        """
        data = pae(PAYLOAD_TYPE, self.payload)
        for key in keys:
            if signer := key.signer(self.signature, data):
                return signer
        raise UntrustedPack(
            f"{source}: was not signed by a trusted key, or was changed since",
            remedy="Get the pack from its origin again, or give the public key of its signer.",
            file=source,
        )

    def check_secret(self, secret: bytes, *, source: str) -> None:
        """Check the MAC, in constant time.

        Raises:
            UntrustedPack: It was made with another secret, or over other bytes.
        """
        expected = hmac.digest(secret, pae(PAYLOAD_TYPE, self.payload), hashlib.sha256)
        if not hmac.compare_digest(expected, self.signature):
            raise UntrustedPack(
                f"{source}: was not made with this secret, or was changed since",
                remedy="Get the pack from its origin again, or give the secret that it was attested with.",
                file=source,
            )


def as_object(value: object, what: str, source: str) -> dict[str, Any]:
    """Return a JSON object; raise MalformedAttestation for anything else."""
    if not isinstance(value, dict):
        raise malformed(source, f"{what} is not an object")
    return value


def malformed(source: str, what: str) -> MalformedAttestation:
    """Build the error for an attestation that its format does not allow; `what` is a clause."""
    return MalformedAttestation(f"{source}: is malformed: {what}", remedy=_REMEDY, file=source)


def _encode(data: bytes) -> str:
    return base64.b64encode(data).decode()


def _decode(text: object, what: str, source: str) -> bytes:
    if not isinstance(text, str) or not text:
        raise malformed(source, f"its {what} is missing")
    try:
        data = base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        raise malformed(source, f"its {what} is not base64") from None
    if _encode(data) != text:  # unused bits: two texts of the same bytes
        raise malformed(source, f"its {what} is not base64 in its one form")
    return data


def sign_bundle(payload: bytes, key: SigningKey) -> bytes:
    """Sign a payload, and encode it as a bundle."""
    bundle = {
        "mediaType": MEDIA_TYPE,
        "verificationMaterial": {"publicKey": {"hint": key.public.hint}, "tlogEntries": []},
        "dsseEnvelope": Envelope.signed(payload, key).to_json(),
    }
    return dumps(bundle, indent=True)


def read_bundle(data: bytes, *, source: str) -> Envelope:
    """Read the envelope of a bundle; `source` names the file in errors. What it holds is not verified yet.

    Raises:
        MalformedAttestation: It is no JSON, or no bundle of version 0.3 with an envelope.
        UntrustedPack: It was signed with a certificate, which only a trust root can vouch for.
    """
    bundle = as_object(parsed(data, source), "the bundle", source)
    if bundle.get("mediaType") != MEDIA_TYPE:
        raise malformed(source, f"its mediaType is not {MEDIA_TYPE}")
    material = as_object(bundle.get("verificationMaterial"), "its verificationMaterial", source)
    if "certificate" in material or "x509CertificateChain" in material:
        raise UntrustedPack(
            f"{source}: was signed with a certificate, not with a key, and needs Sigstore's trust root",
            remedy="Check it with `gh attestation verify` or `cosign verify-blob-attestation`.",
            file=source,
        )
    as_object(material.get("publicKey"), "its publicKey", source)
    return Envelope.parse(bundle.get("dsseEnvelope"), source=source)


def read_envelope(data: bytes, *, source: str) -> Envelope:
    """Read an envelope that is a file of its own; as `read_bundle`."""
    return Envelope.parse(parsed(data, source), source=source)


def parsed(data: bytes, source: str) -> object:
    """Parse strict JSON, to a limited size and depth; raise MalformedAttestation where it is none."""
    try:
        return parse(data, source=source, limits=_LIMITS)
    except InvalidInput as error:
        raise MalformedAttestation(error.message, **error.details) from error
