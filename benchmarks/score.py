"""What scoring, comparing, sealing and starting cost, as multiples of work that nobody can avoid.

    python benchmarks/score.py --write          # everything, medians of five; writes results and README
    python benchmarks/score.py --repeat 3 --only run,compare

The unit is the standard library's `json.dumps(json.loads(text))` of the same suite, timed again before
every measurement, so that a busy machine slows both sides down.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE.parent))

from benchmarks.generate import write_suite  # noqa: E402
from benchmarks.processes import Cost, cost, peak_memory  # noqa: E402

CASES = 10_000
LARGE = 100_000
AGENT_EVAL = Path(sys.executable).with_name("agent-eval")
GATE_SAID_NO = 1

UNIT = """
import json, sys, time
text = open(sys.argv[1]).read()
wall, cpu = time.perf_counter(), time.process_time()
json.dumps(json.loads(text))
print(time.perf_counter() - wall, time.process_time() - cpu)
"""


@dataclass
class Figure:
    """One line of the table. `limit` is what it must not exceed, in the unit it is given in."""

    name: str
    value: float
    measured_in: str
    limit: float | None = None
    details: dict[str, Any] = field(default_factory=dict)


class Bench:
    """Suites in a directory of their own, and how often to measure."""

    def __init__(self, directory: Path, repeat: int) -> None:
        self.directory = directory
        self.repeat = repeat
        self.suite = directory / "suite.jsonl"
        self.candidate = directory / "candidate.jsonl"
        self.document = directory / "suite.json"
        write_suite(self.suite, CASES)
        write_suite(self.document, CASES)
        write_suite(self.candidate, CASES, variant=1)

    def unit(self) -> Cost:
        """One unit, now."""
        return python(UNIT, self.document)

    def run(self, suite: Path, out: str, *more: str) -> list[str | Path]:
        """The command that scores a suite into a fresh directory."""
        place = self.directory / out
        shutil.rmtree(place, ignore_errors=True)
        return [AGENT_EVAL, "run", "--suite", suite, "--out", place, "--run-id", out, *more]

    def small(self) -> Path:
        """A suite of ten cases, which takes hardly longer than starting."""
        path = self.directory / "small.jsonl"
        write_suite(path, 10)
        return path

    def in_units(self, measure: Callable[[], Cost]) -> tuple[float, dict[str, Any]]:
        """Median of `measure().wall / unit().wall`, both taken in turn, and all values."""
        units, values = [], []
        for _ in range(self.repeat):
            units.append(self.unit())
            values.append(measure())
        return ratio(values, units), {"units": shown(units), "measured": shown(values)}


def ratio(values: list[Cost], units: list[Cost]) -> float:
    return statistics.median(value.wall / unit.wall for value, unit in zip(values, units, strict=True))


def python(code: str, *arguments: str | Path) -> Cost:
    """What a piece of Python says that it took: wall and processor seconds on one line."""
    command = [sys.executable, "-c", code, *map(str, arguments)]
    return Cost(*map(float, subprocess.check_output(command).split()))


def shown(costs: list[Cost]) -> dict[str, Any]:
    """Every value, and the ratio of processor time, which a busy machine changes less than the clock."""
    return {
        "wall_seconds": [round(one.wall, 3) for one in costs],
        "cpu_seconds": [round(one.cpu, 3) for one in costs],
        "cpu_median": round(statistics.median(one.cpu for one in costs), 3),
    }


def score_compact(bench: Bench) -> list[Figure]:
    units, details = bench.in_units(lambda: cost(bench.run(bench.suite, "compact")))
    return [Figure("run, compact layout", units, "units", 1.7, details)]


def score_beside_work(bench: Bench) -> list[Figure]:
    """The same while another process keeps a core busy."""
    with busy_core():
        units, details = bench.in_units(lambda: cost(bench.run(bench.suite, "compact")))
    return [Figure("run, compact layout, one core busy", units, "units", None, details)]


def compare_beside_work(bench: Bench) -> list[Figure]:
    """The three commands while another process keeps a core busy."""
    with busy_core():
        (figure,) = compare(bench)
    return [replace(figure, name=f"{figure.name}, one core busy")]


@contextmanager
def busy_core() -> Iterator[None]:
    """Keep one core busy with work of its own."""
    other = subprocess.Popen([sys.executable, "-c", "while True: sum(range(10_000))"])
    try:
        yield
    finally:
        other.kill()
        other.wait()


def score_files(bench: Bench) -> list[Figure]:
    """Against 1.5 units plus 1.2 times a bare loop that writes the same bytes into the same files."""
    units, values, floors = [], [], []
    for _ in range(bench.repeat):
        units.append(bench.unit())
        values.append(cost(bench.run(bench.suite, "files", "--set", "evidence.layout=files")))
        floors.append(bare_loop(bench.directory / "files", bench.directory / "bare"))
    allowed = [1.5 * unit.wall + 1.2 * floor.wall for unit, floor in zip(units, floors, strict=True)]
    share = statistics.median(value.wall / most for value, most in zip(values, allowed, strict=True))
    details = {"units": shown(units), "measured": shown(values), "bare_loops": shown(floors)}
    return [Figure("run, files layout, of 1.5 units + 1.2 bare loops", share, "of the limit", 1.0, details)]


def bare_loop(pack: Path, copy: Path) -> Cost:
    """Writing a pack's bytes into as many new files, knowing them already."""
    shutil.rmtree(copy, ignore_errors=True)
    os.sync()
    known = [(path.relative_to(pack), path.read_bytes()) for path in pack.rglob("*") if path.is_file()]
    known.sort()
    made: set[Path] = set()
    wall, cpu = time.perf_counter(), time.process_time()
    for relative, data in known:
        path = copy / relative
        if path.parent not in made:
            path.parent.mkdir(parents=True)
            made.update([path.parent, *path.parent.parents])
        with open(path, "wb") as file:
            file.write(data)
    taken = Cost(time.perf_counter() - wall, time.process_time() - cpu)
    shutil.rmtree(copy)
    os.sync()
    return taken


