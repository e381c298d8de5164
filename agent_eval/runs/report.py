"""`report markdown`: what a report is made of, and where it is written."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from agent_eval.contracts import Comparison, GateDecision
from agent_eval.evidence.derived import write_output
from agent_eval.runs.artifacts import read_comparison, read_decision, read_object


@dataclass(frozen=True)
class ReportMaterial:
    """What belongs together: a comparison, the decision made on it, a replay of its candidate."""

    comparison: Comparison
    decision: GateDecision | None
    replay: dict[str, Any] | None


def gather(comparison: Path, *, decision: Path | None = None, replay: Path | None = None) -> ReportMaterial:
    """Read what a report shows, and check that it belongs together.

    Raises:
        InvalidInput: A file cannot be read, or the decision was made on another comparison.
        InvalidPack: The pack that holds the comparison does not verify.
    """
    read = read_comparison(comparison)
    return ReportMaterial(
        comparison=read.comparison,
        decision=read_decision(decision, read) if decision is not None else None,
        replay=read_object(replay) if replay is not None else None,
    )


def write_report(path: Path, text: str) -> None:
    """Write a report; within a pack it is listed in the pack's derived manifest.

    Raises:
        StorageError: It cannot be written.
        UsageError: The place is in the sealed part of a pack.
    """
    write_output(path, text.encode())
