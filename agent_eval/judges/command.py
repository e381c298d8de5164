"""A judge of your own, in any language, as a program."""

from __future__ import annotations

from pydantic import Field

from agent_eval.contracts import SCHEMA_VERSION, Case, Trace, Verdict
from agent_eval.judges.external import ExternalConfig, ExternalJudge


class CommandConfig(ExternalConfig):
    """Which program judges."""

    command: list[str] = Field(min_length=1)
    """The program and its arguments; no shell is involved."""


class CommandJudge(ExternalJudge[CommandConfig]):
    """Gives each case with its trace to a program; see `external` for what it answers.

    Standard input is `{"schema_version", "judge_id", "case", "final_output"}`: the case with its trace
    as in the suite, and what the agent said last (null when it said nothing).
    """

    judge_id = "command"
    Config = CommandConfig

    def evaluate(self, case: Case, trace: Trace) -> Verdict:
        """See the class."""
        payload = {
            "schema_version": SCHEMA_VERSION,
            "judge_id": self.judge_id,
            "case": {**case.to_json(), "trace": [event.to_json() for event in trace.events]},
            "final_output": trace.final_output,
        }
        return self.ask(case, self.config.command, payload, self.config)
