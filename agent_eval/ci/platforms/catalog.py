"""Which platforms there are and how to tell where the job runs. A new one is a file and a row here."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from importlib import import_module
from typing import Any, TextIO

from agent_eval.ci.config import Settings
from agent_eval.ci.platforms.base import Platform, Teller


@dataclass(frozen=True, slots=True)
class Row:
    """A platform: its class, the environment variable that is `true` there (empty: everywhere), and who can
    be told there that the settings are wrong (empty: whoever called)."""

    name: str
    where: str
    variable: str
    teller: str = ""


PLATFORMS = (
    Row(
        "github",
        "agent_eval.ci.platforms.github.job:GitHub",
        "GITHUB_ACTIONS",
        "agent_eval.ci.platforms.github.step:GitHubStep",
    ),
    Row("local", "agent_eval.ci.platforms.local:Local", ""),
)


def platform_for(settings: Settings, environ: Mapping[str, str], stream: TextIO) -> Platform:
    """The platform this job runs on; the first row that fits."""
    made: Platform = _load(_row(environ).where)(settings, environ, stream)
    return made


def teller_for(environ: Mapping[str, str], stream: TextIO) -> Teller | None:
    """Who can be told there while there are no settings; None where that is whoever called."""
    where = _row(environ).teller
    made: Teller | None = _load(where)(environ, stream) if where else None
    return made


def _row(environ: Mapping[str, str]) -> Row:
    return next(row for row in PLATFORMS if not row.variable or environ.get(row.variable) == "true")


def _load(where: str) -> Any:
    module, _, name = where.partition(":")
    return getattr(import_module(module), name)
