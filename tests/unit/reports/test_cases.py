"""Lines about single cases."""

from __future__ import annotations

from agent_eval.contracts import Outcome, Verdict, case_result
from agent_eval.errors import FailureKind
from agent_eval.evidence.writer import result_row
from agent_eval.reports.cases import failing_line
from agent_eval.reports.detail import COMMENT


def verdict(judge_id: str, reason: str, failure: FailureKind) -> Verdict:
    return Verdict(
        case_id="a", judge_id=judge_id, outcome=Outcome.ERROR, passed=False, reason=reason, failure=failure
    )


def test_a_crash_is_said_before_what_follows_from_it() -> None:
    verdicts = [
        verdict("regex", "there is no final output", FailureKind.MISSING_OUTPUT),
        verdict("execution", "the agent exited with code 1", FailureKind.AGENT_ERROR),
    ]
    line = failing_line(result_row(case_result("a", verdicts)), COMMENT[0])
    assert line == "💥 `a` (the agent's fault) — `execution`: `the agent exited with code 1`"
