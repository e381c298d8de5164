from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.judges.traces import Row, answers, calls, judge, make_case, says, uses

OUT_OF_ORDER = "failed contract_violation"
SUBMIT = calls("submit", {"total": 7})

ROWS = [
    Row("answered calls pass", "passed: 2 tool calls answered", uses("a"), uses("b", call_id="x"), says()),
    Row("an empty trace is an error", "error missing_output"),
    Row("a trace without tools is skipped", "skipped", says()),
    Row("a result nobody asked for fails",
        f"{OUT_OF_ORDER}: a result of search answers no tool call (event 0)", *(answers("search"), says())),
    Row("a call without a result fails", f"{OUT_OF_ORDER}: the call of b has no result (event 2)",
        *(uses("a"), calls("b"), says()), score=0.5),
    Row("a result that names another tool fails", f"{OUT_OF_ORDER}: the call of a is answered by b (event 1)",
        *(calls("a", call_id="x"), answers("b", call_id="x"))),
    Row("a result without a tool answers by id", "passed",
        *(calls("a", call_id="x"), answers(None, call_id="x"))),
    Row("parallel calls are answered in any order", "passed",
        *(calls("a", call_id="1"), calls("a", call_id="2")),
        *(answers("a", call_id="2"), answers("a", call_id="1"))),
    Row("a result in another attempt answers nothing",
        f"{OUT_OF_ORDER}: the call of a has no result (event 0); 1 more step out of order",
        *(calls("a", attempt=0), answers("a", attempt=1)), evidence={"problem_count": 2}),
    Row("an unnamed tool has words", f"{OUT_OF_ORDER}: the call of an unnamed tool has no result (event 0)",
        calls(None)),
    Row("the answer needs no result", "passed", uses("a"), SUBMIT, final_output_tool="submit"),
    Row("a call like it does", OUT_OF_ORDER, uses("a"), SUBMIT),
    Row("so do others", OUT_OF_ORDER, uses("a"), SUBMIT, calls("b"), final_output_tool="submit"),
]  # fmt: skip


@pytest.mark.parametrize("row", ROWS, ids=str)
def test_verdicts(row: Row) -> None:
    row.check("trajectory_step")


events = st.lists(
    st.builds(
        lambda make, tool, call_id, attempt: make(tool, call_id=call_id, attempt=attempt),
        st.sampled_from([calls, answers]),
        st.sampled_from([None, "a", "b"]),
        st.sampled_from([None, "1", "2"]),
        st.sampled_from([None, 1]),
    ),
    min_size=1,
    max_size=8,
)


@given(events)
def test_it_passes_exactly_when_every_pair_has_two_sides_of_one_tool(groups: list) -> None:
    in_order = [
        pair.call is not None
        and pair.result is not None
        and (not pair.call.tool or not pair.result.tool or pair.call.tool == pair.result.tool)
        for pair in make_case(*groups).recorded.calls
    ]
    assert judge("trajectory_step", *groups).passed == (bool(in_order) and all(in_order))
