"""Gather what a decision by policy rests on from packs: counts, and what the job kept beside its own."""

from __future__ import annotations

from collections.abc import Sequence

from agent_eval.contracts import Comparison
from agent_eval.contracts.history import RunRecord
from agent_eval.contracts.registry import Waiver
from agent_eval.evidence.layout import HISTORY_USED
from agent_eval.evidence.reader import Pack
from agent_eval.gate.procedure import Material
from agent_eval.history.records import decode_used
from agent_eval.operations.counts import counts_of
from agent_eval.operations.packs import decision_in, listed_digests
from agent_eval.operations.reruns import read_reruns


def material_of_packs(
    candidate: Pack,
    baseline: Pack,
    comparison: Comparison,
    *,
    comparison_sha256: str,
    waivers: Sequence[Waiver] = (),
) -> Material:
    """Gather what there is to decide on.

    What a job ran again, and main's runs that it held the candidate against, are in the candidate's pack.
    They count where the job compared with the same baseline: with another one, the first run asks otherwise.

    Args:
        candidate: The pack that is decided on, verified.
        baseline: The pack that it was compared with, verified.
        comparison: Of both, as it follows from them.
        comparison_sha256: Digest of the file with the comparison.
        waivers: Waivers of the baseline.

    Raises:
        InvalidInput: A record is not the candidate's, or does not follow from the packs of its trials.
    """
    by_job = decision_in(candidate)
    is_same = by_job is not None and by_job.baseline_manifest_sha256 == baseline.manifest_sha256
    again = read_reruns(candidate) if is_same else None
    listed = listed_digests(candidate)
    digests = {"comparison_sha256": comparison_sha256}
    newest: RunRecord | None = None
    main: list[RunRecord] = []
    if is_same and HISTORY_USED in listed:
        source = f"{candidate.name}/{HISTORY_USED}"
        newest, main = decode_used(candidate.read(HISTORY_USED), source=source)
        digests["history_sha256"] = listed[HISTORY_USED]
    if again is not None:
        digests["reruns_sha256"] = again.sha256
    return Material(
        run=comparison.candidate,
        comparison=comparison,
        counts=counts_of(candidate, baseline, main=main, newest=newest),
        reruns=again.record if again is not None else None,
        waivers=waivers,
        seed=candidate.config.git_commit or "",
        may_rerun=again is not None,
        is_recorded=is_recorded(candidate),
        digests=digests,
    )


def is_recorded(pack: Pack) -> bool:
    """Whether a pack judges recorded traces, and no agent ran for it."""
    return pack.config.execution_config.agent is None
