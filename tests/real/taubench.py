"""The recorded trials of one agent on tau-bench's airline tasks: four trials of each of 50 tasks."""

from __future__ import annotations

import gzip
import json
from collections import defaultdict
from collections.abc import Iterator
from typing import Any

from agent_eval.contracts import Case, Trace, Verdict
from agent_eval.errors import FailureKind
from agent_eval.judges.base import BaseJudge, JudgeConfig
from tests.shared_data import shared_path

TRIALS = 4


class TaskDone(BaseJudge[JudgeConfig]):
    """Passes where the benchmark found the task done, which it recorded as the reward."""

    judge_id = "task_done"
    Config = JudgeConfig

    def evaluate(self, case: Case, trace: Trace) -> Verdict:
        if case.metadata["reward"] == 1.0:
            return self.passed(case, "the task was done")
        return self.failed(case, "the task was not done", FailureKind.CONTRACT_VIOLATION)


def runs() -> Iterator[dict[str, Any]]:
    """Every recorded run; skips the test where the data set is absent."""
    path = shared_path("data/datasets/tau-bench-gpt-4o-airline.jsonl.gz")
    with gzip.open(path, "rt", encoding="utf-8") as lines:
        for line in lines:
            yield json.loads(line)


def cases() -> list[dict[str, Any]]:
    """A case a task, with its trials."""
    tasks: defaultdict[int, dict[int, dict[str, Any]]] = defaultdict(dict)
    for run in runs():
        tasks[run["task_id"]][run["trial"]] = run
    made = []
    for task, trials in sorted(tasks.items()):
        recorded = [
            {"trace": _trace(trials[number]["traj"]), "metadata": {"reward": trials[number]["reward"]}}
            for number in range(TRIALS)
        ]
        made.append({"case_id": f"airline/{task}", **recorded[0], "trials": recorded[1:]})
    return made


def _trace(messages: list[dict[str, Any]]) -> list[dict[str, Any]]:
    spoken = [message for message in messages if message.get("content") is not None]
    return [
        {
            "idx": number,
            "actor": "agent" if message["role"] == "assistant" else message["role"],
            "type": "message",
            "output": message["content"],
        }
        for number, message in enumerate(spoken)
    ]


def passes_by_trial() -> list[dict[str, bool]]:
    """For each trial, task to whether it was done; skips the test where the data set is absent."""
    trials: defaultdict[int, dict[str, bool]] = defaultdict(dict)
    for run in runs():
        trials[run["trial"]][f"airline/{run['task_id']}"] = run["reward"] == 1.0
    return [trials[number] for number in sorted(trials)]
