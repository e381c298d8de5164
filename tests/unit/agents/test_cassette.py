"""Recording what live tools answer and models reply, and playing it back."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from agent_eval.agents.base import ToolAnswer, ToolFault
from agent_eval.agents.cassette import Cassette, KeptModel, ReplyStore, key_of, open_cassette
from agent_eval.errors import FailureKind, InvalidInput, UsageError
from agent_eval.models.base import Message, ModelFailure, ModelReply, ModelRequest
from agent_eval.models.scripted import ScriptedModel
from agent_eval.storage.redaction import Redactor


class Live:
    """Counts its calls, and answers with the count."""

    def __init__(self) -> None:
        self.calls: list[Any] = []

    def __call__(self, *call: Any) -> ToolAnswer:
        self.calls.append(call)
        answer = {"error": "is broken"} if call[1] == "broken" else {"output": len(self.calls)}
        return ToolAnswer(**answer, source="live")


def record(path: Path, mode: Any = "record", live: Any = None) -> Cassette:
    cassette = open_cassette(path, mode, live or Live())
    for case_id in ("b", "a"):
        tools = cassette.attempt(case_id)
        tools.answer("poll", {"id": 1})
        tools.answer("poll", {"id": 1.0})
        tools.answer("broken", {})
        cassette.keep(tools.recorded())
    path.write_bytes(cassette.to_bytes())
    return cassette


def replay(path: Path) -> Cassette:
    return open_cassette(path, "replay")


def test_recorded_answers_are_played_back_in_their_order(tmp_path: Path) -> None:
    path = tmp_path / "c.json"
    record(path)
    for _ in range(2):
        tools = replay(path).attempt("a")
        found = [tools.answer("poll", {"id": 1}) for _ in range(3)]
        assert [answer.output for answer in found] == [4, 5, 5]
        assert tools.answer("broken", {}).error == "is broken"
        assert found[0].source == "cassette"
    assert replay(path).attempt("b").answer("poll", {"id": 1}).output == 1


def test_file_does_not_depend_on_the_order_of_cases(tmp_path: Path) -> None:
    path = tmp_path / "c.json"
    record(path)
    value = json.loads(path.read_bytes())
    assert [row["case_id"] for row in value["calls"]] == ["a"] * 3 + ["b"] * 3
    assert value["calls"][0] == {"case_id": "a", "tool": "broken", "arguments": {}, "error": "is broken"}
    assert (value["kind"], value["schema_version"]) == ("cassette", "1.2.0")


def test_second_attempt_at_a_case_does_not_lengthen_its_sequences(tmp_path: Path) -> None:
    cassette = open_cassette(tmp_path / "c.json", "record", Live())
    for _ in range(2):
        tools = cassette.attempt("a")
        assert tools.answer("poll", {}).source == "live"
        cassette.keep(tools.recorded())
    assert len(json.loads(cassette.to_bytes())["calls"]) == 1


def test_what_is_not_kept_or_played_back_is_not_recorded(tmp_path: Path) -> None:
    path = tmp_path / "c.json"
    cassette = open_cassette(path, "record", Live())
    cassette.attempt("a").answer("poll", {})
    assert json.loads(cassette.to_bytes())["calls"] == []
    record(path)
    tools = replay(path).attempt("a")
    tools.answer("poll", {"id": 1})
    assert tools.recorded() == []


def test_miss_names_the_nearest_recorded_call(tmp_path: Path) -> None:
    rows = [
        {"case_id": "a", "tool": "lookup", "arguments": {"order": 71, "full": True}, "response": 1},
        {"case_id": "a", "tool": "lookup", "arguments": {"customer": "x"}, "response": 2},
        {"case_id": "b", "tool": "refund", "arguments": {"order": "x" * 400}, "response": 3},
    ]
    cassette = Cassette("replay", rows, path=Path("c.json"))
    with pytest.raises(ToolFault) as caught:
        cassette.attempt("a").answer("lookup", {"order": 72, "full": True})
    assert caught.value.failure is FailureKind.CONTRACT_VIOLATION
    assert caught.value.problem == (
        'called lookup with {"full":true,"order":72}, to which the cassette c.json has no answer; '
        'the nearest recorded call is lookup with {"full":true,"order":71}'
    )
    with pytest.raises(ToolFault, match=r"refund with .*…"):
        cassette.attempt("a").answer("refund", {})
    with pytest.raises(ToolFault, match=r"has no answer$"):
        cassette.attempt("a").answer("mail", {})


def test_rows_without_a_case_answer_every_case_that_has_none() -> None:
    own = {"case_id": "a", "tool": "time", "arguments": {}, "response": "own"}
    cassette = Cassette("replay", [{"tool": "time", "response": "any"}, own])
    assert [cassette.attempt(name).answer("time", {}).output for name in ("a", "b")] == ["own", "any"]


def test_update_replaces_what_was_called_and_keeps_the_rest(tmp_path: Path) -> None:
    path = tmp_path / "c.json"
    record(path, "update")
    live = Live()
    cassette = open_cassette(path, "update", live)
    tools = cassette.attempt("a")
    assert tools.answer("poll", {"id": 1}).output == 1
    cassette.keep(tools.recorded())
    rows = json.loads(cassette.to_bytes())["calls"]
    responses = [(row["case_id"], row["tool"], row.get("response")) for row in rows]
    of_b = [("b", "broken", None), ("b", "poll", 1), ("b", "poll", 2)]
    assert responses == [("a", "broken", None), ("a", "poll", 1), *of_b]
    assert len(live.calls) == 1


def test_recording_over_a_file_and_recording_from_nothing_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "c.json"
    with pytest.raises(UsageError, match="no live tools"):
        open_cassette(path, "record")
    record(path)
    with pytest.raises(UsageError, match="exists already"):
        open_cassette(path, "record", Live())
    with pytest.raises(InvalidInput):
        open_cassette(tmp_path / "missing.json", "replay")


@pytest.mark.parametrize(
    "value",
    [
        [],
        {"kind": "other", "calls": []},
        {"kind": "model_cassette", "calls": []},
        {"kind": "cassette", "calls": {}},
        {"kind": "tool_cassette", "calls": [3]},
        {"kind": "tool_cassette", "calls": [{"tool": 3}]},
        {"kind": "cassette", "calls": [{"tool": "a", "answer": 3}]},
        {"kind": "cassette", "calls": [{"tool": "a", "case_id": 3}]},
    ],
)
def test_file_that_is_no_cassette(tmp_path: Path, value: Any) -> None:
    path = tmp_path / "c.json"
    path.write_text(json.dumps(value))
    with pytest.raises(InvalidInput, match="cannot be used as a cassette"):
        replay(path)


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

    def complete(self, request: ModelRequest) -> ModelReply:
        self.asked += 1
        return ModelReply(f"reply {self.asked}", rung="json_object", cost_usd=0.5)


def kept(model: Counting, path: Path | None = None, mode: Any = "auto") -> KeptModel:
    return KeptModel(DESCRIBED, ReplyStore(path, mode), lambda: model)


def ask(model: KeptModel, request: ModelRequest = REQUEST) -> ModelReply:
    reply = model.complete(request)
    model.keep(request, reply)
    return reply


def test_an_unchanged_request_is_asked_until_its_reply_is_kept():
    model = Counting()
    client = kept(model)
    assert [client.complete(REQUEST).text for _ in range(2)] == ["reply 1", "reply 2"]
    assert [ask(client).text for _ in range(3)] == ["reply 3"] * 3
    assert (ask(client).source, ask(client).cost_usd, model.asked) == ("cassette", 0.5, 3)


CHANGES: dict[str, Any] = {
    "purpose": "simulate", "system": "You judge well.", "model": "large", "max_tokens": 99,
    "messages": (Message("user", ("the conversation", "another criterion")),),
    "reply_schema": {"type": "array"}, "parameters": {"temperature": 0},
    "key_fields": {"criterion": "polite", "vote": 2},
}  # fmt: skip


@pytest.mark.parametrize("name", CHANGES)
def test_everything_that_could_change_a_reply_is_part_of_the_key(name: str):
    model = Counting()
    client = kept(model)
    ask(client)
    ask(client, replace(REQUEST, **{name: CHANGES[name]}))
    assert model.asked == 2


@pytest.mark.parametrize("described", [{"provider": "anthropic"}, {"host": "http://x"}, {"model": "large"}])
def test_another_model_is_another_key(described: dict[str, str]):
    own, other = (KeptModel({**DESCRIBED, **changed}, ReplyStore(), None) for changed in ({}, described))
    assert own.key_of(REQUEST) != other.key_of(REQUEST)


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
    client = KeptModel(DESCRIBED, store := ReplyStore(path, "record"), lambda: first)
    ask(client)
    path.write_bytes(store.to_bytes())
    row = json.loads(path.read_text())["replies"][0]
    assert (row["text"], row["rung"], row["fields"]["criterion"]) == ("reply 1", "json_object", "polite")
    assert "conversation" not in path.read_text()
    second = Counting()
    assert ask(kept(second, path, "replay")).text == "reply 1"
    auto = kept(second, path)
    assert [ask(auto).text, ask(auto, replace(REQUEST, system="New."))][0] == "reply 1"
    assert second.asked == 1


def test_what_is_not_kept_is_not_asked_in_replay(tmp_path: Path):
    path = tmp_path / "cassette.json"
    store = ReplyStore(path, "auto")
    ask(KeptModel(DESCRIBED, store, Counting))
    path.write_bytes(store.to_bytes())
    model = Counting()
    with pytest.raises(ModelFailure, match=r"cassette\.json has none to this request"):
        kept(model, path, "replay").complete(replace(REQUEST, max_tokens=99))
    assert model.asked == 0


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
        ({"kind": "cassette", "replies": [{"key": "a"}]}, "replies[0].fields"),
        ({"kind": "model_cassette", "replies": [{"key": "a", "fields": {"b": 1}, "text": ""}]},
         "replies[0].key"),
    ],
)  # fmt: skip
def test_a_file_that_is_no_cassette_or_whose_keys_were_changed_is_refused(
    tmp_path: Path, content: Any, field: str
):
    path = tmp_path / "cassette.json"
    path.write_text(json.dumps(content))
    with pytest.raises(InvalidInput) as caught:
        ReplyStore(path)
    assert caught.value.details["field"] == field


def test_one_file_holds_calls_and_replies_and_files_of_earlier_versions_are_read(tmp_path: Path):
    path, earlier = tmp_path / "both.json", tmp_path / "earlier.json"
    record(path)
    calls = json.loads(path.read_bytes())["calls"]
    store = ReplyStore(path)
    ask(KeptModel(DESCRIBED, store, Counting))
    path.write_bytes(store.to_bytes())
    record(path, "update")
    both = json.loads(path.read_bytes())
    assert (both["kind"], both["calls"] == calls, len(both["replies"])) == ("cassette", True, 1)
    assert replay(path).attempt("a").answer("poll", {"id": 1}).output == 4
    assert ask(kept(Counting(), path, "replay")).source == "cassette"
    earlier.write_text(json.dumps({"kind": "model_cassette", "replies": both["replies"]}))
    assert ask(kept(Counting(), earlier, "replay")).source == "cassette"
    earlier.write_text(json.dumps({"kind": "tool_cassette", "calls": calls}))
    assert replay(earlier).attempt("b").answer("poll", {"id": 1}).output == 1


def test_replay_needs_a_file_and_record_overwrites_none(tmp_path: Path):
    path = tmp_path / "cassette.json"
    with pytest.raises(UsageError, match="does not exist"):
        ReplyStore(path, "replay")
    path.write_bytes(ReplyStore().to_bytes())
    with pytest.raises(UsageError, match="would be overwritten"):
        ReplyStore(path, "record")
