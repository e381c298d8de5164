from __future__ import annotations

import random
from collections import Counter
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_eval.comparison import behaviour as alignment
from agent_eval.comparison.behaviour import (
    ABSENT,
    DEPTH,
    PLACES,
    STEPS_LIMIT,
    Step,
    align,
    argument_diff,
    behaviour_change,
)
from agent_eval.comparison.compare import compare
from agent_eval.comparison.facts import RunView
from agent_eval.contracts import Case, Comparison, digest
from tests.factories import make_event, make_index_row
from tests.unit.comparison.views import index_row, passing, view


def case_with(*calls: tuple[str, Any], output: Any = "done") -> dict[str, Any]:
    called = [{"type": "tool_call", "tool": tool, "input": given} for tool, given in calls]
    trace = [make_event(number, **fields) for number, fields in enumerate(called)]
    return {"case_id": "a", "trace": [*trace, make_event(len(calls), output=output)]}


def change(before: dict[str, Any], now: dict[str, Any], *shown: dict[str, Any]) -> Any:
    """What changed between two cases; their traces are those of `shown` where given."""
    rows = [index_row(**{**make_index_row(case), "definition_digest": "d"}) for case in (before, now)]
    first, second = (Case.model_validate(case) for case in shown or (before, now))
    return behaviour_change(*rows, (first, second))


def test_a_call_that_was_added_is_told_with_both_sequences() -> None:
    calls = [("lookup_order", {"id": 1}), ("refund", {"id": 1})]
    found = change(case_with(*calls), case_with(*calls, ("escalate", {})))
    assert " → ".join(found.baseline_calls) == "lookup_order → refund"
    assert " → ".join(found.candidate_calls) == "lookup_order → refund → escalate"
    steps = [f"{step.kind} {step.tool}" for step in found.calls]
    assert steps == ["same lookup_order", "same refund", "added escalate"]
    assert not found.output_changed


@pytest.mark.parametrize("times", [1, 390])
def test_numbers_written_differently_are_no_change(times: int) -> None:
    cases = [case_with(*[("pay", {"amount": ten})] * times, ("end", {})) for ten in (10, 10.0)]
    assert not change(*cases).calls_changed


def test_changed_arguments_are_told_place_by_place() -> None:
    found = change(
        case_with(("refund", {"id": 1, "amount": 10, "why": {"code": "late"}})),
        case_with(("refund", {"id": 1, "amount": 12, "why": {"code": "lost"}, "urgent": True})),
    )
    assert found.calls[0].arguments == {
        "$.amount": (10, 12), "$.urgent": (ABSENT, True), "$.why.code": ("late", "lost"),
    }  # fmt: skip


def test_what_is_listed_is_bounded_and_what_is_counted_is_not() -> None:
    many = [("tick", {}) for _ in range(1_000)]
    found = change(case_with(*many), case_with(*many, ("refund", {})))
    assert found.calls_changed
    assert (len(found.calls), len(found.candidate_calls)) == (400, 200)
    assert (found.baseline_call_count, found.candidate_call_count) == (1_000, 1_001)
    assert (found.calls[-1].kind, found.calls[-1].tool) == ("added", "refund")
    assert [(one.kind, one.tool, one.count) for one in found.call_counts] == [("added", "refund", 1)]
    before, now = [[(f"{side}{number}", {}) for number in range(600)] for side in ("old", "new")]
    found = change(case_with(*before), case_with(*now))
    assert (len(found.baseline_calls), len(found.calls), len(found.call_counts)) == (200, 400, 200)


def test_differences_of_arguments_are_counted_after_all_others() -> None:
    before, now = [("look", {"page": 1})] * 3, [("look", {"page": 2})] * 3 + [("refund", {})]
    found = change(case_with(*before), case_with(*now)).call_counts
    assert [(one.kind, one.count) for one in found] == [("added", 1), ("arguments", 3)]


