"""The answer that a case expects is checked, or every report says that it was not: `run`, `gate` and `ci`."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.program import REPOSITORY, Ended, agent_eval


def write(path: Path, *, output: Any, expected: Any, **fields: Any) -> Path:
    case = {
        "case_id": "book", "input": "Book it.", "expected_output": expected, "regex_patterns": ["."],
        "trace": [{"idx": 0, "actor": "agent", "type": "message", "output": output}], **fields,
    }  # fmt: skip
    path.write_text(json.dumps({"dataset_id": "trains", "cases": [case]}))
    return path


def run(path: Path, *options: str) -> Ended:
    return agent_eval(
        *("run", "--format", "json", "--suite", str(path), "--out"), str(path.with_suffix("")), *options,
        cwd=path.parent,
    )  # fmt: skip


def summary(path: Path, *options: str) -> dict[str, Any]:
    ended = run(path, *options)
    assert ended.code == 0, ended
    return dict(json.loads(ended.out)["summary"])


def test_a_text_without_a_mode_is_compared_exactly_and_a_failure_says_so(tmp_path: Path) -> None:
    right = write(tmp_path / "right.json", output=" Paris ", expected="Paris")
    assert summary(right)["passed_cases"] == 1
    wrong = write(tmp_path / "wrong.json", output="Rome", expected="Paris")
    said = " ".join(run(wrong, "--format", "text").out.split())
    assert said.startswith("FAILED book: final_output:")
    assert "(expected_output without a mode: compared exactly)" in said


def test_a_field_that_no_named_judge_looks_at_is_said(tmp_path: Path) -> None:
    path = write(
        tmp_path / "suite.json", output="Rome", expected="Paris", policy={"forbidden_tools": ["pay"]}
    )
    assert summary(path, "--judge", "regex")["fields_not_judged"] == {"expected_output": 1, "policy": 1}
    lines = run(path, "--judge", "regex", "--format", "text").out.splitlines()
    assert lines[1:3] == [
        "No judge of the run looks at expected_output of 1 case; final_output would.",
        "No judge of the run looks at policy of 1 case; policy would.",
    ]
    assert "fields_not_judged" not in summary(path)


def test_a_call_whose_name_ends_as_that_of_a_forbidden_tool_is_warned_of(tmp_path: Path) -> None:
    path = write(tmp_path / "suite.json", output="Done.", expected=None, policy={"forbidden_tools": ["pay"]})
    suite = json.loads(path.read_text())
    for kind, idx in (("tool_call", 1), ("tool_result", 2)):
        event = {"idx": idx, "actor": "agent", "type": kind, "tool": "mcp__bank__pay", "input": {}}
        suite["cases"][0]["trace"].append(event)
    path.write_text(json.dumps(suite))
    assert summary(path)["nearly_forbidden"] == {"mcp__bank__pay": 1}
    said = " ".join(run(path, "--format", "text").out.split())
    assert "mcp__bank__pay was called in 1 case: its name ends as that of a forbidden tool" in said
    verified = agent_eval("pack", "verify", "--run", str(path.with_suffix("")), cwd=tmp_path)
    assert verified.code == 0, verified


def test_a_suite_that_expects_nothing_yet_says_so_with_what_to_add(tmp_path: Path) -> None:
    call = {"idx": 0, "actor": "agent", "type": "tool_call", "tool": "pay", "input": {}, "call_id": "1"}
    paid = {"idx": 1, "actor": "tool", "type": "tool_result", "tool": "pay", "output": 1, "call_id": "1"}
    said = {"idx": 2, "actor": "agent", "type": "message", "output": "Paid."}
    nothing = {"output": None, "expected": None, "regex_patterns": [], "trace": [call, paid, said]}
    path = write(tmp_path / "suite.json", **nothing)
    lines = run(path, "--format", "text").out.splitlines()
    assert lines[0] == "Nothing is expected of these cases yet; 1 of 1 cases ran without a fault."
    assert lines[1].startswith("Say in the suite what each case must do (`expected_output`")
    expecting = write(tmp_path / "expecting.json", **{**nothing, "policy": {"forbidden_tools": ["delete"]}})
    assert run(expecting, "--format", "text").out.startswith("1 of 1 cases passed (100%).")


@pytest.mark.parametrize("layout", ["files", "compact"])
def test_a_pack_whose_cases_differ_only_in_what_was_not_judged_verifies(tmp_path: Path, layout: str) -> None:
    path = write(tmp_path / "suite.json", output="Paris", expected="Paris")
    suite = json.loads(path.read_text())
    (case,) = suite["cases"]
    trial = {"trace": case["trace"]}
    more: list[dict[str, Any]] = [
        {"expected_output": None},
        {"must_not_call": ["pay"]},
        {"metadata": {"canaries": ["XK"]}},
        {"must_not_call": ["pay"], "trials": [trial, trial]},
        {"trials": [trial]},
        {},
    ]
    suite["cases"] = [{**case, **fields, "case_id": f"case-{n}"} for n, fields in enumerate(more)]
    path.write_text(json.dumps(suite))
    counted = summary(path, "--set", f"evidence.layout={layout}")
    assert counted["fields_not_judged"] == {"metadata.canaries": 1, "must_not_call": 2}
    verified = agent_eval("pack", "verify", "--run", str(path.with_suffix("")), cwd=tmp_path)
    assert verified.code == 0, verified


def test_a_crashed_attempt_is_an_error_whichever_judges_judge_it_again(tmp_path: Path) -> None:
    pack = REPOSITORY / "tests" / "fixtures" / "packs" / "0.1.0" / "packs" / "agent"
    again = ("--judge", "regex", "--out", "again", "--set", "evidence.layout=files")
    assert agent_eval("rejudge", "--run", str(pack), *again, cwd=tmp_path).code == 0
    assert agent_eval("pack", "verify", "--run", "again", cwd=tmp_path).code == 0
    crash = json.loads((tmp_path / "again" / "cases" / "crash" / "verdicts.json").read_bytes())
    assert crash["outcome"] == "error"
    assert crash["verdicts"][0]["reason"] == "the agent exited with code 3: crashed on purpose"


SAID = {"idx": 0, "actor": "agent", "type": "message", "output": {"total": 7}}
NOT_SAID = {"output": {"total": 8}, "idx": 1, "actor": "agent"}
EXPECTED = {"expected": {"total": 7}, "regex_patterns": []}


@pytest.mark.parametrize("kind", ["reasoning", "state"])
def test_only_a_message_is_the_final_output(kind: str, tmp_path: Path) -> None:
    trace = [SAID, {**NOT_SAID, "type": kind}]
    path = write(tmp_path / "suite.json", output=None, trace=trace, **EXPECTED)
    assert summary(path)["passed_cases"] == 1
    alone = write(tmp_path / "alone.json", output=None, trace=[{**trace[1], "idx": 0}], **EXPECTED)
    assert run(alone).code == 4


def test_a_suite_of_an_earlier_version_keeps_its_own_keys_whatever_they_are_called(tmp_path: Path) -> None:
    trace = [{**SAID, "turn": "first", "parts": [{"text": "seven"}], "usage": "much"}]
    path = write(tmp_path / "suite.json", output=None, trace=trace, turns="many", **EXPECTED)
    suite = json.loads(path.read_bytes())
    path.write_text(json.dumps({**suite, "metadata": {"schema_version": "1.1.0"}}))
    assert summary(path)["passed_cases"] == 1
    pack = str(path.with_suffix(""))
    rejudging = ("rejudge", "--run", pack, "--judge", "final_output", "--out", "again")
    for command in (("pack", "verify", "--run", pack), rejudging):
        assert agent_eval(*command, cwd=tmp_path).code == 0
    stored = json.loads((path.with_suffix("") / "cases/book/trajectory.json").read_bytes())
    assert (stored["turns"], stored["trace"]) == ("many", trace)
    path.write_text(json.dumps({**suite, "metadata": {"schema_version": "1.2.0"}}))
    assert run(path, "--fresh").code == 2
