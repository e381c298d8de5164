"""`agent-eval schema`: suites and their schema versions."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from agent_eval.cli.options import TEXT, output_format
from agent_eval.cli.printing import emit
from agent_eval.errors import ExitCode
from agent_eval.text.plurals import count

if TYPE_CHECKING:
    from agent_eval.suites.problems import Problem
    from agent_eval.suites.validate import ValidationReport


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

    from agent_eval.runs.schema import migrate_suite

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
    from agent_eval.text.terminal import clean

    where = f"line {problem.line}" if problem.line is not None else problem.place
    return clean(f"  {kind}: {where}: {problem.message}. {problem.remedy}")
