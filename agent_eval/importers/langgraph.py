"""Exports of LangChain and LangGraph: messages, states, streams in each mode, and runs of LangSmith."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any

from typing_extensions import override

from agent_eval.importers import events as make
from agent_eval.importers.diagnostics import Diagnostics
from agent_eval.importers.dialogue import Dialogue, Turn, link_of, message_of
from agent_eval.importers.events import items, mapping, seconds_of, text
from agent_eval.importers.format import ALONE, Conversation, Format, Link, Match, Part
from agent_eval.importers.langchain import Chunks, fields_of, is_chunk, is_message, is_messages
from agent_eval.importers.messages import MessageReader
from agent_eval.importers.records import Record
from agent_eval.importers.span_records import (
    AGENT_NAME,
    OUTPUTS,
    SESSION,
    SpanFields,
    of_model,
    of_tool,
    span_fields,
)
from agent_eval.importers.span_tree import SpanTree
from agent_eval.importers.vocabulary import first_text

_MODES = frozenset({"values", "updates", "messages", "tasks", "debug", "custom", "checkpoints", "events"})
_DEBUG = frozenset({"checkpoint", "task", "task_result"})
_OF_TASKS = frozenset({"triggers", "result", "interrupts"})


class LangGraph(Format):
    """Reads what LangChain, LangGraph and LangSmith write of a run."""

    name = "langgraph"

    @override
    def detect(self, value: Any) -> Match | None:
        if isinstance(value, dict) and not {"request", "response"} <= set(value):  # which is a provider's
            return next((Match(sure, variant) for variant, sure, test in _VARIANTS if test(value)), None)
        if is_messages(value):
            own = fields_of(value[0]) is not None
            calls = [mapping(call) for message in value for call in items(mapping(message).get("tool_calls"))]
            dashed = any("-" in str(mapping(call.get("function")).get("name")) for call in calls)
            return Match(0.9 if own else (0.5 if dashed else 0.55), "messages")
        # Otherwise a list is one item of a stream, with what it belongs to or with its mode.
        size = len(items(value))
        if size == 2 and is_message(value[0]) and isinstance(value[1], dict):
            marks = any(str(name).startswith(("langgraph_", "ls_")) for name in value[1])
            return Match(0.95 if marks else 0.7, "chunk") if "role" not in value[1] else None
        if size in (2, 3) and isinstance(value[-1], dict | list) and not is_message(value[0]):
            has_mode = any(isinstance(word, str) and word in _MODES for word in value[:-1])
            if (has_mode or isinstance(value[0], list)) and self.detect(value[-1]) is not None:
                return Match(0.8, "item")
        return None

    @override
    def prepare(self, record: Record, diagnostics: Diagnostics) -> tuple[Link, Any]:
        match, value = self.detect(record.value), record.value
        variant = "messages" if match is None else match.variant
        link = ALONE
        if variant == "run":
            thread = _thread_of(value)
            link = Link(ids=(f"trace:{_trace_of(value)}", *([f"thread:{thread}"] if thread else [])))
        elif variant == "snapshot":
            thread = _thread(value)
            ids = (f"thread:{thread}",) if thread else ()
            link = Link(ids=ids, time=seconds_of(value.get("created_at")))
        elif variant == "values":
            # States repeat the dialogue, so a file may hold those of several.
            history = MessageReader("", Diagnostics()).messages(value.get("messages"), "")
            link = link_of(Turn(history=history), record.source)
        elif variant != "messages" and record.position is not None:
            link = Link(ids=(f"file:{record.source}",))
        return link, {"variant": variant, "value": value}

    @override
    def read(self, parts: Sequence[Part], diagnostics: Diagnostics) -> Iterable[Conversation]:
        values = [(mapping(part.payload), part.place) for part in parts]
        runs = [payload["value"] for payload, _ in values if payload["variant"] == "run"]
        for payload, _ in values:
            runs += _runs_in(payload["value"]) if payload["variant"] == "runs" else []
        if not runs:
            reader = _StreamReader(diagnostics)
            for payload, place in values:
                reader.add(payload["variant"], payload["value"], place)
            return [reader.conversation()]
        # Each thread is a conversation, and each trace that is of none.
        threads = {_trace_of(run): thread for run in runs if (thread := _thread_of(run))}
        by_name = defaultdict[str | None, list[Mapping[str, Any]]](list)
        for run in runs:
            by_name[threads.get(_trace_of(run)) or _trace_of(run)] += _flat(run)
        conversations = []
        for name, own in by_name.items():
            by_id = {text(run.get("id")): run for run in own}
            spans = [(_span(run, by_id), parts[0].place) for run in own]
            conversations.append(Conversation(SpanTree(spans, diagnostics).events(), id=name))
        return conversations


def _is_update(value: Mapping[str, Any]) -> bool:
    """Whether this is what nodes wrote, by their names."""
    if not value or "messages" in value or "role" in value:
        return False
    if set(value) == {"__interrupt__"}:
        return True
    nodes = [content for name, content in value.items() if name != "__interrupt__"]
    written = [mapping(content).get("messages") for content in nodes]
    return all(content is None or isinstance(content, dict | list) for content in nodes) and any(
        is_messages(messages) or is_message(messages) for messages in written
    )


def _is_run(value: Any) -> bool:
    run = mapping(value)
    return isinstance(run.get("run_type"), str) and "id" in run and ("inputs" in run or "outputs" in run)


_VARIANTS: tuple[tuple[str, float, Callable[[Mapping[str, Any]], bool]], ...] = (
    ("run", 0.95, _is_run),
    ("runs", 0.95, lambda value: bool(_runs_in(value))),
    ("snapshot", 0.9, lambda value: isinstance(value.get("values"), dict) and "config" in value),
    ("event", 0.95, lambda value: str(value.get("event")).startswith("on_") and "run_id" in value),
    ("debug", 0.95, lambda value: value.get("type") in _DEBUG and isinstance(value.get("payload"), dict)),
    ("task", 0.85, lambda value: {"id", "name"} <= set(value) and not _OF_TASKS.isdisjoint(value)),
    (
        "values",
        0.9,
        lambda value: is_messages(value.get("messages")) and any(map(fields_of, value["messages"])),
    ),
    ("values", 0.5, lambda value: is_messages(value.get("messages")) and len(value) == 1),
    ("updates", 0.8, _is_update),
    ("message", 0.7, lambda value: fields_of(value) is not None and not is_chunk(value)),
)


def _thread(snapshot: Mapping[str, Any]) -> str | None:
    return text(mapping(mapping(snapshot.get("config")).get("configurable")).get("thread_id"))


class _StreamReader:
    """Reads the items of a stream in order; most repeat messages, which their ids tell."""

    def __init__(self, diagnostics: Diagnostics) -> None:
        self._dialogue = Dialogue()
        self._chunks = Chunks()
        self._diagnostics = diagnostics
        self._thread: str | None = None
        self._state: dict[str, Any] = {}
        self._timed: set[int] = set()
        self._errors: set[str] = set()

    def _reader(self, place: str) -> MessageReader:
        return MessageReader(place, self._diagnostics)

    def conversation(self) -> Conversation:
        self._end_chunks("")
        about = {"state": self._state} if self._state else {}
        return Conversation(self._dialogue.events, id=self._thread, metadata=about)

    def _end_chunks(self, place: str) -> None:
        for message in self._chunks.messages():
            self._dialogue.add(self._reader(place).message(message, "chunks"))

    def _keep(self, channels: Any) -> Any:
        """Keep the last value of each channel of a state, which authors name; return that of its messages."""
        for name, value in mapping(channels).items():
            is_own = name == "messages" or name.startswith(("__", "branch:"))
            if not is_own and value not in (None, "", [], {}):
                self._state[name] = value
        return mapping(channels).get("messages")

    def add(self, variant: str, value: Any, place: str) -> None:
        if variant == "item":
            inner = LangGraph().detect(value[-1])
            self.add("values" if inner is None else inner.variant, value[-1], place)
        elif variant == "chunk":
            self._thread = self._thread or text(mapping(value[1]).get("thread_id"))
            if is_chunk(value[0]):
                self._chunks.add(value[0])
            else:
                self._end_chunks(place)
                self._dialogue.add(self._reader(place).message(value[0], "messages"))
        elif variant in ("messages", "message"):
            self._history(value if isinstance(value, list) else [value], place)
        elif variant == "updates":
            for node, written in value.items():
                self._add_update(node, written, place)
        elif variant == "values":
            self._history(self._keep(value), place)
        elif variant == "snapshot":
            self._thread = self._thread or _thread(value)
            self._history(self._keep(value.get("values")), place)
            for task in map(mapping, items(value.get("tasks"))):
                if task.get("error"):
                    self._add_error(task["error"], place)
        elif variant == "debug":
            self._add_debug(value, place)
        elif variant == "task":
            self._add_task(value, place)
        else:
            self._add_event(value, place)

    def _history(self, messages: Any, place: str) -> None:
        read = self._reader(place).messages(messages, "messages")
        if any(message.id is None for message in read):
            self._dialogue.add_history(read)
        else:
            for message in read:
                self._dialogue.add(message)

    def _add_update(self, node: str, written: Any, place: str) -> None:
        if node == "__interrupt__":
            made = make.event("agent", "state", output={"interrupt": written})
            self._dialogue.add(message_of([made]))
            return
        for part in written if isinstance(written, list) else [written]:
            messages = self._keep(part)
            for message in messages if isinstance(messages, list) else [messages]:
                if message is not None:
                    self._dialogue.add(self._reader(place).message(message, f"{node}.messages"))

    def _add_debug(self, value: Mapping[str, Any], place: str) -> None:
        payload = mapping(value.get("payload"))
        if value.get("type") == "checkpoint":
            self._thread = self._thread or _thread(payload)
            self._history(self._keep(payload.get("values")), place)
        else:
            self._add_task(payload, place)
        ts = make.timestamp_of(value.get("timestamp"))
        for fields in self._dialogue.events:
            if id(fields) not in self._timed:
                self._timed.add(id(fields))
                if ts is not None:
                    fields.setdefault("ts", ts)

    def _add_task(self, task: Mapping[str, Any], place: str) -> None:
        asked, result = mapping(task.get("input")), task.get("result")
        if is_messages(asked.get("messages")):
            self._history(asked["messages"], place)
        if task.get("error"):
            self._add_error(task["error"], place)
        # Some versions write a node's result as pairs of channel and value.
        pairs = result if isinstance(result, list) else list(mapping(result).items())
        for pair in pairs:
            if isinstance(pair, list | tuple) and len(pair) == 2:
                self._add_update(str(task.get("name")), {str(pair[0]): pair[1]}, place)

    def _add_error(self, error: Any, place: str) -> None:
        key = f"{place}{error}"
        if key not in self._errors:
            self._errors.add(key)
            self._dialogue.add(message_of([make.error_event(error)]))

    def _add_event(self, value: Mapping[str, Any], place: str) -> None:
        """Read an event of `astream_events`: requests and answers of models, and what tools returned."""
        kind, data = str(value.get("event")), mapping(value.get("data"))
        metadata = mapping(value.get("metadata"))
        self._thread = self._thread or text(metadata.get("thread_id"))
        if kind == "on_chat_model_start":
            self._history(mapping(data.get("input")).get("messages"), place)
        elif kind in ("on_chat_model_end", "on_tool_end") and is_message(data.get("output")):
            self._dialogue.add(self._reader(place).message(data["output"], "data.output"))
        elif kind in ("on_tool_error", "on_chain_error", "on_chat_model_error"):
            self._add_error(data.get("error") or kind, text(value.get("name")) or place)


# --- Runs of LangSmith, nested or as the flat list that its API exports ---

_KINDS = {"llm": "LLM", "chat_model": "LLM", "tool": "TOOL", "retriever": "RETRIEVER"}
_THREADS = ("thread_id", "session_id", "conversation_id")


def _runs_in(value: Any) -> list[Mapping[str, Any]]:
    """Return the runs of a request to the API (`post` and `patch`), of an answer of it, or of a webhook."""
    fields = mapping(value)
    if not {"post", "patch"} <= set(fields):
        runs = [mapping(run) for run in items(fields.get("runs"))]
        return runs if runs and all(map(_is_run, runs)) else []
    posted = {str(run.get("id")): dict(run) for run in map(mapping, items(fields["post"]))}
    order = list(posted)
    for number, change in enumerate(map(mapping, items(fields["patch"]))):
        # The client of JavaScript names none: its changes are in the order of the runs.
        own = str(change.get("id") or (order[number] if number < len(order) else number))
        run = posted.setdefault(own, {"id": own})
        run |= {name: stated for name, stated in change.items() if stated not in (None, {}, [])}
    return list(posted.values()) if all(map(_is_run, posted.values())) else []


def _thread_of(run: Mapping[str, Any]) -> str | None:
    """Return the thread that a run belongs to, by its metadata."""
    metadata = mapping(mapping(run.get("extra")).get("metadata"))
    return first_text(metadata, _THREADS)


def _trace_of(run: Mapping[str, Any]) -> str | None:
    return text(run.get("trace_id")) or text(run.get("id"))


def _flat(run: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    yield run
    for child in items(run.get("child_runs")):
        yield from _flat({"parent_run_id": run.get("id"), "trace_id": _trace_of(run), **mapping(child)})


def _span(run: Mapping[str, Any], by_id: Mapping[Any, Mapping[str, Any]]) -> SpanFields:
    # Chains are steps of the framework that repeat what the runs within them record: they are of no kind.
    kind = _KINDS.get(str(run.get("run_type")))
    inputs, outputs = mapping(run.get("inputs")), run.get("outputs")
    attributes: dict[str, Any] = {SESSION: _thread_of(run)}
    if kind == "LLM":
        extra = mapping(run.get("extra"))
        settings, metadata = mapping(extra.get("invocation_params")), mapping(extra.get("metadata"))
        model = settings.get("model") or settings.get("model_name") or inputs.get("model")
        usage = run if "prompt_tokens" in run else mapping(outputs).get("usage_metadata")
        attributes |= of_model(_request(run, by_id), outputs, usage, model)
        cost = run.get("total_cost")  # which the API writes as text
        if isinstance(cost, str | int | float) and not isinstance(cost, bool):
            with suppress(ValueError):
                attributes["llm.cost.total"] = float(cost)
        attributes[AGENT_NAME] = text(metadata.get("lc_agent_name"))
    elif kind is not None:
        arguments = inputs["input"] if set(inputs) == {"input"} else dict(inputs)
        attributes |= of_tool(run.get("name"), arguments, kind)
        answer = mapping(outputs)
        attributes[OUTPUTS] = answer["output"] if set(answer) == {"output"} else outputs
    ids = (_trace_of(run), run.get("id"), run.get("parent_run_id"))
    times = (run.get("start_time"), run.get("end_time"))
    return span_fields(run.get("name"), ids, times, attributes, run.get("error"))


def _request(run: Mapping[str, Any], by_id: Mapping[Any, Mapping[str, Any]]) -> Any:
    """Return the messages that a model was asked; older clients record them as one text.

    Then those of the step around it are taken, which has them as they were.
    """
    inputs = mapping(run.get("inputs"))
    if "messages" in inputs:
        return dict(inputs)
    outer = by_id.get(text(run.get("parent_run_id")))
    while outer is not None:
        around = mapping(outer.get("inputs"))
        if isinstance(around.get("messages"), list):
            return {"messages": around["messages"]}
        outer = by_id.get(text(outer.get("parent_run_id")))
    prompts = items(inputs.get("prompts"))
    return prompts[0] if prompts else inputs.get("prompt", dict(inputs))
