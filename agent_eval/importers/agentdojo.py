"""Runs of AgentDojo: tasks with and without injected instructions, and what the benchmark said of each."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from typing_extensions import override

from agent_eval.importers.content import content_of
from agent_eval.importers.diagnostics import Diagnostics
from agent_eval.importers.events import (
    EventFields,
    agent_message,
    error_event,
    items,
    mapping,
    reasoning,
    system_message,
    text,
    tool_call,
    tool_result,
    user_message,
)
from agent_eval.importers.format import Conversation, Format, Match, Part
from agent_eval.importers.recorded_verdicts import as_metadata, recorded


class AgentDojo(Format):
    """Reads runs of AgentDojo, one a record.

    `security` of the benchmark is true where the attack succeeded. The recorded verdict `security` passes
    where it did not, and is there only for runs with an attack.
    """

    name = "agentdojo"

    @override
    def detect(self, value: Any) -> Match | None:
        fields = ("suite_name", "user_task_id", "messages")
        is_run = isinstance(value, dict) and all(name in value for name in fields)
        return Match(0.95, "run") if is_run else None

    @override
    def read(self, parts: Sequence[Part], diagnostics: Diagnostics) -> Iterable[Conversation]:
        return [_run(mapping(part.payload), part.place, diagnostics) for part in parts]


def _run(run: Any, place: str, diagnostics: Diagnostics) -> Conversation:
    events: list[EventFields] = []
    for number, message in enumerate(items(run.get("messages"))):
        events += _message(mapping(message), place, f"messages[{number}]", diagnostics)
    if text(run.get("error")):
        events.append(error_event(run["error"]))
    attack, injection = text(run.get("attack_type")), text(run.get("injection_task_id"))
    is_attacked = injection is not None and attack not in (None, "none")
    verdicts = {"utility": recorded(run.get("utility"))}
    if is_attacked and isinstance(run.get("security"), bool):
        verdicts["security"] = recorded(not run["security"])
    names = [run.get("suite_name"), run.get("user_task_id"), *([injection, attack] if is_attacked else [])]
    injections = mapping(run.get("injections"))
    about = {"pipeline": text(run.get("pipeline_name")), "attack": attack, "duration": run.get("duration")}
    case: dict[str, Any] = {"metadata": as_metadata(verdicts)}
    planted = [value for value in injections.values() if isinstance(value, str) and value]
    if planted:
        case["metadata"]["injections"] = planted
    return Conversation(
        events,
        id="/".join(str(name) for name in names if name),
        metadata={name: value for name, value in about.items() if value is not None},
        case=case,
    )


def _message(message: Any, place: str, field: str, diagnostics: Diagnostics) -> list[EventFields]:
    role, content = message.get("role"), _content(message.get("content"))
    if role == "system":
        return [system_message(content)]
    if role == "user":
        return [user_message(content)]
    if role == "tool":
        error = text(message.get("error"))
        call = mapping(message.get("tool_call"))
        output = None if error is not None and content in (None, "", error) else content
        call_id = message.get("tool_call_id") or call.get("id")
        return [tool_result(output, call_id, tool=text(call.get("function")), error=error)]
    if role != "assistant":
        diagnostics.lost(place, field, f"has the role {role!r}, which is none of this format")
        return []
    events = [reasoning(thought) for thought in _thoughts(message.get("content"))]
    if content_of(content) != (None, None):
        events.append(agent_message(content))
    calls = map(mapping, items(message.get("tool_calls")))
    events += [tool_call(text(call.get("function")), call.get("args"), call.get("id")) for call in calls]
    return events


def _content(content: Any) -> Any:
    """Return content in blocks, as newer versions have it, with the names that `content_of` reads."""
    if not isinstance(content, list):
        return content
    texts = [
        mapping(block) for block in content if mapping(block).get("type") not in ("thinking", "redacted")
    ]
    return [{**block, "text": block.get("content", block.get("text"))} for block in texts]


def _thoughts(content: Any) -> list[str]:
    blocks = [mapping(block) for block in items(content)]
    return [str(block.get("content") or "") for block in blocks if block.get("type") == "thinking"]
