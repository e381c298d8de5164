"""An agent that goes round in circles."""

from __future__ import annotations

from collections import Counter

from pydantic import Field

from agent_eval.contracts import Case, Event, Trace, Verdict
from agent_eval.contracts.trace import TOOL_CALL, TOOL_RESULT
from agent_eval.errors import FailureKind
from agent_eval.judges.base import (
    EVIDENCE_LIMIT,
    BaseJudge,
    JudgeConfig,
    SoftJudgeConfig,
    clipped,
    listed,
    named,
    quoted,
)
from agent_eval.judges.matching.arguments import call_fingerprint, longest_repeat, message_fingerprint
from agent_eval.text.numbers import count


class LoopGuardConfig(JudgeConfig):
    """Where going on ends and a loop begins."""

    max_steps: int = Field(default=40, ge=1)
    """Events in the trace."""
    max_attempts: int = Field(default=3, ge=1)
    """Different values of `attempt`."""
    max_identical_assistant_messages: int = Field(default=3, ge=1)
    """Times the agent says the same, white space and letter case aside."""
    max_cycle_repeats: int = Field(default=3, ge=1)
    """Times in a row the same one or more tool calls come with the same arguments: A-B-A-B-A-B is 3."""
    max_cycle_length: int = Field(default=6, ge=1, le=50)
    """Calls in a cycle that is looked for."""


class LoopGuardJudge(BaseJudge[LoopGuardConfig]):
    """Finds too many steps or attempts, the same message again and again, and cycles of tool calls.

    Calls are compared as `retry_storm` does. The score is the share of the four limits kept.
    """

    judge_id = "loop_guard"
    Config = LoopGuardConfig

    def evaluate(self, case: Case, trace: Trace) -> Verdict:
        """See the class."""
        config, events = self.config, trace.events
        if not events:
            return self.error(case, "the trace has no events", FailureKind.MISSING_OUTPUT)
        problems: list[str] = []
        refs: list[int] = []
        if len(events) > config.max_steps:
            problems.append(f"the trace has {len(events)} events, more than {config.max_steps}")
        attempts = {event.attempt for event in events if event.attempt is not None}
        if len(attempts) > config.max_attempts:
            problems.append(f"{len(attempts)} attempts were made, more than {config.max_attempts}")
        for found, where in (self._cycle(events), self._same_message(events)):
            if found:
                problems.append(found)
                refs += where
        evidence = {"events": len(events), "attempts": len(attempts), "problems": problems}
        if problems:
            return self.failed(
                case,
                "; ".join(problems),
                FailureKind.LOOP,
                score=1 - len(problems) / 4,
                refs=refs,
                evidence=evidence,
            )
        return self.passed(case, f"no loop in {count(len(events), 'event')}", evidence=evidence)

    def _cycle(self, events: list[Event]) -> tuple[str, list[int]]:
        calls = [event for event in events if event.type == TOOL_CALL]
        prints = [call_fingerprint(event.tool or "", event.input) for event in calls]
        times, period, start = longest_repeat(prints, self.config.max_cycle_length)
        if times <= self.config.max_cycle_repeats:
            return "", []
        tools = listed(named(event.tool or "") for event in calls[start : start + period])
        what = "was called" if period == 1 else "were called"
        words = f"{tools} {what} {times} times in a row with the same arguments"
        return words, [event.idx for event in calls[start : start + times * period]]

    def _same_message(self, events: list[Event]) -> tuple[str, list[int]]:
        said = [
            (message_fingerprint(event.output), event)
            for event in events
            if event.is_agent and event.type not in (TOOL_CALL, TOOL_RESULT) and event.output is not None
        ]
        counts = Counter(text for text, _ in said if text)
        if not counts:
            return "", []
        text, times = counts.most_common(1)[0]
        if times <= self.config.max_identical_assistant_messages:
            return "", []
        where = [event for found, event in said if found == text]
        return f"the agent said {quoted(where[0].output)} {times} times", [event.idx for event in where]


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
