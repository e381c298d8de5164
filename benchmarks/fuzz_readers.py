"""Give every reader damaged and hostile inputs, a million in all, and count the errors that are no refusals.

    nice -n 19 python benchmarks/fuzz_readers.py                 # writes results/fuzz_readers.json
    python benchmarks/fuzz_readers.py --inputs 10000 --first 1000000

The inputs follow from their numbers (`tests/security/reader_fuzz.py`), so that each can be made again.
"""

from __future__ import annotations

import argparse
import json
import platform
import sys
import tempfile
import time
from datetime import UTC, datetime
from pathlib import Path

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE.parent))

from tests.security.reader_fuzz import Reader, crash_of, readers  # noqa: E402

RESULTS = HERE / "results" / "fuzz_readers.json"
SHARE = 200
"""Inputs of a reader before it is another's turn: whatever the time that there is, all get as many."""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--inputs", type=int, default=1_000_000, help="inputs in all")
    parser.add_argument("--first", type=int, default=0, help="number of the first input of each reader")
    parser.add_argument("--minutes", type=float, default=120.0, help="when to stop in any case")
    parser.add_argument("--out", type=Path, default=RESULTS)
    asked = parser.parse_args()
    memory = Path("/dev/shm")
    with tempfile.TemporaryDirectory(dir=memory if memory.is_dir() else None) as directory:
        tried, crashes, seconds = fuzz(readers(Path(directory)), asked)
    result = {
        "inputs": sum(tried.values()),
        "uncaught_exceptions": len(crashes),
        "crashes": crashes[:100],
        "inputs_by_reader": tried,
        "first": asked.first,
        "seconds": round(seconds),
        "python": platform.python_version(),
        "date": datetime.now(UTC).date().isoformat(),
    }
    asked.out.write_text(json.dumps(result, indent=2) + "\n")
    print(f"{result['inputs']:,} inputs, {len(crashes)} uncaught exceptions, {seconds:.0f} s")
    return 1 if crashes else 0


def fuzz(all_readers: list[Reader], asked: argparse.Namespace) -> tuple[dict[str, int], list[str], float]:
    """Try inputs in turn until there are enough, or no time is left."""
    begun = time.monotonic()
    tried = dict.fromkeys((reader.name for reader in all_readers), 0)
    crashes: list[str] = []
    while sum(tried.values()) < asked.inputs and time.monotonic() - begun < asked.minutes * 60:
        for reader in all_readers:
            first = asked.first + tried[reader.name]
            crashes += filter(None, (crash_of(reader, number) for number in range(first, first + SHARE)))
            tried[reader.name] += SHARE
    return tried, crashes, time.monotonic() - begun


if __name__ == "__main__":
    sys.exit(main())
