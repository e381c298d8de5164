"""Predicates: which result follows from which outcomes, and what a gate's statement names."""

from __future__ import annotations

import base64
import json

import pytest

from agent_eval.attestations.statement import (
    check_result,
    gate_predicate,
    result_predicate,
    subjects_of,
)
from agent_eval.contracts import GateDecision, GateStatus, Thresholds
from agent_eval.contracts.gate import ReleaseAnswer
from agent_eval.errors import InvalidInput
from agent_eval.storage.files import sha256_bytes
from tests.factories import make_config

DIGEST = "9f" * 32


@pytest.mark.parametrize(
    ("outcomes", "result"),
    [
        (["passed", "passed"], "PASSED"),
        (["passed", "skipped"], "WARNED"),
        (["passed", "inconclusive"], "WARNED"),
        (["inconclusive", "failed"], "FAILED"),
        (["passed", "error"], "FAILED"),
    ],
)
def test_only_a_run_in_which_every_case_passed_is_passed(outcomes: list[str], result: str) -> None:
    cases = [(f"case-{number}", outcome) for number, outcome in enumerate(outcomes)]
    predicate = result_predicate(make_config(), cases)
    assert predicate["result"] == result
    names = predicate["passedTests"] + predicate["warnedTests"] + predicate["failedTests"]
    assert sorted(names) == [case_id for case_id, _ in cases]


def test_what_is_known_of_the_configuration_is_named_by_digest() -> None:
    config = make_config(suite_digest=DIGEST, prompt_hash="not a digest", policy_hash="0" * 64)
    predicate = result_predicate(config, [], url="https://example.org/runs/1")
    assert predicate["configuration"] == [
        {"name": "suite", "digest": {"sha256": DIGEST}},
        {"name": "policy", "digest": {"sha256": "0" * 64}},
    ]
    assert predicate["url"] == "https://example.org/runs/1"


@pytest.mark.parametrize(
    ("fields", "digests"),
    [
        ({}, [{"sha256": DIGEST}]),
        ({"git_commit": "A" * 40}, [{"sha256": DIGEST}, {"gitCommit": "a" * 40}]),
        ({"git_commit": "main"}, [{"sha256": DIGEST}]),
        (
            {"container_image": f"registry/agent@sha256:{'1' * 64}"},
            [{"sha256": DIGEST}, {"sha256": "1" * 64}],
        ),
        ({"container_image": "agent:latest"}, [{"sha256": DIGEST}]),
    ],
)
def test_subjects_are_the_manifest_and_the_agent_where_its_digest_is_known(
    fields: dict[str, str], digests: list[dict[str, str]]
) -> None:
    assert [subject["digest"] for subject in subjects_of(DIGEST, make_config(**fields))] == digests


def passed_decision(**fields: object) -> GateDecision:
    values = {"generated_at": "2026-01-14T11:00:00+01:00", "gate_status": GateStatus.PASSED, "passed": True}
    limits = {"thresholds": Thresholds(min_pass_rate=0.9), "candidate_run_id": "run-1"}
    return GateDecision.model_validate({**values, **limits, **fields})


def test_a_passed_gate_names_its_policy_its_properties_and_what_was_compared() -> None:
    decision = passed_decision(
        preset="release", baseline_manifest_sha256="1" * 64, comparison_sha256="2" * 64,
        release=ReleaseAnswer(fall=0.0, low=-0.01, high=0.01, margin=0.02, answer="within", reason=""),
    )  # fmt: skip
    predicate = gate_predicate(make_config(), decision, DIGEST)
    assert predicate["timeCreated"] == "2026-01-14T10:00:00Z"
    assert predicate["properties"] == [
        "AGENT_EVAL_GATE_PASSED",
        "AGENT_EVAL_BASELINE_COMPARED",
        "AGENT_EVAL_MARGIN_HELD",
    ]
    (policy,) = predicate["verifier"]["policies"]
    content = base64.b64decode(policy["content"])
    assert (policy["name"], policy["digest"]) == ("release", {"sha256": sha256_bytes(content)})
    assert json.loads(content)["thresholds"]["min_pass_rate"] == 0.9
    assert predicate["agentEval_gate"] == {
        "decisionSha256": DIGEST, "comparisonSha256": "2" * 64, "baselineManifestSha256": "1" * 64,
        "baselineRunId": None,
    }  # fmt: skip


@pytest.mark.parametrize(
    "fields",
    [
        *({"gate_status": status} for status in GateStatus if status is not GateStatus.PASSED),
        {"passed": False},
        {"blocks": True},
    ],
)
def test_a_gate_that_did_not_pass_has_no_predicate(fields: dict[str, object]) -> None:
    with pytest.raises(InvalidInput, match="did not pass"):
        gate_predicate(make_config(), passed_decision(**fields), DIGEST)
    without_a_baseline = gate_predicate(make_config(), passed_decision(), DIGEST)
    assert without_a_baseline["properties"] == ["AGENT_EVAL_GATE_PASSED"]
    assert without_a_baseline["verifier"]["policies"][0]["name"] == "thresholds"


@pytest.mark.parametrize(
    ("change", "differs"),
    [
        ({}, ""),
        ({"url": "https://example.org"}, ""),
        ({"result": "PASSED"}, "result"),
        ({"passedTests": ["a", "b"]}, "passedTests"),
        ({"failedTests": []}, "failedTests"),
        ({"warnedTests": ["c"]}, "warnedTests"),
        ({"agentEval_run": {"runId": "other"}}, "runId"),
        ({"agentEval_run": {"runId": "run-1"}}, ""),
    ],
)
def test_a_predicate_must_follow_from_its_run(change: dict[str, object], differs: str) -> None:
    outcomes = [("a", "passed"), ("b", "failed")]
    predicate = {**result_predicate(make_config(), outcomes), **change}
    assert check_result(predicate, make_config(), outcomes) == differs