def memory(bench: Bench) -> list[Figure]:
    small = peak_memory(bench.run(bench.suite, "compact"))
    document = peak_memory(bench.run(bench.document, "of-a-document"))
    of_document = f"memory of all processes, {CASES:,} cases in one JSON document"
    large_suite = bench.directory / "large.jsonl"
    write_suite(large_suite, LARGE)
    large = peak_memory(bench.run(large_suite, "large"))
    large_suite.unlink()
    shutil.rmtree(bench.directory / "large")
    return [
        Figure(f"memory of all processes, {CASES:,} cases", small.rss, "MB (RSS)", 200, vars(small)),
        Figure(of_document, document.rss, "MB (RSS)", 300, vars(document)),
        Figure(f"memory of all processes, {LARGE:,} cases", large.rss, "MB (RSS)", 250, vars(large)),
    ]


def verify_pack(bench: Bench) -> list[Figure]:
    """`verify`, which judges every case again, beside the run that made the pack; and its memory."""
    shares, runs, verifications, peaks = [], [], [], []
    for cases in (CASES, LARGE):
        suite, out = bench.directory / f"of-{cases}.jsonl", f"pack-of-{cases}"
        write_suite(suite, cases)
        for _ in range(bench.repeat if cases == CASES else 1):
            runs.append(cost(bench.run(suite, out)))
            verifications.append(cost([AGENT_EVAL, "verify", bench.directory / out]))
            shares.append(verifications[-1].cpu / runs[-1].cpu)
        peaks.append(peak_memory([AGENT_EVAL, "verify", bench.directory / out]))
        suite.unlink()
        shutil.rmtree(bench.directory / out)
    details = {"runs": shown(runs), "measured": shown(verifications)}
    of_small, of_large = statistics.median(shares[:-1]), shares[-1]
    return [
        Figure(f"verify, {CASES:,} cases, processor time", of_small, "of the run's", 1.0, details),
        Figure(f"verify, {LARGE:,} cases, processor time", of_large, "of the run's", 1.0, details),
        *(
            Figure(f"memory of verify, {cases:,} cases", peak.rss, "MB (RSS)", 200, vars(peak))
            for cases, peak in zip((CASES, LARGE), peaks, strict=True)
        ),
    ]


