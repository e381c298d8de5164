from __future__ import annotations

import pytest

from agent_eval.errors import InvalidInput
from tests.unit.judges.traces import answers, asks, calls, findings, judge, says


def slow(*values: float) -> list:
    return [says(latency_ms=value) for value in values]


def test_without_limits_there_is_nothing_to_judge() -> None:
    assert findings(judge("latency_slo", *slow(1))) == ("skipped", None)


def test_values_equal_to_their_limits_are_within() -> None:
    config = {"max_event_latency_ms": 30, "max_total_latency_ms": 60}
    verdict = judge("latency_slo", *slow(10, 20, 30), config=config)
    assert findings(verdict) == ("passed", None)
    assert verdict.reason == "slowest event 30 ms of 30 ms and total 60 ms of 60 ms"


@pytest.mark.parametrize(
    ("key", "limit", "words", "refs"),
    [
        ("max_event_latency_ms", 99, "slowest event 100 ms exceeds 99 ms", [99]),
        ("max_total_latency_ms", 5049, "total 5050 ms exceeds 5049 ms", []),
        ("max_p95_latency_ms", 94, "p95 95 ms exceeds 94 ms", [94]),
        ("max_p99_latency_ms", 98, "p99 99 ms exceeds 98 ms", [98]),
    ],
)
def test_each_limit_is_named_with_the_event_that_breaks_it(
    key: str, limit: float, words: str, refs: list[int]
) -> None:
    verdict = judge("latency_slo", *slow(*range(1, 101)), config={key: limit})
    assert findings(verdict) == ("failed", "budget_exceeded")
    assert verdict.reason == words
    assert verdict.evidence_refs == refs
    assert judge("latency_slo", *slow(*range(1, 101)), config={key: limit + 1}).passed


@pytest.mark.parametrize(
    ("key", "count", "rank"),
    [
        ("max_p95_latency_ms", 1, 1),
        ("max_p95_latency_ms", 2, 2),
        ("max_p95_latency_ms", 19, 19),
        ("max_p95_latency_ms", 20, 19),
        ("max_p95_latency_ms", 21, 20),
        ("max_p95_latency_ms", 39, 38),
        ("max_p95_latency_ms", 41, 39),
        ("max_p99_latency_ms", 2, 2),
        ("max_p99_latency_ms", 99, 99),
        ("max_p99_latency_ms", 100, 99),
        ("max_p99_latency_ms", 101, 100),
    ],
)
def test_a_percentile_of_few_values_is_never_rounded_down(key: str, count: int, rank: int) -> None:
    values = slow(*range(1, count + 1))
    verdict = judge("latency_slo", *values, config={key: rank - 0.5})
    assert verdict.reason == f"{key[4:7]} {rank} ms exceeds {rank - 0.5} ms"
    assert judge("latency_slo", *values, config={key: rank}).passed


@pytest.mark.parametrize(
    "key", ["max_event_latency_ms", "max_total_latency_ms", "max_p95_latency_ms", "max_p99_latency_ms"]
)
def test_missing_data_is_an_error_and_never_a_pass(key: str) -> None:
    verdict = judge("latency_slo", says(), config={key: 1e9})
    assert findings(verdict) == ("error", "missing_output")
    assert "no latency is recorded" in verdict.reason


def test_the_attribute_of_the_same_name_counts_and_nonsense_does_not() -> None:
    config = {"max_event_latency_ms": 10}
    assert not judge("latency_slo", says(attributes={"latency_ms": 11}), config=config).passed
    for value in ("11", True, -5, float("inf")):
        verdict = judge("latency_slo", says(attributes={"latency_ms": value}), config=config)
        assert verdict.outcome.value == "error"


def test_the_total_falls_back_on_time_stamps() -> None:
    config = {"max_total_latency_ms": 1000}
    first, last = says(ts="2026-01-01T00:00:00Z"), says(ts="2026-01-01T00:00:01.5Z")
    assert judge("latency_slo", first, last, config=config).reason == "total 1500 ms exceeds 1000 ms"
    for other in (says(ts="2026-01-01T00:00:01"), says(ts="once")):
        assert judge("latency_slo", first, other, config=config).outcome.value == "error"


