"""A job outside CI, or on a service that no other platform detects: its runs are files in a directory.

Without a store the comment is printed. It is also the example to write another platform from.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import cached_property, partial
from pathlib import Path
from typing import NoReturn, TextIO

from agent_eval.ci.comment import Marker, Published, publish
from agent_eval.ci.earlier import (
    Asked,
    EarlierRun,
    NoHistory,
    Skipped,
    Withheld,
)
from agent_eval.ci.place import Refs
from agent_eval.ci.platforms.base import CiRun, comment_words
from agent_eval.ci.platforms.checkout_job import CheckoutJob, no_such_run
from agent_eval.ci.platforms.local_store import FileComments, Store, StoredRun
from agent_eval.ci.platforms.settings import PlatformSettings
from agent_eval.ci.platforms.spec import COMMIT, PlatformSpec, Words
from agent_eval.ci.workspace import COMMENT_NAME
from agent_eval.config.options import CI, Option
from agent_eval.errors import AgentEvalError, StorageError
from agent_eval.operations import clock
from agent_eval.processes.child import ChildLimits, allowed_environment, run_child
from agent_eval.storage.atomic import append_file, write_file
from agent_eval.storage.json import dumps

LOCAL = PlatformSpec(
    name="local",
    platform="agent_eval.ci.platforms.local:LocalDirectory",
    detect=lambda _: True,
    comment_limit=65_536,
    summary_limit=1 << 20,
    words=Words(change="change", full_report="full report"),
    inputs=(
        Option(
            "baseline-store",
            "path",
            "Directory in which a job outside CI keeps its evidence, comment and outputs, and finds the "
            "baseline of a later run. Default: none; the comment is printed and written to `out`.",
            goes_to="platform.baseline_store",
            commands=(CI,),
            # The code under test may not choose the baseline it is compared with.
            in_file=False,
        ),
    ),
)

_BRANCH, _ORIGIN = "refs/heads/", "refs/remotes/origin/"


class LocalDirectory(CheckoutJob):
    """A developer's machine, or a CI service that no other platform detects.

    Args:
        settings: The checked settings.
        environ: The environment variables.
        stream: The job's log.
    """

    spec = LOCAL

    def __init__(self, settings: PlatformSettings, environ: Mapping[str, str], stream: TextIO) -> None:
        super().__init__(settings, environ, stream)
        where: Path | None = settings.own["baseline_store"]
        self._store = Store(where) if where is not None else None
        self._outputs: dict[str, str] = {}
        self._archive: Path | None = None
        self._is_service = environ.get("CI", "").lower() not in ("", "0", "false")

    @cached_property
    def run(self) -> CiRun:
        """The commit where runs are stored."""
        return CiRun(head_sha=self._commit if self._store is not None else None)

    @property
    def refs(self) -> Refs | None:
        """The branches of the checkout, which on a developer's machine says which one is the default.

        None where there is no checkout, or no commit in it; and on a developer's machine without git.
        """
        if self._commit is None or not (self._is_service or self._git("rev-parse", "HEAD")):
            return None
        return Refs(
            default_branch=self._default_branch,
            branch=self._checked_out,
            remote=self._origin,
        )

    @property
    def _heads(self) -> str | None:
        """Where the checkout says to what branches point; None where a server is asked.

        On a service a checkout may have been tampered with. On a developer's machine it is theirs.
        """
        if self._origin is None:
            return _BRANCH
        return None if self._is_service else _ORIGIN

    @cached_property
    def _default_branch(self) -> str | None:
        heads = self._heads
        if heads == _ORIGIN:
            of_origin = self._git("symbolic-ref", "--quiet", f"{_ORIGIN}HEAD")
            if of_origin.startswith(_ORIGIN):
                return of_origin.removeprefix(_ORIGIN)
        usual = next((name for name in ("main", "master") if self.tip(name) is not None), None)
        return (usual or self._checked_out or "main") if heads == _BRANCH else usual

    @cached_property
    def _checked_out(self) -> str | None:
        reference = self._git("symbolic-ref", "--quiet", "HEAD")
        return reference.removeprefix(_BRANCH) if reference.startswith(_BRANCH) else None

    def tip(self, branch: str) -> str | None:
        """Read where a branch points, as last fetched where there is a server; None where that is asked."""
        heads = self._heads
        commit = self._git("rev-parse", "--verify", "--quiet", f"{heads}{branch}^0") if heads else ""
        return commit if COMMIT.fullmatch(commit) else None

    def _git(self, *arguments: str) -> str:
        """Run git in the checkout and return the line that it prints; empty where it fails."""
        environ = {**allowed_environment(self._environ), "GIT_TERMINAL_PROMPT": "0"}
        try:
            done = run_child(
                ["git", *arguments], env=environ, limits=ChildLimits(seconds=30), cwd=self.workspace
            )
        except AgentEvalError:
            return ""
        return done.stdout.decode("utf-8", "replace").strip() if done.failure is None else ""

    def earlier_runs(self, asked: Asked) -> Iterator[EarlierRun]:
        """Yield stored runs, the newest first.

        Raises:
            NoHistory: There is no store.
        """
        if self._store is None:
            raise NoHistory(
                "Outside CI there are no earlier runs: give `--baseline PATH` to compare, or keep runs with "
                "`--baseline-store DIRECTORY`."
            )
        notes: list[str] = []
        for run in self._store.runs(notes):
            yield self._earlier(self._store, run)
        # Any of these may be the run that is wanted: without another one, the baseline is withheld.
        for number, why in enumerate(notes, start=1):
            yield EarlierRun(
                number=-number,
                label="a run that cannot be read",
                commits=frozenset({asked.commit} if asked.commit is not None else ()),
                fetch=partial(_withhold, why),
            )

    def run_named(self, number: int) -> EarlierRun:
        """Find a stored run."""
        notes: list[str] = []
        run = self._store.run(number, notes) if self._store is not None else None
        if run is None or self._store is None:
            raise no_such_run(" ".join([f"The store has no run {number} that can be read.", *notes]))
        return self._earlier(self._store, run)

    def _earlier(self, store: Store, run: StoredRun) -> EarlierRun:
        return EarlierRun(
            number=run.number,
            label=f"run {run.number}",
            commits=frozenset({run.commit} if run.commit is not None else ()),
            branch=run.branch,
            created_at=run.created_at,
            fetch=partial(self._fetch, store, run),
        )

    def _fetch(self, store: Store, run: StoredRun) -> bytes:
        wanted = self._settings.baseline_artifact
        if run.artifact != wanted:
            raise Skipped(f"Run {run.number} left no evidence `{wanted}`.")
        return store.evidence(run)

    def keep_evidence(self, archive: Path) -> None:
        """Store the evidence for later runs, where there is a store."""
        self._archive = archive
        if self._store is None:
            return
        try:
            self._store.keep(
                self._directory,
                archive,
                artifact=self._settings.baseline_artifact,
                branch=self._checked_out,
                commit=self._commit,
                created_at=clock.timestamp(self._environ),
            )
        except (AgentEvalError, Withheld) as error:
            self.warn(f"The evidence was not stored: {error}")

    def write_summary(self, markdown: str) -> None:
        """Append to the run's `summary.md`; without a store the report in `out` is all there is."""
        if self._store is not None:
            self._write(
                "The full report", "summary.md", lambda path: append_file(path, f"{markdown}\n".encode())
            )

    def write_outputs(self, values: Mapping[str, str]) -> None:
        """Write the run's `outputs.json`; without a store no step reads outputs."""
        self._outputs.update(values)
        if self._store is not None:
            data = dumps(self._outputs, indent=True)
            self._write("The outputs", "outputs.json", lambda path: write_file(path, data))

    def publish(self, body: Callable[[str], str]) -> Published:
        """Create or update the comment file in the store; without a store print the comment."""
        if self._store is None:
            return self._print_comment(body)
        comment_id = self._settings.comment_id
        try:
            marker = Marker(comment_id, self._commit, int(self._directory.name), 1)
        except StorageError as error:
            return Published("refused", warning=f"No comment was written: {error.message}")
        file = self._store.comment_file(self._checked_out, comment_id)
        published = self._write_comment(file, marker, body(str(marker)))
        if published.url:
            self.say(f"The comment is in {published.url}.")
        return published

    @cached_property
    def _directory(self) -> Path:
        """The directory of this run, created when the first file is written."""
        assert self._store is not None
        return self._store.new_run()

    def _print_comment(self, body: Callable[[str], str]) -> Published:
        marker = Marker(self._settings.comment_id, None, 0, 0)
        text = body(str(marker))
        self.say("The comment, as it would be posted:\n")
        self.say(text)
        if self._archive is None:
            # The output directory may be the very thing that is wrong.
            return Published("none")
        return self._write_comment(self._settings.out / COMMENT_NAME, marker, text)

    def _write_comment(self, file: Path, marker: Marker, text: str) -> Published:
        comments = FileComments(file, lambda: self._commit)
        return publish(comments, marker, text, words=comment_words(LOCAL))

    def _write(self, what: str, name: str, write: Callable[[Path], None]) -> None:
        try:
            write(self._directory / name)
        except StorageError as error:
            self.warn(f"{what} could not be written: {error.message}")


def _withhold(why: str) -> NoReturn:
    raise Withheld(why)
