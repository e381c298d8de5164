"""The table of options, and what one command has of it. A new option is one row in `config.rows`."""

from __future__ import annotations

from functools import cache

from agent_eval.config.options import Command, Option
from agent_eval.config.rows import commands, job, run
from agent_eval.config.rows.file import SETTINGS

ROWS: tuple[Option, ...] = tuple(
    row._replace(goes_to=row.goes_to or row.field, default=row.default or "false" * (row.kind == "switch"))
    for row in (*run.ROWS, *job.ROWS, *commands.ROWS, *SETTINGS)
)
"""Every row, those that only packs of earlier versions have among them."""

OPTIONS: tuple[Option, ...] = tuple(row for row in ROWS if row.commands and not row.hidden)
"""Every row that help shows, in its order there and in the reference."""

FLAGS: tuple[Option, ...] = tuple(row for row in ROWS if row.commands)
"""Those, and the other names that are accepted."""

KEPT_IN_FILES: tuple[Option, ...] = tuple(row for row in ROWS if row.of_file)
"""Every row that `agent-eval.yml` and `--set` alone can state to some command."""


@cache
def options_of(command: Command) -> tuple[Option, ...]:
    """Select the rows of a command; `ci` is the CI job, whose platforms add rows of their own."""
    return tuple(option for option in FLAGS if command in option.commands)


@cache
def settings_of(command: Command) -> tuple[Option, ...]:
    """Select what `agent-eval.yml` and `--set` can say to a command that has no flag for it."""
    return tuple(option for option in KEPT_IN_FILES if command in option.of_file)
