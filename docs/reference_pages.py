"""The reference pages that are made from the code when the site is built: inputs, schemas, Python."""

from __future__ import annotations

import importlib
import inspect
import json
import pkgutil
import re
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import agent_eval
from agent_eval.ci.config import INPUTS, OUTPUTS
from agent_eval.config.options import Option
from agent_eval.config.rows.file import KEYS

SCHEMAS = Path(agent_eval.__file__).parent / "schemas"
EXPORTED = ("agent_eval", "agent_eval.judges")
"""Packages whose exported names stand on the page of Python with all that their docstrings say."""

LISTED = ("agent_eval.operations", "agent_eval.contracts", "agent_eval.errors")
"""Packages and modules of whose functions and classes the page has the first sentence."""

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
        "The schemas are in `agent_eval/schemas/`. `agent-eval schema show` prints that of a suite, and",
        "`agent-eval init` writes those that editors use.",
    ]
    for path in sorted(SCHEMAS.glob("*.json")):
        schema = json.loads(path.read_text(encoding="utf-8"))
        required = set(schema.get("required", ()))
        lines += ["", f"## {path.name}", "", _text(schema.get("description", "")), ""]
        lines += ["| field | type | required | |", "|---|---|---|---|"]
        for name, field in schema.get("properties", {}).items():
            mark = "yes" if name in required else ""
            lines.append(f"| `{name}` | {_type(field)} | {mark} | {_cell(field.get('description', ''))} |")
    return "\n".join(lines) + "\n"


def _type(field: dict[str, Any]) -> str:
    """Name the type of a field of a JSON Schema in a few words."""
    if "$ref" in field:
        return f"`{field['$ref'].rpartition('/')[2]}`"
    if "enum" in field:
        return " or ".join(f"`{_cell(json.dumps(value))}`" for value in field["enum"])
    if "const" in field:
        return f"`{_cell(json.dumps(field['const']))}`"
    for key in ("anyOf", "oneOf", "allOf"):
        if key in field:
            return " or ".join(dict.fromkeys(_type(choice) for choice in field[key]))
    kind = field.get("type", "any")
    if kind == "array":
        return f"list of {_type(field.get('items', {}))}"
    return kind if isinstance(kind, str) else " or ".join(kind)


def python() -> str:
    """Make the page of the Python API: what is exported in full, and a line for each other name."""
    lines = [
        "# Python",
        "",
        "What `agent_eval`, `agent_eval.judges` and `agent_eval.contracts` export stays the same within a",
        "major version. Import names from the module that their heading says; `help(NAME)` has the rest.",
    ]
    for package in map(importlib.import_module, EXPORTED):
        lines += ["", f"## {package.__name__}", "", _first_paragraph(package)]
        for name in package.__all__:
            member = getattr(package, name)
            if inspect.isfunction(member) or inspect.isclass(member):
                lines += ["", f"### {name} {{#{package.__name__}.{name}}}", "", *_signature(name, member), ""]
                lines += _docstring(inspect.getdoc(member) or "")
    for place in LISTED:
        lines += ["", f"## {place}", "", "| name | |", "|---|---|"]
        for module in _modules(place):
            within = f"{module.__name__}.".removeprefix(f"{place}.")
            lines += [f"| `{within}{name}` | {_sentence(member)} |" for name, member in _public(module)]
    return "\n".join(lines) + "\n"


def _sentence(member: Any) -> str:
    return re.split(r"(?<=\.) ", _cell(_first_paragraph(member)), maxsplit=1)[0]


def _modules(name: str) -> Iterator[ModuleType]:
    module = importlib.import_module(name)
    yield module
    if hasattr(module, "__path__"):
        for found in pkgutil.walk_packages(module.__path__, f"{name}."):
            yield importlib.import_module(found.name)


def _public(module: ModuleType) -> Iterator[tuple[str, Any]]:
    """Yield the functions and classes that a module itself defines."""
    for name, member in vars(module).items():
        is_code = inspect.isfunction(member) or inspect.isclass(member)
        if is_code and not name.startswith("_") and member.__module__ == module.__name__:
            yield name, member


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
