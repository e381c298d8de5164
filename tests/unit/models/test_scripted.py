"""A scripted model replies by place and text, repeats itself, and provokes every fault."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from agent_eval.contracts.event import Finish
from agent_eval.errors import FailureKind, InvalidInput, UsageError
from agent_eval.models.base import Message, ModelFailure, ModelOptions, ModelReply, ModelRequest
from agent_eval.models.catalog import open_model
from agent_eval.models.scripted import ScriptedModel


def ask(model: ScriptedModel, text: str = "Hello!", **place: Any) -> ModelReply:
    return model.complete(ModelRequest("simulate", "", (Message("user", (text,)),), place=place))


def test_the_first_row_that_fits_the_place_answers():
    model = ScriptedModel(
        [
            {"purpose": "judge", "text": "never"},
            {"test": "refund", "loop": 1, "turn": 3, "text": "No."},
            {"test": "refund", "turn": 2, "text": "Yes."},
            {"text": "Something else."},
        ]
    )
    assert ask(model, test="refund", loop=1, turn=2).text == "Yes."
    assert ask(model, test="refund", loop=2, turn=3).text == "Something else."
    assert ask(model, test="refund", loop=1, turn=3).text == "No."


def test_a_row_may_depend_on_the_text_that_the_model_sees():
    model = ScriptedModel(
        [{"contains": "refunded", "text": "Thanks."}, {"lacks": "sorry", "text": "Hm."}, {"text": "Fine."}]
    )
    assert [ask(model, text).text for text in ("I refunded it", "Wait", "sorry")] == [
        "Thanks.",
        "Hm.",
        "Fine.",
    ]


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


@pytest.mark.parametrize(
    ("fault", "failure", "rate_limited", "is_final"),
    [
        ("429", FailureKind.INFRASTRUCTURE, True, False),
        ("down", FailureKind.INFRASTRUCTURE, False, False),
        ("timeout", FailureKind.TIMEOUT, False, False),
        ("invalid-key", FailureKind.INFRASTRUCTURE, False, True),
    ],
)
def test_other_faults_are_failures(fault: str, failure: FailureKind, rate_limited: bool, is_final: bool):
    with pytest.raises(ModelFailure) as caught:
        ask(ScriptedModel([{"fault": fault}]))
    error = caught.value
    assert (error.failure, error.rate_limited, error.is_final) == (failure, rate_limited, is_final)


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


def test_a_script_is_read_from_a_file(tmp_path: Path):
    path = tmp_path / "script.json"
    path.write_text(json.dumps({"kind": "model_script", "replies": [{"text": "Hi."}]}))
    model = open_model("scripted", ModelOptions(script=path))
    assert model.describe() == {"provider": "scripted", "model": "scripted"}
    assert model.complete(ModelRequest("judge", "", ())).text == "Hi."


def test_a_file_of_another_kind_is_refused(tmp_path: Path):
    path = tmp_path / "script.json"
    path.write_text(json.dumps({"kind": "tool_cassette", "replies": []}))
    with pytest.raises(InvalidInput, match='"kind": "model_script"'):
        ScriptedModel.from_options(ModelOptions(script=path))


def test_a_scripted_model_needs_a_script():
    with pytest.raises(UsageError, match="no script"):
        open_model("scripted")


def test_an_unknown_provider_is_refused_with_the_nearest():
    with pytest.raises(UsageError) as caught:
        open_model("script")
    assert "Did you mean scripted?" in caught.value.remedy
