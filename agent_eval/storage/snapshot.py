"""Remember a file, and write it back where something else changed it."""

from __future__ import annotations

import os
import shutil
import stat
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from agent_eval.errors import AgentEvalError, StorageError
from agent_eval.storage.atomic import write_file, writing_failed
from agent_eval.storage.files import read_bytes

LARGEST = 64 << 20
"""Bytes of a file that are remembered."""


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
        if _is_special(path):
            return None
        state = _state(path)
        content = None if state is None else read_bytes(path, max_bytes=LARGEST)
        return cls(path, content, state)

    def restore(self) -> bool:
        """Write the content back, if the file differs. Returns whether it did.

        Raises:
            StorageError: The file cannot be written.
        """
        try:
            if _is_special(self.path):
                _discard(self.path)
            elif self._is_unchanged():
                return False
            if self.content is None:
                self.path.unlink(missing_ok=True)
            else:
                self._write(self.content)
        except OSError as error:
            raise writing_failed(self.path, error) from error
        return True

    def _is_unchanged(self) -> bool:
        """Whether the file is as it was. What cannot be read now is not."""
        if self.content is None:
            return _state(self.path) is None
        try:
            return read_bytes(self.path, max_bytes=LARGEST) == self.content
        except AgentEvalError:
            return False

    def _write(self, content: bytes) -> None:
        """Replace the file, so that a descriptor which a process kept open writes to nothing."""
        try:
            write_file(self.path, content)
        except StorageError:
            # A file that is mounted alone cannot be replaced.
            with open(self.path, "r+b", opener=_no_link) as file:
                file.truncate()
                file.write(content)
            return
        if self.state is not None:
            with suppress(OSError):
                os.chown(self.path, self.state.st_uid, self.state.st_gid)
                self.path.chmod(stat.S_IMODE(self.state.st_mode))


def _state(path: Path) -> os.stat_result | None:
    with suppress(OSError):
        return path.lstat()
    return None


def _is_special(path: Path) -> bool:
    """Whether there is something that is no regular file."""
    state = _state(path)
    return state is not None and not stat.S_ISREG(state.st_mode)


def _discard(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink()


def _no_link(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_NOFOLLOW)
