"""agent-eval as a stranger has it: the wheel of this checkout, where the checkout is not on the path."""

import json
import os
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

PROJECT = Path(__file__).parents[2]
SOURCES = ("pyproject.toml", "README.md", "LICENSE", "agent_eval")
TIMEOUT = 300
"""Seconds for one command: it hangs, on however slow a machine."""


@dataclass(frozen=True)
class Ended:
    """How a command ended, and what it printed."""

    line: str
    code: int
    out: str
    err: str

    def __str__(self) -> str:
        return f"$ {self.line}\nexit {self.code}\n{self.out}{self.err}"


@dataclass(frozen=True)
class Program:
    """The installed program.

    Attributes:
        place: Its virtual environment; the programs are in `bin`.
        home: An empty home directory.
    """

    place: Path
    home: Path

    def environ(self, more: Mapping[str, str] | None = None) -> dict[str, str]:
        """What a command sees: nothing of the machine but where programs are."""
        path = f"{self.place / 'bin'}:/usr/local/bin:/usr/bin:/bin"
        temporary = os.environ.get("TMPDIR", "/tmp")
        named = {"PATH": path, "HOME": str(self.home), "LANG": "C.UTF-8", "TMPDIR": temporary}
        return {**named, "NO_PROXY": "127.0.0.1", **(more or {})}

    def run(self, words: list[str], cwd: Path, env: Mapping[str, str] | None = None) -> Ended:
        """Run a command of the environment, or of the machine, in a directory."""
        own = self.place / "bin" / words[0]
        done = subprocess.run(
            [str(own) if own.exists() else words[0], *words[1:]], cwd=cwd, env=self.environ(env),
            stdin=subprocess.DEVNULL, capture_output=True, timeout=TIMEOUT, check=False,
        )  # fmt: skip
        out, err = (text.decode("utf-8", "replace") for text in (done.stdout, done.stderr))
        return Ended(" ".join(words), done.returncode, out, err)


def install(place: Path) -> Program:
    """Build the wheel and install it into a new environment below `place`.

    The environment finds the dependencies in that of the tests, but not what is installed there as editable:
    a path that a .pth file names is searched, and .pth files in it are not read.
    """
    source, wheels, environment, home = (place / name for name in ("source", "wheels", "environment", "home"))
    home.mkdir(parents=True)
    source.mkdir()
    for name in SOURCES:
        if (PROJECT / name).is_dir():
            ignored = shutil.ignore_patterns("__pycache__")
            shutil.copytree(PROJECT / name, source / name, ignore=ignored)
        else:
            shutil.copyfile(PROJECT / name, source / name)
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--quiet"]
    _call([*pip, "wheel", "--no-deps", "--no-build-isolation", f"--wheel-dir={wheels}", str(source)])
    (wheel,) = wheels.glob("*.whl")
    _call([sys.executable, "-m", "venv", "--without-pip", str(environment)])
    python = environment / "bin" / "python"
    _call([*pip, f"--python={python}", "install", "--no-deps", "--no-index", str(wheel)])
    packages = next(environment.glob("lib/python*/site-packages"))
    (packages / "dependencies.pth").write_text(f"{sysconfig.get_path('purelib')}\n")
    program = Program(environment, home)
    found = program.run(["python", "-c", "import agent_eval; print(agent_eval.__file__)"], cwd=home)
    assert Path(found.out.strip()).is_relative_to(environment), found
    (place / "installed.json").write_text(json.dumps({"environment": str(environment), "home": str(home)}))
    return program


def installed(place: Path) -> Program:
    """The program below `place`, installed by whoever comes first; the caller holds the lock."""
    record = place / "installed.json"
    if not record.is_file():
        shutil.rmtree(place, ignore_errors=True)
        return install(place)
    known = json.loads(record.read_text())
    return Program(Path(known["environment"]), Path(known["home"]))


def _call(command: list[str]) -> None:
    done = subprocess.run(command, capture_output=True, text=True, timeout=600, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
