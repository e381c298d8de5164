"""The files that a job writes, and those that nobody else may write while it runs.

In a container everything is written as root, and later steps may run as another user. Other processes may
write in the workspace at the same time, so no path is trusted twice: every folder is opened without following
links, from the workspace down, and its entries are named relative to that.

A runner reads variables, outputs and the full report from command files when a step has ended. The agent and
`setup` run as the same user as the job, so they can find these files and write to them: set `PATH`
for the steps that follow, or fill in a report that says "passed".
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import stat
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from agent_eval.errors import AgentEvalError, NotEvaluable, StorageError, UsageError
from agent_eval.operations.packs import ARCHIVE_NAME
from agent_eval.storage.atomic import overwrite, write_file, writing_failed
from agent_eval.storage.files import read_bytes
from agent_eval.text.escape import one_line

REPORT_NAME = "report.md"
COMMENT_NAME = "comment.md"
JUNIT_NAME = "junit"
DOTENV_NAME = "agent-eval.env"
_HTML = re.compile(r"agent-eval-.*\.html")
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


def html_name(name: str) -> str:
    """Name the file of the HTML report: an artifact that is one file takes the file's name."""
    return f"agent-eval-{name}.html"


def is_of_the_job(name: str) -> bool:
    """Whether the job itself writes a file of that name into its output directory."""
    of_the_job = (ARCHIVE_NAME, REPORT_NAME, COMMENT_NAME, JUNIT_NAME, DOTENV_NAME)
    return name in of_the_job or _HTML.fullmatch(name) is not None


def refuse_link_out(out: Path, workspace: Path) -> None:
    """Refuse, by `UsageError`, an output directory below the workspace that is a link out of it.

    The link may come with the code under test, whose author need not be allowed to write outside.
    """
    stated = Path(os.path.abspath(workspace / out))
    if not stated.is_relative_to(os.path.abspath(workspace)):
        return  # the user named a directory outside
    if not Path(os.path.realpath(stated)).is_relative_to(os.path.realpath(workspace)):
        raise UsageError(
            f"The output directory {out} leads out of the working directory through a symbolic link.",
            remedy="Remove the link, or set `out` to where it leads.",
            file=str(out),
            field="out",
        )


def refuse_to_overwrite(out: Path) -> None:
    """Refuse, by `UsageError`, an output directory with a report and no archive, which a job writes first."""
    if (out / ARCHIVE_NAME).exists() or not out.is_dir():
        return
    for name in sorted(os.listdir(out)):
        if name in (REPORT_NAME, COMMENT_NAME) or _HTML.fullmatch(name):
            raise UsageError(
                f"{out / name} is there and would be overwritten.",
                remedy="Move it elsewhere, or set `out` to another directory.",
                file=str(out / name),
                field="out",
            )


def give_to_owner(written: Path, workspace: Path) -> None:
    """Give what root wrote below the workspace to the workspace's owner, new folders above it included.

    Does nothing where this process is not root, the workspace is root's, or `written` is outside it. Files of
    other users keep their owner, links are not followed, and files with several names are not touched: one of
    them may be outside. A failure changes nothing about the result and is not reported.
    """
    if os.geteuid() != 0:
        return
    with suppress(OSError, ValueError):
        owner, home = workspace.stat(), workspace.resolve()
        # The folders above are followed once, to see where they lead; below, no link is.
        steps = written.resolve().relative_to(home).parts
        if owner.st_uid == 0:
            return
        current = os.open(home, _FOLDER)
        try:
            for step in steps:
                inner = os.open(step, _FOLDER, dir_fd=current)
                os.close(current)
                current = inner
                if os.fstat(current).st_uid == 0:
                    os.fchown(current, owner.st_uid, owner.st_gid)
            for _, names, files, folder in os.fwalk(".", dir_fd=current):
                for name in (*names, *files):
                    status = os.stat(name, dir_fd=folder, follow_symlinks=False)
                    if status.st_uid == 0 and (stat.S_ISDIR(status.st_mode) or status.st_nlink == 1):
                        os.chown(name, owner.st_uid, owner.st_gid, dir_fd=folder, follow_symlinks=False)
        finally:
            os.close(current)


_SETTLED_SECONDS = 2.0
"""A file that changed later than that may change again in one tick of the clock: it is read again."""

_LONGEST_PATH = 120
_Signature = tuple[int, ...]


class Altered(NotEvaluable):
    """Raised where the change altered what judges, decides, or is run beside it: no answer counts then."""

    code = "altered"