def test_both_outputs_are_shown_when_they_differ_and_cut_when_long() -> None:
    found = change(case_with(output="yes"), case_with(output={"text": "n" * 5_000}))
    assert found.baseline_output == "yes"
    assert found.candidate_output.startswith('{"text":"nnn')
    assert len(found.candidate_output) == 2_000
    silent = change(case_with(output="yes"), {"case_id": "a", "trace": []})
    assert (silent.output_changed, silent.candidate_output) == (True, None)


@pytest.mark.parametrize("calls", [[("refund", {"id": 3})], [("pay", {"id": 1})], []])
def test_arguments_are_left_out_where_trace_and_index_disagree(calls: list[tuple[str, Any]]) -> None:
    before, now = case_with(("refund", {"id": 1})), case_with(("refund", {"id": 2}))
    [step] = change(before, now, case_with(*calls), now).calls
    assert (step.kind, step.arguments) == ("arguments", None)


@pytest.mark.parametrize("is_listed", [False, True], ids=["not in the index", "in the index"])
def test_a_result_that_nothing_called_does_not_disturb_the_arguments(is_listed: bool) -> None:
    before, now = case_with(("refund", {"id": 1})), case_with(("refund", {"id": 2}))
    before["trace"].append(make_event(7, actor="tool", type="tool_result", tool="ghost", output=1))
    calls = [[["refund", digest({"id": number})[:16]]] for number in (1, 2)]
    calls[0] += [["ghost", digest(None)[:16]]] * is_listed
    rows = [index_row("a", calls=each) for each in calls]
    found = behaviour_change(*rows, (Case.model_validate(before), Case.model_validate(now)))
    steps = [("arguments", "refund"), ("removed", "ghost")][: len(calls[0])]
    assert [(step.kind, step.tool) for step in found.calls] == steps
    assert found.calls[0].arguments == {"$.id": (1, 2)}


def test_figures_that_moved_are_told_and_unknown_is_not_zero() -> None:
    before = index_row("a", input_tokens=100, output_tokens=100, cost_usd=None, latency_ms=0.0)
    now = index_row("a", input_tokens=105, output_tokens=140, cost_usd=1.0, latency_ms=5.0)
    moved = behaviour_change(before, now, None).metrics
    told = [(one.name, one.baseline, one.candidate, one.delta) for one in moved]
    assert told == [("output_tokens", 100, 140, 40), ("latency_ms", 0, 5, 5)]


@pytest.mark.parametrize(
    ("before", "now", "changed"),
    [(["a"], ["b"], True), (["a", "b"], ["b", "a"], False), ([], ["b"], False), (["a"], [], False)],
)
def test_a_model_changed_where_both_traces_name_one(before: list[str], now: list[str], changed: bool) -> None:
    found = behaviour_change(index_row("a", models=before), index_row("a", models=now), None)
    assert found.model_changed is changed


def test_cases_whose_result_changed_come_first_then_calls_then_model_then_output() -> None:
    before = dict.fromkeys(["call", "fail", "model", "output", "quiet"], "passed")
    index = {"call": {"calls": [["t", "1"]]}, "model": {"models": ["new"]}}
    now = view({**before, "fail": "failed"}, index={**index, "output": {"output_digest": "other"}})
    found = compare(view(before, index={"model": {"models": ["old"]}}), now, generated_at="now")
    assert [one.case_id for one in found.behaviour_changes] == ["fail", "call", "model", "output"]


def over_the_run(before: list[dict[str, Any]], now: list[dict[str, Any]], **config: Any) -> Comparison:
    runs: list[RunView] = []
    for rows in (before, now):
        index = {f"c{number}": row for number, row in enumerate(rows)}
        runs.append(view(dict.fromkeys(index, "passed"), index=index))
    return compare(*runs, generated_at="now")


