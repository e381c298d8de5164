"""How an error is told: one JSON object on stderr, or prose on a terminal; and with which exit code."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Sequence
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
    clean = _without_secrets()
    known = _redacted(_as_ours(error), clean)
    if os.environ.get(DEBUG_SWITCH) == "1":
        import traceback

        click.echo(clean("".join(traceback.format_exception(error))), err=True, nl=False)
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
    from agent_eval.text.escape import clean

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


def _without_secrets() -> Callable[[str], str]:
    """Replaces the values of environment variables whose names say that they are secret."""
    from agent_eval.storage.secret_names import SHORTEST, is_secret_name

    if not any(is_secret_name(name) and len(value.strip()) >= SHORTEST for name, value in os.environ.items()):
        return lambda text: text
    from agent_eval.storage.redaction import Redactor  # takes as long to import as all the rest

    return Redactor.from_environment(os.environ).redact_text


def _redacted(error: AgentEvalError, clean: Callable[[str], str]) -> AgentEvalError:
    """The error without secrets: an agent, a path or a setting that is wrong may have brought one along."""
    error.message = clean(error.message)
    error.details = {name: _redacted_value(value, clean) for name, value in error.details.items()}
    return error


def _redacted_value(value: Any, clean: Callable[[str], str]) -> Any:
    if isinstance(value, dict):
        return {clean(str(name)): _redacted_value(inner, clean) for name, inner in value.items()}
    if isinstance(value, (list, tuple)):
        return [_redacted_value(inner, clean) for inner in value]
    return value if value is None or isinstance(value, (bool, int, float)) else clean(str(value))


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
