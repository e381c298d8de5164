"""Write a generated suite (`benchmark-generate`)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from agent_eval.benchmarks.generate import SuiteRequest, generate_suite
from agent_eval.operations.suites import refuse_ending, write_suite
from agent_eval.text.escape import shell_word

GOOD_AGENT = "python:agent_eval.benchmarks.agents:good_agent"


def write_benchmark(request: SuiteRequest, out: Path) -> dict[str, Any]:
    """Generate a suite and write it; return what the command prints.

    Overwrites the file `out`; a `.jsonl` has a line for the header and one for each case.

    Raises:
        UsageError: The file would be neither `.json` nor `.jsonl`.
    """
    refuse_ending(out, "--out")
    suite = generate_suite(request)
    about = suite["metadata"]["benchmark"]
    write_suite(out, suite)
    agent = [] if any("trace" in case for case in suite["cases"]) else ["--agent", GOOD_AGENT]
    command = ["agent-eval", "run", str(out), *agent, "--out", f"runs/{out.stem}"]
    return {
        "output": str(out),
        "dataset_id": suite["dataset_id"],
        "cases": len(suite["cases"]),
        "scenarios": about["scenarios"],
        "traps": sum(about["traps"].values()),
        "next": " ".join(map(shell_word, command)),
    }
