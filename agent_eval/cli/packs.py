"""Evidence packs: verify and convert them, and state and check in signed form who vouches for them."""

from __future__ import annotations

import pathlib
from typing import TYPE_CHECKING, Any, Literal

import click

from agent_eval.cli.options import TableCommand
from agent_eval.cli.output import emit
from agent_eval.errors import ExitCode, InvalidPack

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from agent_eval.operations.packs import PackFacts
    from agent_eval.operations.trust import Attested, Signer
    from agent_eval.operations.verify import Verification


@click.group()
def pack() -> None:
    """Verify evidence packs and convert their layout."""


@click.command(cls=TableCommand, path="verify")
@click.argument("pack", type=click.Path(path_type=pathlib.Path))
def verify(pack: Path, public_key: tuple[str, ...], output_format: str) -> None:
    """Check a pack or an archive of one: exit 0 when it is whole, 1 when it is not, 2 when it cannot be read.

    Says what is sealed, who signed it, what wrote it, and whether its trajectories get the same verdicts when
    they are judged again. With --public-key, a pack that this key did not sign is refused.
    """
    _verify(pack, public_key, output_format)


@pack.command("verify", cls=TableCommand, path="pack verify")
def pack_verify(pack: Path, public_key: tuple[str, ...], output_format: str) -> None:
    """Do as `agent-eval verify PACK` does."""
    _verify(pack, public_key, output_format)


def _verify(path: Path, public_key: tuple[str, ...], output_format: str) -> None:
    from agent_eval.attestations.keys import read_public_key
    from agent_eval.operations.verify import verify as verify_pack

    verified = verify_pack(path, tuple(read_public_key(pathlib.Path(file)) for file in public_key))
    emit(output_format, verified.to_json(), lambda _colour: _verified_text(verified))


def _verified_text(verified: Verification) -> list[str]:
    from agent_eval.text.escape import clean

    pack, signature, replay = verified.facts.pack, verified.signature, verified.replay
    config, summary = pack.config, pack.summary
    tool = verified.to_json()["written_by"]["agent_eval"] or "an unknown version"
    key = f" ({'' if signature.checked else 'claims '}key {signature.key_id})" if signature.key_id else ""
    does = {True: "yes", False: "no", None: ""}[replay.same]
    dirty = " with changes that are not committed" if config.git_dirty else ""
    commit = f"{config.git_commit}{dirty}" if config.git_commit else "not recorded"
    lines = [
        *_facts_text("Verified", verified.facts).split("\n"),
        f"Written by agent-eval {tool}, schema {pack.manifest.schema_version}, at {config.started_at}",
        f"Agent {config.agent_version}, model {config.model}, commit {commit}",
        f"Result: {summary.passed_cases} of {summary.total_cases} cases passed; gate: {verified.gate}",
        f"Signature: {signature.state}{key}: {signature.note}",
        f"Replays: {does + ': ' if does else ''}{replay.note}",
    ]
    return [clean(line, limit=1_000) for line in lines]


def _facts_text(verb: str, pack_facts: PackFacts) -> str:
    from agent_eval.text.escape import clean

    facts = pack_facts.to_json()
    run, dataset = clean(facts["run_id"], limit=200), clean(facts["dataset_id"], limit=200)
    added = f" and {facts['derived_files']} added later" if facts["derived_files"] else ""
    lines = [
        f"{verb} {clean(facts['pack'])}: run {run} of {dataset}",
        f"{facts['cases']} cases in {facts['files']} files{added}, layout {facts['layout']}",
        f"manifest sha256 {facts['manifest_sha256']}",
    ]
    if not facts["complete"]:
        lines.append("The run is not complete: compare and gate refuse it.")
    if paths := pack_facts.left_behind:
        more = f" and {len(paths) - 10} more" if len(paths) > 10 else ""
        listed = ", ".join(map(clean, paths[:10])) + more
        lines.append(f"Not converted, since derived from the old pack: {listed}")
    return "\n".join(lines)


@pack.command(cls=TableCommand, path="pack expand")
def expand(pack: Path, out: Path, output_format: str) -> None:
    """Write a copy of a pack with a folder for each case."""
    _convert(pack, out, "files", output_format)


@pack.command(cls=TableCommand, path="pack compact")
def compact(pack: Path, out: Path, output_format: str) -> None:
    """Write a copy of a pack with its cases in shards."""
    _convert(pack, out, "compact", output_format)


def _convert(pack: Path, out: Path, layout: Literal["files", "compact"], output_format: str) -> None:
    from agent_eval.operations.packs import convert_pack

    converted = convert_pack(pack, out, layout=layout)
    emit(output_format, converted.to_json(), lambda _colour: _facts_text("Wrote", converted))


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
    from agent_eval.operations.trust import make_keys

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

    from agent_eval.operations.trust import attest as attest_pack

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
    from agent_eval.operations.trust import Signer

    shared = shared_secret(secret, secret_file, environ)
    if key_file is not None:
        return Signer(read_signing_key(key_file), shared)
    pem = key_from_environment(environ)
    return Signer(parse_signing_key(pem, source=SIGNING_KEY_VARIABLE) if pem is not None else None, shared)


def _attested_text(attested: Attested) -> list[str]:
    from agent_eval.attestations.keys import SAFE_BYTES

    key = attested.signer.key
    how = _INTEGRITY[attested.signer.integrity].format(key=key.public.key_id if key is not None else "")
    lines = [
        f"Attested {attested.pack}: result {attested.result}, "
        + ("gate passed" if attested.gate_passed else "no passed gate"),
        f"Integrity: {how}",
        f"Subject: manifest.json, sha256 {attested.manifest_sha256}",
        *(f"  {path}" for path in attested.paths),
    ]
    secret = attested.signer.secret
    if secret is not None and len(secret) < SAFE_BYTES:
        lines.append(
            f"Warning: the secret has {len(secret)} bytes; one of fewer than {SAFE_BYTES} may be guessed."
        )
    return lines


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
    from agent_eval.operations.trust import open_trusted

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
        refusal = {
            "verified": False,
            "pack": str(pack),
            "code": error.code,
            "reason": error.message,
            "remedy": error.remedy,
        }
        emit(output_format, refusal, lambda _colour: prose)
        return int(ExitCode.NO)
    facts = trusted.to_json()
    commit = f", commit {facts['git_commit']}" if facts["git_commit"] else ""
    lines = [
        f"Verified {facts['pack']}: run {facts['run_id']} of {facts['dataset_id']}{commit}",
        f"Integrity: {_INTEGRITY[facts['integrity']].format(key=facts['key_id'])}",
        f"Subject: manifest.json, sha256 {facts['manifest_sha256']}",
        *(f"  {each['kind']}: {each['file']}" for each in facts["attestations"]),
    ]
    emit(output_format, facts, lambda _colour: lines)
    return int(ExitCode.OK)


def is_unreadable(error: InvalidPack) -> bool:
    """Tell whether there is no pack to judge: nothing at the path, or no manifest in it."""
    from agent_eval.attestations.dsse import UntrustedPack

    return not isinstance(error, UntrustedPack) and error.details.get("file") is None
