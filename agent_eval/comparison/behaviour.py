"""How the agent behaved differently, case by case, beyond what its judges said."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby, islice
from math import fsum, isfinite
from statistics import median
from typing import Any

from agent_eval.comparison.alignment import Step, align
from agent_eval.comparison.facts import RunView, cut
from agent_eval.contracts import (
    BehaviourChange,
    CallChange,
    CallCount,
    CallRun,
    Case,
    CaseIndexRow,
    Compatibility,
    Metric,
    RunBehaviour,
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


MIN_CASES = 5
"""Cases that both runs must know a figure of before a shift is worth a sentence."""
NOTABLE = {"input_tokens": 0.10, "output_tokens": 0.10, "cost_usd": 0.10, "latency_ms": 0.20}
"""Relative change of the total that is said. Latency is noisier than tokens and cost."""
WIDESPREAD = 0.05
"""A median case that moved less than this, or the other way, means that few cases cause the shift."""
NAME_LIMIT = 100

_NAMES = {
    "input_tokens": ("Input tokens", ",.0f", ""),
    "output_tokens": ("Output tokens", ",.0f", ""),
    "cost_usd": ("Cost", ",.4f", " USD"),
    "latency_ms": ("Latency", ",.0f", " ms"),
}


@dataclass(frozen=True)
class _Shift:
    """Totals over the cases that both runs know, and the median case's relative change."""

    metric: Metric
    cases: int
    median_change: float | None


def run_behaviour(
    baseline: RunView,
    candidate: RunView,
    compared: Sequence[str],
    found: Differences,
    compatibility: Compatibility,
) -> RunBehaviour:
    """Behaviour over all compared cases, with a sentence for everything that moved enough to say."""
    before, now = _models(baseline, candidate, compared)
    shifts = [shift for name in FIGURES if (shift := _shift(name, baseline, candidate, compared))]
    model_changed = bool(before and now) and before != now
    notices = _failed_checks(compatibility, "case_policy_match", "trial_count_match")
    notices += [f"The model changed from {', '.join(before)} to {', '.join(now)}."] if model_changed else []
    notices += [sentence for shift in shifts if (sentence := _sentence(shift))]
    notices += _failed_checks(compatibility, "judges_match", "judge_config_match")
    return RunBehaviour(
        cases_with_changed_calls=len(found.calls),
        cases_with_changed_output=len(found.output),
        baseline_models=before,
        candidate_models=now,
        model_changed=model_changed,
        shifts=[shift.metric for shift in shifts],
        notices=notices,
    )


def _failed_checks(compatibility: Compatibility, *names: str) -> list[str]:
    """What two runs differ in that were compared all the same, each as a sentence."""
    return [
        f"{one.message[:1].upper()}{one.message[1:]}." for one in compatibility.failures if one.name in names
    ]


def _models(baseline: RunView, candidate: RunView, compared: Sequence[str]) -> tuple[list[str], list[str]]:
    """Models that the traces name; where one side names none, what both runs were configured with.

    A name from a trace is never held against a name somebody typed: `gpt-4o` and
    `gpt-4o-2024-08-06` may be the same model.
    """
    before, now = _traced(baseline, compared), _traced(candidate, compared)
    if before and now:
        return before, now
    return _configured(baseline), _configured(candidate)


def _traced(run: RunView, compared: Sequence[str]) -> list[str]:
    found: set[str] = set()
    for case_id in compared:
        found.update(run.index[case_id]["models"])
    return sorted(cut(name, NAME_LIMIT) for name in found)[:MODELS_LIMIT]


def _configured(run: RunView) -> list[str]:
    return [] if run.config.model == "unknown" else [cut(run.config.model, NAME_LIMIT)]


def _shift(name: str, baseline: RunView, candidate: RunView, compared: Sequence[str]) -> _Shift | None:
    was: list[float] = []
    is_now: list[float] = []
    for case_id in compared:
        one, other = baseline.index[case_id].get(name), candidate.index[case_id].get(name)
        if one is not None and other is not None:
            # Row types are validated where packs are read; here the key is only known at run time.
            was.append(one)  # type: ignore[arg-type]
            is_now.append(other)  # type: ignore[arg-type]
    if not was:
        return None
    try:
        before, now = fsum(was), fsum(is_now)
    except OverflowError:
        return None
    if not isfinite(now - before):
        return None
    changes = [after / start - 1 for start, after in zip(was, is_now, strict=True) if start > 0]
    return _Shift(
        metric=figure(name, before, now),
        cases=len(was),
        median_change=median(changes) if changes else None,
    )


def _sentence(shift: _Shift) -> str | None:
    metric = shift.metric
    before, now = metric.baseline or 0.0, metric.candidate or 0.0
    if shift.cases < MIN_CASES or before <= 0 or shift.median_change is None:
        return None
    change = now / before - 1
    if not abs(change) >= NOTABLE[metric.name]:
        return None
    title, form, unit = _NAMES[metric.name]
    said = (
        f"{title} {'rose' if change > 0 else 'fell'} by {abs(change):.0%} in total: "
        f"{before:{form}}{unit} became {now:{form}}{unit} over {shift.cases} cases"
    )
    if shift.median_change * change <= 0 or abs(shift.median_change) < WIDESPREAD:
        return f"{said}; a few cases cause it, the median case moved by {shift.median_change:+.0%}."
    return f"{said}."


ABSENT = "(absent)"
"""Stands for a value that one side does not have."""
PLACES = 20
"""Differing places listed for one call."""
VALUE_LIMIT = 200
"""Characters of a value's text."""
DEPTH = 6
"""Levels followed before two values are compared as a whole."""


def argument_diff(before: Any, now: Any) -> dict[str, tuple[Any, Any]]:
    """JSON paths at which two values differ, with both values, cut to a bounded size."""
    found: dict[str, tuple[Any, Any]] = {}
    for path, values in _differences(before, now, "$", DEPTH):
        if len(found) == PLACES:
            break
        found[path] = values
    return found


def _differences(before: Any, now: Any, path: str, depth: int) -> Iterator[tuple[str, tuple[Any, Any]]]:
    if depth and isinstance(before, dict) and isinstance(now, dict):
        for key in sorted(before.keys() | now.keys()):
            yield from _differences(
                before.get(key, ABSENT), now.get(key, ABSENT), f"{path}.{cut(key, VALUE_LIMIT)}", depth - 1
            )
    elif depth and isinstance(before, list) and isinstance(now, list) and len(before) == len(now):
        for place, pair in enumerate(zip(before, now, strict=True)):
            yield from _differences(*pair, f"{path}[{place}]", depth - 1)
    elif not same_json(before, now):
        yield path, (_bounded(before), _bounded(now))


def same_json(before: Any, now: Any) -> bool:
    """Whether two JSON values are the same; `true` is not `1`, but `10.0` is `10`."""
    if isinstance(before, bool) or isinstance(now, bool):
        return before is now
    if isinstance(before, int | float) and isinstance(now, int | float):
        return before == now
    return canonical_json(before) == canonical_json(now)


def _bounded(value: Any) -> Any:
    if isinstance(value, str):
        return cut(value, VALUE_LIMIT)
    if isinstance(value, dict | list):
        return cut(canonical_json(value).decode(), VALUE_LIMIT)
    return value
