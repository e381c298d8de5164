"""`agent-eval pack`: evidence packs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

import click

from agent_eval.cli.options import TEXT, output_format
from agent_eval.cli.output import emit
from agent_eval.errors import ExitCode
from agent_eval.text.numbers import count

if TYPE_CHECKING:
    from agent_eval.operations.packs import PackFacts
    from agent_eval.suites.problems import Problem
    from agent_eval.suites.validate import ValidationReport


@click.group()
def pack() -> None:
    """Verify evidence packs and convert their layout."""


@pack.command()
@click.option("--run", "where", required=True, metavar="PACK", help="Evidence pack, or archive of one.")
@output_format
def verify(where: str, output: str) -> None:
    """Check every file of a pack against its manifests: exit 0 when it is whole, 2 when it is not."""
    from pathlib import Path

    from agent_eval.operations.packs import pack_facts

    found = pack_facts(Path(where))
    emit(output, found.to_json(), lambda _colour: _facts_text("Verified", found))


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


def _conversion(layout: Literal["files", "compact"], text: str) -> click.Command:
    @click.option("--run", "where", required=True, metavar="PACK", help="Evidence pack, or archive of one.")
    @click.option("--out", required=True, metavar="DIRECTORY", help="The pack to write.")
    @output_format
    def convert(where: str, out: str, output: str) -> None:
        from pathlib import Path

        from agent_eval.operations.packs import convert_pack

        made = convert_pack(Path(where), Path(out), layout=layout)
        emit(output, made.to_json(), lambda _colour: _facts_text("Wrote", made))

    return click.command(help=text)(convert)


pack.add_command(_conversion("files", "Write a pack with a folder a case."), "expand")
pack.add_command(_conversion("compact", "Write a pack with its cases in shards."), "compact")


@click.group()
def schema() -> None:
    """Validate suites and migrate old ones."""


@schema.command()
@click.option("--input", "suite", required=True, metavar="FILE", help="Suite to check.")
@click.option("--strict", is_flag=True, help="Refuse fields that the schema does not define.")
@click.option("--require-version", type=TEXT, metavar="VERSION", help="Schema version the suite must state.")
@output_format
def validate(suite: str, strict: bool, require_version: str | None, output: str) -> int:
    """Check a suite: exit 0 when it is valid, 1 when it is not, 2 when it cannot be read."""
    from pathlib import Path

    from agent_eval.suites.validate import validate_suite

    found = validate_suite(Path(suite), strict=strict, require_version=require_version)
    emit(output, found.to_json(), lambda _colour: _validation_text(found))
    return int(ExitCode.OK if found.passed else ExitCode.NO)


@schema.command()
@click.option("--input", "suite", required=True, metavar="FILE", help="Suite to migrate.")
@click.option("--output", "target", required=True, metavar="FILE", help="The .json or .jsonl file to write.")
@output_format
def migrate(suite: str, target: str, output: str) -> int:
    """Write a suite of any readable version in the current one.

    Exits 1 when the result is written but not valid: what was wrong before still is.
    """
    from pathlib import Path

    from agent_eval.operations.suites import migrate_suite

    done = migrate_suite(Path(suite), Path(target))
    emit(
        output,
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
