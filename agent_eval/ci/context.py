"""The context that every step of the CI job works with."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from agent_eval.ci.clone import PrivateClone
from agent_eval.ci.config import Settings
from agent_eval.ci.place import JobPlace
from agent_eval.ci.platforms.base import Platform
from agent_eval.ci.rules import Rules
from agent_eval.storage.redaction import Redactor


@dataclass(frozen=True, kw_only=True)
class JobContext:
    """One CI job, once its settings and the rules it judges by are known.

    Attributes:
        redactor: Knows the secrets; nothing that the job writes holds one.
        clock: The time to record.
        stated: The settings as they are stated, without the places of the tip's files; for people.
        place: None outside of a repository, as `clone`.
        settings_at: Reads the settings of another checkout, given what is the working directory there.
    """

    settings: Settings
    platform: Platform
    environ: Mapping[str, str]
    redactor: Redactor
    rules: Rules
    clock: Callable[[], datetime]
    stated: Settings | None = None
    place: JobPlace | None = None
    clone: PrivateClone | None = None
    settings_at: Callable[[Path], Settings] | None = None

    @property
    def writes_history(self) -> bool:
        """Whether the run is one of a reviewed commit, whose counts later runs rely on."""
        return (self.place is None or self.place.is_reviewed) and not self.platform.run.from_fork

    def timestamp(self) -> str:
        """The time to record, as ISO 8601 with its offset."""
        return self.clock().isoformat()
