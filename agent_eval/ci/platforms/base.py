"""The interface of a CI platform: each implements `Platform`, and `ci.platforms.catalog` lists it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from agent_eval.ci.comment import CommentWords, Published
from agent_eval.ci.earlier import Asked, EarlierRun
from agent_eval.ci.place import Refs
from agent_eval.ci.platforms.spec import PlatformSpec


@dataclass(frozen=True, kw_only=True)
class CiRun:
    """The run that this job belongs to, as the platform describes it.

    Attributes:
        head_sha: The commit under review, for people: of a change its head, where a trial merge of it may be
            checked out. What is evaluated and recorded is `JobPlace.head`.
        run_url: The job's page, None outside CI.
        run_name: Names this run and attempt; evidence packs are named after it. None outside CI.
        evidence_url: The page with the uploaded evidence.
        from_fork: Whether the change comes from another repository.
        fork_event: The event by which a fork's code runs with this repository's secrets; empty where it has
            none of them.
        reported: The finished run of a change whose evidence this job reports on, without running anything;
            None where the job evaluates.
        number: A number of the run that grows with time; 0 when unknown.
        attempt: Which attempt of that run, from 1.
        is_scheduled: Whether a schedule, or a person by hand, started the job, and not a push; None where the
            platform does not say.
    """

    head_sha: str | None = None
    run_url: str | None = None
    run_name: str | None = None
    evidence_url: str | None = None
    from_fork: bool = False
    fork_event: str = ""
    reported: EarlierRun | None = None
    number: int = 0
    attempt: int = 1
    is_scheduled: bool | None = None


class Reporter(Protocol):
    """Reports how a job ended, also when its settings could not be read.

    Example:
        >>> class Terminal:
        ...     def write_summary(self, markdown: str) -> None: ...
        ...     def write_outputs(self, values: Mapping[str, str]) -> None: ...
        ...     def fail(self, text: str) -> None:
        ...         print(f"Error: {text}")
    """

    def write_summary(self, markdown: str) -> None:
        """Append to the full report, on platforms that show one."""
        ...

    def write_outputs(self, values: Mapping[str, str]) -> None:
        """Set outputs for the steps that follow."""
        ...

    def fail(self, text: str) -> None:
        """Point out why the job fails."""
        ...


class Platform(Reporter, Protocol):
    """The place where a job runs. `tip`, `earlier_runs`, and `run_named` alone raise for a failure.

    A platform is a module with a `PlatformSpec` and a class like `ci.platforms.local.LocalDirectory`, and one
    row of `ci.platforms.catalog.PLATFORMS`.
    """

    @property
    def spec(self) -> PlatformSpec:
        """The platform's variables, limits and words."""
        ...

    @property
    def run(self) -> CiRun:
        """The run that this job belongs to."""
        ...

    @property
    def workspace(self) -> Path:
        """The top of the checkout."""
        ...

    @property
    def refs(self) -> Refs | None:
        """The branches of the job, as the platform names them; None for a job outside of any repository."""
        ...

    def tip(self, branch: str) -> str | None:
        """Ask the platform for the commit that a branch points to; None where its API does not say it.

        Raises:
            RemoteError: The platform refuses or cannot be reached.
        """
        ...

    def earlier_runs(self, asked: Asked) -> Iterable[EarlierRun]:
        """Yield finished runs of this job, without this one: those of the commit that is asked for, then the
        newest of each branch. What they may be used for is decided by `ci.baseline`.

        Raises:
            NoHistory: Earlier runs cannot be read from here.
            RemoteError: The platform refuses or cannot be reached.
        """
        ...

    def run_named(self, number: int) -> EarlierRun:
        """Find the run that the user named.

        Raises:
            UsageError: There is none, or its code is another repository's.
            NoHistory, RemoteError: As for `earlier_runs`.
        """
        ...

    def keep_evidence(self, archive: Path) -> None:
        """Store the evidence archive for later runs, unless a later step of the pipeline does that."""
        ...

    def publish(self, body: Callable[[str], str]) -> Published:
        """Create or update the comment where the change is reviewed.

        Args:
            body: Makes the markdown, given the marker it must start with.
        """
        ...

    def point_out(self, text: str, *, path: str, line: int | None, fails: bool) -> None:
        """Show a sentence at a line of a file under review, where the platform can.

        Args:
            text: The sentence.
            path: Of the file, relative to the top of the checkout, with `/`.
            line: From 1; None where it is not known.
            fails: Whether it is one of the reasons why the job fails.
        """
        ...

    def say(self, text: str) -> None:
        """Print prose into the job's log. The platform obeys nothing in it as a command."""
        ...

    def warn(self, text: str) -> None:
        """Point out a sentence that a user should act on."""
        ...


def comment_words(spec: PlatformSpec, *, from_fork: bool = False) -> CommentWords:
    """Take the words for warnings about the comment from a platform's spec."""
    remedies = spec.remedies
    return CommentWords(
        change=spec.words.change,
        full_report=spec.words.full_report,
        refused=remedies.write_from_fork if from_fork else remedies.write_comment,
    )
