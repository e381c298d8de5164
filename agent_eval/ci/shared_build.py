"""Tell whether both sides of a confirmation would run one program, however different their sources are."""

from __future__ import annotations

import filecmp
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Literal

from agent_eval.agents.command import split_command
from agent_eval.text.escape import one_line

_READS_ITS_DIRECTORY = frozenset(
    {
        *("bun", "bundle", "cargo", "composer", "deno", "dotnet", "go", "gradle", "hatch", "just"),
        *(
            "make",
            "mix",
            "mvn",
            "npm",
            "npx",
            "pdm",
            "pipenv",
            "pnpm",
            "poetry",
            "rake",
            "rye",
            "sbt",
            "swift",
        ),
        *("task", "tox", "uv", "uvx", "yarn"),
    }
)
"""Programs that run what the directory they are started in says."""

_INTERPRETER = re.compile(
    r"(python|pypy|ruby|perl|php|lua|tclsh)[\d.]*t?|node|nodejs|java|tsx|ts-node|Rscript|julia|elixir|escript"
    r"|(ba|da|z|k)?sh"
)
"""Programs that run the file that is named first; of any other program nothing says what it runs."""

_RUNS_TEXT = frozenset({"-c", "-e", "--eval", "-p", "--print"})
_PATH = re.compile(r"\.{0,2}/[^\s:=,;\"'|&<>()]*")
"""What in a word may be a path, wherever it begins: after an option's name, a colon, or within a script."""

NAMES_THE_CHANGE = (
    "A command of the merge base names a path in the checkout of the change, so both sides would run the "
    "change's code: write paths relative to the working directory."
)

SAME_BUILD = (
    "`{path}` is the same on both sides although the sources are not, so the agent was not built from them: "
    "let `setup-command` build it."
)
"""Names the file that was built."""

_NAMES_A_PATH = (".pth", ".egg-link")
_LARGEST_LINK_FILE = 1 << 16
_INSTALLED = ("bin", "lib", "lib64", "libexec")


def why_shared(command: str, tree: Path, workspace: Path, environ: Mapping[str, str], since: float) -> str:
    """Say why both sides would run the same program, as a sentence; empty where nothing shows that.

    Args:
        command: The agent's command at the merge base.
        tree: Where it is run.
        workspace: The change's checkout.
        environ: What the merge base's agent sees.
        since: When the merge base's setup began, in seconds since 1970.
    """
    if leads_into(command, tree, workspace):
        return NAMES_THE_CHANGE
    if not names_its_tree(command, tree):
        return (
            "The agent's command runs no file of the repository, so both sides would run the same program: "
            "name the merge base's agent in `base-agent`, or a file of the repository in `agent-command`."
        )
    for path in installed(environ):
        if _leads_into(path, workspace):
            return (
                f"`{path.name}` leads from the installed packages into the checkout of the change, so both "
                "sides would run the change's code: install without links into the checkout."
            )
        if _changed_since(path, since):
            return (
                f"`setup-command` of the merge base altered `{path.name}`, which the change's agent uses as "
                "well: install into the checkout, such as into a virtual environment there."
            )
    return ""


def why_same_build(command: str, directory: Path, tops: tuple[Path, Path], tracked: frozenset[str]) -> str:
    """Say that a build did not take up the change's sources, as a sentence; empty where nothing shows that.

    A file that the command names and that git does not know was built. Where it is the same on both sides,
    both would run one program, and the merge base would fail wherever the change does.

    Args:
        command: The agent's command at the merge base.
        directory: Where it is run.
        tops: The tops of the merge base's worktree and of the change's checkout.
        tracked: The files that git knows in the change's checkout, relative to its top.
    """
    base, change = (Path(os.path.realpath(top)) for top in tops)
    for word in split_command(command):
        for part in re.split("[=:]", word):
            path = Path(_real(directory, part)) if part and "\0" not in part else base
            if not path.is_relative_to(base) or not path.is_file():
                continue
            name = path.relative_to(base)
            if name.as_posix() not in tracked and _is_same_file(path, change / name):
                return SAME_BUILD.format(path=one_line(name.as_posix(), limit=100).replace("`", "'"))
    return ""


