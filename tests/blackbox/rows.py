"""Rows of promises: what they look like, and how one is tried.

A row is a mapping in `promises/*.yaml`:

    id: gate-says-no                       unique
    spec: the sentence of the specification that promises it
    given: two-runs                        a prepared place; an empty directory where there is none
    files: {agent.py: text, suite.json: {…}}
    copy: {examples: examples}             from the project, to the row's directory
    serve: aui openai                      services on localhost, which `@aui` and `@model` in a command line
                                           point at; AUI_URL and MODEL_URL have their addresses. What each was
                                           asked is in aui.jsonl and model.jsonl afterwards
    env: {NAME: value}                     `{here}` is the row's directory, `{path}` the PATH
    run: [command line, …]                 all but the last must exit 0, unless written {do: line, exit: 1};
                                           nothing where the facts are of the prepared place
    exit: 1                                of the last command; 0 where it is not said
    facts: [one of the forms below, …]
    xfail: why it is not kept today        must be removed when it is

A fact looks at `in: stdout`, `stderr` or a file as text, or with `at: a.b.0.[name=x].c` at a place in its
JSON (JSON Lines are a list; `at: ''` is the whole), and asks for one of

    is: value      has: text, item or key    has: [several]    count: n    given: true (there, and not empty)
    below: number  above: number             lacks: text, item or key

or says `exists: path` or `missing: path`, where a path may be a glob.
"""

import json
import shlex
import shutil
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml
from filelock import FileLock

from tests.blackbox.installed import PROJECT, Ended, Program
from tests.blackbox.services import POINTING, serving

PROMISES = Path(__file__).with_name("promises")
ROW_KEYS = {"id", "spec", "given", "files", "copy", "serve", "env", "run", "exit", "facts", "xfail"}
ASKED = ("is", "has", "lacks", "count", "given", "below", "above")


@dataclass(frozen=True)
class Step:
    """A command line and the exit code it must have."""

    line: str
    code: int


@dataclass(frozen=True)
class Row:
    """One promise, as `promises/*.yaml` states it."""

    id: str
    spec: str
    steps: tuple[Step, ...]
    facts: tuple[Mapping[str, Any], ...]
    given: str | None = None
    files: Mapping[str, Any] = field(default_factory=dict)
    copy: Mapping[str, str] = field(default_factory=dict)
    serve: str | None = None
    env: Mapping[str, str] = field(default_factory=dict)
    xfail: str | None = None


class BrokenPromise(AssertionError):
    """A command ended otherwise than its row says, or a fact does not hold."""


def load(name: str) -> list[dict[str, Any]]:
    """The mappings of one file of promises."""
    found: list[dict[str, Any]] = yaml.safe_load((PROMISES / name).read_text(encoding="utf-8"))
    return found


def row_of(raw: Mapping[str, Any]) -> Row:
    """Read a row.

    Raises:
        ValueError: A key that rows do not have, or neither a command nor a place.
    """
    unknown = raw.keys() - ROW_KEYS
    lines = raw.get("run", [])
    if unknown or not (lines or "given" in raw):
        raise ValueError(f"row {raw.get('id')}: unknown keys {sorted(unknown)}, or nothing to run")
    steps = [Step(line["do"], line["exit"]) if isinstance(line, Mapping) else Step(line, 0) for line in lines]
    if "exit" in raw:
        steps[-1] = Step(steps[-1].line, raw["exit"])
    rest = {key: raw[key] for key in ("given", "files", "copy", "serve", "env", "xfail") if key in raw}
    return Row(raw["id"], raw.get("spec", ""), tuple(steps), tuple(raw.get("facts", ())), **rest)


class Places:
    """Prepared directories, each made once in a session by the commands that `places.yaml` states.

    Args:
        root: Where they are kept.
        program: What makes them.
    """

    def __init__(self, root: Path, program: Program) -> None:
        self._root, self._program = root, program
        self._rows = {raw["id"]: row_of(raw) for raw in load("places.yaml")}
        root.mkdir(exist_ok=True)

    def fill(self, name: str, directory: Path) -> None:
        """Copy a prepared directory to `directory`, which exists."""
        made = self._root / name
        with FileLock(self._root / f"{name}.lock"):
            if not (self._root / f"{name}.done").exists():
                shutil.rmtree(made, ignore_errors=True)
                made.mkdir()
                attempt(self._rows[name], self._program, self, made)
                (self._root / f"{name}.done").touch()
        shutil.copytree(made, directory, dirs_exist_ok=True, symlinks=True)


