"""What the files for CI platforms say about inputs, from the table that action.yml is made from."""

import json

import yaml

from agent_eval.ci.config import INPUT_BY_NAME
from agent_eval.ci.platforms.catalog import platform_specs
from agent_eval.config.options import CI, SECRET, Option
from agent_eval.config.table import options_of

IMAGE = "ghcr.io/your-organisation/agent-eval:v1"
"""Where the image lives until `init --image` or a person says it."""

FIRST = (("suite", "suites/starter_suite.json"), ("min-pass-rate", "0.95"), ("preset", "pull-request"))
"""Inputs that a file for several jobs gives, with their values: one of them is no `agent-eval ci`."""

NAMES_VARIABLES = frozenset({"variables", "headers"})
"""Kinds of inputs that name environment variables, which a container must be given as well."""


def inputs_on(*platforms: str) -> tuple[Option, ...]:
    """The inputs that a file for platforms offers: all but secrets, which are variables of the job alone."""
    own = tuple(row for spec in platform_specs() if spec.name in platforms for row in spec.inputs)
    rows = (*options_of(CI), *own)
    return tuple(row for row in rows if row.commands and not row.hidden and row.kind not in SECRET)


def variable(name: str) -> str:
    """The environment variable of an input; fails for one that does not exist."""
    return INPUT_BY_NAME[name].variable


def first_inputs(indent: str) -> str:
    """The lines that give the first inputs, as YAML."""
    return "\n".join(
        f"{indent}{variable(name)}: {value if isinstance(yaml.safe_load(value), str) else json.dumps(value)}"
        for name, value in FIRST
    )


def as_yaml(value: object, indent: str) -> str:
    """A mapping as YAML, indented, without a line break at its end."""
    text = yaml.safe_dump(value, sort_keys=False, width=108 - len(indent), allow_unicode=True)
    return "\n".join(f"{indent}{line}" if line else line for line in text.rstrip().split("\n"))
