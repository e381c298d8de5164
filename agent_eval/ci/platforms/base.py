"""The interface of a CI platform: each implements `Platform`, and `ci.platforms.catalog` lists it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from agent_eval.ci.candidates import Candidate
from agent_eval.ci.comment import CommentWords, Published
from agent_eval.ci.issues import Issues
from agent_eval.ci.platforms.spec import PlatformSpec


@dataclass(frozen=True, kw_only=True)
class CiRun:
    """The run that this job belongs to, as the platform describes it.

    Example:
        >>> CiRun(head_sha="9be1f04", run_url="https://ci.example.org/17", run_name="ci-17-1").from_fork
        False

    Args:
        head_sha: The commit that is evaluated, None when unknown.
        run_url: The job's page, None outside CI.
        run_name: Names this run and attempt; evidence packs are named after it. None outside CI.
        evidence_url: The page with the uploaded evidence.
        base_sha: The commit that the change is to be merged onto, None where there is no such commit.
        no_base: Why `base_sha` is unknown although the job evaluates a change, and what to do, as a sentence.
        from_fork: Whether the change comes from another repository.
        fork_event: The event by which a fork's code runs with this repository's secrets; empty where it has
            none of them.
        reported: The finished run of a change whose evidence this job reports on, without running anything;
            None where the job evaluates.
        on_base_branch: Whether the job evaluates the base branch itself, so that it may add to its history.
        number: A number of the run that grows with time; 0 when unknown.
        attempt: Which attempt of that run, from 1.
        is_scheduled: Whether a schedule, or a person by hand, started the job, and not a push; None where the
            platform does not say.
    """

    head_sha: str | None = None
    run_url: str | None = None
    run_name: str | None = None
    evidence_url: str | None = None
    base_sha: str | None = None
    no_base: str = ""
    from_fork: bool = False
    fork_event: str = ""
    reported: Candidate | None = None
    on_base_branch: bool = False
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
    """The place where a job runs. `candidates`, `base_file` and `issues` alone raise for a failure of it.

    Example:
        A platform is a folder with a `PlatformSpec` and a class like `ci.platforms.local.job.LocalDirectory`,
        and one row of `ci.platforms.catalog.PLATFORMS`.
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
        """The top of the checkout; `base_file` takes paths relative to it."""
        ...

    def candidates(self, notes: list[str]) -> Iterable[Candidate]:
        """Yield earlier runs that may be the baseline, the best first; note in `notes` which are skipped.

        Raises:
            NoHistory: Earlier runs cannot be read from here.
            RemoteError: The platform refuses or cannot be reached.
        """
        ...

    def base_file(self, path: str) -> bytes | None:
        """Read a file as of the commit `run.base_sha`; None if it does not exist there.

        Args:
            path: In the repository, with `/`.

        Raises:
            RemoteError: The platform refuses or cannot be reached; or it is no regular file of a usual size.
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

    def issues(self) -> Issues | None:
        """Open the issues of the repository; None where the platform has none.

        Raises:
            RemoteError: The job has no token for them.
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
