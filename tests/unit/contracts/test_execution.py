"""How a run was made is typed, and written as it always was."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import orjson
import pytest
from pydantic import ValidationError

from agent_eval.contracts import (
    AttemptLimits,
    ExecutionConfig,
    RunConfig,
    SuiteShard,
    TrialLimits,
)
from tests.factories import make_config, pretty

OLD_CONFIGS = sorted((Path(__file__).parents[2] / "fixtures" / "packs").glob("*/packs/*/run/config.json"))

AGENT = {
    "agent": {"agent": "command", "command": ["python3"], "environment": [], "repair_command": None},
    "attempt_limits": {
        "output_bytes": 8388608, "seconds": 30.0, "steps": 50, "tokens": None, "tool_calls": 200},
    "case_limits": {}, "max_repairs": 0, "share_expected_output": False, "strict_side_effects": True,
    "trials": 3,
}  # fmt: skip
SHARD = {"count": 2, "number": 1, "positions": "eNpjAQAABQAF", "total": 3}


@pytest.mark.parametrize("path", OLD_CONFIGS, ids=lambda path: path.parts[-3])
def test_the_configuration_of_an_old_pack_is_written_as_it_was_read(path: Path) -> None:
    data = path.read_bytes()
    assert pretty(RunConfig.model_validate(orjson.loads(data)).to_json()) == data


@pytest.mark.parametrize(
    "stated",
    [
        {},
        {"case_policy": "majority", "selected_cases": ["a", "b"]},
        {"shard": SHARD, "redacted_cases": 2},
        {**AGENT, "rejudged_from": {"run_id": "r", "manifest_sha256": "0" * 64}, "cassette": "replay"},
        {"attempt_limits": {"seconds": None}, "case_limits": {"cost_usd": 0.5}},
        {"of_a_later_version": {"x": None}, "also": None, "agent": {"agent": "new", "more": [None]}},
    ],
)
def test_what_a_pack_states_is_written_again_and_what_it_leaves_out_stays_out(stated: dict[str, Any]) -> None:
    assert ExecutionConfig.model_validate(stated).to_json() == stated
    assert orjson.loads(ExecutionConfig.model_validate(stated).model_dump_json()) == stated


def test_none_is_absent_except_for_the_limits_of_an_attempt() -> None:
    execution = ExecutionConfig(
        tool_server=None,
        cassette=None,
        attempt_limits=AttemptLimits(steps=None).in_full(),
        case_limits=TrialLimits(seconds=None, tokens=9),
    )
    assert execution.to_json() == {
        "attempt_limits": {**AGENT["attempt_limits"], "steps": None},  # type: ignore[dict-item]
        "case_limits": {"tokens": 9},
    }


@pytest.mark.parametrize(
    ("stated", "place"),
    [
        ({"trials": 0}, ("trials",)),
        ({"trials": "3"}, ("trials",)),
        ({"trials": 1001}, ("trials",)),
        ({"max_repairs": -1}, ("max_repairs",)),
        ({"strict_side_effects": "yes"}, ("strict_side_effects",)),
        ({"attempt_limits": {"seconds": -1}}, ("attempt_limits", "seconds")),
        ({"attempt_limits": {"output_bytes": 0}}, ("attempt_limits", "output_bytes")),
        ({"case_limits": {"cost_usd": "NaN"}}, ("case_limits", "cost_usd")),
        ({"agent": {"command": ["x"]}}, ("agent", "agent")),
        ({"shard": "1/2"}, ("shard",)),
        ({"cassette": "rewind"}, ("cassette",)),
        ({"selected_cases": "a"}, ("selected_cases",)),
    ],
)
def test_an_impossible_execution_is_refused_by_its_place(
    stated: dict[str, Any], place: tuple[str, ...]
) -> None:
    with pytest.raises(ValidationError) as refused:
        make_config(execution_config=stated)
    assert refused.value.errors()[0]["loc"] == ("execution_config", *place)


def test_a_run_of_a_whole_suite_names_no_shard_and_sums_what_was_redacted() -> None:
    part = ExecutionConfig(shard=SuiteShard.model_validate(SHARD), case_policy="any", redacted_cases=1)
    assert part.of_whole_suite(redacted_cases=3, damaged_records=2).to_json() == {
        "case_policy": "any",
        "redacted_cases": 3,
        "damaged_records": 2,
    }
    assert part.of_whole_suite().to_json() == {"case_policy": "any"}
    assert part.with_redactions(0, 0).to_json() == {"case_policy": "any", "shard": SHARD}
