"""Report an error: one JSON object on stderr, or prose on a terminal; and choose the exit code."""

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
"""Exit code when the reader of stdout has closed it: 128 + SIGPIPE."""

OWNS_PROCESS = "agent_eval.owns_process"
"""Key of the root context's `meta`: whether the process ends with the command."""

ALWAYS_PROSE = frozenset({"ci", "demo"})
"""Commands whose output is a log for people, even if it is not a terminal."""

DEBUG_SWITCH = "AGENT_EVAL_DEBUG"


def report(error: Exception, arguments: Sequence[str]) -> int:
    """Print an error on stderr and return the exit code.

    Args:
        error: An error of agent-eval, an error of click, or any other exception, which is a bug.
        arguments: The command line; `--format` in it chooses JSON or prose.
    """
    clean = _secret_remover()
    known = _redacted(_agent_eval_error(error), clean)
    if os.environ.get(DEBUG_SWITCH) == "1":
        import traceback

        click.echo(clean("".join(traceback.format_exception(error))), err=True, nl=False)
    if wants_json(arguments):
        import json

        click.echo(json.dumps(known.to_json(), default=str), err=True)
    else:
        click.echo(_usage_text(error) + prose(known), err=True)
    return int(known.exit_code)


def wants_json(arguments: Sequence[str]) -> bool:
    """Tell whether errors are reported as JSON: by `--format`, or because stderr is not a terminal.

    Reads the raw arguments, since click may have failed to parse them.
    """
    output_format = "auto"
    for position, argument in enumerate(arguments):
        if argument == "--format" and position + 1 < len(arguments):
            output_format = arguments[position + 1]
        elif argument.startswith("--format="):
            output_format = argument.removeprefix("--format=")
    if output_format in ("json", "text"):
        return output_format == "json"
    if arguments and arguments[0] in ALWAYS_PROSE:
        return False
    return not sys.stderr.isatty()


def prose(error: AgentEvalError) -> str:
    """Format an error for people: what happened, where, and what to do next."""
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


def _secret_remover() -> Callable[[str], str]:
    """Return a function that replaces the values of environment variables whose names look secret."""
    from agent_eval.storage.secret_names import SHORTEST, is_secret_name

    if not any(is_secret_name(name) and len(value.strip()) >= SHORTEST for name, value in os.environ.items()):
        return lambda text: text
    from agent_eval.storage.redaction import Redactor  # importing it takes as long as all the rest

    return Redactor.from_environment(os.environ).redact_text


def _redacted(error: AgentEvalError, clean: Callable[[str], str]) -> AgentEvalError:
    """Replace secrets in an error: an invalid agent, path or setting may contain one."""
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


def _usage_text(error: Exception) -> str:
    """Make the text before a usage error: the usage line, or all of the help if no command was named."""
    if not isinstance(error, click.UsageError) or error.ctx is None:
        return ""
    if isinstance(error, click.exceptions.NoArgsIsHelpError):
        return f"{error.ctx.get_help()}\n\n"
    return f"{error.ctx.get_usage()}\n"


def _agent_eval_error(error: Exception) -> AgentEvalError:
    """Convert an exception: errors of click become usage errors, unexpected exceptions internal errors."""
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
