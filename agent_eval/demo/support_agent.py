"""The demonstration: a shop's support agent before and after it was moved to a smaller model.

Twelve recorded conversations each. The change makes three cases worse (a needless escalation, a refund
amount that is no longer a number, a refund that the policy forbids), one better, and the whole cheaper and
faster: what a pull request that swaps a model tends to look like.
"""

from __future__ import annotations

from importlib.resources import files
from pathlib import Path

from agent_eval.storage.atomic import write_file

SUITE_NAME = "support_agent.json"
BASELINE_RUN = "large-model"
CANDIDATE_RUN = "small-model"

INPUTS = {
    "min-pass-rate": "0.8",
    "max-regressed-cases": "0",
    "max-new-hard-fail-cases": "0",
    "report-title": "Support agent",
}
"""What the demonstration asks of the job, as inputs of `agent-eval ci`."""


def write_suites(out: Path) -> tuple[Path, Path]:
    """Write both recordings below a directory, under the same name.

    Returns:
        The baseline's suite and the candidate's.

    Raises:
        StorageError: They could not be written.
    """
    bundled = files("agent_eval.demo") / "suites"
    places = []
    for role in ("baseline", "candidate"):
        place = out / role / SUITE_NAME if role == "baseline" else out / SUITE_NAME
        write_file(place, (bundled / f"support_agent.{role}.json").read_bytes())
        places.append(place)
    return places[0], places[1]
