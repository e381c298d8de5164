"""Every limit of the gate is applied, can be set everywhere, and is shown everywhere."""

import os
import re
from fractions import Fraction
from pathlib import Path

import pytest

from agent_eval.comparison.compare import compare
from agent_eval.config.options import Option
from agent_eval.config.rows.file import KEYS
from agent_eval.config.rows.job import THRESHOLDS
from agent_eval.contracts import GateStatus, Thresholds
from agent_eval.contracts.policy import GatePolicy
from agent_eval.gate.decide import decide
from agent_eval.gate.limits import ABSOLUTE, Measured, apply_limits
from agent_eval.gate.policy_file import parse_thresholds
from agent_eval.reports.comment import render_markdown
from agent_eval.reports.model import SuiteReport
from agent_eval.reports.story import story_of
from agent_eval.text.escape import prose
from tests.unit.comparison.views import view

ROOT = Path(__file__).parents[2]
NOW = "2026-01-14T10:00:00+00:00"
EXAMPLES = {
    "min_pass_rate": 0.95, "max_hard_fail_rate": 0.05, "max_hard_fail_increase": 0.0,
    "max_regressed_cases": 0, "max_new_hard_fail_cases": 0,
}  # fmt: skip
"""A limit of each rule, for the guide."""
EACH = pytest.mark.parametrize("option", THRESHOLDS, ids=lambda option: option.field)


def test_the_table_has_the_rules_of_the_contract_in_their_order() -> None:
    fields = list(Thresholds.model_fields)
    assert [option.field for option in THRESHOLDS] == fields == list(EXAMPLES), (
        "a rule is a field of Thresholds (agent_eval/contracts/gate.py) and, in the same place, a row of "
        "agent_eval/config/rows/job.py and of EXAMPLES"
    )
    missing = set(fields) - GatePolicy.model_fields.keys()
    assert missing == set(), "a policy has the limit too: agent_eval/contracts/policy.py"
    without_key = [option.name for option in THRESHOLDS if option.name not in KEYS]
    assert without_key == [], "agent-eval.yml states the limit: KEYS of agent_eval/config/rows/file.py"


@EACH
def test_a_rule_takes_the_limits_that_its_words_promise(option: Option) -> None:
    name, example = option.field, EXAMPLES[option.field]
    whole = option.kind == "count"
    wanted = "a whole number from 0 on" if whole else "a share from 0 to 1"
    assert getattr(parse_thresholds({name: 1}), name) == 1
    assert getattr(Thresholds(**{name: example}), name) == example
    for wrong in (-1, 0.5 if whole else 1.5, float("nan")):
        with pytest.raises(Exception, match=wanted) as refused:
            parse_thresholds({name: wrong})
        assert f"`{KEYS[option.name]}`" in refused.value.remedy  # type: ignore[attr-defined]


@EACH
def test_a_limit_without_a_comparison_is_applied_only_when_it_needs_none(option: Option) -> None:
    measured = Measured(cases=4, passed=Fraction(4), hard_failed=Fraction(0))
    limits = Thresholds(**{option.field: EXAMPLES[option.field]})
    [result] = apply_limits(limits, measured, may_vary=False)
    assert result.applied == (option.field in ABSOLUTE)


def test_each_limit_is_held_against_a_figure_of_its_own() -> None:
    measured = Measured(
        cases=10, passed=Fraction(5), hard_failed=Fraction(2), has_baseline=True, compared=10,
        hard_fails=[(Fraction(1), Fraction(2))], regressed=4, new_hard_fails=3,
    )  # fmt: skip
    results = apply_limits(Thresholds(**EXAMPLES), measured, may_vary=False)
    assert len({result.value for result in results}) == len(EXAMPLES), (
        "a rule without a branch in `_hold` of agent_eval/gate/limits.py counts what another one counts"
    )


def test_a_report_shows_every_limit_with_its_sentence() -> None:
    found = compare(view({"a": "passed"}), view({"a": "failed"}), generated_at=NOW)
    limits = Thresholds(**EXAMPLES)
    decision = decide(found, limits, generated_at=NOW)
    assert decision.gate_status is GateStatus.FAILED
    suite = SuiteReport(
        slug="a", suite_path="a.json", decision=decision, candidate=found.candidate, comparison=found
    )
    story = story_of(suite)
    shown = render_markdown(found, decision, title="Nightly")
    assert len(story.rules) == len(EXAMPLES)
    for rule in story.rules:
        assert prose(rule.text.rstrip("."), begins_line=False) in shown


def written(option: Option) -> str:
    return f"{option.flag} " if "gate" in option.commands else f"--set {KEYS[option.name]}="


def guide() -> str:
    rows = [f"| `{written(option)}{EXAMPLES[option.field]}` | {option.help} |" for option in THRESHOLDS]
    return "\n".join(["| flag of `gate` | |", "|---|---|", *rows]) + "\n"


SHOWN = {ROOT / "docs" / "guides" / "gate.md": ("<!-- rules -->\n", guide, r"\nFlags alone set")}
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