TOOL = {"max_tool_latency_ms": {"search": 100}}


def test_a_tools_slowest_call_is_held_against_its_limit() -> None:
    fast = calls("search", latency_ms=5) + answers("search", latency_ms=90)
    late = calls("search") + answers("search", latency_ms=101)
    assert judge("latency_slo", fast, config=TOOL).passed
    verdict = judge("latency_slo", fast, late, fast, config=TOOL)
    assert verdict.reason == "search 101 ms exceeds 100 ms"
    assert verdict.evidence_refs == [2]


def test_a_tool_call_is_timed_by_its_stamps_when_nothing_else_is_known() -> None:
    late = calls("search", ts="2026-01-01T00:00:00Z") + answers("search", ts="2026-01-01T00:00:01Z")
    assert judge("latency_slo", late, config=TOOL).reason == "search 1000 ms exceeds 100 ms"


def test_a_call_without_data_is_an_error_unless_another_is_known_to_be_too_slow() -> None:
    unknown = calls("search") + answers("search")
    known = calls("search", latency_ms=5) + answers("search")
    late = calls("search", latency_ms=500) + answers("search")
    for events in ([unknown], [known, unknown], [unknown, known], [calls("search")]):
        assert judge("latency_slo", *events, config=TOOL).outcome.value == "error"
    for events in ([unknown, late], [late, unknown]):
        assert judge("latency_slo", *events, config=TOOL).outcome.value == "failed"


def test_a_tool_that_is_not_called_has_nothing_to_hold() -> None:
    assert findings(judge("latency_slo", says(), answers("search"), config=TOOL)) == ("skipped", None)


def at(second: float) -> dict[str, str]:
    return {"ts": f"2026-01-01T00:00:{second:06.3f}Z"}


def test_one_recorded_latency_does_not_hide_ten_seconds_without_one() -> None:
    events = [
        asks("?", **at(0)),
        calls("search", latency_ms=5, **at(1)),
        answers("search", **at(2)),
        says("done", **at(12)),
    ]
    for key, words in (
        ("max_total_latency_ms", "total 10005 ms"),
        ("max_event_latency_ms", "slowest event 10000 ms"),
        ("max_p95_latency_ms", "p95 10000 ms"),
    ):
        verdict = judge("latency_slo", *events, config={key: 5000})
        assert verdict.reason == f"{words} exceeds 5000 ms"


@pytest.mark.parametrize("last", [says("done"), says("done", ts="once"), calls("search")])
def test_a_turn_without_latency_and_time_stamps_makes_the_figure_unknown(last: list) -> None:
    events = [says("Hm.", latency_ms=5, **at(0)), asks("?"), last]
    for key in ("max_total_latency_ms", "max_event_latency_ms", "max_p95_latency_ms"):
        verdict = judge("latency_slo", *events, config={key: 5000})
        assert findings(verdict) == ("error", "missing_output")
        assert verdict.reason.endswith("so the limit cannot be checked (event 2)")
    assert judge("latency_slo", *events, config={"max_event_latency_ms": 4}).outcome.value == "failed"


def test_a_turn_and_a_call_with_its_result_are_recorded_by_one_latency() -> None:
    events = [
        asks("?"),
        says("Hm.", latency_ms=7),
        calls("search"),
        answers("search", latency_ms=2),
        says("ok"),
    ]
    assert judge("latency_slo", *events[:4], config={"max_total_latency_ms": 9}).passed


def test_latencies_are_added_as_decimals() -> None:
    assert judge("latency_slo", *slow(0.1, 0.1, 0.1), config={"max_total_latency_ms": 0.3}).passed


def test_a_negative_limit_is_refused() -> None:
    with pytest.raises(InvalidInput):
        judge("latency_slo", says(), config={"max_tool_latency_ms": {"search": -1}})
