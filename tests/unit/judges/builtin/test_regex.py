from __future__ import annotations

import pytest

from agent_eval.errors import InvalidInput
from tests.unit.judges.traces import answers, asks, findings, judge, says, uses


def test_without_patterns_there_is_nothing_to_judge() -> None:
    assert findings(judge("regex", says())) == ("skipped", None)


def test_every_pattern_must_be_found_somewhere() -> None:
    verdict = judge("regex", says("order 7 refunded"), regex_patterns=[r"order \d", "refunded$"])
    assert findings(verdict) == ("passed", None)
    verdict = judge("regex", asks("?"), says("order 7"), regex_patterns=[r"order \d", "refunded"])
    assert findings(verdict) == ("failed", "contract_violation")
    assert verdict.reason == 'the final output does not match "refunded" (event 1)'
    assert verdict.score == 0.5
    assert verdict.evidence == {"missing_patterns": ["refunded"], "pattern_count": 2}


def test_only_what_the_agent_said_last_is_searched() -> None:
    verdict = judge("regex", says("yes"), uses("t", output="yes"), says("no"), regex_patterns=["yes"])
    assert not verdict.passed
    assert verdict.evidence_refs == [3]


def test_a_tools_result_or_the_expected_output_never_stand_in_for_the_agents() -> None:
    verdict = judge("regex", uses("t", output="yes"), regex_patterns=["yes"], expected_output="yes")
    assert findings(verdict) == ("error", "missing_output")
    assert findings(judge("regex", answers("t", "yes"), regex_patterns=["yes"])) == (
        "error",
        "missing_output",
    )


def test_an_output_that_is_no_string_is_searched_as_its_json_text() -> None:
    output = {"status": "ok", "n": [1, True, None]}
    patterns = ['"status":"ok","n":\\[1,true,null\\]']
    assert judge("regex", says(output), regex_patterns=patterns).passed
    assert judge("regex", says(0), regex_patterns=["^0$"]).passed


def test_unicode_is_matched_by_character() -> None:
    assert judge("regex", says("naïve 😀"), regex_patterns=["^na.ve .$", r"\p{So}"]).passed


@pytest.mark.parametrize(
    ("pattern", "words"),
    [
        ("(?=a)", "RE2 has no lookahead"),
        ("(?<!a)b", "RE2 has no lookbehind"),
        (r"(a)\1", "RE2 has no backreferences"),
        ("(?P<x>a)(?P=x)", "RE2 has no backreferences"),
        (r"a\Z", r"RE2 does not know \Z"),
        ("a{2000}", "RE2 repeats at most 1000 times"),
        ("(", "Correct the pattern"),
        ("a" * 30_000, "Split it into several shorter patterns"),
    ],
)
def test_a_pattern_re2_cannot_run_is_refused_with_a_remedy(pattern: str, words: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        judge("regex", says(), regex_patterns=["fine", pattern])
    assert caught.value.details["field"] == "regex_patterns[1]"
    assert caught.value.details["case_id"] == "case-1"
    assert words in caught.value.remedy
    assert len(caught.value.message) < 300


def test_a_pattern_that_explodes_elsewhere_answers_on_a_megabyte() -> None:
    verdict = judge("regex", says("a" * 1_000_000 + "!"), regex_patterns=["(a+)+$"])
    assert findings(verdict) == ("failed", "contract_violation")


def test_long_patterns_are_cut_in_reason_and_evidence() -> None:
    verdict = judge("regex", says("x"), regex_patterns=["a" * 19_000 for _ in range(30)])
    assert len(verdict.reason) < 300
    assert len(verdict.evidence["missing_patterns"]) == 20
    assert all(len(pattern) <= 500 for pattern in verdict.evidence["missing_patterns"])


def test_a_blank_output_and_a_blank_pattern_are_refused() -> None:
    assert findings(judge("regex", says("\n"), regex_patterns=["^[^!]*$"])) == ("error", "missing_output")
    with pytest.raises(InvalidInput) as caught:
        judge("regex", says(), regex_patterns=["a", ""])
    assert caught.value.details["field"] == "regex_patterns[1]"


def test_an_answer_that_was_not_recorded_is_inconclusive_and_a_refused_one_says_so() -> None:
    patterns = {"regex_patterns": ["yes"]}
    assert findings(judge("regex", says(None, content_recorded=False), **patterns)) == ("inconclusive", None)
    refused = judge("regex", says("Let me see."), says(None, stop_reason="refusal"), **patterns)
    assert findings(refused) == ("error", "agent_error")
    assert "the answer was refused" in refused.reason
