"""The error of an attestation that does not hold."""

from __future__ import annotations

from agent_eval.errors import InvalidPack


class UntrustedPack(InvalidPack):
    """A pack lacks a required attestation, or has one that does not hold: wrong key, content or subject."""

    code = "untrusted_pack"


class MalformedAttestation(UntrustedPack):
    """An attestation is not in the form that its format requires."""

    code = "malformed_attestation"
