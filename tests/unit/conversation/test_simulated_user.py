"""The model that plays the user: what it sees, what of its replies is said, and what is its own failure."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from agent_eval.contracts import Case
from agent_eval.contracts.conversation import STOP_TOKEN, EndReason
from agent_eval.contracts.suite import Conversation
from agent_eval.conversation.simulated_user import (
    Exchange,
    Prompt,
    SimulatedUser,
    Simulation,
    SimulatorError,
    UserMessage,
    read_prompt,
    released_prompt,
)
from agent_eval.errors import InvalidInput, NotEvaluable
from agent_eval.models.base import ModelReply, ModelRequest
from agent_eval.models.scripted import ScriptedModel

GUIDELINES = "You want a refund, and nothing else than that."
JANE = Conversation(guidelines=GUIDELINES, user_info={"name": "Jane", "order": "A-17"})
HELLO = [Exchange("Hello", "How can I help?")]


class Remembering(ScriptedModel):
    """A scripted model that remembers its requests."""

    def __init__(self, *rows: dict[str, Any]) -> None:
        super().__init__(rows)
        self.requests: list[ModelRequest] = []

    def complete(self, request: ModelRequest) -> ModelReply:
        self.requests.append(request)
        return super().complete(request)


def played(*rows: dict[str, Any], conversation: Conversation = JANE) -> tuple[SimulatedUser, Remembering]:
    model = Remembering(*rows)
    case = Case(case_id="refund", conversation=conversation)
    return SimulatedUser(Simulation(model), case, loop=2), model


def says(*rows: dict[str, Any], exchanges: list[Exchange] = HELLO) -> UserMessage:
    return played(*rows)[0].next_message(exchanges)


def test_it_sees_guidelines_user_info_and_texts_with_its_own_first_line() -> None:
    user, model = played({"text": "Order A-17."})
    user.next_message([*HELLO, Exchange("My order.", "")])
    (request,) = model.requests
    assert GUIDELINES in request.system
    assert '"order": "A-17"' in request.system
    assert [(message.role, message.text) for message in request.messages][1:] == [
        ("assistant", "Hello"),
        ("user", "How can I help?"),
        ("assistant", "My order."),
        ("user", "(no text)"),
    ]
    assert request.messages[0].role == "user"
    assert (request.purpose, request.parameters) == ("simulate", {})


def test_a_reply_is_recorded_under_prompt_test_loop_and_turn() -> None:
    user, model = played({"text": ""}, {"text": "Order A-17."})
    with pytest.raises(SimulatorError):
        user.next_message(HELLO)
    first, second = (dict(request.key_fields) for request in model.requests)
    assert first == {"prompt": released_prompt().digest, "test": "refund", "loop": 2, "turn": 2}
    assert second == {**first, "retry": 1}
    assert model.requests[0].place == {"test": "refund", "loop": 2, "turn": 2, "attempt": 0}


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ({"text": " Yes, please. "}, UserMessage("Yes, please.")),
        ({"object": {"message": "Yes.", "done": False, "reason": "continue"}}, UserMessage("Yes.")),
        ({"object": {"message": "Yes", "done": False, "mood": "calm"}}, UserMessage("Yes")),
        ({"text": '```json\n{"message": "Yes", "done": false}\n```'}, UserMessage("Yes")),
        ({"text": 'Here it is: {"message": "Yes", "done": false}.'}, UserMessage("Yes")),
        ({"text": '<think>{"done": true}</think>{"message": "Yes", "done": false}'}, UserMessage("Yes")),
        ({"object": {"message": "Thanks!", "done": True, "reason": "goal"}},
         UserMessage("Thanks!", EndReason.GOAL)),
        ({"object": {"message": "", "done": True, "reason": "stop"}}, UserMessage("", EndReason.STOP)),
        ({"object": {"message": "Bye", "done": False, "reason": "goal"}}, UserMessage("Bye", EndReason.GOAL)),
        ({"object": {"message": "", "done": True, "reason": "continue"}}, UserMessage("", EndReason.STOP)),
        ({"text": STOP_TOKEN}, UserMessage("", EndReason.STOP)),
        ({"text": f"Bye.{STOP_TOKEN}"}, UserMessage("Bye.", EndReason.STOP)),
        ({"object": {"message": f"Bye {STOP_TOKEN}", "done": True, "reason": "goal"}},
         UserMessage("Bye", EndReason.GOAL)),
    ],
)  # fmt: skip
def test_message_and_end_are_read_from_the_reply(row: dict[str, Any], message: UserMessage) -> None:
    assert says(row) == message


@pytest.mark.parametrize(
    ("row", "problem"),
    [
        ({"text": ""}, "wrote nothing"),
        ({"text": " \n"}, "wrote nothing"),
        ({"object": {"message": "", "done": False, "reason": "continue"}}, "wrote nothing"),
        ({"text": "<think>The agent wants my order."}, "wrote nothing"),
        ({"text": '{"message": "Yes", "done": false'}, "wrote JSON"),
        ({"text": "I was told: " + released_prompt().text.splitlines()[0]}, "wrote its instructions"),
        ({"text": GUIDELINES}, "wrote its instructions"),
        ({"text": "How can I  help?"}, "repeated the agent's"),
        ({"fault": "cut", "text": "Yes, ple"}, "was cut off"),
        ({"fault": "refusal"}, "was cut off or refused"),
        ({"fault": "empty"}, "wrote nothing"),
    ],
)
def test_what_cannot_be_said_is_asked_for_once_more(row: dict[str, Any], problem: str) -> None:
    good = {"text": "Order A-17, please."}
    answers = [{name: value for name, value in row.items() if name != "turn"}, good]
    user, model = played({"answers": answers})
    assert user.next_message(HELLO).text == good["text"]
    assert model.requests[1].messages[-1].text.startswith("How can I help?\n\n(Your last reply could not be")
    assert re.search(problem, model.requests[1].messages[-1].text)
    assert (len(model.requests), user.written, user.use.to_json()["calls"]) == (2, 1, 2)
    with pytest.raises(SimulatorError, match=problem):
        says(row)


@pytest.mark.parametrize(
    "line",
    [
        *("hello ", "Yes.", "Customer: A-17", "As the customer I expect a refund", "As the user, I agree."),
        *("[urgent]", "{see below}", "Thinking: maybe tomorrow", "User: me", "It prints ```x = {}```"),
        *('The app says {"answer": "no"}', "Please " * 500 + "help", "I want a refund."),
    ],
)
def test_what_people_write_is_said_as_it_is(line: str) -> None:
    assert says({"text": line}).text == line.strip()


@pytest.mark.parametrize(
    ("row", "exchanges", "error", "problem"),
    [
        *(({"fault": fault}, HELLO, SimulatorError, "its model") for fault in ("429", "down", "timeout")),
        ({"text": STOP_TOKEN}, [], SimulatorError, "stopped before the agent had answered"),
        ({"fault": "invalid-key"}, HELLO, NotEvaluable,
         "the model that plays the user answered with HTTP 401"),
    ],
)  # fmt: skip
def test_a_model_that_gives_no_reply_is_the_simulated_users_failure_or_ends_the_run(
    row: dict[str, Any], exchanges: list[Exchange], error: type[Exception], problem: str
) -> None:
    with pytest.raises(error, match=problem):
        says(row, exchanges=exchanges)


@pytest.mark.parametrize(
    ("language", "words"), [(None, "the customer's first message"), ("Portuguese", "Portuguese")]
)
def test_the_language_is_that_of_the_first_message_unless_it_is_named(
    language: str | None, words: str
) -> None:
    user, model = played({"text": "Oi"}, conversation=Conversation(language=language))
    user.next_message(HELLO)
    assert words in model.requests[0].system


def test_the_prompt_can_be_replaced_and_is_known_by_its_digest(tmp_path: Path) -> None:
    (tmp_path / "prompt.md").write_text("Act: {{guidelines}} Know: {{user_info}}")
    own, model = read_prompt(tmp_path / "prompt.md"), Remembering({"text": "Hi"})
    simulation = Simulation(model, own)
    tricky = Conversation(guidelines="{{user_info}} {{guidelines}}", user_info={"a": "{{language}}"})
    SimulatedUser(simulation, Case(case_id="a", conversation=tricky)).next_message(HELLO)
    assert model.requests[0].system.startswith("Act: {{user_info}} {{guidelines}} Know: {")
    assert "{{language}}" in model.requests[0].system
    assert simulation.describe()["prompt_sha256"] == own.digest != released_prompt().digest
    for text in (b"Act: {{guidelines}}", b"{{user_info}}", b"\xff{{guidelines}}{{user_info}}"):
        (tmp_path / "prompt.md").write_bytes(text)
        with pytest.raises(InvalidInput, match=r"prompt\.md"):
            read_prompt(tmp_path / "prompt.md")


def test_the_released_prompt_has_every_place_and_never_changes() -> None:
    prompt = released_prompt()
    assert all(f"{{{{{name}}}}}" in prompt.text for name in ("guidelines", "user_info", "language"))
    assert prompt == Prompt("user-1", prompt.text)
    assert prompt.digest == "d148637bc46045395c72f16b724d60f4b36382dbf7e8f8050e9ac22a49541556"
