"""The table of CI platforms, and what holds for all of them. A new platform is a module and one row here."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from importlib import import_module
from typing import TYPE_CHECKING, TextIO

from agent_eval.ci.platforms.spec import PlatformSettings, PlatformSpec
from agent_eval.processes.privacy import OF_THE_SIGNER

if TYPE_CHECKING:
    from agent_eval.ci.platforms.base import Platform, Reporter

PLATFORMS = (
    "agent_eval.ci.platforms.github:GitHub",
    "agent_eval.ci.platforms.gitlab:GitLab",
    "agent_eval.ci.platforms.buildkite:Buildkite",
    "agent_eval.ci.platforms.circleci:CircleCI",
    "agent_eval.ci.platforms.jenkins:Jenkins",
    "agent_eval.ci.platforms.local:LocalDirectory",
)
"""The `Platform` of each, as `module:Class`; a job runs on the first that detects itself."""


@cache
def platforms() -> tuple[type[Platform], ...]:
    """Load every platform, in the order of `PLATFORMS`."""
    rows = (row.split(":") for row in PLATFORMS)
    return tuple(getattr(import_module(module), name) for module, name in rows)


def platform_specs() -> tuple[PlatformSpec, ...]:
    """Name every platform's variables, limits and words, in the same order."""
    return tuple(row.spec for row in platforms())


def detected_platform(environ: Mapping[str, str]) -> type[Platform]:
    """Find the platform this job runs on."""
    return next(row for row in platforms() if row.spec.detect(environ))


def is_secret_of_a_job(variable: str) -> bool:
    """Whether any platform, also one that this job does not run on, or the signer keeps secrets in it."""
    return variable in OF_THE_SIGNER or any(spec.keeps_from_agents(variable) for spec in platform_specs())


def platform_for(settings: PlatformSettings, environ: Mapping[str, str], stream: TextIO) -> Platform:
    """Build the platform this job runs on."""
    return detected_platform(environ)(settings, environ, stream)


def reporter_for(environ: Mapping[str, str], stream: TextIO) -> Reporter | None:
    """Build the reporter that needs no settings; None where the caller reports errors itself."""
    reporter = detected_platform(environ).reporter
    return reporter(environ, stream) if reporter is not None else None
