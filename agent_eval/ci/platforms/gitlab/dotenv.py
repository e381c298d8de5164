"""Values for later jobs, as the file of variables that GitLab reads from `artifacts:reports:dotenv`.

A line is `NAME=value`, without quotation marks or escapes. So a value keeps only characters that can neither
begin another line nor be expanded as a variable of another job, and the names are this program's own.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

MAX_VALUE = 300
"""GitLab takes five KiB in all."""

_UNSAFE = re.compile(r"[^A-Za-z0-9 ._:/@+=,#?&~-]")


def dotenv(values: Mapping[str, str]) -> str:
    """Write outputs of the job as variables, one on each line.

    Example:
        >>> dotenv({"pass-rate": "0.95", "report": "out/a\\nPATH=x"})
        'AGENT_EVAL_RESULT_PASS_RATE=0.95\\nAGENT_EVAL_RESULT_REPORT=out/a_PATH=x\\n'
    """
    return "".join(f"{_variable(name)}={_value(value)}\n" for name, value in values.items())


def _variable(name: str) -> str:
    """Name a variable so that no later job takes it for an input of this program."""
    return f"AGENT_EVAL_RESULT_{re.sub(r'[^A-Z0-9]', '_', name.upper())}"


def _value(text: str) -> str:
    return _UNSAFE.sub("_", text.strip())[:MAX_VALUE]
