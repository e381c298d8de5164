"""Judges of repetition: `loop_guard` for steps, messages and cycles, `retry_storm` for repeated calls."""

from __future__ import annotations

import json
from collections.abc import Sequence
from contextlib import suppress
from typing import Any, NamedTuple

from pydantic import Field
from typing_extensions import override

from agent_eval.contracts import Case, Event, Trace, Verdict
from agent_eval.contracts.trace import TOOL_CALL
from agent_eval.errors import FailureKind
from agent_eval.judges.base import (
    EVIDENCE_LIMIT,
    BaseJudge,
    JudgeConfig,
    SoftJudgeConfig,
    clipped,
    display_name,
    listed,
    quoted,
)
from agent_eval.judges.reading import UnreadableText, read_text
from agent_eval.text.numbers import count


class LoopGuardConfig(JudgeConfig):
    """Limits beyond which repetition counts as a loop."""

    max_steps: int = Field(default=40, ge=1)
    """Maximum number of events in the trace."""
    max_attempts: int = Field(default=3, ge=1)
    """Maximum number of different values of `attempt`."""
    max_identical_assistant_messages: int = Field(default=3, ge=1)
    """Maximum number of times the agent sends one message, ignoring white space and letter case."""
    max_cycle_repeats: int = Field(default=3, ge=1)
    """Maximum number of times in a row that calls come with the same arguments: A-B-A-B-A-B is 3."""
    max_cycle_length: int = Field(default=6, ge=1, le=50)
    """Maximum number of calls in one cycle; longer cycles are not searched for."""


class LoopGuardJudge(BaseJudge[LoopGuardConfig]):
    """Limits steps, attempts, repeated messages and cycles of tool calls.

    Calls are compared as in `RetryStormJudge`. The score is the share of the four limits kept.
    """

    judge_id = "loop_guard"
    reads = frozenset()
    Config = LoopGuardConfig

    @override
    def evaluate(self, case: Case, trace: Trace) -> Verdict:
        config, events = self.config, trace.events
        if nothing_done := self.nothing_done(case, trace):
            return nothing_done
        problems: list[str] = []
        refs: list[int] = []
        if len(events) > config.max_steps:
            problems.append(f"the trace has {len(events)} events, more than {config.max_steps}")
        attempts = {event.attempt for event in events if event.attempt is not None}
        if len(attempts) > config.max_attempts:
            problems.append(f"{len(attempts)} attempts were made, more than {config.max_attempts}")
        calls = [event for event in events if event.type == TOOL_CALL]
        fingerprints = [call_fingerprint(event.tool or "", event.input) for event in calls]
        times, period, start = longest_repeat(fingerprints, config.max_cycle_length)
        if times > config.max_cycle_repeats:
            tools = listed(display_name(event.tool or "") for event in calls[start : start + period])
            verb = "was called" if period == 1 else "were called"
            problems.append(f"{tools} {verb} {times} times in a row with the same arguments")
            refs += [event.idx for event in calls[start : start + times * period]]
        by_text: dict[str, list[Event]] = {}
        for event in events:
            if event.is_message and event.content is not None and (text := _message(event.content)):
                by_text.setdefault(text, []).append(event)
        repeats = max(by_text.values(), key=len, default=[])
        if len(repeats) > config.max_identical_assistant_messages:
            problems.append(f"the agent said {quoted(repeats[0].content)} {len(repeats)} times")
            refs += [event.idx for event in repeats]
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


class RetryStormConfig(SoftJudgeConfig):
    """Limits on repeated calls."""

    max_retries_per_call: int = Field(default=2, ge=0)
    """Maximum repeats of one call (same tool, same arguments); 2 allows three calls in all."""
    max_total_retries: int = Field(default=6, ge=0)
    """Maximum repeats of all calls together."""


