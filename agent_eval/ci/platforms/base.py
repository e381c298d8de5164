"""What a CI platform offers the job. One file implements it for each; `platforms` lists them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Protocol

from agent_eval.ci.baseline import Candidate
from agent_eval.ci.comment import Published


@dataclass(frozen=True, kw_only=True)
class Context:
    """What the platform knows of this job.

    Args:
        head_sha: The commit that is evaluated, None when unknown.
        run_url: The job's page, None outside CI.
        run_name: Names this run and attempt; evidence packs are named after it. None outside CI.
        evidence_url: The page where the uploaded evidence can be found.
        base_sha: The commit that the change is meant to go onto, None where there is no such thing.
        from_fork: Whether the change comes from another repository.
    """

    head_sha: str | None = None
    run_url: str | None = None
    run_name: str | None = None
    evidence_url: str | None = None
    base_sha: str | None = None
    from_fork: bool = False


class Teller(Protocol):
    """Who can be told how the job went, whether or not its settings could be read."""

    def write_summary(self, markdown: str) -> None:
        """Add to the job's summary, where there is one."""
        ...

    def write_outputs(self, values: Mapping[str, str]) -> None:
        """Tell the steps that follow."""
        ...

    def fail(self, text: str) -> None:
        """Point out why the job fails."""
        ...


class Platform(Teller, Protocol):
    """A place where the job runs. No method raises for what the remote side does, except `candidates`."""

    @property
    def context(self) -> Context:
        """What the platform knows of this job."""
        ...

    def candidates(self, notes: list[str]) -> Iterable[Candidate]:
        """Earlier runs that may be the baseline, the best first; adds to `notes` what it passes over.

        Raises:
            NoHistory: Earlier runs cannot be looked at from here.
            RemoteError: The platform refuses or cannot be reached.
        """
        ...

    def base_file(self, path: str) -> bytes | None:
        """A file as it is on the commit `context.base_sha`; None where it is not there.

        Args:
            path: In the repository, with `/`.

        Raises:
            RemoteError: The platform refuses or cannot be reached, or it is no regular file of a usual size.
        """
        ...

    def publish(self, body: Callable[[str], str]) -> Published:
        """Say it where the change is reviewed.

        Args:
            body: Makes the markdown, given the marker it must start with.
        """
        ...

    def say(self, text: str) -> None:
        """Print prose into the job's log. Nothing in it is obeyed as a command."""
        ...

    def warn(self, text: str) -> None:
        """Point out a sentence that someone should act on."""
        ...
