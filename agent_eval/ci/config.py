"""What the user asked for, gathered from flags, environment and file, and checked before anything runs."""

from __future__ import annotations

import difflib
import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from agent_eval.agents.catalog import kind_of
from agent_eval.ci.inputs import (
    AGENT_INPUTS,
    CONFIG_FILE,
    INPUT_BY_NAME,
    INPUTS,
    PLATFORM_INPUTS,
    runner_variables,
)
from agent_eval.ci.platforms.catalog import platform_specs
from agent_eval.config.options import Option
from agent_eval.contracts import Thresholds
from agent_eval.contracts.policy import Preset
from agent_eval.contracts.trials import case_policy
from agent_eval.errors import InvalidInput, UsageError
from agent_eval.storage.yaml import parse_yaml, read_yaml

_TRUE = frozenset({"true", "yes", "on", "1"})
_FALSE = frozenset({"false", "no", "off", "0"})
_LONGEST = 100_000
_LARGEST_AMOUNT = 1e9
_MOST_PARALLEL = 256


@dataclass(frozen=True, slots=True)
class Given:
    """A value as text, and where it came from (for error messages)."""

    text: str
    source: str


def parse_value(row: Option, given: Given) -> Any:
    """The value that the text stands for; None where it is empty and its kind has no empty value.

    Raises:
        UsageError: It stands for none; names the input and where it came from.
    """
    if len(given.text) > _LONGEST or not all(char.isprintable() or char in "\n\r\t" for char in given.text):
        raise wrong_value(given, row, "printable text of reasonable length", shown=False)
    return _PARSERS.get(row.kind, _line)(row, given)


def wrong_value(given: Given, row: Option, wanted: str, *, shown: bool = True) -> UsageError:
    """The error for a value that is not what it must be. No secret is repeated, not even a broken one."""
    value = f" {given.text[:80]!r}" if shown and row.kind != "secret" else ""
    return UsageError(
        f"{row.name}:{value} is not {wanted} (from {given.source}).",
        remedy=f"Set `{row.name}` to {wanted}." if shown else "Correct the value.",
        field=row.name,
    )


def _line(row: Option, given: Given) -> str:
    if "\n" in given.text or "\r" in given.text:
        raise wrong_value(given, row, "a single line", shown=False)
    return given.text


def _path(row: Option, given: Given) -> Path | None:
    return Path(text) if (text := _line(row, given)) else None


def _script(row: Option, given: Given) -> str:  # noqa: ARG001 - the table's
    return given.text


def _lines(row: Option, given: Given) -> tuple[str, ...]:
    separated = given.text.replace(",", "\n") if row.kind == "list" else given.text
    return tuple(line.strip() for line in separated.splitlines() if line.strip())


def _choice(row: Option, given: Given) -> str | None:
    if not given.text and not row.default:
        return None
    if given.text not in row.choices:
        raise wrong_value(given, row, " or ".join(row.choices))
    return given.text


def _share(row: Option, given: Given) -> float | None:
    number = _number(given)
    if number is not None and not 0 <= number <= 1:
        raise wrong_value(given, row, "a number from 0 to 1, such as 0.95")
    return number


def _amount(row: Option, given: Given) -> float | None:
    number = _number(given)
    if number is not None and not 0 < number <= _LARGEST_AMOUNT:
        raise wrong_value(given, row, "a number above 0")
    return number


def _number(given: Given) -> float | None:
    """NaN for what is no number; it lies within no bounds."""
    try:
        return float(given.text) if given.text else None
    except ValueError:
        return math.nan


def _whole(row: Option, given: Given) -> int | None:
    text = given.text
    least = 0 if row.kind == "count" else 1
    if text and not (text.isascii() and text.isdigit() and len(text) <= 18 and int(text) >= least):
        raise wrong_value(given, row, f"a whole number from {least}")
    return int(text) if text else None


def _parallel(row: Option, given: Given) -> int | None:
    """None for `auto`."""
    text = given.text
    if text == "auto":
        return None
    if not (text.isascii() and text.isdigit() and len(text) <= 3 and 1 <= int(text) <= _MOST_PARALLEL):
        raise wrong_value(given, row, f"auto or a number from 1 to {_MOST_PARALLEL}")
    return int(text)


def _switch(row: Option, given: Given) -> bool:
    word = given.text.lower()
    if word not in _TRUE | _FALSE:
        raise wrong_value(given, row, "true or false")
    return word in _TRUE


