"""`agent-eval pack` and `schema`: evidence packs and suites."""

from __future__ import annotations

import pathlib
from itertools import chain
from typing import TYPE_CHECKING, Literal

import click

from agent_eval.cli.options import TableCommand
from agent_eval.cli.output import emit
from agent_eval.errors import ExitCode

if TYPE_CHECKING:
    from pathlib import Path

    from agent_eval.contracts import RunConfig
    from agent_eval.operations.packs import PackFacts
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
    lines = [
        *_facts_text("Verified", verified.facts).split("\n"),
        f"Written by agent-eval {tool}, schema {pack.manifest.schema_version}, at {config.started_at}",
        f"Agent {config.agent_version}, model {config.model}, commit {_commit(config)}",
        f"Result: {summary.passed_cases} of {summary.total_cases} cases passed; gate: {verified.gate}",
        f"Signature: {signature.state}{key}: {signature.note}",
        f"Replays: {does + ': ' if does else ''}{replay.note}",
    ]
    return [clean(line, limit=1_000) for line in lines]


def _commit(config: RunConfig) -> str:
    dirty = " with changes that are not committed" if config.git_dirty else ""
    return f"{config.git_commit}{dirty}" if config.git_commit else "not recorded"


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
    if pack_facts.left_behind:
        lines.append(f"Not converted, since derived from the old pack: {_listed(pack_facts.left_behind)}")
    return "\n".join(lines)


def _listed(paths: tuple[str, ...]) -> str:
    from agent_eval.text.escape import clean

    more = f" and {len(paths) - 10} more" if len(paths) > 10 else ""
    return ", ".join(clean(path) for path in paths[:10]) + more


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


@click.group()
def schema() -> None:
    """Validate suites and migrate old ones."""


@schema.command(cls=TableCommand, path="schema show")
def show(suite_format: str) -> None:
    """Print the JSON Schema of a suite: draft 2020-12 for cases, draft-07 for conversations."""
    from importlib.resources import files

    name = {"cases": "suite", "aui": "aui_suite"}[suite_format]
    click.echo(files("agent_eval").joinpath("schemas", f"{name}.schema.json").read_text(), nl=False)


@schema.command(cls=TableCommand, path="schema validate")
@click.argument("suites", metavar="[SUITE]...", nargs=-1, type=click.Path(path_type=pathlib.Path))
def validate(
    suites: tuple[Path, ...],
    suite: Path | None,
    strict: bool,
    require_version: str | None,
    key_variables: tuple[str, ...],
    output_format: str,
) -> int:
    """Check suites: exit 0 when all are valid, 1 when one is not, 2 when one cannot be read.

    Takes any number of suites, as pre-commit passes them, or one with --input.
    """
    from agent_eval.cli.conversations import allowed_keys, validation_text
    from agent_eval.suites.validate import validate_suite

    paths = (*((suite,) if suite else ()), *suites)
    if not paths:
        raise click.UsageError("Name a suite to check.")
    keys = allowed_keys(key_variables)
    validations = [
        validate_suite(path, strict=strict, require_version=require_version, key_variables=keys)
        for path in paths
    ]
    passed = all(validation.passed for validation in validations)
    each = [validation.to_json() for validation in validations]
    payload = each[0] if len(each) == 1 else {"passed": passed, "suites": each}
    emit(output_format, payload, lambda _colour: list(chain.from_iterable(map(validation_text, validations))))
    return int(ExitCode.OK if passed else ExitCode.NO)


@schema.command(cls=TableCommand, path="schema migrate")
def migrate(suite: Path, target: Path, target_version: str | None, output_format: str) -> int:
    """Write a suite of any readable version in the current one, or in an earlier one that can hold all of it.

    Exits 1 when the result is written but not valid: migration keeps the problems of the old suite.
    """
    from agent_eval.cli.conversations import validation_text
    from agent_eval.contracts import SCHEMA_VERSION
    from agent_eval.operations.suites import migrate_suite

    migration = migrate_suite(suite, target, target_version or SCHEMA_VERSION)
    validation = migration.validation
    emit(
        output_format,
        migration.to_json(),
        lambda _colour: [f"Wrote {migration.target}", *validation_text(validation)],
    )
    return int(ExitCode.OK if validation.passed else ExitCode.NO)
