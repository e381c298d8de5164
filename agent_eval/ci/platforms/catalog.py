"""The table of CI platforms, and what holds for all of them. A new platform is a module and one row here."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from importlib import import_module
from typing import TYPE_CHECKING, Any, TextIO

from agent_eval.ci.platforms.spec import PlatformSettings, PlatformSpec
from agent_eval.processes.privacy import OF_THE_SIGNER

if TYPE_CHECKING:
    from agent_eval.ci.platforms.base import Platform, Reporter

PLATFORMS = (
    "agent_eval.ci.platforms.github:GITHUB",
    "agent_eval.ci.platforms.gitlab:GITLAB",
    "agent_eval.ci.platforms.buildkite:BUILDKITE",
    "agent_eval.ci.platforms.circleci:CIRCLECI",
    "agent_eval.ci.platforms.jenkins:JENKINS",
    "agent_eval.ci.platforms.local:LOCAL",
)
"""The `PlatformSpec` of each, as `module:NAME`; a job runs on the first that detects itself."""


@cache
def platform_specs() -> tuple[PlatformSpec, ...]:
    """Load every platform's spec, in the order of `PLATFORMS`."""
    return tuple(load(row) for row in PLATFORMS)


def detected_platform(environ: Mapping[str, str]) -> PlatformSpec:
    """Find the platform this job runs on."""
    return next(spec for spec in platform_specs() if spec.detect(environ))


def is_secret_of_a_job(variable: str) -> bool:
    """Whether any platform, also one that this job does not run on, or the signer keeps secrets in it."""
    return variable in OF_THE_SIGNER or any(spec.keeps_from_agents(variable) for spec in platform_specs())


def platform_for(settings: PlatformSettings, environ: Mapping[str, str], stream: TextIO) -> Platform:
    """Build the platform this job runs on."""
    made: Platform = load(detected_platform(environ).platform)(settings, environ, stream)
    return made


def reporter_for(environ: Mapping[str, str], stream: TextIO) -> Reporter | None:
    """Build the reporter that needs no settings; None where the caller reports errors itself."""
    where = detected_platform(environ).reporter
    made: Reporter | None = load(where)(environ, stream) if where else None
    return made


def load(where: str) -> Any:
    """Import what `module:NAME` names."""
    module, _, name = where.partition(":")
    return getattr(import_module(module), name)