def _is_same_file(first: Path, second: Path) -> bool:
    try:
        return second.is_file() and filecmp.cmp(first, second, shallow=False)
    except OSError:
        return False


def leads_into(command: str, tree: Path, workspace: Path) -> bool:
    """Tell whether any part of a command is a path in a directory, absolute or by way of the parents.

    Args:
        command: The command, or a script of several.
        tree: Where it is run.
        workspace: The directory that it may not name.
    """
    tops = {str(workspace), os.path.realpath(workspace)}
    if any(re.search(rf"{re.escape(top)}(?![\w.-])", command) for top in tops):
        return True
    real = Path(os.path.realpath(workspace))
    named = [*command.split(), *_PATH.findall(command)]
    return any(Path(_real(tree, name)).is_relative_to(real) for name in named if "\0" not in name)


def names_its_tree(command: str, tree: Path) -> bool:
    """Tell whether the program that a command runs is of the directory it is run in.

    One file of the tree somewhere in the command is not enough: a program from elsewhere may only read it.

    Example:
        >>> _ = Path("agent.py").write_text("")
        >>> names_its_tree("python agent.py", Path()), names_its_tree("my-agent agent.py", Path())
        (True, False)
    """
    first, *words = split_command(command)
    name = Path(first).name
    if "/" in first and _place_in(first, tree) == "inside":
        return True
    reads_directory = name in _READS_ITS_DIRECTORY
    if not reads_directory and not _INTERPRETER.fullmatch(name):
        return False
    for number, word in enumerate(words):
        if not reads_directory and word in _RUNS_TEXT:
            return False
        if word == "-m" and not reads_directory:
            return _module_in_tree(words[number : number + 2], tree)
        places = {_place_in(part, tree) for part in re.split("[=:]", word)}
        if "outside" in places:
            return False
        if "inside" in places and not word.startswith("-"):
            return True
    return reads_directory


def _real(tree: Path, name: str) -> str:
    return os.path.realpath(tree / name)


def _place_in(name: str, tree: Path) -> Literal["inside", "outside", "nowhere"]:
    """Tell where a file or directory is; the tree itself says too little to count."""
    if not name or "\0" in name:
        return "nowhere"
    place, top = Path(_real(tree, name)), Path(_real(tree, "."))
    try:
        if not place.is_relative_to(top):
            return "outside"
        return "inside" if place != top and place.exists() else "nowhere"
    except OSError:
        return "nowhere"


def _module_in_tree(words: Sequence[str], tree: Path) -> bool:
    for option, module in pairwise(words):
        path = module.replace(".", "/")
        if option == "-m" and any(_place_in(name, tree) == "inside" for name in (path, f"{path}.py")):
            return True
    return False


def installed(environ: Mapping[str, str]) -> Iterator[Path]:
    """Yield the installed programs and packages that `PATH` reaches, and those of the user."""
    folders = dict.fromkeys(
        Path(os.path.realpath(name)) for name in environ.get("PATH", "").split(os.pathsep) if name
    )
    prefixes = [folder.parent for folder in folders if folder.parent != Path("/")]
    if home := environ.get("HOME"):
        prefixes.append(Path(home) / ".local")
    roots = [*folders, *(prefix / name for prefix in prefixes for name in _INSTALLED)]
    for root in dict.fromkeys(Path(os.path.realpath(root)) for root in roots):
        for folder, names, files in os.walk(root):
            names[:] = [name for name in names if name != "__pycache__"]
            yield from (Path(folder, name) for name in (*names, *files))


def _leads_into(path: Path, workspace: Path) -> bool:
    if path.is_symlink():
        return Path(os.path.realpath(path)).is_relative_to(workspace)
    if not (
        path.suffix in _NAMES_A_PATH or path.name.startswith("__editable__") or path.name == "direct_url.json"
    ):
        return False
    try:
        return path.stat().st_size <= _LARGEST_LINK_FILE and os.fsencode(workspace) in path.read_bytes()
    except OSError:
        return False


def _changed_since(path: Path, since: float) -> bool:
    try:
        status = path.lstat()
    except OSError:
        return False
    return not path.is_dir() and status.st_ctime > since
