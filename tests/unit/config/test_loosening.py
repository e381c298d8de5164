"""Everything that a change could loosen is in a table that says in which direction it lets more pass."""

from __future__ import annotations

from typing import get_args

import pytest

from agent_eval.ci.inputs import INPUTS
from agent_eval.config.options import Loosens, Option
from agent_eval.config.rules import POLICY, RULES
from agent_eval.config.table import OPTIONS
from agent_eval.contracts import Thresholds
from agent_eval.contracts.policy import GatePolicy

NUMBERS = {"share", "amount", "count", "integer"}


@pytest.mark.parametrize("option", [pytest.param(row, id=row.name) for row in INPUTS])
def test_every_option_of_the_job_says_what_loosens_it(option: Option) -> None:
    assert option.loosens in get_args(Loosens)
    if option.loosens in ("higher", "lower"):
        assert option.kind in NUMBERS
    if option.loosens in ("on", "off"):
        assert option.kind == "switch"
    if option.loosens in ("earlier", "later"):
        assert len(option.choices) > 1


def test_no_other_option_does() -> None:
    assert [row.name for row in OPTIONS if row.loosens and "ci" not in row.commands] == []


def test_every_rule_and_every_key_of_a_policy_says_what_loosens_it() -> None:
    assert {rule.field for rule in RULES} == set(Thresholds.model_fields)
    assert {rule.loosens for rule in RULES} == {"higher", "lower"}
    assert list(POLICY) == list(GatePolicy.model_fields)
    assert set(POLICY.values()) <= set(get_args(Loosens))
