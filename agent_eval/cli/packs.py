"""`agent-eval pack`: evidence packs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

import click

from agent_eval.cli.options import TableCommand
from agent_eval.cli.output import emit
from agent_eval.errors import ExitCode
from agent_eval.text.numbers import count

if TYPE_CHECKING:
    from pathlib import Path

    from agent_eval.operations.packs import PackFacts
    from agent_eval.suites.problems import Problem
    from agent_eval.suites.validate import ValidationReport


@click.group()
def pack() -> None:
    """Verify evidence packs and convert their layout."""


@pack.command(cls=TableCommand, path="pack verify")
def verify(pack: Path, output_format: str) -> None:
    """Check every file of a pack against its manifests: exit 0 when it is whole, 2 when it is not."""
    from agent_eval.operations.packs import pack_facts

    found = pack_facts(pack)
    emit(output_format, found.to_json(), lambda _colour: _facts_text("Verified", found))


def _facts_text(verb: str, found: PackFacts) -> str:
    from agent_eval.text.escape import clean

    facts = found.to_json()
    run, dataset = clean(facts["run_id"], limit=200), clean(facts["dataset_id"], limit=200)
    added = f" and {facts['derived_files']} added later" if facts["derived_files"] else ""
    lines = [
        f"{verb} {clean(facts['pack'])}: run {run} of {dataset}",
        f"{facts['cases']} cases in {facts['files']} files{added}, layout {facts['layout']}",
        f"manifest sha256 {facts['manifest_sha256']}",
    ]
    if not facts["complete"]:
        lines.append("The run is not complete: compare and gate refuse it.")
    if found.left_behind:
        lines.append(f"Left behind, since made from the pack as it was: {_listed(found.left_behind)}")
    return "\n".join(lines)


def _listed(paths: tuple[str, ...]) -> str:
    from agent_eval.text.escape import clean

    more = f" and {len(paths) - 10} more" if len(paths) > 10 else ""
    return ", ".join(clean(path) for path in paths[:10]) + more


@pack.command(cls=TableCommand, path="pack expand")
def expand(pack: Path, out: Path, output_format: str) -> None:
    """Write a pack with a folder a case."""
    _convert(pack, out, "files", output_format)


@pack.command(cls=TableCommand, path="pack compact")
def compact(pack: Path, out: Path, output_format: str) -> None:
    """Write a pack with its cases in shards."""
    _convert(pack, out, "compact", output_format)


def _convert(pack: Path, out: Path, layout: Literal["files", "compact"], output_format: str) -> None:
    from agent_eval.operations.packs import convert_pack

    made = convert_pack(pack, out, layout=layout)
    emit(output_format, made.to_json(), lambda _colour: _facts_text("Wrote", made))


@click.group()
def schema() -> None:
    """Validate suites and migrate old ones."""


@schema.command(cls=TableCommand, path="schema validate")
def validate(suite: Path, strict: bool, require_version: str | None, output_format: str) -> int:
    """Check a suite: exit 0 when it is valid, 1 when it is not, 2 when it cannot be read."""
    from agent_eval.suites.validate import validate_suite

    found = validate_suite(suite, strict=strict, require_version=require_version)
    emit(output_format, found.to_json(), lambda _colour: _validation_text(found))
    return int(ExitCode.OK if found.passed else ExitCode.NO)


@schema.command(cls=TableCommand, path="schema migrate")
def migrate(suite: Path, target: Path, output_format: str) -> int:
    """Write a suite of any readable version in the current one.

    Exits 1 when the result is written but not valid: what was wrong before still is.
    """
    from agent_eval.operations.suites import migrate_suite

    done = migrate_suite(suite, target)
    emit(
        output_format,
        done.to_json(),
        lambda _colour: f"Wrote {done.target}\n{_validation_text(done.validation)}",
    )
    return int(ExitCode.OK if done.validation.passed else ExitCode.NO)


def _validation_text(found: ValidationReport) -> str:
    version = found.schema_version or "not stated"
    state = "valid" if found.passed else "not valid"
    lines = [f"{found.path} is {state}: {count(found.case_count, 'case')}, schema version {version}."]
    for kind, problems, number in (
        ("error", found.errors, found.error_count),
        ("warning", found.warnings, found.warning_count),
    ):
        lines.extend(_problem_text(kind, problem) for problem in problems)
        if number > len(problems):
            lines.append(f"  … and {count(number - len(problems), f'more {kind}')}")
    return "\n".join(lines)


def _problem_text(kind: str, problem: Problem) -> str:
    from agent_eval.text.escape import clean

    where = f"line {problem.line}" if problem.line is not None else problem.place
    return clean(f"  {kind}: {where}: {problem.message}. {problem.remedy}")