class Seal:
    """The files of a directory as they were when it was made, or last renewed.

    Kind, permissions and content count, and where a link leads. No link is followed. Of files whose status
    did not change no content is read again: no program that cannot set the clock can choose that time.

    `names` are the only files that count, by path below the root; None for all, so that a new one counts too.
    """

    def __init__(self, root: Path, names: Iterable[str] | None = None) -> None:
        self._root = root
        self._names = None if names is None else sorted(names)
        self._known: dict[str, tuple[_Signature, bytes]] = {}
        self._seen = self._digests()

    def renew(self) -> None:
        """Remember the files as they are now."""
        self._seen = self._digests()

    def altered(self) -> str | None:
        """Find the first path, by the alphabet, that is new, gone or altered; None without one."""
        now = self._digests()
        if now == self._seen:
            return None
        return min(path for path in now.keys() | self._seen.keys() if now.get(path) != self._seen.get(path))

    def _digests(self) -> dict[str, bytes]:
        now = time.time()
        digests: dict[str, bytes] = {}
        known: dict[str, tuple[_Signature, bytes]] = {}
        for name in self._all() if self._names is None else self._names:
            path = self._root / name
            try:
                status = path.lstat()
                identity = (status.st_mode, status.st_ino, status.st_size)
                signature = (*identity, status.st_mtime_ns, status.st_ctime_ns)
                before, known_content = self._known.get(name, ((), b""))
                content = known_content if before == signature else _content(path, status)
            except OSError:
                continue  # gone, or of another kind since it was looked at
            if now - status.st_ctime > _SETTLED_SECONDS:
                known[name] = signature, content
            digests[name] = f"{status.st_mode:o}:".encode() + content
        self._known = known
        return digests

    def _all(self) -> Iterator[str]:
        waiting = [""]
        while waiting:
            folder = waiting.pop()
            with os.scandir(self._root / folder) as entries:
                for entry in entries:
                    name = f"{folder}/{entry.name}" if folder else entry.name
                    if entry.is_dir(follow_symlinks=False):
                        waiting.append(name)
                    else:
                        yield name


def _content(path: Path, status: os.stat_result) -> bytes:
    if stat.S_ISLNK(status.st_mode):
        return hashlib.sha256(os.fsencode(os.readlink(path))).digest()
    if not stat.S_ISREG(status.st_mode):
        return b""
    with open(os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC), "rb") as file:
        return hashlib.file_digest(file, "sha256").digest()


LARGEST = 64 << 20
"""Bytes of a command file that are remembered."""


@dataclass(frozen=True)
class FileSnapshot:
    """A file as it was; content and state are None where there was none."""

    path: Path
    content: bytes | None
    state: os.stat_result | None

    @classmethod
    def of(cls, path: Path) -> FileSnapshot | None:
        """Remember a file; None where there is a link, a directory, a pipe or a device.

        Raises:
            InvalidInput: It cannot be read, or is too large to be remembered.
        """
        state = _state(path)
        if state is not None and not stat.S_ISREG(state.st_mode):
            return None
        content = None if state is None else read_bytes(path, max_bytes=LARGEST)
        return cls(path, content, state)

    def restore(self) -> bool:
        """Write the content back, if the file differs. Returns whether it did.

        Raises:
            StorageError: The file cannot be written.
        """
        try:
            now = _state(self.path)
            if now is None and self.content is None:
                return False
            if now is not None and stat.S_ISDIR(now.st_mode):
                shutil.rmtree(self.path)
            elif now is not None and not stat.S_ISREG(now.st_mode):
                self.path.unlink()
            elif now is not None and self.content is not None:
                with suppress(AgentEvalError):  # what cannot be read now is not as it was
                    if read_bytes(self.path, max_bytes=LARGEST) == self.content:
                        return False
            if self.content is None:
                self.path.unlink(missing_ok=True)
                return True
            try:
                # Replaced, so that a descriptor which a process kept open writes to nothing.
                write_file(self.path, self.content)
            except StorageError:
                # A file that is mounted alone cannot be replaced.
                overwrite(self.path, self.content)
                return True
            if self.state is not None:
                with suppress(OSError):
                    os.chown(self.path, self.state.st_uid, self.state.st_gid)
                    self.path.chmod(stat.S_IMODE(self.state.st_mode))
        except OSError as error:
            raise writing_failed(self.path, error) from error
        return True


def _state(path: Path) -> os.stat_result | None:
    with suppress(OSError):
        return path.lstat()
    return None


@contextmanager
def guarded(variables: Sequence[str], environ: Mapping[str, str]) -> Iterator[None]:
    """Restore the runner's command files when the block ends or raises, and refuse what wrote to them.

    `variables` are names of the variables with the paths of such files.

    Raises:
        Altered: A file was changed.
        StorageError: A file was changed and cannot be written back; the others were.
    """
    snapshots = {name: FileSnapshot.of(Path(environ[name])) for name in variables if environ.get(name)}
    try:
        yield
    finally:
        changed, errors = [], []
        for name, snapshot in snapshots.items():
            try:
                if snapshot is not None and snapshot.restore():
                    changed.append(name)
            except StorageError as error:
                errors.append(error)
        # After the last of them: one that cannot be written must not keep the others as the agent left them.
        if errors:
            raise errors[0]
        if changed:
            what = "command files" if len(changed) > 1 else "a command file"
            raise Altered(
                f"The agent wrote to {what} of the job: {', '.join(map(as_code, changed))}.",
                remedy="What it wrote was taken back. Look at what the agent and `setup` do.",
            )


def as_code(path: str) -> str:
    """Write a path, which may be of an attacker's choosing, as code within a sentence.

    Example:
        >>> as_code("a`b"), as_code(" ")
        ("`a'b`", '`∅`')
    """
    readable = path.encode("utf-8", "backslashreplace").decode().replace("`", "'")
    return f"`{one_line(readable, limit=_LONGEST_PATH).strip() or '∅'}`"
