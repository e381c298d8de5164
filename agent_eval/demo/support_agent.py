"""The demonstration: a shop's support agent before and after its move to a smaller model.

Each side has twelve recorded conversations. The change makes three cases worse (a needless escalation, a
refund amount that is no longer a number, a refund that the policy forbids) and one better, and it makes the
whole run cheaper and faster, as a pull request that swaps a model often does.
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
    "set": "policy.max_new_hard_fail_cases=0",
    "title": "Support agent",
}
"""Inputs of `agent-eval ci` for the demonstration."""


def write_suites(out: Path) -> tuple[Path, Path]:
    """Write both recorded suites below a directory, under one file name; the baseline's comes first."""
    bundled = files("agent_eval.demo") / "suites"
    places = []
    for role in ("baseline", "candidate"):
        place = out / role / SUITE_NAME if role == "baseline" else out / SUITE_NAME
        write_file(place, (bundled / f"support_agent.{role}.json").read_bytes())
        places.append(place)
    return places[0], places[1]
