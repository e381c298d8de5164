"""Answers to tool calls: from a case's metadata, or of live tools, which are a function or an address."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from agent_eval.agents.base import ToolAnswer, ToolFault
from agent_eval.agents.live_tools import open_tool_server
from agent_eval.agents.tools import CaseTools, call_key, canonical, key_of_fingerprint
from agent_eval.contracts import Case
from agent_eval.errors import FailureKind, InvalidInput
from tests.fakes.json_server import JsonServer
from tests.unit.agents.tasks import Retries

JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**53), 2**53)
    | st.text(st.characters(exclude_categories=["Cs"])),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text("ab:{[", max_size=3), inner, max_size=3)
    ),
    max_leaves=8,
)


def case(**metadata: Any) -> Case:
    return Case(case_id="c1", metadata=metadata)


def answers(tools: CaseTools, *calls: tuple[str, Any]) -> list[tuple[Any, Any]]:
    found = [tools.answer(tool, arguments) for tool, arguments in calls]
    return [(answer.output, answer.error) for answer in found]


@pytest.mark.parametrize(
    "cassette",
    [
        {'pay::{"sum": 5, "to": "ann"}': "paid"},
        {'pay::{"to":"ann",   "sum":5.0}': "paid"},
        [{"tool": "pay", "arguments": {"to": "ann", "sum": 5}, "response": "paid"}],
        [{"tool": "pay", "arguments": '{"to": "ann", "sum": 5}', "response": "paid"}],
    ],
)
def test_calls_are_matched_on_canonical_arguments(cassette: Any) -> None:
    tools = CaseTools(case(tool_response_cassette=cassette))
    calls = [
        ("pay", {"sum": 5, "to": "ann"}),
        ("pay", {"to": "ann", "sum": 5.0}),
        ("pay", '{"to": "ann", "sum": 5}'),
    ]
    assert answers(tools, *calls) == [("paid", None)] * 3
    others = [("pay", {"sum": 5}), ("pay", {"sum": True, "to": "ann"}), ("Pay", {"sum": 5, "to": "ann"})]
    assert answers(tools, *others) == [(None, "unknown_tool")] * 3


@example("a", [{"::{": None}])
@example("a::b", {"x::[": ["::{"]})
@given(st.text("abc:", min_size=1, max_size=5).filter(lambda name: "::" not in f"{name}:"), JSON)
def test_fingerprints_name_the_call_they_were_made_of(tool: str, arguments: Any) -> None:
    if not isinstance(arguments, dict | list):
        arguments = {"value": arguments}
    assert key_of_fingerprint(f"{tool}::{json.dumps(arguments)}") == call_key(tool, arguments)
    assert key_of_fingerprint(f"{tool}::{json.dumps(arguments, indent=1)}") == call_key(tool, arguments)


@given(JSON)
def test_canonical_arguments_do_not_depend_on_how_they_are_written(arguments: Any) -> None:
    if isinstance(arguments, dict | list):
        assert canonical(json.dumps(arguments)) == canonical(arguments)
    assert canonical(json.loads(json.dumps(arguments))) == canonical(arguments)


def test_text_that_only_looks_like_json_is_text() -> None:
    assert canonical("{not json") == '"{not json"'
    assert key_of_fingerprint("say::hello") == ("say", '"hello"')
    assert key_of_fingerprint("no separator") is None


def test_rows_for_the_same_call_answer_its_repetitions_and_the_last_one_the_rest() -> None:
    cassette = [
        {"tool": "poll", "arguments": {}, "response": "busy"},
        {"tool": "poll", "arguments": {"id": 1}, "response": "other"},
        {"tool": "poll", "responses": ["busy still", "done"]},
    ]
    tools = CaseTools(case(tool_response_cassette=cassette))
    found = answers(tools, *[("poll", {})] * 4, ("poll", {"id": 1}), ("poll", None))
    assert [output for output, _ in found] == ["busy", "busy still", "done", "done", "other", "done"]
    assert answers(CaseTools(case(tool_response_cassette=cassette)), ("poll", {})) == [("busy", None)]


def test_an_object_with_an_error_is_an_error() -> None:
    responses = {"classic": {"error": "no stock", "output": 3}, "sum": {"error": None, "sum": 1}, "none": {}}
    tools = CaseTools(case(tool_responses=responses))
    calls = ("classic", {}), ("sum", {}), ("none", {}), ("none", 1)
    outputs = [(3, "no stock"), ({"error": None, "sum": 1}, None), ({}, None), ({}, None)]
    assert answers(tools, *calls) == outputs


def test_single_calls_come_before_names_of_tools() -> None:
    metadata = {"tool_response_cassette": {'a::{"x": 1}': "one"}, "tool_responses": {"a": "any", "b": None}}
    tools = CaseTools(case(**metadata))
    calls = ("a", {"x": 1}), ("a", {"x": 2}), ("b", {})
    assert answers(tools, *calls) == [("one", None), ("any", None), (None, None)]
    sources = [tools.answer(*call).source for call in (("a", {"x": 1}), ("a", {}), ("c", {}))]
    assert sources == ["tool_response_cassette", "tool_responses", "missing"]


def test_errors_in_rows() -> None:
    tools = CaseTools(case(tool_response_cassette=[{"tool": "pay", "error": "declined"}]), strict=True)
    answer = tools.answer("pay", {})
    assert (answer.output, answer.error) == (None, "declined")
    with pytest.raises(ToolFault, match="called pay with") as caught:
        tools.answer("pay", {"x": 1})
    assert caught.value.failure is FailureKind.CONTRACT_VIOLATION


@pytest.mark.parametrize(
    ("metadata", "field"),
    [
        ({"tool_response_cassette": "x"}, "tool_response_cassette"),
        ({"tool_response_cassette": {"no separator": 1}}, "tool_response_cassette.no separator"),
        ({"tool_response_cassette": [3]}, "tool_response_cassette[0]"),
        ({"tool_response_cassette": [{"arguments": {}}]}, "tool_response_cassette[0]"),
        ({"tool_response_cassette": [{"tool": "a", "reponse": 1}]}, "tool_response_cassette[0].reponse"),
        ({"tool_response_cassette": [{"tool": "a", "responses": []}]}, "tool_response_cassette[0].responses"),
        ({"tool_response_cassette": [{"tool": "a", "delay_ms": 1}]}, "tool_response_cassette[0].delay_ms"),
        ({"tool_response_cassette": {"a::{}": {"$response": 1}}}, "tool_response_cassette.a::{}.$response"),
        ({"tool_responses": ["a"]}, "tool_responses"),
        ({"tool_responses": {"a": {"$sequence": "x"}}}, "tool_responses.a.$sequence"),
    ],
)
def test_answers_that_cannot_be_used_are_refused(metadata: Any, field: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        CaseTools(case(**metadata))
    assert caught.value.details["field"] == f"metadata.{field}"
    assert caught.value.details["case_id"] == "c1"


def test_tools_that_are_a_function(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "live_tools_a.py").write_text(
        "def plain(tool, arguments):\n"
        "    if tool == 'boom': raise ValueError('no such order')\n"
        "    if tool == 'mute': raise Mute\n"
        "    if tool == 'long': raise ValueError('x' * 5000)\n"
        "    return {'error': 'closed'} if tool == 'shut' else object() if tool == 'odd' else arguments\n"
        "def with_case(tool, arguments, case_id): return case_id\n"
        "class Mute(Exception):\n"
        "    def __str__(self): raise OSError\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    tools = open_tool_server("live_tools_a:plain")
    assert tools("c", "echo", {"a": 1}) == ToolAnswer({"a": 1}, None, "live")
    assert tools("c", "shut", {}).error == "closed"
    assert tools("c", "boom", {}).error == "ValueError: no such order"
    assert tools("c", "mute", {}).error == "Mute"
    assert tools("c", "long", {}).error == f"ValueError: {'x' * 5000}", "the agent reads all of it"
    assert "object object" in tools("c", "odd", {}).output
    assert open_tool_server("live_tools_a:with_case")("c7", "echo", {}).output == "c7"


def test_tools_behind_an_address() -> None:
    with JsonServer() as server:
        tools = open_tool_server(server.url, headers={"X-Key": "k"})
        bodies = (b'{"response": {"a": 1}}', b'{"error": "closed"}', b'{"response": {"error": "inner"}}')
        server.answers = [(200, {}, body) for body in bodies]
        assert tools("c", "echo", {"x": 1}) == ToolAnswer({"a": 1}, None, "live")
        assert tools("c", "echo", {}).error == "closed"
        assert tools("c", "echo", {}).error == "inner"
        assert server.requests[0] == {"case_id": "c", "tool": "echo", "arguments": {"x": 1}}
        for status, body in ((200, b"nothing"), (200, b"[]"), (200, b"{}"), (503, b"")):
            server.answers = [(status, {}, body)]
            with pytest.raises(ToolFault) as caught:
                tools("c", "echo", {})
            # The agent chose the arguments that arrived: what they do to the server excuses nothing.
            assert caught.value.failure is FailureKind.AGENT_ERROR
    with pytest.raises(ToolFault, match="could not be reached") as caught:
        open_tool_server(server.url)("c", "echo", {})
    assert caught.value.failure is FailureKind.ENVIRONMENT


def test_tools_that_refuse_are_asked_again_and_others_are_not() -> None:
    retry = Retries(3)
    with JsonServer() as server:
        tools = open_tool_server(server.url, retry=retry)
        refusals = (429, {"Retry-After": "7"}, b""), (429, {}, b"")
        server.answers = [*refusals, (200, {}, b'{"response": "done"}')]
        answer = tools("c", "echo", {})
        assert (answer.output, answer.retries) == ("done", 2)
        assert answer.waited > 0
        assert retry.asked[0] == 7
        server.answers = [(503, {"Retry-After": "1"}, b""), (200, {}, b'{"response": "again"}')]
        with pytest.raises(ToolFault, match="called echo, and the tool server answered with HTTP 503"):
            tools("c", "echo", {})
        assert len(server.requests) == 4, "a call that may have been carried out was made twice"
