from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from agent_eval.contracts import Case, Trace
from agent_eval.judges import load_judges
from agent_eval.judges.builtin.trajectory_step import TrajectoryStepJudge
from tests.unit.judges.traces import answers, calls, findings, judge, make_case, says, uses


def test_answered_calls_pass() -> None:
    verdict = judge("trajectory_step", uses("a"), uses("b", call_id="x"), says())
    assert findings(verdict) == ("passed", None)
    assert verdict.reason == "2 tool calls answered"


def test_an_empty_trace_is_an_error() -> None:
    assert findings(judge("trajectory_step")) == ("error", "missing_output")


def test_a_trace_without_tools_is_skipped() -> None:
    assert findings(judge("trajectory_step", says())) == ("skipped", None)


def test_a_result_nobody_asked_for_fails() -> None:
    verdict = judge("trajectory_step", answers("search"), says())
    assert findings(verdict) == ("failed", "contract_violation")
    assert verdict.reason == "a result of search answers no tool call (event 0)"


def test_a_call_without_a_result_fails() -> None:
    verdict = judge("trajectory_step", uses("a"), calls("b"), says())
    assert verdict.reason == "the call of b has no result (event 2)"
    assert verdict.score == 0.5


def test_a_result_that_names_another_tool_fails() -> None:
    verdict = judge("trajectory_step", calls("a", call_id="x"), answers("b", call_id="x"))
    assert verdict.reason == "the call of a is answered by b (event 1)"


def test_a_result_without_a_tool_answers_by_id() -> None:
    assert judge("trajectory_step", calls("a", call_id="x"), answers(None, call_id="x")).passed


def test_parallel_calls_answered_in_any_order_pass() -> None:
    verdict = judge(
        "trajectory_step",
        calls("a", call_id="1"),
        calls("a", call_id="2"),
        answers("a", call_id="2"),
        answers("a", call_id="1"),
    )
    assert verdict.passed


def test_a_result_in_another_attempt_answers_nothing() -> None:
    verdict = judge("trajectory_step", calls("a", attempt=0), answers("a", attempt=1))
    assert verdict.evidence["problem_count"] == 2
    assert verdict.reason == "the call of a has no result (event 0); 1 more step out of order"


def test_an_unnamed_tool_has_words() -> None:
    assert judge("trajectory_step", calls(None)).reason == (
        "the call of an unnamed tool has no result (event 0)"
    )


ids = st.sampled_from([None, "1", "2"])
events = st.lists(
    st.builds(
        lambda make, tool, call_id, attempt: make(tool, call_id=call_id, attempt=attempt),
        st.sampled_from([calls, answers]),
        st.sampled_from([None, "a", "b"]),
        ids,
        st.sampled_from([None, 1]),
    ),
    max_size=8,
)


@given(events)
def test_it_passes_exactly_when_every_pair_has_two_sides_of_one_tool(groups: list) -> None:
    case: Case = make_case(*groups)
    trace = Trace(case.trace)
    judge_ = load_judges(["trajectory_step"])[0]
    assert isinstance(judge_, TrajectoryStepJudge)
    in_order = [
        pair.call is not None
        and pair.result is not None
        and (not pair.call.tool or not pair.result.tool or pair.call.tool == pair.result.tool)
        for pair in trace.calls
    ]
    assert judge_.evaluate(case, trace).passed == (bool(in_order) and all(in_order))


def test_the_call_that_is_the_answer_needs_no_result() -> None:
    events = (uses("a"), calls("submit", {"total": 7}))
    assert findings(judge("trajectory_step", *events, final_output_tool="submit")) == ("passed", None)
    assert not judge("trajectory_step", *events).passed
    assert not judge("trajectory_step", *events, calls("b"), final_output_tool="submit").passed
