"""The model that plays the user: what it is asked, and what of its replies can be said to an agent.

It reads the guidelines, what the user knows, and the texts of the conversation; no expectation, no criterion,
no tool call. A reply that cannot be said is asked for once more. After that the simulated user has failed,
which is never the agent's failure.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from importlib.resources import files
from pathlib import Path
from typing import Any

from agent_eval.contracts import Case
from agent_eval.contracts.conversation import STOP_TOKEN, EndReason
from agent_eval.contracts.event import STOPPED_SHORT, Finish
from agent_eval.contracts.suite import Conversation
from agent_eval.errors import InvalidInput, NotEvaluable
from agent_eval.models.base import (
    Message,
    Model,
    ModelFailure,
    ModelReply,
    ModelRequest,
    object_text,
    without_thoughts,
)
from agent_eval.models.client import ModelUse
from agent_eval.storage.files import read_bytes
from agent_eval.storage.json import Limits, parse

CURRENT = "user-1"
"""The prompt that is used where no other is named. A prompt that was released is never changed."""

_REQUIRED = ("guidelines", "user_info")
_MOST_BYTES = 1 << 20
_PLACEHOLDER = re.compile(r"\{\{(guidelines|user_info|language)\}\}")


@dataclass(frozen=True, slots=True)
class Prompt:
    """The prompt of a simulated user."""

    name: str
    text: str

    @property
    def digest(self) -> str:
        """The sha256 of the text, which differs where two runs had different prompts."""
        return sha256(self.text.encode()).hexdigest()

    def filled(self, values: Mapping[str, str]) -> str:
        """Fill the places in one pass, so that a value which looks like a place stays as it is."""
        return _PLACEHOLDER.sub(lambda match: values[match.group(1)], self.text)


def released_prompt(name: str = CURRENT) -> Prompt:
    """Read a prompt that agent-eval brings along."""
    path = files("agent_eval.conversation") / "prompts" / f"{name}.md"
    return Prompt(name, path.read_text("utf-8"))


def read_prompt(path: Path) -> Prompt:
    """Read the operator's own prompt.

    Raises:
        InvalidInput: The file cannot be read, is no UTF-8, or lacks a place that a prompt needs.
    """
    try:
        text = read_bytes(path, max_bytes=_MOST_BYTES).decode()
    except UnicodeDecodeError:
        raise InvalidInput(f"{path} is not UTF-8 text", remedy="Save it as UTF-8.", file=str(path)) from None
    missing = [name for name in _REQUIRED if f"{{{{{name}}}}}" not in text]
    if missing:
        raise InvalidInput(
            f"{path} has no place {{{{{missing[0]}}}}}, so every simulated user would be the same",
            remedy="Write {{guidelines}} and {{user_info}} where they belong.",
            file=str(path),
        )
    return Prompt("custom", text)


_ATTEMPTS = 2
_MAX_TOKENS = 4096
_OPENING = "(The conversation begins. Write your first message.)"
_NO_TEXT = "(no text)"

SCHEMA: Mapping[str, Any] = {
    "type": "object",
    "properties": {
        "message": {"type": "string"},
        "done": {"type": "boolean"},
        "reason": {"type": "string", "enum": ["continue", "goal", "stop"]},
    },
    "required": ["message", "done", "reason"],
    "additionalProperties": False,
}
"""JSON Schema of a reply."""

_ENDS = {"goal": EndReason.GOAL, "stop": EndReason.STOP}

_BROKEN_OBJECT = re.compile(r"\{\s*\"(?:message|done|reason)\"\s*:")
"""An object of the wanted form that cannot be read as one."""
_SHORTEST_LEAK = 40
"""Characters of a line of the prompt; shorter ones may be what people say."""


class SimulatorError(Exception):
    """The simulated user wrote nothing that can be said, or its model gave no reply.

    Its text says why, in words that follow "the simulated user".
    """


@dataclass(frozen=True, slots=True)
class Simulation:
    """How users are simulated in a run."""

    model: Model
    prompt: Prompt = field(default_factory=released_prompt)

    def describe(self) -> dict[str, Any]:
        """Return what tells runs with different users apart: the model, and the prompt by its digest."""
        return {**self.model.describe(), "prompt": self.prompt.name, "prompt_sha256": self.prompt.digest}


@dataclass(frozen=True, slots=True)
class Exchange:
    """One message of the user, with the agent's answer: its texts, empty if it gave none."""

    message: str
    answer: str


@dataclass(frozen=True, slots=True)
class UserMessage:
    """What the simulated user says next.

    Attributes:
        text: The message; empty where the user only ends the conversation.
        ends: `GOAL` or `STOP` where the conversation ends after the answer to this message, or at once
            where there is none; None to go on.
    """

    text: str
    ends: EndReason | None = None


