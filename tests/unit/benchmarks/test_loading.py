"""A benchmark that no one ran for a while still names what there is."""

from __future__ import annotations

import importlib
from pathlib import Path

import benchmarks


def test_every_benchmark_can_be_loaded() -> None:
    for path in sorted(Path(benchmarks.__file__).parent.glob("*.py")):
        importlib.import_module(f"benchmarks.{path.stem}")
