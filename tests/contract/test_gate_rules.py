"""Every limit of the gate is applied, can be set everywhere, and is shown everywhere."""

from __future__ import annotations

import os
import re
from fractions import Fraction
from pathlib import Path

import pytest

import agent_eval
from agent_eval.ci.inputs import INPUT_BY_NAME
from agent_eval.comparison.compare import compare
from agent_eval.config.rules import RULES, Rule, find_rule
from agent_eval.contracts import GateStatus, Thresholds
from agent_eval.gate.decide import decide
from agent_eval.gate.limits import ABSOLUTE, Measured, apply_limits
from agent_eval.gate.policy_file import parse_thresholds
from agent_eval.reports.detail import COMMENT
from agent_eval.reports.model import SuiteReport
from agent_eval.reports.story import SIGNS, story_of
from agent_eval.reports.suite import behind_a_click
from agent_eval.text.escape import prose
from tests.unit.comparison.views import view

ROOT = Path(__file__).parents[2]
NOW = "2026-01-14T10:00:00+00:00"
STARTER = Path(agent_eval.__file__).parent / "demo" / "starter"
EACH = pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.field)


def test_the_table_has_the_rules_of_the_contract_in_their_order() -> None:
    assert [rule.field for rule in RULES] == list(Thresholds.model_fields), (
        "a rule is a field of Thresholds (agent_eval/contracts/gate.py) and, in the same place, a row of "
        "RULES (agent_eval/config/rules.py)"
    )
    assert len({rule.label for rule in RULES}) == len(RULES)


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
def test_a_limit_without_a_comparison_is_applied_only_when_it_needs_none(rule: Rule) -> None:
    measured = Measured(cases=4, passed=Fraction(4), hard_failed=Fraction(0))
    [result] = apply_limits(Thresholds(**{rule.field: rule.example}), measured, may_vary=False)
    assert result.applied == (rule.field in ABSOLUTE)


def test_a_report_shows_every_limit_with_its_sentence() -> None:
    found = compare(view({"a": "passed"}), view({"a": "failed"}), generated_at=NOW)
    limits = Thresholds(**{rule.field: rule.example for rule in RULES})
    decision = decide(found, limits, generated_at=NOW)
    assert decision.gate_status is GateStatus.FAILED
    suite = SuiteReport(
        slug="a", suite_path="a.json", decision=decision, candidate=found.candidate, comparison=found
    )
    story = story_of(suite)
    shown = "\n".join(behind_a_click(suite, story, COMMENT[0]))
    assert len(story.rules) == len(RULES)
    for rule in story.rules:
        assert f"{SIGNS[rule.state]} {prose(rule.text)}" in shown


@EACH
def test_a_rule_is_an_input_of_the_ci_job(rule: Rule) -> None:
    option = INPUT_BY_NAME[rule.option]
    assert (option.goes_to, option.help) == (f"thresholds.{rule.field}", rule.help)


def test_a_check_that_is_no_rule_is_not_in_the_table() -> None:
    assert find_rule("something_measured") is None


@EACH
def test_the_policy_to_start_from_names_every_limit(rule: Rule) -> None:
    assert re.search(rf"^(# )?{rule.field}: ", (STARTER / "gate.yml").read_text("utf-8"), re.MULTILINE)


def guide() -> str:
    rows = [f"| `{rule.flag} {rule.example}` | {rule.help} |" for rule in RULES]
    return "\n".join(["| flag of `gate` | |", "|---|---|", *rows]) + "\n"


SHOWN = {
    ROOT / "docs" / "guides" / "first-evaluation.md": ("<!-- rules -->\n", guide, r"\nA \*\*hard fail"),
}
"""By file: what stands before the rules, the rules as it shows them, and what comes after."""


@pytest.mark.parametrize("file", SHOWN, ids=lambda file: file.name)
def test_the_guide_shows_every_rule(file: Path) -> None:
    before, show, after = SHOWN[file]
    text = file.read_text(encoding="utf-8")
    part = re.compile(rf"({re.escape(before)})(.*?)(?={after})", re.DOTALL)
    if os.environ.get("UPDATE_GOLDEN") == "1":
        text = part.sub(lambda found: found.group(1) + show(), text, count=1)
        file.write_text(text, encoding="utf-8")
    found = part.search(text)
    assert found is not None
    assert found.group(2) == show(), f"`make generated` writes the rules in {file.name} anew"
