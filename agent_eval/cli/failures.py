"""How an error is told: one JSON object on stderr, or prose on a terminal; and with which exit code."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from typing import Any

import click

from agent_eval.errors import AgentEvalError, ExitCode

INTERRUPTED = 130
"""Exit code after Ctrl-C: 128 + SIGINT."""
TERMINATED = 143
"""Exit code after SIGTERM: 128 + SIGTERM."""
BROKEN_PIPE = 141
"""Exit code when the reader of stdout has left: 128 + SIGPIPE."""

ALWAYS_PROSE = frozenset({"ci", "demo"})
"""Commands whose output is a log that people read, wherever it goes."""

DEBUG_SWITCH = "AGENT_EVAL_DEBUG"


def report(error: Exception, arguments: Sequence[str]) -> int:
    """Print an error on stderr and return the exit code.

    Args:
        error: What was raised: one of ours, one of click's, or something nobody expected.
        arguments: The command line; `--format` in it chooses JSON or prose.
    """
    known = _as_ours(error)
    if os.environ.get(DEBUG_SWITCH) == "1":
        import traceback

        traceback.print_exception(error)
    if wants_json(arguments):
        import json

        click.echo(json.dumps(known.to_json(), default=str), err=True)
    else:
        click.echo(_usage_or_nothing(error) + prose(known), err=True)
    return int(known.exit_code)


def wants_json(arguments: Sequence[str]) -> bool:
    """Whether errors are told as JSON: asked for, or stderr is not a terminal.

    Read from the raw arguments, since they may be what is wrong.
    """
    chosen = "auto"
    for position, argument in enumerate(arguments):
        if argument == "--format" and position + 1 < len(arguments):
            chosen = arguments[position + 1]
        elif argument.startswith("--format="):
            chosen = argument.removeprefix("--format=")
    if chosen in ("json", "text"):
        return chosen == "json"
    if arguments and arguments[0] in ALWAYS_PROSE:
        return False
    return not sys.stderr.isatty()


def prose(error: AgentEvalError) -> str:
    """The error for a person: what happened, where, what to do next."""
    from agent_eval.text.terminal import clean

    lines = [f"Error: {clean(error.message)}"]
    places = [
        f"{name.replace('_', ' ')}: {clean(str(error.details[name]))}"
        for name in ("file", "line", "column", "case_id", "field")
        if name in error.details and str(error.details[name]) not in error.message
    ]
    lines.extend(f"  {place}" for place in places)
    if error.remedy:
        lines.append(f"  {clean(error.remedy)}")
    return "\n".join(lines)


class _InternalError(AgentEvalError):
    code = "internal_error"
    exit_code = ExitCode.NOT_EVALUABLE


class _CommandLineError(AgentEvalError):
    code = "usage_error"


def _usage_or_nothing(error: Exception) -> str:
    """What click shows before a usage error: the usage line, or all of the help where nothing was asked."""
    if not isinstance(error, click.UsageError) or error.ctx is None:
        return ""
    if isinstance(error, click.exceptions.NoArgsIsHelpError):
        return f"{error.ctx.get_help()}\n\n"
    return f"{error.ctx.get_usage()}\n"


def _as_ours(error: Exception) -> AgentEvalError:
    """The error as one of ours: what click raises is a usage error, what nobody expected is a bug."""
    if isinstance(error, AgentEvalError):
        return error
    if isinstance(error, click.UsageError):
        return _usage_error(error)
    if isinstance(error, click.ClickException):
        return _CommandLineError(error.format_message())
    return _InternalError(
        f"An internal error occurred: {type(error).__name__}: {error}",
        remedy=f"This is a bug. Run again with {DEBUG_SWITCH}=1 and report the traceback.",
    )


def _usage_error(error: click.UsageError) -> AgentEvalError:
    command = error.ctx.command_path if error.ctx else "agent-eval"
    details: dict[str, Any] = {"command": command}
    if isinstance(error, click.NoSuchOption):
        details["field"] = error.option_name
    elif isinstance(error, click.BadParameter) and error.param is not None:
        details["field"] = error.param.opts[-1] if error.param.opts else error.param.name
    if isinstance(error, click.exceptions.NoArgsIsHelpError):
        remedy = f"Choose one from `{command} --help`."
        return _CommandLineError(f"{command} needs a command", remedy=remedy, **details)
    return _CommandLineError(error.format_message(), remedy=f"See `{command} --help`.", **details)
