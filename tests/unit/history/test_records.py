"""Records of runs: what is counted of each case, under which key; what is read is what was written."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from agent_eval.contracts import REPLAY_CONTRACT, CaseResult, case_policy, case_result, trials_result
from agent_eval.contracts.base import canonical_json
from agent_eval.contracts.history import CaseRecord, RunRecord
from agent_eval.errors import InvalidInput
from agent_eval.evidence.derived import write_output
from agent_eval.evidence.reader import open_pack
from agent_eval.history.records import (
    HISTORY,
    MAX_RUNS,
    decode,
    encode,
    history_key,
    newest_first,
    read_history,
    record_of,
)
from tests.factories import make_config, make_pack, make_result, make_verdict
from tests.unit.history.made import made_run


def recorded(tmp_path: Path, *results: CaseResult) -> RunRecord:
    """The record of a pack with these results."""
    judges = sorted({verdict.judge_id for verdict in results[0].verdicts} - {REPLAY_CONTRACT})
    make_pack(tmp_path / "pack", list(results), config=make_config(judges=judges))
    return record_of(open_pack(tmp_path / "pack"))


def ended(*verdicts: tuple[str, str | None], judges: tuple[str, ...] = ()) -> CaseResult:
    """The case `a` of one trial, by outcome and kind of failure of each verdict."""
    names = [*judges, *(f"judge-{number}" for number in range(len(judges), len(verdicts)))]
    stated = [
        make_verdict("a", name, outcome, failure=failure)
        for name, (outcome, failure) in zip(names, verdicts, strict=True)
    ]
    return case_result("a", [make_verdict("a", REPLAY_CONTRACT), *stated])


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


MISSING, VIOLATED = ("error", "missing_output"), ("failed", "policy_violation")
INJECTED = ("failed", "injection")


@pytest.mark.parametrize(
    ("kind", "rest", "lost", "missed"),
    [
        ("infrastructure", (MISSING, VIOLATED), {"infrastructure": 1}, {}),
        ("environment", (MISSING, VIOLATED), {"environment": 1}, {}),
        ("timeout", (MISSING, VIOLATED), {}, {"timeout": 1}),
        ("agent_error", (MISSING, VIOLATED), {}, {"agent_error": 1}),
        # A leak before the connection broke is the agent's.
        ("infrastructure", (INJECTED,), {}, {"injection": 1}),
    ],
)
def test_how_the_attempt_ended_says_whose_fault_the_rest_is(
    tmp_path: Path, kind: str, rest: Any, lost: dict[str, int], missed: dict[str, int]
) -> None:
    """Judges find an answer missing, or a tool never called, that there was no time for."""
    judges = ("execution", "prompt_injection") if rest == (INJECTED,) else ("execution", "regex", "policy")
    case = recorded(tmp_path, ended(("error", kind), *rest, judges=judges)).cases["a"]
    assert (case.lost, case.missed, case.scored) == (lost, missed, sum(missed.values()))


def test_a_pack_of_an_older_version_states_no_fault_and_is_counted_all_the_same(tmp_path: Path) -> None:
    result = ended(("error", "judge_error")).model_copy(update={"fault": None})
    assert recorded(tmp_path, result).cases["a"].lost == {"judge": 1}


def test_each_trial_counts(tmp_path: Path) -> None:
    trials = [ended(("passed", None)), ended(("failed", "policy_violation")), ended(("error", "judge_error"))]
    case = recorded(tmp_path, trials_result(trials, case_policy("all"))).cases["a"]
    assert (case.passed, case.scored, case.lost) == (1, 2, {"judge": 1})


def test_a_case_takes_less_than_200_bytes() -> None:
    case = CaseRecord(
        case_id="refund-over-the-limit-of-a-friend", definition="ab" * 6, passed=9, scored=12,
        lost={"infrastructure": 1}, missed={"policy_violation": 3}, cost_usd=0.012345, latency_ms=12345.0,
    )  # fmt: skip
    assert len(canonical_json(case.to_json())) < 200


@pytest.mark.parametrize(
    "change",
    [
        {"model": "another"}, {"judges": ["regex"]}, {"judge_configs": {"llm_judge": {"model": "x"}}},
        {"policy_hash": "1"}, {"schema_version": "1.1.0"},
        {"execution_config": {"simulator": {"model": "x"}}}, {"execution_config": {"max_repairs": 2}},
        {"execution_config": {"judge_code": {"mine": "0f"}}},
    ],
)  # fmt: skip
def test_another_setup_has_another_key(change: dict[str, Any]) -> None:
    config = make_config()
    assert history_key(config) != history_key(type(config).model_validate({**config.to_json(), **change}))


@pytest.mark.parametrize(
    "change",
    [
        {"run_id": "other"}, {"git_commit": "0" * 40}, {"agent_version": "8"}, {"prompt_hash": "1"},
        {"suite_digest": "2"}, {"execution_config": {"trials": 4}},
        {"execution_config": {"trials": 1, "looks": [1]}},
        {"execution_config": {"trials": 4, "looks": [1, 4]}},
    ],
)  # fmt: skip
def test_what_is_measured_is_not_part_of_the_key(change: dict[str, Any]) -> None:
    config = make_config()
    assert history_key(config) == history_key(type(config).model_validate({**config.to_json(), **change}))


RUNS = [made_run(number, {"refund": (number % 2, 1), "cancel": (1, 1)}) for number in range(3)]


def test_several_records_in_one_file_are_read_as_they_were_written() -> None:
    assert decode(encode(*RUNS), source="runs.jsonl") == RUNS


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (lambda data: data[:-1], "the last line is cut off"),
        (lambda data: data[: data.rindex(b"{")], "where it says 2"),
        (lambda data: data.replace(b'"passed":1', b'"passed":7'), "not the record of a case"),
        (lambda data: data.replace(b'"scored":1', b'"scored":true'), "not the record of a case"),
        (lambda data: data.replace(b'"key"', b'"kee"'), "not the first line of a record"),
        (lambda data: data.replace(b'"1.2.0"', b'"9.0.0"'), "version '9.0.0', which cannot be read"),
        (lambda data: data.replace(b"+00:00", b""), "not the first line of a record"),
        (lambda data: b"[]\n" + data, "not the first line of a record"),
        (lambda data: b"\xff\n" + data, "line 1"),
        (lambda data: data.replace(b'"cases":2', b'"cases":1'), "not the first line of a record"),
        (lambda data: data.replace(b'"cases":2', b'"cases":%d' % 10**18), "where it says"),
        (lambda data: data.replace(b'"cases":2', b'"cases":%d' % 10**30), "where it says|line 1"),
    ],
)
def test_a_record_that_does_not_parse_is_an_error_and_never_an_empty_history(change, says: str) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(InvalidInput, match=says) as raised:
        decode(change(encode(RUNS[1])), source="runs.jsonl")
    assert raised.value.remedy


def test_histories_are_joined_newest_first_each_run_once() -> None:
    joined = newest_first([*RUNS[:2], *RUNS[1:]])
    assert [run.run.run_id for run in joined] == ["ci-2", "ci-1", "ci-0"]


def test_a_history_has_at_most_a_hundred_runs() -> None:
    joined = newest_first([made_run(number, {"a": (1, 1)}) for number in range(MAX_RUNS + 20)])
    assert len(joined) == MAX_RUNS
    assert joined[-1].run.run_id == "ci-20"


def test_a_history_has_at_most_eight_mebibytes() -> None:
    many = {f"a-case-with-a-longer-name-{number}": (1, 1) for number in range(30_000)}
    joined = newest_first([made_run(number, many) for number in range(4)])
    assert [run.run.run_id for run in joined] == ["ci-3", "ci-2"]


@pytest.mark.parametrize("dataset_id", ["shop", "other"])
def test_a_history_that_is_not_of_the_pack_it_is_in_is_refused(tmp_path: Path, dataset_id: str) -> None:
    make_pack(tmp_path / "pack")
    own = [] if dataset_id == "shop" else [record_of(open_pack(tmp_path / "pack"))]
    write_output(tmp_path / "pack" / HISTORY, encode(*own, made_run(1, {"a": (1, 1)}, dataset_id=dataset_id)))
    with pytest.raises(InvalidInput, match="not that of the run in this pack, or one is of another dataset"):
        read_history(open_pack(tmp_path / "pack"))
