"""Building the platform of a job from its settings and the environment."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TextIO

from agent_eval.ci.platforms.base import Platform, Reporter
from agent_eval.ci.platforms.catalog import detected_platform, load
from agent_eval.ci.platforms.settings import PlatformSettings


def platform_for(settings: PlatformSettings, environ: Mapping[str, str], stream: TextIO) -> Platform:
    """Build the platform this job runs on."""
    made: Platform = load(detected_platform(environ).platform)(settings, environ, stream)
    return made


def reporter_for(environ: Mapping[str, str], stream: TextIO) -> Reporter | None:
    """Build the reporter that needs no settings; None where the caller reports errors itself."""
    where = detected_platform(environ).reporter
    made: Reporter | None = load(where)(environ, stream) if where else None
    return made