def test_a_model_is_compared_only_with_one_that_was_named_alike() -> None:
    index = {"a": {"models": ["gpt-4o-2024-08-06"]}}
    traced, mini = (view({"a": "passed"}, index=each) for each in (index, {"a": {"models": ["mini"]}}))
    both = view({"a": "passed"}, index=index, model="gpt-4o")
    typed, other = (view({"a": "passed"}, model=name) for name in ("gpt-4o", "claude"))
    unknown = view({"a": "passed"})
    for runs, notices in (
        ((typed, both), []),
        ((traced, mini), ["The model changed from gpt-4o-2024-08-06 to mini."]),
        ((typed, other), ["The model changed from gpt-4o to claude."]),
        ((unknown, other), []),
        ((traced, unknown), []),
        ((unknown, traced), []),
    ):
        found = compare(*runs, generated_at="now").behaviour
        assert (found.notices, found.model_changed) == (notices, bool(notices))
    assert (found.baseline_models, found.candidate_models) == ([], [])


def test_totals_are_over_the_cases_that_both_runs_know() -> None:
    found = over_the_run(
        [{"input_tokens": 10}, {"input_tokens": 20}, {}], [{"input_tokens": 11}, {}, {"input_tokens": 30}]
    ).behaviour
    assert [(one.name, one.baseline, one.candidate) for one in found.shifts] == [("input_tokens", 10, 11)]


@pytest.mark.parametrize(
    ("before", "now", "found"),
    [
        (1, True, {"$": (1, True)}),
        (1, 1, {}),
        ({"amount": 10, "to": ["a"]}, {"amount": 10.0, "to": ["a"]}, {}),
        (None, {}, {"$": (None, "{}")}),
        ([1, 2], [1, 3], {"$[1]": (2, 3)}),
        ([1], [1, 2], {"$": ("[1]", "[1,2]")}),
        ({"a": None}, {}, {"$.a": (None, ABSENT)}),
        ({"a": 1}, {"a": "1"}, {"$.a": (1, "1")}),
        ({"a": [1]}, {"a": 1}, {"$.a": ("[1]", 1)}),
    ],
)
def test_argument_differences(before: Any, now: Any, found: Any) -> None:
    assert repr(argument_diff(before, now)) == repr(found)


def test_argument_differences_are_bounded() -> None:
    def nested(value: Any, *, as_list: bool) -> Any:
        for _ in range(50):
            value = [value] if as_list else {"d": value}
        return value

    for step, as_list in ((".d", False), ("[0]", True)):
        sides = (nested(value, as_list=as_list) for value in (1, 2))
        assert list(argument_diff(*sides)) == ["$" + step * DEPTH]
    many = argument_diff({f"k{number:03}": "x" * 999 for number in range(99)}, {})
    assert len(many) == PLACES
    assert all(len(value[0]) == 200 for value in many.values())


def test_arguments_are_compared_up_to_the_number_of_steps_that_are_listed() -> None:
    rows = [case_with(*[("look", {"page": page})] * (STEPS_LIMIT + 1)) for page in (1, 2)]
    listed = change(*rows).calls
    assert [one.arguments for one in listed] == [{"$.page": (1, 2)}] * STEPS_LIMIT
    # Beyond the limit digests decide, and those of 10 and 10.0 differ.
    rows = [case_with(*[("pay", {"amount": ten})] * (STEPS_LIMIT + 1)) for ten in (10, 10.0)]
    assert [(one.kind, one.count) for one in change(*rows).call_counts] == [("arguments", 1)]
    # Calls with equal arguments do not use the limit up.
    rows = [case_with(*[("tick", {})] * STEPS_LIMIT, ("look", {"page": page})) for page in (1, 2)]
    assert [one.arguments for one in change(*rows).calls if one.kind != "same"] == [{"$.page": (1, 2)}]


