"""`agent-eval keygen`, `attest` and `verify-attestation`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from agent_eval.cli.options import TableCommand
from agent_eval.cli.output import emit
from agent_eval.errors import AgentEvalError, ExitCode, InvalidPack

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from agent_eval.operations.attest import Attested, Signer

_INTEGRITY = {
    "signature": "signed by key {key}",
    "shared secret": "by shared secret (HMAC), which every holder of it can make: not a signature",
    "none": "unsigned",
}


@click.command(cls=TableCommand, path="keygen")
def keygen(out: Path, output_format: str) -> None:
    """Make an ECDSA P-256 key pair to sign evidence with.

    Keep the private key in the CI system's secrets (as AGENT_EVAL_SIGNING_KEY) and publish the public one.
    """
    from agent_eval.operations.attest import make_keys

    pair = make_keys(out)
    payload = {"private_key": str(pair.private), "public_key": str(pair.public), "key_id": pair.key_id}
    emit(
        output_format,
        payload,
        lambda _colour: [
            f"Private key: {pair.private} (mode 0600; keep it secret)",
            f"Public key: {pair.public}",
            f"Key id: {pair.key_id}",
        ],
    )


@click.command(cls=TableCommand, path="attest")
def attest(
    pack: Path,
    key: Path | None,
    secret: str | None,
    secret_file: Path | None,
    decision: Path | None,
    url: str | None,
    output_format: str,
) -> None:
    """State in signed form how a run ended, and that its gate passed, if it did.

    The pack is verified first. Statements are written below attestations/ in it: in-toto in a Sigstore bundle
    with a key, in an envelope with an HMAC with a shared secret, and the bare predicates for other signers.
    """
    import os

    from agent_eval.operations.attest import attest as attest_pack

    signer = _signer(key, secret, secret_file, os.environ)
    attested = attest_pack(pack, signer, decision=decision, url=url, environ=os.environ)
    emit(output_format, attested.to_json(), lambda _colour: _attested_text(attested))


def _signer(
    key_file: Path | None, secret: str | None, secret_file: Path | None, environ: Mapping[str, str]
) -> Signer:
    from agent_eval.attestations.keys import (
        SIGNING_KEY_VARIABLE,
        key_from_environment,
        parse_signing_key,
        read_signing_key,
        shared_secret,
    )
    from agent_eval.operations.attest import Signer

    shared = shared_secret(secret, secret_file, environ)
    if key_file is not None:
        return Signer(read_signing_key(key_file), shared)
    pem = key_from_environment(environ)
    return Signer(parse_signing_key(pem, source=SIGNING_KEY_VARIABLE) if pem is not None else None, shared)


def _attested_text(attested: Attested) -> list[str]:
    key = attested.signer.key
    how = _INTEGRITY[attested.signer.integrity].format(key=key.public.key_id if key is not None else "")
    lines = [
        f"Attested {attested.pack}: result {attested.result}, "
        + ("gate passed" if attested.gate_passed else "no passed gate"),
        f"Integrity: {how}",
        f"Subject: manifest.json, sha256 {attested.manifest_sha256}",
        *(f"  {path}" for path in attested.paths),
    ]
    return [*lines, *_weak_secret(attested.signer.secret)]


def _weak_secret(secret: bytes | None) -> list[str]:
    from agent_eval.attestations.keys import SAFE_BYTES

    if secret is None or len(secret) >= SAFE_BYTES:
        return []
    return [f"Warning: the secret has {len(secret)} bytes; one of fewer than {SAFE_BYTES} may be guessed."]


@click.command(cls=TableCommand, path="verify-attestation")
def verify_attestation(
    pack: Path,
    public_key: tuple[str, ...],
    secret: str | None,
    secret_file: Path | None,
    attestation: Path | None,
    output_format: str,
    **requirements: Any,
) -> int:
    """Check who vouches for a pack: exit 0 when it holds, 1 when it does not, 2 when it cannot be checked.

    Every credential that is given must verify. Without any, a pack is unsigned, which fails unless
    --allow-unsigned is set. Then the whole pack is verified, and that the statement follows from it.
    """
    import os
    from pathlib import Path

    from agent_eval.attestations.files import Trust
    from agent_eval.attestations.keys import read_public_key, shared_secret
    from agent_eval.attestations.statement import Expected
    from agent_eval.operations.trusted_packs import open_trusted

    trust = Trust(
        keys=tuple(read_public_key(Path(file)) for file in public_key),
        secret=shared_secret(secret, secret_file, os.environ),
        require_signature=requirements["require_signature"],
        allow_unsigned=requirements["allow_unsigned"],
        expected=Expected(
            commit=requirements["expect_commit"],
            dataset_id=requirements["expect_dataset"],
            run_id=requirements["expect_run"],
        ),
        gate=requirements["require_gate"],
    )
    try:
        trusted = open_trusted(pack, trust, attestation=attestation)
    except InvalidPack as error:
        if is_unreadable(error):
            raise
        prose = [f"Not verified: {error.message}.", error.remedy]
        emit(output_format, _refusal(pack, error), lambda _colour: prose)
        return int(ExitCode.NO)
    payload = trusted.to_json()
    emit(output_format, payload, lambda _colour: _verified_text(payload))
    return int(ExitCode.OK)


def is_unreadable(error: InvalidPack) -> bool:
    """Tell whether there is no pack to judge: nothing at the path, or no manifest in it."""
    from agent_eval.attestations.dsse import UntrustedPack

    return not isinstance(error, UntrustedPack) and error.details.get("file") is None


def _refusal(pack: Path, error: AgentEvalError) -> dict[str, Any]:
    return {
        "verified": False,
        "pack": str(pack),
        "code": error.code,
        "reason": error.message,
        "remedy": error.remedy,
    }


def _verified_text(facts: dict[str, Any]) -> list[str]:
    integrity = _INTEGRITY[facts["integrity"]].format(key=facts["key_id"])
    commit = f", commit {facts['git_commit']}" if facts["git_commit"] else ""
    return [
        f"Verified {facts['pack']}: run {facts['run_id']} of {facts['dataset_id']}{commit}",
        f"Integrity: {integrity}",
        f"Subject: manifest.json, sha256 {facts['manifest_sha256']}",
        *(f"  {each['kind']}: {each['file']}" for each in facts["attestations"]),
    ]
