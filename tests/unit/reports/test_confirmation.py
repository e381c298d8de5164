"""What the first lines say where fresh trials decided, or could not."""

from __future__ import annotations

from typing import Any

import pytest
from agent_eval.contracts.confirmation import Confirmation
from agent_eval.reports.confirmation import run_again, unsettled_advice
from agent_eval.reports.headline import Headline
from agent_eval.reports.standing import Voice

from agent_eval.contracts import Thresholds
from agent_eval.contracts.policy import GatePolicy
from agent_eval.reports.case_lists import regressed
from agent_eval.reports.decision import left_out, sureness
from agent_eval.reports.detail import COMMENT
from agent_eval.reports.model import EvaluationReport, SuiteReport
from agent_eval.reports.terminal_decision import evaluation_text
from tests.unit.gate.test_confirmation import CASES, decided, fresh, record
from tests.unit.gate.test_decide import comparison

VOICE = Voice(code="`{}`".format, prose=str)


def suite(failing: int, confirmation: Confirmation, **options: Any) -> SuiteReport:
    """A suite of which the first cases newly fail, and that were run again."""
    decision = decided(CASES[:failing], confirmation, **options)
    before: dict[str, Any] = dict.fromkeys(CASES, "passed")
    found = comparison(before, {**before, **dict.fromkeys(CASES[:failing], "failed")})
    return SuiteReport(
        slug="support",
        suite_path="suites/support.json",
        decision=decision,
        candidate=found.candidate,
        comparison=found,
        confirmation=confirmation,
    )


def happened(suite: SuiteReport) -> str:
    return Headline(suite, VOICE).what_happened


def to_do(suite: SuiteReport) -> str:
    return Headline(suite, VOICE).what_to_do


def confirmed(*numbers: int) -> list[Any]:
    return [fresh("ffffff", "pppppp", CASES[number]) for number in numbers]


def test_what_fresh_trials_confirmed_is_said_once_with_its_counts() -> None:
    assert happened(suite(2, record(*confirmed(0, 1)))) == (
        "2 of 40 cases regressed, confirmed by fresh trials: "
        "`case-000` (0 of 6 now, 6 of 6 on the merge base) and "
        "`case-001` (0 of 6 now, 6 of 6 on the merge base)."
    )


def test_what_fresh_trials_did_not_confirm_is_counted() -> None:
    trials = [*confirmed(0), fresh("fl", "p", CASES[1]), fresh("ppp", "ppp", CASES[2])]
    limits = {"thresholds": Thresholds(max_regressed_cases=0)}
    assert happened(suite(3, record(*trials), **limits)) == (
        "2 of 40 cases regressed, none allowed, 1 of them confirmed by fresh trials: "
        "`case-000` (0 of 6 now, 6 of 6 on the merge base); 1 not settled; 1 cleared."
    )


def test_the_fold_of_a_confirmed_case_does_not_call_it_chance() -> None:
    assert sureness(suite(2, record(*confirmed(0, 1))).decision) == (
        "First run alone: p = 0.250 (2 worse, 0 better)"
    )
    cleared = suite(1, record(fresh("ppp", "ppp", CASES[0])))
    assert sureness(cleared.decision).startswith("Could be chance (p = 0.500: 1 worse")


SIX = record(
    *confirmed(0),
    fresh("ppp", "ppp", CASES[1]),
    fresh("ffffff", "ppppff", CASES[2]),
    fresh("pppf", "pppp", CASES[3]),
)
TRACKED = GatePolicy(tracked=[CASES[5]])
"""Of six cases that newly fail one is confirmed, two are cleared, one is tracked, and two are not settled."""


def test_the_number_that_was_tested_is_beside_the_claim_and_what_became_of_each_case_adds_up_to_it() -> None:
    found = suite(6, SIX, policy=TRACKED)
    assert "regression" in [step.name for step in found.decision.steps if step.status == "failed"]
    assert happened(found) == (
        "6 of 40 cases got worse in the first run, more than chance explains; 1 confirmed by fresh trials: "
        "`case-000` (0 of 6 now, 6 of 6 on the merge base); 2 not settled; 2 cleared; 1 tracked."
    )


def test_only_what_is_confirmed_is_to_be_fixed() -> None:
    assert to_do(suite(6, SIX, policy=TRACKED)).startswith("Fix `case-000`: what changed")


def test_every_case_that_is_excused_is_listed_as_not_counted() -> None:
    found = suite(6, SIX, policy=TRACKED)
    assert left_out(found.decision, COMMENT[0]) == (
        "**Not counted against this change:**\n\n"
        "- 1 case tracked by the policy: `case-005`\n"
        "- 2 cases cleared by fresh trials: `case-001`, `case-003`\n\n"
        "They count in the pass rate and the suite's tests, and block nothing by themselves."
    )


def test_folded_cases_are_counted_by_whether_they_count() -> None:
    found = suite(6, SIX, policy=TRACKED)
    text = "\n\n".join(regressed(found, None, COMMENT[0]))
    assert "### 3 regressed cases" in text
    assert "<summary>2 more regressed cases, 2 excused</summary>" in text


