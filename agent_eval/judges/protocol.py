"""What a judge is, and a base class that makes writing one short.

    class NoApologies(BaseJudge[JudgeConfig]):
        judge_id = "no_apologies"
        Config = JudgeConfig

        def evaluate(self, case: Case, trace: Trace) -> Verdict:
            if "sorry" in str(trace.final_output).lower():
                return self.failed(case, "the final output apologises", FailureKind.POLICY_VIOLATION)
            return self.passed(case, "the final output does not apologise")

It is used as `--judge my_module:NoApologies`, or by name through the entry point group
`agent_eval.judges`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Generic, Protocol, TypeVar, runtime_checkable

from pydantic import BaseModel, ConfigDict, Field

from agent_eval.contracts import Case, Outcome, Trace, Verdict
from agent_eval.errors import FailureKind
from agent_eval.judges.wording import EVIDENCE_LIMIT, clipped


@runtime_checkable
class Judge(Protocol):
    """Scores one case. Holds no state between cases and reads only its arguments.

    `judge_id` names it in verdicts and file names; `hard` says whether a failed or error verdict is a
    hard fail.
    """

    judge_id: str
    hard: bool

    def evaluate(self, case: Case, trace: Trace) -> Verdict:
        """Say what was found, in a verdict with this judge's id and the case's id."""
        ...


class JudgeConfig(BaseModel):
    """What every judge can be told. Judges with more to tell derive from it; unknown keys are errors."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True, allow_inf_nan=False)

    hard: bool = True
    """Whether a failed or error verdict is a hard fail."""
    weight: float = Field(default=1.0, ge=0, le=1_000_000)
    """What the judge's verdict counts in the case's score, against those of the others; 0: nothing. It
    changes no outcome."""
    category: str | None = Field(default=None, min_length=1, max_length=100)
    """What the verdict is about, such as `safety`: a word of one's own, for who reads the evidence."""


class SoftJudgeConfig(JudgeConfig):
    """For judges whose failure is a warning sign rather than a wrong result."""

    hard: bool = False
    """Whether a failed or error verdict is a hard fail."""


ConfigT = TypeVar("ConfigT", bound=JudgeConfig)


class BaseJudge(Generic[ConfigT]):
    """A judge with a typed configuration and short ways to build its verdicts.

    Subclasses set `judge_id` and define `evaluate`; those with more to configure than `JudgeConfig` set
    `Config` to a model derived from it.
    """

    judge_id: str = ""
    Config: type[ConfigT] = JudgeConfig  # type: ignore[assignment]  # for those that bind no type

    def __init__(self, config: ConfigT | None = None) -> None:
        if not (isinstance(self.Config, type) and issubclass(self.Config, JudgeConfig)):
            raise TypeError("its Config does not derive from agent_eval.judges.JudgeConfig")
        self.config: ConfigT = self.Config() if config is None else config
        self.hard: bool = self.config.hard

    def check_case(self, case: Case) -> None:
        """Refuse a case this judge could never judge, before anything runs.

        Raises:
            InvalidInput: With `case_id` and `field`.
        """

    def passed(
        self,
        case: Case,
        reason: str,
        *,
        score: float | None = 1.0,
        refs: Iterable[int] = (),
        evidence: Mapping[str, Any] | None = None,
    ) -> Verdict:
        """The case is right in this judge's eyes."""
        return self._verdict(case, Outcome.PASSED, reason, None, score, refs, evidence)

    def failed(
        self,
        case: Case,
        reason: str,
        failure: FailureKind,
        *,
        score: float | None = 0.0,
        refs: Iterable[int] = (),
        evidence: Mapping[str, Any] | None = None,
    ) -> Verdict:
        """The case is wrong; `reason` is one sentence a reviewer can act on."""
        return self._verdict(case, Outcome.FAILED, reason, failure, score, refs, evidence)

    def error(
        self,
        case: Case,
        reason: str,
        failure: FailureKind = FailureKind.JUDGE_ERROR,
        *,
        refs: Iterable[int] = (),
        evidence: Mapping[str, Any] | None = None,
    ) -> Verdict:
        """The case could not be judged. Never a pass."""
        return self._verdict(case, Outcome.ERROR, reason, failure, None, refs, evidence)

    def inconclusive(
        self,
        case: Case,
        reason: str,
        *,
        score: float | None = None,
        refs: Iterable[int] = (),
        evidence: Mapping[str, Any] | None = None,
    ) -> Verdict:
        """The judge looked and could not tell. Never a pass."""
        return self._verdict(case, Outcome.INCONCLUSIVE, reason, None, score, refs, evidence)

    def skipped(self, case: Case, reason: str) -> Verdict:
        """There is nothing to judge: the judge is not configured for this case."""
        return self._verdict(case, Outcome.SKIPPED, reason, None, None, (), None)

    def _verdict(
        self,
        case: Case,
        outcome: Outcome,
        reason: str,
        failure: FailureKind | None,
        score: float | None,
        refs: Iterable[int],
        evidence: Mapping[str, Any] | None,
    ) -> Verdict:
        return Verdict(
            judge_id=self.judge_id,
            case_id=case.case_id,
            outcome=outcome,
            passed=outcome is Outcome.PASSED,
            score=score,
            reason=clipped(reason),
            hard=self.hard,
            failure=failure,
            evidence_refs=sorted(set(refs))[:EVIDENCE_LIMIT] if refs else [],
            evidence=dict(evidence) if evidence else {},
            weight=self.config.weight,
            category=self.config.category,
        )
