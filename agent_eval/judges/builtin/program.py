"""Judges that run a program: `command` for any program, `lean` for a proof checker.

The program reads one JSON value from standard input and writes one JSON object to standard output:

    $ my-checker <<< '{"theorem": "…"}'
    {"passed": false, "reason": "the proof has a gap in step 3", "evidence": {"step": 3}}

`passed` is required. `reason` is one sentence, `score` a number from 0 to 1, `evidence` any JSON,
`evidence_refs` a list of event indices. `outcome` may say `inconclusive` or `skipped`, which `passed`
cannot express. Anything else (another exit code, other output, a limit exceeded) is an error verdict.
"""

from __future__ import annotations

import os
from typing import Any, Literal

import orjson
from pydantic import BaseModel, ConfigDict, Field, StrictBool, StrictInt, StrictStr, ValidationError
from typing_extensions import override

from agent_eval.contracts import SCHEMA_VERSION, Case, Outcome, Trace, Verdict
from agent_eval.contracts.verdict import WITHOUT_VERDICT
from agent_eval.errors import FailureKind, NotEvaluable
from agent_eval.evidence.rows import first_problem
from agent_eval.judges.base import BaseJudge, ConfigT, JudgeConfig, Support, build_verdict, clipped, quoted
from agent_eval.judges.code import CodePlace
from agent_eval.judges.reading import UnreadableText, read_text
from agent_eval.processes.child import ChildLimits, ChildResult, allowed_environment, run_child
from agent_eval.text.escape import last_line


class ProgramConfig(JudgeConfig):
    """How to run the program. Its environment has the variables that every program needs, and `env`."""

    timeout_seconds: float = Field(default=30.0, gt=0, le=86_400)
    """Wall time for one case."""
    max_output_bytes: int = Field(default=262_144, ge=2, le=1 << 30)
    """Maximum size of standard output, and of standard error."""
    env: list[str] = Field(default_factory=list)
    """Names of further environment variables to pass to the program."""


class CommandConfig(ProgramConfig):
    """The program that judges, and how to run it."""

    command: list[str] = Field(min_length=1)
    """The program and its arguments; no shell is involved."""


class LeanConfig(ProgramConfig):
    """The checker, and how to run it."""

    command: list[str] | None = Field(default=None, min_length=1)
    """The program and its arguments; no shell is involved. Without it every case is skipped."""


class ProgramJudge(BaseJudge[ConfigT]):
    """Base of judges that run a program: `CommandJudge` and `LeanJudge` are examples."""

    runs_commands = True
    """The catalog never builds such a judge from the configuration in an evidence pack."""
    place: CodePlace | None = None
    """Where its command runs, and what is taken from there; None for the working directory."""

    def ask(self, case: Case, command: list[str], payload: Any, config: ProgramConfig) -> Verdict:
        """Run the program on a payload and turn its answer into a verdict."""
        place = self.place or CodePlace.of_directory(None)
        try:
            result = run_child(
                [place.moved(word) for word in command],
                cwd=place.directory,
                stdin=orjson.dumps(payload),
                env=allowed_environment(os.environ, config.env),
                limits=ChildLimits(
                    seconds=config.timeout_seconds,
                    stdout_bytes=config.max_output_bytes,
                    stderr_bytes=config.max_output_bytes,
                ),
            )
        except NotEvaluable as error:
            return self._no_verdict(case, f"the checker could not be run: {error.message}")
        if result.failure in (FailureKind.TIMEOUT, FailureKind.OUTPUT_LIMIT):
            return self._no_verdict(case, f"the checker {result.problem}", result, result.failure)
        if result.failure is not None:
            problem = f"the checker {result.problem}{last_line(result.stderr, limit=200)}"
            return self._no_verdict(case, problem, result)
        try:
            answer = _read(result.stdout)
        except UnreadableText as error:
            return self._no_verdict(case, f"the checker's answer {error}", result)
        if answer.outcome is not None and (answer.outcome == "passed") != answer.passed:
            words = f"the checker's answer says passed={quoted(answer.passed)} and outcome={answer.outcome}"
            return self._no_verdict(case, words)
        evidence = {} if answer.evidence is None else {"evidence": answer.evidence}
        evidence = answer.evidence if isinstance(answer.evidence, dict) else evidence
        outcome = Outcome(answer.outcome or ("passed" if answer.passed else "failed"))
        reason = clipped(" ".join(answer.reason.split())) or f"the checker says {outcome.value}"
        if outcome is Outcome.SKIPPED:
            return self.skipped(case, reason)
        score = {Outcome.PASSED: 1.0, Outcome.FAILED: 0.0}.get(outcome)
        failure = FailureKind.CONTRACT_VIOLATION if outcome is Outcome.FAILED else None
        support: Support = {"refs": answer.evidence_refs, "evidence": evidence}
        support["score"] = score if answer.score is None else answer.score
        return build_verdict(self, case, outcome, reason, failure, **support)

    def _no_verdict(
        self,
        case: Case,
        problem: str,
        result: ChildResult | None = None,
        failure: FailureKind = FailureKind.JUDGE_ERROR,
    ) -> Verdict:
        """Build the verdict where the program gave none."""
        how = problem.replace("the checker's answer ", "gave an answer that ", 1).removeprefix("the checker ")
        evidence = {WITHOUT_VERDICT: clipped(how)}
        if result is not None and (text := result.stderr.decode("utf-8", "replace").strip()):
            evidence["stderr"] = text[-_STDERR_LIMIT:]
        return self.error(case, problem, failure, evidence=evidence)


class CommandJudge(ProgramJudge[CommandConfig]):
    """Gives each case with its trace to a program; the module's docstring has the program's answer.

    Standard input is `{"schema_version", "judge_id", "case", "final_output"}`: the case with its trace
    as in the suite, and the agent's last message (null if it sent none).
    """

    judge_id = "command"
    Config = CommandConfig

    @override
    def evaluate(self, case: Case, trace: Trace) -> Verdict:
        payload = {
            "schema_version": SCHEMA_VERSION,
            "judge_id": self.judge_id,
            "case": {**case.to_json(), "trace": [event.to_json() for event in trace.events]},
            "final_output": trace.final_output,
        }
        return self.ask(case, self.config.command, payload, self.config)


class LeanJudge(ProgramJudge[LeanConfig]):
    """Gives the case's `metadata.lean_payload` to a checker; the module's docstring has its answer.

    A case without a payload is skipped.
    """

    judge_id = "lean"
    reads = frozenset({"metadata.lean_payload"})
    Config = LeanConfig

    @override
    def evaluate(self, case: Case, trace: Trace) -> Verdict:
        payload = case.metadata.get("lean_payload")
        if payload is None:
            return self.skipped(case, "the case's metadata has no lean_payload")
        if self.config.command is None:
            return self.skipped(case, "no checker is configured (lean.command)")
        return self.ask(case, self.config.command, payload, self.config)


_STDERR_LIMIT = 500
"""Characters of standard error that a verdict keeps, from its end."""


class _Answer(BaseModel):
    model_config = ConfigDict(extra="ignore", allow_inf_nan=False)

    passed: StrictBool
    reason: StrictStr = ""
    score: float | None = Field(default=None, ge=0, le=1, strict=True)
    evidence: Any = None
    evidence_refs: list[StrictInt] = Field(default_factory=list)
    outcome: Literal["passed", "failed", "inconclusive", "skipped"] | None = None


def _read(stdout: bytes) -> _Answer:
    """Parse the answer that a program printed; UnreadableText follows "the checker's answer"."""
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
        raise UnreadableText(f"is malformed: {clipped(first_problem(problem), 160)}") from None
