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

from agent_eval.contracts.conversation import STOP_TOKEN, EndReason
from agent_eval.contracts.event import STOPPED_SHORT, Finish
from agent_eval.contracts.suite import Conversation
from agent_eval.errors import InvalidInput, NotEvaluable
from agent_eval.models.base import Message, Model, ModelFailure, ModelReply, ModelRequest
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


MOST_CHARACTERS = 2000
"""Longest message of a simulated user: people who chat write less, and reasoning is longer."""

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

_LEAKS = re.compile(
    r"\A\s*(?:thoughts?|thinking|reasoning|analysis|assistant|agent|customer|user)\s*:"
    r"|</?think(?:ing)?>|\bas the (?:simulated )?(?:user|customer)\b|\bas an ai\b",
    re.IGNORECASE,
)
"""Reasoning, or a role, in what should be a message of a person."""
_JSON = re.compile(r"\A\s*[\[{].*[\]}]\s*\Z|```|\"message\"\s*:", re.DOTALL)
_NAMED = re.compile(r"\b(?=[\w-]*\d)\w[\w-]*\w\b")
"""A number or an id of two characters or more."""


class SimulatorError(Exception):
    """The simulated user wrote nothing that can be said, or its model gave no reply.

    `problem` says why, in words that follow "the simulated user".
    """

    def __init__(self, problem: str) -> None:
        super().__init__(problem)
        self.problem = problem


@dataclass(frozen=True, slots=True)
class Simulation:
    """How users are simulated in a run."""

    model: Model
    prompt: Prompt = field(default_factory=released_prompt)

    def describe(self) -> dict[str, Any]:
        """Return what tells runs with different users apart: the model, and the prompt by its digest."""
        return {**self.model.describe(), "prompt": self.prompt.name, "prompt_sha256": self.prompt.digest}


@dataclass(frozen=True, slots=True)
class Place:
    """Which conversation it is: for scripts, and for keys of recorded replies.

    Attributes:
        loop: Number of the trial, from 1.
        attempt: Number of the attempt, from 0.
    """

    test: str
    loop: int = 1
    attempt: int = 0


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
    warnings: tuple[str, ...] = ()


class SimulatedUser:
    """The user of one conversation, played by a model."""

    def __init__(self, simulation: Simulation, conversation: Conversation, place: Place) -> None:
        self._simulation, self._conversation, self._place = simulation, conversation, place
        self._info = json.dumps(conversation.user_info, ensure_ascii=False, indent=1, sort_keys=True)
        language = "Write in the language of the customer's first message in the conversation."
        if conversation.language is not None:
            language = f"Write in this language: {conversation.language}."
        self._system = simulation.prompt.filled(
            {
                "guidelines": conversation.guidelines or "(nothing is said about that)",
                "user_info": self._info,
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
            NotEvaluable: The model would refuse every request.
        """
        problem = ""
        for attempt in range(_ATTEMPTS):
            try:
                reply = self._simulation.model.complete(self._request(exchanges, attempt))
            except ModelFailure as failure:
                if not failure.is_final:
                    raise SimulatorError(f"gave no message: its model {failure.problem}") from None
                raise NotEvaluable(
                    f"the model that plays the user {failure.problem}",
                    remedy=failure.remedy or "Check its key and its name.",
                ) from None
            self.use.add(reply)
            problem, message = self._read(reply, exchanges)
            if not problem:
                self._simulation.model.keep(self._request(exchanges, 0), reply)
                self.written += 1
                return message
        raise SimulatorError(problem)

    def _request(self, exchanges: Sequence[Exchange], attempt: int) -> ModelRequest:
        place = self._place
        turn = len(exchanges) + 1
        named: dict[str, str | int] = {"test": place.test, "loop": place.loop, "turn": turn}
        retried: dict[str, str | int] = {"retry": attempt} if attempt else {}
        return ModelRequest(
            "simulate",
            self._system,
            _messages(exchanges),
            reply_schema=SCHEMA,
            schema_name="user_message",
            max_tokens=_MAX_TOKENS,
            key_fields={"prompt": self._simulation.prompt.digest, **named, **retried},
            place={**named, "attempt": place.attempt},
        )

    def _read(self, reply: ModelReply, exchanges: Sequence[Exchange]) -> tuple[str, UserMessage]:
        """Read a reply; return why it cannot be said, or an empty text, with the message."""
        if reply.finish in STOPPED_SHORT or reply.finish is Finish.UNKNOWN:
            return f"was cut off or refused to reply ({reply.stop_reason})", UserMessage("")
        text, ends = _parsed(reply.text)
        if not text and ends is None:
            return "wrote nothing", UserMessage("")
        if not text and not exchanges:
            return "stopped before the agent had answered anything", UserMessage("")
        return _problem_of(text, exchanges), UserMessage(text, ends, self._warnings(text, exchanges))

    def _warnings(self, text: str, exchanges: Sequence[Exchange]) -> tuple[str, ...]:
        """Name the numbers and ids that the user cannot know."""
        parts = (part for exchange in exchanges for part in (exchange.message, exchange.answer))
        known = "\n".join([self._conversation.guidelines, self._info, *parts]).casefold()
        names = dict.fromkeys(name for name in _NAMED.findall(text) if name.casefold() not in known)
        return tuple(f"{name!r} is in neither user_info, guidelines nor conversation" for name in names)


def _messages(exchanges: Sequence[Exchange]) -> tuple[Message, ...]:
    """Write the conversation as the model sees it: it is the assistant, and the agent is the user.

    The note at the beginning lets the customer's own first line stay in the conversation.
    """
    messages = [Message("user", (_OPENING,))]
    for exchange in exchanges:
        messages.append(Message("assistant", (exchange.message,)))
        messages.append(Message("user", (exchange.answer or _NO_TEXT,)))
    return tuple(messages)


def _parsed(reply: str) -> tuple[str, EndReason | None]:
    """Read message and end from an object, or from a text that is the message itself."""
    text, ends = reply, None
    try:
        value = parse(reply.encode("utf-8", "replace"), source="reply", limits=Limits())
    except InvalidInput:
        value = None
    if isinstance(value, dict) and isinstance(value.get("message"), str) and value.keys() <= _MEMBERS:
        text = value["message"]
        reason = value.get("reason")
        if value.get("done") is True or reason in _ENDS:
            ends = _ENDS.get(str(reason), EndReason.STOP)
    if STOP_TOKEN in text:
        text, ends = text.replace(STOP_TOKEN, " "), ends or EndReason.STOP
    return text.strip(), ends


_MEMBERS = SCHEMA["properties"].keys()
_ENDS = {"goal": EndReason.GOAL, "stop": EndReason.STOP}


def _problem_of(text: str, exchanges: Sequence[Exchange]) -> str:
    """Say why a message cannot be said; an empty text if it can."""
    if len(text) > MOST_CHARACTERS:
        return f"wrote {len(text):,} characters, more than {MOST_CHARACTERS:,}"
    if _JSON.search(text):
        return "wrote JSON instead of a message"
    if _LEAKS.search(text):
        return "wrote reasoning or a role instead of a message"
    last = exchanges[-1] if exchanges else None
    if last is not None and text and _plain(text) in (_plain(last.message), _plain(last.answer)):
        return "repeated its own last message, or the agent's"
    return ""


def _plain(text: str) -> str:
    return " ".join(text.casefold().split())
