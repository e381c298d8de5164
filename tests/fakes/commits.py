"""Commits that every test knows by their name, and whose ids are those of real git objects.

`commit 0`, `commit 1` … are one line, which ends in the tip of main. `merge base` is commit 400. Any other
name is that of a change, which began there.
"""

import hashlib
import subprocess
import tempfile
import zlib
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path

MERGE_BASE, LAST = 400, 599
_WHO = "Ada <ada@example.com> 1767225600 +0000"
_OBJECTS: dict[str, bytes] = {}


def _stored(kind: str, body: bytes) -> str:
    raw = f"{kind} {len(body)}\0".encode() + body
    name = hashlib.sha1(raw).hexdigest()
    _OBJECTS.setdefault(name, raw)
    return name


EMPTY_TREE = _stored("tree", b"")


def _commit(message: str, parents: Sequence[str], tree: str = EMPTY_TREE) -> str:
    lines = [f"tree {tree}", *(f"parent {parent}" for parent in parents), f"author {_WHO}"]
    return _stored("commit", "\n".join([*lines, f"committer {_WHO}", "", message, ""]).encode())


@cache
def _line() -> list[str]:
    line: list[str] = []
    for number in range(LAST + 1):
        line.append(_commit(f"commit {number}", line[-1:]))
    return line


@cache
def sha(name: str) -> str:
    """The id of the commit of a name."""
    if name == "merge base":
        return _line()[MERGE_BASE]
    kind, _, number = name.partition(" ")
    if kind == "commit" and number.isdigit() and int(number) <= LAST:
        return _line()[int(number)]
    return _commit(name, [_line()[MERGE_BASE]])


def tip_of(files: Mapping[str, bytes]) -> str:
    """The newest commit of main, with these files."""
    return _commit("tip", [_line()[LAST]], _tree(files))


def change_of(base: str, files: Mapping[str, bytes]) -> str:
    """A change of a commit, with these files."""
    return _commit("change", [base], _tree(files))


def holding(files: Mapping[str, bytes]) -> str:
    """A change that began at the merge base, with these files."""
    return _commit("head", [_line()[MERGE_BASE]], _tree(files))


def merged(change: str, files: Mapping[str, bytes]) -> str:
    """The trial merge of a change into main."""
    return _commit("trial merge", [tip_of(files), change], _tree(files))


def _tree(files: Mapping[str, bytes]) -> str:
    here = {name: _stored("blob", data) for name, data in files.items() if "/" not in name}
    folders: dict[str, dict[str, bytes]] = {}
    for name, data in files.items():
        folder, slash, rest = name.partition("/")
        if slash:
            folders.setdefault(folder, {})[rest] = data
    rows = [(name, "100644", blob) for name, blob in here.items()]
    rows += [(f"{name}/", "40000", _tree(below)) for name, below in folders.items()]
    body = b"".join(
        f"{mode} {name.rstrip('/')}\0".encode() + bytes.fromhex(blob) for name, mode, blob in sorted(rows)
    )
    return _stored("tree", body)


@cache
def _shared() -> Path:
    return Path(tempfile.mkdtemp(prefix="agent-eval-commits-"))


def check_out(top: Path, commit: str) -> None:
    """Make a directory a checkout that is at a commit; its files are not touched."""
    git = top / ".git"
    if not git.exists():
        _init(top, git)
    _write_objects()
    (git / "HEAD").write_text(f"{commit}\n")


def serve(directory: Path, files: Mapping[str, bytes]) -> None:
    """Make a repository that has every commit, and whose branch main is at its tip."""
    if not directory.exists():
        _init(directory, directory, "--bare")
        with (directory / "config").open("a") as config:
            config.write("[uploadpack]\n\tallowAnySHA1InWant = true\n\tallowFilter = true\n")
    (directory / "refs" / "heads" / "main").write_text(f"{tip_of(files)}\n")
    _write_objects()


def _init(top: Path, git: Path, *options: str) -> None:
    quiet = ("init", "--quiet", "--template=", "--initial-branch=main")
    subprocess.run(["git", *quiet, *options, str(top)], check=True, capture_output=True)
    (git / "objects" / "info").mkdir(parents=True, exist_ok=True)
    (git / "objects" / "info" / "alternates").write_text(f"{_shared()}\n")


def _write_objects() -> None:
    for name, raw in list(_OBJECTS.items()):
        place = _shared() / name[:2] / name[2:]
        if not place.exists():
            place.parent.mkdir(exist_ok=True)
            place.write_bytes(zlib.compress(raw))
