"""What verdicts amount to is the same wherever it is worked out."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from agent_eval.comparison.facts import case_outcome, case_policies, cut
from agent_eval.contracts import REPLAY_CONTRACT, Outcome, Verdict, case_result
from agent_eval.evidence.rows import ResultChecker
from agent_eval.evidence.writer import result_row
from agent_eval.storage.json import dumps, parse
from tests.factories import make_verdict
from tests.unit.comparison.views import passing, result, view

JUDGES = (REPLAY_CONTRACT, "policy", "regex", "cost_budget", "tool_abuse")
SAID = st.tuples(st.sampled_from(list(Outcome)), st.booleans(), st.sampled_from([0.0, 0.5, 1.0, 3.0]))


def verdicts(said: dict[str, tuple[Outcome, bool, float]]) -> list[Verdict]:
    return [
        make_verdict("c", judge_id, outcome, hard=hard, weight=weight)
        for judge_id, (outcome, hard, weight) in said.items()
    ]


def stored(found: list[Verdict]) -> Any:
    return parse(dumps(result_row(case_result("c", found))), source="row")


@given(st.dictionaries(st.sampled_from(JUDGES), SAID))
def test_a_stored_result_is_what_its_verdicts_amount_to(said: dict[str, tuple[Outcome, bool, float]]) -> None:
    row = stored(verdicts(said))
    ResultChecker("pack").check(row, "verdicts.json")
    case = case_outcome(tuple((one["judge_id"], one["outcome"], one["hard"]) for one in row["verdicts"]))
    facts = ("outcome", "passed", "hard_failed")
    assert [getattr(case, name) for name in facts] == [row[name] for name in facts]
    assert case.judges == {judge_id: outcome for judge_id, (outcome, _, _) in said.items()}
    assert case.failing == any(outcome in ("failed", "error") for outcome, _, _ in said.values())


def test_a_judge_with_several_verdicts_counts_by_its_first_failure_else_by_its_last() -> None:
    def outcome(*said: str) -> str:
        return case_outcome(tuple(("regex", one, True) for one in said)).judges["regex"]

    assert outcome("failed", "passed") == "failed"
    assert outcome("error", "passed") == "error"
    assert outcome("passed", "failed") == "failed"
    assert outcome("passed", "inconclusive") == "inconclusive"


def test_the_reference_of_a_run_carries_what_decisions_need_of_it() -> None:
    run = view(
        {"a": "passed"}, agent_version="2.1", model="gpt-4o", git_commit="c" * 40,
        execution_config={"damaged_records": 3},
    )  # fmt: skip
    reference = run.reference()
    assert (reference.run_id, reference.dataset_id, reference.manifest_sha256) == ("run-1", "shop", "0" * 64)
    assert (reference.agent_version, reference.model, reference.git_commit) == ("2.1", "gpt-4o", "c" * 40)
    assert (reference.started_at, reference.damaged_records) == ("2026-01-01T00:00:00+00:00", 3)
    assert reference.summary == run.summary
    assert view({"a": "passed"}).reference().damaged_records == 0


def test_a_text_is_cut_to_its_limit_with_an_ellipsis() -> None:
    assert cut("abcd", 4) == "abcd"
    assert cut("abcde", 4) == "abc…"


def test_a_case_without_a_stated_policy_needs_all_of_its_trials_and_a_single_trial_has_none() -> None:
    unstated = passing("a", 1, 2).to_json()
    del unstated["case_policy"]
    assert case_policies([unstated, result("b", "passed").to_json()]) == ["all"]
    assert case_policies([unstated, passing("c", 1, 2, policy="majority").to_json()]) == ["all", "majority"]
