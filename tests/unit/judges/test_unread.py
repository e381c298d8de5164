"""What an import did not read: no judge of the agent passes there, and what it fails stays failed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from agent_eval.contracts import Case, Outcome, Trace
from agent_eval.judges.catalog import judge_case, load_judges
from tests.unit.importers.importing import of_value

ASKED = {"role": "user", "content": "Remove order 7."}
CALL = {"id": "c1", "type": "function", "function": {"name": "delete_order", "arguments": '{"id": 7}'}}


def case_of(tmp_path: Path, expected: dict[str, Any]) -> Case:
    """A case whose only call stands in a field that no importer reads."""
    messages = [ASKED, {"role": "assistant", "content": "Order 7 is gone.", "laterCalls": [CALL]}]
    (case,) = of_value("framework", {"messages": messages}, tmp_path).cases
    return Case.model_validate(case | expected)


@pytest.mark.parametrize(
    ("judge", "expected", "outcome"),
    [
        ("policy", {"policy": {"forbidden_tools": ["delete_order"]}}, Outcome.INCONCLUSIVE),
        ("policy", {"policy": {"required_tools": ["find_order"]}}, Outcome.FAILED),
        ("final_output", {"expected_output": "Order 7 is gone."}, Outcome.INCONCLUSIVE),
        ("regex", {"regex_patterns": ["gone"]}, Outcome.INCONCLUSIVE),
        ("regex", {"regex_patterns": ["sorry"]}, Outcome.FAILED),
        ("regex", {}, Outcome.SKIPPED),
        ("replay_contract", {}, Outcome.PASSED),
    ],
)
def test_a_judge_of_what_was_done_passes_nothing_that_was_not_read(
    judge: str, expected: dict[str, Any], outcome: Outcome, tmp_path: Path
) -> None:
    case = case_of(tmp_path, expected)
    verdict = judge_case(load_judges([judge]), case, Trace(case.trace))[-1]
    assert verdict.outcome is outcome
    if outcome is Outcome.INCONCLUSIVE:
        assert verdict.reason.startswith("a tool call of delete_order (input.json: messages[1].laterCalls[0]")
