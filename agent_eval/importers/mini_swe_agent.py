"""Trajectories of mini-swe-agent: the model writes one command in a fenced block, or calls `bash`."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from typing_extensions import override

from agent_eval.importers.diagnostics import Diagnostics
from agent_eval.importers.events import (
    EventFields,
    agent_message,
    error_event,
    is_amount,
    items,
    mapping,
    system_message,
    text,
    tool_call,
    tool_result,
    user_message,
)
from agent_eval.importers.format import Conversation, Format, Match, Part
from agent_eval.importers.messages import MessageReader

_COMMAND = re.compile(r"```(?:mswea_bash_command|bash)\s*\n(.*?)\n```", re.DOTALL)
_SUBMITS = "COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT"
"""What a command prints that ends the run: the rest of its output is the answer."""
_RETURNED = re.compile(r"\s*<returncode>(-?\d+)</returncode>")


class MiniSweAgent(Format):
    """Reads both versions: bare messages, and messages with what is known of the run."""

    name = "mini_swe_agent"

    @override
    def detect(self, value: Any) -> Match | None:
        if str(mapping(value).get("trajectory_format", "")).startswith("mini-swe-agent"):
            return Match(0.95, "trajectory")
        messages = [mapping(message) for message in items(value)[:40]]
        pairs = itertools.pairwise(messages)
        has_pair = any(_command_of(first) and _is_observation(second) for first, second in pairs)
        return Match(0.9, "messages") if has_pair else None

    @override
    def read(self, parts: Sequence[Part], diagnostics: Diagnostics) -> Iterable[Conversation]:
        for part in parts:
            value = part.payload
            info = mapping(mapping(value).get("info"))
            messages = items(value) or items(mapping(value).get("messages"))
            reader = _Reader(part.place, diagnostics)
            for number, message in enumerate(map(mapping, messages)):
                reader.add(message, f"messages[{number}]")
            reader.finish(info)
            about = {
                name: info[name] for name in ("exit_status", "model_stats", "mini_version") if name in info
            }
            yield Conversation(reader.events, metadata={"info": about} if about else {})


def _command_of(message: Mapping[str, Any]) -> str | None:
    matched = _COMMAND.search(str(message.get("content"))) if message.get("role") == "assistant" else None
    return None if matched is None else matched[1]


def _is_observation(message: Mapping[str, Any]) -> bool:
    return message.get("role") == "user" and bool(_RETURNED.match(_text(message.get("content"))))


def _text(content: Any) -> str:
    if isinstance(content, list):
        return "".join(text(mapping(part).get("text")) or "" for part in content)
    return content if isinstance(content, str) else ""


class _Reader:
    """Reads messages in order; an observation answers the command before it."""

    def __init__(self, place: str, diagnostics: Diagnostics) -> None:
        self.events: list[EventFields] = []
        self._place, self._diagnostics = place, diagnostics
        self._is_open = False
        """Whether a command in a fenced block waits for its observation."""

    def add(self, message: Mapping[str, Any], field: str) -> None:
        role, content, extra = message.get("role"), message.get("content"), mapping(message.get("extra"))
        if role == "exit":
            self._finish_with(text(extra.get("submission")) or _text(content))
        elif role == "user":
            self._add_user(_text(content))
        elif role == "system":
            self.events.append(system_message(content))
        else:
            made = MessageReader(self._place, self._diagnostics).events(message, field)
            code = extra.get("returncode")
            for fields in made:
                if fields["type"] == "tool_result" and isinstance(code, int) and code != 0:
                    fields["error"] = {"exit_code": code}
            command = _command_of(message)
            if command is not None and not items(message.get("tool_calls")):
                made.append(tool_call("bash", {"command": command}))
                self._is_open = True
            if made and is_amount(extra.get("cost")):
                made[-1]["cost_usd"] = extra["cost"]
            self.events += made

    def _add_user(self, content: str) -> None:
        if not self._is_open:
            self.events.append(user_message(content))
            return
        self._is_open = False
        returned = _RETURNED.match(content)
        code = int(returned[1]) if returned is not None else None
        error = {"exit_code": code} if code else None
        self.events.append(tool_result(content, tool="bash", error=error))
        if returned is None and _SUBMITS in str(self.events[-2].get("input")):
            self.events.append(agent_message(content))

    def finish(self, info: Mapping[str, Any]) -> None:
        """Add the submission, which is the answer, and how the run ended if not by one."""
        self._finish_with(text(info.get("submission")))
        status = text(info.get("exit_status"))
        if status is not None and not status.lower().startswith("submitted"):
            self.events.append(error_event(status))

    def _finish_with(self, submission: str | None) -> None:
        if submission and not any(fields.get("output") == submission for fields in self.events):
            self.events.append(agent_message(submission))
