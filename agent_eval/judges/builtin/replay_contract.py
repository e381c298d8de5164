"""The `replay_contract` judge: check that a trace is well formed. It always runs, before all others."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from datetime import datetime
from operator import itemgetter

from typing_extensions import override

from agent_eval.contracts import REPLAY_CONTRACT, Case, Event, Trace, Verdict
from agent_eval.contracts.trace import TOOL_CALL, TOOL_RESULT
from agent_eval.errors import FailureKind
from agent_eval.judges.base import EVIDENCE_LIMIT, NO_EVENTS, BaseJudge, JudgeConfig, quoted, stop_in_words
from agent_eval.judges.reading import attempt_failure
from agent_eval.text.numbers import count


class ReplayContractJudge(BaseJudge[JudgeConfig]):
    """Checks the form of every event, not what the agent did.

    Events are numbered from 0 without gaps; each has an actor and a type; a tool call names its tool;
    latencies are not negative; trace and span ids are hexadecimal of the right length, and span ids do
    not repeat; `ts`, if present, is ISO 8601; a `call_id` names one open call within an attempt
    (providers reuse the id of an answered call for a later one). A trace without events is an error,
    because an agent that recorded nothing cannot pass; so is one in which the agent did nothing, and one that
    ends in a crash: an error that is no answer of a tool, or a traceback that the agent left unanswered; or
    in an answer that was cut off, refused or blocked (`stop_reason`, `block_reason`, or the attribute
    `gen_ai.response.finish_reason`).
    """

    judge_id = REPLAY_CONTRACT
    reads = frozenset()
    needs_all = False

    @override
    def evaluate(self, case: Case, trace: Trace) -> Verdict:
        events = trace.events
        if not events:
            return self.error(case, NO_EVENTS, FailureKind.MISSING_OUTPUT)
        if issues := list(_issues(events)):
            first_idx, first_issue = issues[0]
            more = f" (and {count(len(issues) - 1, 'more issue')})" if len(issues) > 1 else ""
            broken_events = {idx for idx, _ in issues}
            described = [{"event": idx, "issue": text} for idx, text in issues[:EVIDENCE_LIMIT]]
            return self.failed(
                case,
                f"event {first_idx}: {first_issue}{more}",
                FailureKind.CONTRACT_VIOLATION,
                score=max(0.0, 1 - len(broken_events) / len(events)),
                refs=broken_events,
                evidence={"issues": described, "issue_count": len(issues)},
            )
        # Where a run recorded how its attempt failed, the `execution` judge says so.
        crash, is_told = _last_crash(events), attempt_failure(case) is not None
        if crash is not None and not is_told:
            error = crash.error or crash.content or crash.type
            words = f"the run ended in an error (event {crash.idx}): {quoted(error, 160)}"
            return self.error(case, words, FailureKind.AGENT_ERROR, refs=[crash.idx])
        if crash is None and trace.stopped is not None and not is_told:
            failure, words = stop_in_words(trace.stopped)
            return self.error(case, words, failure, refs=[trace.stopped.idx])
        nothing_done = self.nothing_done(case, trace) if crash is None else None
        return nothing_done or self.passed(case, "the trace is well formed")


_TRACEBACK = "Traceback (most recent call last)"
_CRASH_TYPES = frozenset({"crash", "crashed", "error", "exception", "traceback"})


def _last_crash(events: list[Event]) -> Event | None:
    """Return the crash in which a run ended; None without one, and if the agent went on after it."""
    for event in reversed(events):
        # A tool's error is an answer, but a traceback that is its last word shows that the run broke off.
        is_crash = event.type != TOOL_RESULT and (event.error or event.type.lower() in _CRASH_TYPES)
        if not is_crash and not event.is_agent:
            text = event.error or event.content
            is_crash = isinstance(text, str) and text.lstrip().startswith(_TRACEBACK)
        if is_crash and event.type != TOOL_CALL:
            return event
        if event.is_act:
            return None
    return None


_IDS = {
    "trace_id": (re.compile("[0-9a-fA-F]{32}").fullmatch, 32),
    "parent_span_id": (re.compile("[0-9a-fA-F]{16}").fullmatch, 16),
    "span_id": (re.compile("[0-9a-fA-F]{16}").fullmatch, 16),
}
"""Ids with their number of hexadecimal digits, as W3C Trace Context has them."""

# Ten fields of every event of every run: one call of C reads them at a third of the cost.
_read_fields = itemgetter(
    *("idx", "actor", "type", "call_id", "attempt", "latency_ms", "ts"),
    *("trace_id", "span_id", "parent_span_id"),
)


def _issues(events: list[Event]) -> Iterator[tuple[int, str]]:
    """Yield every issue with the form of the events, as event index and words."""
    expected_idx = 0
    spans: set[str] = set()
    calls: set[tuple[int | None, str]] = set()
    for event in events:
        fields = _read_fields(event.__dict__)
        idx, actor, kind, call_id, attempt, latency, ts, trace_id, span, parent = fields
        if idx != expected_idx:
            yield idx, f"idx is {idx} instead of {expected_idx}"
        expected_idx = idx + 1
        if not actor:
            yield idx, "actor is empty"
        if not kind:
            yield idx, "type is empty"
        if kind == TOOL_CALL:
            if not event.tool:
                yield idx, "a tool call names no tool"
            if call_id is not None and (attempt, call_id) in calls:
                words = f"call_id {quoted(call_id)} names a second call while the first is unanswered"
                yield idx, words
            if call_id is not None:
                calls.add((attempt, call_id))
        elif kind == TOOL_RESULT and call_id is not None:
            calls.discard((attempt, call_id))
        if latency is not None and not 0 <= latency < math.inf:
            yield idx, f"latency_ms is {latency}, not a number from 0 up"
        if ts:
            try:
                datetime.fromisoformat(ts)
            except ValueError:
                yield idx, f"ts {quoted(ts)} is not ISO 8601"
        if trace_id or span or parent:
            for problem in _id_issues(event, spans):
                yield idx, problem


def _id_issues(event: Event, spans: set[str]) -> Iterator[str]:
    for name, (is_valid, digits) in _IDS.items():
        if (text := getattr(event, name)) and not is_valid(text):
            yield f"{name} {quoted(text)} is not {digits} hexadecimal digits"
    if (span := event.span_id) and span in spans:
        yield f"span_id {quoted(span)} repeats"
    spans.update([span] if span else [])
