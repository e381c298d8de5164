"""The reference pages that are made from the code when the site is built: inputs, schemas, Python."""

from __future__ import annotations

import importlib
import inspect
import json
import re
from pathlib import Path
from typing import Any

import agent_eval
from agent_eval.ci.config import INPUTS, OUTPUTS, SETTINGS
from agent_eval.ci.rules import LOWERED, OF_THE_AGENT
from agent_eval.config.options import Option
from agent_eval.config.rows.file import GRANTS, KEYS
from agent_eval.config.table import ROWS

SCHEMAS = Path(agent_eval.__file__).parent / "schemas"
EXPORTED = ("agent_eval", "agent_eval.judges")
"""Packages whose exported names stand on the page of Python with all that their docstrings say."""

OPERATIONS = (
    *("run.run_suite", "run_agent.run_agent", "rejudge.rejudge", "replay.replay", "compare.compare_packs"),
    *("gate.decide_on", "verify.verify"),
)
"""What a program may call of `agent_eval.operations`, of which the page has the first sentence."""

_SECTION = re.compile(r"^(Args|Returns|Raises|Yields|Attributes|Example|Examples):$")


def pages() -> dict[str, str]:
    """Make every page, by its path below docs/."""
    return {
        "reference/inputs.md": inputs(),
        "reference/schemas.md": schemas(),
        "reference/python.md": python(),
    }


def overview() -> str:
    """Make the list of pages that assistants read first (llmstxt.org), from the first page."""
    text = (Path(__file__).parent / "index.md").read_text(encoding="utf-8")
    title, summary, *sections = re.sub(r"^!\[[^\n]*\n\n", "", text, flags=re.MULTILINE).split("\n\n")
    quoted = "\n".join(f"> {line}" for line in summary.splitlines())
    return re.sub(r"\]\(([\w/.-]+)\.md", r"](\1.html", "\n\n".join([title, quoted, *sections]))


def inputs() -> str:
    """Make the page of the CI job's inputs and outputs."""
    lines = [
        "# Inputs of the CI job",
        "",
        "Each input is a flag of `agent-eval ci` (`--min-pass-rate`), an environment variable",
        "(`AGENT_EVAL_MIN_PASS_RATE`), a key of `agent-eval.yml` unless the table says otherwise, and an",
        "input of the action. A flag wins over a variable, and that over the file.",
        "",
        "| input | default | |",
        "|---|---|---|",
        *(_input(row) for row in INPUTS),
        "",
        "## Outputs",
        "",
        "| output | |",
        "|---|---|",
        *(f"| `{output.name}` | {_cell(output.description)} |" for output in OUTPUTS),
    ]
    return "\n".join(lines) + "\n"


def _input(row: Option) -> str:
    default = f"`{_cell(row.default)}`" if row.default else ""
    notes = "" if row.name in KEYS else " Not in `agent-eval.yml`."
    choices = f" One of {', '.join(f'`{choice}`' for choice in row.choices)}." if row.choices else ""
    return f"| `{row.name}` | {default} | {_cell(row.help)}{choices}{notes} |"


def schemas() -> str:
    """Make the page of the files' JSON Schemas."""
    lines = [
        "# Files and their JSON Schemas",
        "",
        "`agent_eval/schemas/` has them, with every field. `agent-eval schema show` prints that of a suite,",
        "`schema show config` that of `agent-eval.yml`, for editors.",
        "",
        "| file | what it describes |",
        "|---|---|",
    ]
    for path in sorted(SCHEMAS.glob("*.json")):
        schema = json.loads(path.read_text(encoding="utf-8"))
        about = schema.get("description") or "`agent-eval.yml`."
        lines.append(f"| `{path.name}` | {_first_sentence(about)} |")
    return "\n".join(lines) + "\n"


