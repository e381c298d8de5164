"""Let a case pass whose evaluations, strict ones and those by a model, reach a share of their weights."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from agent_eval.contracts import Outcome, Verdict
from agent_eval.judges.base import EvaluationsConfig, Judge, clipped

_LISTED_IN = ("evaluations", "criteria")
"""Members of a verdict's evidence that list evaluations."""


def with_threshold(judges: Sequence[Judge], verdicts: list[Verdict]) -> list[Verdict]:
    """Pass the failed verdicts of judges of evaluations where enough of these passed, by weight.

    The lowest `pass_threshold` of these judges counts. One that could not be decided did not pass, and errors
    stay errors.
    """
    configs = {judge.judge_id: getattr(judge, "config", None) for judge in judges}
    limits = {
        judge_id: config.pass_threshold
        for judge_id, config in configs.items()
        if isinstance(config, EvaluationsConfig)
    }
    limit = min(limits.values(), default=100.0)
    if limit >= 100:
        return verdicts
    share = _share([verdict for verdict in verdicts if verdict.judge_id in limits])
    if share is None or share < limit:
        return verdicts
    return [
        _passed(verdict, share, limit)
        if verdict.judge_id in limits and verdict.outcome is Outcome.FAILED
        else verdict
        for verdict in verdicts
    ]


def _share(verdicts: Sequence[Verdict]) -> float | None:
    """Return the share of passed evaluations by weight, from 0 to 100; None without any."""
    evaluations = [each for verdict in verdicts for each in _evaluations(verdict)]
    total = sum(each.get("weight", 1.0) for each in evaluations)
    passed = sum(each.get("weight", 1.0) for each in evaluations if each["outcome"] == "passed")
    return passed / total * 100 if total else None


def _evaluations(verdict: Verdict) -> Iterator[Mapping[str, Any]]:
    for member in _LISTED_IN:
        for each in verdict.evidence.get(member, ()):
            if not each.get("advisory"):
                yield each


def _passed(verdict: Verdict, share: float, limit: float) -> Verdict:
    reason = f"{share:.0f} % of the evaluations passed, and {limit:g} % suffice; {verdict.reason}"
    return verdict.model_copy(
        update={"outcome": Outcome.PASSED, "passed": True, "failure": None, "reason": clipped(reason)}
    )
