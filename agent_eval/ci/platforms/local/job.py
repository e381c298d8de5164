"""A job outside CI: its runs, comments and outputs are files in a store, or its comment is printed."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cached_property, partial
from pathlib import Path
from typing import NoReturn, TextIO

from agent_eval.ci.candidates import Candidate, NoHistory, Origin, Skipped, Withheld
from agent_eval.ci.comment import Marker, Published, publish
from agent_eval.ci.platforms.base import CiRun, comment_words
from agent_eval.ci.platforms.checkout import Checkout
from agent_eval.ci.platforms.local.comments import FileComments
from agent_eval.ci.platforms.local.spec import LOCAL
from agent_eval.ci.platforms.local.store import Store, StoredRun
from agent_eval.ci.platforms.plain_log import PlainLog
from agent_eval.ci.platforms.settings import PlatformSettings
from agent_eval.ci.platforms.spec import PlatformSpec
from agent_eval.ci.suites import COMMENT_NAME
from agent_eval.errors import AgentEvalError, StorageError, UsageError
from agent_eval.operations import clock
from agent_eval.storage.atomic import append_file, write_file
from agent_eval.storage.json import dumps
from agent_eval.text.escape import one_line, shell_word

_NAME_LIMIT = 80


class LocalDirectory(PlainLog):
    """A developer's machine, or a CI service that no other platform detects.

    Example:
        `agent-eval ci --suite suite.json --baseline-store evaluations` on `main`, and again on a branch: the
        second run is compared with the first, and writes `evaluations/comments/BRANCH/default.md`.

    Args:
        settings: The checked settings.
        environ: The environment variables.
        stream: The job's log.
    """

    def __init__(self, settings: PlatformSettings, environ: Mapping[str, str], stream: TextIO) -> None:
        super().__init__(stream)
        self._settings, self._environ = settings, environ
        where: Path | None = settings.own["baseline_store"]
        self._store = Store(where) if where is not None else None
        self._outputs: dict[str, str] = {}
        self._archive: Path | None = None

    @property
    def spec(self) -> PlatformSpec:
        """The platform's input, limits and words."""
        return LOCAL

    @property
    def workspace(self) -> Path:
        """The top of the checkout."""
        return self._checkout.top

    @cached_property
    def run(self) -> CiRun:
        """The base of the checkout's branch, and the commit where runs are stored."""
        checkout, base = self._checkout, self._base_branch
        changed = base if checkout.branch != base else None
        base_sha = checkout.merge_base(changed) if changed is not None else None
        return CiRun(
            head_sha=checkout.commit if self._store is not None else None,
            base_sha=base_sha,
            no_base=_no_base(checkout, changed) if changed is not None and base_sha is None else "",
            on_base_branch=checkout.branch == base,
        )

    def candidates(self, notes: list[str]) -> Iterable[Candidate]:
        """Yield stored runs: the one that the user named; else those of the base commit, then the newest.

        Raises:
            NoHistory: There is no store.
            UsageError: The store has no run of the number that the user named.
        """
        if self._store is None:
            raise NoHistory(
                "Outside CI there are no earlier runs: give `--baseline PATH` to compare, or keep runs with "
                "`--baseline-store DIRECTORY`."
            )
        number = self._settings.baseline_run_id
        return [self._named(self._store, number)] if number is not None else self._earlier(self._store, notes)

    def base_file(self, path: str) -> bytes | None:
        """Read a file as of the commit where the branch began; None without one."""
        base = self.run.base_sha
        return self._checkout.file(path, base) if base is not None else None

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
                branch=self._checkout.branch,
                commit=self._checkout.commit,
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
        checkout, comment_id = self._checkout, self._settings.comment_id
        try:
            marker = Marker(comment_id, checkout.commit, int(self._directory.name), 1)
        except StorageError as error:
            return Published("refused", warning=f"No comment was written: {error.message}")
        file = self._store.comment_file(checkout.branch, comment_id)
        published = self._write_comment(file, marker, body(str(marker)))
        if published.url:
            self.say(f"The comment is in {published.url}.")
        return published

    @cached_property
    def _checkout(self) -> Checkout:
        return Checkout(Path.cwd(), self._environ)

    @cached_property
    def _directory(self) -> Path:
        """The directory of this run, created when the first file is written."""
        assert self._store is not None
        return self._store.new_run()

    @cached_property
    def _base_branch(self) -> str | None:
        """The branch whose runs may be the baseline; None outside a repository, where no run has a branch."""
        return self._settings.baseline_branch or self._checkout.default_branch

    def _named(self, store: Store, number: int) -> Candidate:
        notes: list[str] = []
        run = store.run(number, notes)
        if run is None:
            raise UsageError(
                " ".join([f"The store has no run {number} that can be read.", *notes]),
                remedy="Correct `baseline-run-id`, or leave it out.",
                field="baseline-run-id",
            )
        return self._candidate(store, run, "named run", named_by_user=True)

    def _earlier(self, store: Store, notes: list[str]) -> Iterator[Candidate]:
        branch, base = self._base_branch, self.run.base_sha
        unreadable: list[str] = []
        stored = list(store.runs(unreadable))
        runs = [run for run in stored if run.branch == branch]
        notes += unreadable
        if stored and not runs and branch is not None:
            name = one_line(branch, limit=_NAME_LIMIT).replace("`", "'")
            notes.append(
                f"Every stored run is of another branch than `{name}`, which is taken for the base branch: "
                "name yours in `baseline-branch`."
            )
        at_base = [run for run in runs if base is not None and run.commit == base]
        if base is not None and not at_base:
            notes.append(f"There is no stored run for the merge base `{base[:7]}`.")
        for run in at_base:
            yield self._candidate(store, run, "merge base")
        for run in runs:
            if run not in at_base:
                yield self._candidate(store, run, f"newest on {branch}" if branch else "newest run")
        # Any of these may be the run that is wanted: without another one, the baseline is withheld.
        for why in unreadable:
            yield Candidate("a run that cannot be read", Origin(how="stored run"), partial(_withhold, why))

    def _candidate(self, store: Store, run: StoredRun, how: str, *, named_by_user: bool = False) -> Candidate:
        def fetch() -> bytes:
            wanted = self._settings.baseline_artifact
            if run.artifact != wanted:
                raise Skipped(f"Run {run.number} left no evidence `{wanted}`.")
            return store.evidence(run)

        origin = Origin(
            how=how, sha=run.commit, branch=run.branch, run_id=run.number, created_at=run.created_at
        )
        return Candidate(f"run {run.number}", origin, fetch, named_by_user=named_by_user)

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
        comments = FileComments(file, lambda: self._checkout.commit)
        return publish(comments, marker, text, words=comment_words(LOCAL))

    def _write(self, what: str, name: str, write: Callable[[Path], None]) -> None:
        try:
            write(self._directory / name)
        except StorageError as error:
            self.warn(f"{what} could not be written: {error.message}")


def _no_base(checkout: Checkout, base: str) -> str:
    """Say what to fetch to have the commit where the branch began; empty without a commit."""
    if checkout.commit is None:
        return ""
    how = "--unshallow " if checkout.is_shallow else ""
    fetched = shell_word(f"+refs/heads/{base}:refs/remotes/origin/{base}")
    return (
        f"The commit where the branch left {one_line(base, limit=_NAME_LIMIT)} is not in the checkout. "
        f"Fetch it (`git fetch {how}origin {fetched}`), or name another branch in `baseline-branch`."
    )


def _withhold(why: str) -> NoReturn:
    raise Withheld(why)
