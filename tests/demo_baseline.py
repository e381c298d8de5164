"""Make the baseline that the demonstration of conversations comes with.

`python -m tests.demo_baseline` makes it anew, outside of the checkout, so that it names no commit.
"""

from __future__ import annotations

import os
import tempfile
from contextlib import chdir
from pathlib import Path

from agent_eval.ci.demonstration import BUNDLED, write_baseline

PLACE = Path(__file__).parents[1] / "agent_eval" / "demo" / BUNDLED
ENVIRON = {"AGENT_EVAL_CLOCK": "2026-11-22T12:00:00+00:00", "PATH": os.environ.get("PATH", "")}


def main() -> None:
    """Write the archive into the package."""
    PLACE.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as place, chdir(place):
        write_baseline(PLACE, ENVIRON)


if __name__ == "__main__":
    main()
