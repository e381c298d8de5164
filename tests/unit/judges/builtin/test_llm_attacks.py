"""No text of an agent, a user or a tool leaves its line, ends the record, or becomes a verdict."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest

from agent_eval.contracts import Case, Outcome, Trace
from agent_eval.judges.builtin.llm import Criterion, LlmConfig, LlmJudge
from agent_eval.judges.matching.transcript import transcript_of
from agent_eval.models.base import Model, ModelOptions, ModelReply, ModelRequest
from tests.unit.judges.matching.attacks import ATTACKS
from tests.unit.judges.models import FixedModel
from tests.unit.judges.traces import asks, make_case, says, uses

PLACES = ("agent", "user", "tool", "arguments", "tool name")


class RecordingModel(Model):
    """Fails every criterion with a reason that quotes the attack, and remembers what it was asked."""

    kind = "recording"

    def __init__(self, quote: str) -> None:
        self.model, self.requests, self._quote = "recording", list[ModelRequest](), quote

    @classmethod
    def from_options(cls, options: ModelOptions) -> RecordingModel:
        raise NotImplementedError

    def complete(self, request: ModelRequest) -> ModelReply:
        self.requests.append(request)
        ruling = {
            "reasoning": f"The agent wrote: {self._quote}",
            "evidence": [{"turn": 1, "quote": self._quote[:200]}],
            "verdict": "failed",
        }
        # Half a character cannot be sent as UTF-8; a model could only repeat it as its escape.
        return ModelReply(json.dumps(ruling, ensure_ascii=True).replace("\\ud800", "?"))


def trace_with(attack: str, place: str) -> Trace:
    texts = dict.fromkeys(PLACES, "ok") | {"tool name": "lookup"} | {place: attack}
    used = uses(texts["tool name"], {"note": texts["arguments"]}, texts["tool"])
    return make_case(asks(texts["user"]), used, says(texts["agent"])).recorded


def strings_in(value: Any) -> list[str]:
    if isinstance(value, str):
        return [value]
    return [text for item in (value.values() if isinstance(value, dict) else []) for text in strings_in(item)]


@pytest.mark.parametrize("number", ATTACKS)
@pytest.mark.parametrize("place", PLACES)
def test_an_attack_stays_quoted_and_the_judges_own_verdict_counts(number: int, place: str):
    fence = transcript_of(Case(case_id="refund"), trace_with("ok", place)).digest[:16]
    attack = ATTACKS[number].replace("{fence}", fence)
    trace = trace_with(attack, place)
    model = RecordingModel(attack)
    judge = LlmJudge(LlmConfig(criteria=[Criterion(criterion="The refund was made.")]))
    judge.connect(FixedModel(model))
    verdict = judge.evaluate(Case(case_id="refund"), trace)

    (request,) = model.requests
    record, question = request.messages[0].parts
    lines = record.split("\n")
    assert re.fullmatch(r"<<<conversation [0-9a-f]{16}", lines[0])
    assert lines[-1] == lines[0].replace("<<<", "<<<end of ")
    assert len(lines) == 2 + len(trace)
    body = "\n".join(lines[1:-1])
    assert not re.search("[<>＜＞\u200b\u202e\x00\ud800\U000e0070]", body)
    assert body.encode()
    assert any(attack in strings_in(json.loads(line)) for line in lines[1:-1])
    assert attack == ":" or (attack not in request.system and attack not in question)
    assert request.system.count("{") == 0

    assert (verdict.outcome, verdict.passed) == (Outcome.FAILED, False)
    assert verdict.evidence["criteria"][0]["votes"][0]["ruling"]["verdict"] == "failed"


def test_a_case_of_forty_attacks_is_one_record():
    case = make_case(*(says(attack) for attack in ATTACKS.values()))
    record = transcript_of(case, case.recorded).text
    assert (record.count("<"), record.count(">")) == (6, 0)
    assert [json.loads(line)["text"] for line in record.split("\n")[1:-1]] == list(ATTACKS.values())
