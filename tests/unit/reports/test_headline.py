"""The first lines of a comment: what happened to cases and whose it is, what to do, one line of numbers."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest
from agent_eval.reports.headline import Headline
from agent_eval.reports.standing import Voice

from agent_eval.contracts import CaseResult, GateStatus
from agent_eval.contracts.policy import GatePolicy
from agent_eval.history.board import tiers_of_policy
from agent_eval.reports.case_lists import less_often
from agent_eval.reports.detail import COMMENT
from agent_eval.reports.model import SuiteReport
from agent_eval.reports.suite import numbers_line
from agent_eval.reports.terminal_decision import evaluation_text
from tests.unit.reports import scenarios, situations
from tests.unit.reports.situations import SITUATIONS

VOICE = Voice(code="`{}`".format, prose=str)
COURSE_WORDS = re.compile(
    r"Holm|McNemar|Tango|one-sided|permut|clustered|non-inferior|\bp[ =<]", re.IGNORECASE
)
"""Words that need a course in statistics."""
WITH_COUNTS = re.compile(
    r"(?<=Confirmed: yours)(?:\*\*)?, p = 0\.\d+|(?<=First run alone: )p = 0\.\d+(?= \(\d+ worse)"
)
"""A probability that has its counts beside it: of a confirmed case, and in the title of a fold."""


def lines_on(suite: SuiteReport) -> list[str]:
    headline = Headline(suite, VOICE)
    return [headline.what_happened, headline.why, headline.what_to_do]


def lines_of(name: str) -> list[str]:
    return lines_on(SITUATIONS[name]().suites[0])


def open_part(text: str) -> str:
    """What a reader sees without a click, as plain text."""
    unfolded = re.sub(r"<details>.*?</details>", "", text, flags=re.DOTALL)
    unfolded = WITH_COUNTS.sub("", unfolded)
    return re.sub(r"^> ?|\*\*", "", unfolded, flags=re.MULTILINE)


def test_a_blocked_engineer_reads_cases_and_causes_first() -> None:
    text = open_part(scenarios.comment(situations.regressions()))
    assert (
        "38 of 120 cases regressed; 66.7% pass, 95% required. Mostly: the answer no longer matches a pattern "
        "(20), is no longer JSON (10), `escalate` was called (10); 2 have two of these causes. They passed "
        "on `main` where this change began: look at this change first.\n"
    ) in text


def test_one_case_of_few_is_named_with_what_would_tell() -> None:
    happened, why, to_do = lines_of("one-worse")
    assert happened == (
        "1 case got worse: `credit-paid`. Too few cases to tell whether that is chance; not blocked."
    )
    assert why == "Why: `escalate` was called. It passed before: this may be chance, or this change."
    assert to_do == (
        "Look at it below. To tell, have about 166 cases (28 now) or compare with several runs of the base "
        "branch (`baseline-runs`); or set `max-regressed-cases: 0` to block on it."
    )


@pytest.mark.parametrize("name", SITUATIONS)
def test_the_first_lines_are_what_happened_then_what_to_do_then_numbers(name: str) -> None:
    report = SITUATIONS[name]()
    blocks = open_part(scenarios.comment(report)).split("\n\n")
    happened, why, to_do = (line.replace("\n", " ") for line in lines_on(report.suites[0]))
    if len(report.suites) == 1 and not report.not_evaluated and name != "hostile":
        first = blocks[2].removeprefix(f"[!{blocks[2].partition(']')[0].removeprefix('[!')}]\n")
        assert first == f"{happened} {why}".rstrip()
        if to_do:
            assert blocks[3] == f"To do: {to_do}"


@pytest.mark.parametrize("name", SITUATIONS)
def test_no_word_that_needs_a_course_is_open(name: str) -> None:
    if name != "hostile":
        assert COURSE_WORDS.search(open_part(scenarios.comment(SITUATIONS[name]()))) is None


def test_a_course_word_would_be_noticed() -> None:
    assert COURSE_WORDS.search(scenarios.comment(situations.one_worse())) is not None


def test_green_is_three_lines() -> None:
    for report in (situations.unchanged(), situations.improved()):
        blocks = scenarios.comment(report).strip().split("\n\n")
        assert len(blocks[1:]) == 3
        assert "<details>" not in blocks[3]


def test_good_news_leads() -> None:
    assert lines_of("improved") == [
        "4 cases improved, none got worse: `order-001`, `order-002`, `order-003` and 1 more. "
        "59 of 60 cases passed (98.3%).",
        "",
        "",
    ]


@pytest.mark.parametrize(
    ("name", "happened", "to_do"),
    [
        ("below-limit", "77.5% pass, 90% required. No case got worse", "Fix the failing cases below"),
        ("errors", "5 of 30 cases ended in an error.", "Repeat one of them with the command below"),
        (
            "first-run",
            "Nothing was decided: there is no baseline yet. 38 of 40 cases passed",
            "Nothing now: once",
        ),
        (
            "trials",
            "6 of 24 cases pass less often, 3 more often: ",
            "Look at them below. To tell, have about ",
        ),
        (
            "nothing-to-compare",
            "Nothing was decided: all 12 cases are new or changed",
            "Check that every case",
        ),
        (
            "excused",
            "2 cases got worse and are excused (`order-000` by a waiver, `order-001` by its quarantine)",
            "Put back what is no",
        ),
        ("release", "18 of 119 cases regressed, more than chance explains. Only 99.2%", "Fix the cause"),
        ("unchanged", "No case got worse. 199 of 200 cases passed (99.5%).", ""),
    ],
)
def test_every_situation_says_what_happened_and_what_to_do(name: str, happened: str, to_do: str) -> None:
    lines = lines_of(name)
    assert lines[0].startswith(happened)
    assert lines[2].startswith(to_do)
    assert bool(lines[2]) == bool(to_do)


def test_what_could_not_be_evaluated_says_nothing_of_the_change() -> None:
    text = open_part(scenarios.comment(situations.withheld()))
    assert text.index("The baseline could not be read.") < text.index("This says nothing about the change.")
    assert "no baseline" not in text


# Whose it is.


def whose(suite: SuiteReport) -> str:
    return Headline(suite, VOICE).why


def test_it_is_this_changes_where_the_cases_passed_at_the_merge_base() -> None:
    suite = situations.errors().suites[0]
    assert "They passed on `main` where this change began: look at this change first." in whose(suite)
    newest = replace(suite, baseline=scenarios.baseline_info(how="newest on main"))
    assert "They passed in the newest run on `main`: look at this change, and at what is new there." in whose(
        newest
    )
    path = replace(suite, baseline=scenarios.baseline_info(how="path"))
    assert whose(path).endswith("They passed in the baseline.")
    assert whose(replace(suite, baseline=None)).endswith("They passed in the baseline.")


def test_another_model_is_looked_at_before_the_code() -> None:
    assert "but the model changed too: look at the model first." in whose(scenarios.regressed().suites[0])


def with_failure(failure: str) -> SuiteReport:
    suite = situations.errors().suites[0]
    assert suite.comparison is not None
    rows = [
        row.model_copy(
            update={"judges": [judge.model_copy(update={"failure": failure}) for judge in row.judges]}
        )
        for row in suite.comparison.case_regressions
    ]
    return replace(suite, comparison=suite.comparison.model_copy(update={"case_regressions": rows}))


def test_a_service_or_a_judge_that_failed_is_nobodys_regression() -> None:
    service = lines_on(with_failure("infrastructure"))
    assert service[1] == (
        "Why: a service or the machine failed. That is neither the agent's doing nor this change's."
    )
    assert service[2] == "Check network, quotas and the machine, then run again."
    judge = lines_on(with_failure("judge_error"))
    assert judge[1].endswith("That is the judge's fault, not the agent's.")
    assert judge[2].startswith("Mend the judge")


# Limits, statistics, excuses.


def failed_by(*rules) -> str:
    suite = replace(scenarios.unchanged_suite(), decision=scenarios.decision(GateStatus.FAILED, rules))
    return Headline(suite, VOICE).what_happened


@pytest.mark.parametrize(
    ("name", "limit", "value", "said"),
    [
        ("min_pass_rate", 0.9, 0.875, "87.5% pass, 90% required."),
        ("min_pass_rate", 0.9, 0.8999, "89.99% pass, 90% required."),
        ("max_hard_fail_rate", 0.02, 0.05, "5.0% of cases fail hard, at most 2% allowed."),
        ("max_pass_rate_drop", 0.02, 0.045, "The pass rate fell by 4.5 points, at most 2 allowed."),
        ("max_hard_fail_increase", 0, 0.03, "The hard-fail rate rose by 3.0 points, none allowed."),
        ("max_new_hard_fail_cases", 0, 1, "1 case newly fails hard, none allowed."),
    ],
)
def test_every_limit_says_what_was_measured_and_what_is_asked(name, limit, value, said) -> None:
    assert failed_by(scenarios.rule(name, limit, value, False)).startswith(said)


def test_a_check_that_is_no_limit_speaks_for_itself() -> None:
    message = "No case could be judged (12 cases, 12 errors), and that is no pass."
    assert failed_by(scenarios.rule("something_measured", 1, 0, False, message=message)) == message


def test_hard_fails_that_are_the_regressed_cases_are_no_second_message() -> None:
    suite = scenarios.regressed_suite()
    rules = [
        scenarios.rule("max_regressed_cases", 0, 3, False),
        scenarios.rule("max_new_hard_fail_cases", 0, 3, False),
    ]
    said = lines_on(replace(suite, decision=scenarios.decision(GateStatus.FAILED, rules)))[0]
    assert said == (
        "3 of 200 cases regressed, none allowed: `refund-over-limit`, `order-status-de` and `cancel-twice`."
    )


def test_a_judge_that_objects_more_than_chance_explains_is_named() -> None:
    before = [situations.order(number) for number in range(40)]
    suite = situations.decided(before, [*map(situations.escalates, range(12)), *before[12:]])
    evidence = suite.decision.evidence
    assert evidence is not None
    judges = [judge.model_copy(update={"significant": False}) for judge in evidence.judges]
    judges.append(judges[0].model_copy(update={"judge_id": "tone", "significant": True, "regressed": 9}))
    decision = suite.decision.model_copy(update={"evidence": evidence.model_copy(update={"judges": judges})})
    said = lines_on(replace(suite, decision=decision))[0]
    assert "`tone` objects to 9 cases that it passed before, more than chance explains." in said


def test_regressions_that_the_rules_allow_are_said() -> None:
    suite = replace(scenarios.regressed_suite(), decision=scenarios.decision(GateStatus.PASSED))
    assert lines_on(suite)[0] == (
        "3 of 200 cases got worse, 1 better; the rules allow that. 184 of 202 cases passed (91.1%)."
    )
    assert lines_on(scenarios.proven().suites[0])[0].startswith(
        "3 of 400 cases got worse, 4 better; a drop of 5.0 points is ruled out."
    )


def test_absolute_rules_can_pass_a_first_run() -> None:
    suite = replace(scenarios.first_run().suites[0], decision=scenarios.decision(GateStatus.PASSED))
    assert lines_on(suite)[0] == (
        "There is no baseline yet. The limits that need none hold. 38 of 40 cases passed (95.0%)."
    )


def test_a_gate_without_a_reason_is_not_made_up() -> None:
    for status in (GateStatus.INCONCLUSIVE, GateStatus.FAILED):
        suite = replace(scenarios.unchanged_suite(), decision=scenarios.decision(status))
        assert lines_on(suite)[0] == "The gate gave no reason."


def test_what_blocks_although_it_is_not_certain_says_by_which_rule() -> None:
    before = [situations.order(number) for number in range(20)]
    policy = situations.GatePolicy(preset="release")
    happened, _, to_do = lines_on(situations.decided(before, before, policy=policy))
    assert happened.startswith("No case got worse, but cases are too few to rule out a drop of ")
    assert happened.endswith("; blocked, because preset release blocks what is not certain.")
    assert "max-regressed-cases" not in to_do


def test_a_rule_of_the_job_that_does_not_hold_is_said_first() -> None:
    suite = situations.unchanged().suites[0]
    loosened = scenarios.rule(
        "rules_of_the_base",
        0,
        1,
        False,
        message="This change loosens the rules that it is held to: `margin`.",
    )
    decision = suite.decision.model_copy(
        update={
            "gate_status": GateStatus.INCONCLUSIVE,
            "rules": [loosened],
            "failures": [loosened.message],
            "passed": False,
        }
    )
    happened, _, to_do = lines_on(replace(suite, decision=decision))
    assert happened == f"{loosened.message} No case got worse; not blocked."
    assert to_do.startswith("Merge the change of the rules first")


def test_an_excused_case_is_no_regression_and_explains_nothing() -> None:
    suite = situations.excused().suites[0]
    assert suite.worse == []
    assert suite.causes == []
    text = scenarios.comment(situations.excused())
    assert "**0** regressed · **2** excused" in text
    assert "<summary>2 excused cases</summary>" in text


def tracked_suite(**results: Any) -> SuiteReport:
    """Thirty cases of which the tracked one alone got worse."""
    before = [situations.order(number) for number in range(29)] + [situations.order(29, case_id="f1")]
    policy = GatePolicy(tracked=["f1"])
    now = (
        before
        if results
        else [*before[:29], situations.order(29, case_id="f1", output="Your order is confirmed.")]
    )
    return situations.decided(before, now, policy=policy, declared=tiers_of_policy(policy), **results)


def of_three(fewer: Mapping[str, int]) -> dict[str, dict[str, CaseResult]]:
    """Results of three trials of each of the thirty cases; of these cases so many pass now."""
    cases = [situations.order(number) for number in range(29)] + [situations.order(29, case_id="f1")]
    bad = situations.other_words(0)
    return {
        side: {
            case["case_id"]: situations.tried(case, bad, passed.get(case["case_id"], 3), 3) for case in cases
        }
        for side, passed in (("baseline", {}), ("candidate", fewer))
    }


def test_where_only_a_tracked_case_got_worse_no_case_that_counts_did() -> None:
    said = lines_on(tracked_suite())[0]
    assert said.startswith("No case that counts got worse (1 tracked: `f1`), but cases are too few")


def test_with_several_trials_a_tracked_case_is_excused_in_every_line() -> None:
    suite = tracked_suite(results=of_three({"f1": 2, "order-001": 2}))
    assert lines_on(suite)[0].startswith("1 case passes less often: `order-001`. ")
    assert numbers_line(suite, COMMENT[0]).startswith(
        "**1** pass less often · **1** excused · **0** more often · **28** as before"
    )
    shown = less_often(suite, COMMENT[0])
    assert shown[0] == "### 1 case passes less often"
    assert "1 excused case passes less often" in shown[-1]
    assert "f1" not in "".join(shown[:-1])
    assert "f1" not in evaluation_text(situations.report(suite)).partition("Pass less often:")[2]


def test_with_several_trials_a_tracked_case_alone_makes_no_case_that_counts_worse() -> None:
    suite = tracked_suite(results=of_three({"f1": 1}))
    assert "No case that counts got worse (1 tracked: `f1`)" in lines_on(suite)[0]
