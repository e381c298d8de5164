"""Rules for redaction change free text only, whatever they match: never what agent-eval itself reads."""

import json
from pathlib import Path
from typing import Any

import pytest

from agent_eval.contracts.comparison import Comparison
from agent_eval.evidence.reader import Pack, open_pack
from agent_eval.evidence.redacted import without_secrets
from agent_eval.storage.redaction import Redactor
from agent_eval.storage.redaction_rules import RedactionRules
from tests.e2e.program import Ended, agent_eval
from tests.factories import make_case, make_suite

RULES = {
    "a status": r"fail\w*", "outcomes": "passed|failed|skipped|error|inconclusive",
    "kinds of events": "message|tool_\\w+|agent|user|tool",
    "kinds of failures": "policy_violation|contract\\w*", "digits": r"\d+", "small letters": "[a-z]+",
    "letters of digests": "[0-9a-f]{8,}", "a run's id": "r-.*", "a judge's id": "policy|regex|final_output",
    "all": "(?s).+",
}  # fmt: skip
"""Rules that match words, numbers and ids of agent-eval's own files."""
SAID = "It failed at 10, message 12345678."


def suite(place: Path) -> Path:
    case = make_case("Q", "lookup", policy={"forbidden_tools": ["lookup"]}, regex_patterns=["failed"])
    case["metadata"] = {"note": SAID, "attempts": 12}
    case["trace"].append({"idx": 99, "actor": "agent", "type": "message", "output": SAID, "latency_ms": 12})
    case["trials"] = [{"trace": case["trace"]}]
    good = make_case("P", "lookup", regex_patterns=["failed"])
    good["trace"].append(case["trace"][-1])
    path = place / "suite.json"
    path.write_text(json.dumps({**make_suite(case, good), "dataset_id": "Q"}))
    return path


def run(place: Path, out: str, *more: str) -> Ended:
    judges = ("--judge", "policy", "--judge", "regex", "--judge", "final_output")
    command = ("run", "--suite", "suite.json", "--out", out, "--run-id", "r-1", *judges, *more)
    return agent_eval(*command, cwd=place)


def facts(pack: Pack) -> list[Any]:
    """What no rule may change."""
    kept = ("judge_id", "outcome", "passed", "failure", "hard", "evidence_refs", "score")
    events = ("idx", "actor", "type", "call_id", "latency_ms")
    return [
        pack.summary.to_json(),
        [pack.config.run_id, pack.config.judges, pack.config.execution_mode, pack.config.pinned_env],
        *(
            [
                row["case_id"],
                row["outcome"],
                [[verdict[name] for name in kept] for verdict in row["verdicts"]],
            ]  # type: ignore[literal-required]
            for row in pack.results()
        ),
        *(
            [[getattr(event, name) for name in events] for event in pack.trajectory(case_id).trace]
            for case_id in pack.case_ids()
        ),
    ]


@pytest.mark.parametrize("rule", RULES)
def test_a_rule_changes_free_text_only(tmp_path: Path, rule: str) -> None:
    suite(tmp_path)
    options = ("--set", f"redaction.patterns=badge={RULES[rule]}")
    plain, redacted = run(tmp_path, "plain"), run(tmp_path, "redacted", *options)
    if rule == "all":  # ids are no free text either, but a rule that says so is wrong
        assert (redacted.code, redacted.error["code"]) == (2, "validation_error")
        return
    assert (plain.code, redacted.code) == (0, 0)
    packs = [open_pack(tmp_path / name) for name in ("plain", "redacted")]
    assert facts(packs[0]) == facts(packs[1])
    assert b"[redacted:" not in b"".join(
        path.read_bytes() for path in (tmp_path / "redacted").rglob("*") if path.is_file()
    )
    again = ("rejudge", "--run", "plain", "--out", "again", "--judge", "policy", *options)
    assert agent_eval(*again, cwd=tmp_path).code == 0


@pytest.mark.parametrize("rule", RULES)
def test_a_rule_leaves_a_comparison_with_earlier_evidence_whole(tmp_path: Path, rule: str) -> None:
    path = suite(tmp_path)
    run(tmp_path, "candidate")
    before = json.loads(path.read_text())
    before["cases"][0]["trace"] = [event for event in before["cases"][0]["trace"] if event["idx"] == 99]
    before["cases"][0]["trials"] = [{"trace": before["cases"][0]["trace"]}]
    path.write_text(json.dumps(before))
    run(tmp_path, "baseline")
    command = ("compare", "--baseline", "baseline", "--candidate", "candidate", "--allow-incompatible")
    assert agent_eval(*command, "--out", "delta.json", cwd=tmp_path).code in (0, 1)
    comparison = Comparison.model_validate(json.loads((tmp_path / "delta.json").read_text()))
    assert comparison.case_regressions
    redactor = Redactor(rules=RedactionRules(patterns=(f"badge={RULES[rule]}",)), vocabulary=["failed"])
    stated = without_secrets(comparison, redactor)
    for name in ("dataset_id", "generated_at", "cases", "judge_metrics", "regressions"):
        assert getattr(stated, name) == getattr(comparison, name), name
    assert stated.candidate.summary == comparison.candidate.summary
    assert decided(stated) == decided(comparison)


def decided(comparison: Comparison) -> list[Any]:
    """What the gate decides by."""
    return [
        (
            case.case_id,
            case.regressed,
            [(judge.judge_id, judge.candidate, judge.regression_key) for judge in case.judges],
        )
        for case in comparison.case_regressions
    ]


def test_a_rule_cannot_write_what_an_expectation_looks_for(tmp_path: Path) -> None:
    case = make_case("a", "lookup")
    case["trace"].append({"idx": 99, "actor": "agent", "type": "message", "output": "sorry no"})
    (tmp_path / "suite.json").write_text(json.dumps(make_suite(case)))
    options = ("--set", "redaction.patterns=refund=sorry", "--set", "redaction.fields=refund")
    assert run(tmp_path, "pack", *options).code == 0
    assert open_pack(tmp_path / "pack").trajectory("a").recorded.events[-1].output == "[redacted] no"
    assert not any("refund" in path.read_text() for path in (tmp_path / "pack" / "cases").rglob("*.json"))
