"""Change the source of a room in small ways, and count which changes no test notices.

    make mutation ROOM=gate      # writes .cache/mutation/gate/survivors.txt and prints the counts
    make mutation ROOM=gate MUTATION="--module decide --jobs 1"
    make mutation ROOM=gate MUTATION=--again      # after new tests: only what survived

mutmut works on a copy, so that the tree stays as it is. Only the unit tests of the room run for a change, and
of these only those that reach the changed function; an end-to-end test may well notice a survivor. Lines that
no unit test of the room runs are not changed: coverage counts those.
"""

import argparse
import ast
import io
import json
import os
import re
import shutil
import subprocess
import sys
import time
import tokenize
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from contextlib import suppress
from difflib import unified_diff
from pathlib import Path

from tests.mutation_loop import CHANGES

ROOT = Path(__file__).resolve().parents[1]
ARGUMENTS = ["-q", "--tb=no", "-p", "no:randomly", "-p", "no:cacheprovider", "-p", "no:xdist"]
# A failing example is enough; making it small takes minutes for each change.
ARGUMENTS.append("--hypothesis-profile=mutation")
SURVIVED, UNTESTED, UNCHECKED = "survived", "no tests", "not checked"
AGAIN = {SURVIVED, UNTESTED, UNCHECKED}

LEFT_OUT = {
    "gate": ["test_simulation.py"],
    "ci": ["platforms", "test_job.py", "test_withheld.py", "test_unjudged.py", "test_trusted_files.py"],
    "evidence": ["test_archive_convert.py"],
}
"""Test files that would run for nearly every change and take seconds each: they drive a whole job."""

MORE = {
    "evidence": [
        f"tests/security/test_pack_{part}.py" for part in ("files", "manifests", "verdicts", "trials")
    ]
}
"""Further test files that hold a room."""

WORDS = re.compile(r"^\s*(remedy|message|description)=")
"""Arguments that a person reads and no code."""


