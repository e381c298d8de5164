"""The same tool call over and over."""

from __future__ import annotations

from pydantic import Field

from agent_eval.contracts import Case, Trace, Verdict
from agent_eval.errors import FailureKind
from agent_eval.judges.fingerprints import call_fingerprint
from agent_eval.judges.protocol import BaseJudge, SoftJudgeConfig
from agent_eval.judges.wording import EVIDENCE_LIMIT, clipped, named
from agent_eval.text.plurals import count


class RetryStormConfig(SoftJudgeConfig):
    """How many repeats are still patience."""

    max_retries_per_call: int = Field(default=2, ge=0)
    """Repeats of one call (same tool, same arguments); 2 allows it three times in all."""
    max_total_retries: int = Field(default=6, ge=0)
    """Repeats of all calls together."""


class RetryStormJudge(BaseJudge[RetryStormConfig]):
    """Counts repeats of tool calls with the same arguments, whether or not they failed.

    Arguments are the same whatever their order, white space, or number format (1 and 1.0), and whether
    recorded as an object or as its JSON text. Without tool calls it is skipped. The score is the share of
    the two limits kept.
    """

    judge_id = "retry_storm"
    Config = RetryStormConfig

    def evaluate(self, case: Case, trace: Trace) -> Verdict:
        """See the class."""
        groups: dict[str, list[tuple[int, str, bool]]] = {}
        for pair in trace.calls:
            if pair.call is not None:
                key = call_fingerprint(pair.tool, pair.arguments)
                groups.setdefault(key, []).append((pair.call.idx, pair.tool, pair.error is not None))
        if not groups:
            return self.skipped(case, "the trace has no tool calls")
        total = sum(len(calls) - 1 for calls in groups.values())
        storms = [calls for calls in groups.values() if len(calls) - 1 > self.config.max_retries_per_call]
        too_many = total > self.config.max_total_retries
        evidence = {"total_retries": total, "repeated": [_evidence(calls) for calls in _repeated(groups)]}
        if not storms and not too_many:
            return self.passed(case, f"{count(total, 'repeated tool call')}", evidence=evidence)
        words = []
        if storms:
            worst = max(storms, key=len)
            failed = sum(failed for _, _, failed in worst)
            words.append(
                f"{named(worst[0][1])} was called {len(worst)} times with the same arguments"
                f" ({count(failed, 'error')}; allowed are {self.config.max_retries_per_call + 1})"
            )
        if too_many:
            words.append(f"{total} repeated calls in all exceed {self.config.max_total_retries}")
        refs = [idx for calls in storms or _repeated(groups) for idx, _, _ in calls[1:]]
        return self.failed(
            case,
            "; ".join(words),
            FailureKind.LOOP,
            score=1 - (bool(storms) + too_many) / 2,
            refs=refs,
            evidence=evidence,
        )


def _repeated(groups: dict[str, list[tuple[int, str, bool]]]) -> list[list[tuple[int, str, bool]]]:
    repeated = [calls for calls in groups.values() if len(calls) > 1]
    return sorted(repeated, key=lambda calls: (-len(calls), calls[0][0]))[:EVIDENCE_LIMIT]


def _evidence(calls: list[tuple[int, str, bool]]) -> dict[str, object]:
    return {
        "tool": clipped(calls[0][1], 200),
        "times": len(calls),
        "errors": sum(failed for _, _, failed in calls),
        "events": [idx for idx, _, _ in calls[:EVIDENCE_LIMIT]],
    }
