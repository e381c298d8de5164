"""The recorded trials of one agent on tau-bench's airline tasks: four trials of each of 50 tasks."""

from __future__ import annotations

import gzip
import json
from collections import defaultdict

from tests.shared_data import shared_path

TRIALS = 4


def passes_by_trial() -> list[dict[str, bool]]:
    """For each trial, task to whether it was done; skips the test where the data set is absent."""
    path = shared_path("data/datasets/tau-bench-gpt-4o-airline.jsonl.gz")
    trials: defaultdict[int, dict[str, bool]] = defaultdict(dict)
    with gzip.open(path, "rt", encoding="utf-8") as lines:
        for line in lines:
            run = json.loads(line)
            trials[run["trial"]][f"airline/{run['task_id']}"] = run["reward"] == 1.0
    return [trials[number] for number in sorted(trials)]
