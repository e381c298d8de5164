"""`agent-eval validate`, `plan` and `list-suites`: suites before anything runs."""

from __future__ import annotations

import pathlib
from typing import TYPE_CHECKING

import click

from agent_eval.cli.options import TableCommand
from agent_eval.cli.output import emit
from agent_eval.errors import ExitCode, UsageError
from agent_eval.text.numbers import count

if TYPE_CHECKING:
    from pathlib import Path

    from agent_eval.suites.problems import Problem
    from agent_eval.suites.validate import ValidationReport


@click.command(cls=TableCommand, path="validate")
@click.argument("suite", type=click.Path(path_type=pathlib.Path))
def validate(suite: Path, strict: bool, key_variables: tuple[str, ...], output_format: str) -> int:
    """Check a suite of cases or of conversations: exit 0 when it is valid, 1 when not, 2 when unreadable.

    All faults are listed at once, each with its place.
    """
    from agent_eval.suites.validate import validate_suite

    validation = validate_suite(suite, strict=strict, key_variables=allowed_keys(key_variables))
    emit(output_format, validation.to_json(), lambda _colour: validation_text(validation))
    return int(ExitCode.OK if validation.passed else ExitCode.NO)


def allowed_keys(names: tuple[str, ...]) -> tuple[str, ...]:
    """Return the variables that suites may name for their API keys: the given ones, else the default.

    Raises:
        UsageError: One of them holds a secret of a CI platform or of the signer.
    """
    from agent_eval.ci.platforms.catalog import is_secret_of_a_job
    from agent_eval.suites.aui_faults import KEY_VARIABLE

    for name in names:
        if is_secret_of_a_job(name):
            raise UsageError(
                f"suite-key-env names {name}, which holds a secret of the job.",
                remedy="Give the agent's key a variable of its own, such as AUI_API_KEY.",
                field="suite-key-env",
            )
    return names or (KEY_VARIABLE,)


def validation_text(report: ValidationReport) -> list[str]:
    """Describe a validation in lines: the suite, then each problem with its place and remedy."""
    state = "valid" if report.passed else "not valid"
    lines = [f"{report.path} is {state}: {_size(report)}."]
    for kind, problems, number in (
        ("error", report.errors, report.error_count),
        ("warning", report.warnings, report.warning_count),
    ):
        lines.extend(_problem_text(kind, problem) for problem in problems)
        if number > len(problems):
            lines.append(f"  … and {count(number - len(problems), f'more {kind}')}")
    return lines


def _size(report: ValidationReport) -> str:
    if report.format == "aui":
        return f"{count(report.case_count, 'test')}, a suite of conversations"
    return f"{count(report.case_count, 'case')}, schema version {report.schema_version or 'not stated'}"


def _problem_text(kind: str, problem: Problem) -> str:
    from agent_eval.text.escape import clean

    place = f"line {problem.line}" if problem.line is not None else problem.place
    return clean(f"  {kind}: {place}: {problem.message}. {problem.remedy}")
