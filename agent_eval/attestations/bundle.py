"""Sigstore bundles, version 0.3: an envelope and a hint at the key, as cosign and sigstore-js read them."""

from __future__ import annotations

from agent_eval.attestations.dsse import MAX_ATTESTATION_BYTES, Envelope, as_object, malformed
from agent_eval.attestations.errors import MalformedAttestation, UntrustedPack
from agent_eval.attestations.keys import SigningKey
from agent_eval.errors import InvalidInput
from agent_eval.storage.json import Limits, dumps, parse

MEDIA_TYPE = "application/vnd.dev.sigstore.bundle.v0.3+json"
_LIMITS = Limits(max_bytes=MAX_ATTESTATION_BYTES, max_depth=32)


def sign_bundle(payload: bytes, key: SigningKey) -> bytes:
    """Sign a payload, and encode it as a bundle.

    Example:
        >>> key = SigningKey.generate()
        >>> envelope = read_bundle(sign_bundle(b"{}", key), source="result.sigstore.json")
        >>> envelope.payload, envelope.verified_by([key.public], source="result.sigstore.json")
        (b'{}', PublicKey(...))
    """
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
    bundle = as_object(_parsed(data, source), "the bundle", source)
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
    """Read an envelope that is a file of its own; as `read_bundle`.

    Raises:
        MalformedAttestation: It is no JSON, or no envelope.
    """
    return Envelope.parse(_parsed(data, source), source=source)


def _parsed(data: bytes, source: str) -> object:
    try:
        return parse(data, source=source, limits=_LIMITS)
    except InvalidInput as error:
        raise MalformedAttestation(error.message, **error.details) from error
