"""Digests of the code of judges that are not built in: one that changed is not the judge of the baseline."""

from __future__ import annotations

import inspect
import shlex
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

from agent_eval.contracts import digest
from agent_eval.errors import AgentEvalError
from agent_eval.judges.base import Judge
from agent_eval.storage.files import read_bytes, sha256_bytes

MAX_BYTES = 16 << 20
"""A larger file of a judge has no digest."""


@runtime_checkable
class HasIdentity(Protocol):
    """A judge whose verdicts come from something beside its code and configuration, such as a model."""

    def identity(self) -> str | None:
        """Return a digest of it; None where there is nothing."""
        ...


def code_digests(judges: Iterable[Judge]) -> dict[str, str]:
    """Compute the digest of each judge's code, by judge id; built-in judges without a program have none.

    Of a judge that asks a model it is the judge's own `identity`. Of a plug-in it is that of the module with
    its class. Of a judge that runs a program it is that of the files below the working directory that its
    command names. What these import is not seen.

    Example:
        >>> from agent_eval.judges.catalog import load_judges
        >>> code_digests(load_judges(["regex"]))
        {}
    """
    digests = {}
    for judge in judges:
        files = [sha256_bytes(data) for path in sorted(_files(judge)) if (data := _read(path)) is not None]
        if files:
            digests[judge.judge_id] = digest(files)
        elif isinstance(judge, HasIdentity) and (identity := judge.identity()) is not None:
            digests[judge.judge_id] = identity
    return digests


def _files(judge: Judge) -> Iterator[Path]:
    command: Any = getattr(getattr(judge, "config", None), "command", None)
    if getattr(judge, "runs_commands", False) and isinstance(command, list):
        yield from _named_files(command)
    elif not type(judge).__module__.startswith("agent_eval."):
        source = inspect.getsourcefile(type(judge))
        if source is not None:
            yield Path(source)


def _named_files(command: Iterable[str]) -> Iterator[Path]:
    """Yield the files below the working directory that a command names, also within a shell's script."""
    here = Path.cwd().resolve()
    for word in {word for argument in command for word in (argument, *_words(argument))}:
        path = Path(word)
        try:
            if path.is_file() and path.resolve().is_relative_to(here):
                yield path
        except (OSError, ValueError):
            continue  # The word can be no path.


def _words(argument: str) -> list[str]:
    try:
        return shlex.split(argument)
    except ValueError:
        return []


def _read(path: Path) -> bytes | None:
    try:
        return read_bytes(path, max_bytes=MAX_BYTES)
    except AgentEvalError:
        return None
