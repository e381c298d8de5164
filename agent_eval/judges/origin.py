"""Where the code of a judge comes from: an installed package, or a project's files."""

from __future__ import annotations

import os
import sys
import sysconfig
from dataclasses import dataclass
from functools import cache
from importlib.util import find_spec
from pathlib import Path


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

    Attributes:
        of: What it is taken in place of: the root of the checkout that has the working directory.
        root: What has the directory as `of` has the working directory. The same as `of` where the working
            directory itself is meant.
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
        """Return the path in the directory for one in the checkout; any other word as it is.

        Example:
            >>> place = CodePlace(Path("/tip/shop"), of=Path("/head"), root=Path("/tip"))
            >>> place.moved("/head/check.py"), place.moved("check.py"), place.moved("/bin/sh")
            ('/tip/check.py', 'check.py', '/bin/sh')
        """
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