def keys() -> str:
    """Make the table of the keys of `agent-eval.yml` for the page that explains the file."""
    rows = {row.name: row for row in reversed(ROWS)} | {row.name: row for row in SETTINGS}
    groups = list(dict.fromkeys(key.partition(".")[0] for key in KEYS.values()))
    lines = ["| key | what it says | default | on a change |", "|---|---|---|---|"]
    for name in sorted(KEYS, key=lambda name: groups.index(KEYS[name].partition(".")[0])):
        row = rows[name]
        choices = f" One of {', '.join(f'`{choice}`' for choice in row.choices)}." if row.choices else ""
        unit = f" In {row.unit}." if row.unit in ("seconds", "bytes") else ""
        meaning = _cell(row.help.removesuffix(" Repeatable.")) + choices + unit
        default = f"`{_cell(row.default)}`" if row.default else ""
        if name != "judges.configuration":  # is written below each judge's name
            lines.append(f"| `{KEYS[name]}` | {meaning} | {default} | {_counts(row)} |")
    return "\n".join(lines) + "\n"


def _counts(row: Option) -> str:
    """Say whose version of a key counts on a change."""
    if row.part == "redaction":
        return "both"
    if row.part in LOWERED:
        return "main, or lower"
    return "change" if row.name in OF_THE_AGENT and row.name not in GRANTS else "main"


def python() -> str:
    """Make the page of the Python API: exports in full, and a line for what else is meant to be used."""
    lines = [
        "# Python",
        "",
        "What `agent_eval`, `agent_eval.judges` and `agent_eval.contracts` export stays the same within a",
        "major version. Import names from the module that their heading says; `help(NAME)` has the rest. The",
        "models of all files are in `agent_eval.contracts`, errors and exit codes in `agent_eval.errors`.",
    ]
    for package in map(importlib.import_module, EXPORTED):
        lines += ["", f"## {package.__name__}", "", _first_paragraph(package)]
        for name in package.__all__:
            member = getattr(package, name)
            if inspect.isfunction(member) or inspect.isclass(member):
                lines += ["", f"### {name} {{#{package.__name__}.{name}}}", "", *_signature(name, member), ""]
                lines += _docstring(inspect.getdoc(member) or "")
    lines += ["", "## agent_eval.operations", "", "| name | |", "|---|---|"]
    for name in OPERATIONS:
        module, _, function = name.partition(".")
        member = getattr(importlib.import_module(f"agent_eval.operations.{module}"), function)
        lines.append(f"| `{name}` | {_first_sentence(member.__doc__)} |")
    return "\n".join(lines) + "\n"


def _first_sentence(text: str | None) -> str:
    return re.split(r"(?<=\.) ", _cell((text or "").partition("\n\n")[0]), maxsplit=1)[0]


def _signature(name: str, member: Any) -> list[str]:
    try:
        signature = str(inspect.signature(member))
    except (ValueError, TypeError):
        return []
    if inspect.isclass(member) and len(signature) > 300:
        signature = "(…)"
    signature = re.sub(r" at 0x[0-9a-f]+", "", signature)
    return ["```python", f"{name}{signature}".replace("'", ""), "```"]


def _docstring(text: str) -> list[str]:
    """Set a docstring as markdown: sections as bold words, their entries as a list, examples as code."""
    lines: list[str] = []
    section, is_code = "", False
    for line in text.splitlines():
        heading = _SECTION.match(line)
        if heading or (is_code and line and not line.startswith("    ")):
            lines += ["```", ""] if is_code else []
            section, is_code = (heading[1] if heading else ""), False
            lines += ["", f"**{section}**", ""] if heading else [_text(line)]
            if section.startswith("Example"):
                lines.append("```python")
                is_code = True
        elif is_code:
            lines.append(line.removeprefix("    "))
        elif section and re.match(r"    \S", line):
            entry, colon, rest = line.strip().partition(": ")
            names_one = colon and " " not in entry.strip("*")
            lines.append(f"- `{entry}`: {_text(rest)}" if names_one else f"- {_text(line.strip())}")
        else:
            lines.append(f"    {_text(line.strip())}" if section and line.strip() else _text(line))
    return [*lines, "```"] if is_code else lines


def _first_paragraph(member: Any) -> str:
    text = (inspect.getdoc(member) or "").partition("\n\n")[0]
    return _text(" ".join(text.split()))


def _text(text: str) -> str:
    """Keep markdown from reading what code says as markup."""
    return text.replace("<", "&lt;")


def _cell(text: str) -> str:
    return _text(" ".join(text.split())).replace("|", "\\|")