def _case_policy(row: Option, given: Given) -> str:
    try:
        return case_policy(given.text).text
    except InvalidInput:
        raise wrong_value(given, row, "all, any, majority, or pass_rate>=x with x from 0 to 1") from None


_PARSERS: Mapping[str, Callable[[Option, Given], Any]] = {
    "lines": _lines,
    "list": _lines,
    "script": _script,
    "path": _path,
    "choice": _choice,
    "share": _share,
    "amount": _amount,
    "count": _whole,
    "integer": _whole,
    "parallel": _parallel,
    "switch": _switch,
    "case policy": _case_policy,
}
"""By kind; every other kind is a line of text."""


NAMED_BY = ("agent-command", "agent-url", "agent-openai-base-url", "agent")
"""Inputs of which one, and only one, says which agent it is."""

MOST_TRIALS = 1000

_VARIABLE = re.compile(r"[^=\0\s]+")


@dataclass(frozen=True, kw_only=True)
class AgentSettings:
    """An agent and how it is run. Fields are named as the inputs; see `ci.inputs` for their meaning."""

    agent_command: str
    agent_url: str
    agent_openai_base_url: str
    agent: str
    agent_model: str
    system_prompt: Path | None
    agent_env: tuple[str, ...]
    agent_header: tuple[str, ...]
    setup_command: str
    setup_env: tuple[str, ...]
    setup_timeout_seconds: float
    trials: int
    max_repairs: int
    parallel: int | None
    command_timeout_seconds: float
    max_output_bytes: int | None
    max_steps: int | None
    max_tool_calls: int | None
    max_case_seconds: float | None
    max_case_tokens: int | None
    max_case_cost: float | None
    max_run_seconds: float | None
    max_run_cost: float | None
    strict_side_effects: bool
    replay: Path | None

    @property
    def spec(self) -> str:
        """The agent as `agents.catalog.open_agent` wants it."""
        if self.agent_command:
            return f"command:{self.agent_command}"
        if self.agent_openai_base_url:
            return f"openai:{self.agent_model}"
        return self.agent_url or self.agent

    @property
    def headers(self) -> dict[str, str]:
        """Name of each header to the environment variable that has its value."""
        pairs = (line.partition("=") for line in self.agent_header)
        return {name.strip(): variable.strip() for name, _, variable in pairs}


def agent_settings(values: Mapping[str, Any], given: Mapping[str, str]) -> AgentSettings | None:
    """The agent that the values name; None where they name none, and recorded traces are judged.

    Args:
        values: Parsed values of `AGENT_INPUTS`, by field.
        given: Those that somebody gave, by input name: where each came from.

    Raises:
        UsageError: Several agents, settings for an agent without one, or a value that no agent can use.
    """
    named = [name for name in NAMED_BY if name in given]
    if not named:
        stray = next((row.name for row in AGENT_INPUTS if row.name in given), None)
        if stray is None:
            return None
        raise UsageError(
            f"{stray} is for running an agent, and none is named (from {given[stray]}).",
            remedy=f"Give one of {', '.join(NAMED_BY)}, or leave it out.",
            field=stray,
        )
    if len(named) > 1:
        raise UsageError(
            f"Several agents are named: by {' and '.join(named)}.",
            remedy="Give one of them; several agents are several steps.",
            field=named[1],
        )
    settings = AgentSettings(**values)
    _check_kind(settings)
    _check_names(settings)
    if settings.trials > MOST_TRIALS:
        raise UsageError(
            f"trials: {settings.trials} is more than {MOST_TRIALS}.",
            remedy=f"Set `trials` to at most {MOST_TRIALS}.",
            field="trials",
        )
    return settings


def _check_kind(settings: AgentSettings) -> None:
    kind = kind_of(settings.agent)
    if kind is not None and kind.in_this_process:
        raise UsageError(
            f"agent: {settings.agent!r} would run in the process that holds the job's token.",
            remedy="Give `agent-command` a program that calls the function.",
            field="agent",
        )
    address = kind_of(settings.agent_url)
    if settings.agent_url and address is not None and not address.schemes:
        raise UsageError(
            f"agent-url: {settings.agent_url!r} is no address.",
            remedy="Write it as https://host/path, or give it as `agent`.",
            field="agent-url",
        )