@pytest.mark.parametrize(
    ("trials", "fields", "advice"),
    [
        (
            [],
            {"problem": "The merge base could not be built: `setup-command` exited with code 1."},
            "The merge base could not be built: `setup-command` exited with code 1. Run the job again; "
            "where it fails again, mend that on the base branch and bring this change up to date with it.",
        ),
        (
            [],
            {"problem": "Not run again: `max-run-seconds` or `max-run-cost` was reached before."},
            "Not run again: `max-run-seconds` or `max-run-cost` was reached before. Raise "
            "`max-run-seconds` or `max-run-cost`, or lower `max-confirm-cases`, then run the job again.",
        ),
        (
            [],
            {"problem": "The merge base has no program: name one in `base-agent`."},
            "The merge base has no program: name one in `base-agent`.",
        ),
        (
            [],
            {"problem": "The merge base could not be checked out: `git fetch` failed."},
            "The merge base could not be checked out: `git fetch` failed. Mend that, then run the job again.",
        ),
        (
            [fresh("fff", "fff", CASES[0], history_passed=19, history_scored=20)],
            {},
            "It fails in the merge base's worktree as well, but passed 19 of 20 on the base branch: is "
            "something missing there that an earlier step makes, or did the model move? Let `setup-command` "
            "make what is missing; where nothing is, run the base branch again: if it fails there too, the "
            "change is not the cause.",
        ),
        (
            [fresh("fff", "fff", CASES[0], changed=True)],
            {},
            "It fails on the merge base as well, but the change alters the case or its judges. Compare the "
            "failures of both sides; where they are alike, have the case waived.",
        ),
        (
            [fresh("fff", "fff", CASES[0])],
            {"doubt_of_base": "The merge base ran another command."},
            "The merge base ran another command. Mend that, then run the job again.",
        ),
        (
            [fresh("f", "p", CASES[0])],
            {"stopped": "The time of the run was used up before fresh trials could tell."},
            "The time of the run was used up before fresh trials could tell. Raise `max-run-seconds` or "
            "`max-run-cost`, or lower `max-confirm-cases`, then run the job again.",
        ),
        (
            [fresh("fl", "p", CASES[0], why_lost="the agent timed out")],
            {},
            "A trial was lost: the agent timed out. Look at the trials below; run the job again, or raise "
            "`confirm-pairs` for more of them.",
        ),
    ],
    ids=[
        "the base does not build",
        "the run's limit was reached before",
        "the problem names its option",
        "the problem quotes a command",
        "it passed on the base branch before",
        "both sides fail the changed case",
        "the merge base is in doubt",
        "time is up",
        "a trial was lost",
    ],
)
def test_what_fresh_trials_could_not_settle_says_why_and_what_mends_that(
    trials: list[Any], fields: dict[str, str], advice: str
) -> None:
    unsettled = suite(1, record(*trials, **fields))
    assert unsettled.status == "inconclusive"
    assert to_do(unsettled) == advice


def test_without_the_record_the_decision_still_says_why() -> None:
    problem = "The merge base could not be built: make ended with 2."
    found = suite(1, record(problem=problem))
    alone = SuiteReport(
        slug="support",
        suite_path="",
        decision=found.decision,
        candidate=found.candidate,
        comparison=found.comparison,
    )
    assert to_do(alone).startswith(problem)


NOT_BUILT = record(problem="The merge base could not be built: `setup-command` exited with code 1.")


def test_what_could_not_be_run_again_is_not_said_to_be_undecided_by_fresh_trials() -> None:
    assert happened(suite(1, NOT_BUILT)) == (
        "1 case got worse: `case-000`; it could not be run again on both sides; not blocked."
    )
    tried = suite(1, record(fresh("fff", "fff", CASES[0], changed=True)))
    assert "; fresh trials do not tell whether by this change; " in happened(tried)


def test_without_a_fresh_trial_a_sentence_stands_in_place_of_a_table_of_empty_cells() -> None:
    found = suite(2, NOT_BUILT)
    assert run_again(found.decision, found.confirmation, COMMENT[0]) == (
        "**Could not be run again on both sides:** `case-000`, `case-001`. The merge base could not be "
        "built: `setup-command` exited with code 1."
    )


def test_cases_beyond_the_cap_are_named_below_the_table_and_the_remedy_is_said() -> None:
    trials = [fresh("fff", "fff", CASES[0], changed=True)]
    found = suite(3, record(*trials, max_cases=1))
    shown = run_again(found.decision, found.confirmation, COMMENT[0])
    assert "| `case-000` | 0\u00a0of\u00a03 | 0\u00a0of\u00a03 |" in shown
    assert "**Not run again:** `case-001`, `case-002`. At most 1 case may be (`max-confirm-cases`)." in shown
    assert "| `case-001` |" not in shown
    assert to_do(found) == (
        "Not run again: at most 1 case may be (`max-confirm-cases`). Flaky cases belong under `tracked` in "
        "the policy: `agent-eval history --recommend` lists them. Or raise `max-confirm-cases`."
    )


def test_with_several_trials_the_remedy_of_the_cap_names_the_case_policy_as_well() -> None:
    found = suite(2, record(max_cases=0))
    advice = unsettled_advice(found.decision, found.confirmation, str, has_trials=True)
    assert "and `case-policy: majority` keeps single trials from failing a case." in advice


def test_the_terminal_names_each_case_that_was_run_again_with_its_counts() -> None:
    text = evaluation_text(EvaluationReport(title="Gate", suites=[suite(6, SIX, policy=TRACKED)]))
    lines = [line.strip() for line in text.partition("Run again by both agents:\n")[2].splitlines()]
    assert lines[:2] == [
        "confirmed: case-000: 0 of 6 now, 6 of 6 on the merge base",
        "not settled: case-002: 0 of 6 now, 4 of 6 on the merge base",
    ]
    assert "cleared: case-001: 3 of 3 now, 3 of 3 on the merge base" in lines
    assert any(line.startswith("not settled: case-004: Not run again:") for line in lines)
