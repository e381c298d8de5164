"""The `strict` judge: evaluate a conversation by what its turns record of tools, parameters and rules."""

from __future__ import annotations

from typing import Any

from typing_extensions import override

from agent_eval.contracts import Case, Trace, Verdict
from agent_eval.contracts.turn_facts import facts_by_turn
from agent_eval.errors import FailureKind, InvalidInput
from agent_eval.judges.base import EVIDENCE_LIMIT, BaseJudge, EvaluationsConfig, clipped, listed, quoted
from agent_eval.judges.matching.attempts import failed_attempt
from agent_eval.judges.matching.strict import Hit, StrictEvaluation, StrictResult, check
from agent_eval.judges.reading import read_model
from agent_eval.text.numbers import count

FIELD = "strict"
"""Member of a case's metadata that lists its strict evaluations."""

_NOT_EVALUATED = frozenset(
    {
        FailureKind.INFRASTRUCTURE.value,
        FailureKind.ENVIRONMENT.value,
        FailureKind.TIMEOUT.value,
        FailureKind.SIMULATOR_ERROR.value,
    }
)
"""Failures of an attempt that say nothing of the agent."""


class StrictJudge(BaseJudge[EvaluationsConfig]):
    """Checks the strict evaluations that a case lists in `metadata.strict`, each by what the turns record.

    It fails if one of them fails, and is an error if one cannot be told from the trace. The score is the
    weighted share of those that pass. A conversation that ended because the agent could not be reached is
    skipped, because it says nothing of the agent.
    """

    judge_id = "strict"
    reads = frozenset({"metadata.strict"})
    Config = EvaluationsConfig

    @override
    def check_case(self, case: Case) -> None:
        _evaluations(case)

    @override
    def evaluate(self, case: Case, trace: Trace) -> Verdict:
        evaluations = _evaluations(case)
        if not evaluations:
            return self.skipped(case, f"the case's metadata has no evaluations in {FIELD}")
        failed_by = (failed_attempt(case) or {}).get("failure")
        if failed_by in _NOT_EVALUATED:
            return self.skipped(case, f"not evaluated: the attempt failed by {failed_by}")
        turns = facts_by_turn(trace)
        results = [check(evaluation, turns) for evaluation in evaluations]
        return self._verdict_on(case, evaluations, results)

    def _verdict_on(
        self, case: Case, evaluations: list[StrictEvaluation], results: list[StrictResult]
    ) -> Verdict:
        pairs = list(zip(evaluations, results, strict=True))
        total = sum(evaluation.weight for evaluation in evaluations)
        passed = sum(evaluation.weight for evaluation, result in pairs if result.outcome == "passed")
        evidence = {"evaluations": [_evidence(*pair) for pair in pairs]}
        failed = [pair for pair in pairs if pair[1].outcome == "failed"]
        undecided = [pair for pair in pairs if pair[1].outcome == "error"]
        reason = listed((_words(*pair) for pair in failed or undecided), limit=2)
        if failed:
            refs = [hit.event for _, result in failed for hit in result.hits if hit.event is not None]
            kind = FailureKind.CONTRACT_VIOLATION
            return self.failed(case, reason, kind, score=passed / total, refs=refs, evidence=evidence)
        if undecided:
            return self.error(case, reason, FailureKind.MISSING_OUTPUT, evidence=evidence)
        return self.passed(case, f"{count(len(pairs), 'strict evaluation')} passed", evidence=evidence)


def _evaluations(case: Case) -> list[StrictEvaluation]:
    """Read the evaluations of a case."""
    raw = case.metadata.get(FIELD)
    if raw is None:
        return []
    if not isinstance(raw, list) or not all(isinstance(item, dict) for item in raw):
        words = f"metadata.{FIELD} must be a list of objects, not {quoted(raw)}"
        raise _refusal(case, words, 'Write it as [{"strict": "escalated"}, ...].')
    evaluations = [
        read_model(StrictEvaluation, item, case=case, field=f"metadata.{FIELD}[{position}]")
        for position, item in enumerate(raw)
    ]
    if evaluations and not any(evaluation.weight for evaluation in evaluations):
        words = f"every weight in metadata.{FIELD} is 0"
        raise _refusal(case, words, "Give one of them a weight, or remove them.")
    return evaluations


def _refusal(case: Case, words: str, remedy: str) -> InvalidInput:
    return InvalidInput(
        f"case {quoted(case.case_id)}: {words}",
        remedy=remedy,
        case_id=case.case_id,
        field=f"metadata.{FIELD}",
    )


def _words(evaluation: StrictEvaluation, result: StrictResult) -> str:
    return clipped(f"{evaluation.strict}: {result.reason}", 140)


def _evidence(evaluation: StrictEvaluation, result: StrictResult) -> dict[str, Any]:
    """Describe one evaluation for readers of the evidence, turn by turn."""
    described = evaluation.model_dump(exclude_unset=True)
    outcome = {"outcome": result.outcome, "reason": clipped(result.reason)}
    turns = [_turn(hit, counts=True) for hit in result.hits] + [_turn(near) for near in result.near]
    warnings = {"warnings": list(result.warnings)} if result.warnings else {}
    return {**described, **outcome, "turns": turns[:EVIDENCE_LIMIT], **warnings}


def _turn(hit: Hit, *, counts: bool = False) -> dict[str, Any]:
    is_short = hit.value is None or isinstance(hit.value, bool | int | float)
    value = (
        hit.value
        if is_short
        else clipped(hit.value if isinstance(hit.value, str) else quoted(hit.value, 200), 200)
    )
    return {"turn": hit.turn, "event": hit.event, "value": value, "counts": counts}
