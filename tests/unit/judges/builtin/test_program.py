"""Judges that are programs. The programs are real; each is a line of Python."""

from __future__ import annotations

import sys
from typing import Any

import pytest

from agent_eval.contracts import Trace, Verdict
from agent_eval.errors import InvalidInput
from agent_eval.judges import load_judges
from tests.unit.judges.traces import findings, judge, make_case, says, uses

ECHO = "import json,sys; v=json.load(sys.stdin); "


def lean(code: str, payload: Any = None, **config: Any) -> Verdict:
    """The verdict of a checker that is this Python code."""
    settings = {"command": [sys.executable, "-c", code], **config}
    metadata = {"lean_payload": {"theorem": "1 = 1"} if payload is None else payload}
    return judge("lean", says(), config=settings, metadata=metadata)


def answers(text: str, **config: Any) -> Verdict:
    return lean(f"print({text!r})", **config)


def test_without_a_payload_or_a_checker_there_is_nothing_to_judge() -> None:
    assert findings(judge("lean", says(), config={"command": ["false"]})) == ("skipped", None)
    assert findings(judge("lean", says(), metadata={"lean_payload": {}})) == ("skipped", None)


def test_the_payload_arrives_and_the_answer_becomes_the_verdict() -> None:
    code = (
        ECHO
        + "print(json.dumps({'passed': v == {'a': [1, 'é']}, 'reason': 'checked', 'evidence': {'got': v}}))"
    )
    verdict = lean(code, {"a": [1, "é"]})
    assert findings(verdict) == ("passed", None)
    assert (verdict.reason, verdict.score, verdict.evidence) == ("checked", 1.0, {"got": {"a": [1, "é"]}})


def test_a_no_is_a_hard_failure() -> None:
    verdict = answers(
        '{"passed": false, "reason": "a gap\\n in step 3", "evidence": [3], "evidence_refs": [0]}'
    )
    assert findings(verdict) == ("failed", "contract_violation")
    assert verdict.reason == "a gap in step 3"
    assert verdict.evidence == {"evidence": [3]}
    assert verdict.evidence_refs == [0]
    assert verdict.hard


def test_without_a_reason_there_is_one_still() -> None:
    assert answers('{"passed": true}').reason == "the checker says passed"


def test_a_score_may_be_given() -> None:
    assert answers('{"passed": false, "score": 0.25}').score == 0.25
    assert answers('{"passed": true, "score": 1}').score == 1


def test_a_checker_may_not_know_or_have_nothing_to_say() -> None:
    assert findings(answers('{"passed": false, "outcome": "inconclusive"}')) == ("inconclusive", None)
    assert findings(answers('{"passed": false, "outcome": "skipped"}')) == ("skipped", None)
    assert findings(answers('{"passed": true, "outcome": "failed"}')) == ("error", "judge_error")


@pytest.mark.parametrize(
    ("output", "words"),
    [
        ("", "is not JSON"),
        ("yes", "is not JSON"),
        ('{"passed": true', "is not JSON"),
        ('{"passed": true, "passed": false}', "is not JSON"),
        ("[true]", "is not a JSON object"),
        ("{}", "passed: Field required"),
        ('{"passed": 1}', "passed: "),
        ('{"passed": "true"}', "passed: "),
        ('{"passed": true, "score": 2}', "score: "),
        ('{"passed": true, "score": NaN}', "is not JSON"),
        ('{"passed": true, "reason": 7}', "reason: "),
    ],
)
def test_any_other_answer_is_an_error(output: str, words: str) -> None:
    verdict = answers(output)
    assert findings(verdict) == ("error", "judge_error")
    assert words in verdict.reason


def test_bytes_that_are_no_text_are_an_error() -> None:
    verdict = lean("import sys; sys.stdout.buffer.write(b'\\xff')")
    assert "is not UTF-8" in verdict.reason


def test_a_failing_checker_is_an_error_that_shows_what_it_complained_of() -> None:
    verdict = lean("import sys; print('{\"passed\": true}'); sys.exit('no such theorem')")
    assert findings(verdict) == ("error", "judge_error")
    assert verdict.reason == "the checker exited with code 1: no such theorem"
    ended = "exited with code 1: no such theorem"
    assert verdict.evidence == {"stderr": "no such theorem", "ended_without_verdict": ended}


def test_what_a_checker_complains_of_last_is_quoted_harmless_and_short() -> None:
    said = "\\x1b[31m503\\u202e " + "x" * 300
    verdict = lean(f"import sys; print('first', file=sys.stderr); sys.exit('{said}')")
    assert verdict.reason.startswith("the checker exited with code 1: [31m503  xxx")
    assert verdict.reason.isprintable()
    assert len(verdict.reason) < 240


def test_a_slow_checker_is_an_error() -> None:
    verdict = lean("import time; time.sleep(60)", timeout_seconds=0.2)
    assert findings(verdict) == ("error", "timeout")


def test_a_checker_that_floods_is_an_error() -> None:
    verdict = lean("print('x' * 1000)", max_output_bytes=100)
    assert findings(verdict) == ("error", "output_limit")


def test_a_checker_that_does_not_exist_is_an_error() -> None:
    verdict = judge("lean", says(), config={"command": ["./no-such-checker"]}, metadata={"lean_payload": 1})
    assert findings(verdict) == ("error", "judge_error")
    assert "could not be run" in verdict.reason


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
    verdict = judge("command", uses("a"), says(), config=config, note="kept")
    assert findings(verdict) == ("passed", None)


@pytest.mark.parametrize(
    "config", [{}, {"command": []}, {"command": "ls"}, {"command": ["ls"], "timeout_seconds": 0}]
)
def test_a_command_has_to_be_configured(config: dict[str, Any]) -> None:
    with pytest.raises(InvalidInput) as caught:
        load_judges(["command"], {"command": config})
    assert caught.value.details["field"].startswith("judge_configs.command")


@pytest.mark.parametrize("name", ["lean", "command"])
def test_a_pack_never_names_a_command(name: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        load_judges([name], {name: {"command": ["rm", "-rf", "/"]}}, allow_plugins=False)
    assert "runs a command" in caught.value.message


def test_a_checker_that_never_reads_its_input_does_not_block() -> None:
    case = make_case(says(), metadata={"lean_payload": "x" * 4_000_000})
    (judge_,) = load_judges(
        ["lean"], {"lean": {"command": [sys.executable, "-c", "print('{\"passed\": true}')"]}}
    )
    assert judge_.evaluate(case, Trace(case.trace)).passed
