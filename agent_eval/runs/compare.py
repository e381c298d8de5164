"""`compare`: what changed from one pack to another."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from agent_eval.comparison.compare import compare
from agent_eval.contracts import Comparison
from agent_eval.errors import UsageError
from agent_eval.evidence.derived import write_output
from agent_eval.evidence.pack import without_collection
from agent_eval.registry.baselines import resolve_baseline
from agent_eval.registry.store import DEFAULT_PATH, RegistryStore
from agent_eval.runs import clock
from agent_eval.runs.packs import open_run, view
from agent_eval.storage.json_writer import dumps

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
