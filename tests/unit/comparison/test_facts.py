"""What verdicts amount to is the same wherever it is worked out, and nothing that was stored is trusted."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from agent_eval.comparison.facts import case_outcome
from agent_eval.contracts import REPLAY_CONTRACT, Outcome, Verdict, case_result
from agent_eval.evidence.rows import ResultChecker
from agent_eval.evidence.writer import result_row
from agent_eval.storage.json import dumps, parse

JUDGES = (REPLAY_CONTRACT, "policy", "regex", "cost_budget", "tool_abuse")
SAID = st.tuples(st.sampled_from(list(Outcome)), st.booleans(), st.sampled_from([0.0, 0.5, 1.0, 3.0]))


def verdicts(said: dict[str, tuple[Outcome, bool, float]]) -> list[Verdict]:
    return [
        Verdict(
            judge_id=judge_id,
            case_id="c",
            outcome=outcome,
            passed=outcome is Outcome.PASSED,
            reason="r",
            hard=hard,
            weight=weight,
            failure="policy_violation" if outcome in (Outcome.FAILED, Outcome.ERROR) else None,
        )
        for judge_id, (outcome, hard, weight) in said.items()
    ]


def stored(found: list[Verdict]) -> Any:
    return parse(dumps(result_row(case_result("c", found))), source="row")


@given(st.dictionaries(st.sampled_from(JUDGES), SAID))
def test_a_stored_result_is_accepted_and_compared_as_what_its_verdicts_amount_to(
    said: dict[str, tuple[Outcome, bool, float]],
) -> None:
    row = stored(verdicts(said))
    ResultChecker("pack").check(row, "verdicts.json")
    case = case_outcome(tuple((one["judge_id"], one["outcome"], one["hard"]) for one in row["verdicts"]))
    assert (case.outcome, case.passed, case.hard_failed) == (
        row["outcome"],
        row["passed"],
        row["hard_failed"],
    )
    assert case.judges == {judge_id: outcome for judge_id, (outcome, _, _) in said.items()}
    assert case.failing == any(outcome in ("failed", "error") for outcome, _, _ in said.values())
