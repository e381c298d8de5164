"""ECDSA P-256 keys, whose private part is never printed, pickled or quoted; the shared secret of an HMAC.

P-256 and not Ed25519, because every verifier of DSSE in a Sigstore bundle takes it; some take Ed25519 keys to
mean Ed25519ph. `cryptography` is imported where it is used: most commands sign nothing.
"""

from __future__ import annotations

import base64
import hashlib
import re
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

from agent_eval.errors import InvalidInput, UsageError
from agent_eval.storage.files import read_bytes

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePrivateKey, EllipticCurvePublicKey

SECRET_VARIABLE = "AGENT_EVAL_ATTESTATION_SECRET"  # noqa: S105  (a name, not a secret)
SIGNING_KEY_VARIABLE = "AGENT_EVAL_SIGNING_KEY"
SAFE_BYTES = 32
"""Length from which a secret cannot be guessed from the HMACs it made, if it is random."""

MAX_KEY_BYTES = 16 << 10
_REMEDY = "Make a pair with `agent-eval keygen`, or give an ECDSA P-256 key in PEM."


class PublicKey:
    """Key that verifies signatures, or several: while one replaces another, a file has both.

    Read it from a file that the user trusts, never from a bundle. Its id is that of the first.
    """

    def __init__(self, *keys: EllipticCurvePublicKey) -> None:
        from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

        self._keys = keys
        info = PublicFormat.SubjectPublicKeyInfo
        self.pem: bytes = b"".join(key.public_bytes(Encoding.PEM, info) for key in keys)
        self._sha256 = hashlib.sha256(keys[0].public_bytes(Encoding.DER, info))

    @property
    def key_id(self) -> str:
        """Lower-case hexadecimal sha256 of the key's DER encoding, as `keyid` of a signature has it."""
        return self._sha256.hexdigest()

    @property
    def hint(self) -> str:
        """The same digest in base64, as the `hint` of a Sigstore bundle has it."""
        return base64.b64encode(self._sha256.digest()).decode()

    def signer(self, signature: bytes, data: bytes) -> PublicKey | None:
        """Return the one whose signature (DER) over exactly these bytes it is; None if it is of none."""
        from cryptography.exceptions import InvalidSignature
        from cryptography.hazmat.primitives.asymmetric.ec import ECDSA
        from cryptography.hazmat.primitives.hashes import SHA256

        for key in self._keys:
            with suppress(InvalidSignature):
                key.verify(signature, data, ECDSA(SHA256()))
                return PublicKey(key)
        return None

    def __repr__(self) -> str:
        return f"PublicKey({self.key_id[:16]})"


class SigningKey:
    """Private key. It cannot be pickled, so it reaches no worker process, and its repr shows its id only."""

    def __init__(self, key: EllipticCurvePrivateKey) -> None:
        self._key = key
        self.public = PublicKey(key.public_key())

    @classmethod
    def generate(cls) -> SigningKey:
        """Make a new key."""
        from cryptography.hazmat.primitives.asymmetric.ec import SECP256R1, generate_private_key

        return cls(generate_private_key(SECP256R1()))

    def sign(self, data: bytes) -> bytes:
        """Sign bytes: ECDSA with SHA-256, DER encoded."""
        from cryptography.hazmat.primitives.asymmetric.ec import ECDSA
        from cryptography.hazmat.primitives.hashes import SHA256

        return self._key.sign(data, ECDSA(SHA256()))

    def pem(self) -> bytes:
        """Encode the private key, unencrypted, as PKCS #8 in PEM. Only `keygen` writes it."""
        from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

        return self._key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())

    def __repr__(self) -> str:
        return f"SigningKey({self.public.key_id[:16]})"

    def __reduce__(self) -> NoReturn:
        raise TypeError("a signing key is never passed to another process")


