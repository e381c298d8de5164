"""A decision that rests on more than a comparison is not replaced by one that rests on less."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from agent_eval.operations.decided_before import NO_CONFIRMATION, GateInputs, refuse_to_replace
from agent_eval.operations.pool import NO_POOL

from agent_eval.contracts import GateDecision
from agent_eval.errors import UsageError
from agent_eval.evidence.derived import STDOUT
from agent_eval.storage.json import dumps

NOTHING = GateInputs(None, None, by_policy=True)
RECORD = GateInputs(Path("compare/confirmation.json"), None, by_policy=True)
LEFT_OUT = GateInputs(NO_CONFIRMATION, NO_POOL, by_policy=True)


def decision(**fields: Any) -> bytes:
    """A decision on a run, as a file has it."""
    stated = {
        "generated_at": "2026-01-14T10:00:00+00:00",
        "gate_status": "failed",
        "passed": False,
        "thresholds": {},
        "candidate_run_id": "local-6",
        **fields,
    }
    return dumps(GateDecision.model_validate(stated).to_json())


def rule(name: str) -> dict[str, Any]:
    return {"rule": name, "threshold": 0, "value": 1, "passed": False, "message": "It does not hold."}


CONFIRMED = {"confirmation_sha256": "0" * 64}
LOOSENED = {"rules": [rule("rules_of_the_base")]}
BY_THRESHOLDS = {"rules": [rule("max_regressed_cases")]}


@pytest.mark.parametrize(
    ("before", "given", "why"),
    [
        (CONFIRMED, NOTHING, "rests on fresh trials of both sides"),
        (CONFIRMED, RECORD, ""),
        (CONFIRMED, LEFT_OUT, "rests on fresh trials of both sides"),
        (LOOSENED, NOTHING, "breaks the job's own rule rules_of_the_base"),
        (LOOSENED, RECORD, "breaks the job's own rule rules_of_the_base"),
        (BY_THRESHOLDS, NOTHING, ""),
    ],
)
def test_what_a_job_knows_is_not_lost_by_deciding_again(
    tmp_path: Path, before: dict[str, Any], given: GateInputs, why: str
) -> None:
    path = tmp_path / "gate_decision.json"
    path.write_bytes(decision(**before))
    if not why:
        refuse_to_replace(path, path, given)
        return
    with pytest.raises(UsageError, match=why) as refused:
        refuse_to_replace(path, path, given)
    assert refused.value.details["file"] == str(path)
    assert "--out" in refused.value.remedy


@pytest.mark.parametrize("content", [None, b"{}", b"{", b"\xff"])
def test_what_is_no_decision_may_be_replaced(tmp_path: Path, content: bytes | None) -> None:
    path = tmp_path / "gate_decision.json"
    if content is not None:
        path.write_bytes(content)
    refuse_to_replace(path, path, NOTHING)
    refuse_to_replace(STDOUT, path, NOTHING)


def test_a_file_of_the_users_own_may_be_replaced(tmp_path: Path) -> None:
    again = tmp_path / "again.json"
    again.write_bytes(decision(**CONFIRMED))
    refuse_to_replace(again, tmp_path / "gate_decision.json", NOTHING)
