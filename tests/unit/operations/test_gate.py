"""What a decision is made by: policies from files, and what flags name beside them."""

from __future__ import annotations

from pathlib import Path

import pytest

from agent_eval.contracts.policy import GatePolicy
from agent_eval.errors import InvalidInput
from agent_eval.operations.gate import Rules


@pytest.mark.parametrize(
    ("name", "text"),
    [("gate.yml", "margin: 0.03\npreset: release\n"), ("gate.json", '{"margin": 0.03, "preset": "release"}')],
)
def test_a_policy_is_read_from_yaml_and_from_json_and_flags_come_before_it(
    name: str, text: str, tmp_path: Path
) -> None:
    path, more = tmp_path / name, tmp_path / "more.yml"
    path.write_text(text)
    more.write_text("min_pass_rate: 0.9\n")
    stated = GatePolicy(margin=0.03, preset="release")
    assert Rules.stated({}, policy=path).policy == stated
    assert Rules.stated({}, policy=path, preset="pull-request").policy == GatePolicy(
        margin=0.03, preset="pull-request"
    )
    added = Rules.stated({}, policy=path, config=more).policy
    assert added == stated.model_copy(update={"min_pass_rate": 0.9})


def test_a_preset_alone_is_a_policy_and_nothing_is_none() -> None:
    assert Rules.stated({}, preset="release").policy == GatePolicy(preset="release")
    assert Rules.stated({}).policy is None


@pytest.mark.parametrize(("name", "text"), [("gate.yml", "- margin"), ("gate.json", "[1]")])
def test_a_policy_that_is_no_object_decides_nothing(name: str, text: str, tmp_path: Path) -> None:
    path = tmp_path / name
    path.write_text(text)
    with pytest.raises(InvalidInput, match="must hold an object") as refused:
        Rules.stated({}, policy=path)
    assert refused.value.details["file"] == str(path)
