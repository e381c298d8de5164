"""How long the image takes to start, and how large it is: builds it with buildah, as root and without docker.

    python benchmarks/image_start.py                 # medians of twenty, writes results/image_start.json
    python benchmarks/image_start.py --repeat 3

Each command runs in the image's file system, in namespaces of its own, as uid 1001 without a network and with
nothing writable but a mounted directory. `true` is what this takes without agent-eval; starting a container
takes docker or podman some tenths of a second more, whatever the image.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import statistics
import sys
import tempfile
import time
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE.parent))

from tests.container.docker import Run, Unpacked  # noqa: E402
from tests.container.image import build  # noqa: E402

LIMIT_SECONDS = 1.0
USER = 1001


def commands(workspace: Path) -> dict[str, Run]:
    """What is timed, by name."""
    run = Run(
        arguments=(),
        user=f"{USER}:{USER}",
        volumes=(f"{workspace}:{workspace}",),
        workdir=str(workspace),
        tmpfs=("/tmp",),
        read_only=True,
        offline=True,
        powerless=True,
    )
    return {
        "true": replace(run, entrypoint=("/bin/true",)),
        "--help": replace(run, arguments=("--help",)),
        "run, three cases": replace(
            run, arguments=("run", "suite_good.json", "--out", "runs/one", "--fresh")
        ),
    }


def seconds(run: Run, image: Unpacked) -> float:
    """How long a command takes; raises when it fails."""
    started = time.perf_counter()
    done = run.execute(image)
    if done.returncode != 0:
        raise RuntimeError(f"{run.arguments}: {done.stderr}")
    return time.perf_counter() - started


def megabytes(root: Path) -> float:
    """What the files of the image have, in MB (10**6 bytes)."""
    paths = (Path(place, name) for place, _, names in os.walk(root) for name in names)
    return sum({status.st_ino: status.st_size for status in map(Path.lstat, paths)}.values()) / 1e6


def main() -> None:
    """Measure, and write the results."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeat", type=int, default=20)
    repeat: int = parser.parse_args().repeat
    with tempfile.TemporaryDirectory() as scratch:
        image = Unpacked.of(build(Path(scratch)))
        workspace = Path(scratch, "workspace")
        workspace.mkdir()
        shutil.copyfile(HERE.parent / "examples" / "suite_good.json", workspace / "suite_good.json")
        os.chown(workspace, USER, USER)
        os.chmod(scratch, 0o755)
        size = megabytes(image.root)
        taken = {
            name: [seconds(run, image) for _ in range(repeat)] for name, run in commands(workspace).items()
        }
    results = {
        "seconds": {name: round(statistics.median(values), 3) for name, values in taken.items()},
        "limit_of_help_seconds": LIMIT_SECONDS,
        "megabytes": round(size, 1),
        "load_average": round(os.getloadavg()[0], 1),
        "processors": os.cpu_count(),
        "measured": datetime.now(UTC).date().isoformat(),
    }
    print(json.dumps(results))
    (HERE / "results" / "image_start.json").write_text(json.dumps(results, indent=2, sort_keys=True) + "\n")


if __name__ == "__main__":
    main()
