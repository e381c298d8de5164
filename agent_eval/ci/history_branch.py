"""A history on a branch of the repository: an orphan that is only ever added to, one file a run."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from agent_eval.ci.noted_remote import REMOTE, NotedRemote, OwnRepository
from agent_eval.ci.platforms.spec import COMMIT
from agent_eval.errors import AgentEvalError, InvalidInput, RemoteError, UsageError
from agent_eval.history.directory import of_dataset
from agent_eval.history.files import (
    MAX_RECORD_BYTES,
    MAX_RUNS,
    decode_file,
    encode,
    file_name,
    is_record_name,
    newest_first,
)
from agent_eval.contracts.history import RunRecord
from agent_eval.processes.child import ChildLimits
from agent_eval.storage.files import safe_name

_LIMITS = ChildLimits(seconds=120.0, stdout_bytes=max(64 << 20, MAX_RECORD_BYTES))
_ATTEMPTS = 5
_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._/-]{0,199}", re.ASCII)
_FETCHED = "refs/agent-eval/history"
_AUTHOR = {
    f"GIT_{role}_{field}": value
    for role in ("AUTHOR", "COMMITTER")
    for field, value in (("NAME", "agent-eval"), ("EMAIL", "agent-eval@localhost"))
}


class HistoryBranch:
    """The history branch of the repository that a job has checked out, with the access that git has there.

    Make it before any code of a change runs: where the remote is and how git reaches it is noted then.

    Example:
        `HistoryBranch(Path.cwd(), "agent-eval-history", os.environ).read("shop")` fetches the branch and
        reads the records of the dataset `shop`.

    Args:
        checkout: A directory in the checkout.
        branch: Name of the branch. It has nothing but records.
        environ: The environment variables, of which git sees a part.

    Raises:
        UsageError: The name is none of a branch.
    """

    def __init__(self, checkout: Path, branch: str, environ: Mapping[str, str]) -> None:
        if not _NAME.fullmatch(branch) or ".." in branch or branch.endswith(("/", ".", ".lock")):
            raise UsageError(
                f"history-branch: {branch[:200]!r} is not the name of a branch.",
                remedy="Name one such as `agent-eval-history`.",
                field="history-branch",
            )
        self._branch = branch
        self._own: OwnRepository | None = None
        self._noted: NotedRemote | AgentEvalError
        try:
            self._noted = NotedRemote.of(checkout, environ, _LIMITS)
        except AgentEvalError as error:
            self._noted = error

    def read(self, dataset_id: str) -> list[RunRecord]:
        """Fetch the branch and read the newest records of a dataset; empty where there is no such branch.

        Raises:
            RemoteError: The branch cannot be fetched.
            InvalidInput: A record is not what was written, or the branch has something else.
        """
        with self._own_repository():
            return self._read(dataset_id)

    def _read(self, dataset_id: str) -> list[RunRecord]:
        tip = self._fetch()
        if tip is None:
            return []
        place = safe_name(dataset_id)
        names = sorted((name for at, name in self._files(tip) if at == place), reverse=True)[:MAX_RUNS]
        source = f"branch {self._branch}/{place}"
        records = [
            decode_file(name, self._git("cat-file", "blob", f"{tip}:{place}/{name}"), source=source)
            for name in names
        ]
        return newest_first(of_dataset(records, dataset_id, source=source))

    def write(self, records: list[RunRecord]) -> None:
        """Add the records of a run to the branch and push it; another job may push at the same time.

        Raises:
            RemoteError: The branch cannot be fetched, or does not accept the push.
            InvalidInput: The branch has something else than records.
        """
        with self._own_repository():
            self._write(records)

    def _write(self, records: list[RunRecord]) -> None:
        refused = RemoteError("")
        for _ in range(_ATTEMPTS):
            tip = self._fetch()
            if tip is not None:
                self._files(tip)
            commit = self._commit(records, tip)
            try:
                # Without force: what is on the branch is never replaced.
                self._git("push", "--quiet", REMOTE, f"{commit}:refs/heads/{self._branch}")
            except RemoteError as error:
                refused = error
            else:
                return
        raise refused

    def _fetch(self) -> str | None:
        """Fetch the newest commit of the branch; None where there is no such branch."""
        reference = f"refs/heads/{self._branch}"
        listed = self._git("ls-remote", REMOTE, reference).decode("utf-8", "replace").split()
        if not listed:
            return None
        options = ("--quiet", "--no-tags", "--no-write-fetch-head", "--depth=1")
        self._git("fetch", *options, REMOTE, f"+{reference}:{_FETCHED}")
        tip = self._git("rev-parse", _FETCHED).decode("ascii", "replace").strip()
        if not COMMIT.fullmatch(tip):
            raise self._failed("rev-parse", "it names no commit")
        return tip

    def _files(self, tip: str) -> list[tuple[str, str]]:
        """List the files of the branch as directory and name.

        Raises:
            InvalidInput: One is no record: the branch is another one, which must not be pushed to.
        """
        files = []
        for entry in self._git("ls-tree", "-r", "-z", "--full-tree", tip).split(b"\0")[:-1]:
            facts, _, path = entry.decode("utf-8", "replace").partition("\t")
            place, _, name = path.partition("/")
            if not (facts.startswith("100644 blob ") and is_record_name(name)):
                raise InvalidInput(
                    f"The branch {self._branch} has {path[:200]!r}, which is no record of a history.",
                    remedy="Name a branch in `history-branch` that has nothing else, or that does not exist.",
                    field="history-branch",
                )
            files.append((place, name))
        return files

    def _commit(self, records: list[RunRecord], tip: str | None) -> str:
        self._git("read-tree", *([tip] if tip else ["--empty"]))
        for record in records:
            blob = self._line("hash-object", "-w", "--stdin", stdin=encode(record))
            path = f"{safe_name(record.run.dataset_id)}/{file_name(record)}"
            self._git("update-index", "--add", "--cacheinfo", f"100644,{blob},{path}")
        tree = self._line("write-tree")
        message = f"Counts of {records[0].run.run_id}"
        parents = ["-p", tip] if tip else []
        return self._line("commit-tree", tree, *parents, "-F", "-", stdin=message.encode())

    @contextmanager
    def _own_repository(self) -> Iterator[None]:
        """Work in a repository of its own, which knows nothing of the checkout but its remote."""
        if isinstance(self._noted, AgentEvalError):
            raise self._failed("config", self._noted.message) from self._noted
        if not self._noted.is_known:
            raise self._failed("ls-remote", f"the checkout has no remote `{REMOTE}`")
        try:
            with self._noted.repository() as self._own:
                yield
        finally:
            self._own = None

    def _line(self, *arguments: str, stdin: bytes = b"") -> str:
        return self._git(*arguments, stdin=stdin).decode("ascii", "replace").strip()

    def _git(self, *arguments: str, stdin: bytes = b"") -> bytes:
        if self._own is None:
            raise self._failed(arguments[0], "there is no repository to run it in")
        try:
            done = self._own.git(*arguments, stdin=stdin, more=_AUTHOR)
        except AgentEvalError as error:
            raise self._failed(arguments[0], error.message) from error
        if done.failure is not None:
            raise self._failed(arguments[0], done.stderr.decode("utf-8", "replace").strip()[-300:])
        return done.stdout

    def _failed(self, command: str, why: str) -> RemoteError:
        return RemoteError(
            f"`git {command}` failed for the history branch {self._branch}: {why}",
            remedy="Check that the job may read and push the branch, and that git keeps its access in the "
            "checkout.",
            field="history-branch",
        )