def _check_names(settings: AgentSettings) -> None:
    for name, listed in (("agent-env", settings.agent_env), ("setup-env", settings.setup_env)):
        for variable in listed:
            if not _VARIABLE.fullmatch(variable):
                # What stands there by mistake may be a secret.
                raise UsageError(
                    f"{name} has something that is not the name of a variable.",
                    remedy=f"Write names into `{name}`, one a line; the values come from the step's `env`.",
                    field=name,
                )
    for line in settings.agent_header:
        header, separator, variable = line.partition("=")
        if not (separator and header.strip() and _VARIABLE.fullmatch(variable.strip())):
            raise UsageError(
                "agent-header has a line that is not of the form NAME=VARIABLE.",
                remedy="Write for example `Authorization=AGENT_AUTHORIZATION`, and set that variable.",
                field="agent-header",
            )


_COMMENT_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
_LISTED = frozenset({"lines", "list"})
_OF_THE_COMMENT = ("report-title", "comment", "comment-id", *(row.name for row in PLATFORM_INPUTS))
_ALMOST = 0.85
DEFAULT = "default"
"""The source of a value that nobody gave."""


@dataclass(frozen=True, kw_only=True)
class Settings:
    """The checked settings of one job. Fields are named as the inputs; see `ci.inputs` for their meaning."""

    suite: tuple[str, ...]
    judges: tuple[str, ...]
    judge_config: Path | None
    case_policy: str
    agent: AgentSettings | None
    thresholds: Thresholds
    policy: Path | None
    preset: Preset | None
    registry_path: Path
    baseline_name: str
    baseline: str
    baseline_artifact: str
    baseline_branch: str
    baseline_run_id: int | None
    require_baseline: bool
    on_case_removed: str
    out: Path
    report_title: str
    comment: str
    comment_id: str
    fail_on: str
    platform: Mapping[str, Any] = field(repr=False)
    """Values of the rows of every platform, by field; each platform reads its own."""

    def platform_values(self, rows: tuple[Option, ...]) -> dict[str, Any]:
        """Select the values of one platform's rows, by field."""
        return {row.field: self.platform[row.field] for row in rows}

    @property
    def secrets(self) -> tuple[str, ...]:
        """Values that nothing the job writes may hold, and no agent may see."""
        return tuple(self.platform[row.field] for row in PLATFORM_INPUTS if row.kind == "secret")


def gather(
    flags: Mapping[str, str], environ: Mapping[str, str], file: Path | None, *, content: bytes | None = None
) -> dict[str, Given]:
    """The first non-empty value of every input, by input name. See `ci.inputs` for the order.

    Args:
        flags: Values of the command line by input name; absent when not given.
        environ: The environment.
        file: `agent-eval.yml`; need not exist, None for no file at all.
        content: What the file says, where that is known already.

    Raises:
        InvalidInput: The file is not a flat mapping of known inputs.
        UsageError: The flag of a threshold is empty: a variable that is not set must not remove a rule.
    """
    for row in INPUTS:
        if row.part == "thresholds" and row.name in flags and not flags[row.name].strip():
            raise UsageError(
                f"{row.flag} is empty.",
                remedy="Give it a number, or leave the flag out; check the variable it is taken from.",
                field=row.name,
            )
    from_file: dict[str, str] = {}
    if file is not None and (content is not None or file.is_file()):
        from_file = _read_file(file, content)
    file_name = file.name if file is not None else CONFIG_FILE
    return {row.name: _first(row, flags, environ, from_file, file_name) for row in INPUTS}


def misspelt(environ: Mapping[str, str]) -> list[str]:
    """A sentence for every variable that is almost one of ours, and so was not read."""
    found = []
    prefixes = {"AGENT_EVAL_": [row.variable for row in INPUTS]}
    for spec in platform_specs():
        if spec.input_prefix:
            prefixes[spec.input_prefix] = [spec.input_variable(row) for row in INPUTS]
    for prefix, ours in prefixes.items():
        words = {name.removeprefix(prefix).replace("-", "_"): name for name in ours}
        for name in sorted(environ):
            if not name.startswith(prefix) or name in ours:
                continue
            word = name.removeprefix(prefix).replace("-", "_")
            if near := difflib.get_close_matches(word, words, n=1, cutoff=_ALMOST):
                found.append(f"The environment variable {name} is not read. {words[near[0]]} would be.")
    return found


