"""What an agent object of a framework did in one turn, as the events that an agent's answer has."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from contextlib import suppress
from typing import Any, NamedTuple

from pydantic_core import to_jsonable_python

from agent_eval.agents.recorder import TOOL_ANSWER_SOURCE
from agent_eval.contracts.event import (
    AGENT,
    ENVIRONMENT,
    ERROR,
    MESSAGE,
    MODEL_CALL,
    REASONING,
    TOOL,
    TOOL_CALL,
    TOOL_RESULT,
    UNREAD,
    UNREAD_WHAT,
)
from agent_eval.errors import words_of


class Call(NamedTuple):
    """A tool call in a model's answer; arguments that are JSON in text are read.

    `problem` is why it cannot be made, such as bad arguments.
    """

    tool: str
    arguments: Any
    call_id: str
    problem: str | None = None


class Thought(NamedTuple):
    """What a model reasoned, if it is told."""

    text: str | None


class Trajectory:
    """Records the events of one turn, on the loop of the agent or in a thread of its tools.

    `steps` is how many answers a model may give: one more, and the turn is cancelled, and `is_over`.
    `answer_tool` is the tool that the case names as the agent's answer, whose calls are recorded as such.
    """

    def __init__(self, steps: int | None = None, answer_tool: str | None = None) -> None:
        self.is_over = False
        self._steps, self._answer_tool = steps, answer_tool
        self._events: list[dict[str, Any]] = []
        self._ids: dict[str, list[str]] = {}
        """Ids in the evidence by those of the framework: some models number each answer's calls anew."""
        self._tools: dict[str, str] = {}
        self._results: set[str] = set()
        self._task = asyncio.current_task()
        self._loop = asyncio.get_running_loop()

    def add(self, actor: str, kind: str, **fields: Any) -> None:
        """Record an event; fields that are None are left out."""
        known = {name: plain(value) for name, value in fields.items() if value is not None}
        self._events.append({"actor": actor, "type": kind, **known})

    def answered(self, *parts: str | Thought | Call | None, **facts: Any) -> None:
        """Record an answer of a model: thoughts, text, calls. Only the first event has the facts."""
        name = facts.get("agent_name")
        for part in parts:
            if isinstance(part, Thought) and part.text:
                self.add(AGENT, REASONING, output=part.text, agent_name=name)
        calls = [part for part in parts if isinstance(part, Call)]
        text = "".join(part for part in parts if isinstance(part, str))
        if text or not calls:
            self.add(AGENT, MESSAGE, output=text or None, **facts)
            facts = {"agent_name": name}
        for call in calls:
            self.call(call, **facts)
            facts = {"agent_name": name}
        if self._steps is not None:
            self._steps -= 1
            if self._steps < 0 and self._task is not None and not self.is_over:
                self.is_over = True
                self._loop.call_soon_threadsafe(self._task.cancel)

    def call(self, call: Call, **facts: Any) -> None:
        """Record a call of a tool."""
        call_id, count = call.call_id, 2
        while call_id in self._tools:
            call_id, count = f"{call.call_id}-{count}", count + 1
        self._ids.setdefault(call.call_id, []).append(call_id)
        self._tools[call_id] = call.tool
        arguments, problem = read_json(call.arguments), call.problem
        self.add(AGENT, TOOL_CALL, tool=call.tool, input=arguments, call_id=call_id, error=problem, **facts)

    def result(self, call_id: str, output: Any = None, error: Any = None, source: str | None = None) -> None:
        """Record the result of a call. An exception is told by type and text."""
        known = self._known(call_id)
        self._results.add(known)
        if isinstance(error, BaseException):
            error = words_of(error)
        attributes = None if source is None else {TOOL_ANSWER_SOURCE: source}
        fields = {"output": output} if error is None else {"error": error}
        tool = self._tools.get(known)
        self.add(TOOL, TOOL_RESULT, tool=tool, call_id=known, attributes=attributes, **fields)

    def _known(self, call_id: str) -> str:
        """The id in the evidence: of several calls with the same, the latest without a result."""
        ids = self._ids.get(call_id, [call_id])
        return next((each for each in reversed(ids) if each not in self._results), ids[-1])

    def lacks_result(self, call_id: str) -> bool:
        """Whether a call of this turn has no result yet."""
        known = self._known(call_id)
        return known in self._tools and known not in self._results

    def running(self, tool: str, arguments: Any, call_id: str | None = None) -> str | None:
        """Return the id of a call of a tool that has no result, for frameworks that tell none, or another.

        One with the `call_id` goes before others, then one with the same arguments, then the first.
        """
        if call_id is not None and self.lacks_result(call_id):
            return call_id
        ids = [
            call_id for call_id, name in self._tools.items() if name == tool and call_id not in self._results
        ]
        inputs = {
            event["call_id"]: event.get("input") for event in self._events if event["type"] == TOOL_CALL
        }
        arguments = plain(arguments)
        return next((each for each in ids if inputs.get(each) == arguments), ids[0] if ids else None)

    def unread(self, sentence: str) -> None:
        """Record once that the framework hides calls, so that no judge of tools passes."""
        if all(event["type"] != UNREAD or event["output"] != sentence for event in tuple(self._events)):
            self.add(ENVIRONMENT, UNREAD, output=sentence, attributes={UNREAD_WHAT: "tool call"})

    def broke(self, problem: str) -> None:
        """Record that something broke, outside of a tool."""
        self.add(AGENT, ERROR, error=problem)

    def is_the_answer(self, call_id: str) -> None:
        """Record that a call is no tool's: by it, a model gives a structured answer to the framework."""
        known = self._known(call_id)
        if self._tools.get(known) in (None, self._answer_tool):
            return
        for event in self._events:
            if event.get("call_id") == known and event["type"] == TOOL_CALL:
                event["type"] = MODEL_CALL
                for name in ("tool", "input", "call_id", "error"):
                    event.pop(name, None)
        self._events = [event for event in self._events if event.get("call_id") != known]
        del self._tools[known]

    def finish(self, answer: Any) -> None:
        """Record the agent's answer, where it is not the text that its model wrote last."""
        answer = plain(answer)
        last = self.last_message
        if answer is None or (last is not None and last.get("output") == answer):
            return
        if last is not None and isinstance(answer, dict | list) and last is self._events[-1]:
            with suppress(ValueError, TypeError):
                if json.loads(last["output"]) == answer:  # the same, as the model wrote it
                    last["output"] = answer
                    return
        self.add(AGENT, MESSAGE, output=answer)

    @property
    def last_message(self) -> dict[str, Any] | None:
        """The agent's last message so far."""
        messages = (event for event in reversed(self._events) if event["type"] == MESSAGE)
        return next(messages, None)

    def events(self) -> list[dict[str, Any]]:
        """Return the events; the results of parallel calls in the order of the calls, not as they ended."""
        order = {call_id: number for number, call_id in enumerate(self._tools)}
        ordered: list[dict[str, Any]] = []
        results: list[dict[str, Any]] = []
        for event in self._events:
            if event["type"] == TOOL_RESULT:
                results.append(event)
                continue
            ordered += sorted(results, key=lambda each: order.get(each["call_id"], len(order)))
            results.clear()
            ordered.append(event)
        return ordered + sorted(results, key=lambda each: order.get(each["call_id"], len(order)))