class RetryStormJudge(BaseJudge[RetryStormConfig]):
    """Counts repeats of tool calls with the same arguments, whether or not they failed.

    Arguments count as the same whatever their order, white space, or number format (1 and 1.0), and
    whether recorded as an object or as its JSON text. A trace without tool calls is skipped. The score is
    the share of the two limits kept.
    """

    judge_id = "retry_storm"
    reads = frozenset()
    Config = RetryStormConfig

    @override
    def evaluate(self, case: Case, trace: Trace) -> Verdict:
        groups: dict[str, list[_Call]] = {}
        for pair in trace.calls:
            if pair.call is not None:
                key = call_fingerprint(pair.tool, pair.arguments)
                groups.setdefault(key, []).append(_Call(pair.call.idx, pair.tool, pair.error is not None))
        if not groups:
            return self.skipped(case, "the trace has no tool calls")
        total = sum(len(calls) - 1 for calls in groups.values())
        storms = [calls for calls in groups.values() if len(calls) - 1 > self.config.max_retries_per_call]
        too_many = total > self.config.max_total_retries
        repeated = sorted(
            (calls for calls in groups.values() if len(calls) > 1),
            key=lambda calls: (-len(calls), calls[0].idx),
        )[:EVIDENCE_LIMIT]
        described = [
            {
                "tool": clipped(calls[0].tool, 200),
                "times": len(calls),
                "errors": sum(call.failed for call in calls),
                "events": [call.idx for call in calls[:EVIDENCE_LIMIT]],
            }
            for calls in repeated
        ]
        evidence = {"total_retries": total, "repeated": described}
        if not storms and not too_many:
            return self.passed(case, f"{count(total, 'repeated tool call')}", evidence=evidence)
        words = []
        if storms:
            worst = max(storms, key=len)
            errors = sum(call.failed for call in worst)
            words.append(
                f"{display_name(worst[0].tool)} was called {len(worst)} times with the same arguments"
                f" ({count(errors, 'error')}; allowed are {self.config.max_retries_per_call + 1})"
            )
        if too_many:
            words.append(f"{total} repeated calls in all exceed {self.config.max_total_retries}")
        refs = [call.idx for calls in storms or repeated for call in calls[1:]]
        return self.failed(
            case,
            "; ".join(words),
            FailureKind.LOOP,
            score=1 - (bool(storms) + too_many) / 2,
            refs=refs,
            evidence=evidence,
        )


class _Call(NamedTuple):
    idx: int
    tool: str
    failed: bool


def call_fingerprint(tool: str, arguments: Any) -> str:
    """Return a text that is equal for calls with the same tool and arguments, as `RetryStormJudge` says."""
    if isinstance(arguments, str):
        with suppress(UnreadableText):
            arguments = read_text(arguments, "arguments")
    return f"{tool} {json.dumps(_normalize(arguments), sort_keys=True)}"


def _message(output: Any) -> str:
    """Return a text that is equal for messages that differ only in white space and letter case."""
    if isinstance(output, str):
        return " ".join(output.split()).casefold()
    return json.dumps(_normalize(output), sort_keys=True)


def longest_repeat(items: Sequence[str], max_period: int) -> tuple[int, int, int]:
    """Find the block of at most `max_period` items that repeats most often in a row.

    Returns (times, period, start): how often the block comes, its length and the position of its first item.
    Among equals the shortest block, then the first. (0, 0, 0) for no items.

    Example:
        >>> longest_repeat("xababab", max_period=3)
        (3, 2, 1)
    """
    best = (1, 1, 0) if items else (0, 0, 0)
    for period in range(1, min(max_period, len(items) // 2) + 1):
        run = 0
        for position in range(period, len(items)):
            run = run + 1 if items[position] == items[position - period] else 0
            times = run // period + 1
            if times > best[0]:
                best = (times, period, position - run - period + 1)
    return best


def _normalize(value: Any) -> Any:
    if isinstance(value, str):
        return " ".join(value.split())
    if isinstance(value, dict):
        return {_normalize(key): _normalize(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_normalize(item) for item in value]
    if isinstance(value, float) and value.is_integer():
        return int(value)
    return value
