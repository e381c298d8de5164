"""The table of options, and what one command has of it. A new option is one row in `config.rows`."""

from __future__ import annotations

from functools import cache

from agent_eval.config.options import Command, Option
from agent_eval.config.rows.agent import AGENT
from agent_eval.config.rows.attestations import ATTESTATIONS
from agent_eval.config.rows.conversations import CONVERSATIONS
from agent_eval.config.rows.gate import GATE
from agent_eval.config.rows.job import JOB
from agent_eval.config.rows.limits import LIMITS
from agent_eval.config.rows.llm import LLM
from agent_eval.config.rows.packs import FORMAT, PACKS
from agent_eval.config.rows.registry import REGISTERED
from agent_eval.config.rows.reports import EXPORTS, HISTORY, HTML
from agent_eval.config.rows.run import RUN
from agent_eval.config.rows.suites import BENCHMARKS, IMPORTS, STARTER_FILES

OPTIONS: tuple[Option, ...] = (
    *RUN,
    *AGENT,
    *LLM,
    *CONVERSATIONS,
    *LIMITS,
    *GATE,
    *JOB,
    *PACKS,
    *STARTER_FILES,
    *HTML,
    *HISTORY,
    *EXPORTS,
    *IMPORTS,
    *BENCHMARKS,
    *ATTESTATIONS,
    *REGISTERED,
    *FORMAT,
)
"""Every row, in the order in which help and reference show them."""


@cache
def options_of(command: Command) -> tuple[Option, ...]:
    """Select the rows of a command; `ci` is the CI job, whose platforms add rows of their own."""
    return tuple(option for option in OPTIONS if command in option.commands)
