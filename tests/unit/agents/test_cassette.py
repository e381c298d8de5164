"""Recording what live tools answer, and playing it back."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from agent_eval.agents.base import ToolAnswer, ToolFault
from agent_eval.agents.cassette import Cassette, open_cassette
from agent_eval.agents.live_tools import open_tool_server
from agent_eval.errors import FailureKind, InvalidInput, UsageError
from tests.unit.agents.json_server import JsonServer
from tests.unit.agents.tasks import Retries


class Live:
    """Counts its calls, and answers with the count."""

    def __init__(self) -> None:
        self.calls: list[tuple[str, str, Any]] = []

    def call(self, case_id: str, tool: str, arguments: Any) -> ToolAnswer:
        self.calls.append((case_id, tool, arguments))
        if tool == "broken":
            return ToolAnswer(error="is broken", source="live")
        return ToolAnswer(output=len(self.calls), source="live")


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
    assert (value["kind"], value["schema_version"]) == ("tool_cassette", "1.2.0")


def test_second_attempt_at_a_case_does_not_lengthen_its_sequences(tmp_path: Path) -> None:
    cassette = open_cassette(tmp_path / "c.json", "record", Live())
    for _ in range(2):
        tools = cassette.attempt("a")
        assert tools.answer("poll", {}).source == "live"
        cassette.keep(tools.recorded())
    assert len(json.loads(cassette.to_bytes())["calls"]) == 1


def test_what_is_not_kept_leaves_nothing(tmp_path: Path) -> None:
    cassette = open_cassette(tmp_path / "c.json", "record", Live())
    cassette.attempt("a").answer("poll", {})
    assert json.loads(cassette.to_bytes())["calls"] == []


def test_what_is_played_back_is_not_recorded_again(tmp_path: Path) -> None:
    path = tmp_path / "c.json"
    record(path)
    tools = replay(path).attempt("a")
    tools.answer("poll", {"id": 1})
    assert tools.recorded() == []


def test_miss_names_the_nearest_recorded_call(tmp_path: Path) -> None:
    rows = [
        {"case_id": "a", "tool": "lookup", "arguments": {"order": 71, "full": True}, "response": 1},
        {"case_id": "a", "tool": "lookup", "arguments": {"customer": "x"}, "response": 2},
        {"case_id": "b", "tool": "refund", "arguments": {"order": 9}, "response": 3},
    ]
    cassette = Cassette("replay", rows, name="cassette c.json")
    with pytest.raises(ToolFault) as caught:
        cassette.attempt("a").answer("lookup", {"order": 72, "full": True})
    assert caught.value.failure is FailureKind.CONTRACT_VIOLATION
    assert caught.value.problem == (
        'called lookup with {"full":true,"order":72}, to which the cassette c.json has no answer; '
        'the nearest recorded call is lookup with {"full":true,"order":71}'
    )
    for case_id, tool, nearest in (
        ("a", "refund", 'refund with {"order":9}'),
        ("a", "mail", "lookup with"),
        ("z", "mail", "with"),
    ):
        with pytest.raises(ToolFault, match="has no answer") as caught:
            cassette.attempt(case_id).answer(tool, {"long": "x" * 400})
        assert nearest in caught.value.problem
        assert "…" in caught.value.problem
    with pytest.raises(ToolFault) as caught:
        Cassette("replay").attempt("a").answer("lookup", {})
    assert "nearest" not in caught.value.problem


def test_rows_without_a_case_answer_every_case_that_has_none() -> None:
    rows = [
        {"tool": "time", "response": "any"},
        {"case_id": "a", "tool": "time", "arguments": {}, "response": "own"},
    ]
    cassette = Cassette("replay", rows)
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
    assert [(row["case_id"], row["tool"], row.get("response")) for row in rows] == [
        ("a", "broken", None),
        ("a", "poll", 1),
        ("b", "broken", None),
        ("b", "poll", 1),
        ("b", "poll", 2),
    ]
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
        {"kind": "tool_cassette", "calls": {}},
        {"kind": "tool_cassette", "calls": [3]},
        {"kind": "tool_cassette", "calls": [{"tool": 3}]},
        {"kind": "tool_cassette", "calls": [{"tool": "a", "answer": 3}]},
        {"kind": "tool_cassette", "calls": [{"tool": "a", "case_id": 3}]},
    ],
)
def test_file_that_is_no_cassette(tmp_path: Path, value: Any) -> None:
    path = tmp_path / "c.json"
    path.write_text(json.dumps(value))
    with pytest.raises(InvalidInput, match="cannot be used as a cassette"):
        replay(path)


def test_tools_that_are_a_function(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "live_tools_a.py").write_text(
        "def plain(tool, arguments):\n"
        "    if tool == 'boom': raise ValueError('no such order')\n"
        "    return {'error': 'closed'} if tool == 'shut' else object() if tool == 'odd' else arguments\n"
        "def with_case(tool, arguments, case_id): return case_id\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    tools = open_tool_server("live_tools_a:plain")
    assert tools.call("c", "echo", {"a": 1}) == ToolAnswer({"a": 1}, None, "live")
    assert tools.call("c", "shut", {}).error == "closed"
    assert tools.call("c", "boom", {}).error == "ValueError: no such order"
    assert "object object" in tools.call("c", "odd", {}).output
    assert open_tool_server("live_tools_a:with_case").call("c7", "echo", {}).output == "c7"


def test_tools_behind_an_address() -> None:
    with JsonServer() as server:
        tools = open_tool_server(server.url, headers={"X-Key": "k"})
        server.answers = [
            (200, {}, b'{"response": {"a": 1}}'),
            (200, {}, b'{"error": "closed"}'),
            (200, {}, b'{"response": {"error": "inner"}}'),
        ]
        assert tools.call("c", "echo", {"x": 1}) == ToolAnswer({"a": 1}, None, "live")
        assert tools.call("c", "echo", {}).error == "closed"
        assert tools.call("c", "echo", {}).error == "inner"
        assert server.requests[0] == {"case_id": "c", "tool": "echo", "arguments": {"x": 1}}
        for status, body in ((200, b"nothing"), (200, b"[]"), (200, b"{}"), (503, b"")):
            server.answers = [(status, {}, body)]
            with pytest.raises(ToolFault) as caught:
                tools.call("c", "echo", {})
            # The agent chose the arguments that arrived: what they do to the server excuses nothing.
            assert caught.value.failure is FailureKind.AGENT_ERROR
    with pytest.raises(ToolFault, match="could not be reached") as caught:
        open_tool_server(server.url).call("c", "echo", {})
    assert caught.value.failure is FailureKind.ENVIRONMENT


def test_tools_that_refuse_are_asked_again_and_others_are_not() -> None:
    retry = Retries(3)
    with JsonServer() as server:
        tools = open_tool_server(server.url, retry=retry)
        server.answers = [
            (429, {"Retry-After": "7"}, b""),
            (429, {}, b""),
            (200, {}, b'{"response": "done"}'),
        ]
        answer = tools.call("c", "echo", {})
        assert (answer.output, answer.retries) == ("done", 2)
        assert answer.waited > 0
        assert retry.asked[0] == 7
        server.answers = [(503, {"Retry-After": "1"}, b""), (200, {}, b'{"response": "again"}')]
        with pytest.raises(ToolFault, match="called echo, and the tool server answered with HTTP 503"):
            tools.call("c", "echo", {})
        assert len(server.requests) == 4, "a call that may have been carried out was made twice"
