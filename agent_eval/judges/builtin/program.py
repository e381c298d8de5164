"""Judges that are programs: one JSON value on standard input, one JSON object on standard output.

    $ my-checker <<< '{"theorem": "…"}'
    {"passed": false, "reason": "the proof has a gap in step 3", "evidence": {"step": 3}}

`passed` is required. `reason` is one sentence, `score` a number from 0 to 1, `evidence` any JSON,
`evidence_refs` a list of event indices; `outcome` may be `inconclusive` or `skipped` instead of what
`passed` says. Anything else (another exit code, other output, too slow, too much) is an error verdict.
"""

from __future__ import annotations

import os
from typing import Any, Literal

import orjson
from pydantic import BaseModel, ConfigDict, Field, StrictBool, StrictInt, StrictStr, ValidationError

from agent_eval.contracts import SCHEMA_VERSION, Case, Trace, Verdict
from agent_eval.errors import FailureKind, NotEvaluable
from agent_eval.judges.base import BaseJudge, ConfigT, JudgeConfig, clipped, quoted
from agent_eval.judges.matching.arguments import UnreadableText, read_text
from agent_eval.processes.child import ChildLimits, ChildResult, allowed_environment, run_child

_STDERR_SHOWN = 500

_FAILURES = {
    FailureKind.TIMEOUT: FailureKind.TIMEOUT,
    FailureKind.OUTPUT_LIMIT: FailureKind.OUTPUT_LIMIT,
    FailureKind.INFRASTRUCTURE: FailureKind.INFRASTRUCTURE,
}


class ExternalConfig(JudgeConfig):
    """How the program is run. It gets the variables every program needs, and those named in `env`."""

    timeout_seconds: float = Field(default=30.0, gt=0, le=86_400)
    """Wall time for one case."""
    max_output_bytes: int = Field(default=262_144, ge=2, le=1 << 30)
    """What it may write to standard output, and to standard error."""
    env: list[str] = Field(default_factory=list)
    """Names of further environment variables that it gets."""


class _Answer(BaseModel):
    model_config = ConfigDict(extra="ignore", allow_inf_nan=False)

    passed: StrictBool
    reason: StrictStr = ""
    score: float | None = Field(default=None, ge=0, le=1, strict=True)
    evidence: Any = None
    evidence_refs: list[StrictInt] = Field(default_factory=list)
    outcome: Literal["passed", "failed", "inconclusive", "skipped"] | None = None


class ExternalJudge(BaseJudge[ConfigT]):
    """What `command` and `lean` share."""

    runs_commands = True
    """Such a judge is never built from the configuration in an evidence pack."""

    def ask(self, case: Case, command: list[str], payload: Any, config: ExternalConfig) -> Verdict:
        """Run the program on a payload and turn its answer into a verdict."""
        try:
            result = run_child(
                command,
                stdin=orjson.dumps(payload),
                env=allowed_environment(os.environ, config.env),
                limits=ChildLimits(
                    seconds=config.timeout_seconds,
                    stdout_bytes=config.max_output_bytes,
                    stderr_bytes=config.max_output_bytes,
                ),
            )
        except NotEvaluable as problem:
            return self.error(case, f"the checker could not be run: {problem.message}")
        if result.failure is not None:
            failure = _FAILURES.get(result.failure, FailureKind.JUDGE_ERROR)
            return self.error(case, f"the checker {result.problem}", failure, evidence=_stderr(result))
        try:
            answer = _read(result.stdout)
        except UnreadableText as problem:
            return self.error(case, f"the checker's answer {problem}", evidence=_stderr(result))
        return self._judged(case, answer)

    def _judged(self, case: Case, answer: _Answer) -> Verdict:
        if answer.outcome is not None and (answer.outcome == "passed") != answer.passed:
            words = f"the checker's answer says passed={quoted(answer.passed)} and outcome={answer.outcome}"
            return self.error(case, words)
        evidence = answer.evidence if isinstance(answer.evidence, dict) else {"evidence": answer.evidence}
        shown: dict[str, Any] = {
            "refs": answer.evidence_refs,
            "evidence": {} if answer.evidence is None else evidence,
        }
        outcome = answer.outcome or ("passed" if answer.passed else "failed")
        reason = clipped(" ".join(answer.reason.split())) or f"the checker says {outcome}"
        if outcome == "passed":
            return self.passed(case, reason, score=1.0 if answer.score is None else answer.score, **shown)
        if outcome == "inconclusive":
            return self.inconclusive(case, reason, score=answer.score, **shown)
        if outcome == "skipped":
            return self.skipped(case, reason)
        score = 0.0 if answer.score is None else answer.score
        return self.failed(case, reason, FailureKind.CONTRACT_VIOLATION, score=score, **shown)


def _read(stdout: bytes) -> _Answer:
    """The answer a program printed.

    Raises:
        UnreadableText: Says why, as words that follow "the checker's answer".
    """
    try:
        value = read_text(stdout.decode("utf-8"), "the answer")
    except UnicodeDecodeError:
        raise UnreadableText("is not UTF-8") from None
    except UnreadableText as problem:
        raise UnreadableText(f"is not JSON: {problem}") from None
    if not isinstance(value, dict):
        raise UnreadableText("is not a JSON object")
    try:
        return _Answer.model_validate(value)
    except ValidationError as problem:
        first = problem.errors(include_url=False, include_context=False)[0]
        field = ".".join(str(part) for part in first["loc"])
        raise UnreadableText(f"is malformed: {field}: {clipped(first['msg'], 120)}") from None


def _stderr(result: ChildResult) -> dict[str, Any]:
    text = result.stderr.decode("utf-8", "replace").strip()
    return {"stderr": clipped(text[-_STDERR_SHOWN:], _STDERR_SHOWN)} if text else {}


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