def test_what_differs_over_the_run_is_counted_and_its_models_named() -> None:
    calls = {"calls": [["search", "x"]], "models": ["a"]}
    found = over_the_run([{"models": ["a"]}] * 5, [calls, calls, *[{"models": ["a"]}] * 3]).behaviour
    assert (found.cases_with_changed_calls, found.cases_with_changed_output) == (2, 0)
    assert (found.baseline_models, found.candidate_models, found.model_changed) == (["a"], ["a"], False)


def test_trials_and_models_are_said_before_judges_and_no_figure_is() -> None:
    def run(trials: int, policy: str, model: str, cost: float, judges: list[str]) -> RunView:
        names = [f"c{number}" for number in range(5)]
        cases = {name: passing(name, trials, trials, policy=policy) for name in names}
        index = {name: {"models": [model], "cost_usd": cost} for name in names}
        return view(cases, index=index, judges=judges)

    before, now = run(2, "all", "old", 1.0, ["policy"]), run(3, "any", "new", 2.0, ["policy", "regex"])
    notices = compare(before, now, generated_at="now").behaviour.notices
    starts = ["A case with several trials", "5 cases have another number", "The model", "Regex judged"]
    assert [said[: len(start)] for said, start in zip(notices, starts, strict=True)] == starts


def test_a_missing_answer_is_told_with_its_reason_and_another_agent_with_its_name() -> None:
    def answered(output: Any = None, **fields: Any) -> dict[str, Any]:
        return {"case_id": "a", "trace": [make_event(0, output=output, **fields)]}

    cut_off = change(answered("yes"), answered(stop_reason="length"))
    assert (cut_off.baseline_output, cut_off.candidate_output) == ("yes", "(the answer was cut off: length)")
    hidden = change(answered("yes"), answered(content_recorded=False))
    assert hidden.candidate_output == "(not recorded)"
    handed = change(answered("yes", agent_name="triage"), answered("no", agent_name="orders"))
    assert (handed.baseline_output, handed.candidate_output) == ("triage: yes", "orders: no")
    same = change(answered("yes", agent_name="triage"), answered("no", agent_name="triage"))
    assert same.candidate_output == "no"


# Calls laid side by side.


calls = st.lists(st.tuples(st.sampled_from("ABC"), st.sampled_from("12")), max_size=7)


def kinds(before: str, now: str) -> list[str]:
    """`kinds("a1 b1", "a1 b2")`: a letter is a tool, a digit its arguments."""
    steps = align(*([(call[0], call[1]) for call in side.split()] for side in (before, now)))
    return [f"{step.kind} {step.tool}" for step in steps]


SIDE_BY_SIDE = {
    "an extra call at the end": ("l1 r1", "l1 r1 e1", "same l, same r, added e"),
    "an extra call in front": ("l1 r1", "v1 l1 r1", "added v, same l, same r"),
    "a missing call stands where it was": ("l1 v1 r1", "l1 r1", "same l, removed v, same r"),
    "other arguments keep their place": ("l1 r1", "l1 r2", "same l, arguments r"),
    "equal arguments decide": ("s1 s2", "s2", "removed s, same s"),
    "calls changed places": ("a1 b1", "b1 a1", "moved b, same a"),
    "a call elsewhere with other arguments did not move": ("a1 b1", "b1 a2", "removed a, same b, added a"),
    "nothing": ("", "", ""), "nothing before": ("", "a1", "added a"), "nothing now": ("a1", "", "removed a"),
}  # fmt: skip


@pytest.mark.parametrize(("before", "now", "steps"), SIDE_BY_SIDE.values(), ids=SIDE_BY_SIDE)
def test_calls_are_laid_side_by_side(before: str, now: str, steps: str) -> None:
    assert ", ".join(kinds(before, now)) == steps


@pytest.mark.parametrize("cells", [alignment.MOST_CELLS, 0])
@given(before=calls, now=calls)
def test_steps_tell_both_lists(cells: int, before: list[tuple[str, str]], now: list[tuple[str, str]]) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(alignment, "MOST_CELLS", cells)
        steps = align(before, now)
    check_steps(before, now, steps)


