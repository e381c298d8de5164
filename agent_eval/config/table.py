"""The table of options, and what one command has of it. A new option is one row in `config.rows`."""

from __future__ import annotations

from functools import cache

from agent_eval.config.options import Command, Option
from agent_eval.config.rows.commands import (
    ATTESTATIONS,
    BENCHMARKS,
    EXPORTS,
    FORMAT,
    HISTORY,
    HTML,
    IMPORTS,
    PACKS,
    REGISTERED,
    STARTER_FILES,
)
from agent_eval.config.rows.file import SETTINGS
from agent_eval.config.rows.job import GATE, JOB
from agent_eval.config.rows.run import AGENT, CONVERSATIONS, LIMITS, LLM, RUN

ROWS: tuple[Option, ...] = tuple(
    row._replace(goes_to=row.goes_to or row.field, default=row.default or "false" * (row.kind == "switch"))
    for row in (
        *(*RUN, *AGENT, *LLM, *CONVERSATIONS, *LIMITS, *GATE, *JOB, *PACKS, *STARTER_FILES, *HTML, *HISTORY),
        *(*EXPORTS, *IMPORTS, *BENCHMARKS, *ATTESTATIONS, *REGISTERED, *FORMAT, *SETTINGS),
    )
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
