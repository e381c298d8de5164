"""The table of options, and what one command has of it. A new option is one row in `config.rows`."""

from __future__ import annotations

from agent_eval.config.options import Option
from agent_eval.config.rows.agent import AGENT
from agent_eval.config.rows.gate import GATE
from agent_eval.config.rows.job import JOB
from agent_eval.config.rows.limits import LIMITS
from agent_eval.config.rows.run import JUDGED

OPTIONS: tuple[Option, ...] = (*JUDGED, *AGENT, *LIMITS, *GATE, *JOB)
"""Every row, in the order in which help and reference show them."""


def options_of(command: str) -> tuple[Option, ...]:
    """The rows that a command has; `ci` is the CI job, whose platforms add rows of their own."""
    return tuple(option for option in OPTIONS if command in option.commands)
