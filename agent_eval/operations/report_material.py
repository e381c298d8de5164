"""Find what a report shows: a comparison with its decision and packs, or one run with the decision on it."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from typing import Any

from agent_eval.contracts import CaseResultRow, Comparison, GateDecision, RunReference
from agent_eval.errors import AgentEvalError, InvalidInput
from agent_eval.evidence.reader import Pack
from agent_eval.evidence.redacted import without_secrets
from agent_eval.operations.environment import redactor_for
from agent_eval.operations.gate import DECISION_NAME
from agent_eval.operations.packs import (
    comparison_file,
    open_to_show,
    pack_around,
    paired,
    parse_decision,
    read_comparison,
    read_decision,
    view,
)
from agent_eval.storage.files import read_bytes, safe_name
from agent_eval.storage.json import DEFAULT_LIMITS, parse

DEFAULT_TITLE = "Agent evaluation"

_MOST_FAILING = 1_000
"""Cases that did not pass which a report of a run is given."""


@dataclass(frozen=True, kw_only=True)
class ReportMaterial:
    """What a report is made of.

    Attributes:
        comparison: None in a report of one run.
        replay: The report of `replay` or `replay --run-agent` on the candidate, as JSON.
        candidate_pack: None where it is not at hand; so is `baseline_pack`.
        place: Path of the candidate's pack; empty where it is not at hand.
        missing: Sentences on packs that are not at hand.
    """

    candidate: RunReference
    comparison: Comparison | None = None
    decision: GateDecision | None = None
    replay: dict[str, Any] | None = None
    candidate_pack: Pack | None = None
    baseline_pack: Pack | None = None
    place: str = ""
    missing: tuple[str, ...] = ()

    @property
    def file_name(self) -> str:
        """Name of the report's file: artifacts that are uploaded as one file take its name."""
        return f"agent-eval-{safe_name(self.candidate.dataset_id)}.html"

    def failing(self) -> Sequence[CaseResultRow]:
        """Read the candidate's first cases that did not pass, in suite order."""
        rows = self.candidate_pack.results() if self.candidate_pack is not None else ()
        return list(islice((row for row in rows if not row["passed"]), _MOST_FAILING))


def material_of(source: Path) -> ReportMaterial:
    """Read what a page on a pack, or on a comparison, shows; of the latter also its decision beside it.

    Raises:
        InvalidInput: It is neither.
    """
    if source.is_dir() or not source.name.endswith(".json"):
        return run_material(source)
    return with_packs(comparison_material(source, decision=decision_beside(source)), source)


def decision_beside(comparison: Path) -> Path | None:
    """Find the decision of `gate` in the directory of a comparison; None where there is none."""
    decision = comparison.with_name(DECISION_NAME)
    return decision if decision.exists() else None


def run_material(path: Path, *, decision: Path | None = None) -> ReportMaterial:
    """Read what a report of one run shows.

    Raises:
        InvalidInput: There is no pack, or the decision was made on a comparison or another run.
    """
    pack = open_to_show(path)
    decided = parse_decision(decision) if decision is not None else None
    if decided is not None and (
        decided.comparison_sha256 is not None or decided.candidate_manifest_sha256 != pack.manifest_sha256
    ):
        raise InvalidInput(
            f"{decision} was not decided on this run alone",
            remedy=f"Decide with `agent-eval gate --run {pack.name}`, or report a comparison with --compare.",
            file=str(decision),
        )
    return ReportMaterial(
        candidate=view(pack).reference(), candidate_pack=pack, decision=decided, place=str(path)
    )


def comparison_material(
    path: Path, *, decision: Path | None = None, replay: Path | None = None
) -> ReportMaterial:
    """Read the files of a report of a comparison, and check that they belong together.

    Raises:
        InvalidInput: A file cannot be read, or the decision was made on another comparison.
        InvalidPack: The pack that holds the comparison does not verify.
    """
    read = read_comparison(comparison_file(path))
    comparison = without_secrets(read.comparison, redactor_for(os.environ))
    replayed = None
    if replay is not None:
        replayed = parse(read_bytes(replay, max_bytes=DEFAULT_LIMITS.max_bytes), source=str(replay))
        if not isinstance(replayed, dict):
            raise InvalidInput(
                f"{replay} must hold a JSON object", remedy="Name another file.", file=str(replay)
            )
    return ReportMaterial(
        candidate=comparison.candidate,
        comparison=comparison,
        decision=read_decision(decision, read) if decision is not None else None,
        replay=replayed,
    )


def with_packs(
    material: ReportMaterial, path: Path, *, baseline: Path | None = None, candidate: Path | None = None
) -> ReportMaterial:
    """Add the packs of the comparison at `path`.

    One that is None is taken from the place that the comparison names, if it is still there.

    Raises:
        InvalidInput: A named pack is not that of the comparison.
    """
    path, comparison = comparison_file(path), material.comparison
    if comparison is None:
        raise ValueError("the material is of a run alone")
    by_side: dict[str, tuple[Pack, str]] = {}
    for side, run, named, stated in (
        ("baseline", comparison.baseline, baseline, comparison.baseline_path),
        ("candidate", comparison.candidate, candidate, comparison.candidate_path),
    ):
        beside = pack_around(path) if side == "candidate" else None
        if beside is None and stated is not None:
            beside = Path(os.path.normpath(path.parent / stated))
        place = named or beside
        if place is None or (named is None and not place.exists()):
            continue
        try:
            pack = open_to_show(place)
        except AgentEvalError:
            if named is not None:
                raise
            continue
        if pack.manifest_sha256 == run.manifest_sha256:
            by_side[side] = pack, str(place)
        elif named is not None:
            raise InvalidInput(
                f"{place} is not the {side} that was compared",
                remedy=f"Name the pack of run {run.run_id[:200]!r} with --{side}.",
                file=str(place),
                field=side,
            )
    before, _ = by_side.get("baseline", (None, ""))
    now, place_of_candidate = by_side.get("candidate", (None, ""))
    return replace(
        material,
        candidate_pack=now,
        baseline_pack=paired(before, now) if before is not None and now is not None else before,
        place=place_of_candidate,
        missing=tuple(
            f"The evidence of the {side} is not at hand, so its steps are not shown; --{side} names it."
            for side in ("baseline", "candidate")
            if side not in by_side
        ),
    )
