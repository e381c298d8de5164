"""What a run is given, and what it leaves: a suite, trajectories, a journal, processes."""

import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from agent_eval.storage.journal import decode, header_lines


def write_suite(place: Path, *cases: dict[str, Any], **header: Any) -> None:
    """Write `suite.json`."""
    (place / "suite.json").write_text(json.dumps({"dataset_id": "d", **header, "cases": cases}))


def trajectory(place: Path, case_id: str = "a", out: str = "out") -> dict[str, Any]:
    """What the pack has of a case, in the layout of files."""
    return dict(json.loads((place / out / "cases" / case_id / "trajectory.json").read_bytes()))


def events(place: Path, case_id: str = "a", out: str = "out") -> list[dict[str, Any]]:
    return list(trajectory(place, case_id, out)["trace"])


def journalled(place: Path) -> list[tuple[str, int]]:
    """Case and number of every trial that the journal has acknowledged, read without the program's help."""
    try:
        lines = (place / "out.journal").read_bytes().splitlines(keepends=True)
    except FileNotFoundError:
        return []
    found = []
    for line in lines[len(header_lines("").splitlines()) :]:
        try:
            record = decode(line)
        except ValueError:
            assert line is lines[-1]
        else:
            found.append((record["case_id"], record["trial"]))
    return found


def is_running(pid: int) -> bool:
    """Whether a process runs; one that has ended and was not waited for does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def wait_until(condition: Callable[[], object], what: str = "it happened") -> None:
    deadline = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < deadline, f"waited in vain until {what}"
        time.sleep(0.02)
