from __future__ import annotations

from pathlib import Path

import pytest

from agent_eval.contracts.policy import GatePolicy
from agent_eval.errors import InvalidInput
from agent_eval.operations.gate import chosen_policy, read_policy


@pytest.mark.parametrize(
    ("name", "text"),
    [("gate.yml", "margin: 0.03\npreset: release\n"), ("gate.json", '{"margin": 0.03, "preset": "release"}')],
)
def test_a_policy_is_read_from_yaml_and_from_json(name: str, text: str, tmp_path: Path) -> None:
    path = tmp_path / name
    path.write_text(text)
    policy = read_policy(path)
    assert policy == GatePolicy(margin=0.03, preset="release")
    # A preset that is named takes the place of the file's; what the file states beside it stands.
    assert chosen_policy(path, "pull-request") == GatePolicy(margin=0.03, preset="pull-request")
    assert chosen_policy(path, None) == policy


def test_a_preset_alone_is_a_policy_and_nothing_is_none() -> None:
    assert chosen_policy(None, "release") == GatePolicy(preset="release")
    assert chosen_policy(None, None) is None


@pytest.mark.parametrize(("name", "text"), [("gate.yml", "- margin"), ("gate.json", "[1]")])
def test_a_policy_that_is_no_object_decides_nothing(name: str, text: str, tmp_path: Path) -> None:
    path = tmp_path / name
    path.write_text(text)
    with pytest.raises(InvalidInput, match="must hold an object") as refused:
        read_policy(path)
    assert refused.value.details["file"] == str(path)
