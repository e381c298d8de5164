"""What the user asked for, gathered from flags, environment and file, and checked before anything runs."""

from __future__ import annotations

import difflib
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from agent_eval.ci.inputs import CONFIG_FILE, INPUT_BY_NAME, INPUTS, THRESHOLDS, Input
from agent_eval.contracts import Thresholds
from agent_eval.contracts.policy import Preset
from agent_eval.errors import InvalidInput, UsageError
from agent_eval.storage.yaml_reader import parse_yaml, read_yaml

_COMMENT_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
_TRUE = frozenset({"true", "yes", "on", "1"})
_FALSE = frozenset({"false", "no", "off", "0"})
_LONGEST = 100_000


@dataclass(frozen=True, slots=True)
class Given:
    """A value as text, and where it came from (for error messages)."""

    text: str
    source: str


@dataclass(frozen=True, kw_only=True)
class Settings:
    """The checked settings of one job. Fields are named as the inputs; see `ci.inputs` for their meaning."""

    suite: tuple[str, ...]
    judges: tuple[str, ...]
    judge_config: Path | None
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
        flags: Values of the command line by input name; absent or empty when not given.
        environ: The environment.
        file: `agent-eval.yml`; need not exist, None for no file at all.
        content: What the file says, where that is known already.

    Raises:
        InvalidInput: The file is not a flat mapping of known inputs.
    """
    from_file: dict[str, str] = {}
    if file is not None and (content is not None or file.is_file()):
        from_file = _read_file(file, content)
    file_name = file.name if file is not None else CONFIG_FILE
    values: dict[str, Given] = {}
    for row in INPUTS:
        places = (
            (flags.get(row.name, ""), row.flag),
            (environ.get(row.runner_variable, ""), f"input {row.name}"),
            (environ.get(row.variable, ""), row.variable),
            (from_file.get(row.name, ""), f"{row.name} in {file_name}"),
            (row.default, "default"),
        )
        values[row.name] = next(
            (Given(text.strip(), source) for text, source in places if text.strip()), Given("", "default")
        )
    return values


def settings_from(values: Mapping[str, Given], *, complete: bool = True) -> Settings:
    """Check every value and build the settings.

    Args:
        values: From `gather`.
        complete: Whether everything that the job needs must be there. Before `agent-eval.yml` is read, it
            need not.

    Raises:
        UsageError: A value cannot be read, or a required one is missing; names the input and its source.
    """
    parsed = {row.field: _parse(row, values[row.name]) for row in INPUTS}
    if complete and not parsed["suite"]:
        raise UsageError(
            "No suite is given.",
            remedy=f"Give input `suite`, the flag --suite, or `suite` in {CONFIG_FILE}.",
            field="suite",
        )
    if not _COMMENT_ID.fullmatch(parsed["comment_id"]):
        raise _wrong(
            values["comment-id"],
            INPUT_BY_NAME["comment-id"],
            "letters, digits, dots, hyphens and underscores, at most 64",
        )
    given = {name: parsed.pop(name) for name in THRESHOLDS}
    return Settings(**parsed, thresholds=Thresholds(**given))


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
    if isinstance(value, list) and row.kind == "lines" and all(isinstance(item, str) for item in value):
        return "\n".join(value)
    if value is None:
        return ""
    if isinstance(value, (str, int, float)):
        return str(value)
    raise InvalidInput(
        f"{file}: `{name}` is neither text nor a number{' nor a list of texts' * (row.kind == 'lines')}.",
        remedy="Write it as in the list of inputs.",
        file=str(file),
        field=name,
    )


def _parse(row: Input, given: Given) -> Any:
    text = given.text
    if len(text) > _LONGEST or not all(char.isprintable() or char in "\n\r\t" for char in text):
        raise _wrong(given, row, "printable text of reasonable length", shown=False)
    match row.kind:
        case "lines":
            separated = text.replace(",", "\n") if row.name == "judges" else text
            return tuple(line.strip() for line in separated.splitlines() if line.strip())
        case "share":
            return _share(row, given) if text else None
        case "count" | "integer":
            return _whole(row, given) if text else None
        case "switch":
            return _switch(row, given)
        case "choice":
            if not text and not row.default:
                return None
            if text not in row.choices:
                raise _wrong(given, row, " or ".join(row.choices))
            return text
    if "\n" in text or "\r" in text:
        raise _wrong(given, row, "a single line", shown=False)
    if row.kind == "path":
        return Path(text) if text else None
    return text


def _share(row: Input, given: Given) -> float:
    try:
        number = float(given.text)
    except ValueError:
        number = math.nan
    if not 0 <= number <= 1:
        raise _wrong(given, row, "a number from 0 to 1, such as 0.95")
    return number


def _whole(row: Input, given: Given) -> int:
    text = given.text
    least = 0 if row.kind == "count" else 1
    if not (text.isascii() and text.isdigit() and len(text) <= 18 and int(text) >= least):
        raise _wrong(given, row, f"a whole number from {least}")
    return int(text)


def _switch(row: Input, given: Given) -> bool:
    word = given.text.lower()
    if word not in _TRUE | _FALSE:
        raise _wrong(given, row, "true or false")
    return word in _TRUE


def _wrong(given: Given, row: Input, wanted: str, *, shown: bool = True) -> UsageError:
    # A secret is never repeated, not even a broken one.
    value = f" {given.text[:80]!r}" if shown and row.kind != "secret" else ""
    return UsageError(
        f"{row.name}:{value} is not {wanted} (from {given.source}).",
        remedy=f"Set `{row.name}` to {wanted}." if shown else "Correct the value.",
        field=row.name,
    )
