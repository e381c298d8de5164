"""A prover's checker, as a program: `lean_payload` in, whether it holds out."""

from __future__ import annotations

from pydantic import Field

from agent_eval.contracts import Case, Trace, Verdict
from agent_eval.judges.external import ExternalConfig, ExternalJudge


class LeanConfig(ExternalConfig):
    """Which checker is run."""

    command: list[str] | None = Field(default=None, min_length=1)
    """The program and its arguments; no shell is involved. Without it every case is skipped."""


class LeanJudge(ExternalJudge[LeanConfig]):
    """Gives the case's `metadata.lean_payload` to the configured checker; see `external` for the contract.

    Cases without a payload are skipped.
    """

    judge_id = "lean"
    Config = LeanConfig

    def evaluate(self, case: Case, trace: Trace) -> Verdict:  # noqa: ARG002
        """See the class."""
        payload = case.metadata.get("lean_payload")
        if payload is None:
            return self.skipped(case, "the case's metadata has no lean_payload")
        if self.config.command is None:
            return self.skipped(case, "no checker is configured (lean.command)")
        return self.ask(case, self.config.command, payload, self.config)
