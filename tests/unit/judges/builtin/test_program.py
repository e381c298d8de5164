"""Judges that are programs. The programs are real; each is a line of Python."""

from __future__ import annotations

import sys
from typing import Any

import pytest

from agent_eval.contracts import Verdict
from agent_eval.errors import InvalidInput
from agent_eval.judges import load_judges
from tests.unit.judges.traces import findings, judge, says, uses

ECHO = "import json,sys; v=json.load(sys.stdin); "
PASSES = "print('{\"passed\": true}')"


def lean(code: str, payload: Any = None, **config: Any) -> Verdict:
    """The verdict of a checker that is this Python code."""
    settings = {"command": [sys.executable, "-c", code], **config}
    metadata = {"lean_payload": {"theorem": "1 = 1"} if payload is None else payload}
    return judge("lean", says(), config=settings, metadata=metadata)


def test_without_a_payload_or_a_checker_there_is_nothing_to_judge() -> None:
    assert findings(judge("lean", says(), config={"command": ["false"]})) == ("skipped", None)
    assert findings(judge("lean", says(), metadata={"lean_payload": {}})) == ("skipped", None)


def test_the_payload_arrives_and_the_answer_becomes_the_verdict() -> None:
    answer = "{'passed': v == {'a': [1, 'é']}, 'reason': 'checked', 'evidence': {'got': v}}"
    verdict = lean(f"{ECHO}print(json.dumps({answer}))", {"a": [1, "é"]})
    assert findings(verdict) == ("passed", None)
    assert (verdict.reason, verdict.score, verdict.evidence) == ("checked", 1.0, {"got": {"a": [1, "é"]}})


@pytest.mark.parametrize(
    ("output", "outcome", "facts"),
    [
        ('{"passed": true}', "passed", {"reason": "the checker says passed"}),
        ('{"passed": false, "reason": "a gap\\n in it"}', "failed", {"reason": "a gap in it", "hard": True}),
        ('{"passed": false, "evidence": [3]}', "failed", {"evidence": {"evidence": [3]}}),
        ('{"passed": false, "evidence_refs": [0]}', "failed", {"evidence_refs": [0]}),
        ('{"passed": false, "score": 0.25}', "failed", {"score": 0.25, "failure": "contract_violation"}),
        ('{"passed": true, "score": 1}', "passed", {"score": 1}),
        ('{"passed": false, "outcome": "inconclusive"}', "inconclusive", {"failure": None}),
        ('{"passed": false, "outcome": "skipped"}', "skipped", {"failure": None}),
        ('{"passed": true, "outcome": "failed"}', "error", {"failure": "judge_error"}),
    ],
)
def test_answers(output: str, outcome: str, facts: dict[str, Any]) -> None:
    verdict = lean(f"print({output!r})")
    assert verdict.outcome == outcome
    assert {name: getattr(verdict, name) for name in facts} == facts


@pytest.mark.parametrize(
    ("code", "config", "failure", "words"),
    [
        *(
            (f"print({output!r})", {}, "judge_error", words)
            for output, words in (
                *(("", "is not JSON"), ("yes", "is not JSON"), ('{"passed": true', "is not JSON")),
                ('{"passed": true, "passed": false}', "is not JSON"),
                ("[true]", "is not a JSON object"),
                ("{}", "passed: Field required"),
                ('{"passed": 1}', "passed: "),
                ('{"passed": "true"}', "passed: "),
                ('{"passed": true, "score": 2}', "score: "),
                ('{"passed": true, "score": NaN}', "is not JSON"),
                ('{"passed": true, "reason": 7}', "reason: "),
            )
        ),
        ("import sys; sys.stdout.buffer.write(b'\\xff')", {}, "judge_error", "is not UTF-8"),
        ("import time; time.sleep(60)", {"timeout_seconds": 0.2}, "timeout", "the checker "),
        ("print('x' * 1000)", {"max_output_bytes": 100}, "output_limit", "the checker "),
        ("", {"command": ["./no-such-checker"]}, "judge_error", "could not be run"),
    ],
)
def test_a_checker_that_gives_no_answer_is_an_error(
    code: str, config: dict[str, Any], failure: str, words: str
) -> None:
    verdict = lean(code, **config)
    assert findings(verdict) == ("error", failure)
    assert words in verdict.reason
    assert "ended_without_verdict" in verdict.evidence


def test_what_a_checker_complains_of_last_is_quoted_harmless_and_short() -> None:
    verdict = lean("import sys; print('{\"passed\": true}'); sys.exit('no such theorem')")
    assert findings(verdict) == ("error", "judge_error")
    ended = "exited with code 1: no such theorem"
    assert verdict.reason == f"the checker {ended}"
    assert verdict.evidence == {"stderr": "no such theorem", "ended_without_verdict": ended}
    hostile = "\\x1b[31m503\\u202e " + "x" * 300
    verdict = lean(f"import sys; print('first', file=sys.stderr); sys.exit('{hostile}')")
    assert verdict.reason.startswith("the checker exited with code 1: [31m503  xxx")
    assert verdict.reason.isprintable()
    assert len(verdict.reason) < 240


def test_a_checker_sees_only_the_variables_it_was_promised(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MY_TOKEN", "t0p-secret")
    monkeypatch.setenv("MY_SETTING", "on")
    code = "import os,json; print(json.dumps({'passed': True, 'evidence': dict(os.environ)}))"
    verdict = lean(code, env=["MY_SETTING"])
    assert "MY_TOKEN" not in verdict.evidence
    assert verdict.evidence["MY_SETTING"] == "on"


def test_a_command_gets_the_case_its_trace_and_the_final_output() -> None:
    code = ECHO + (
        "t = v['case']['trace']; "
        "ok = v['judge_id'] == 'command' and v['case']['case_id'] == 'case-1' "
        "and v['final_output'] == 'done' and v['case']['note'] == 'kept' "
        "and [e['type'] for e in t] == ['tool_call', 'tool_result', 'message']; "
        "print(json.dumps({'passed': ok, 'reason': 'read'}))"
    )
    config = {"command": [sys.executable, "-c", code]}
    assert judge("command", uses("a"), says(), config=config, note="kept").passed


@pytest.mark.parametrize(
    "config", [{}, {"command": []}, {"command": "ls"}, {"command": ["ls"], "timeout_seconds": 0}]
)
def test_a_command_has_to_be_configured(config: dict[str, Any]) -> None:
    with pytest.raises(InvalidInput) as caught:
        load_judges(["command"], {"command": config})
    assert caught.value.details["field"].startswith("judge_configs.command")


@pytest.mark.parametrize("name", ["lean", "command"])
def test_a_pack_never_names_a_command(name: str) -> None:
    with pytest.raises(InvalidInput, match="runs a command"):
        load_judges([name], {name: {"command": ["rm", "-rf", "/"]}}, allow_plugins=False)


def test_a_checker_that_never_reads_its_input_does_not_block() -> None:
    assert lean(PASSES, "x" * 4_000_000).passed