class SimulatedUser:
    """The user of one conversation, played by a model.

    `loop` is the number of the trial, from 1, and `attempt` that of its attempt, from 0: with the test's name
    they say which conversation it is, for scripts and for keys of recorded replies.
    """

    def __init__(self, simulation: Simulation, case: Case, *, loop: int = 1, attempt: int = 0) -> None:
        conversation = case.conversation or Conversation()
        self._simulation, self._guidelines = simulation, conversation.guidelines
        self._test, self._loop, self._attempt = case.case_id, loop, attempt
        language = "Write in the language of the customer's first message in the conversation."
        if conversation.language is not None:
            language = f"Write in this language: {conversation.language}."
        self._system = simulation.prompt.filled(
            {
                "guidelines": conversation.guidelines or "(nothing is said about that)",
                "user_info": json.dumps(conversation.user_info, ensure_ascii=False, indent=1, sort_keys=True),
                "language": language,
            }
        )
        self.use = ModelUse()
        self.written = 0

    def describe(self) -> dict[str, Any]:
        """Return which model played the user, by which prompt, and what it used."""
        return {**self._simulation.describe(), **self.use.to_json()}

    def next_message(self, exchanges: Sequence[Exchange]) -> UserMessage:
        """Ask the model for the user's next message, once more where the first reply cannot be said.

        Raises:
            SimulatorError: Neither reply can be said, or the model gives none.
            NotEvaluable: The model would refuse every request.
        """
        problem = None
        for attempt in range(_ATTEMPTS):
            try:
                reply = self._simulation.model.complete(self._request(exchanges, attempt, problem))
            except ModelFailure as failure:
                if not failure.is_final:
                    raise SimulatorError(f"gave no message: its model {failure.problem}") from None
                raise NotEvaluable(
                    f"the model that plays the user {failure.problem}",
                    remedy=failure.remedy or "Check its key and its name.",
                ) from None
            self.use.add(reply)
            message = _parsed(reply.text)
            problem = self._problem_of(reply, message, exchanges)
            if problem is None:
                self._simulation.model.keep(self._request(exchanges, 0, None), reply)
                self.written += 1
                return message
        raise SimulatorError(str(problem))

    def _request(self, exchanges: Sequence[Exchange], attempt: int, problem: str | None) -> ModelRequest:
        """Write the conversation as the model sees it: it is the assistant, and the agent is the user.

        The note at the beginning lets the customer's own first line stay in the conversation. The one at the
        end says what was wrong with the reply before.
        """
        messages = [Message("user", (_OPENING,))]
        for exchange in exchanges:
            messages.append(Message("assistant", (exchange.message,)))
            messages.append(Message("user", (exchange.answer or _NO_TEXT,)))
        retried: dict[str, str | int] = {}
        if problem is not None:
            note = f"(Your last reply could not be used, since it {problem}. Write the customer's message.)"
            messages[-1] = Message("user", (*messages[-1].parts, note))
            retried = {"retry": attempt}
        named: dict[str, str | int] = {"test": self._test, "loop": self._loop, "turn": len(exchanges) + 1}
        return ModelRequest(
            "simulate",
            self._system,
            tuple(messages),
            reply_schema=SCHEMA,
            schema_name="user_message",
            max_tokens=_MAX_TOKENS,
            key_fields={"prompt": self._simulation.prompt.digest, **named, **retried},
            place={**named, "attempt": self._attempt},
        )

    def _problem_of(
        self, reply: ModelReply, message: UserMessage, exchanges: Sequence[Exchange]
    ) -> str | None:
        """Say why a reply cannot be said; None if it can."""
        text = message.text
        if reply.finish in STOPPED_SHORT or reply.finish is Finish.UNKNOWN:
            return f"was cut off or refused to reply ({reply.stop_reason})"
        if not text and message.ends is None:
            return "wrote nothing"
        if not text and not exchanges:
            return "stopped before the agent had answered anything"
        if _BROKEN_OBJECT.search(text):
            return "wrote JSON instead of a message"
        lines = [line.strip("- ") for line in self._simulation.prompt.text.splitlines()]
        prompt = [line for line in (*lines, self._guidelines) if len(line) >= _SHORTEST_LEAK]
        if any(_plain(line) in _plain(text) for line in prompt):
            return "wrote its instructions instead of a message"
        if text and exchanges and _plain(text) == _plain(exchanges[-1].answer):
            return "repeated the agent's last answer"
        return None


def _parsed(reply: str) -> UserMessage:
    """Read message and end from an object, with any text around it; or from a text that is the message."""
    text, ends = without_thoughts(reply), None
    try:
        value = parse(object_text(reply).encode("utf-8", "replace"), source="reply", limits=Limits())
    except InvalidInput:
        value = None
    if (
        isinstance(value, dict)
        and isinstance(value.get("message"), str)
        and value.keys() & {"done", "reason"}
    ):
        text = value["message"]
        reason = value.get("reason")
        if value.get("done") is True or reason in _ENDS:
            ends = _ENDS.get(str(reason), EndReason.STOP)
    if STOP_TOKEN in text:
        text, ends = text.replace(STOP_TOKEN, " "), ends or EndReason.STOP
    return UserMessage(text.strip(), ends)


def _plain(text: str) -> str:
    return " ".join(text.casefold().split())
