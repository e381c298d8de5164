"""The `recorded` judge: what a benchmark or another evaluation said of the run that was imported."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pydantic import Field, StrictStr
from typing_extensions import override

from agent_eval.contracts import Case, Trace, Verdict
from agent_eval.errors import FailureKind
from agent_eval.judges.base import EVIDENCE_LIMIT, BaseJudge, JudgeConfig, clipped, listed, quoted
from agent_eval.judges.reading import refusal
from agent_eval.text.numbers import count

FIELD = "recorded_verdicts"
"""Member of a case's metadata, and of a trial's: verdicts by name, each with `passed` and `score`."""


class RecordedConfig(JudgeConfig):
    """Which recorded verdicts count.

    Attributes:
        names: Names of the verdicts that count; all of them without any.
        min_score: Score from which a verdict passes that says neither; without it, it is inconclusive.
    """

    names: list[StrictStr] = Field(default_factory=list)
    min_score: float | None = Field(default=None, allow_inf_nan=False)


class RecordedJudge(BaseJudge[RecordedConfig]):
    """Passes where each verdict passed that was recorded with the run, in `metadata.recorded_verdicts`.

    Importers write these: rewards of benchmarks, scores of other evaluation frameworks. The score is the
    share of those that passed. A verdict that has a score only is inconclusive, unless `min_score` is set.
    """

    judge_id = "recorded"
    reads = frozenset({"metadata.recorded_verdicts"})
    needs_all = False
    Config = RecordedConfig

    @override
    def check_case(self, case: Case) -> None:
        _verdicts(case)

    @override
    def evaluate(self, case: Case, trace: Trace) -> Verdict:
        verdicts = _verdicts(case)
        wanted = self.config.names or list(verdicts)
        missing = [name for name in wanted if name not in verdicts]
        if not wanted:
            return self.skipped(case, f"the case's metadata has no {FIELD}")
        if missing:
            return self.skipped(case, f"no verdict was recorded as {listed(map(quoted, missing), limit=3)}")
        results = {name: self._passed(verdicts[name]) for name in wanted}
        evidence = {name: _clipped(verdicts[name]) for name in wanted[:EVIDENCE_LIMIT]}
        share = sum(passed is True for passed in results.values()) / len(results)
        failed = [name for name, passed in results.items() if passed is False]
        if failed:
            reason = f"recorded as not passed: {listed(map(quoted, failed), limit=3)}"
            kind = FailureKind.CONTRACT_VIOLATION
            return self.failed(case, reason, kind, score=share, evidence=evidence)
        open_ones = [name for name, passed in results.items() if passed is None]
        if open_ones:
            reason = f"only a score was recorded of {listed(map(quoted, open_ones), limit=3)}; set min_score"
            return self.inconclusive(case, reason, evidence=evidence)
        reason = f"{count(len(results), 'recorded verdict')} passed"
        return self.passed(case, reason, evidence=evidence)

    def _passed(self, verdict: Mapping[str, Any]) -> bool | None:
        passed, score = verdict.get("passed"), verdict.get("score")
        if isinstance(passed, bool):
            return passed
        if self.config.min_score is None or not isinstance(score, int | float):
            return None
        return score >= self.config.min_score


def _clipped(verdict: Mapping[str, Any]) -> dict[str, Any]:
    explanation = verdict.get("explanation")
    facts = {name: verdict[name] for name in ("passed", "score") if name in verdict}
    return facts | ({"explanation": clipped(explanation, 1000)} if isinstance(explanation, str) else {})


def _verdicts(case: Case) -> Mapping[str, Mapping[str, Any]]:
    stated = case.metadata.get(FIELD)
    if stated is None:
        return {}
    if isinstance(stated, dict) and all(isinstance(verdict, dict) for verdict in stated.values()):
        return stated
    field = f"metadata.{FIELD}"
    remedy = f'Write it as {{"NAME": {{"passed": true, "score": 1.0}}}}, or remove {field}.'
    raise refusal(case.case_id, field, f"{field} is no object of verdicts", remedy)
