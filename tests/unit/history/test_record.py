"""What a run's record counts of each case, and under which key."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from agent_eval.contracts import REPLAY_CONTRACT, CaseResult, case_policy, case_result, trials_result
from agent_eval.contracts.base import canonical_json
from agent_eval.contracts.history import CaseRecord, RunRecord
from agent_eval.evidence.reader import open_pack
from agent_eval.history.key import history_key
from agent_eval.history.record import record_of
from tests.factories import make_config, make_pack, make_result, make_verdict


def recorded(tmp_path: Path, *results: CaseResult) -> RunRecord:
    """The record of a pack with these results."""
    judges = sorted({verdict.judge_id for verdict in results[0].verdicts} - {REPLAY_CONTRACT})
    make_pack(tmp_path / "pack", list(results), config=make_config(judges=judges))
    return record_of(open_pack(tmp_path / "pack"))


def ended(*verdicts: tuple[str, str | None], case_id: str = "a") -> CaseResult:
    """A case of one trial, by outcome and kind of failure of each verdict."""
    return case_result(
        case_id,
        [make_verdict(case_id, REPLAY_CONTRACT)]
        + [
            make_verdict(case_id, f"judge-{number}", outcome, failure=failure)
            for number, (outcome, failure) in enumerate(verdicts)
        ],
    )


def test_a_pass_and_a_miss_are_scored(tmp_path: Path) -> None:
    record = recorded(tmp_path, make_result("a"), make_result("b", failed="policy"))
    assert (record.cases["a"].passed, record.cases["a"].scored) == (1, 1)
    assert (record.cases["b"].passed, record.cases["b"].scored) == (0, 1)
    assert sum(record.cases["b"].missed.values()) == 1
    assert record.pass_rate == 0.5


@pytest.mark.parametrize(
    ("verdicts", "lost", "missed"),
    [
        ([("error", "judge_error")], {"judge": 1}, {}),
        ([("error", "infrastructure")], {"judge": 1}, {}),
        ([("error", "environment")], {"environment": 1}, {}),
        ([("error", "simulator_error")], {"environment": 1}, {}),
        ([("skipped", None)], {"not_judged": 1}, {}),
        ([("error", "timeout")], {"judge": 1}, {}),
        ([("error", "missing_output")], {}, {"missing_output": 1}),
        ([("inconclusive", None)], {}, {"inconclusive": 1}),
        ([("error", "judge_error"), ("failed", "policy_violation")], {}, {"policy_violation": 1}),
        ([("error", "judge_error"), ("error", "agent_error")], {}, {"agent_error": 1}),
        ([("error", "judge_error"), ("passed", None)], {"judge": 1}, {}),
    ],
)
def test_what_is_not_the_agents_fault_is_lost_and_not_scored(
    tmp_path: Path, verdicts: list[tuple[str, str | None]], lost: dict[str, int], missed: dict[str, int]
) -> None:
    case = recorded(tmp_path, ended(*verdicts)).cases["a"]
    assert (case.lost, case.missed) == (lost, missed)
    assert (case.passed, case.scored) == (0, sum(missed.values()))


@pytest.mark.parametrize(
    ("kind", "lost", "missed"),
    [
        ("infrastructure", {"infrastructure": 1}, {}),
        ("environment", {"environment": 1}, {}),
        ("timeout", {}, {"timeout": 1}),
        ("agent_error", {}, {"agent_error": 1}),
    ],
)
def test_how_the_attempt_ended_says_whose_fault_the_rest_is(
    tmp_path: Path, kind: str, lost: dict[str, int], missed: dict[str, int]
) -> None:
    """Judges find an answer missing, or a tool never called, that there was no time for."""
    result = case_result(
        "a",
        [
            make_verdict("a", REPLAY_CONTRACT),
            make_verdict("a", "execution", "error", failure=kind),
            make_verdict("a", "regex", "error", failure="missing_output"),
            make_verdict("a", "policy", "failed"),
        ],
    )
    case = recorded(tmp_path, result).cases["a"]
    assert (case.lost, case.missed) == (lost, missed)


def test_a_leak_before_the_connection_broke_is_the_agents(tmp_path: Path) -> None:
    result = case_result(
        "a",
        [
            make_verdict("a", REPLAY_CONTRACT),
            make_verdict("a", "execution", "error", failure="infrastructure"),
            make_verdict("a", "prompt_injection", "failed", failure="injection"),
        ],
    )
    case = recorded(tmp_path, result).cases["a"]
    assert (case.scored, case.lost) == (1, {})


def test_a_pack_of_an_older_version_states_no_fault_and_is_counted_all_the_same(tmp_path: Path) -> None:
    result = ended(("error", "judge_error")).model_copy(update={"fault": None})
    assert recorded(tmp_path, result).cases["a"].lost == {"judge": 1}


def test_each_trial_counts(tmp_path: Path) -> None:
    trials = [ended(("passed", None)), ended(("failed", "policy_violation")), ended(("error", "judge_error"))]
    case = recorded(tmp_path, trials_result(trials, case_policy("all"))).cases["a"]
    assert (case.passed, case.scored, case.lost) == (1, 2, {"judge": 1})


def test_a_case_takes_less_than_200_bytes() -> None:
    case = CaseRecord(
        case_id="refund-over-the-limit-of-a-friend",
        definition="ab" * 6,
        passed=9,
        scored=12,
        lost={"infrastructure": 1},
        missed={"policy_violation": 3},
        cost_usd=0.012345,
        latency_ms=12345.0,
    )
    assert len(canonical_json(case.to_json())) < 200


@pytest.mark.parametrize(
    "change",
    [
        {"model": "another"},
        {"judges": ["regex"]},
        {"judge_configs": {"llm_judge": {"model": "x"}}},
        {"policy_hash": "1"},
        {"schema_version": "1.1.0"},
        {"execution_config": {"simulator": {"model": "x"}}},
        {"execution_config": {"max_repairs": 2}},
        {"execution_config": {"judge_code": {"mine": "0f"}}},
    ],
)
def test_another_setup_has_another_key(change: dict[str, Any]) -> None:
    config = make_config()
    assert history_key(config) != history_key(type(config).model_validate({**config.to_json(), **change}))


@pytest.mark.parametrize(
    "change",
    [
        {"run_id": "other"},
        {"git_commit": "0" * 40},
        {"agent_version": "8"},
        {"prompt_hash": "1"},
        {"suite_digest": "2"},
        {"execution_config": {"trials": 4}},
        {"execution_config": {"trials": 1, "looks": [1]}},
        {"execution_config": {"trials": 4, "looks": [1, 4]}},
    ],
)
def test_what_is_measured_is_not_part_of_the_key(change: dict[str, Any]) -> None:
    config = make_config()
    assert history_key(config) == history_key(type(config).model_validate({**config.to_json(), **change}))
