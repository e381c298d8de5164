"""A platform to which no secret is told, whatever the job says."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from agent_eval.ci.baseline import Candidate
from agent_eval.ci.comment import Published
from agent_eval.ci.platforms.base import Context, Platform
from agent_eval.storage.redaction import Redactor


class Discreet:
    """Passes everything on to another platform, without the secrets.

    What a run writes has none (see `engine.shard`); an earlier run's evidence, a path or an error may.

    Args:
        platform: Who really says it.
        redactor: Knows the secrets.
    """

    def __init__(self, platform: Platform, redactor: Redactor) -> None:
        self._platform = platform
        self._clean = redactor.redact_text

    @property
    def context(self) -> Context:
        """See `Platform.context`."""
        return self._platform.context

    def candidates(self, notes: list[str]) -> Iterable[Candidate]:
        """See `Platform.candidates`."""
        return self._platform.candidates(notes)

    def base_file(self, path: str) -> bytes | None:
        """See `Platform.base_file`."""
        return self._platform.base_file(path)

    def write_summary(self, markdown: str) -> None:
        """See `Platform.write_summary`."""
        self._platform.write_summary(self._clean(markdown))

    def write_outputs(self, values: Mapping[str, str]) -> None:
        """See `Platform.write_outputs`."""
        self._platform.write_outputs({name: self._clean(value) for name, value in values.items()})

    def publish(self, body: Callable[[str], str]) -> Published:
        """See `Platform.publish`. The marker stays as it is, or the comment would not be found again."""
        return self._platform.publish(lambda marker: marker + self._clean(body(marker).removeprefix(marker)))

    def say(self, text: str) -> None:
        """See `Platform.say`."""
        self._platform.say(self._clean(text))

    def warn(self, text: str) -> None:
        """See `Platform.warn`."""
        self._platform.warn(self._clean(text))

    def fail(self, text: str) -> None:
        """See `Platform.fail`."""
        self._platform.fail(self._clean(text))
