"""Running a command and watching what it takes: wall time, and the memory of all its processes."""

from __future__ import annotations

import os
import resource
import subprocess
import tempfile
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

SAMPLE_SECONDS = 0.02


@dataclass(frozen=True)
class Peak:
    """Highest sums seen over a process and all its descendants, in MB (10**6 bytes)."""

    rss: float
    pss: float
    processes: int


@dataclass(frozen=True)
class Cost:
    """Seconds that a command took: by the clock, and of all its processes together on a processor."""

    wall: float
    cpu: float


def cost(command: Sequence[str | Path], *, expect: Iterable[int] = (0,)) -> Cost:
    """What a command takes, start-up included.

    Raises:
        RuntimeError: It did not exit with one of the expected codes.
    """
    with tempfile.TemporaryFile() as output:
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        started = time.perf_counter()
        code = subprocess.run(
            [str(part) for part in command], stdout=output, stderr=output, check=False
        ).returncode
        wall = time.perf_counter() - started
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        if code not in expect:
            output.seek(0)
            raise RuntimeError(
                f"{command} exited with {code}: {output.read()[-2000:].decode(errors='replace')}"
            )
    return Cost(wall, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)


def peak_memory(command: Sequence[str | Path]) -> Peak:
    """Peak memory of a command and its descendants, sampled; it runs slower meanwhile.

    RSS counts a page once a process, PSS counts a shared page once.
    """
    process = subprocess.Popen(
        [str(part) for part in command], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    rss = pss = 0.0
    most = 0
    while process.poll() is None:
        tree = list(_tree(process.pid))
        sampled = [_memory(pid) for pid in tree]
        rss = max(rss, sum(own for own, _ in sampled))
        pss = max(pss, sum(shared for _, shared in sampled))
        most = max(most, len(tree))
        time.sleep(SAMPLE_SECONDS)
    if process.returncode:
        raise RuntimeError(f"{command} exited with {process.returncode}")
    return Peak(rss, pss, most)


def _tree(pid: int) -> Iterable[int]:
    yield pid
    try:
        for task in os.listdir(f"/proc/{pid}/task"):
            for child in Path(f"/proc/{pid}/task/{task}/children").read_text().split():
                yield from _tree(int(child))
    except OSError:
        return


def _memory(pid: int) -> tuple[float, float]:
    """RSS and PSS of a process in MB; zeros when it is gone."""
    found = {"Rss": 0, "Pss": 0}
    try:
        for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
            name, _, rest = line.partition(":")
            if name in found:
                found[name] = int(rest.split()[0])
    except OSError:
        pass
    return found["Rss"] * 1024 / 1e6, found["Pss"] * 1024 / 1e6
