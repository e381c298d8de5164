"""The command's flags are the table's rows."""

from __future__ import annotations

import click
from click.testing import CliRunner

from agent_eval.ci.config import INPUTS
from agent_eval.cli.ci import ci


def test_flags__are_the_table() -> None:
    options = [option for option in ci.get_params(click.Context(ci)) if "--help" not in option.opts]
    assert [option.name for option in options] == [row.field for row in INPUTS]
    assert [option.opts for option in options] == [[f"--{name}" for name in row.names] for row in INPUTS]


def test_help__shows_every_input_with_its_default() -> None:
    # Lines are also broken at hyphens.
    shown = "".join(CliRunner().invoke(ci, ["--help"], terminal_width=200).output.split())
    for row in INPUTS:
        assert row.flag in shown
        assert "".join(row.documentation.split()) in shown
