"""Why cases got worse: the fewest causes that explain them, in plain words."""

from __future__ import annotations

from itertools import product
from string import ascii_lowercase

import pytest

from agent_eval.contracts import CaseRegression, JudgeChange, Outcome
from agent_eval.reports.causes import causes_of, in_words
from tests.unit.reports import scenarios


def case(case_id: str, **judges: str) -> CaseRegression:
    row = scenarios.regression(case_id, "policy", "")
    row.judges = [changed(judge_id, reason) for judge_id, reason in judges.items()]
    return row


def changed(
    judge_id: str, reason: str, failure: str = "policy_violation", outcome: str = "failed"
) -> JudgeChange:
    facts = {"judge_id": judge_id, "reason": reason, "failure": failure}
    return JudgeChange(baseline=Outcome.PASSED, candidate=Outcome(outcome), **facts)


def said(*rows: CaseRegression) -> str:
    return in_words(causes_of(rows), "`{}`".format)


@pytest.mark.parametrize(
    ("reason", "words"),
    [
        ("the final output does not match 'A-[0-9]+' (event 2)", "the answer does not match a pattern"),
        ("the final output is not JSON: line 1 (event 2)", "the answer is not JSON"),
        ("the final output breaks its schema at $.price: …", "the answer breaks its schema"),
        ("the final output is 'a' instead of 'b' (event 2)", "the answer is wrong"),
        ("forbidden tool escalate used (event 5)", "`escalate` was called"),
        ("forbidden tools a, b used (events 5 and 6)", "`a, b` were called"),
        ("required tool lookup_order never called", "`lookup_order` was never called"),
        ("required tools a and b never called", "`a and b` were never called"),
        ("refund was called without required argument 'order_id'", "`refund` was called with wrong"),
        ("refund was called with arguments against their schema at $.a", "`refund` was called with wrong"),
        ("search was called 5 times, expected at most 2", "`search` was not called as often as it should be"),
        ("cost_usd 0.0028 exceeds 0.0025 (all from usage)", "it cost more than `0.0025` USD"),
        ("the answer is rude in sentence 3", "`tone`: `the answer is rude in sentence 3`"),
        ("", "`tone` objects"),
    ],
)
def test_a_reason_becomes_plain_words_whatever_the_judge_is_called(reason: str, words: str) -> None:
    assert said(case("a", tone=reason)).startswith(f"Why: {words}")


def test_a_judges_own_sentence_keeps_its_particulars() -> None:
    wrong = "refund.amount is '12.50' instead of '25.00'; the customer asked in turn 4"
    other = wrong.replace("12.50", "1").replace("turn 4", "turn 2")
    assert said(case("a", param_equals=wrong)) == f"Why: `param_equals`: `{wrong}`."
    several = [case("a", param_equals=wrong), case("b", param_equals=other)]
    assert said(*several) == f"Why: `param_equals`: such as `{wrong}`."
    same = [case("a", tone="the answer is rude"), case("b", tone="the answer is rude")]
    assert said(*same) == "Why: `tone`: `the answer is rude`."
    mixed = said(*several, case("c", tone="the answer is rude"))
    assert mixed == f"Why: `param_equals`: such as `{wrong}` (2); `tone`: `the answer is rude` (1)."


def test_a_judges_own_sentence_is_one_line() -> None:
    assert said(case("a", tone="rude in 3\n::error::x\x1b[2J")) == "Why: `tone`: `rude in 3⏎::error::x[2J`."


@pytest.mark.parametrize(
    ("failure", "words"),
    [
        ("agent_error", "the agent crashed: `why`"),
        ("timeout", "the agent ran out of time"),
        ("missing_output", "the answer is missing"),
        ("infrastructure", "a service or the machine failed"),
        ("judge_error", "judge `execution` failed"),
    ],
)
def test_a_case_that_could_not_be_judged_says_what_failed(failure: str, words: str) -> None:
    row = case("a")
    row.judges = [changed("execution", "why", failure, "error")]
    assert said(row) == f"Why: {words}."


def test_a_crash_explains_what_every_other_judge_says() -> None:
    row = case("a", regex="the final output does not match 'x'", policy="required tool a never called")
    row.judges.append(changed("execution", "the agent exited", "agent_error", "error"))
    assert said(row) == "Why: the agent crashed: `exited`."


def test_a_cause_that_several_judges_report_is_told_once() -> None:
    judges = {"policy": "forbidden tool escalate used", "tool_abuse": "tools with a forbidden name"}
    rows = [case(f"case-{number}", **judges, tone="no") for number in range(3)]
    assert said(*rows) == "Why: `escalate` was called."
    assert [len(cause.cases) for cause in causes_of(rows)] == [3]


def test_causes_are_the_fewest_that_explain_every_case_the_most_frequent_first() -> None:
    rows = [case(f"json-{number}", json_schema="the final output is not JSON: …") for number in range(2)]
    rows += [case(f"both-{k}", json_schema="the final output is not JSON", a="one") for k in range(2)]
    rows += [case(f"tool-{number}", policy="forbidden tool pay used") for number in range(3)]
    causes = causes_of(rows)
    assert said(*rows) == "Why: the answer is not JSON (4); `pay` was called (3)."
    assert sum(len(cause.cases) for cause in causes) == len(rows)


def test_a_case_is_an_example_of_one_cause_only() -> None:
    rows = [case("both", a="one", b="two"), case("one", a="one"), case("two", b="two")]
    shown = [row.case_id for cause in causes_of(rows) for row in cause.cases]
    assert sorted(shown) == ["both", "one", "two"]


def test_a_cause_whose_cases_another_explains_is_not_told() -> None:
    rows = [case("both", a="one", b="two"), case("one", a="one"), case("three", c="three")]
    assert said(*rows) == "Why: `a`: `one` (2); `c`: `three` (1)."


def test_single_cases_need_no_numbers_and_many_causes_are_counted() -> None:
    rows = [case(f"case-{number}", tone=f"reason {word}") for number, word in enumerate(("a", "b", "c"))]
    assert said(*rows) == "Why: `tone`: `reason a`; `tone`: `reason b`; `tone`: `reason c`."
    rows.append(case("more", tone="reason d"))
    assert said(*rows).endswith("(1); 1 other cause (1).")


def test_a_case_without_a_judge_that_objects_tells_its_result() -> None:
    assert said(case("a")) == "Why: the result is failed."


def test_very_many_causes_are_found_quickly() -> None:
    words = list(map("".join, product(ascii_lowercase, repeat=2)))
    rows = [case(f"case-{word}", tone=f"reason {word}", other="the same") for word in words]
    rows += [case(f"only-{word}", tone=f"reason {word}") for word in words]
    assert sum(len(cause.cases) for cause in causes_of(rows)) == 2 * len(words)
