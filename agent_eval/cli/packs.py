"""Evidence packs: verify and convert them, and state and check in signed form who vouches for them."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import click

from agent_eval.cli.options import TableCommand
from agent_eval.cli.output import emit, emit_to
from agent_eval.errors import AgentEvalError, ExitCode, InvalidPack, UsageError

if TYPE_CHECKING:
    from agent_eval.operations.packs import PackFacts
    from agent_eval.operations.verify import Verification


@click.command(cls=TableCommand, path="verify")
@click.argument("pack", required=False, type=click.Path(path_type=Path))
def verify(pack: Path | None, run: Path | None, out: Path | None, output_format: str, **asked: Any) -> int:
    """Check a pack or an archive of one: exit 0 when it is whole, 1 when it is not, 2 when it cannot be read.

    Says what is sealed, who signed it, what wrote it, and whether its trajectories get the same verdicts when
    they are judged again. With --public-key, a pack that this key did not sign is refused. With --secret,
    --attestation or --require, every credential that is given must verify, one must be given, and the
    statement must follow from the pack.
    """
    from agent_eval.attestations.dsse import UntrustedPack
    from agent_eval.attestations.keys import read_public_key
    from agent_eval.operations.verify import verify as verify_pack

    if (pack is None) == (run is None):
        raise click.UsageError("Name the pack, once.")
    path = pack or run or Path()
    facts: dict[str, Any] = {}
    lines: list[str] = []
    if any(asked[name] for name in ("secret", "attestation", "required", "allow_unsigned")):
        try:
            facts, lines = _vouched(path, **asked)
        except InvalidPack as error:
            if not isinstance(error, UntrustedPack) and error.details.get("file") is None:
                raise  # nothing is at the path, or no manifest in it
            refused = {"code": error.code, "reason": error.message, "remedy": error.remedy}
            prose = [f"Not verified: {error.message}.", error.remedy]
            emit_to(out, output_format, {"verified": False, "pack": str(path), **refused}, lambda _: prose)
            return int(ExitCode.NO)
    keys = tuple(read_public_key(Path(file)) for file in asked["public_key"])
    verified = verify_pack(path, keys, attestation=asked["attestation"])
    emit_to(
        out,
        output_format,
        {**facts, **verified.to_json()},
        lambda _colour: [*lines, *_verified_text(verified)],
    )
    return int(ExitCode.OK)


_EXPECTED = {"commit": "commit", "dataset": "dataset_id", "run": "run_id"}


def _vouched(
    path: Path,
    *,
    public_key: tuple[str, ...],
    secret: str | None,
    attestation: Path | None,
    required: tuple[str, ...],
    allow_unsigned: bool,
) -> tuple[dict[str, Any], list[str]]:
    """Check who vouches for a pack. Returns the facts, and the lines for people.

    Raises:
        InvalidPack: What is required does not hold.
    """
    import os

    from agent_eval.attestations.files import RESULT, Trust
    from agent_eval.attestations.keys import read_public_key, shared_secret
    from agent_eval.attestations.statement import Expected
    from agent_eval.operations.trust import open_trusted

    stated = dict(name.partition("=")[::2] for name in required)
    wrong = [name for name, value in stated.items() if bool(value) != (name in _EXPECTED)]
    if wrong or not stated.keys() <= {*_EXPECTED, "signature", "gate", "origin"}:
        known = "signature, gate, origin, commit=SHA, dataset=ID or run=ID"
        raise click.UsageError(f"--require takes {known}, and not {', '.join(map(repr, required))}.")
    trust = Trust(
        keys=tuple(read_public_key(Path(file)) for file in public_key),
        secret=shared_secret(secret, os.environ),
        require_signature="signature" in stated,
        allow_unsigned=allow_unsigned,
        expected=Expected(**{field: stated.get(name) for name, field in _EXPECTED.items()}),
        gate="gate" in stated,
    )
    trusted = open_trusted(path, trust, attestation=attestation)
    pack, config = trusted.pack, trusted.pack.config
    predicates = [each.statement.predicate for each in trusted.verified if each.kind is RESULT]
    attestations = [{"file": each.path, "kind": each.kind.name} for each in trusted.verified]
    facts = {
        "verified": True,
        "pack": str(path),
        "run_id": pack.manifest.run_id,
        "dataset_id": pack.manifest.dataset_id,
        "git_commit": config.git_commit,
        "manifest_sha256": pack.manifest_sha256,
        "integrity": trust.integrity,
        "key_id": trusted.key_id or None,
        "result": predicates[0].get("result") if predicates else None,
        "attestations": attestations,
    }
    commit = f", commit {config.git_commit}" if config.git_commit else ""
    lines = [
        f"Verified {path}: run {pack.manifest.run_id} of {pack.manifest.dataset_id}{commit}",
        f"Integrity: {_INTEGRITY[trust.integrity].format(key=facts['key_id'])}",
        f"Subject: manifest.json, sha256 {pack.manifest_sha256}",
        *(f"  {each['kind']}: {each['file']}" for each in attestations),
    ]
    return facts, lines


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


@click.command(cls=TableCommand, path="dev expand")
def expand(pack: Path, out: Path, output_format: str) -> None:
    """Write a copy of a pack with a folder for each case."""
    _convert(pack, out, "files", output_format)


@click.command(cls=TableCommand, path="dev compact")
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
    import os

    from agent_eval.attestations.keys import SigningKey
    from agent_eval.evidence.derived import write_output
    from agent_eval.storage.atomic import write_private

    key, public = SigningKey.generate(), out.with_name(f"{out.name}.pub")
    if os.path.lexists(public):
        raise UsageError(f"{public} exists and is not overwritten", remedy="Choose another name with --out.")
    write_private(out, key.pem())
    try:
        write_output(public, key.public.pem)
    except AgentEvalError:
        out.unlink(missing_ok=True)  # half a pair would keep the name from being used again
        raise
    payload = {"private_key": str(out), "public_key": str(public), "key_id": key.public.key_id}
    lines = [
        f"Private key: {out} (mode 0600; keep it secret)",
        f"Public key: {public}",
        f"Key id: {key.public.key_id}",
    ]
    emit(output_format, payload, lambda _colour: lines)


@click.command(cls=TableCommand, path="attest")
def attest(
    pack: Path,
    key: Path | None,
    secret: str | None,
    decision: Path | None,
    out: Path | None,
    output_format: str,
) -> None:
    """State in signed form how a run ended, and that its gate passed, if it did.

    The pack is verified first. Statements are written below attestations/ in it: in-toto in a Sigstore bundle
    with a key, in an envelope with an HMAC with a shared secret, and the bare predicates for other signers.
    """
    import os

    from agent_eval.attestations import keys
    from agent_eval.operations.trust import Signer
    from agent_eval.operations.trust import attest as attest_pack

    shared = keys.shared_secret(secret, os.environ)
    signing = None
    if key is not None:
        signing = keys.read_signing_key(key)
    elif (pem := keys.key_from_environment(os.environ)) is not None:
        signing = keys.parse_signing_key(pem, source=keys.SIGNING_KEY_VARIABLE)
    attested = attest_pack(pack, Signer(signing, shared), decision=decision, environ=os.environ)
    how = _INTEGRITY[attested["integrity"]].format(key=attested["key_id"])
    gate = "gate passed" if attested["gate_passed"] else "no passed gate"
    lines = [
        f"Attested {pack}: result {attested['result']}, {gate}",
        f"Integrity: {how}",
        f"Subject: manifest.json, sha256 {attested['manifest_sha256']}",
        *(f"  {name}" for name in attested["files"]),
    ]
    if shared is not None and len(shared) < (safe := keys.SAFE_BYTES):
        lines.append(f"Warning: the secret has {len(shared)} bytes; one of fewer than {safe} may be guessed.")
    emit_to(out, output_format, attested, lambda _colour: lines)
