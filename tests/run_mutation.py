"""Change the source of a room in small ways, and count which changes no test notices.

    make mutation ROOM=gate      # writes .cache/mutation/gate/survivors.txt and prints the counts

mutmut works on a copy, so that the tree stays as it is. Only the unit tests of the room run for a change, and
of these only those that reach the changed function; an end-to-end test may well notice a survivor.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
ARGUMENTS = ["-q", "-p", "no:randomly", "-p", "no:cacheprovider", "-p", "no:xdist"]
SURVIVED, UNTESTED = "survived", "no tests"


def configuration(room: str) -> str:
    """The section of `pyproject.toml` that mutmut reads; JSON lists are TOML as well."""
    tests = [f"tests/unit/{room}"]
    copied = subprocess.run(
        ["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout.splitlines()
    top = sorted({path.split("/")[0] for path in copied} - {"agent_eval", "pyproject.toml"})
    lines = {
        "source_paths": ["agent_eval"],
        "only_mutate": [f"agent_eval/{room}/*.py", f"agent_eval/{room}.py"],
        "also_copy": top,
        "pytest_add_cli_args_test_selection": tests,
        "pytest_add_cli_args": ARGUMENTS,
    }
    return "\n[tool.mutmut]\n" + "".join(f"{name} = {json.dumps(value)}\n" for name, value in lines.items())


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


def main(room: str) -> int:
    """Run mutmut on a room, and print the counts; returns the exit code."""
    place = ROOT / ".cache" / "mutation" / room
    mutmut = Path(sys.executable).with_name("mutmut")
    copy_to(place, room)
    code = subprocess.run([mutmut, "run", "--max-children", "2"], cwd=place, check=False).returncode
    if code:
        return code
    found = outcomes(place, mutmut)
    counts = Counter(found.values())
    tested = sum(counts.values()) - counts[UNTESTED]
    survivors = sorted(name for name, outcome in found.items() if outcome == SURVIVED)
    (place / "survivors.txt").write_text("".join(f"{name}\n" for name in survivors))
    share = 100 * (tested - counts[SURVIVED]) / tested if tested else 0
    print(f"{room}: {dict(counts)}; {share:.1f} % of the changes that tests reach are noticed.")
    print(f"Survivors: {place / 'survivors.txt'}. See one with: mutmut show NAME, there.")
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1]))
