"""The recorded trials of one agent on tau-bench's airline tasks: four trials of each of 50 tasks.

Which of them passed is in the project (`tests/fixtures/tau_bench`); what the agent said in them is not.
"""

import gzip
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from agent_eval.contracts import Case, Trace, Verdict
from agent_eval.errors import FailureKind
from agent_eval.judges.base import BaseJudge, JudgeConfig
from tests.shared_data import shared_path

TRAJECTORIES = "data/datasets/tau-bench-gpt-4o-airline.jsonl.gz"
MATRIX = Path(__file__).parents[1] / "fixtures" / "tau_bench" / "pass_matrix_50x4.json"
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
    path = shared_path(TRAJECTORIES)
    with gzip.open(path, "rt", encoding="utf-8") as lines:
        for line in lines:
            yield json.loads(line)


def passes() -> dict[int, list[bool]]:
    """For each task, which of its trials were done."""
    matrix = json.loads(MATRIX.read_text(encoding="utf-8"))
    return {int(task): list(map(bool, trials)) for task, trials in matrix.items()}


def cases_of_the_matrix() -> list[dict[str, Any]]:
    """A case a task, with its trials, each of a single word."""
    word = {"idx": 0, "actor": "agent", "type": "message", "output": "Done."}
    cases = []
    for task, done in sorted(passes().items()):
        first, *more = [{"trace": [word], "metadata": {"reward": float(each)}} for each in done]
        cases.append({"case_id": f"airline/{task}", **first, "trials": more})
    return cases


def passes_by_trial() -> list[dict[str, bool]]:
    """For each trial, task to whether it was done."""
    return [{f"airline/{task}": done[number] for task, done in passes().items()} for number in range(TRIALS)]
