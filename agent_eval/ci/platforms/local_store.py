"""Runs in a directory: the evidence of each, what it reported, and the comment on each branch.

STORE/runs/17/run.json        commit, branch, time; size and digest of the evidence
STORE/runs/17/evidence.zip    the evidence archive
STORE/runs/17/summary.md      the full report
STORE/runs/17/outputs.json    the job's outputs
STORE/comments/BRANCH/ID.md   the comment on a branch
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from pydantic import BaseModel, ConfigDict, ValidationError

from agent_eval.ci.comment import Comment
from agent_eval.ci.earlier import Withheld, checked_archive, refuse_large_archive
from agent_eval.errors import AgentEvalError, RemoteError, StorageError
from agent_eval.storage.atomic import new_file, write_file, writing_failed
from agent_eval.storage.files import read_bytes, safe_name, sha256_file
from agent_eval.storage.json import Limits, dumps, parse

MAX_RUNS = 1_000
"""Newest runs that are looked at."""

AUTHOR = "agent-eval"
_ROW_LIMITS = Limits(max_bytes=1 << 20)
_MAX_COMMENT_BYTES = 1 << 20
_ATTEMPTS_TO_NUMBER = 1_000
_ONLY = 1


class StoredRun(BaseModel):
    """A finished run of the store, as its `run.json` describes it.

    Args:
        number: Grows with time; names the directory.
        artifact: Name of the evaluation's evidence, `baseline-artifact`.
        branch: The branch that was checked out; None where none was.
        commit: The commit that was checked out; None when unknown.
        created_at: ISO 8601.
        sha256: Digest of the evidence archive.
        size: Its bytes.
    """

    model_config = ConfigDict(strict=True, frozen=True)

    number: int
    artifact: str
    branch: str | None
    commit: str | None
    created_at: str
    sha256: str
    size: int


class Store:
    """The runs and comments in one directory. Several jobs may use it at once.

    Example:
        >>> _ = Path("evidence.zip").write_bytes(b"an archive")
        >>> store = Store(Path("evaluations"))
        >>> directory = store.new_run()
        >>> facts = {"artifact": "agent-eval-evidence", "branch": "main", "commit": None}
        >>> store.keep(directory, Path("evidence.zip"), created_at="2026-11-21T08:00:00+00:00", **facts)
        >>> [run.number for run in store.runs(notes=[])]
        [1]

    Args:
        root: The directory; created when the first run is stored.
    """

    def __init__(self, root: Path) -> None:
        self._root = root

    def comment_file(self, branch: str | None, comment_id: str) -> Path:
        """The file of one evaluation's comment on a branch."""
        return self._root / "comments" / safe_name(branch or "detached") / f"{safe_name(comment_id)}.md"

    def new_run(self) -> Path:
        """Create the directory of a new run, numbered after the newest.

        Raises:
            StorageError: The directory cannot be created.
        """
        runs = self._root / "runs"
        try:
            runs.mkdir(parents=True, exist_ok=True)
            for _ in range(_ATTEMPTS_TO_NUMBER):
                directory = runs / str(next(iter(self._numbers()), 0) + 1)
                try:
                    directory.mkdir()
                except FileExistsError:
                    continue  # another job took the number
                return directory
        except OSError as error:
            raise writing_failed(runs, error) from error
        raise StorageError(
            f"{runs}: no number is free for a new run.", remedy="Name another directory.", path=str(runs)
        )

    def keep(self, directory: Path, archive: Path, **facts: str | None) -> None:
        """Store an evidence archive. The run counts as finished once its `run.json` is there.

        Args:
            directory: From `new_run`.
            archive: The evidence archive.
            facts: The other fields of `StoredRun`.

        Raises:
            Withheld: The archive is too large to be read again.
            StorageError: It cannot be written.
        """
        sha256, size = sha256_file(archive)
        number = int(directory.name)
        refuse_large_archive(size, f"run {number}")
        with archive.open("rb") as source, new_file(directory / "evidence.zip") as copy:
            shutil.copyfileobj(source, copy)
        row = {"number": number, "sha256": sha256, "size": size, **facts}
        write_file(directory / "run.json", dumps(StoredRun.model_validate(row).model_dump(), indent=True))

    def runs(self, notes: list[str]) -> Iterator[StoredRun]:
        """Yield the finished runs, the newest first; note in `notes` which cannot be read."""
        for number in self._numbers()[:MAX_RUNS]:
            run = self.run(number, notes)
            if run is not None:
                yield run

    def run(self, number: int, notes: list[str]) -> StoredRun | None:
        """Read one finished run; None where there is none that can be read."""
        path = self._directory(number) / "run.json"
        if not path.is_file():
            return None
        try:
            row = parse(
                read_bytes(path, max_bytes=_ROW_LIMITS.max_bytes), source=str(path), limits=_ROW_LIMITS
            )
            run = StoredRun.model_validate(row)
        except (AgentEvalError, ValidationError):
            notes.append(f"Run {number} was passed over: its `run.json` cannot be read.")
            return None
        if run.number != number:
            notes.append(f"Run {number} was passed over: its `run.json` is of another run.")
            return None
        return run

    def evidence(self, run: StoredRun) -> bytes:
        """Read a run's evidence archive.

        Raises:
            Withheld: It is missing, too large, or not what was stored.
        """
        label = f"run {run.number}"
        refuse_large_archive(run.size, label)
        try:
            data = read_bytes(self._directory(run.number) / "evidence.zip", max_bytes=run.size)
        except AgentEvalError as error:
            raise Withheld(f"The evidence of {label} cannot be read: {error.message}", loud=True) from error
        return checked_archive(data, run.sha256, label)

    def _directory(self, number: int) -> Path:
        return self._root / "runs" / str(number)

    def _numbers(self) -> list[int]:
        """The numbers of all runs, the newest first."""
        runs = self._root / "runs"
        if not runs.is_dir():
            return []
        names = [entry.name for entry in runs.iterdir()]
        return sorted((int(name) for name in names if _is_number(name)), reverse=True)


