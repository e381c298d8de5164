"""Which platforms there are and how to tell where the job runs. A new one is a file and a row here."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from importlib import import_module
from typing import TextIO

from agent_eval.ci.platform import Platform
from agent_eval.ci.settings import Settings


@dataclass(frozen=True, slots=True)
class Row:
    """A platform: its class, and the environment variable that is `true` there (empty: everywhere)."""

    name: str
    where: str
    variable: str


PLATFORMS = (
    Row("github", "agent_eval.ci.github:GitHub", "GITHUB_ACTIONS"),
    Row("local", "agent_eval.ci.local:Local", ""),
)


def platform_for(settings: Settings, environ: Mapping[str, str], stream: TextIO) -> Platform:
    """The platform this job runs on; the first row that fits."""
    row = next(row for row in PLATFORMS if not row.variable or environ.get(row.variable) == "true")
    module, _, name = row.where.partition(":")
    made: Platform = getattr(import_module(module), name)(settings, environ, stream)
    return made
