"""A run as comparison sees it: plain values that somebody else has read and verified."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from agent_eval.contracts import CaseIndexRow, CaseResultRow, RunConfig, RunReference, RunSummary


@dataclass(frozen=True)
class RunView:
    """One run.

    Args:
        config: What was run.
        summary: The aggregate; `compare` refuses one that its verdicts contradict.
        manifest_sha256: Digest of the sealed pack's manifest; None for a run that is not sealed.
        index: Case id to the case's index row.
        results: Case id to the case's verdicts; the same ids as `index`.
    """

    config: RunConfig
    summary: RunSummary
    manifest_sha256: str | None
    index: Mapping[str, CaseIndexRow]
    results: Mapping[str, CaseResultRow]

    # Both may make a row for each look-up: go through them, do not collect them.

    def reference(self) -> RunReference:
        """How a comparison and a decision name this run."""
        return RunReference(
            run_id=self.config.run_id,
            dataset_id=self.config.dataset_id,
            manifest_sha256=self.manifest_sha256,
            agent_version=self.config.agent_version,
            model=self.config.model,
            git_commit=self.config.git_commit,
            started_at=self.config.started_at,
            summary=self.summary,
        )
