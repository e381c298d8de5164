"""Services on localhost that rows talk to, and the flags by which a command is pointed at them."""

import json
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.fakes.aui import FakeAui
from tests.fakes.models import FakeAnthropic, FakeModel, FakeOpenAi, Step

POINTING = {
    "aui": ("@aui", "--set agent.base_url={url}"),
    "openai": ("@model", "--set judge_model.base_url={url}"),
    "anthropic": ("@model", "--set judge_model.base_url={url}"),
}
"""By kind of service: the word in a row's command line, and the flags that it stands for. No specification
names such flags, so that they stand here alone."""

TURNS = (
    {
        "text": "I look into it.",
        "executed_workflows": ["BILLING_INQUIRY"],
        "trace_info": {
            "understanding": {"extracted_params": {"inquiry-type": "charge", "refund-reason": "undefined"}},
            "decisions": [
                {"type": "rule", "rule": {"code": "check-billing-eligibility"}},
                {
                    "type": "call_integration",
                    "integration": {"code": "employee-information", "status_code": 200},
                },
            ],
            "response": {"type": "answer"},
        },
    },
    {
        "text": "Is there anything else?",
        "executed_workflows": ["CHARGE_EXPLAINED"],
        "trace_info": {
            "understanding": {"extracted_params": {}}, "decisions": [], "response": {"type": "answer"},
        },
    },
)  # fmt: skip
HUMAN = {**TURNS[0], "text": "A colleague takes over.", "executed_workflows": ["CONVERSATION_FORWARDING"]}
FAILED = {**TURNS[1], "text": "Sorry.", "trace_info": {"response": {"type": "error"}}}

STOP = {"message": "###STOP###", "done": True, "reason": "goal"}
TALKATIVE, IMPOSSIBLE = "talkative", "impossible"
"""Words of guidelines whose user never stops, and of a criterion that is not met."""


class SupportDesk(FakeAui):
    """An agent that explains a charge; told `human` it hands over, `break` it fails, `wait` it hangs."""

    def _next(self, place: str, *, with_trace: bool) -> dict[str, Any]:
        said = next(str(body["text"]) for *_, body in reversed(self.requests) if body.get("task_id") == place)
        if "wait" in said:
            time.sleep(3)
        self.answers = [HUMAN] if "human" in said else [FAILED] if "break" in said else list(TURNS)
        return super()._next(place, with_trace=with_trace)


def reply_to(request: dict[str, Any], number: int) -> Step:
    """Judge a criterion, or end the conversation as the simulated user."""
    asked = json.dumps(request)
    if "verdict" not in asked:
        goes_on = {"message": f"And then, after {number}?", "done": False, "reason": ""}
        return Step(text=json.dumps(goes_on if TALKATIVE in asked else STOP))
    verdict = "failed" if IMPOSSIBLE in asked else "passed"
    return Step(text=json.dumps({"reasoning": "Read.", "evidence": [], "verdict": verdict}))


class OpenAi(FakeOpenAi):
    def answer(self, request: dict[str, Any], step: Step, number: int) -> dict[str, Any]:
        return super().answer(request, reply_to(request, number), number)


class Anthropic(FakeAnthropic):
    def answer(self, request: dict[str, Any], step: Step, number: int) -> dict[str, Any]:
        return super().answer(request, reply_to(request, number), number)


@contextmanager
def serving(kind: str, record: Path | None = None) -> Iterator[str]:
    """Start a service of `POINTING`; yields its address.

    Args:
        kind: Of the service.
        record: The file to which, at the end, each request is written as a line of JSON.
    """
    seen: list[Any]
    if kind == "aui":
        with SupportDesk() as desk:
            yield desk.url
        seen = [{"path": path, "body": body} for _, path, _, body in desk.requests]
    else:
        model: FakeModel = {"openai": OpenAi, "anthropic": Anthropic}[kind]()
        with model:
            yield model.base_url
        seen = [
            {"key": key, "body": body} for key, body in zip(model.authorizations, model.requests, strict=True)
        ]
    if record is not None:
        record.write_text("".join(f"{json.dumps(each)}\n" for each in seen))
