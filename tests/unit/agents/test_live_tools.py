"""Tools that are really called: a Python function, or an address."""

from __future__ import annotations

from pathlib import Path

import pytest

from agent_eval.agents.base import ToolAnswer, ToolFault
from agent_eval.agents.live_tools import open_tool_server
from agent_eval.errors import FailureKind
from tests.fakes.json_server import JsonServer
from tests.unit.agents.tasks import Retries


def test_tools_that_are_a_function(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "live_tools_a.py").write_text(
        "def plain(tool, arguments):\n"
        "    if tool == 'boom': raise ValueError('no such order')\n"
        "    return {'error': 'closed'} if tool == 'shut' else object() if tool == 'odd' else arguments\n"
        "def with_case(tool, arguments, case_id): return case_id\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    tools = open_tool_server("live_tools_a:plain")
    assert tools("c", "echo", {"a": 1}) == ToolAnswer({"a": 1}, None, "live")
    assert tools("c", "shut", {}).error == "closed"
    assert tools("c", "boom", {}).error == "ValueError: no such order"
    assert "object object" in tools("c", "odd", {}).output
    assert open_tool_server("live_tools_a:with_case")("c7", "echo", {}).output == "c7"


def test_tools_behind_an_address() -> None:
    with JsonServer() as server:
        tools = open_tool_server(server.url, headers={"X-Key": "k"})
        server.answers = [
            (200, {}, b'{"response": {"a": 1}}'),
            (200, {}, b'{"error": "closed"}'),
            (200, {}, b'{"response": {"error": "inner"}}'),
        ]
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
        server.answers = [
            (429, {"Retry-After": "7"}, b""),
            (429, {}, b""),
            (200, {}, b'{"response": "done"}'),
        ]
        answer = tools("c", "echo", {})
        assert (answer.output, answer.retries) == ("done", 2)
        assert answer.waited > 0
        assert retry.asked[0] == 7
        server.answers = [(503, {"Retry-After": "1"}, b""), (200, {}, b'{"response": "again"}')]
        with pytest.raises(ToolFault, match="called echo, and the tool server answered with HTTP 503"):
            tools("c", "echo", {})
        assert len(server.requests) == 4, "a call that may have been carried out was made twice"
