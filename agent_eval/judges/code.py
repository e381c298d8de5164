"""The code of judges that are not built in: where it comes from, and its digest.

One whose code changed is not the judge of the baseline. Comments, docstrings and layout are no code: a digest
of Python is that of its syntax tree without them.
"""

from __future__ import annotations

import ast
import inspect
import os
import shlex
import sys
import sysconfig
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from agent_eval.contracts import digest
from agent_eval.errors import AgentEvalError
from agent_eval.judges.base import AdvisoryJudge, Judge
from agent_eval.storage.files import read_bytes, sha256_bytes


@cache
def _installed_places() -> tuple[Path, ...]:
    paths = sysconfig.get_paths()
    return tuple({Path(paths[name]).resolve() for name in ("stdlib", "platstdlib", "purelib", "platlib")})


def is_installed(path: Path) -> bool:
    """Tell whether a file is part of this interpreter or of a package that was installed into it."""
    real = path.resolve()
    return any(real.is_relative_to(place) for place in _installed_places())


def is_installed_module(name: str) -> bool:
    """Tell whether a module is installed, without importing it; an editable install is not."""
    try:
        spec = find_spec(name.partition(".")[0])
    except (ImportError, ValueError):
        return False
    places = [] if spec is None else [spec.origin, *(spec.submodule_search_locations or ())]
    files = [Path(place) for place in places if place is not None and os.path.isabs(place)]
    return bool(files) and all(map(is_installed, files))


@dataclass(frozen=True)
class CodePlace:
    """Where the code of judges is taken from: a directory in place of the working directory.

    `of` is the root of the checkout that has the working directory. `root` has the directory as `of` has the
    working directory; they are the same where the working directory itself is meant.
    """

    directory: Path
    of: Path
    root: Path

    @classmethod
    def of_directory(cls, directory: Path | None) -> CodePlace:
        """Make the place of a directory; None for the working directory."""
        here = Path.cwd()
        there = here if directory is None else Path(os.path.abspath(directory))
        checkout = next((path for path in (here, *here.parents) if (path / ".git").exists()), here)
        below = here.relative_to(checkout)
        if there.parts[len(there.parts) - len(below.parts) :] != below.parts:
            return cls(there, here, there)
        return cls(there, checkout, Path(*there.parts[: len(there.parts) - len(below.parts)]))

    @property
    def is_elsewhere(self) -> bool:
        """Whether it is another directory than the working directory."""
        return self.root != self.of

    def moved(self, word: str) -> str:
        """Return the path in the directory for one in the checkout; any other word as it is."""
        if not self.is_elsewhere or not os.path.isabs(word):
            return word
        path = Path(os.path.normpath(word))
        if not path.is_relative_to(self.of) or path.is_relative_to(self.root):
            return word
        return str(self.root / path.relative_to(self.of))

    def search_path(self) -> list[str]:
        """List where modules are looked for: as here, with the directory for the checkout, and last."""
        entries = [os.path.abspath(entry) for entry in sys.path]
        moved = [entry if is_installed(Path(entry)) else self.moved(entry) for entry in entries]
        return list(dict.fromkeys([*moved, str(self.directory)]))


MAX_BYTES = 16 << 20
"""A larger file of a judge has no digest."""


def code_digests(judges: Iterable[Judge]) -> dict[str, str]:
    """Compute the digest of each judge's code, by judge id; built-in judges without a program have none.

    Of a judge that asks a model it is the judge's own `identity`. Of a plug-in it is that of the module with
    its class. Of a judge that runs a program it is that of the files below the directory of its code that its
    command names. What these import is not seen.
    """
    digests = {}
    for judge in judges:
        if isinstance(judge, AdvisoryJudge):
            continue  # its verdicts are compared with nothing
        of_judge: str | None = None
        if hasattr(judge, "code"):  # it runs in another process, which has computed the digest
            of_judge = judge.code
        elif files := [code for path in sorted(_files(judge)) if (code := code_digest(path)) is not None]:
            of_judge = digest(files)
        elif hasattr(judge, "identity"):
            of_judge = judge.identity()
        if of_judge is not None:
            digests[judge.judge_id] = of_judge
    return digests


def _files(judge: Judge) -> Iterator[Path]:
    """Yield the file of a plug-in, or those below its directory that a judge's command names."""
    command: Any = getattr(getattr(judge, "config", None), "command", None)
    if not getattr(judge, "runs_commands", False) or not isinstance(command, list):
        own = type(judge).__module__.startswith("agent_eval.")
        if not own and (source := inspect.getsourcefile(type(judge))) is not None:
            yield Path(source)
        return
    place = getattr(judge, "place", None) or CodePlace.of_directory(None)
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
    words: set[str] = set()
    for argument in command if isinstance(command, list) else ():
        if isinstance(argument, str):
            words.add(argument)
            with suppress(ValueError):
                words.update(shlex.split(argument))
    return words


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