def attempt(row: Row, program: Program, places: Places, directory: Path) -> None:
    """Set up a row, run its commands and look at its facts.

    Raises:
        BrokenPromise: One does not hold; with everything that was printed.
    """
    if row.given is not None:
        places.fill(row.given, directory)
    for source, target in row.copy.items():
        _copy(PROJECT / source, directory / target)
    for name, content in row.files.items():
        path = directory / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content if isinstance(content, str) else json.dumps(content), encoding="utf-8")
        if isinstance(content, str) and content.startswith("#!"):
            path.chmod(0o755)
    ended: list[Ended] = []
    with _served(row.serve, directory) as (pointing, env):
        env |= {name: _filled(str(value), program, directory) for name, value in row.env.items()}
        for step in row.steps:
            line = step.line
            for word, flags in pointing.items():
                line = line.replace(word, flags)
            ended.append(program.run(shlex.split(line), directory, env))
            if ended[-1].code != step.code:
                raise _broken(f"exit {step.code} was promised", ended)
    for fact in row.facts:
        problem = why_not(fact, ended[-1] if ended else None, directory)
        if problem is not None:
            raise _broken(problem, ended)


def why_not(fact: Mapping[str, Any], ended: Ended | None, directory: Path) -> str | None:
    """Why a fact does not hold; None where it holds."""
    if "exists" in fact:
        return None if list(directory.glob(fact["exists"])) else f"no {fact['exists']}: {_tree(directory)}"
    if "missing" in fact:
        return f"there is {fact['missing']}" if list(directory.glob(fact["missing"])) else None
    try:
        value = _value(fact, ended, directory)
    except (LookupError, ValueError, OSError) as problem:
        return f"{dict(fact)}: {type(problem).__name__} {problem}"
    asked = [name for name in ASKED if name in fact]
    if len(asked) != 1:
        raise ValueError(f"a fact asks for one of {ASKED}: {dict(fact)}")
    wanted = fact[asked[0]]
    return None if _holds(asked[0], value, wanted) else f"{dict(fact)}, but it is {value!r}"


def _holds(asked: str, value: Any, wanted: Any) -> bool:
    match asked:
        case "is":
            return bool(value == wanted and (value is wanted or type(value) is not bool))
        case "has":
            return all(each in value for each in (wanted if isinstance(wanted, list) else [wanted]))
        case "lacks":
            return bool(wanted not in value)
        case "count":
            return bool(len(value) == wanted)
        case "given":
            return bool(value or value in (0, False)) is wanted
        case "below":
            return bool(value < wanted)
        case _:
            return bool(value > wanted)


def _value(fact: Mapping[str, Any], ended: Ended | None, directory: Path) -> Any:
    source = fact["in"]
    if ended is not None and source in ("stdout", "stderr"):
        text = ended.out if source == "stdout" else ended.err.strip().rpartition("\n")[2]
    else:
        (path,) = directory.glob(source)
        text = path.read_text(encoding="utf-8")
    if "at" not in fact:
        return text
    value = (
        [json.loads(line) for line in text.splitlines() if line]
        if source.endswith(".jsonl")
        else json.loads(text)
    )
    for part in str(fact["at"]).split("."):
        value = _inner(value, part) if part else value
    return value


def _inner(value: Any, part: str) -> Any:
    """A member, an item by its number, or the first item whose `NAME` is the text of `[NAME=text]`."""
    if isinstance(value, list) and part.startswith("["):
        name, _, text = part.strip("[]").partition("=")
        found = [item for item in value if str(item.get(name)) == text]
        if not found:
            raise LookupError(f"no {part} among {[item.get(name) for item in value]}")
        return found[0]
    return value[int(part)] if isinstance(value, list) else value[part]


@contextmanager
def _served(kinds: str | None, directory: Path) -> Iterator[tuple[dict[str, str], dict[str, str]]]:
    """Start services; yields the flags by the word that stands for them, and variables with the addresses."""
    with ExitStack() as stack:
        pointing, env = {}, {}
        for kind in (kinds or "").split():
            word, flags = POINTING[kind]
            name = word.strip("@")
            url = stack.enter_context(serving(kind, directory / f"{name}.jsonl"))
            pointing[word], env[f"{name.upper()}_URL"] = flags.format(url=url), url
        yield pointing, env


def _filled(value: str, program: Program, directory: Path) -> str:
    return value.replace("{here}", str(directory)).replace("{path}", program.environ()["PATH"])


def _copy(source: Path, target: Path) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    if source.is_dir():
        shutil.copytree(source, target, dirs_exist_ok=True)
    else:
        shutil.copyfile(source, target)


def _broken(problem: str, ended: list[Ended]) -> BrokenPromise:
    return BrokenPromise("\n".join([problem, *(str(each)[:4000] for each in ended)]))


def _tree(directory: Path) -> list[str]:
    return sorted(str(path.relative_to(directory)) for path in directory.rglob("*") if path.is_file())[:80]
