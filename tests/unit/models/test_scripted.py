"""A scripted model replies by place and text, repeats itself, and provokes every fault."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from agent_eval.contracts.event import Finish
from agent_eval.errors import InvalidInput, UsageError
from agent_eval.models.base import Message, ModelFailure, ModelOptions, ModelReply, ModelRequest
from agent_eval.models.catalog import open_model
from agent_eval.models.scripted import ScriptedModel


def ask(model: ScriptedModel, text: str = "Hello!", **place: Any) -> ModelReply:
    return model.complete(ModelRequest("simulate", "", (Message("user", (text,)),), place=place))


def test_the_first_row_that_fits_the_place_answers():
    rows = [
        {"purpose": "judge", "text": "never"},
        {"test": "refund", "loop": 1, "turn": 3, "text": "No."},
        {"test": "refund", "turn": 2, "text": "Yes."},
        {"text": "Something else."},
    ]
    model = ScriptedModel(rows)
    replies = [
        ask(model, test="refund", loop=loop, turn=turn).text for loop, turn in ((1, 2), (2, 3), (1, 3))
    ]
    assert replies == ["Yes.", "Something else.", "No."]


def test_a_row_may_depend_on_the_text_that_the_model_sees():
    rows = [{"contains": "refunded", "text": "Thanks."}, {"lacks": "sorry", "text": "Hm."}, {"text": "Fine."}]
    model = ScriptedModel(rows)
    replies = [ask(model, text).text for text in ("I refunded it", "Wait", "sorry")]
    assert replies == ["Thanks.", "Hm.", "Fine."]


def test_an_object_is_replied_as_json():
    reply = ask(ScriptedModel([{"object": {"verdict": "passed"}, "input_tokens": 12, "cost_usd": 0.5}]))
    assert json.loads(reply.text) == {"verdict": "passed"}
    assert (reply.model, reply.cost_usd, reply.usage and reply.usage.input_tokens) == ("scripted", 0.5, 12)


@pytest.mark.parametrize(
    ("row", "finish", "text"),
    [
        ({"fault": "empty"}, Finish.ENDED, ""),
        ({"fault": "cut"}, Finish.CUT, ""),
        ({"fault": "cut", "text": '{"verdict": "pas'}, Finish.CUT, '{"verdict": "pas'),
        ({"fault": "refusal"}, Finish.REFUSED, "I cannot help with that."),
    ],
)
def test_some_faults_are_replies(row: dict[str, Any], finish: Finish, text: str):
    reply = ask(ScriptedModel([row]))
    assert (reply.finish, reply.text) == (finish, text)


@pytest.mark.parametrize("fault", ["429", "down", "timeout", "invalid-key"])
def test_other_faults_are_failures(fault: str):
    with pytest.raises(ModelFailure) as caught:
        ask(ScriptedModel([{"fault": fault}]))
    assert caught.value.failure.value == ("timeout" if fault == "timeout" else "infrastructure")
    assert (caught.value.rate_limited, caught.value.is_final) == (fault == "429", fault == "invalid-key")


def test_answers_come_in_turn_for_each_place_and_the_last_one_stays():
    model = ScriptedModel([{"answers": [{"text": "first"}, {"text": "second"}]}])
    assert [ask(model, test="a").text for _ in range(3)] == ["first", "second", "second"]
    assert ask(model, test="b").text == "first"


def test_a_request_that_no_row_fits_is_a_failure_that_names_its_place():
    with pytest.raises(ModelFailure, match=r"no reply in the script for simulate at test 'refund', turn 4"):
        ask(ScriptedModel([]), test="refund", turn=4)


@pytest.mark.parametrize(
    ("row", "field"),
    [
        ({"text": "a", "object": {}}, "replies[0].answers.0"),
        ({"test": "refund"}, "replies[0].answers.0"),
        ({"text": "a", "tets": "refund"}, "replies[0].tets"),
        ({"fault": "503"}, "replies[0].answers.0.fault"),
        ({"turn": "2", "text": "a"}, "replies[0].turn"),
    ],
)
def test_a_malformed_row_is_refused_with_its_place(row: dict[str, Any], field: str):
    with pytest.raises(InvalidInput) as caught:
        ScriptedModel([row])
    assert caught.value.details["field"] == field


def test_a_script_is_read_from_a_file_of_its_kind(tmp_path: Path):
    path = tmp_path / "script.json"
    path.write_text(json.dumps({"kind": "model_script", "replies": [{"text": "Hi."}]}))
    model = open_model("scripted", ModelOptions(script=path))
    assert model.describe() == {"provider": "scripted", "model": "scripted"}
    assert model.complete(ModelRequest("judge", "", ())).text == "Hi."
    path.write_text(json.dumps({"kind": "tool_cassette", "replies": []}))
    with pytest.raises(InvalidInput, match='"kind": "model_script"'):
        open_model("scripted", ModelOptions(script=path))
    with pytest.raises(UsageError, match="no script"):
        open_model("scripted")


def test_an_unknown_provider_is_refused_with_the_nearest():
    with pytest.raises(UsageError) as caught:
        open_model("script")
    assert "Did you mean scripted?" in caught.value.remedy
