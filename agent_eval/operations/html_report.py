"""Find what an HTML report shows: a comparison with its decision and packs, or the pack of one run."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from agent_eval.contracts import Comparison, GateDecision, RunReference
from agent_eval.errors import AgentEvalError, InvalidInput
from agent_eval.evidence.reader import Pack
from agent_eval.operations.compare import read_report_material
from agent_eval.operations.gate import DECISION_NAME, decision_on
from agent_eval.operations.packs import comparison_file, open_to_show, pack_around, view
from agent_eval.storage.files import safe_name

DEFAULT_TITLE = "Agent evaluation"


@dataclass(frozen=True, kw_only=True)
class HtmlMaterial:
    """What an HTML report is made of. Returned by `comparison_material` and `run_material`.

    Attributes:
        candidate_pack: None where it is not at hand; so is `baseline_pack`.
        comparison: None in a report of one run.
        place: Path of the candidate's pack; empty where it is not at hand.
        missing: Sentences on packs that are not at hand.
    """

    candidate: RunReference
    candidate_pack: Pack | None = None
    baseline_pack: Pack | None = None
    comparison: Comparison | None = None
    decision: GateDecision | None = None
    place: str = ""
    missing: tuple[str, ...] = ()

    @property
    def file_name(self) -> str:
        """Name of the report's file: artifacts that are uploaded as one file take its name."""
        return f"agent-eval-{safe_name(self.candidate.dataset_id)}.html"


def material_of(source: Path) -> HtmlMaterial:
    """Read what a report of a pack, or of a comparison, shows; of the latter also its decision beside it.

    Raises:
        InvalidInput: It is neither.
    """
    if source.is_dir() or not source.name.endswith(".json"):
        return run_material(source)
    decision = source.with_name(DECISION_NAME)
    return comparison_material(source, decision=decision if decision.exists() else None)


def run_material(path: Path, *, decision: Path | None = None) -> HtmlMaterial:
    """Read what a report of one run shows.

    Raises:
        InvalidInput: There is no pack, or the decision was made on something else.
    """
    pack = open_to_show(path)
    return HtmlMaterial(
        candidate=view(pack).reference(),
        candidate_pack=pack,
        decision=decision_on(decision, pack) if decision is not None else None,
        place=str(path),
    )


def comparison_material(
    path: Path,
    *,
    decision: Path | None = None,
    baseline: Path | None = None,
    candidate: Path | None = None,
) -> HtmlMaterial:
    """Read what a report of a comparison shows.

    A pack that is None is taken from the place that the comparison names, if it is still there.

    Raises:
        InvalidInput: A file cannot be read, or the decision or a named pack is not that of the comparison.
    """
    path = comparison_file(path)
    material = read_report_material(path, decision=decision)
    comparison = material.comparison
    before, _, note_before = _side(
        "baseline", comparison.baseline, baseline, _beside(path, comparison, "baseline")
    )
    beside = pack_around(path) or _beside(path, comparison, "candidate")
    now, place, note_now = _side("candidate", comparison.candidate, candidate, beside)
    return HtmlMaterial(
        candidate=comparison.candidate,
        candidate_pack=now,
        baseline_pack=before,
        comparison=comparison,
        decision=material.decision,
        place=place,
        missing=tuple(filter(None, [note_before, note_now])),
    )


def _beside(path: Path, comparison: Comparison, side: str) -> Path | None:
    relative = comparison.baseline_path if side == "baseline" else comparison.candidate_path
    return None if relative is None else Path(os.path.normpath(path.parent / relative))


def _side(
    side: str, run: RunReference, named: Path | None, beside: Path | None
) -> tuple[Pack | None, str, str]:
    """Open the pack of one side: pack, its path, and a sentence where it is not at hand."""
    absent = f"The evidence of the {side} is not at hand, so its steps are not shown; --{side} names it."
    place = named or beside
    if place is None or (named is None and not place.exists()):
        return None, "", absent
    try:
        pack = open_to_show(place)
    except AgentEvalError:
        if named is not None:
            raise
        return None, "", absent
    if pack.manifest_sha256 == run.manifest_sha256:
        return pack, str(place), ""
    if named is None:
        return None, "", absent
    raise InvalidInput(
        f"{place} is not the {side} that was compared",
        remedy=f"Name the pack of run {run.run_id[:200]!r} with --{side}.",
        file=str(place),
        field=side,
    )
