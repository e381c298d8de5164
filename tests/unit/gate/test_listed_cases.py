"""Ids that a policy lists and no run has."""

from __future__ import annotations

import pytest

from agent_eval.contracts.policy import GatePolicy, Quarantine
from agent_eval.gate.listed_cases import unknown_case_warnings

WHERE = "neither run has it"


@pytest.mark.parametrize(
    ("policy", "key"),
    [
        (GatePolicy(tracked=["order-1", "ordr-2"]), "tracked"),
        (GatePolicy(expected_fail=["ordr-2", "order-1"]), "expected_fail"),
        (GatePolicy(quarantine=[Quarantine(case_id="ordr-2", reason="flaky")]), "quarantine"),
    ],
)
def test_a_listed_case_that_does_not_exist_is_said_with_the_nearest_that_does(
    policy: GatePolicy, key: str
) -> None:
    assert unknown_case_warnings(policy, ["order-1", "order-2"], where=WHERE) == [
        f"`{key}` of the policy lists `ordr-2`, but neither run has it. Did you mean `order-2`?"
    ]


def test_nothing_is_said_where_every_listed_case_exists_or_none_is_listed() -> None:
    assert unknown_case_warnings(GatePolicy(tracked=["a"], expected_fail=["b"]), "ab", where=WHERE) == []
    assert unknown_case_warnings(GatePolicy(), [], where=WHERE) == []


def test_an_id_like_no_other_has_no_suggestion_and_many_are_counted() -> None:
    sentences = unknown_case_warnings(
        GatePolicy(tracked=[f"x{n}" for n in range(9)]), ["refund"], where=WHERE
    )
    assert sentences[0] == "`tracked` of the policy lists `x0`, but neither run has it."
    assert sentences[5:] == ["The policy lists 4 more such ids."]


def test_an_id_with_backticks_ends_no_code_and_a_long_one_is_cut() -> None:
    [sentence] = unknown_case_warnings(GatePolicy(tracked=["`" + "x" * 5_000]), ["a"], where=WHERE)
    assert sentence.startswith("`tracked` of the policy lists `'xxx")
    assert len(sentence) < 300
