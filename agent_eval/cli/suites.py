"""`agent-eval validate`, `schema`, `plan` and `list-suites`: suites before anything runs."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from agent_eval.cli.options import TableCommand
from agent_eval.cli.output import emit
from agent_eval.errors import ExitCode, UsageError
from agent_eval.text.numbers import count

if TYPE_CHECKING:
    from agent_eval.suites.validate import ValidationReport

_TESTS_SHOWN = 60


@click.command(cls=TableCommand, path="validate")
@click.argument("suites", metavar="SUITE...", nargs=-1)
def validate(
    suites: tuple[str, ...],
    inputs: tuple[str, ...],
    strict: bool,
    require_version: str | None,
    key_variables: tuple[str, ...],
    output_format: str,
) -> int:
    """Check suites, `agent-eval.yml` or a policy: exit 0 when all are valid, 1 when not, 2 when unreadable.

    All faults are listed at once, each with its place.
    """
    from agent_eval.cli.project import validate_project
    from agent_eval.operations.suites import refused_by_judges
    from agent_eval.suites.paths import without_losses
    from agent_eval.suites.validate import validate_suite

    paths = without_losses(_file_of(suite) for suite in (*suites, *inputs))
    if not paths:
        raise click.UsageError("Name a suite to check.")
    keys = allowed_keys(key_variables)
    passed, each, lines = True, [], []
    for path in paths:
        project = validate_project(path)
        if project is None:
            suite = validate_suite(
                path,
                strict=strict,
                require_version=require_version,
                key_variables=keys,
                check=refused_by_judges,
            )
            project = suite.passed, suite.to_json(), validation_text(suite)
        passed &= project[0]
        each.append(project[1])
        lines.extend(project[2])
    payload = each[0] if len(each) == 1 else {"passed": passed, "suites": each}
    emit(output_format, payload, lambda _colour: lines)
    return int(ExitCode.OK if passed else ExitCode.NO)


@click.command(cls=TableCommand, path="plan")
@click.argument("suite")
def plan(suite: str, output_format: str, **how: Any) -> None:
    """Show what a run of a suite of conversations would do, and about what it would cost. Runs nothing."""
    from agent_eval.operations.suites import plan_suite

    how["key_variables"] = allowed_keys(how["key_variables"])
    planned = plan_suite(_file_of(suite), **how)
    emit(output_format, planned, lambda _colour: plan_text(planned))


def plan_text(plan: dict[str, Any]) -> list[str]:
    """Render a plan: each test with its turns and evaluations, then the calls and what they would cost."""
    from agent_eval.text.escape import clean

    tests, loops, calls = plan["tests"], plan["loops"], plan["model_calls"]
    out = f", {count(plan['left_out'], 'more test')} left out" if plan["left_out"] else ""
    times = f", each {loops} times" if loops > 1 else ""
    lines = [
        f"{clean(plan['suite'], limit=200)}: {count(len(tests), 'test')}{out}{times}",
        f"Agent {clean(plan['agent'], limit=200)}; judge and user: {clean(plan['model'], limit=100)}",
        "",
    ]
    for test in tests[:_TESTS_SHOWN]:
        words = (("fixed", "fixed"), ("simulated", "auto"), ("padding", "padding"))
        parts = ", ".join(f"{test[name]} {word}" for name, word in words if test[name])
        judged = f"{sum(test['strict'].values())} strict and {test['criteria']} LLM"
        tags = f"; {clean(', '.join(test['tags']), limit=100)}" if test["tags"] else ""
        lines.append(f"  {clean(test['name'], limit=100)}")
        lines.append(f"    {count(test['turns'], 'turn')} ({parts}), {judged}{tags}")
    if len(tests) > _TESTS_SHOWN:
        lines.append(f"  and {count(len(tests) - _TESTS_SHOWN, 'more test')}")
    kinds = plan["evaluations"]["strict"]
    named = ", ".join(f"{name} {number}" for name, number in kinds.items()) or "none"
    by_model, costs = plan["evaluations"]["llm"], plan["estimated_costs_usd_at_most"]
    judge, user = costs["judges"], costs["simulated_users"]
    cost = "unknown, since there is no price for this model: state it with --set prices=MODEL=INPUT/OUTPUT"
    if judge is not None and user is not None:
        cost = f"at most about {judge:,.2f} USD for the judge and {user:,.2f} USD for the user"
    return [
        *lines,
        "",
        f"Evaluations: {sum(kinds.values())} strict ({named}), {by_model} by a model",
        f"Messages to the agent: at most {plan['agent_calls_at_most']:,}",
        f"Calls of the model: {calls['judge']:,} as judge, at most {calls['simulate_at_most']:,} as user",
        f"Cost: {cost}; what the agent costs is not known",
    ]


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
    lines = [
        f"{row['name']:<{width}}  {count(int(str(row['tests'])), 'test'):>8}  {row['title']}"
        for row in suites
    ]
    run = "Run one with `agent-eval run NAME --llm-key KEY`; `agent-eval plan NAME` shows what that does."
    emit(output_format, {"suites": suites}, lambda _colour: [*lines, "", run])


def _file_of(suite: str) -> Path:
    """Return the file of a suite that is named by its path, or as a bundled one."""
    from agent_eval.suites.paths import bundled_suite, is_bundled_name

    return bundled_suite(suite) if is_bundled_name(suite) else Path(suite)


def allowed_keys(names: tuple[str, ...]) -> tuple[str, ...]:
    """Return the variables that suites may name for their API keys: the given ones, else the default.

    Raises:
        UsageError: One of them holds a secret of a CI platform or of the signer.
    """
    if not names:
        from agent_eval.suites.aui_faults import KEY_VARIABLE

        return (KEY_VARIABLE,)
    from agent_eval.ci.platforms.catalog import is_secret_of_a_job  # takes long to import

    for name in names:
        if is_secret_of_a_job(name):
            raise UsageError(
                f"suite-key-env names {name}, which holds a secret of the job.",
                remedy="Give the agent's key a variable of its own, such as AUI_API_KEY.",
                field="suite-key-env",
            )
    return names


def validation_text(report: ValidationReport) -> list[str]:
    """Describe a validation in lines: the suite, then each problem with its place and remedy."""
    from agent_eval.text.escape import clean

    if report.format == "aui":
        size = f"{count(report.case_count, 'test')}, a suite of conversations"
    else:
        size = f"{count(report.case_count, 'case')}, schema version {report.schema_version or 'not stated'}"
    lines = [f"{report.path} is {'valid' if report.passed else 'not valid'}: {size}."]
    for kind, problems, number in (
        ("error", report.errors, report.error_count),
        ("warning", report.warnings, report.warning_count),
    ):
        for problem in problems:
            place = f"line {problem.line}" if problem.line is not None else problem.place
            lines.append(clean(f"  {kind}: {place}: {problem.message}. {problem.remedy}"))
        if number > len(problems):
            lines.append(f"  … and {count(number - len(problems), f'more {kind}')}")
    return lines


@click.command(cls=TableCommand, path="schema show")
@click.argument(
    "suite_format",
    metavar="[cases|conversations|config]",
    default="cases",
    type=click.Choice(["cases", "conversations", "config"]),
)
def schema_show(suite_format: str) -> None:
    """Print the JSON Schema of `agent-eval.yml` or a suite: draft 2020-12; for conversations draft-07."""
    from importlib.resources import files

    name = {"cases": "suite", "conversations": "aui_suite", "config": "project_file"}[suite_format]
    click.echo(files("agent_eval").joinpath("schemas", f"{name}.schema.json").read_text(), nl=False)


@click.command(cls=TableCommand, path="schema migrate")
@click.argument("files", metavar="SUITE OUT", nargs=-1, type=click.Path(path_type=Path))
def migrate(
    files: tuple[Path, ...],
    suite: Path | None,
    target: Path | None,
    target_version: str | None,
    output_format: str,
) -> int:
    """Write a suite of any readable version to OUT, a .json or .jsonl file, in the current version.

    Exits 1 when the result is written but not valid: migration keeps the problems of the old suite.
    """
    from agent_eval.contracts import SCHEMA_VERSION
    from agent_eval.operations.suites import migrate_suite

    named = [path for path in (suite, *files, target) if path is not None]
    if len(named) != 2:
        raise click.UsageError("Name the suite to migrate, and the file to write.")
    (source, out), version = named, target_version or SCHEMA_VERSION
    validation = migrate_suite(source, out, version)
    payload = {
        "input": str(source),
        "output": str(out),
        "schema_version": version,
        "validation": validation.to_json(),
    }
    emit(output_format, payload, lambda _colour: [f"Wrote {out}", *validation_text(validation)])
    return int(ExitCode.OK if validation.passed else ExitCode.NO)
