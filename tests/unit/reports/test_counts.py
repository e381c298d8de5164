"""What a run says of its cases as a whole."""

from __future__ import annotations

import pytest

from agent_eval.contracts.run import JudgeCounts, RunSummary
from agent_eval.reports.counts import expects_nothing


@pytest.mark.parametrize(("errors", "expected"), [(0, True), (1, True), (2, False)])
def test_where_every_case_is_an_error_nothing_is_known_of_what_is_expected(
    errors: int, expected: bool
) -> None:
    judges = {"execution": JudgeCounts(error=errors, skipped=2 - errors), "strict": JudgeCounts(skipped=2)}
    judges["replay_contract"] = JudgeCounts(passed=2 - errors, error=errors)
    summary = RunSummary.model_construct(judge_counts=judges, total_cases=2, error_cases=errors)
    assert expects_nothing(summary) is expected
