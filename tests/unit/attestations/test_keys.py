"""Keys: what is read, what is refused, and what a message never quotes; the shared secret."""

from __future__ import annotations

import base64
import hashlib
from pathlib import Path

import pytest
from cryptography.hazmat.primitives import serialization as form
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from cryptography.hazmat.primitives.asymmetric.types import PrivateKeyTypes

from agent_eval.attestations import keys
from agent_eval.attestations.keys import SigningKey, parse_public_key, parse_signing_key, shared_secret
from agent_eval.errors import InvalidInput, UsageError

PKCS8, OPENSSL = form.PrivateFormat.PKCS8, form.PrivateFormat.TraditionalOpenSSL


def private_pem(key: PrivateKeyTypes, kind: form.PrivateFormat = PKCS8, password: bytes = b"") -> bytes:
    encryption = form.BestAvailableEncryption(password) if password else form.NoEncryption()
    return key.private_bytes(form.Encoding.PEM, kind, encryption)


def public_bytes(key: PrivateKeyTypes, encoding: form.Encoding = form.Encoding.PEM) -> bytes:
    return key.public_key().public_bytes(encoding, form.PublicFormat.SubjectPublicKeyInfo)


P256 = ec.generate_private_key(ec.SECP256R1())


@pytest.mark.parametrize("kind", [PKCS8, OPENSSL])
def test_keys_of_openssl_are_read_in_both_forms(tmp_path: Path, kind: form.PrivateFormat) -> None:
    (tmp_path / "key.pem").write_bytes(private_pem(P256, kind))
    key = keys.read_signing_key(tmp_path / "key.pem")
    (tmp_path / "key.pub").write_bytes(key.public.pem)
    assert keys.read_public_key(tmp_path / "key.pub").signer(key.sign(b"x"), b"x")


def test_the_key_id_is_the_digest_of_the_der_encoding() -> None:
    digest = hashlib.sha256(public_bytes(P256, form.Encoding.DER))
    public = parse_signing_key(private_pem(P256), source="k").public
    assert (public.key_id, base64.b64decode(public.hint)) == (digest.hexdigest(), digest.digest())
    assert public.pem == public_bytes(P256)


@pytest.mark.parametrize(
    ("pem", "what"),
    [
        (private_pem(ec.generate_private_key(ec.SECP384R1())), "is not an ECDSA P-256 key"),
        (private_pem(ed25519.Ed25519PrivateKey.generate()), "is not an ECDSA P-256 key"),
        (private_pem(rsa.generate_private_key(65537, 2048)), "is not an ECDSA P-256 key"),
        (private_pem(P256, password=b"x"), "is encrypted"),
        (b"", "is not a private key in PEM"),
        (b"-----BEGIN PRIVATE KEY-----\nMIGHAgEAMBM\n-----END PRIVATE KEY-----\n", "is not a private key"),
    ],
)
def test_no_other_private_key_is_accepted_and_none_is_quoted(pem: bytes, what: str) -> None:
    with pytest.raises(InvalidInput, match=what) as caught:
        parse_signing_key(pem, source="AGENT_EVAL_SIGNING_KEY")
    assert caught.value.details["file"] == "AGENT_EVAL_SIGNING_KEY"
    assert caught.value.__cause__ is None
    lines = [line for line in pem.decode().splitlines() if line and not line.startswith("-")]
    assert not any(line in str(caught.value.to_json()) for line in lines)


@pytest.mark.parametrize(
    ("pem", "what"),
    [
        (private_pem(P256), "is a private key"),
        (b"ssh-ed25519 AAAA", "is not a public key in PEM"),
        (public_bytes(ed25519.Ed25519PrivateKey.generate()), "is not an ECDSA P-256 key"),
        (public_bytes(P256) + b"-----BEGIN PUBLIC KEY-----\nMFkw\n", "is not a public key in PEM"),
        (
            public_bytes(P256) + public_bytes(rsa.generate_private_key(65537, 2048)),
            "is not an ECDSA P-256 key",
        ),
        (public_bytes(P256) + private_pem(P256), "is a private key"),
    ],
)
def test_no_other_public_key_is_trusted(pem: bytes, what: str) -> None:
    with pytest.raises(InvalidInput, match=what):
        parse_public_key(pem, source="k")


def test_a_file_with_several_keys_trusts_each_of_them_and_says_which_signed() -> None:
    old, new, other = SigningKey.generate(), SigningKey.generate(), SigningKey.generate()
    pem = b"# until the next release\n" + old.public.pem + b"\n# from now on\n" + new.public.pem
    trusted = parse_public_key(pem, source="k")
    for key in (old, new):
        signer = trusted.signer(key.sign(b"text"), b"text")
        assert signer is not None
        assert signer.key_id == key.public.key_id
    assert trusted.signer(other.sign(b"text"), b"text") is None
    assert parse_public_key(trusted.pem, source="k").pem == trusted.pem


def test_a_flag_counts_before_the_environment() -> None:
    environ = {keys.SECRET_VARIABLE: "from the environment"}
    assert shared_secret("from the flag", environ) == b"from the flag"
    assert shared_secret(None, environ) == b"from the environment"
    assert shared_secret(None, {keys.SECRET_VARIABLE: " "}) is None
    assert shared_secret(None, {}) is None


@pytest.mark.parametrize("text", ["", "  ", "\n"])
def test_an_empty_secret_would_check_nothing(text: str) -> None:
    with pytest.raises(UsageError, match="is empty"):
        shared_secret(text, {})


def test_the_key_of_the_environment_is_a_pem_and_is_not_quoted() -> None:
    assert keys.key_from_environment({}) is None
    assert keys.key_from_environment({keys.SIGNING_KEY_VARIABLE: "\n"}) is None
    pem = "-----BEGIN PRIVATE KEY-----\nabc\n-----END PRIVATE KEY-----"
    assert keys.key_from_environment({keys.SIGNING_KEY_VARIABLE: f"\n{pem}\n"}) == f"{pem}\n".encode()
    with pytest.raises(InvalidInput, match="no private key") as caught:
        keys.key_from_environment({keys.SIGNING_KEY_VARIABLE: "hunter2-hunter2"})
    assert "hunter2" not in str(caught.value.to_json())
