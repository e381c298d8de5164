"""Tell whether both sides of a confirmation would run one program, however different their sources are."""

from __future__ import annotations

import filecmp
import math
import os
import re
import shutil
import stat
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
_INSTALLED = ("bin", "lib", "lib64", "libexec", "envs")
"""What is looked at below a prefix; `envs` are the named environments of conda."""

_BEHIND_SHIMS = ("versions", "installs")
"""What the programs in a directory `shims` start: those of pyenv and the like, and of asdf and mise."""

_PREFIXES = ("VIRTUAL_ENV", "CONDA_PREFIX", "PYTHONUSERBASE", "GEM_HOME")
_FOLDERS = ("PYTHONPATH", "NODE_PATH")
"""Variables that name, beside `PATH`, what is installed."""


def why_shared(
    command: str,
    tree: Path,
    workspace: Path,
    environ: Mapping[str, str],
    since: float,
    own: Path | None = None,
) -> str:
    """Say why both sides would run the same program, as a sentence; empty where nothing shows that.

    Args:
        command: The agent's command at the merge base.
        tree: Where it is run.
        workspace: The change's checkout.
        environ: What the merge base's agent sees.
        since: When the merge base's setup began, in seconds since 1970.
        own: The top of the worktree, in which the setup may alter everything; None where that is `tree`.
    """
    if leads_into(command, tree, workspace):
        return NAMES_THE_CHANGE
    if not names_its_tree(command, tree):
        return (
            "The agent's command runs no file of the repository, so both sides would run the same program: "
            "name the merge base's agent in `base-agent`, or a file of the repository in `agent-command`."
        )
    apart = [Path(os.path.realpath(place)) for place in (own or tree, workspace)]
    for entry in installed(command, tree, environ):
        if _leads_into(entry, workspace):
            return (
                f"`{_named(entry)}` leads from the installed packages into the checkout of the change, so "
                "both sides would run the change's code: install without links into the checkout."
            )
        if _changed_within(entry, since) and not _is_below(entry.path, apart):
            return (
                f"`setup-command` of the merge base altered `{_named(entry)}`, which the change's agent uses "
                "as well: install into the checkout, such as into a virtual environment there."
            )
    return ""


def first_altered(
    command: str, tree: Path, apart: Sequence[Path], environ: Mapping[str, str], span: tuple[float, float]
) -> str | None:
    """Find a program or package that was installed or altered in a span of time; None without one.

    Args:
        command: The agent's command.
        tree: Where it is run.
        apart: Directories that do not count: both checkouts.
        environ: What the agent sees.
        span: Begin and end, in seconds since 1970.
    """
    places = [Path(os.path.realpath(place)) for place in apart]
    for entry in installed(command, tree, environ):
        if _changed_within(entry, *span) and not _is_below(entry.path, places):
            return _named(entry)
    return None


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


def installed(command: str, tree: Path, environ: Mapping[str, str]) -> Iterator[os.DirEntry[str]]:
    """Yield the installed programs and packages that an agent may use, without following links.

    They are those that `PATH` and the variables of package managers reach, those of the user, and those
    beside the command's program, wherever that is.

    Args:
        command: The agent's command.
        tree: Where it is run.
        environ: What it sees.
    """
    waiting = list(_roots(command, tree, environ))
    while waiting:
        try:
            with os.scandir(waiting.pop()) as entries:
                children = list(entries)
        except OSError:
            continue
        for entry in children:
            if entry.name == "__pycache__":
                continue
            yield entry
            if entry.is_dir(follow_symlinks=False):
                waiting.append(entry.path)


def _roots(command: str, tree: Path, environ: Mapping[str, str]) -> Iterator[str]:
    """Yield the directories with what is installed, each once, and none that is below another."""
    folders = [Path(name) for name in environ.get("PATH", "").split(os.pathsep) if name]
    prefixes = [Path(environ[name]) for name in _PREFIXES if environ.get(name)]
    if home := environ.get("HOME"):
        prefixes.append(Path(home) / ".local")
    if program := program_of(command, tree, environ):
        # A link, as an environment's interpreter is one, uses what is beside it and beside what it leads to.
        places = (program.parent, Path(os.path.realpath(program)).parent)
        folders += [place for place in places if place.name == "bin"]
    folders = [Path(_real(tree, str(folder))) for folder in folders]
    prefixes += [folder.parent for folder in folders if folder.parent != Path("/")]
    roots = [*folders, *(prefix / name for prefix in prefixes for name in _INSTALLED)]
    roots += [folder.parent / name for folder in folders if folder.name == "shims" for name in _BEHIND_SHIMS]
    roots += [Path(name) for each in _FOLDERS for name in environ.get(each, "").split(os.pathsep) if name]
    known = {Path(_real(tree, str(root))) for root in roots}
    yield from sorted(str(root) for root in known if known.isdisjoint(root.parents))


def program_of(command: str, tree: Path, environ: Mapping[str, str]) -> Path | None:
    """Find the program that a command starts, links in its own place kept; None where there is none."""
    first = split_command(command)[0]
    if "/" in first:
        return Path(os.path.normpath(tree / first))
    folders = [str(tree / name) for name in environ.get("PATH", "").split(os.pathsep) if name]
    program = shutil.which(first, path=os.pathsep.join(folders))
    return Path(program) if program else None


def _leads_into(entry: os.DirEntry[str], workspace: Path) -> bool:
    if entry.is_symlink():
        return Path(os.path.realpath(entry.path)).is_relative_to(workspace)
    name = entry.name
    if not (name.endswith(_NAMES_A_PATH) or name.startswith("__editable__") or name == "direct_url.json"):
        return False
    try:
        is_small = entry.stat().st_size <= _LARGEST_LINK_FILE
        return is_small and os.fsencode(workspace) in Path(entry.path).read_bytes()
    except OSError:
        return False


def _changed_within(entry: os.DirEntry[str], since: float, until: float = math.inf) -> bool:
    """Tell whether a file or link changed in a span; directories do by the bytecode in them."""
    try:
        status = entry.stat(follow_symlinks=False)
    except OSError:
        return False
    return since < status.st_ctime <= until and not stat.S_ISDIR(status.st_mode)


def _is_below(path: str, places: Sequence[Path]) -> bool:
    return any(Path(path).is_relative_to(place) for place in places)


def _named(entry: os.DirEntry[str]) -> str:
    return one_line(entry.name, limit=100).replace("`", "'")