def compare(bench: Bench) -> list[Figure]:
    """compare, gate and report, as three commands."""
    cost(bench.run(bench.suite, "baseline"))
    cost(bench.run(bench.candidate, "candidate"))
    places = bench.directory / "candidate" / "compare"
    delta, decision = places / "baseline_delta.json", places / "gate_decision.json"
    packs = ["--baseline", bench.directory / "baseline", "--candidate", bench.directory / "candidate"]
    commands: list[list[str | Path]] = [
        [AGENT_EVAL, "compare", *packs, "--out", delta],
        [AGENT_EVAL, "gate", "--compare", delta, "--out", decision, "--max-regressed-cases", "0"],
        [AGENT_EVAL, "report", "markdown", "--compare", delta, "--gate", decision, "--out", places / "r.md"],
    ]
    parts: list[list[Cost]] = [[] for _ in commands]

    def all_three() -> Cost:
        for part, command in zip(parts, commands, strict=True):
            part.append(cost(command, expect=(0, GATE_SAID_NO)))
        return Cost(sum(part[-1].wall for part in parts), sum(part[-1].cpu for part in parts))

    units, details = bench.in_units(all_three)
    for name, part in zip(("compare", "gate", "report"), parts, strict=True):
        details[name] = shown(part)
    return [Figure("compare + gate + report markdown", units, "units", 0.8, details)]


SEAL = """
import hashlib, sys, time
from pathlib import Path
from agent_eval.contracts import FileEntry, Manifest
from agent_eval.storage.files import sha256_file
from agent_eval.storage.json import dumps
root = Path(sys.argv[1])
wall, cpu = time.perf_counter(), time.process_time()
manifest = Manifest.model_validate_json((root / "manifest.json").read_bytes())
files = []
for entry in manifest.files:
    digest, size = sha256_file(root / entry.path)
    files.append(FileEntry(path=entry.path, size=size, sha256=digest))
again = manifest.model_copy(update={"files": files})
assert dumps(again.to_json(), indent=True) == (root / "manifest.json").read_bytes()
print(time.perf_counter() - wall, time.process_time() - cpu)
"""

VERIFY = """
import sys, time
from pathlib import Path
from agent_eval.evidence.reader import open_pack
wall, cpu = time.perf_counter(), time.process_time()
open_pack(Path(sys.argv[1]))
print(time.perf_counter() - wall, time.process_time() - cpu)
"""


SIGN = """
import sys, time
from pathlib import Path
from agent_eval.attestations.keys import SigningKey
from agent_eval.evidence.reader import open_pack
from agent_eval.operations.trust import Signer, attest_opened
from agent_eval.storage.atomic import write_file
root, public = Path(sys.argv[1]), Path(sys.argv[2])
pack, key = open_pack(root), SigningKey.generate()
write_file(public, key.public.pem)
wall, cpu = time.perf_counter(), time.process_time()
attest_opened(pack, root, Signer(key), gate=None, environ={"DEPLOY_TOKEN": "not in the evidence"})
print(time.perf_counter() - wall, time.process_time() - cpu)
"""
"""The job signs the pack that it has open."""

VERIFY_SIGNED = """
import sys, time
from pathlib import Path
from agent_eval.attestations.files import Trust
from agent_eval.attestations.keys import read_public_key
from agent_eval.operations.trust import open_trusted
trust = Trust(keys=(read_public_key(Path(sys.argv[2])),))
wall, cpu = time.perf_counter(), time.process_time()
open_trusted(Path(sys.argv[1]), trust)
print(time.perf_counter() - wall, time.process_time() - cpu)
"""


def seal_sign_and_verify(bench: Bench) -> list[Figure]:
    """The same with a signature: digests, the job's signing, and opening a pack whose signature must hold."""
    cost(bench.run(bench.suite, "compact"))
    pack, public = bench.directory / "compact", bench.directory / "key.pub"

    def all_three() -> Cost:
        costs = [python(SEAL, pack), python(SIGN, pack, public), python(VERIFY_SIGNED, pack, public)]
        return Cost(sum(each.wall for each in costs), sum(each.cpu for each in costs))

    units, details = bench.in_units(all_three)
    return [Figure("sealing, signing and verifying, compact layout", units, "units", 0.5, details)]


def seal_and_verify(bench: Bench) -> list[Figure]:
    """Digests of every file into a manifest; then opening the pack, which verifies it."""
    cost(bench.run(bench.suite, "compact"))
    pack = bench.directory / "compact"

    def both() -> Cost:
        seal, verify = python(SEAL, pack), python(VERIFY, pack)
        return Cost(seal.wall + verify.wall, seal.cpu + verify.cpu)

    units, details = bench.in_units(both)
    return [Figure("sealing and verifying, compact layout", units, "units", 0.5, details)]


