"""`agent-eval validate`, `plan` and `list-suites`: suites before anything runs."""

from __future__ import annotations

import pathlib
from typing import TYPE_CHECKING, Any

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
@click.argument("suite")
def validate(suite: str, strict: bool, key_variables: tuple[str, ...], output_format: str) -> int:
    """Check a suite of cases or of conversations: exit 0 when it is valid, 1 when not, 2 when unreadable.

    All faults are listed at once, each with its place.
    """
    from agent_eval.suites.validate import validate_suite

    validation = validate_suite(_file_of(suite), strict=strict, key_variables=allowed_keys(key_variables))
    emit(output_format, validation.to_json(), lambda _colour: validation_text(validation))
    return int(ExitCode.OK if validation.passed else ExitCode.NO)


@click.command(cls=TableCommand, path="plan")
@click.argument("suite")
def plan(suite: str, output_format: str, **how: Any) -> None:
    """Show what a run of a suite of conversations would do, and about what it would cost. Runs nothing."""
    from agent_eval.operations.conversation_plan import plan_suite
    from agent_eval.reports.conversation_plan import plan_text

    how["key_variables"] = allowed_keys(how["key_variables"])
    planned = plan_suite(_file_of(suite), **how)
    emit(output_format, planned.to_json(), lambda _colour: plan_text(planned))


@click.command("list-suites", cls=TableCommand, path="list-suites")
def list_suites(output_format: str) -> None:
    """List the bundled suites of conversations, by the names that `run` and `plan` take."""
    from agent_eval.suites.paths import bundled_suites
    from agent_eval.suites.reader import open_suite

    suites = [
        {"name": name, "title": suite.header.dataset_id, "tests": suite.case_count, "file": str(path)}
        for name, path in bundled_suites().items()
        for suite in [open_suite(path)]
    ]
    width = max(len(str(row["name"])) for row in suites)
    emit(
        output_format,
        {"suites": suites},
        lambda _colour: [
            *(
                f"{row['name']:<{width}}  {count(int(str(row['tests'])), 'test'):>8}  {row['title']}"
                for row in suites
            ),
            "",
            "Run one with `agent-eval run NAME --llm-key KEY`; `agent-eval plan NAME` shows what that does.",
        ],
    )


def _file_of(suite: str) -> Path:
    """Return the file of a suite that is named by its path, or as a bundled one."""
    from agent_eval.suites.paths import bundled_suite, is_bundled_name

    return bundled_suite(suite) if is_bundled_name(suite) else pathlib.Path(suite)


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
