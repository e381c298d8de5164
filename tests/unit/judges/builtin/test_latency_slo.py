from __future__ import annotations

from typing import Any

import pytest

from agent_eval.errors import InvalidInput
from tests.unit.judges.traces import Row, answers, asks, calls, judge, says

UNKNOWN, EXCEEDED = "error missing_output", "failed budget_exceeded"
KEYS = ("max_event_latency_ms", "max_total_latency_ms", "max_p95_latency_ms", "max_p99_latency_ms")


def slow(*values: float) -> list:
    return [says(latency_ms=value) for value in values]


def at(second: float) -> dict[str, str]:
    return {"ts": f"2026-01-01T00:00:{second:06.3f}Z"}


def limit(key: str, value: float) -> dict[str, Any]:
    return {f"max_{key}_latency_ms": value}


HUNDRED = slow(*range(1, 101))
SEARCH = {"max_tool_latency_ms": {"search": 100}}
FAST = calls("search", latency_ms=5) + answers("search", latency_ms=90)
LATE = calls("search") + answers("search", latency_ms=101)
UNTIMED, KNOWN = calls("search") + answers("search"), calls("search", latency_ms=5) + answers("search")
STAMPED = calls("search", **at(0)) + answers("search", **at(1))
CALLED = [calls("search", latency_ms=5, **at(1)), answers("search", **at(2))]
TEN_SECONDS = [asks("?", **at(0)), *CALLED, says(**at(12))]
THINKING = [
    [asks("?", **at(0)), calls("search", **call, **at(10)), answers("search", **result, **at(10.001))]
    for call, result in (
        ({}, {"latency_ms": 1}),
        ({"latency_ms": 1}, {"latency_ms": 1}),
        ({"latency_ms": 1}, {}),
    )
]
WHOLE = [says(latency_ms=10_001, **at(10.001))]
TURNS = [asks("?"), says("Hm.", latency_ms=7), calls("search"), answers("search", latency_ms=2)]

ROWS = [
    Row("no limit", "skipped", *slow(1)),
    Row("values equal to their limits", "passed: slowest event 30 ms of 30 ms and total 60 ms of 60 ms",
        *slow(10, 20, 30), config={**limit("event", 30), **limit("total", 60)}),
    *(
        Row(f"{key} of a hundred", f"{EXCEEDED}: {words}", *HUNDRED, config=limit(key, value), refs=refs)
        for key, value, words, refs in (
            ("event", 99, "slowest event 100 ms exceeds 99 ms", [99]),
            ("total", 5049, "total 5050 ms exceeds 5049 ms", []),
            ("p95", 94, "p95 95 ms exceeds 94 ms", [94]),
            ("p99", 98, "p99 99 ms exceeds 98 ms", [98]),
        )
    ),
    *(
        Row(f"{key} of {count}", gives, *slow(*range(1, count + 1)), config=limit(key, rank - below))
        for key, count, rank in (
            *(("p95", 1, 1), ("p95", 2, 2), ("p95", 19, 19), ("p95", 20, 19), ("p95", 21, 20)),
            *(("p95", 39, 38), ("p95", 41, 39)),
            *(("p99", 2, 2), ("p99", 99, 99), ("p99", 100, 99), ("p99", 101, 100)),
        )
        for below, gives in ((0.5, f"{EXCEEDED}: {key} {rank} ms exceeds {rank - 0.5} ms"), (0, "passed"))
    ),
    *(
        Row(f"no data for {key}", UNKNOWN, says(), config={key: 1e9}, has="no latency is recorded")
        for key in KEYS
    ),
    Row("the attribute", EXCEEDED, says(attributes={"latency_ms": 11}), config=limit("event", 10)),
    *(
        Row(f"nonsense {value}", UNKNOWN, says(attributes={"latency_ms": value}), config=limit("event", 10))
        for value in ("11", True, -5, float("inf"))
    ),
    Row("a total of time stamps", f"{EXCEEDED}: total 1500 ms exceeds 1000 ms",
        *(says(**at(0)), says(**at(1.5))), config=limit("total", 1000)),
    *(
        Row(f"time stamps with {ts}", UNKNOWN, says(**at(0)), says(ts=ts), config=limit("total", 1000))
        for ts in ("2026-01-01T00:00:01", "once")
    ),
    Row("a tool's fast call", "passed", FAST, config=SEARCH),
    Row("its slowest", f"{EXCEEDED}: search 101 ms exceeds 100 ms", FAST, LATE, FAST, config=SEARCH,
        refs=[2]),
    Row("a call's time stamps", f"{EXCEEDED}: search 1000 ms exceeds 100 ms", STAMPED, config=SEARCH),
    *(
        Row(f"unknown call {number}", UNKNOWN, *events, config=SEARCH)
        for number, events in enumerate(([UNTIMED], [KNOWN, UNTIMED], [UNTIMED, KNOWN], [calls("search")]))
    ),
    Row("unknown, then too slow", EXCEEDED, UNTIMED, LATE, config=SEARCH),
    Row("too slow, then unknown", EXCEEDED, LATE, UNTIMED, config=SEARCH),
    Row("a tool that was not called", "skipped", says(), answers("search"), config=SEARCH),
    *(
        Row(f"one latency hides no {key}", f"{EXCEEDED}: {words} ms by time stamps exceeds 5000 ms",
            *TEN_SECONDS, config=limit(key, 5000))
        for key, words in (("total", "total 12000"), ("event", "slowest event 10000"), ("p95", "p95 10000"))
    ),
    *(
        Row(f"a turn without data, {number} {key}", UNKNOWN,
            *(says("Hm.", latency_ms=5, **at(0)), asks("?"), last), config=limit(key, 5000),
            has="so the limit cannot be checked (event 2)")
        for number, last in enumerate((says(), says(ts="once"), calls("search")))
        for key in ("total", "event", "p95")
    ),
    Row("a turn too slow beside one without", EXCEEDED, *slow(5), asks("?"), says(),
        config=limit("event", 4)),
    *(
        Row(f"thinking before a call {number}, {key}",
            f"{EXCEEDED}: {words} ms by time stamps exceeds 5000 ms", *events,
            says(latency_ms=1, **at(10.002)), config=limit(key, 5000),
            evidence={"limits": [
                {"name": name, "limit_ms": 5000, "value_ms": value, "source": "time stamps"},
            ]})
        for number, events in enumerate(THINKING)
        for key, words, name, value in (
            ("total", "total 10002", "total", 10_002),
            ("event", "slowest event 10000", "slowest event", 10_000),
        )
    ),
    Row("an answer whose latency covers its calls", "passed: total 10002 ms of 10005 ms", *THINKING[0],
        *WHOLE, config=limit("total", 10_005)),
    Row("a call that states more than its result", f"{EXCEEDED}: search 900 ms exceeds 100 ms",
        *(asks("?"), calls("search", latency_ms=900), answers("search", latency_ms=90)), config=SEARCH),
    Row("no thinking known", UNKNOWN, asks("?"), UNTIMED[:1], answers("search", latency_ms=1),
        says(latency_ms=1), config=limit("total", 10)),
    Row("one latency of a turn and of a call", "passed", *TURNS, config=limit("total", 9)),
    Row("decimals", "passed", *slow(0.1, 0.1, 0.1), config=limit("total", 0.3)),
]  # fmt: skip


@pytest.mark.parametrize("row", ROWS, ids=str)
def test_verdicts(row: Row) -> None:
    row.check("latency_slo")


def test_a_negative_limit_is_refused() -> None:
    with pytest.raises(InvalidInput):
        judge("latency_slo", says(), config={"max_tool_latency_ms": {"search": -1}})