def gather_for_comment(
    flags: Mapping[str, str], environ: Mapping[str, str], file: Path, content: bytes | None
) -> dict[str, Given]:
    """What says which comment is ours and who writes it; everything else has its default.

    With it the comment can say that another setting is wrong, instead of saying what an earlier run found.

    Args:
        flags: As for `gather`.
        environ: As for `gather`.
        file: The name of `agent-eval.yml`.
        content: What it says; None where there is none.

    Raises:
        InvalidInput: The file cannot be read as YAML.
    """
    read = parse_yaml(content, source=str(file)) if content is not None else None
    stated = read if isinstance(read, dict) else {}
    from_file = {name: _as_text(file, name, stated[name]) for name in _OF_THE_COMMENT if name in stated}
    return {
        row.name: _first(row, flags, environ, from_file, file.name)
        if row.name in _OF_THE_COMMENT
        else Given(row.default, DEFAULT)
        for row in INPUTS
    }


def _first(
    row: Option,
    flags: Mapping[str, str],
    environ: Mapping[str, str],
    from_file: Mapping[str, str],
    file_name: str,
) -> Given:
    places = (
        (flags.get(row.name, ""), row.flag),
        *((environ.get(name, ""), f"input {row.name}") for name in runner_variables(row)),
        (environ.get(row.variable, ""), row.variable),
        (from_file.get(row.name, ""), f"{row.name} in {file_name}"),
        (row.default, DEFAULT),
    )
    return next((Given(text.strip(), source) for text, source in places if text.strip()), Given("", DEFAULT))


def settings_from(values: Mapping[str, Given], *, complete: bool = True) -> Settings:
    """Check every value and build the settings.

    Args:
        values: From `gather`.
        complete: Whether everything that the job needs must be there. Before `agent-eval.yml` is read, it
            need not.

    Raises:
        UsageError: A value cannot be read, or a required one is missing; names the input and its source.
    """
    parsed: dict[str, dict[str, Any]] = {"job": {}, "thresholds": {}, "agent": {}, "platform": {}}
    for row in INPUTS:
        parsed[_section(row)][row.field] = parse_value(row, values[row.name])
    job = parsed["job"]
    if complete and not job["suite"]:
        raise UsageError(
            "No suite is given.",
            remedy=f"Give input `suite`, the flag --suite, or `suite` in {CONFIG_FILE}.",
            field="suite",
        )
    if not _COMMENT_ID.fullmatch(job["comment_id"]):
        raise wrong_value(
            values["comment-id"],
            INPUT_BY_NAME["comment-id"],
            "letters, digits, dots, hyphens and underscores, at most 64",
        )
    given = {name: value.source for name, value in values.items() if value.source != DEFAULT}
    agent = agent_settings(parsed["agent"], given) if complete else None
    thresholds = Thresholds(**parsed["thresholds"])
    return Settings(**job, agent=agent, thresholds=thresholds, platform=parsed["platform"])


def _section(row: Option) -> str:
    if row in AGENT_INPUTS:
        return "agent"
    return row.part if row.part in ("thresholds", "platform") else "job"


def _read_file(file: Path, data: bytes | None) -> dict[str, str]:
    content = read_yaml(file) if data is None else parse_yaml(data, source=str(file))
    if content is None:
        return {}
    if not isinstance(content, dict):
        raise InvalidInput(
            f"{file} is not a mapping of inputs to values.",
            remedy="Write one `name: value` a line, such as `suite: suites/*.json`.",
            file=str(file),
        )
    return {name: _as_text(file, name, value) for name, value in content.items()}


def _as_text(file: Path, name: str, value: Any) -> str:
    row = INPUT_BY_NAME.get(name)
    if row is None or not row.in_file:
        near = difflib.get_close_matches(name, [known.name for known in INPUTS if known.in_file], n=1)
        why = "may not be set in a file" if row is not None else "is not an input"
        hint = f"Did you mean `{near[0]}`?" if near and row is None else "Remove it; see the list of inputs."
        raise InvalidInput(f"{file}: `{name[:80]}` {why}.", remedy=hint, file=str(file), field=name[:80])
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, list) and row.kind in _LISTED and all(isinstance(item, str) for item in value):
        return "\n".join(value)
    if value is None:
        return ""
    if isinstance(value, (str, int, float)):
        return str(value)
    raise InvalidInput(
        f"{file}: `{name}` is neither text nor a number{' nor a list of texts' * (row.kind in _LISTED)}.",
        remedy="Write it as in the list of inputs.",
        file=str(file),
        field=name,
    )