def start_up(bench: Bench) -> list[Figure]:
    """What starting costs beside importing what a command cannot do without, taken in turn."""
    small = bench.small()
    cost(bench.run(small, "small-baseline"))
    packs = ["--baseline", bench.directory / "small-baseline", "--candidate", bench.directory / "small"]
    delta = bench.directory / "small-delta.json"
    commands: list[tuple[str, Callable[[], list[str | Path]], int, str, float]] = [
        ("agent-eval --help", lambda: [AGENT_EVAL, "--help"], 0, "click", 1.4),
        ("a usage error", lambda: [AGENT_EVAL, "run", "--no-such-option"], 2, "click", 1.4),
        ("run, ten cases", lambda: bench.run(small, "small"), 0, LIBRARIES, 1.5),
        ("compare, ten cases", lambda: [AGENT_EVAL, "compare", *packs, "--out", delta], 0, LIBRARIES, 1.5),
    ]
    return [start_of(*command, times=6 * bench.repeat) for command in commands]


LIBRARIES = "pydantic, jsonschema, re2, orjson"
"""Imported by every command that judges."""


def start_of(
    name: str, command: Callable[[], list[str | Path]], code: int, imported: str, limit: float, times: int
) -> Figure:
    """How many times `import <imported>` a command takes, both in a process of its own."""
    bare = [sys.executable, "-c", f"import {imported}"]
    pairs = [(cost(command(), expect=(code,)), cost(bare)) for _ in range(times)]
    ours, imports = ([pair[side] for pair in pairs] for side in (0, 1))
    value = statistics.median(one.wall for one in ours) / statistics.median(one.wall for one in imports)
    details = {"measured": shown(ours), "imports": shown(imports)}
    return Figure(name, value, f"times `import {imported}`", limit, details)


PARTS: dict[str, Callable[[Bench], list[Figure]]] = {
    "run": score_compact,
    "run-busy": score_beside_work,
    "files": score_files,
    "compare": compare,
    "compare-busy": compare_beside_work,
    "seal": seal_and_verify,
    "sign": seal_sign_and_verify,
    "startup": start_up,
    "memory": memory,
    "verify": verify_pack,
}


def table(rows: list[dict[str, Any]]) -> str:
    lines = ["| measured | figure | at most | date |", "|---|---:|---:|---|"]
    for row in rows:
        digits = 0 if row["value"] >= 20 else 2
        limit = "" if row["limit"] is None else f"{row['limit']:g}"
        figure = f"{row['value']:.{digits}f} {row['measured_in']}"
        lines.append(f"| {row['name']} | {figure} | {limit} | {row['measured']['measured_at']} |")
    return "\n".join(lines) + "\n"


def machine() -> dict[str, Any]:
    usable = len(os.sched_getaffinity(0))
    return {
        "cores": usable,
        "python": platform.python_version(),
        "system": f"{platform.system()} {platform.machine()}",
        "measured_at": datetime.now(UTC).date().isoformat(),
        "load_average": os.getloadavg()[0],
    }


def write_results(figures: list[Figure], repeat: int) -> None:
    """Write the figures; those of parts that were not measured now stay as they were, with their date."""
    path = HERE / "results" / "score.json"
    on = {**machine(), "repeat": repeat}
    now = [{**vars(figure), "value": round(figure.value, 3), "measured": on} for figure in figures]
    before = {row["name"]: row for row in json.loads(path.read_text())["figures"]} if path.is_file() else {}
    rows = list({**before, **{str(row["name"]): row for row in now}}.values())
    path.write_text(json.dumps({"cases": CASES, "figures": rows}, indent=2) + "\n")
    readme = HERE / "README.md"
    begin, end = "<!-- table -->\n", "<!-- end of table -->"
    head, rest = readme.read_text().split(begin)
    about = "2 cores, Python 3.11, Linux x86_64; medians, each on the date in its row.\n\n"
    readme.write_text(head + begin + about + table(rows) + end + rest.split(end)[1])


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--repeat", type=int, default=5)
    parser.add_argument("--only", default=",".join(PARTS), help=f"some of {','.join(PARTS)}")
    parser.add_argument("--write", action="store_true", help="write results/score.json and the table")
    parser.add_argument("--directory", type=Path, help="where to work; a temporary directory otherwise")
    options = parser.parse_args()
    names = options.only.split(",")
    # As where the package is installed: with its bytecode.
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    with tempfile.TemporaryDirectory(dir=options.directory) as directory:
        bench = Bench(Path(directory), options.repeat)
        figures = []
        for name in names:
            found = PARTS[name](bench)
            figures += found
            for figure in found:
                print(f"{figure.name}: {figure.value:.2f} {figure.measured_in}", flush=True)
    if options.write:
        write_results(figures, options.repeat)


if __name__ == "__main__":
    main()
