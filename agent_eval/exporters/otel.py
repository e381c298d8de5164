"""Write a pack as OpenTelemetry spans and events, by the GenAI conventions 1.41.1.

For each trial: a span `invoke_agent`; below it a span `chat` for each answer of a model, with the messages
that were new in its request, and a span `execute_tool` for each tool call. Each verdict is an event
`gen_ai.evaluation.result` of the span `invoke_agent`. What the conventions have no place for is an event of
that span, named after its type. Identifiers follow from the pack, so exporting twice gives the same bytes.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Sequence
from itertools import takewhile
from typing import Any, Literal

from agent_eval import __version__
from agent_eval.comparison.facts import trials_of
from agent_eval.contracts.base import EARLIER
from agent_eval.contracts.event import MESSAGE, SYSTEM, USER, Event
from agent_eval.contracts.suite import Case
from agent_eval.contracts.trace import ToolCall
from agent_eval.contracts.verdict import CaseResultRow, TrialResultRow, VerdictRow
from agent_eval.evidence.reader import Pack
from agent_eval.exporters.answers import Answer, Times, answers_of, input_message
from agent_eval.storage.json import dumps

EVALUATION = "gen_ai.evaluation.result"
"""Name of the event of a verdict."""

SCOPE = {"name": "agent-eval", "version": __version__}

UNKNOWN_PROVIDER = "unknown"
"""Provider of a model of which the trace does not say it; the conventions require one."""

_USAGE = {
    "input_tokens": "gen_ai.usage.input_tokens",
    "output_tokens": "gen_ai.usage.output_tokens",
    "cached_tokens": "gen_ai.usage.cache_read.input_tokens",
    "cache_write_tokens": "gen_ai.usage.cache_creation.input_tokens",
    "reasoning_tokens": "gen_ai.usage.reasoning.output_tokens",
}


Row = dict[str, Any]
"""A span or an event as plain JSON, as the format `jsonl` has it. Times are in nanoseconds since 1970."""


def exported_trials(pack: Pack) -> Iterator[list[Row]]:
    """Yield the rows of each trial of a pack, in suite order: spans, `invoke_agent` first, then verdicts."""
    for row in pack.results():
        case = Case.model_validate(pack.raw_trajectory(row["case_id"]), context=EARLIER)
        for number, trial in enumerate(trials_of(row)):
            yield _Export(pack, case.of_trial(number), number).trial(trial)


class _Export:
    """Writes the spans of one trial, from the case as that trial recorded it."""

    def __init__(self, pack: Pack, case: Case, number: int) -> None:
        self._config, self._case, self._number = pack.config, case, number
        self._times = Times(case.trace, pack.config.started_at)
        seed = f"{pack.manifest_sha256}\0{case.case_id}\0{number}"
        self._trace_id = hashlib.sha256(seed.encode()).hexdigest()[:32]
        self._root_id = self._span_id("trial")
        names = ("gen_ai.provider.name", "gen_ai.system")
        stated = (event.attributes.get(name) for name in names for event in case.trace)
        self._provider = next((each for each in stated if isinstance(each, str)), UNKNOWN_PROVIDER)

    def trial(self, trial: CaseResultRow | TrialResultRow) -> list[Row]:
        root = self._root(trial["outcome"])
        spans, loose = [root], []
        for piece in answers_of(self._case.trace):
            if isinstance(piece, Event):
                loose.append(piece)
            elif piece.events:
                spans.append(self._chat(piece))
            else:
                loose += [event for event in piece.inputs if event.type == MESSAGE]
        # What is no answer, no call and no result is an event of the span of the trial.
        for event in loose:
            fields = {name: value for name, value in event.to_json().items() if value not in (None, {})}
            about = {"agent_eval.event": fields}
            name, time = f"agent_eval.{event.type}", self._times.of(event)
            root["span_events"].append({"event_name": name, "timestamp": time, "attributes": about})
        spans += map(self._tool, self._case.recorded.calls)
        spans[1:] = sorted(
            spans[1:], key=lambda span: (span["start_time"], span["attributes"]["agent_eval.events"][0])
        )
        return [*spans, *(self._evaluation(verdict, root) for verdict in trial["verdicts"])]

    def _root(self, outcome: str) -> Row:
        config, case, final = self._config, self._case, self._case.recorded.final_event
        agent = next((event.agent for event in case.trace if event.agent), None)
        # The messages before the agent's first event; the case's input where the trace has none.
        asked = list(takewhile(lambda each: each.type == MESSAGE and each.role in (USER, SYSTEM), case.trace))
        if not asked and case.inputs[0] is not None:
            asked = [Event(idx=0, actor=USER, type=MESSAGE, input=case.inputs[0])]
        attributes: dict[str, Any] = {
            "gen_ai.operation.name": "invoke_agent",
            "gen_ai.provider.name": self._provider,
            "gen_ai.agent.name": agent,
            "gen_ai.agent.version": _known(config.agent_version),
            "gen_ai.request.model": _known(config.model),
            "gen_ai.input.messages": _json(map(input_message, asked)),
            "gen_ai.output.messages": None if final is None else _json([Answer([], [final]).output()]),
            "agent_eval.run_id": config.run_id,
            "agent_eval.dataset_id": config.dataset_id,
            "agent_eval.case_id": case.case_id,
            "agent_eval.trial": self._number,
            "agent_eval.outcome": outcome,
            "agent_eval.times_recorded": self._times.recorded,
        }
        name = f"invoke_agent {agent}" if agent else "invoke_agent"
        return self._span(name, self._root_id, "INTERNAL", (self._times.start, self._times.end), attributes)

    def _chat(self, answer: Answer) -> Row:
        first, last = answer.events[0], answer.events[-1]
        model, output = answer.model or _known(self._config.model), answer.output()
        # Of an answer that the recording leaves out altogether there is nothing to write.
        is_left_out = any(event.content_recorded is False for event in answer.events) and not output["parts"]
        attributes: dict[str, Any] = {
            "gen_ai.operation.name": "chat",
            "gen_ai.provider.name": self._provider,
            "gen_ai.request.model": model,
            "gen_ai.response.model": answer.model,
            "gen_ai.agent.name": first.agent,
            "gen_ai.response.finish_reasons": None if answer.stop_reason is None else [answer.stop_reason],
            "gen_ai.input.messages": _json(map(input_message, answer.inputs)),
            "gen_ai.output.messages": None if is_left_out else _json([output]),
            "agent_eval.events": [event.idx for event in answer.events],
        }
        for event in answer.events:
            if event.usage is not None:
                usage = event.usage.to_json().items()
                attributes |= {_USAGE[name]: value for name, value in usage if value is not None}
            for name in ("cost_usd", "block_reason", "turn"):
                if (value := getattr(event, name)) is not None:
                    attributes[f"agent_eval.{name}"] = value
        attributes = _with_genai(attributes, answer.events)
        error = next((event.error for event in answer.events if event.error is not None), None)
        name = f"chat {model}" if model else "chat"
        times = (self._times.began(first), self._times.of(last))
        return self._span(name, self._span_id(f"chat {first.idx}"), "CLIENT", times, attributes, error=error)

    def _tool(self, pair: ToolCall) -> Row:
        events = [event for event in (pair.call, pair.result) if event is not None]
        attributes: dict[str, Any] = {
            "gen_ai.operation.name": "execute_tool",
            "gen_ai.tool.name": pair.tool,
            "gen_ai.tool.call.id": next((event.call_id for event in events if event.call_id), None),
            "gen_ai.tool.type": "function",
            "agent_eval.ran_on": next((event.ran_on for event in events if event.ran_on), None),
            "agent_eval.events": [event.idx for event in events],
        }
        attributes = _with_genai(attributes, events)
        # A null argument or result is one that was recorded, so these may be null.
        if pair.call is not None:
            attributes["gen_ai.tool.call.arguments"] = pair.call.input
        if pair.result is not None:
            attributes["gen_ai.tool.call.result"] = pair.result.output
        times, identifier = self._times.of_call(pair), self._span_id(f"tool {events[0].idx}")
        name = f"execute_tool {pair.tool}"
        return self._span(name, identifier, "INTERNAL", times, attributes, error=pair.error)

    def _evaluation(self, verdict: VerdictRow, root: Row) -> Row:
        attributes = {
            "gen_ai.evaluation.name": verdict["judge_id"],
            "gen_ai.evaluation.score.value": None if verdict["score"] is None else float(verdict["score"]),
            "gen_ai.evaluation.score.label": verdict["outcome"],
            "gen_ai.evaluation.explanation": verdict["reason"],
            "error.type": verdict["failure"] if verdict["outcome"] == "error" else None,
            "agent_eval.run_id": self._config.run_id,
            "agent_eval.case_id": self._case.case_id,
            "agent_eval.trial": self._number,
            "agent_eval.hard": verdict["hard"],
            "agent_eval.failure": verdict["failure"],
            "agent_eval.evidence_refs": verdict["evidence_refs"] or None,
        }
        return {
            "type": "event",
            "event_name": EVALUATION,
            "trace_id": self._trace_id,
            "span_id": self._root_id,
            "timestamp": root["end_time"],
            "attributes": {name: value for name, value in attributes.items() if value is not None},
            "scope": SCOPE,
        }

    def _span(
        self,
        name: str,
        span_id: str,
        kind: Literal["INTERNAL", "CLIENT"],
        times: tuple[int, int],
        attributes: dict[str, Any],
        *,
        error: Any = None,
    ) -> Row:
        nullable = {"gen_ai.tool.call.arguments", "gen_ai.tool.call.result"}
        known = {name: value for name, value in attributes.items() if value is not None or name in nullable}
        # `UNSET` as the conventions have it for everything but errors.
        status = {"code": "UNSET"}
        if error is not None:
            status = {"code": "ERROR", "message": error if isinstance(error, str) else dumps(error).decode()}
            # The kind of an error by what it says of itself.
            stated = [error.get(key) for key in ("type", "code", "name")] if isinstance(error, dict) else []
            kinds = (
                str(each) for each in stated if isinstance(each, str | int) and not isinstance(each, bool)
            )
            known["error.type"] = next(kinds, "_OTHER")
            if not isinstance(error, str) or not error:
                known["agent_eval.error"] = error
        return {
            "type": "span",
            "trace_id": self._trace_id,
            "span_id": span_id,
            "parent_span_id": None if span_id == self._root_id else self._root_id,
            "name": name,
            "kind": kind,
            "start_time": times[0],
            "end_time": times[1],
            "attributes": known,
            "status": status,
            "span_events": [],
            "scope": SCOPE,
        }

    def _span_id(self, part: str) -> str:
        identifier = hashlib.sha256(f"{self._trace_id}\0{part}".encode()).hexdigest()[:16]
        return identifier if identifier.strip("0") else "1" * 16


def _json(messages: Iterable[dict[str, Any]]) -> str | None:
    listed = list(messages)
    return dumps(listed).decode() if listed else None


def _known(word: str) -> str | None:
    return None if word == "unknown" else word


def _with_genai(attributes: dict[str, Any], events: Sequence[Event]) -> dict[str, Any]:
    """Add what the events recorded by the conventions themselves, apart from content and usage."""
    content = ("gen_ai.input", "gen_ai.output", "gen_ai.usage", "gen_ai.tool.call", "gen_ai.operation")
    recorded = ((name, value) for event in events for name, value in event.attributes.items())
    added = dict(attributes)
    for name, value in recorded:
        if name.startswith("gen_ai.") and not name.startswith(content):
            added.setdefault(name, value)
    return added