def configuration(room: str) -> str:
    """The section of `pyproject.toml` that mutmut reads; JSON lists are TOML as well."""
    copied = subprocess.run(
        ["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout.splitlines()
    top = sorted({path.split("/")[0] for path in copied} - {"agent_eval", "pyproject.toml"})
    lines = {
        "source_paths": ["agent_eval"], "only_mutate": [f"agent_eval/{room}/*.py", f"agent_eval/{room}.py"],
        "also_copy": top, "pytest_add_cli_args_test_selection": selection(room),
        "pytest_add_cli_args": arguments(room), "mutate_only_covered_lines": True, "timeout_multiplier": 4,
    }  # fmt: skip
    return "\n[tool.mutmut]\n" + "".join(f"{name} = {json.dumps(value)}\n" for name, value in lines.items())


def selection(room: str) -> list[str]:
    """The tests of a room."""
    return [f"tests/unit/{room}", *MORE.get(room, [])]


def arguments(room: str) -> list[str]:
    """The arguments of pytest for a room, beside the directory of its tests."""
    return [*ARGUMENTS, *(f"--ignore=tests/unit/{room}/{name}" for name in LEFT_OUT.get(room, []))]


def copy_to(place: Path, room: str) -> None:
    """Copy what git knows, and say there what to change and which tests to run. Keeps earlier results."""
    place.mkdir(parents=True, exist_ok=True)
    files = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, check=True).stdout
    for name in files.decode().split("\0")[:-1]:
        target = place / name
        target.parent.mkdir(parents=True, exist_ok=True)
        if (ROOT / name).is_file():
            shutil.copy2(ROOT / name, target)
    with (place / "pyproject.toml").open("a") as file:
        file.write(configuration(room))


def outcomes(place: Path, mutmut: Path) -> dict[str, str]:
    """The outcome of each change by its name: `killed`, `survived`, `no tests`, `timeout` or `suspicious`."""
    listed = subprocess.run(
        [mutmut, "results", "--all", "true"], cwd=place, capture_output=True, text=True, check=True
    ).stdout
    rows = (line.strip().rpartition(": ") for line in listed.splitlines() if ": " in line)
    return {name: outcome for name, _, outcome in rows}


def differences(place: Path, names: Iterable[str]) -> dict[str, str]:
    """Find the lines that each change removes and adds, with their signs.

    mutmut writes every variant of a function beside the original, called `x_name__mutmut_3`.
    """
    found = {}
    by_module: dict[Path, list[str]] = defaultdict(list)
    for name in names:
        module, _, _ = name.rpartition(".")
        by_module[place / "mutants" / f"{module.replace('.', '/')}.py"].append(name)
    for path, changed in by_module.items():
        variants = _functions(path.read_text())
        for name in changed:
            variant = name.rpartition(".")[2]
            original = f"{variant.rpartition('__mutmut_')[0]}__mutmut_orig"
            lines = unified_diff(variants[original][1:], variants[variant][1:], n=0, lineterm="")
            found[name] = "".join(f"{line}\n" for line in list(lines)[2:] if not line.startswith("@@"))
    return found


def _functions(source: str) -> dict[str, list[str]]:
    lines = source.splitlines()
    return {
        node.name: lines[node.lineno - 1 : node.end_lineno]
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    }


def changes_words_alone(change: str) -> bool:
    """Tell whether a change is in a sentence alone: text with a space, or an argument that people read."""
    lines = change.splitlines()
    removed = [line[1:] for line in lines if line.startswith("-")]
    added = [line[1:] for line in lines if line.startswith("+")]
    if len(removed) != 1 or len(added) > 1:
        return False
    if WORDS.match(removed[0]):
        return True
    before, after = _tokens(removed[0]), _tokens(added[0] if added else "")
    if not added:
        return len(before) == 1 and " " in before[0][1].strip()
    others = [pair for pair in zip(before, after, strict=False) if pair[0] != pair[1]]
    return len(before) == len(after) and all(
        old[0] == new[0] == tokenize.STRING and " " in old[1].strip() for old, new in others
    )


def _tokens(line: str) -> list[tuple[int, str]]:
    read = io.StringIO(line.strip() + "\n").readline
    found: list[tuple[int, str]] = []
    # A line of a longer statement leaves brackets open.
    with suppress(tokenize.TokenError, IndentationError):
        found.extend((token.type, token.string) for token in tokenize.generate_tokens(read))
    return [(kind, text) for kind, text in found if text.strip() and text != ","]


def report(room: str, place: Path, mutmut: Path) -> None:
    """Print the counts of each module and write the survivors, those that change only words at the end."""
    found = outcomes(place, mutmut)
    survivors = sorted(name for name, outcome in found.items() if outcome == SURVIVED)
    changes = differences(place, survivors)
    words = {name for name, change in changes.items() if changes_words_alone(change)}
    ordered = sorted(survivors, key=lambda name: (name in words, name))
    (place / "survivors.txt").write_text("".join(f"{name}\n{changes[name]}\n" for name in ordered))
    for module in sorted({_module(name) for name in found}):
        print(
            _row(module, {name: outcome for name, outcome in found.items() if _module(name) == module}, words)
        )
    print(_row(room, found, words))
    print(f"Survivors: {place / 'survivors.txt'}.")


def _module(name: str) -> str:
    return name.split(".")[2]


def _row(title: str, found: dict[str, str], words: set[str]) -> str:
    counts = Counter(found.values())
    tested = counts.total() - counts[UNTESTED] - counts[UNCHECKED]
    survived = counts[SURVIVED]
    share = 100 * (tested - survived) / tested if tested else 0
    in_words = len(words & found.keys())
    return f"{title}: {dict(counts)}; {share:.1f} % noticed; {in_words} survivors change words alone"


def main(words: Sequence[str]) -> int:
    """Run mutmut on a room, and print the counts; returns the exit code."""
    parser = argparse.ArgumentParser(prog="make mutation")
    parser.add_argument("room")
    parser.add_argument("--module", action="append", default=[], help="only this module; several times")
    parser.add_argument(
        "--again", action="store_true", help="only what survived or was not reached, after new tests"
    )
    parser.add_argument("--every", type=int, default=1, help="one change of so many, as a sample")
    options = parser.parse_args(words)
    place = ROOT / ".cache" / "mutation" / options.room
    mutmut = Path(sys.executable).with_name("mutmut")
    copy_to(place, options.room)
    if code := prepare(place, mutmut):
        return code
    found = outcomes(place, mutmut)
    names = [
        name
        for name, outcome in found.items()
        if outcome in (AGAIN if options.again else {UNCHECKED})
        and (not options.module or _module(name) in options.module)
    ]
    try_changes(place, options.room, names[:: options.every])
    report(options.room, place, mutmut)
    return 0


def prepare(place: Path, mutmut: Path) -> int:
    """Have mutmut make the changes, and learn which test reaches which function; return its exit code."""
    begun = time.time()
    # No change is called like this, which mutmut says by an error once it is done with all that.
    made = subprocess.run(
        [mutmut, "run", "nothing.*"], cwd=place, capture_output=True, text=True, check=False
    )
    reached = place / "mutants" / "mutmut-stats.json"
    if reached.exists() and reached.stat().st_mtime >= begun and "nothing matches" in made.stderr:
        return 0
    print(made.stdout[-4000:], made.stderr[-4000:], file=sys.stderr)
    return made.returncode or 1


def try_changes(place: Path, room: str, names: Sequence[str]) -> None:
    """Run the tests of each change; the results are written as mutmut's own."""
    changes = place / "changes.txt"
    changes.write_text("".join(f"{name}\n" for name in names))
    subprocess.run(
        [sys.executable, "-m", "pytest", "-p", "tests.mutation_loop", *arguments(room), *selection(room)],
        cwd=place / "mutants", env={**os.environ, CHANGES: str(changes)}, stdout=subprocess.DEVNULL,
        check=False,
    )  # fmt: skip


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
