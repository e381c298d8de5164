"""The two sides of a job, each in a worktree of the private clone, with nothing of the other's.

A side is a commit and nothing else: what earlier steps of the job made in the checkout, and what is not
committed there, is on neither side, so `setup-command` makes all that the agent needs. The change is run
there from its first run on, as fresh trials under other conditions than the first would say nothing.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Literal

from agent_eval.agents.base import AgentOptions
from agent_eval.agents.command import split_command
from agent_eval.ci.clone import PrivateClone
from agent_eval.ci.config import Setup
from agent_eval.ci.seal import Altered, Seal, as_code
from agent_eval.ci.worktree import check_out
from agent_eval.config.spec import AgentSpec
from agent_eval.errors import FailureKind, NotEvaluable
from agent_eval.operations.agent_setup import agent_options
from agent_eval.processes.child import TOOL_HOMES, ChildLimits, allowed_environment, run_child
from agent_eval.storage.atomic import write_unsynced

SETTINGS_OF_HOME = (
    *(".npmrc", ".yarnrc.yml", ".config/pip/pip.conf", ".pip/pip.conf", ".config/uv/uv.toml"),
    *(".cargo/config.toml", ".cargo/credentials.toml", ".docker/config.json", ".gitconfig"),
    *(".m2/settings.xml", ".netrc", ".pypirc", ".aws/config", ".aws/credentials"),
    ".config/gcloud/application_default_credentials.json",
)
"""What says where packages and services are, and by whose leave. Each side has a copy; of caches none."""

_CACHE = re.compile(r".*_(cache|cache_(dir|home|folder|path))|gocache|gomodcache", re.IGNORECASE)
_XDG = {
    "XDG_CACHE_HOME": ".cache",
    "XDG_CONFIG_HOME": ".config",
    "XDG_DATA_HOME": ".local/share",
    "XDG_STATE_HOME": ".local/state",
}
_PACKAGES = (
    *("lib/python*/site-packages", "lib/python*/dist-packages", "lib64/python*/site-packages"),
    *("lib/node_modules", "lib/node_modules/@*", "lib/ruby/gems/*/gems"),
)
"""Where, below the directory that a `bin` of PATH is in, installers put what all programs there can use."""

_OUTPUT_BYTES = 64 << 20
_SHOWN_LINES = 40
_SHOWN_CHARACTERS = 6_000

_Entry = tuple[int, int, int, int]


class NoSuchDirectory(NotEvaluable):
    """Raised where a commit does not have the directory that the job works in."""

    code = "no_such_directory"


class SetupFailed(NotEvaluable):
    """Raised when `setup-command` fails. `details["output"]` is the end of what it printed."""

    code = "setup_failed"


class Side:
    """A commit that is checked out, with a HOME, TMPDIR and caches of its own.

    `start` is the directory in the checkout that the job works in; None for the working directory.
    `directory` is the same in the worktree: agent and setup run there. Children get a part of `environ`,
    which has the environment variables of the job as this side sees them.

    Raises:
        CannotCheckOut: A submodule, an LFS file or a file of it is not to be had.
        NoSuchDirectory: The commit does not have the directory.
    """

    def __init__(
        self,
        clone: PrivateClone,
        name: Literal["change", "base"],
        commit: str,
        environ: Mapping[str, str],
        start: Path | None = None,
    ) -> None:
        self.name, self.commit = name, commit
        place = clone.home / name
        place.mkdir()
        # Some programs name what they make after the directory.
        tree = check_out(clone, commit, place / "tree" / clone.top.name)
        self.top = self.directory = tree.directory
        self._of_checkout = clone.top
        self._inside = re.compile(rf"{re.escape(str(clone.top))}(?![\w.-])")
        self._sources = Seal(tree.directory, tree.tracked)
        self._home, self._temporary = place / "home", place / "tmp"
        self._installed: dict[str, _Entry] = {}
        self.directory = self.path((start or Path.cwd()).resolve())
        if not self.directory.is_dir():
            where = self.directory.relative_to(self.top).as_posix()
            raise NoSuchDirectory(
                f"There is no directory {as_code(where)} in commit {commit[:7]}.",
                remedy="Run the job in a directory that both sides have.",
            )
        self.environ = self._surroundings(environ)

    def path(self, path: Path) -> Path:
        """Where a path is in the worktree that is absolute in the checkout, or relative to `directory`."""
        if path.is_relative_to(self.top):
            return path
        if path.is_relative_to(self._of_checkout):
            return self.top / path.relative_to(self._of_checkout)
        return self.directory / path

    def set_up(self, setup: Setup, say: Callable[[str], None]) -> None:
        """Run `setup-command` there, and take what it left as the sources of this side."""
        self.refuse_altered()
        setup = replace(setup, command=self.moved(setup.command))
        set_up(setup, self.environ, say, cwd=self.directory, of=self.name)
        self.seal()

    def moved(self, text: str) -> str:
        """Write the worktree wherever a text, such as a command, names the checkout."""
        return self._inside.sub(lambda _: str(self.top), text)

    def agent(self, agent: AgentSpec) -> AgentSpec:
        """Copy the specification of an agent with commands and files of this side's worktree."""
        command, name, repair = (
            self.moved(text) if text is not None else None
            for text in (agent.command, agent.name, agent.repair_command)
        )
        prompt = self.path(agent.system_prompt) if agent.system_prompt is not None else None
        return replace(agent, command=command, name=name, repair_command=repair, system_prompt=prompt)

    def options(self, agent: AgentSpec) -> AgentOptions:
        """Read the settings of an agent as this side has them: its variables, and its system prompt."""
        return replace(agent_options(self.agent(agent), self.environ), cwd=self.directory)

    def seal(self) -> None:
        """Take the sources as they are now: after a setup, or after trials of this side's own agent."""
        self._sources.renew()

    def altered(self) -> str | None:
        """Find the first tracked file that is not as it was sealed; None without one.

        Ignored and untracked files do not count: agents write logs and caches beside their sources.
        """
        return self._sources.altered()

    def refuse_altered(self) -> None:
        """Refuse a side whose sources the other altered. For the base, before each of its trials."""
        path = self.altered()
        if path is not None:
            raise Altered(
                f"Files of the {self.name} were altered while the other side ran: {as_code(path)}.",
                remedy="Let agent and setup write below their own working directory.",
                file=path,
            )

    def note_installed(self, command: str | None) -> None:
        """Remember the installed programs and packages that the agent may use, before the other's setup."""
        self._installed = dict(self._usable(command))

    def installed_altered(self, command: str | None) -> str | None:
        """Find a program or package that was installed, removed or altered since; None without one."""
        now, before = dict(self._usable(command)), self._installed
        return min(
            (path for path in now.keys() | before.keys() if now.get(path) != before.get(path)), default=None
        )

    def _surroundings(self, environ: Mapping[str, str]) -> dict[str, str]:
        """Make home and temporary directory, and the variables that lead there."""
        home = Path(environ.get("HOME", "/nonexistent"))
        for place in (self._home, self._temporary):
            place.mkdir(mode=0o700)
        for name in SETTINGS_OF_HOME:
            if (home / name).is_file():
                (self._home / name).parent.mkdir(parents=True, exist_ok=True)
                write_unsynced(self._home / name, (home / name).read_bytes())
                (self._home / name).chmod(0o600)
        moved = {name: self._moved_value(value) for name, value in environ.items()}
        moved.pop("VIRTUAL_ENV", None)
        caches = {name: str(self._home / ".cache" / name.lower()) for name in moved if _CACHE.fullmatch(name)}
        tools = {
            name: moved.get(name) or str(home / below)
            for name, below in TOOL_HOMES
            if moved.get(name) or (home / below).is_dir()
        }
        cargo = str(Path(moved.pop("CARGO_HOME", home / ".cargo")) / "bin")
        folders = moved.get("PATH", os.defpath).split(os.pathsep)
        if cargo not in folders and os.path.isdir(cargo):
            folders.append(cargo)
        return {
            **moved,
            **caches,
            **tools,
            **{name: str(self._home / below) for name, below in _XDG.items()},
            **dict.fromkeys(("TMPDIR", "TMP", "TEMP"), str(self._temporary)),
            "HOME": str(self._home),
            "PATH": os.pathsep.join(folders),
        }

    def _moved_value(self, value: str) -> str:
        """Lead a variable into the worktree, but for a file that no commit has, such as credentials.

        An earlier step of the job made that in the checkout.
        """
        is_file = Path(value).is_relative_to(self._of_checkout) and os.path.isfile(value)
        return value if is_file and not os.path.exists(self.path(Path(value))) else self.moved(value)

    def _usable(self, command: str | None) -> Iterator[tuple[str, _Entry]]:
        """Yield what is directly in each directory of programs and packages outside of this side's own."""
        folders = [Path(name) for name in self.environ["PATH"].split(os.pathsep) if name]
        if command is not None and "/" in (first := split_command(command)[0]):
            folders.append((self.directory / first).parent)
        if (versions := self.environ.get("PYENV_ROOT")) is not None:
            folders += Path(versions).glob("versions/*/bin")
        places = [*folders]
        for folder in folders:
            if folder.name in ("bin", "sbin"):
                places += (place for pattern in _PACKAGES for place in folder.parent.glob(pattern))
        for variable in ("PYTHONPATH", "NODE_PATH"):
            places += (Path(name) for name in self.environ.get(variable, "").split(os.pathsep) if name)
        for place in sorted({Path(os.path.realpath(place)) for place in places}):
            if place.is_relative_to(self._home.parent):
                continue
            try:
                with os.scandir(place) as entries:
                    for entry in entries:
                        if entry.name != "__pycache__":
                            yield entry.path, _state(entry)
            except OSError:
                continue


