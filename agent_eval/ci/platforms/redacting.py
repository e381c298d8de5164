"""A platform that redacts secrets from everything the job writes to another platform."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

from agent_eval.ci.comment import Published
from agent_eval.ci.earlier import Asked, EarlierRun
from agent_eval.ci.place import Refs
from agent_eval.ci.platforms.base import CiRun, Platform
from agent_eval.ci.platforms.spec import PlatformSpec
from agent_eval.storage.redaction import Redactor
from agent_eval.text.escape import clean


class RedactingPlatform:
    """Wraps a platform and redacts every text before it is written.

    The packs of this run hold no secret (`engine.shard` redacts them); an earlier run's evidence, a path or
    an error may.

    Example:
        >>> import sys
        >>> from agent_eval.ci.config import gather, settings_from
        >>> from agent_eval.ci.platforms.build import platform_for
        >>> settings = settings_from(gather({"suite": "s.json"}, {}, None))
        >>> platform = platform_for(settings.for_platform, {}, sys.stdout)
        >>> redacting = RedactingPlatform(platform, Redactor(["ghs_0123456789"]))
        >>> redacting.warn("The token ghs_0123456789 was refused.")
        Warning: The token [redacted] was refused.

    Args:
        platform: The platform to write to.
        redactor: Knows the secrets.
    """

    def __init__(self, platform: Platform, redactor: Redactor) -> None:
        self._platform = platform
        self._redacted = redactor.redact_text

    @property
    def spec(self) -> PlatformSpec:
        """The variables, limits and words of the wrapped platform."""
        return self._platform.spec

    @property
    def run(self) -> CiRun:
        """The run that this job belongs to."""
        return self._platform.run

    @property
    def workspace(self) -> Path:
        """The top of the checkout."""
        return self._platform.workspace

    @property
    def refs(self) -> Refs | None:
        """The branches of the job."""
        return self._platform.refs

    def tip(self, branch: str) -> str | None:
        """Ask for the commit that a branch points to."""
        return self._platform.tip(branch)

    def earlier_runs(self, asked: Asked) -> Iterable[EarlierRun]:
        """Yield finished runs of this job."""
        return self._platform.earlier_runs(asked)

    def run_named(self, number: int) -> EarlierRun:
        """Find the run that the user named."""
        return self._platform.run_named(number)

    def keep_evidence(self, archive: Path) -> None:
        """Store the evidence archive, from which secrets have been redacted already."""
        self._platform.keep_evidence(archive)

    def write_summary(self, markdown: str) -> None:
        """Append redacted markdown to the full report."""
        self._platform.write_summary(self._redacted(markdown))

    def write_outputs(self, values: Mapping[str, str]) -> None:
        """Set redacted outputs."""
        self._platform.write_outputs({name: self._redacted(value) for name, value in values.items()})

    def publish(self, body: Callable[[str], str]) -> Published:
        """Publish a redacted comment. The marker is not changed, or the comment would not be found again."""
        return self._platform.publish(
            lambda marker: marker + self._redacted(body(marker).removeprefix(marker))
        )

    def say(self, text: str) -> None:
        """Print redacted prose, without what a terminal would obey."""
        self._platform.say(self._harmless(text, multiline=True))

    def warn(self, text: str) -> None:
        """Print a redacted warning, on one line."""
        self._platform.warn(self._harmless(text))

    def point_out(self, text: str, *, path: str, line: int | None, fails: bool) -> None:
        """Show a redacted sentence at a line of a file."""
        self._platform.point_out(self._harmless(text), path=path, line=line, fails=fails)

    def fail(self, text: str) -> None:
        """Print why the job fails, redacted and on one line."""
        self._platform.fail(self._harmless(text))

    def _harmless(self, text: str, *, multiline: bool = False) -> str:
        return clean(self._redacted(text), limit=_LONGEST, multiline=multiline)


_LONGEST = 10_000_000