def at(value: Any, path: str) -> Any:
    """Return what is at a path of keys or attributes, as `choices.0.finish_reason`; None if nothing is."""
    for name in path.split("."):
        if isinstance(value, Mapping):
            value = value.get(name)
        elif isinstance(value, list | tuple):
            value = value[int(name)] if len(value) > int(name) else None
        else:
            value = getattr(value, name, None)
    return value


def tokens(usage: Any, paths: str) -> dict[str, Any] | None:
    """Return the usage of one answer; `paths` lead to its tokens of input, output, cache and reasoning."""
    names = ("input_tokens", "output_tokens", "cached_tokens", "reasoning_tokens")
    return (
        {name: at(usage, path) for name, path in zip(names, paths.split(), strict=False)} if usage else None
    )


CHAT_USAGE = (
    "prompt_tokens completion_tokens prompt_tokens_details.cached_tokens "
    "completion_tokens_details.reasoning_tokens"
)
"""Where chat completions have them."""


def plain(value: Any) -> Any:
    """Convert a value to plain JSON; what is none becomes text."""
    with suppress(Exception):  # the methods of any class
        return to_jsonable_python(value, fallback=repr)
    return f"a value of the type {type(value).__name__}"


def read_json(text: Any) -> Any:
    """Read arguments that a model wrote as text; what is no JSON stays as it is."""
    if not isinstance(text, str):
        return text
    try:
        return json.loads(text)
    except ValueError:
        return text
