"""The base of every CI platform: what all of them share is here, each adds what only it has.

A platform is a module with a `PlatformSpec` and a class like `ci.platforms.local.LocalDirectory`, and one row
of `ci.platforms.catalog.PLATFORMS`. The packs of this run hold no secret (`engine.shard` redacts them); an
earlier run's evidence, a path or an error may, so whatever a platform writes to its own log, files and
comments is redacted here.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import ClassVar, Literal, Self, TextIO, final

from agent_eval.ci.clone import Remote, top_of
from agent_eval.ci.comment import Comments, Marker, Published, publish
from agent_eval.ci.earlier import Asked, EarlierRun, NoHistory
from agent_eval.ci.place import Refs
from agent_eval.ci.platforms.spec import PlatformSettings, PlatformSpec
from agent_eval.ci.rest import Connector, RestApi
from agent_eval.errors import AgentEvalError, RemoteError, UsageError
from agent_eval.http.retry import Patience
from agent_eval.operations.environment import git_commit
from agent_eval.operations.packs import ARCHIVE_NAME
from agent_eval.processes.child import ChildLimits, allowed_environment, run_child
from agent_eval.storage.redaction import Redactor
from agent_eval.text.escape import clean

_LONGEST = 10_000_000


@dataclass(frozen=True, kw_only=True)
class CiRun:
    """The run that this job belongs to, as the platform describes it.

    Attributes:
        head_sha: The commit under review, for people: of a change its head, where a trial merge of it may be
            checked out. What is evaluated and recorded is `JobPlace.head`.
        run_url: The job's page, None outside CI.
        run_name: Names this run and attempt; evidence packs are named after it. None outside CI.
        fork_event: The event by which a fork's code runs with this repository's secrets; empty where it has
            none of them.
        reported: The finished run of a change whose evidence this job reports on, without running anything;
            None where the job evaluates.
    """

    head_sha: str | None = None
    run_url: str | None = None
    run_name: str | None = None
    evidence_url: str | None = None
    from_fork: bool = False
    fork_event: str = ""
    reported: EarlierRun | None = None


class Reporter:
    """Reports how a job ended, also when its settings could not be read. All it writes is redacted."""

    def __init__(self, environ: Mapping[str, str], stream: TextIO) -> None:
        self._environ, self._stream = environ, stream
        self._redacted: Callable[[str], str] = str

    def redacted_by(self, redactor: Redactor) -> Self:
        """Redact what is written from now on."""
        self._redacted = redactor.redact_text
        return self

    @final
    def say(self, text: str) -> None:
        """Print prose into the job's log. The platform obeys nothing in it as a command."""
        self.log_prose(clean(self._redacted(text), limit=_LONGEST, multiline=True))

    @final
    def warn(self, text: str) -> None:
        """Point out a sentence that a user should act on."""
        self.log_note("warning", self._in_one_line(text))

    def fail(self, text: str) -> None:
        """Point out why the job fails."""
        self.log_note("error", self._in_one_line(text))

    @final
    def write_summary(self, markdown: str) -> None:
        """Append to the full report, on platforms that show one."""
        self.keep_summary(self._redacted(markdown))

    @final
    def write_outputs(self, values: Mapping[str, str]) -> None:
        """Set outputs for the steps that follow."""
        self.keep_outputs({name: self._redacted(value) for name, value in values.items()})

    def _in_one_line(self, text: str) -> str:
        return clean(self._redacted(text), limit=_LONGEST)

    def log_prose(self, text: str) -> None:
        """Print several lines without anything that a terminal would obey."""
        print(text, file=self._stream, flush=True)

    def log_note(self, kind: Literal["warning", "error"], text: str) -> None:
        """Print a sentence that must be seen."""
        self.log_prose(f"{kind.capitalize()}: {text}")

    def keep_summary(self, markdown: str) -> None:
        """Do nothing: the report among the artifacts is all there is."""

    def keep_outputs(self, values: Mapping[str, str]) -> None:
        """Do nothing: later jobs read the artifacts."""


