"""How the agent behaved differently, case by case, beyond what its judges said."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from agent_eval.comparison.alignment import Step, align
from agent_eval.comparison.arguments import argument_diff
from agent_eval.comparison.reasons import cut
from agent_eval.comparison.view import RunView
from agent_eval.contracts import (
    BehaviourChange,
    CallChange,
    Case,
    CaseIndexRow,
    Metric,
    Trace,
    canonical_json,
    digest,
)

Traces = Callable[[str], tuple[Case, Case]]
"""Case id to the case with its trace, in the baseline and in the candidate."""

FIGURES = ("input_tokens", "output_tokens", "cost_usd", "latency_ms")
MOVED = 0.10
"""Relative change from which a figure of one case is shown."""
OUTPUT_LIMIT = 2_000
"""Characters of a final output that enter a comparison."""
CALLS_LIMIT = 200
"""Calls of one case that enter a comparison."""
STEPS_LIMIT = 2 * CALLS_LIMIT
MODELS_LIMIT = 10


def calls_differ(before: CaseIndexRow, now: CaseIndexRow) -> bool:
    """Whether the tools called, their order or their arguments differ."""
    return before["calls"] != now["calls"]


def output_differs(before: CaseIndexRow, now: CaseIndexRow) -> bool:
    """Whether the final output differs; saying nothing differs from saying something."""
    return before["output_digest"] != now["output_digest"]


def models_differ(before: CaseIndexRow, now: CaseIndexRow) -> bool:
    """Whether both traces name models and not the same ones. Unknown is not a change."""
    return bool(before["models"] and now["models"]) and set(before["models"]) != set(now["models"])


@dataclass(frozen=True, slots=True)
class Differences:
    """Ids of the compared cases, in order, whose calls, models or final output differ."""

    calls: list[str]
    models: list[str]
    output: list[str]


def differences(baseline: RunView, candidate: RunView, compared: Sequence[str]) -> Differences:
    """Look once at every compared case's index rows."""
    found = Differences([], [], [])
    for case_id in compared:
        before, now = baseline.index[case_id], candidate.index[case_id]
        if calls_differ(before, now):
            found.calls.append(case_id)
        if models_differ(before, now):
            found.models.append(case_id)
        if output_differs(before, now):
            found.output.append(case_id)
    return found


def changed_cases(found: Differences, results_changed: Iterable[str]) -> list[str]:
    """Ids of cases whose behaviour or result changed, each once, the ones to look at first in front.

    In this order: result changed (as given), calls changed, model changed, only the output changed.
    """
    return list(dict.fromkeys([*results_changed, *found.calls, *found.models, *found.output]))


def behaviour_change(
    before: CaseIndexRow, now: CaseIndexRow, cases: tuple[Case, Case] | None
) -> BehaviourChange:
    """What changed on one case.

    Args:
        before: The case's index row in the baseline.
        now: The same in the candidate.
        cases: Both cases with their traces, for outputs and argument differences; None leaves those out.
    """
    traces = None if cases is None else (Trace(cases[0].trace), Trace(cases[1].trace))
    calls = _call_changes(before, now, traces) if calls_differ(before, now) else []
    output_changed = output_differs(before, now)
    return BehaviourChange(
        case_id=now["case_id"],
        baseline_calls=[tool for tool, _ in before["calls"][:CALLS_LIMIT]],
        candidate_calls=[tool for tool, _ in now["calls"][:CALLS_LIMIT]],
        calls=calls,
        # Calls beyond the limit are not looked at; that their digests differ must do.
        calls_changed=bool(calls) and (len(calls) == STEPS_LIMIT or any(one.kind != "same" for one in calls)),
        output_changed=output_changed,
        baseline_output=_text(traces[0].final_output) if traces and output_changed else None,
        candidate_output=_text(traces[1].final_output) if traces and output_changed else None,
        baseline_models=before["models"][:MODELS_LIMIT],
        candidate_models=now["models"][:MODELS_LIMIT],
        model_changed=models_differ(before, now),
        metrics=_moved_figures(before, now),
    )


def _call_changes(
    before: CaseIndexRow, now: CaseIndexRow, traces: tuple[Trace, Trace] | None
) -> list[CallChange]:
    arguments = (
        (None, None) if traces is None else (_arguments(before, traces[0]), _arguments(now, traces[1]))
    )
    steps = align([_call(one) for one in before["calls"]], [_call(one) for one in now["calls"]])
    return [_call_change(step, *arguments) for step in steps[:STEPS_LIMIT]]


def _call_change(step: Step, before: list[Any] | None, now: list[Any] | None) -> CallChange:
    if step.kind != "arguments" or before is None or now is None:
        return CallChange(kind=step.kind, tool=step.tool)
    assert step.baseline is not None
    assert step.candidate is not None
    differing = argument_diff(before[step.baseline], now[step.candidate])
    # Digests also differ for 10 and 10.0, which say the same.
    return CallChange(kind="arguments" if differing else "same", tool=step.tool, arguments=differing or None)


def _call(row: list[str]) -> tuple[str, str]:
    return row[0], row[1]


def _arguments(row: CaseIndexRow, trace: Trace) -> list[Any] | None:
    """The arguments of the calls that the index names; None when trace and index do not agree."""
    calls = [call for call in trace.calls if call.call is not None]
    if len(calls) != len(row["calls"]):
        calls = trace.calls
    if [call.tool for call in calls] != [tool for tool, _ in row["calls"]]:
        return None
    if any(
        not digest(call.arguments).startswith(mark)
        for call, (_, mark) in zip(calls, row["calls"], strict=True)
    ):
        return None
    return [call.arguments for call in calls]


def _text(output: Any) -> str | None:
    if output is None:
        return None
    return cut(output if isinstance(output, str) else canonical_json(output).decode(), OUTPUT_LIMIT)


def _moved_figures(before: CaseIndexRow, now: CaseIndexRow) -> list[Metric]:
    moved = []
    for name in FIGURES:
        was, is_now = before.get(name), now.get(name)
        if not isinstance(was, int | float) or not isinstance(is_now, int | float):
            continue
        if abs(is_now - was) >= MOVED * abs(was) and is_now != was:
            moved.append(figure(name, float(was), float(is_now)))
    return moved


def figure(name: str, before: float, now: float) -> Metric:
    """A metric that both sides know."""
    return Metric(name=name, baseline=before, candidate=now, delta=now - before)
