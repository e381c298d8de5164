from __future__ import annotations

import pytest

from tests.unit.judges.traces import Row, answers, asks, judge, says, uses


def searched(title: str, *events: list, patterns: list[str], gives: str, **more: object) -> Row:
    return Row(title, gives, *events, regex_patterns=patterns, **more)  # type: ignore[arg-type]


NO_OUTPUT = "error missing_output"

ROWS = [
    Row("without patterns there is nothing to judge", "skipped", says()),
    searched("all are found", says("order 7 refunded"), patterns=[r"order \d", "refunded$"], gives="passed"),
    searched("each must be found somewhere", *(asks("?"), says("order 7")),
        patterns=[r"order \d", "refunded"],
        gives='failed contract_violation: the final output does not match "refunded" (event 1)', score=0.5,
        evidence={"missing_patterns": ["refunded"], "pattern_count": 2}),
    searched("only what the agent said last is searched", *(says("yes"), uses("t", output="yes"), says("no")),
        patterns=["yes"], gives="failed contract_violation", refs=[3]),
    searched("no call and its result", uses("t", output="yes"), patterns=["yes"], gives=NO_OUTPUT,
        expected_output="yes"),
    searched("no result alone", answers("t", "yes"), patterns=["yes"], gives=NO_OUTPUT),
    searched("another value is searched as its JSON text", says({"status": "ok", "n": [1, True, None]}),
        patterns=['"status":"ok","n":\\[1,true,null\\]'], gives="passed"),
    searched("zero is a value", says(0), patterns=["^0$"], gives="passed"),
    searched("by character", says("naïve 😀"), patterns=["^na.ve .$", r"\p{So}"], gives="passed"),
    searched("a blank output is none", says("\n"), patterns=["^[^!]*$"], gives=NO_OUTPUT),
    searched("what was not recorded is not known", says(None, content_recorded=False), patterns=["y"],
        gives="inconclusive"),
    searched("a refused answer says so", *(says("Let me see."), says(None, stop_reason="refusal")),
        patterns=["y"], gives="error agent_error", has="the answer was refused"),
    *(
        searched(f"{name} is refused", says(), patterns=["fine", pattern], gives="refused regex_patterns[1]",
            has=remedy)
        for name, pattern, remedy in (
            ("a lookahead", "(?=a)", "RE2 has no lookahead"),
            ("a lookbehind", "(?<!a)b", "RE2 has no lookbehind"),
            ("a backreference", r"(a)\1", "RE2 has no backreferences"),
            ("a named backreference", "(?P<x>a)(?P=x)", "RE2 has no backreferences"),
            ("an unknown escape", r"a\Z", r"RE2 does not know \Z"),
            ("many repeats", "a{2000}", "RE2 repeats at most 1000 times"),
            ("an open group", "(", "Correct the pattern"),
            ("a long pattern", "a" * 30_000, "Split it into several shorter patterns"),
            ("an empty pattern", "", "Write what is meant"),
        )
    ),
]  # fmt: skip


@pytest.mark.parametrize("row", ROWS, ids=str)
def test_verdicts(row: Row) -> None:
    row.check("regex")


def test_long_patterns_are_cut_in_reason_and_evidence() -> None:
    verdict = judge("regex", says("x"), regex_patterns=["a" * 19_000 for _ in range(30)])
    assert len(verdict.reason) < 300
    assert len(verdict.evidence["missing_patterns"]) == 20
    assert all(len(pattern) <= 500 for pattern in verdict.evidence["missing_patterns"])
