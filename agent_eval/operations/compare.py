"""`compare`: what changed from one pack to another."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from agent_eval.comparison.compare import compare
from agent_eval.contracts import Comparison, GateDecision
from agent_eval.errors import UsageError
from agent_eval.evidence.derived import write_output
from agent_eval.evidence.reader import without_collection
from agent_eval.operations import clock
from agent_eval.operations.packs import open_run, read_comparison, read_decision, read_object, view
from agent_eval.registry.baselines import resolve_baseline
from agent_eval.registry.store import DEFAULT_PATH, RegistryStore
from agent_eval.storage.json import dumps

DEFAULT_PLACE = Path("compare") / "baseline_delta.json"
"""Where a comparison is written within the candidate's pack."""


@dataclass(frozen=True)
class CompareResult:
    """A comparison and the file it was written to."""

    comparison: Comparison
    path: Path


@without_collection()
def compare_packs(
    baseline: str | Path,
    candidate: Path,
    *,
    registry: Path = DEFAULT_PATH,
    allow_incompatible: bool = False,
    out: Path | None = None,
    environ: Mapping[str, str],
) -> CompareResult:
    """Verify two packs, compare them, and write the comparison.

    Args:
        baseline: Pack or archive to compare with, or the name of a registered one.
        candidate: Pack or archive in question.
        registry: Where a name is looked up.
        allow_incompatible: Compare the cases that both have, even where datasets or definitions differ.
        out: Where to write; `compare/baseline_delta.json` in the candidate's pack when None.
        environ: The environment variables; they may pin the clock.

    Raises:
        InvalidInput: The baseline is neither a path nor a registered name.
        InvalidPack: A pack does not verify, or another one lies where the registered one was.
        IncompatibleRuns: The runs did not evaluate the same thing; nothing has been written.
        UsageError: The candidate is an archive and `out` is None.
    """
    found = resolve_baseline(RegistryStore(registry), str(baseline))
    before, after = open_run(found.path), open_run(candidate)
    found.check(before.manifest_sha256)
    comparison = compare(
        view(before),
        view(after),
        changed="include" if allow_incompatible else "refuse",
        generated_at=clock.timestamp(environ),
        traces=lambda case_id: (before.trajectory(case_id), after.trajectory(case_id)),
    )
    path = out if out is not None else _default_place(candidate)
    write_output(path, dumps(comparison.to_json(), indent=True))
    return CompareResult(comparison, path)


def _default_place(candidate: Path) -> Path:
    if candidate.is_file():
        raise UsageError(
            f"{candidate} is an archive, into which nothing can be written",
            remedy="Say with --out where the comparison goes.",
            file=str(candidate),
        )
    return candidate / DEFAULT_PLACE


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