class Platform(Reporter):
    """The place where a job runs: a checkout, whose evidence is kept as an artifact of the job.

    `tip`, `earlier_runs` and `run_named` alone raise for a failure of the platform. `sleep` waits that many
    seconds between attempts.
    """

    spec: ClassVar[PlatformSpec]
    reporter: ClassVar[type[Reporter] | None] = None
    """Tells of settings that cannot be read; None where that is the caller's task."""

    def __init__(
        self,
        settings: PlatformSettings,
        environ: Mapping[str, str],
        stream: TextIO,
        *,
        sleep: Callable[[float], None] = time.sleep,
        patience: Patience | None = None,
    ) -> None:
        super().__init__(environ, stream)
        self._settings, self._own = settings, settings.own
        self._connect = Connector(sleep, patience)
        self._api: RestApi | None = None
        self.begin()

    def begin(self) -> None:
        """Read the platform's variables, and open `_api` where the job has a token."""

    @cached_property
    def run(self) -> CiRun:
        """The run that this job belongs to."""
        raise NotImplementedError

    @cached_property
    def refs(self) -> Refs | None:
        """The branches of the job, as the platform names them; None for a job outside of any repository."""
        raise NotImplementedError

    @cached_property
    def workspace(self) -> Path:
        """The top of the checkout, to which the paths of artifacts are relative."""
        return top_of(Path.cwd()) or Path.cwd()

    def tip(self, branch: str) -> str | None:
        """Ask the platform for the commit that a branch points to; None where its API does not say it.

        Git asks the server then, as it does for a platform that hosts no repository.
        """
        del branch
        return None

    def earlier_runs(self, asked: Asked) -> Iterator[EarlierRun]:
        """Yield finished runs of this job, without this one: those of the commit that is asked for, then the
        newest of each branch. What they may be used for is decided by `ci.baseline`.

        Raises:
            NoHistory: Earlier runs cannot be read from here.
            RemoteError: The platform refuses or cannot be reached.
        """
        raise NotImplementedError

    @final
    def run_named(self, number: int, asked: Asked) -> EarlierRun:
        """Find the run that the user named, of this repository's code; `RemoteError` as `earlier_runs`."""
        noun = self.spec.words.earlier_run
        why = f"There is no {noun} {number} of this repository's own code among the newest ones."
        try:
            for run in self.earlier_runs(asked):
                if run.number == number and run.is_own_code:
                    return run
        except NoHistory as none:
            why = str(none)
        remedy = f"Correct `baseline: run:ID` (ID is the number of a {noun}), or leave it out."
        raise UsageError(why, remedy=remedy, field="baseline")

    def keep_evidence(self, archive: Path) -> None:
        """Store the evidence archive for later runs, unless a later step of the pipeline does that."""

    @final
    def publish(self, body: Callable[[str], str]) -> Published:
        """Create or update the comment where the change is reviewed.

        `body` makes the markdown, given the marker it must start with, which alone is not redacted: the
        comment would not be found again.
        """
        return self.write_comment(lambda marker: marker + self._redacted(body(marker).removeprefix(marker)))

    def write_comment(self, body: Callable[[str], str]) -> Published:
        """Write no comment: the platform has none, and the report is among the artifacts."""
        del body
        return Published("none")

    def _publish(
        self, comments: Comments, marker: Marker, body: Callable[[str], str], *, from_fork: bool = False
    ) -> Published:
        words, remedies = self.spec.words, self.spec.remedies
        refused = remedies.write_from_fork if from_fork else remedies.write_comment
        named = {"change": words.change, "full_report": words.full_report, "refused": refused}
        return publish(comments, marker, body(str(marker)), **named)

    def _not_written(self, why: str, what: str = "No comment was written.") -> Published:
        """Say why there is no comment, and where the report is."""
        report = f"The report is in the {self.spec.words.full_report}."
        return Published("refused", warning=f"{what} {why} {report}")

    def _reads(self) -> RestApi:
        """The API that lists earlier runs. The job of a fork has no token, and another's is not known."""
        words = self.spec.words
        if self._api is not None:
            return self._api
        if words.job_of_fork and self.run.from_fork:
            raise NoHistory(
                f"This is {words.job_of_fork}, which has no token for earlier {words.earlier_run}s."
            )
        raise RemoteError(
            f"Without a token earlier {words.earlier_run}s cannot be read: "
            "whether there is a baseline is not known.",
            remedy=f"Set `{self.spec.name}-token`; or, to evaluate without a baseline, `baseline: none`.",
        )

    @property
    def _commit(self) -> str | None:
        """The commit that is checked out; None where there is none."""
        return git_commit(self.workspace)

    @property
    def _evidence_path(self) -> str:
        """Path of the evidence archive among the artifacts of a job, with `/`."""
        archive = os.path.abspath(self._settings.out / ARCHIVE_NAME)
        return Path(os.path.relpath(archive, self.workspace)).as_posix()

    @cached_property
    def _origin(self) -> Remote | None:
        """The repository from which the checkout was cloned; None where it says none."""
        git = self.workspace / ".git"
        if git.is_file():
            # Of a worktree: PLACE/worktrees/NAME, where PLACE has the configuration.
            git = (self.workspace / git.read_text().removeprefix("gitdir:").strip()).parents[1]
        url = self._git("config", "--file", str(git / "config"), "--get", "remote.origin.url")
        if not url:
            return None
        is_relative = not Path(url).is_absolute() and ":" not in url
        return Remote(str((self.workspace / url).resolve()) if is_relative else url)

    def _git(self, *arguments: str) -> str:
        """Run git in the checkout and return the line that it prints; empty where it fails."""
        environ = {**allowed_environment(self._environ), "GIT_TERMINAL_PROMPT": "0"}
        limits = ChildLimits(seconds=30)
        try:
            done = run_child(["git", *arguments], env=environ, limits=limits, cwd=self.workspace)
        except AgentEvalError:
            return ""
        return done.stdout.decode("utf-8", "replace").strip() if done.failure is None else ""


def before_own(runs: Iterable[EarlierRun], own: int | None, asked: Asked) -> Iterator[EarlierRun]:
    """Leave out this run itself, and those after it where they are not asked for."""
    for run in runs:
        if own is None or (run.number != own and not (asked.before_own and run.number > own)):
            yield run
