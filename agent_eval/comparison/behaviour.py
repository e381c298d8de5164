"""How the agent behaved differently, case by case, beyond what its judges said."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import groupby, islice
from typing import Any

from agent_eval.comparison.alignment import Step, align
from agent_eval.comparison.arguments import argument_diff
from agent_eval.comparison.reasons import cut
from agent_eval.comparison.view import RunView
from agent_eval.contracts import (
    BehaviourChange,
    CallChange,
    CallCount,
    CallRun,
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
"""Calls of one case that are listed one by one; all of them are compared."""
STEPS_LIMIT = 2 * CALLS_LIMIT
RUNS_LIMIT = 50
COUNTS_LIMIT = 200
"""Tools, each with a way to differ, for which calls are counted, the most frequent."""
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
    calls, coarse = _call_changes(before, now, traces) if calls_differ(before, now) else ([], False)
    output_changed = output_differs(before, now)
    return BehaviourChange(
        case_id=now["case_id"],
        baseline_calls=[tool for tool, _ in before["calls"][:CALLS_LIMIT]],
        candidate_calls=[tool for tool, _ in now["calls"][:CALLS_LIMIT]],
        baseline_call_count=len(before["calls"]),
        candidate_call_count=len(now["calls"]),
        baseline_runs=_runs(before),
        candidate_runs=_runs(now),
        calls=_shown(calls),
        call_counts=_counts(calls),
        calls_changed=any(one.kind != "same" for one in calls),
        calls_coarse=coarse,
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
) -> tuple[list[CallChange], bool]:
    """Every step from the calls before to those now, and whether they are coarse."""
    arguments = (
        (None, None) if traces is None else (_arguments(before, traces[0]), _arguments(now, traces[1]))
    )
    aligned = align([_call(one) for one in before["calls"]], [_call(one) for one in now["calls"]])
    looked_at = 0
    changes = []
    for step in aligned.steps:
        # That digests differ must do for the many: only so many arguments can be listed.
        known = step.kind == "arguments" and looked_at < STEPS_LIMIT
        looked_at += known
        changes.append(_call_change(step, *(arguments if known else (None, None))))
    return changes, aligned.coarse


def _call_change(step: Step, before: list[Any] | None, now: list[Any] | None) -> CallChange:
    if step.kind != "arguments" or before is None or now is None:
        return CallChange(kind=step.kind, tool=step.tool)
    assert step.baseline is not None
    assert step.candidate is not None
    differing = argument_diff(before[step.baseline], now[step.candidate])
    # Digests also differ for 10 and 10.0, which say the same.
    return CallChange(kind="arguments" if differing else "same", tool=step.tool, arguments=differing or None)


def _shown(calls: list[CallChange]) -> list[CallChange]:
    """As many steps as are listed, in order; the equal ones give way to those that differ."""
    if len(calls) <= STEPS_LIMIT:
        return calls
    room = max(0, STEPS_LIMIT - sum(one.kind != "same" for one in calls))
    shown = []
    for one in calls:
        if one.kind != "same" or room > 0:
            shown.append(one)
            room -= one.kind == "same"
    return shown[:STEPS_LIMIT]


def _counts(calls: list[CallChange]) -> list[CallCount]:
    """The most frequent differences; those of arguments last, as all others say more."""
    counts = Counter((one.kind, one.tool) for one in calls)
    found = [
        CallCount(kind=kind, tool=tool, count=count)
        for (kind, tool), count in counts.most_common()
        if kind != "same"
    ]
    return sorted(found, key=lambda one: one.kind == "arguments")[:COUNTS_LIMIT]


def _runs(row: CaseIndexRow) -> list[CallRun]:
    groups = islice(groupby(tool for tool, _ in row["calls"]), RUNS_LIMIT)
    return [CallRun(tool=tool, times=sum(1 for _ in group)) for tool, group in groups]


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
