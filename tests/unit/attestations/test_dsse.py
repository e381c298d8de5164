"""Envelopes: the bytes that are signed, and their strict reading."""

from __future__ import annotations

import base64
import hashlib
import hmac
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_eval.attestations.dsse import (
    Envelope,
    MalformedAttestation,
    UntrustedPack,
    pae,
    read_bundle,
    read_envelope,
    sign_bundle,
)
from agent_eval.attestations.keys import SigningKey

KEY = SigningKey.generate()


def test_the_example_of_the_protocol_is_encoded_as_it_says_and_lengths_count_bytes() -> None:
    encoded = pae("http://example.com/HelloWorld", b"hello world")
    assert encoded == b"DSSEv1 29 http://example.com/HelloWorld 11 hello world"
    assert pae("é", "ü".encode()) == b"DSSEv1 2 \xc3\xa9 2 \xc3\xbc"


@given(st.text(), st.binary(), st.text(), st.binary())
def test_no_two_contents_encode_alike(type_1: str, data_1: bytes, type_2: str, data_2: bytes) -> None:
    same = pae(type_1, data_1) == pae(type_2, data_2)
    assert same == ((type_1, data_1) == (type_2, data_2))


def test_a_mac_is_hmac_sha256_over_the_same_bytes_and_names_no_key() -> None:
    envelope = Envelope.authenticated(b"{}", b"secret")
    data = pae("application/vnd.in-toto+json", b"{}")
    assert envelope.signature == hmac.new(b"secret", data, hashlib.sha256).digest()
    assert "keyid" not in envelope.to_json()["signatures"][0]
    envelope.check_secret(b"secret", source="x")
    with pytest.raises(UntrustedPack):
        envelope.check_secret(b"Secret", source="x")


WHOLE = Envelope.signed(b"{}", KEY).to_json()


@pytest.mark.parametrize(
    "value",
    [
        None, [], {}, {**WHOLE, "payload": None}, {**WHOLE, "payload": ""}, {**WHOLE, "payload": "e30"},
        {**WHOLE, "payload": "e31="}, {**WHOLE, "payload": 7}, {**WHOLE, "payloadType": None},
        {**WHOLE, "payloadType": "application/vnd.in-toto+json "}, {**WHOLE, "signatures": None},
        {**WHOLE, "signatures": {}}, {**WHOLE, "signatures": []}, {**WHOLE, "signatures": ["x"]},
        {**WHOLE, "signatures": WHOLE["signatures"] * 2}, {**WHOLE, "signatures": [{"sig": 7}]},
        {**WHOLE, "signatures": [{**WHOLE["signatures"][0], "keyid": 7}]},
    ],
)  # fmt: skip
def test_what_is_no_envelope_is_refused(value: Any) -> None:
    with pytest.raises(MalformedAttestation, match=r"^place: is malformed: "):
        Envelope.parse(value, source="place")


@given(st.binary(max_size=300))
def test_no_bytes_break_the_readers(data: bytes) -> None:
    for read in (read_bundle, read_envelope):
        with pytest.raises(UntrustedPack):
            read(data, source="place")


@given(st.integers(0, 10_000), st.integers(0, 255))
def test_no_changed_byte_of_a_bundle_makes_other_content_verify(position: int, byte: int) -> None:
    data = bytearray(sign_bundle(b'{"a": 1}', KEY))
    data[position % len(data)] = byte
    try:
        envelope = read_bundle(bytes(data), source="place")
        envelope.verified_by([KEY.public], source="place")
    except UntrustedPack:
        return
    assert envelope.payload == b'{"a": 1}'


def test_a_bundle_says_what_sigstore_asks_for() -> None:
    import json

    bundle = json.loads(sign_bundle(b"{}", KEY))
    assert bundle["mediaType"] == "application/vnd.dev.sigstore.bundle.v0.3+json"
    assert bundle["verificationMaterial"] == {"publicKey": {"hint": KEY.public.hint}, "tlogEntries": []}
    (signature,) = bundle["dsseEnvelope"]["signatures"]
    assert signature["keyid"] == KEY.public.key_id
    assert KEY.public.signer(base64.b64decode(signature["sig"]), pae("application/vnd.in-toto+json", b"{}"))
