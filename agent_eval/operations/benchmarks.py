"""Write a generated suite (`benchmark-generate`)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from agent_eval.benchmarks.generate import SuiteRequest, generate_suite
from agent_eval.errors import UsageError
from agent_eval.storage.atomic import write_file
from agent_eval.storage.json import dumps
from agent_eval.text.escape import shell_word

GOOD_AGENT = "python:agent_eval.benchmarks.agents:good_agent"


def write_benchmark(request: SuiteRequest, out: Path) -> dict[str, Any]:
    """Generate a suite and write it; return what the command prints.

    Args:
        out: Its file, which is overwritten; `.jsonl` has a line for the header and one for each case.

    Raises:
        UsageError: The file would be neither `.json` nor `.jsonl`.
    """
    if out.suffix not in (".json", ".jsonl"):
        raise UsageError(
            f"{out} is neither .json nor .jsonl",
            remedy=f"Write it to {out.with_suffix('.json')}.",
            file=str(out),
        )
    suite = generate_suite(request)
    about = suite["metadata"]["benchmark"]
    write_file(out, _encoded(suite, lines=out.suffix == ".jsonl"))
    return {
        "output": str(out),
        "dataset_id": suite["dataset_id"],
        "cases": len(suite["cases"]),
        "scenarios": about["scenarios"],
        "traps": sum(about["traps"].values()),
        "next": _command(suite, out),
    }


def _command(suite: dict[str, Any], out: Path) -> str:
    """Write the command that runs the suite."""
    agent = [] if any("trace" in case for case in suite["cases"]) else ["--agent", GOOD_AGENT]
    return " ".join(map(shell_word, ["agent-eval", "run", str(out), *agent, "--out", f"runs/{out.stem}"]))


def _encoded(suite: dict[str, Any], *, lines: bool) -> bytes:
    if not lines:
        return dumps(suite, indent=True)
    header = {name: value for name, value in suite.items() if name != "cases"}
    return b"".join(dumps(record).rstrip(b"\n") + b"\n" for record in (header, *suite["cases"]))
