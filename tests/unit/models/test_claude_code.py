"""The claude command line as a model, with a program of the same name that records how it is called."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

import pytest

from agent_eval.contracts.event import Finish
from agent_eval.errors import FailureKind
from agent_eval.models.base import Message, Model, ModelFailure, ModelOptions
from agent_eval.models.catalog import open_model
from agent_eval.models.retries import within
from tests.unit.models.test_hosted import make_request

RESULT = {
    "type": "result", "subtype": "success", "is_error": False, "result": "Passed, I think.",
    "stop_reason": "end_turn", "total_cost_usd": 0.003,
    "usage": {"input_tokens": 3, "cache_read_input_tokens": 97, "output_tokens": 6},
    "modelUsage": {"claude-haiku-4-5": {"outputTokens": 1}, "claude-sonnet-4-5": {"outputTokens": 5}},
}  # fmt: skip
PROGRAM = """#!{python}
import json, os, sys, time
answers = json.load(open({answers!r}))
calls = json.load(open({calls!r}))
seen = {{"argv": sys.argv[1:], "stdin": sys.stdin.read(), "files": os.listdir(), "env": dict(os.environ)}}
calls.append(seen)
json.dump(calls, open({calls!r}, "w"))
answer = answers[min(len(calls), len(answers)) - 1]
sys.stderr.write(answer.get("stderr", ""))
sys.stdout.write(answer.get("stdout", ""))
time.sleep(answer.get("sleep", 0))
sys.exit(answer.get("exit", 0))
"""


class Claude:
    """A program named claude, its answers in turn, and how it was called."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory

    def install(self, *answers: dict[str, Any], **options: Any) -> Model:
        names = {name: str(self._directory / f"{name}.json") for name in ("answers", "calls")}
        Path(names["answers"]).write_text(json.dumps(answers))
        Path(names["calls"]).write_text("[]")
        program = self._directory / "claude"
        program.write_text(PROGRAM.format(python=sys.executable, **names))
        program.chmod(0o755)
        path, home = f"{self._directory}:{os.environ['PATH']}", str(self._directory)
        environ = {"PATH": path, "GITHUB_TOKEN": "job", "HOME": home}
        return open_model("claude-code", ModelOptions(environ=environ, **options))

    @property
    def calls(self) -> list[dict[str, Any]]:
        calls: list[dict[str, Any]] = json.loads((self._directory / "calls.json").read_text())
        return calls


@pytest.fixture
def claude(tmp_path: Path) -> Claude:
    return Claude(tmp_path)


def printed(**fields: Any) -> dict[str, str]:
    return {"stdout": json.dumps({**RESULT, **fields})}


def test_the_structured_output_is_the_reply_with_the_cost_that_the_program_reports(claude: Claude):
    model = claude.install(printed(structured_output={"verdict": "passed"}))
    reply = model.complete(make_request())
    assert (reply.text, reply.rung, reply.finish) == ('{"verdict": "passed"}', "json_schema", Finish.ENDED)
    assert (reply.model, reply.cost_usd) == ("claude-sonnet-4-5", 0.003)
    assert reply.usage is not None
    assert (reply.usage.input_tokens, reply.usage.output_tokens) == (100, 6)


def test_the_program_has_no_tool_no_settings_an_empty_directory_and_no_secret_of_the_job(claude: Claude):
    claude.install(printed(), model="haiku", api_key="k-1").complete(make_request(max_tokens=77))
    (call,) = claude.calls
    argv = call["argv"]
    assert argv[argv.index("--tools") + 1] == argv[argv.index("--setting-sources") + 1] == ""
    assert argv[argv.index("--model") + 1] == "haiku"
    assert argv[argv.index("--system-prompt") + 1] == "You judge."
    assert (call["stdin"], call["files"]) == ("the conversation\n\nthe criterion", [])
    assert "GITHUB_TOKEN" not in call["env"]
    assert (call["env"]["ANTHROPIC_API_KEY"], call["env"]["CLAUDE_CODE_MAX_OUTPUT_TOKENS"]) == ("k-1", "77")
    assert "k-1" not in str(argv)


def test_several_messages_are_lines_of_one_prompt(claude: Claude):
    model = claude.install(printed())
    said: Any = (("user", "Hi\n"), ("assistant", "Yo"), ("user", "?"))
    messages = tuple(Message(role, (text,)) for role, text in said)
    reply = model.complete(make_request(messages=messages, reply_schema=None, parameters={"temperature": 0}))
    assert (reply.text, reply.rung, reply.dropped) == ("Passed, I think.", None, ("temperature",))
    lines = [json.loads(line) for line in claude.calls[0]["stdin"].splitlines()[2:]]
    assert [(line["role"], line["text"]) for line in lines] == list(said)


@pytest.mark.parametrize(
    ("answer", "problem", "remedy"),
    [
        (printed(is_error=True, result="Invalid API key"), "answered with an error: Invalid API key", ""),
        (printed(subtype="error_max_turns", result=None), "answered with an error: error_max_turns", ""),
        ({"stdout": "Welcome!"}, "printed no result", ""),
        ({"stdout": "[]", "exit": 3, "stderr": "no network"}, "exited with code 3: no network", ""),
        ({"exit": 1, "stderr": "error: unknown option '--json-schema'"}, "option", "Update Claude Code."),
    ],
)
def test_a_program_that_gives_no_result_is_infrastructure(
    claude: Claude, answer: Any, problem: str, remedy: str
):
    with pytest.raises(ModelFailure, match=problem) as caught:
        claude.install(answer).complete(make_request())
    assert (caught.value.failure, caught.value.remedy) == (FailureKind.INFRASTRUCTURE, remedy)


def test_a_cut_result_is_a_reply_that_says_so(claude: Claude):
    assert claude.install(printed(stop_reason="max_tokens")).complete(make_request()).finish is Finish.CUT


def test_a_program_that_is_not_installed_is_named(tmp_path: Path):
    model = open_model("claude-code", ModelOptions(environ={"PATH": str(tmp_path)}))
    with pytest.raises(ModelFailure, match="claude") as caught:
        model.complete(make_request())
    assert caught.value.is_final
    assert "Install Claude Code" in caught.value.remedy


def test_a_time_limit_is_named_as_it_was_set(claude: Claude) -> None:
    model = claude.install({"sleep": 60})
    with within(1), pytest.raises(ModelFailure) as caught:
        model.complete(make_request())
    assert (caught.value.failure, caught.value.problem) == (FailureKind.TIMEOUT, "did not end within 1 s")
