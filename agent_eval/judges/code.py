"""Digests of the code of judges that are not built in: one that changed is not the judge of the baseline.

Comments, docstrings and layout are no code: a digest of Python is that of its syntax tree without them.
"""

from __future__ import annotations

import ast
import inspect
import shlex
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

from agent_eval.contracts import digest
from agent_eval.errors import AgentEvalError
from agent_eval.judges.base import AdvisoryJudge, Judge
from agent_eval.judges.origin import CodePlace
from agent_eval.storage.files import read_bytes, sha256_bytes

MAX_BYTES = 16 << 20
"""A larger file of a judge has no digest."""


@runtime_checkable
class HasIdentity(Protocol):
    """A judge whose verdicts come from something beside its code and configuration, such as a model."""

    def identity(self) -> str | None:
        """Return a digest of it; None where there is nothing."""
        ...


@runtime_checkable
class HasCode(Protocol):
    """A judge in another process, which has computed the digest of its code; None where it has none."""

    code: str | None


def code_digests(judges: Iterable[Judge]) -> dict[str, str]:
    """Compute the digest of each judge's code, by judge id; built-in judges without a program have none.

    Of a judge that asks a model it is the judge's own `identity`. Of a plug-in it is that of the module with
    its class. Of a judge that runs a program it is that of the files below the directory of its code that its
    command names. What these import is not seen.

    Example:
        >>> from agent_eval.judges.catalog import load_judges
        >>> code_digests(load_judges(["regex"]))
        {}
    """
    digests = {}
    for judge in judges:
        if isinstance(judge, AdvisoryJudge):
            continue  # its verdicts are compared with nothing
        if isinstance(judge, HasCode):
            if judge.code is not None:
                digests[judge.judge_id] = judge.code
            continue
        files = [code for path in sorted(_files(judge)) if (code := code_digest(path)) is not None]
        if files:
            digests[judge.judge_id] = digest(files)
        elif isinstance(judge, HasIdentity) and (identity := judge.identity()) is not None:
            digests[judge.judge_id] = identity
    return digests


def _files(judge: Judge) -> Iterator[Path]:
    command: Any = getattr(getattr(judge, "config", None), "command", None)
    if getattr(judge, "runs_commands", False) and isinstance(command, list):
        place = getattr(judge, "place", None) or CodePlace.of_directory(None)
        yield from _named_files(command, place)
    elif not type(judge).__module__.startswith("agent_eval."):
        source = inspect.getsourcefile(type(judge))
        if source is not None:
            yield Path(source)


def _named_files(command: Iterable[str], place: CodePlace) -> Iterator[Path]:
    """Yield the files below a directory that a command names, also within a shell's script."""
    here = place.directory.resolve()
    for word in words_of_command(command):
        path = place.directory / place.moved(word)
        try:
            if path.is_file() and path.resolve().is_relative_to(here):
                yield path
        except (OSError, ValueError):
            continue  # The word can be no path.


def words_of_command(command: Any) -> set[str]:
    """The words of a command, and of a shell's scripts in it: what may be the path of a file."""
    arguments = [word for word in command if isinstance(word, str)] if isinstance(command, list) else []
    return {word for argument in arguments for word in (argument, *_words(argument))}


def _words(argument: str) -> list[str]:
    try:
        return shlex.split(argument)
    except ValueError:
        return []


_COMMENTS = {
    "#": (".sh", ".bash", ".zsh", ".rb", ".pl"),
    "//": (".js", ".mjs", ".cjs", ".ts", ".go", ".rs", ".java"),
    "--": (".lean", ".lua", ".sql", ".hs"),
}
"""What begins a line of comment, in programs of these names."""


def code_digest(path: Path) -> str | None:
    """Digest what a program does: its file without comments; None if it cannot be read."""
    try:
        data = read_bytes(path, max_bytes=MAX_BYTES)
    except AgentEvalError:
        return None
    if path.suffix == ".py" or (data.startswith(b"#!") and b"python" in data.partition(b"\n")[0]):
        try:
            return digest(_essence(ast.parse(data)))
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            return sha256_bytes(data)
    mark = next((mark for mark, suffixes in _COMMENTS.items() if path.suffix in suffixes), None)
    if mark is None:
        return sha256_bytes(data)
    lines = (line.strip() for line in data.splitlines())
    return sha256_bytes(b"\n".join(line for line in lines if line and not line.startswith(mark.encode())))


def _essence(node: Any) -> Any:
    """Return a syntax tree as plain values, without docstrings and without the fields that are not used."""
    if isinstance(node, list):
        return [_essence(item) for item in node]
    if not isinstance(node, ast.AST):
        return node if isinstance(node, str | bool | None) else repr(node)
    fields: dict[str, Any] = {name: value for name, value in ast.iter_fields(node) if value not in (None, [])}
    fields.pop("kind", None)
    documented = isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef)
    if documented and ast.get_docstring(node, clean=False) is not None:  # type: ignore[arg-type]  # as tested
        fields["body"] = fields["body"][1:]
    return [type(node).__name__, {name: _essence(value) for name, value in fields.items()}]
