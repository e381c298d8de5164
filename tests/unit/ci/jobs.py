"""Jobs for tests that need no runner: settings from flags, on the local platform."""

from __future__ import annotations

import io
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path

from agent_eval.ci.clone import PrivateClone
from agent_eval.ci.config import Settings, gather, settings_from
from agent_eval.ci.place import JobPlace
from agent_eval.ci.platforms.base import Platform
from agent_eval.ci.platforms.local import LocalDirectory
from agent_eval.ci.rules import JobContext, Rules
from agent_eval.contracts.policy import GatePolicy
from agent_eval.contracts.registry import Registry
from agent_eval.storage.redaction import Redactor

NOW = datetime(2026, 11, 21, 8, tzinfo=UTC)


def settings_of(**flags: str) -> Settings:
    """Settings from flags, named with underscores for hyphens; a suite unless one is given."""
    given = {"suite": "s.json", **{name.replace("_", "-"): value for name, value in flags.items()}}
    return settings_from(gather(given, {}, None))


def make_job(
    settings: Settings, environ: Mapping[str, str] | None = None, platform: Platform | None = None
) -> JobContext:
    """A job whose rules are those of an empty repository."""
    return JobContext(
        settings=settings,
        platform=platform or LocalDirectory(settings.for_platform, environ or {}, io.StringIO()),
        environ=environ or {},
        redactor=Redactor([]),
        rules=Rules(
            policy=GatePolicy(), registry=Registry(), registry_path=Path("registry.json"), waivers=[]
        ),
        clock=lambda: NOW,
    )


def place_of(clone: PrivateClone, tip: str, *, is_reviewed: bool = False) -> JobPlace:
    """What is checked out, held to main, which is at `tip`."""
    of_main = {"trusted_branch": "main", "default_branch": "main", "branches": ("main",)}
    return JobPlace(clone=clone, tip=tip, default_tip=tip, base=tip, is_reviewed=is_reviewed, **of_main)  # type: ignore[arg-type]