@given(calls)
def test_a_list_aligned_with_itself_is_all_the_same(both: list[tuple[str, str]]) -> None:
    assert {step.kind for step in align(both, both)} <= {"same"}


def tools(counts: str) -> list[tuple[str, str]]:
    """`tools("a250 p")`: 250 calls of `a` with the same arguments, one of `p`."""
    return [(one[0], "1") for one in counts.split() for _ in range(int(one[1:] or 1))]


def counted(before: list[tuple[str, str]], now: list[tuple[str, str]]) -> Counter[str]:
    return Counter(f"{step.kind} {step.tool}" for step in align(before, now))


MANY = [[("a", f"{side}{number}") for number in range(20_000)] for side in ("l", "r")]
LOOPS = [[(tool, "1") for _ in range(5_000) for tool in loop] for loop in ("abcd", "abce")]
SEARCHES = [("search", str(number)) for number in range(5_000)]
WILD = [(tool, f"{tool}{number}") for number in range(1_000) for tool in "abcd"]


@pytest.mark.parametrize(
    ("before", "now", "steps"),
    [
        (tools("a250 p"), tools("a250 d"), {"same a": 250, "removed p": 1, "added d": 1}),
        (tools("a250"), tools("a900"), {"same a": 250, "added a": 650}),
        (tools("a20000 p"), tools("a19000 d"),
         {"same a": 19_000, "removed a": 1_000, "removed p": 1, "added d": 1}),
        ([*MANY[0], ("p", "")], [*MANY[1], ("d", "")], {"arguments a": 20_000, "removed p": 1, "added d": 1}),
        (*LOOPS, {**{f"same {tool}": 5_000 for tool in "abc"}, "removed d": 5_000, "added e": 5_000}),
        ([("x", ""), *SEARCHES, ("x", "")], [("y", ""), *SEARCHES[:17], *SEARCHES[18:], ("y", "")],
         {"same search": 4_999, "removed search": 1, "removed x": 2, "added y": 2}),
        (WILD, [("a", "1")] * 4_000,
         {"arguments a": 1_000, "added a": 3_000, **{f"removed {tool}": 1_000 for tool in "bcd"}}),
    ],
    ids=[
        "a change far behind", "many more calls", "many fewer calls", "other arguments keep their place",
        "a tool in a loop is replaced", "one call less", "a tool in place of others keeps its own calls",
    ],
)  # fmt: skip
def test_very_many_calls_are_compared_like_a_few(
    before: list[tuple[str, str]], now: list[tuple[str, str]], steps: dict[str, int]
) -> None:
    assert counted(before, now) == steps


def test_very_many_calls_in_a_wild_order_are_laid_side_by_side_truly() -> None:
    rng = random.Random(7)
    before, now = [[(rng.choice("abcd"), rng.choice("12")) for _ in range(20_000)] for _ in range(2)]
    check_steps(before, now, align(before, now))


def place(step: Step) -> int:
    assert step.baseline is not None
    return step.baseline


def check_steps(before: list[tuple[str, str]], now: list[tuple[str, str]], steps: list[Step]) -> None:
    """The laws of an alignment."""
    assert [step.candidate for step in steps if step.kind != "removed"] == list(range(len(now)))
    assert sorted(place(step) for step in steps if step.kind != "added") == list(range(len(before)))
    in_place = [place(step) for step in steps if step.kind in ("same", "arguments", "removed")]
    assert in_place == sorted(in_place)
    for step in steps:
        if step.baseline is not None:
            assert before[step.baseline][0] == step.tool
        if step.candidate is not None:
            assert now[step.candidate][0] == step.tool
        if step.kind in ("same", "moved"):
            assert before[place(step)] == now[step.candidate or 0]
        if step.kind == "arguments":
            assert before[place(step)] != now[step.candidate or 0]