def read_signing_key(path: Path) -> SigningKey:
    """Read a private key from a PEM file (PKCS #8 or SEC 1, unencrypted).

    Raises:
        InvalidInput: The file cannot be read, or is no such key. The message never quotes its content.
    """
    return parse_signing_key(read_bytes(path, max_bytes=MAX_KEY_BYTES), source=str(path))


def parse_signing_key(pem: bytes, *, source: str) -> SigningKey:
    """Parse a private key in PEM.

    Raises:
        InvalidInput: As `read_signing_key`.
    """
    from cryptography.exceptions import UnsupportedAlgorithm
    from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePrivateKey
    from cryptography.hazmat.primitives.serialization import load_pem_private_key

    try:
        key = load_pem_private_key(pem, password=None)
    except TypeError:
        # Neither cause nor context: a traceback must not show what was parsed.
        raise _no_key(
            source, "is encrypted", "Give it without a passphrase, from a protected secret."
        ) from None
    except (ValueError, UnsupportedAlgorithm):
        raise _no_key(source, "is not a private key in PEM") from None
    if not isinstance(key, EllipticCurvePrivateKey) or key.curve.name != "secp256r1":
        raise _no_key(source, "is not an ECDSA P-256 key")
    return SigningKey(key)


def read_public_key(path: Path) -> PublicKey:
    """Read a public key from a PEM file, or several.

    Raises:
        InvalidInput: The file cannot be read, or has something else than ECDSA P-256 public keys.
    """
    return parse_public_key(read_bytes(path, max_bytes=MAX_KEY_BYTES), source=str(path))


def parse_public_key(pem: bytes, *, source: str) -> PublicKey:
    """Parse a public key in PEM, or several one after the other; `source` names its place in errors.

    Raises:
        InvalidInput: As `read_public_key`.
    """
    from cryptography.exceptions import UnsupportedAlgorithm
    from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePublicKey
    from cryptography.hazmat.primitives.serialization import load_pem_public_key

    if b"PRIVATE KEY" in pem:
        raise _no_key(source, "is a private key", "Give the public one, which `keygen` writes as NAME.pub.")
    keys = []
    # What comes before the first is a comment.
    for block in re.split(rb"(?=-----BEGIN )", pem)[1:] or [pem]:
        try:
            key = load_pem_public_key(block)
        except (ValueError, UnsupportedAlgorithm):
            raise _no_key(source, "is not a public key in PEM") from None
        if not isinstance(key, EllipticCurvePublicKey) or key.curve.name != "secp256r1":
            raise _no_key(source, "is not an ECDSA P-256 key")
        keys.append(key)
    return PublicKey(*keys)


def _no_key(source: str, what: str, remedy: str = _REMEDY) -> InvalidInput:
    return InvalidInput(f"{source}: {what}", remedy=remedy, file=source)


def shared_secret(text: str | None, environ: Mapping[str, str]) -> bytes | None:
    """Take the shared secret from a flag or the environment; None where there is none.

    Raises:
        UsageError: The secret is empty: an empty one would check nothing.
    """
    stated = text if text is not None else environ.get(SECRET_VARIABLE)
    if stated is None or (text is None and not stated.strip()):
        return None
    if not stated.strip():
        raise UsageError(
            "the shared secret is empty",
            remedy="Give one of 32 random bytes, such as `openssl rand -hex 32` makes.",
        )
    return stated.encode()


def key_from_environment(environ: Mapping[str, str]) -> bytes | None:
    """Return the private key in PEM from the environment; None where there is none.

    Raises:
        InvalidInput: The variable holds something that cannot be a key.
    """
    text = environ.get(SIGNING_KEY_VARIABLE, "").strip()
    if not text:
        return None
    if "PRIVATE KEY" not in text:
        raise InvalidInput(
            f"{SIGNING_KEY_VARIABLE} holds no private key in PEM",
            remedy="Set it to the whole content of the file that `agent-eval keygen` wrote.",
            field=SIGNING_KEY_VARIABLE,
        )
    return text.encode() + b"\n"
