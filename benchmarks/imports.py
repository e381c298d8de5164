"""How long an import takes beside the standard library's reading of the same JSON, and what memory it needs.

python -m benchmarks.imports                              # speed, of every kind of file
python -m benchmarks.imports --memory 1024                # peak memory for 1,024 MiB of every kind
python -m benchmarks.imports --memory 1024 --only otel    # of one kind
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import resource
import sys
import tempfile
import time
import zipfile
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

from agent_eval.operations.import_traces import ImportRequest, import_traces
from agent_eval.storage.json import parse_and_encode
from benchmarks.import_files import KINDS, write
from benchmarks.processes import Cost, peak_memory

ROUNDS = 5


def texts(path: Path) -> Iterator[bytes]:
    """Read the JSON texts of a file."""
    if path.suffix == ".eval":
        with zipfile.ZipFile(path) as archive:
            for member in archive.infolist():
                yield archive.read(member)
        return
    with path.open("rb") as file:
        yield from file


def parsed(path: Path) -> None:
    """Parse every record by the standard library."""
    for text in texts(path):
        json.loads(text)


def strictly_parsed(path: Path) -> None:
    """Parse every record as this program does."""
    for text in texts(path):
        parse_and_encode(text, source=path.name)


def timed(function: Callable[[], object]) -> Cost:
    """What a function takes, with the processes that it starts and waits for."""
    before, started = _processor_seconds(), time.perf_counter()
    function()
    return Cost(time.perf_counter() - started, _processor_seconds() - before)


def _processor_seconds() -> float:
    children = resource.getrusage(resource.RUSAGE_CHILDREN)
    return time.process_time() + children.ru_utime + children.ru_stime


def speed(home: Path, size: int, names: list[str]) -> Iterator[dict[str, Any]]:
    """Measure reading and importing in turns. The smallest of several figures is the least disturbed one."""
    for name in names:
        kind = KINDS[name]
        source, out = home / f"dump{kind.suffix}", home / "suite.jsonl"
        count = write(source, kind, size)
        request = ImportRequest((source,), out, kind.family)
        library, strict, ours = [], [], []
        for _ in range(ROUNDS):
            library.append(timed(partial(parsed, source)))
            strict.append(timed(partial(strictly_parsed, source)))
            ours.append(timed(partial(import_traces, request)))
        json_cpu = min(each.cpu for each in library)
        import_cpu = min(each.cpu for each in ours)
        json_wall = min(each.wall for each in library)
        import_wall = min(each.wall for each in ours)
        yield {
            "kind": name,
            "records": count,
            "mib": round(source.stat().st_size / 2**20, 1),
            "json_seconds": round(json_wall, 3),
            "import_seconds": round(import_wall, 3),
            "times": round(import_wall / json_wall, 2),
            "processor_times": round(import_cpu / json_cpu, 2),
            "strict_json_times": round(min(each.cpu for each in strict) / json_cpu, 2),
        }


def memory(home: Path, mebibytes: int, names: list[str]) -> Iterator[dict[str, Any]]:
    """Measure the command line, all its processes."""
    for name in names:
        kind = KINDS[name]
        source, out = home / f"dump{kind.suffix}", home / "suite.jsonl"
        count = write(source, kind, mebibytes << 20)
        program = [sys.executable, "-m", "agent_eval", "import", "--family", kind.family]
        started = time.monotonic()
        peak = peak_memory([*program, "--input", source, "--out", out])
        yield {
            "kind": name,
            "records": count,
            "mib": mebibytes,
            "seconds": round(time.monotonic() - started, 1),
            "processes": peak.processes,
            "peak_rss_mb": round(peak.rss, 1),
            "peak_pss_mb": round(peak.pss, 1),
        }
        source.unlink()
        out.unlink()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--memory", type=int, metavar="MIB", help="Measure peak memory for files of this size."
    )
    parser.add_argument("--size", type=int, default=16, metavar="MIB", help="Size of the files for speed.")
    parser.add_argument("--only", choices=KINDS, help="Measure this kind.")
    arguments = parser.parse_args()
    names = [arguments.only] if arguments.only else list(KINDS)
    with tempfile.TemporaryDirectory() as directory:
        home = Path(directory)
        measured = (
            {"memory": list(memory(home, arguments.memory, names))}
            if arguments.memory
            else {"speed": list(speed(home, arguments.size << 20, names))}
        )
    about = {
        "python": platform.python_version(),
        "machine": platform.machine(),
        "processors": len(os.sched_getaffinity(0)),
        "rounds": ROUNDS,
    }
    json.dump({**about, **measured}, sys.stdout, indent=1)
    print()


if __name__ == "__main__":
    main()
