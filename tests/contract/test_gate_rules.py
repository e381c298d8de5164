"""Every rule of the gate is measured, can be set everywhere, and has words everywhere."""

from __future__ import annotations

import os
import re
from dataclasses import fields
from pathlib import Path

import pytest

import agent_eval
from agent_eval.ci.inputs import INPUT_BY_NAME
from agent_eval.comparison.compare import compare
from agent_eval.config.rules import RULES, Rule, find_rule
from agent_eval.contracts import Coverage, CoverageLoss, GateStatus, RuleResult, RunSummary, Thresholds
from agent_eval.gate.decide import decide
from agent_eval.gate.policy_file import parse_thresholds
from agent_eval.gate.rules import Measured, apply_rules, rule_clause
from agent_eval.reports.detail import COMMENT
from agent_eval.reports.model import SuiteReport
from agent_eval.reports.sentences import rule_sentence
from agent_eval.reports.suite import behind_a_click
from tests.unit.comparison.views import view

ROOT = Path(__file__).parents[2]
NOW = "2026-01-14T10:00:00+00:00"
STARTER = Path(agent_eval.__file__).parent / "demo" / "starter"
EACH = pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.field)

COUNTS = {name: 4 for name in RunSummary.model_fields if name.endswith("_cases")}
SUMMARY = RunSummary(
    run_id="candidate",
    dataset_id="shop",
    pass_rate=0.1,
    hard_fail_rate=0.1,
    **{**COUNTS, "total_cases": 40},  # type: ignore[arg-type]
)
PAIRS = {
    rule.measure: (18, 15) if rule.worse == "fell" else (1, 3) for rule in RULES if rule.unit == "points"
}
NUMBERS = {rule.measure: 3 for rule in RULES if rule.unit == "cases"}
LOST = CoverageLoss(cause="removed", cases={"refund": 1.0})
MEASURED = Measured(
    summary=SUMMARY,
    has_baseline=True,
    compared=20,
    coverage=Coverage(cases=4, losses=[LOST]),
    **PAIRS,  # type: ignore[arg-type]
    **NUMBERS,  # type: ignore[arg-type]
)
"""A run in which everything that a rule limits has happened."""


def applied(rule: Rule, limit: float) -> RuleResult:
    results = apply_rules(Thresholds(**{rule.field: limit}), MEASURED)
    return next(result for result in results if result.rule == rule.field)


def test_the_table_has_the_rules_of_the_contract_in_their_order() -> None:
    assert [rule.field for rule in RULES] == list(Thresholds.model_fields), (
        "a rule is a field of Thresholds (agent_eval/contracts/gate.py) and, in the same place, a row of "
        "RULES (agent_eval/config/rules.py)"
    )
    assert len({rule.label for rule in RULES}) == len(RULES)


@EACH
def test_a_rule_is_held_against_a_number_that_is_measured(rule: Rule) -> None:
    of_the_run = rule.unit == "share"
    assert rule.measure in (
        RunSummary.model_fields if of_the_run else {field.name for field in fields(Measured)}
    )
    result = applied(rule, rule.example)
    assert result.applied
    assert result.value is not None


@EACH
def test_a_rule_takes_the_limits_that_its_words_promise(rule: Rule) -> None:
    whole = rule.limits == "a whole number from 0 on"
    assert getattr(parse_thresholds({rule.field: 1}), rule.field) == 1
    assert getattr(Thresholds(**{rule.field: rule.example}), rule.field) == rule.example
    for wrong in (-1, 0.5 if whole else 1.5, float("nan")):
        with pytest.raises(Exception, match=rule.limits) as refused:
            parse_thresholds({rule.field: wrong})
        assert rule.flag in refused.value.remedy  # type: ignore[attr-defined]


@EACH
def test_a_rule_without_a_comparison_is_applied_only_when_it_is_absolute(rule: Rule) -> None:
    [result] = apply_rules(Thresholds(**{rule.field: rule.example}), Measured(summary=SUMMARY))
    assert result.applied == rule.is_absolute


@EACH
@pytest.mark.parametrize("holds", [True, False])
def test_a_rule_has_words_in_the_decision_and_in_the_comment(rule: Rule, holds: bool) -> None:
    strict, lax = (1, 0) if rule.bound == "at least" else (0, 1)
    limit = (lax if holds else strict) * (40 if rule.unit == "cases" else 1)
    result = applied(rule, limit)
    assert result.passed == holds
    assert rule.field in result.message
    clause = rule_clause(result)
    if rule.unit != "coverage":  # its own message says by what the rest was lost
        assert clause == rule_sentence(result, lambda _: "the message, for want of words")
    assert clause is not None
    assert rule.field not in clause
    assert not re.search(r"[{}]", result.message + clause)


def test_a_decision_shows_every_rule_by_its_name_in_the_table() -> None:
    found = compare(view({"a": "passed"}), view({"a": "failed"}), changed="refuse", generated_at=NOW)
    limits = Thresholds(**{rule.field: rule.example for rule in RULES})
    decision = decide(found, limits, generated_at=NOW)
    assert decision.gate_status is GateStatus.FAILED
    suite = SuiteReport(
        slug="a", suite_path="a.json", decision=decision, candidate=found.candidate, comparison=found
    )
    shown = "\n".join(behind_a_click(suite, COMMENT[0]))
    for rule in RULES:
        assert f"| {rule.title} |" in shown
        assert rule.field not in shown


@EACH
def test_a_rule_is_an_input_of_the_ci_job(rule: Rule) -> None:
    option = INPUT_BY_NAME[rule.option]
    assert (option.goes_to, option.help) == (f"thresholds.{rule.field}", rule.help)


def test_a_check_that_is_no_rule_is_not_in_the_table() -> None:
    assert find_rule("something_measured") is None


def starter_policy() -> str:
    """Every rule as the policy to start from shows it: one holds, the others are to be uncommented."""
    return "".join(
        f"{'  ' if rule.field == 'min_pass_rate' else '#  '}{rule.field}: {rule.example}\n" for rule in RULES
    )


def guide() -> str:
    rows = [f"| `{rule.flag} {rule.example}` | {rule.help} |" for rule in RULES]
    return "\n".join(["| flag of `gate` | |", "|---|---|", *rows]) + "\n"


SHOWN = {
    STARTER / "gate.yml": ("thresholds:\n", starter_policy, r"\n# Cases known"),
    ROOT / "docs" / "guides" / "first-evaluation.md": ("<!-- rules -->\n", guide, r"\nA \*\*hard fail"),
}
"""By file: what stands before the rules, the rules as it shows them, and what comes after."""


@pytest.mark.parametrize("file", SHOWN, ids=lambda file: file.name)
def test_starter_files_and_the_guide_show_every_rule(file: Path) -> None:
    before, show, after = SHOWN[file]
    text = file.read_text(encoding="utf-8")
    part = re.compile(rf"({re.escape(before)})(.*?)(?={after})", re.DOTALL)
    if os.environ.get("UPDATE_GOLDEN") == "1":
        text = part.sub(lambda found: found.group(1) + show(), text, count=1)
        file.write_text(text, encoding="utf-8")
    found = part.search(text)
    assert found is not None
    assert found.group(2) == show(), f"`make generated` writes the rules in {file.name} anew"
