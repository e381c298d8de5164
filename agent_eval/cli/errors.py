"""Report an error once: prose on a terminal, otherwise one line of JSON; and choose the exit code."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any

import click

from agent_eval.cli.output import print_error
from agent_eval.config.gone import gone_option, moved_option
from agent_eval.errors import AgentEvalError, ExitCode, NotEvaluable, StorageError, words_of

INTERRUPTED = 130
"""Exit code after Ctrl-C: 128 + SIGINT."""
TERMINATED = 143
"""Exit code after SIGTERM: 128 + SIGTERM."""
BROKEN_PIPE = 141
"""Exit code when the reader of stdout has closed it: 128 + SIGPIPE."""

OWNS_PROCESS = "agent_eval.owns_process"
"""Key of the root context's `meta`: whether the process ends with the command."""

ALWAYS_PROSE = (("ci",), ("demo",))
"""Commands whose output is a log for people, even if it is not a terminal."""

DEBUG_SWITCH = "AGENT_EVAL_DEBUG"


def report(error: Exception, arguments: Sequence[str]) -> int:
    """Print an error on stderr and return the exit code.

    Any exception but an error of agent-eval or of click is a bug. `arguments` is the command line, whose
    `--format` chooses JSON or prose.
    """
    clean = _secret_remover()
    known = _redacted(_agent_eval_error(error), clean)
    if os.environ.get(DEBUG_SWITCH) == "1":
        import traceback

        print_error(clean("".join(traceback.format_exception(error))), nl=False)
    text = _line(known) if wants_json(arguments) else prose(known)
    if isinstance(error, click.UsageError) and error.ctx is not None and not wants_json(arguments):
        # All of the help if no command was named, else the usage line.
        is_bare = isinstance(error, click.exceptions.NoArgsIsHelpError)
        text = f"{error.ctx.get_help()}\n\n{text}" if is_bare else f"{error.ctx.get_usage()}\n{text}"
    print_error(text)
    return int(known.exit_code)


class Terminated(SystemExit):
    """SIGTERM was received. Raised in the main thread, so that `finally` blocks remove half-written files."""


class Ended(NotEvaluable):
    """A command ended before it was done, because of a signal or a limit."""

    code = "ended"


def report_end(error: AgentEvalError, arguments: Sequence[str], *, text: str | None = None) -> None:
    """Print that a command ended early, as the last line of stderr.

    `text` is what people read instead of the error's message.
    """
    known = _redacted(error, _secret_remover())
    print_error(_line(known) if wants_json(arguments) else text or known.message)


def _line(error: AgentEvalError) -> str:
    import json

    return json.dumps(error.to_json(), default=str)


def wants_json(arguments: Sequence[str]) -> bool:
    """Tell whether errors are a line of JSON: as `--format` says, else where stderr is no terminal."""
    # From the raw arguments, since click may have failed to parse them.
    chosen = [argument.partition("=")[2] for argument in arguments if argument.startswith("--format=")]
    chosen += [value for flag, value in pairwise(arguments) if flag == "--format"]
    if chosen:
        return chosen[-1] == "json"
    return not sys.stderr.isatty() and tuple(arguments[:1]) not in ALWAYS_PROSE


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
    from agent_eval.storage.redaction_rules import SHORTEST, is_secret_name

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


def _agent_eval_error(error: Exception) -> AgentEvalError:
    """Convert an exception: errors of click become usage errors, unexpected exceptions internal errors."""
    if isinstance(error, click.UsageError):
        return _usage_error(error)
    if isinstance(error, (AgentEvalError, OSError)):
        try:
            os.getcwd()
        except OSError:
            return StorageError(
                "the working directory does not exist any more", remedy="Change to a directory that exists."
            )
    if isinstance(error, AgentEvalError):
        return error
    if isinstance(error, click.ClickException):
        return _CommandLineError(error.format_message())
    if isinstance(error, MemoryError):
        return NotEvaluable(
            "there is no memory left", remedy="Give it more memory, or run fewer cases or workers at once."
        )
    if isinstance(error, OSError):  # no other code has described it
        place = error.filename if isinstance(error.filename, str) else None
        remedy = "Check the limits of memory, processes and open files, and the disk."
        # As the tempfile module words it.
        if place is None and "temporary directory" in (error.strerror or ""):
            remedy = (
                "Name a directory that can be written in TMPDIR; in a container, mount one: --tmpfs /tmp."
            )
        return StorageError(
            f"the operating system refused{f' {place}' if place else ''}: {error.strerror or error}",
            remedy=remedy,
            file=place,
        )
    return _InternalError(
        f"An internal error occurred: {words_of(error)}",
        remedy=f"This is a bug. Run again with {DEBUG_SWITCH}=1 and report the traceback.",
    )


def _usage_error(error: click.UsageError) -> AgentEvalError:
    command = error.ctx.command_path if error.ctx else "agent-eval"
    details: dict[str, Any] = {"command": command}
    words = error.format_message()
    if isinstance(error, click.NoSuchOption):
        details["field"] = error.option_name
        name = error.option_name.lstrip("-")
        if (gone := gone_option(name) or _key(name, error.ctx)) is not None:
            return gone
    elif isinstance(error, click.BadParameter) and (parameter := error.param) is not None:
        # The name by which it was given: of several flags, the one on the command line.
        arguments = error.ctx.find_root().obj if error.ctx is not None else None
        typed = [str(argument).partition("=")[0] for argument in arguments or ()]
        flags = parameter.opts or [parameter.name or ""]
        details["field"] = flag = next((flag for flag in flags if flag in typed), flags[0])
        words = words.replace(f"'{parameter.opts[0]}'", f"'{flag}'", 1) if parameter.opts else words
    if isinstance(error, click.exceptions.NoArgsIsHelpError):
        remedy = f"Choose one from `{command} --help`."
        return _CommandLineError(f"{command} needs a command", remedy=remedy, **details)
    remedy = f"See `{command} --help`."
    if error.message.startswith("Got unexpected extra argument"):
        # The words in its brackets: a shell expands globs to files.
        arguments = error.message.partition("(")[2].rstrip(")").split()
        if any(os.path.exists(word) for word in arguments):
            hint = "Quote a glob, such as 'suites/*.json': a shell that expands it adds arguments."
            remedy = f"{hint} {remedy}"
    return _CommandLineError(words, remedy=remedy, **details)


def _key(name: str, ctx: click.Context | None) -> AgentEvalError | None:
    """The error for what is no option of a command, but a key of the file that it reads."""
    path = getattr(ctx.command, "path", None) if ctx is not None else None
    if path is None:
        return None
    from agent_eval.config.table import settings_of

    known = path == "ci" or any(name in row.names for row in settings_of(path))
    return moved_option(name, f"--{name}") if known else None