def _is_number(name: str) -> bool:
    return name.isascii() and name.isdigit() and len(name) <= 9 and str(int(name)) == name


class FileComments:
    """At most one comment, in one file. A file that is not a comment of the evaluation is never replaced.

    Example:
        >>> comments = FileComments(Path("comments/topic/default.md"), lambda: None)
        >>> comments.create("<!-- agent-eval id=default run=1 attempt=1 -->\\n## passed").url
        'comments/topic/default.md'

    Args:
        path: The file.
        current_head: Tells the commit that is checked out now.
    """

    def __init__(self, path: Path, current_head: Callable[[], str | None]) -> None:
        self._path = path
        self._current_head = current_head

    def listed(self) -> Iterable[Comment]:
        """Yield the comment, if the file is there."""
        if self._path.exists():
            try:
                body = read_bytes(self._path, max_bytes=_MAX_COMMENT_BYTES).decode("utf-8", "replace")
            except AgentEvalError as error:
                raise _failed(error) from error
            yield self._comment(body)

    def create(self, body: str) -> Comment:
        """Write the file, which must not exist yet."""
        if self._path.exists() or self._path.is_symlink():
            raise RemoteError(
                f"{self._path} is there and is not a comment of this evaluation.",
                remedy="Move it to another place, or give this evaluation a `comment-id` of its own.",
                path=str(self._path),
            )
        return self.update(_ONLY, body)

    def update(self, comment_id: int, body: str) -> Comment:
        """Replace the file in one step."""
        del comment_id
        try:
            write_file(self._path, body.encode("utf-8", "replace"))
        except AgentEvalError as error:
            raise _failed(error) from error
        return self._comment(body)

    def delete(self, comment_id: int) -> None:
        """Do nothing: there is no second comment that could be one too many."""

    def author(self) -> str:
        """The author of every comment in the store."""
        return AUTHOR

    def current_head(self) -> str | None:
        """The commit that is checked out now."""
        return self._current_head()

    def _comment(self, body: str) -> Comment:
        return Comment(_ONLY, AUTHOR, body, str(self._path))


def _failed(error: AgentEvalError) -> RemoteError:
    return RemoteError(error.message, remedy=error.remedy)
