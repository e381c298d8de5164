"""Kept replies answer exactly the requests that they were given to, and nothing unusable is kept."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from agent_eval.errors import InvalidInput, UsageError
from agent_eval.models.base import Message, ModelFailure, ModelOptions, ModelReply, ModelRequest
from agent_eval.models.cassette import KeptModel, ReplyStore, key_fields, key_of
from agent_eval.models.scripted import ScriptedModel
from agent_eval.storage.redaction import Redactor

DESCRIBED = {"provider": "openai", "host": "https://api.openai.com", "model": "small"}
REQUEST = ModelRequest(
    "judge",
    "You judge.",
    (Message("user", ("the conversation", "the criterion")),),
    reply_schema={"type": "object"},
    key_fields={"criterion": "polite", "vote": 1},
    place={"test": "refund"},
)


class Counting(ScriptedModel):
    """Answers with the number of the request."""

    def __init__(self) -> None:
        super().__init__([])
        self.asked = 0

    @classmethod
    def from_options(cls, options: ModelOptions) -> Counting:
        return cls()

    def complete(self, request: ModelRequest) -> ModelReply:
        self.asked += 1
        return ModelReply(f"reply {self.asked}", rung="json_object", cost_usd=0.5)


def kept(model: Counting, path: Path | None = None, mode: Any = "auto", **described: str) -> KeptModel:
    return KeptModel({**DESCRIBED, **described}, ReplyStore(path, mode), lambda: model, date="2026-11-22")


def ask(model: KeptModel, request: ModelRequest = REQUEST) -> ModelReply:
    reply = model.complete(request)
    model.keep(request, reply)
    return reply


def test_an_unchanged_request_is_asked_once():
    model = Counting()
    client = kept(model)
    assert [ask(client).text for _ in range(3)] == ["reply 1"] * 3
    assert (ask(client).source, ask(client).cost_usd, model.asked) == ("cassette", 0.5, 1)


def test_a_reply_that_was_not_kept_is_asked_again():
    model = Counting()
    client = kept(model)
    client.complete(REQUEST)
    client.complete(REQUEST)
    assert model.asked == 2


CHANGES: dict[str, Any] = {
    "purpose": "compare",
    "system": "You judge well.",
    "messages": (Message("user", ("the conversation", "another criterion")),),
    "reply_schema": {"type": "array"},
    "max_tokens": 99,
    "model": "large",
    "parameters": {"temperature": 0},
    "key_fields": {"criterion": "polite", "vote": 2},
}


@pytest.mark.parametrize("name", CHANGES)
def test_everything_that_could_change_a_reply_is_part_of_the_key(name: str):
    model = Counting()
    client = kept(model)
    ask(client)
    ask(client, replace(REQUEST, **{name: CHANGES[name]}))
    assert model.asked == 2


@pytest.mark.parametrize("described", [{"provider": "anthropic"}, {"host": "http://x"}, {"model": "large"}])
def test_another_model_is_another_key(described: dict[str, str]):
    fields = [key_fields(REQUEST, {**DESCRIBED, **changed}, "json_schema") for changed in ({}, described)]
    assert key_of(fields[0]) != key_of(fields[1])


def test_where_a_request_comes_from_is_no_part_of_the_key():
    model = Counting()
    client = kept(model)
    ask(client)
    ask(client, replace(REQUEST, place={"test": "another"}, seconds=9.0, shared_prefix=True))
    assert model.asked == 1


def test_a_text_cannot_be_moved_between_fields():
    assert key_of({"a": "bc"}) != key_of({"ab": "c"})
    assert key_of({"vote": 1}) != key_of({"vote": "1"})


def test_a_file_is_recorded_replayed_and_added_to(tmp_path: Path):
    path = tmp_path / "cassette.json"
    first = Counting()
    client = KeptModel(DESCRIBED, store := ReplyStore(path, "record"), lambda: first, date="2026-11-22")
    ask(client)
    path.write_bytes(store.to_bytes())
    row = json.loads(path.read_text())["replies"][0]
    assert (row["text"], row["date"], row["rung"], row["fields"]["criterion"]) == (
        "reply 1",
        "2026-11-22",
        "json_object",
        "polite",
    )
    assert "conversation" not in path.read_text()
    second = Counting()
    assert ask(kept(second, path, "replay")).text == "reply 1"
    auto = kept(second, path)
    assert [ask(auto).text, ask(auto, replace(REQUEST, system="New."))][0] == "reply 1"
    assert second.asked == 1


def test_a_miss_in_replay_names_what_differs(tmp_path: Path):
    path = tmp_path / "cassette.json"
    store = ReplyStore(path, "auto")
    ask(KeptModel(DESCRIBED, store, Counting))
    path.write_bytes(store.to_bytes())
    changed = replace(REQUEST, max_tokens=99)
    with pytest.raises(ModelFailure, match=r"the nearest kept one differs in .*max_tokens"):
        kept(Counting(), path, "replay").complete(changed)


def test_replies_of_sealed_evidence_are_used_and_not_written_into_the_file(tmp_path: Path):
    store = ReplyStore(tmp_path / "cassette.json")
    model = KeptModel(DESCRIBED, store, None)
    store.add_evidence([(model.key_of(REQUEST), ModelReply("sealed", cost_usd=1.0, retries=3))])
    reply = ask(model)
    assert (reply.text, reply.source, reply.cost_usd, reply.retries) == ("sealed", "baseline", 1.0, 0)
    assert not store.has_changed


def test_a_model_that_cannot_be_opened_is_infrastructure():
    def no_key() -> ScriptedModel:
        raise UsageError("there is no key", remedy="Set it.")

    with pytest.raises(ModelFailure, match="cannot be asked: there is no key") as caught:
        KeptModel(DESCRIBED, ReplyStore(), no_key).complete(REQUEST)
    assert (caught.value.failure, caught.value.remedy) == ("infrastructure", "Set it.")


def test_a_reply_that_holds_a_secret_is_not_written(tmp_path: Path):
    store = ReplyStore(tmp_path / "cassette.json")
    model = KeptModel(DESCRIBED, store, None)
    model.keep(REQUEST, ModelReply("the key is canary-0123456789"))
    model.keep(replace(REQUEST, system="b"), ModelReply("harmless"))
    rows = json.loads(store.to_bytes(Redactor(["canary-0123456789"])))["replies"]
    assert [row["text"] for row in rows] == ["harmless"]


@pytest.mark.parametrize(
    ("content", "field"),
    [
        ({"kind": "tool_cassette", "replies": []}, "kind"),
        ({"kind": "model_cassette", "replies": [{"key": "a"}]}, "replies[0].fields"),
        (
            {"kind": "model_cassette", "replies": [{"key": "a", "fields": {"b": 1}, "text": ""}]},
            "replies[0].key",
        ),
    ],
)
def test_a_file_that_is_no_cassette_or_whose_keys_were_changed_is_refused(
    tmp_path: Path, content: Any, field: str
):
    path = tmp_path / "cassette.json"
    path.write_text(json.dumps(content))
    with pytest.raises(InvalidInput) as caught:
        ReplyStore(path)
    assert caught.value.details["field"] == field


def test_replay_needs_a_file_and_record_overwrites_none(tmp_path: Path):
    path = tmp_path / "cassette.json"
    with pytest.raises(UsageError, match="does not exist"):
        ReplyStore(path, "replay")
    path.write_bytes(ReplyStore().to_bytes())
    with pytest.raises(UsageError, match="would be overwritten"):
        ReplyStore(path, "record")


@pytest.mark.parametrize(
    ("answered", "date", "mode", "is_reused"),
    [
        ("small-2026-08-07", "2026-10-23", "auto", True),
        ("small-2026-08-07", "2026-10-22", "auto", False),
        ("small-2026-08-07", "2026-10-22", "replay", True),
        ("small", "2020-01-01", "auto", True),
    ],
)
def test_replies_of_an_alias_expire(tmp_path: Path, answered: str, date: str, mode: Any, is_reused: bool):
    store = ReplyStore(path := tmp_path / "cassette.json")
    KeptModel(DESCRIBED, store, None, date=date).keep(REQUEST, ModelReply("kept", model=answered))
    path.write_bytes(store.to_bytes())
    model = Counting()
    assert kept(model, path, mode).complete(REQUEST).text == ("kept" if is_reused else "reply 1")


def test_the_texts_of_a_request_are_digested_once_for_all_its_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    digested: list[ModelRequest] = []

    def counting(request: ModelRequest, *more: Any) -> dict[str, str | int]:
        digested.append(request)
        return key_fields(request, *more)

    monkeypatch.setattr("agent_eval.models.cassette.key_fields", counting)
    client = kept(Counting())
    other = replace(REQUEST, system="You are strict.")
    for request in (REQUEST, other):
        key = client.key_of(request)
        ask(client, request)
        assert client.key_of(request) == key
    assert digested == [REQUEST, other]
    assert ask(client, replace(REQUEST)).source == "cassette"
