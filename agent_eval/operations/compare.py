"""`compare`: compare two packs, and write the comparison. Also read what a report shows."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from agent_eval.comparison.compare import compare
from agent_eval.contracts import Comparison, GateDecision
from agent_eval.evidence.derived import clear_unfinished, write_output
from agent_eval.evidence.reader import Pack
from agent_eval.evidence.redacted import without_secrets as without_secrets
from agent_eval.operations import clock
from agent_eval.operations.environment import redactor_for
from agent_eval.operations.judged_twice import judge_twice
from agent_eval.operations.packs import (
    DEFAULT_PATH_IN_PACK,
    comparison_file,
    path_in_pack,
    read_comparison,
    read_decision,
    read_object,
    view,
)
from agent_eval.operations.trusted_packs import UNSIGNED, SignerKeys, open_signed
from agent_eval.registry.baselines import resolve_baseline
from agent_eval.registry.store import DEFAULT_PATH, RegistryStore
from agent_eval.storage.json import dumps


@dataclass(frozen=True)
class CompareResult:
    """A comparison and the file it was written to. Returned by `compare_packs`."""

    comparison: Comparison
    path: Path


def compare_packs(
    baseline: str | Path,
    candidate: Path,
    *,
    registry: Path = DEFAULT_PATH,
    allow_incompatible: bool = False,
    out: Path | None = None,
    keys: SignerKeys = UNSIGNED,
    environ: Mapping[str, str],
) -> CompareResult:
    """Verify two packs, compare them, and write the comparison.

    More than six parameters: two packs and the environment are needed, each of the others replaces a default.

    Args:
        baseline: Pack or archive to compare with, or the name of a registered one.
        allow_incompatible: Whether to compare all common cases, also of runs of different datasets and where
            they ask something else. Otherwise these are listed and left out.
        out: File to write; None for `compare/baseline_delta.json` in the candidate's pack.
        environ: May pin the clock; its secrets are replaced.

    Raises:
        InvalidInput: The baseline is neither a path nor a registered name.
        UntrustedPack: A pack was not signed with the key that it must have been signed with.
        InvalidPack: A pack does not verify, or the registered baseline was replaced by another pack.
        IncompatibleRuns: The runs are of different datasets; nothing has been written.
        UsageError: The candidate is an archive and `out` is None.
    """
    registered = resolve_baseline(RegistryStore(registry), str(baseline))
    path = out
    if path is None and candidate.is_dir():
        path = candidate / DEFAULT_PATH_IN_PACK
    if path is not None:
        clear_unfinished(path)
    before = open_signed(registered.path, keys.baseline)
    after = open_signed(candidate, keys.candidate)
    registered.check(before.manifest_sha256)
    comparison = compared(
        before,
        after,
        generated_at=clock.timestamp(environ),
        allow_incompatible=allow_incompatible,
    )
    comparison = without_secrets(comparison, redactor_for(environ))
    path = path if path is not None else path_in_pack(candidate, DEFAULT_PATH_IN_PACK)
    comparison.baseline_path = _relative(registered.path, path)
    comparison.candidate_path = _relative(candidate, path)
    write_output(path, dumps(comparison.to_json(), indent=True))
    return CompareResult(comparison, path)


def compared(
    before: Pack,
    after: Pack,
    *,
    generated_at: str,
    allow_incompatible: bool = False,
    with_traces: bool = True,
) -> Comparison:
    """Compare two verified packs.

    `with_traces` tells whether to describe how the behaviour of cases changed; a decision does not need it.

    Raises:
        IncompatibleRuns: The runs are of different datasets.
        NothingMeasured: A run has no case, or the runs share none that was to be compared.
    """
    return compare(
        view(before),
        view(after),
        generated_at=generated_at,
        allow_incompatible=allow_incompatible,
        traces=(lambda case_id: (before.trajectory(case_id), after.trajectory(case_id)))
        if with_traces
        else None,
        judged_twice=judge_twice(before, after),
    )


def _relative(pack: Path, comparison: Path) -> str:
    return Path(os.path.relpath(pack, comparison.parent)).as_posix()


@dataclass(frozen=True)
class ReportMaterial:
    """A comparison, the decision made on it, and the replay of its candidate, for a report."""

    comparison: Comparison
    decision: GateDecision | None
    replay: dict[str, Any] | None


def read_report_material(
    comparison: Path, *, decision: Path | None = None, replay: Path | None = None
) -> ReportMaterial:
    """Read the files that a report shows, and check that they belong together.

    Raises:
        InvalidInput: A file cannot be read, or the decision was made on another comparison.
        InvalidPack: The pack that holds the comparison does not verify.
    """
    read = read_comparison(comparison_file(comparison))
    return ReportMaterial(
        comparison=without_secrets(read.comparison, redactor_for(os.environ)),
        decision=read_decision(decision, read) if decision is not None else None,
        replay=read_object(replay) if replay is not None else None,
    )


def write_report(path: Path, text: str) -> None:
    """Write a report. If the file is in a pack, add it to the pack's derived manifest.

    Raises:
        UsageError: The path is in the sealed part of a pack.
    """
    write_output(path, text.encode())
