"""What the user asked for, gathered from flags, environment and file, and checked before anything runs."""

from __future__ import annotations

import difflib
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from agent_eval.ci.agent_settings import AgentSettings, agent_settings
from agent_eval.ci.inputs import CONFIG_FILE, INPUT_BY_NAME, INPUTS
from agent_eval.ci.table import Input
from agent_eval.ci.values import Given, parse_value, wrong_value
from agent_eval.contracts import Thresholds
from agent_eval.contracts.policy import Preset
from agent_eval.errors import InvalidInput, UsageError
from agent_eval.storage.yaml_reader import parse_yaml, read_yaml

_COMMENT_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
_LISTED = frozenset({"lines", "list"})
_OF_THE_COMMENT = (
    "report-title",
    "comment",
    "comment-id",
    "comment-author",
    "github-token",
    "github-api-url",
)
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
    baseline_workflow: str
    baseline_run_id: int | None
    require_baseline: bool
    on_case_removed: str
    out: Path
    report_title: str
    comment: str
    comment_id: str
    comment_author: str
    fail_on: str
    github_api_url: str
    github_token: str = field(repr=False)


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
    for prefix, ours in (
        ("AGENT_EVAL_", [row.variable for row in INPUTS]),
        ("INPUT_", [row.runner_variable for row in INPUTS]),
    ):
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
    row: Input,
    flags: Mapping[str, str],
    environ: Mapping[str, str],
    from_file: Mapping[str, str],
    file_name: str,
) -> Given:
    places = (
        (flags.get(row.name, ""), row.flag),
        (environ.get(row.runner_variable, ""), f"input {row.name}"),
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
    parsed: dict[str, dict[str, Any]] = {"job": {}, "thresholds": {}, "agent": {}}
    for row in INPUTS:
        parsed[row.part][row.field] = parse_value(row, values[row.name])
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
    return Settings(**job, agent=agent, thresholds=Thresholds(**parsed["thresholds"]))


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
