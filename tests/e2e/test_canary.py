"""Secrets that agents, tools, judges and models repeat, however encoded, are in nothing that commands leave.

The environment has a secret in each of several variables. Cases, answers, tool results, errors, reasons of
judges and answers of models repeat all of them, encoded in several ways. Then every file, what was printed,
every comment and every body of a request to the platform is decoded as a reader might, and searched.
"""

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.canary import CANARIES, EVERYTHING, TellingModel, encoded, everything_below, leaks
from tests.e2e.program import Ended, agent_eval
from tests.e2e.runner import PULL, Runner
from tests.factories import make_case, make_suite
from tests.fakes.github import FakeGitHub
from tests.fakes.models import FakeOpenAi, Step


def telling_case(name: str) -> dict[str, Any]:
    """A case in which everything repeats the secrets, and every judge has a reason to."""
    case = make_case(name, "lookup_order", policy={"forbidden_tools": ["lookup_order"]})
    case["metadata"] = {"note": EVERYTHING, "tool_responses": {"lookup_order": [{"said": EVERYTHING}]}}
    case["metadata"]["llm"] = [{"criterion": f"It never says {EVERYTHING}"}]
    case |= {
        "expected_output": EVERYTHING, "regex_patterns": ["^never$"], "json_schema": {"const": EVERYTHING},
    }  # fmt: skip
    for event in case["trace"]:
        event["input"] = {"said": EVERYTHING, EVERYTHING: 1}
        event["error"] = EVERYTHING
    case["trace"].append({"idx": 99, "actor": "agent", "type": "message", "output": f"I say {EVERYTHING}"})
    return case


AGENT = """
import json, sys
task, said = json.load(sys.stdin), open("said").read()
print(said, file=sys.stderr)
if task["case_id"] == "b":
    print(said)
    sys.exit(said[:200])
calls = [{"tool": "lookup_order", "arguments": {"said": said}}]
calls.append({"tool": said[:60], "arguments": {}, "output": said})
answer = {"assistant_output": {"said": said}, "tool_calls": calls, "model": said[:50]}
print(json.dumps(answer))
"""
JUDGE = """
import json
said = open("said").read()
print(json.dumps({"passed": False, "reason": said, "evidence": {said[:40]: [said]}}))
"""


@pytest.fixture
def place(tmp_path: Path) -> Path:
    place = tmp_path / "place"
    place.mkdir()
    suite = make_suite(telling_case("a"), telling_case("b"), owner=EVERYTHING)
    (place / "suite.json").write_text(json.dumps(suite))
    (place / "said").write_text(EVERYTHING)
    (place / "agent.py").write_text(AGENT)
    (place / "judge.py").write_text(JUDGE)
    command = {"command": {"command": [sys.executable, "-S", "-E", "judge.py"]}}
    (place / "judges.json").write_text(json.dumps(command))
    return place


INPUTS = {"suite.json", "said", "agent.py", "judges.json", "judge.py", "key.pem", "key.pem.pub"}


