"""What the files for CI platforms say about inputs, from the table that action.yml is made from."""

from __future__ import annotations

import json

import yaml

from agent_eval.ci.inputs import INPUT_BY_NAME
from agent_eval.ci.platforms.catalog import platform_specs
from agent_eval.config.options import CI, SECRET, Option
from agent_eval.config.table import options_of

IMAGE = "ghcr.io/your-organisation/agent-eval:v1"
"""Where the image lives until `init --image` or a person says it."""

FIRST = (
    ("suite", "suites/starter_suite.json"),
    ("judge-config", "config/judges.json"),
    ("min-pass-rate", "0.95"),
    ("preset", "pull-request"),
)
"""Inputs that the files to start from give, with their values: those of GitHub's workflow everywhere."""

NAMES_VARIABLES = frozenset({"variables", "headers"})
"""Kinds of inputs that name environment variables, which a container must be given as well."""


def inputs_on(*platforms: str) -> tuple[Option, ...]:
    """The inputs that a file for platforms offers: all but secrets, which are variables of the job alone."""
    own = tuple(row for spec in platform_specs() if spec.name in platforms for row in spec.inputs)
    return tuple(row for row in (*options_of(CI), *own) if row.kind not in SECRET)


def variable(name: str) -> str:
    """The environment variable of an input; fails for one that does not exist."""
    return INPUT_BY_NAME[name].variable


def first_inputs(indent: str, written: str, *, without: str = "") -> str:
    """The lines that give the first inputs but one. `written` is a line with `NAME` and `VALUE`."""
    lines = []
    for name, value in FIRST:
        if name == without:
            continue
        is_text = isinstance(yaml.safe_load(value), str)
        quoted = f"'{value}'" if "'VALUE'" in written else value if is_text else json.dumps(value)
        line = written.replace("'VALUE'", quoted).replace("VALUE", quoted).replace("NAME", variable(name))
        lines.append(f"{indent}{line}")
    return "\n".join(lines)


def as_yaml(value: object, indent: str) -> str:
    """A mapping as YAML, indented, without a line break at its end."""
    text = yaml.safe_dump(value, sort_keys=False, width=108 - len(indent), allow_unicode=True)
    return "\n".join(f"{indent}{line}" if line else line for line in text.rstrip().split("\n"))
