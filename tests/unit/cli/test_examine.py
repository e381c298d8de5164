"""`agent-eval show PATH` and `diff`: what a file holds, and what differs between two packs."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from agent_eval.cli.main import main
from agent_eval.comparison.behaviour import diff_events
from tests.factories import make_case, make_pack, make_result, make_suite
from tests.unit.cli.shell import Shell

FIXTURES = Path(__file__).parents[2] / "fixtures" / "adapters"


def test_an_export_is_recognised_with_the_command_that_imports_it(cli: Shell) -> None:
    path = FIXTURES / "claude_code" / "parallel-calls-and-an-error.jsonl"
    found = cli.json("show", str(path))
    assert (found["kind"], found["cases"], found["tool_calls"], found["errors"]) == ("export", 1, 2, 1)
    assert found["tools"] == {"Read": 2}
    assert found["tokens"]["output_tokens"] == 16
    assert found["import_with"].startswith("agent-eval import /")
    assert [each["format"] for each in found["formats"]] == ["claude_code"]


def test_what_an_import_would_lose_is_listed(cli: Shell) -> None:
    whole = (FIXTURES / "langgraph" / "values-stream.jsonl").read_text()
    Path("cut.jsonl").write_text(whole + '{"messages": [')
    found = cli.json("show", "cut.jsonl")
    assert found["diagnostics"] == {"lost": 1}
    assert found["findings"][0]["record"] == "cut.jsonl:5"


def test_a_pack_and_a_suite_are_told_apart(cli: Shell) -> None:
    make_pack(Path("pack"), [make_result("a"), make_result("b", failed="policy")])
    found = cli.json("show", "pack")
    assert (found["kind"], found["run_id"], found["cases"]) == ("evidence pack", "run-1", 2)
    assert (found["tool_calls"], found["tool_results"], found["hard_fail_cases"]) == (2, 2, 1)
    Path("suite.json").write_text(json.dumps(make_suite(make_case("a"))))
    found = cli.json("show", "suite.json")
    assert (found["kind"], found["dataset_id"], found["cases"], found["tools"]) == (
        "suite",
        "shop",
        1,
        {"lookup": 1},
    )


def test_prose_names_the_same(cli: Shell) -> None:
    text = cli.out("show", str(FIXTURES / "crewai" / "output.json"))
    assert "crewai (output), 1 record, confidence 95%" in text
    assert "2 tool calls, 2 results: weather 2" in text
    assert "an import would report: nothing lost" in text


@pytest.mark.parametrize(("content", "code"), [("{}", 2), ("not json", 2), ("", 2)])
def test_a_file_of_no_known_kind_is_refused(
    content: str, code: int, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("x.json").write_text(content)
    assert main(["show", "x.json"]) == code
    assert main(["show", "missing.json"]) == 2
    capsys.readouterr()


def test_packs_differ_by_events_and_outcomes(cli: Shell) -> None:
    before, after = [make_case("a"), make_case("b")], [make_case("a"), make_case("b", "pay", output="Paid.")]
    make_pack(Path("before"), cases=before)
    make_pack(Path("after"), [make_result("a"), make_result("b", failed="policy")], cases=after)
    found = cli.json("diff", "before", "after", code=1)
    assert (found["cases"], found["changed_cases"]) == (2, 1)
    (change,) = found["changes"]
    assert (change["case_id"], change["baseline"], change["candidate"]) == ("b", "passed", "failed")
    assert [each["change"] for each in change["events"]] == ["removed"] * 3 + ["added"] * 3


def test_equal_packs_do_not_differ_and_a_new_case_does(cli: Shell) -> None:
    make_pack(Path("before"), cases=[make_case("a")])
    make_pack(Path("after"), cases=[make_case("a"), make_case("b")])
    assert cli.json("diff", "before", "before")["changed_cases"] == 0
    (change,) = cli.json("diff", "before", "after", code=1)["changes"]
    assert (change["baseline"], change["candidate"]) == (None, "passed")
    assert cli.json("diff", "before", "after", "a")["changed_cases"] == 0
    (removed,) = cli.json("diff", "after", "before", "b", code=1)["changes"]
    assert (removed["baseline"], removed["candidate"]) == ("passed", None)
    assert main(["diff", "before", "after", "zzz"]) == 2


def test_prose_marks_what_was_removed_and_added(cli: Shell) -> None:
    make_pack(Path("before"), cases=[make_case("a", output="Yes.")])
    make_pack(Path("after"), cases=[make_case("a", output="No.\x1b[31m")])
    lines = cli.out("diff", "before", "after", code=1).splitlines()
    assert lines[:3] == ["1 of 1 cases differs.", "", "a: passed → passed"]
    assert lines[-2:] == ["- agent        Yes.", "+ agent        No.[31m"]


def test_events_that_only_moved_in_time_are_the_same() -> None:
    event = {"idx": 0, "actor": "agent", "type": "message", "output": "Hi!", "ts": "2026-01-01T00:00:00Z"}
    later = {**event, "idx": 1, "ts": "2026-01-02T00:00:00Z", "usage": {"input_tokens": 3}}
    assert [found.change for found in diff_events([event], [later])] == ["same"]


def test_what_is_the_same_at_both_ends_stays_aligned() -> None:
    def said(text: str) -> dict[str, Any]:
        return {"actor": "agent", "type": "message", "output": text}

    changes = diff_events([said(text) for text in "abcxyz"], [said(text) for text in "abQxyz"])
    assert [found.change for found in changes] == ["same", "same", "removed", "added", "same", "same", "same"]