def test_no_secret_is_in_anything_that_any_command_leaves(place: Path) -> None:
    printed: dict[str, str] = {}

    def call(*words: str) -> Ended:
        ended = agent_eval(*words, cwd=place, environ=CANARIES)
        printed[" ".join(words[:3])] = ended.out + ended.err
        assert "Traceback" not in ended.err
        return ended

    judges = ("--judge", "policy,regex,final_output,json_schema,command", "--judge-config", "judges.json")
    program = ("--agent-command", f"{sys.executable} -S -E agent.py", "--trials", "2", "--max-repairs", "1")
    assert call("run", "--suite", "suite.json", "--out", "p", *judges).code == 0
    assert call("run-loop", "--suite", "suite.json", "--out", "loop", *program).code == 0
    answers = [Step(text=EVERYTHING, calls=[("lookup_order", {"said": EVERYTHING})]), Step(text=EVERYTHING)]
    with FakeOpenAi(*answers, *answers) as model:
        hosted = (
            *("--agent", "openai:small", "--set", f"agent.base_url={model.base_url}", "--format", "text"),
            "--verbose",
        )
        call("run", "--suite", "suite.json", "--out", "hosted", *hosted)
    with FakeOpenAi(Step(status=400, body=json.dumps({"error": {"message": EVERYTHING}}).encode())) as model:
        call(
            *("run", "--suite", "suite.json", "--out", "refused", "--agent", "openai:small"),
            *("--set", f"agent.base_url={model.base_url}"),
        )
    assert call("rejudge", "--run", "loop", "--out", "q", *judges).code in (0, 4)
    assert call("rejudge", "--run", "p", "--out", "r", *judges).code == 0
    call("replay", "--run", "p", "--out", "replay.json", *judges)
    assert call("compare", "--baseline", "p", "--candidate", "r").code == 0
    delta = "r/compare/baseline_delta.json"
    call("gate", "--compare", delta, "--max-regressed-cases", "0")
    call("report", "markdown", "--compare", delta, "--replay", "replay.json", "--out", "report.md")
    call("report", "html", "--compare", delta, "--out", "report.html")
    call("show", "r", "a", "--format", "text")
    assert call("keygen", "--out", "key.pem").code == 0
    assert call("attest", "--run", "r", "--key", "key.pem").code == 0
    call("verify", "r", "--format", "text")
    call("run", "--suite", f"{CANARIES['DEPLOY_KEY']}.json", "--out", "none")
    files = dict(everything_below(place, INPUTS))
    assert {"p/manifest.json", "loop/manifest.json", "r/attestations/test-result.sigstore.json"} <= set(files)
    assert {"report.md", "report.html", "replay.json", "hosted/manifest.json"} <= set(files)
    assert b"[redacted:MY_API_TOKEN]" in files["p/run/events.jsonl"]
    assert {name: leaks(data) for name, data in files.items() if leaks(data)} == {}
    assert {name: leaks(said.encode()) for name, said in printed.items() if leaks(said.encode())} == {}


def test_no_secret_is_in_anything_that_the_job_leaves_or_sends(tmp_path: Path, place: Path) -> None:
    with FakeGitHub() as github:
        runner = Runner(tmp_path, github)
        for name in ("said", "agent.py"):
            (runner.workspace / name).write_bytes((place / name).read_bytes())
        runner.write_suite(telling_case("a"))
        runner.upload(runner.push(), 400)
        runner.write_suite(telling_case("a"), telling_case("b"))
        recorded = runner.pull_request(environ=CANARIES, title=f"Agent {CANARIES['MY_API_TOKEN']}")
        live = runner.pull_request(
            run_id=501, environ=CANARIES, agent_command=f"{sys.executable} -S -E agent.py", out="live-out",
            comment_id="live",
        )  # fmt: skip
        with TellingModel() as model:
            judged = runner.pull_request(
                run_id=502, environ={**CANARIES, "LLM_API_KEY": CANARIES["DEPLOY_KEY"]}, judge="llm",
                provider="openai", llm_model="small", llm_base_url=model.base_url, out="judged-out",
                comment_id="judged",
            )  # fmt: skip
            assert model.requests
        requests = [
            f"{seen.path} {seen.query} {json.dumps(seen.body, default=str)}" for seen in github.requests
        ]
        comments = github.bodies(PULL)
    assert len(comments) == 3
    for step in (recorded, live, judged):
        for said in (step.log, step.summary, json.dumps(step.outputs)):
            assert leaks(said.encode()) == []
    assert [leaks(text.encode()) for text in (*requests, *comments) if leaks(text.encode())] == []
    inputs = {"suite.json", "said", "agent.py"}
    files = dict(everything_below(runner.workspace, inputs))
    assert any("!" in name for name in files)
    for out in ("agent-eval-out", "live-out", "judged-out"):
        assert any(name.startswith(f"{out}/") and name.endswith(".html") for name in files)
    assert any(name.startswith("judged-out/junit/") for name in files)
    assert {name: leaks(data) for name, data in files.items() if leaks(data)} == {}


def test_the_search_finds_a_secret_in_each_encoding() -> None:
    for name, secret in CANARIES.items():
        for form in encoded(secret):
            assert leaks(f"before {form} after".encode()) == [name], form
            assert leaks(json.dumps({"said": form}).encode()) == [name], form
