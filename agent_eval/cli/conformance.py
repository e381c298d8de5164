"""`agent-eval adapter-conformance` and `contracts-check`: are fixtures of formats and versions still read."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from agent_eval.cli.options import TableCommand
from agent_eval.cli.output import emit
from agent_eval.errors import ExitCode
from agent_eval.text.numbers import count

if TYPE_CHECKING:
    from pathlib import Path

    from agent_eval.operations.conformance import Conformance, ContractsCheck


@click.command(cls=TableCommand, path="adapter-conformance")
def adapter_conformance(adapter_fixtures: Path, minimum: int, output_format: str) -> int:
    """Import the fixtures of every format strictly: exit 0 when each holds what it should, 1 when not.

    The directory has one of each format's name. A file NAME.expected.json beside an export says how many
    cases, events, calls, results, errors and tokens it holds.
    """
    from agent_eval.operations.conformance import check_adapters

    conformance = check_adapters(adapter_fixtures, minimum)
    emit(output_format, conformance.to_json(), lambda _colour: _adapters_text(conformance))
    return int(ExitCode.OK if conformance.passed else ExitCode.NO)


@click.command(cls=TableCommand, path="contracts-check")
def contracts_check(suite_fixtures: Path, adapter_fixtures: Path, minimum: int, output_format: str) -> int:
    """Read suites of every schema version, and exports of every format: exit 1 when one is not as before."""
    from agent_eval.operations.conformance import check_contracts

    check = check_contracts(suite_fixtures, adapter_fixtures, minimum)
    emit(output_format, check.to_json(), lambda _colour: _contracts_text(check))
    return int(ExitCode.OK if check.passed else ExitCode.NO)


def _adapters_text(conformance: Conformance) -> list[str]:
    failed = [check for check in conformance.checks if not check.passed]
    passed = len(conformance.checks) - len(failed)
    lines = [f"{passed} of {count(len(conformance.checks), 'export')} imported as they should be."]
    lines += [f"  {check.path}: {problem}" for check in failed for problem in check.problems]
    return lines + [f"  {missing}" for missing in conformance.missing]


def _contracts_text(check: ContractsCheck) -> list[str]:
    failed = [suite for suite in check.suites if not suite.passed]
    lines = [f"{len(check.suites) - len(failed)} of {count(len(check.suites), 'suite')} read as before."]
    lines += [f"  {suite.path}: {problem}" for suite in failed for problem in suite.problems]
    lines += [f"  {missing}" for missing in check.missing]
    return [*lines, *_adapters_text(check.adapters)]