def _state(entry: os.DirEntry[str]) -> _Entry:
    """What an installer changes of an entry. Of a directory it is the identity: bytecode comes into it."""
    status = entry.stat(follow_symlinks=False)
    if entry.is_dir(follow_symlinks=False):
        return status.st_mode, status.st_ino, 0, 0
    return status.st_mode, status.st_ino, status.st_size, status.st_mtime_ns


def set_up(
    setup: Setup,
    environ: Mapping[str, str],
    say: Callable[[str], None],
    cwd: Path | None = None,
    *,
    of: str = "change",
) -> None:
    """Run `setup-command`, if there is one, without the job's secrets.

    `say` prints into the job's log, which names `of`, what is checked out at `cwd`. Raises `SetupFailed`
    where the command failed or took too long.
    """
    if not setup.command:
        return
    say(f"Running `setup-command` of the {of}.")
    done = run_child(
        # Both streams as one, so that an error is printed where it occurred.
        ["/bin/sh", "-e", "-c", f"exec 2>&1\n{setup.command}"],
        env=allowed_environment(environ, setup.environment),
        limits=ChildLimits(seconds=setup.seconds, stdout_bytes=_OUTPUT_BYTES),
        cwd=cwd,
    )
    if done.failure is None:
        say(f"`setup-command` is done after {done.duration_s:.0f} s.")
        return
    lines = done.stdout[-4 * _SHOWN_CHARACTERS :].decode("utf-8", "replace").splitlines()
    output = "\n".join(lines[-_SHOWN_LINES:])[-_SHOWN_CHARACTERS:]
    printed = f"The end of what it printed:\n{output}" if output.strip() else "It printed nothing."
    say(f"`setup-command` {done.problem}. {printed}")
    remedy = (
        "Give it longer with `setup-timeout-seconds`."
        if done.failure is FailureKind.TIMEOUT
        else "Correct it; variables it needs are named in `setup-env`."
    )
    raise SetupFailed(f"`setup-command` {done.problem}.", remedy=remedy, output=output)
