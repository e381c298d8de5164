"""Changes of the agent's behaviour, case by case, apart from its verdicts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby, islice
from math import fsum, isfinite
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
from agent_eval.contracts.finish import STOPPED_SHORT

Traces = Callable[[str], tuple[Case, Case]]
"""Function from a case id to the case with its trace, in the baseline and in the candidate."""

FIGURES = ("input_tokens", "output_tokens", "cost_usd", "latency_ms")
MOVED = 0.10
"""Relative change from which a figure of a case is listed."""
OUTPUT_LIMIT = 2_000
"""Maximum characters of a final output in a comparison."""
CALLS_LIMIT = 200
"""Maximum calls of a case that are listed; all of them are compared."""
STEPS_LIMIT = 2 * CALLS_LIMIT
RUNS_LIMIT = 50
COUNTS_LIMIT = 200
"""Maximum pairs of a tool and a kind of difference whose calls are counted; the most frequent count."""
MODELS_LIMIT = 10


def calls_differ(before: CaseIndexRow, now: CaseIndexRow) -> bool:
    """Tell whether tools, their order or their arguments differ."""
    return before["calls"] != now["calls"]


def output_differs(before: CaseIndexRow, now: CaseIndexRow) -> bool:
    """Tell whether the final output differs; none differs from any."""
    return before["output_digest"] != now["output_digest"]


def models_differ(before: CaseIndexRow, now: CaseIndexRow) -> bool:
    """Tell whether both traces name models, and different ones. An unknown model is no change."""
    return bool(before["models"] and now["models"]) and set(before["models"]) != set(now["models"])


@dataclass(frozen=True, slots=True)
class Differences:
    """Ids of the compared cases, in order, whose calls, models or final output differ."""

    calls: list[str]
    models: list[str]
    output: list[str]


def differences(baseline: RunView, candidate: RunView, compared: Sequence[str]) -> Differences:
    """Find the compared cases whose rows of the index differ."""
    differing = Differences([], [], [])
    for case_id in compared:
        before, now = baseline.index[case_id], candidate.index[case_id]
        if calls_differ(before, now):
            differing.calls.append(case_id)
        if models_differ(before, now):
            differing.models.append(case_id)
        if output_differs(before, now):
            differing.output.append(case_id)
    return differing


def changed_cases(differing: Differences, results_changed: Iterable[str]) -> list[str]:
    """List the ids of cases whose behaviour or result changed, each once, most important first.

    The order: result changed (in the order of `results_changed`), calls, model, only the output.
    """
    return list(dict.fromkeys([*results_changed, *differing.calls, *differing.models, *differing.output]))


def behaviour_change(
    before: CaseIndexRow, now: CaseIndexRow, cases: tuple[Case, Case] | None
) -> BehaviourChange:
    """Describe how the behaviour changed on one case.

    Args:
        before: The case's row of the index in the baseline.
        now: The case's row of the index in the candidate.
        cases: Both cases with their traces, for outputs and differing arguments; None to leave those out.
    """
    traces = None if cases is None else (cases[0].recorded, cases[1].recorded)
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
        calls=_listed(calls),
        call_counts=_counts(calls),
        calls_changed=any(change.kind != "same" for change in calls),
        calls_coarse=coarse,
        output_changed=output_changed,
        baseline_output=_output_of(traces[0], traces[1]) if traces and output_changed else None,
        candidate_output=_output_of(traces[1], traces[0]) if traces and output_changed else None,
        baseline_models=before["models"][:MODELS_LIMIT],
        candidate_models=now["models"][:MODELS_LIMIT],
        model_changed=models_differ(before, now),
        metrics=_moved_figures(before, now),
    )


def _call_changes(
    before: CaseIndexRow, now: CaseIndexRow, traces: tuple[Trace, Trace] | None
) -> tuple[list[CallChange], bool]:
    """List every step from the calls before to those now, and tell whether they are coarse."""
    arguments = (
        (None, None) if traces is None else (_arguments(before, traces[0]), _arguments(now, traces[1]))
    )
    aligned = align([_call(row) for row in before["calls"]], [_call(row) for row in now["calls"]])
    compared = 0
    changes = []
    for step in aligned.steps:
        # Arguments are compared up to the number of steps that are listed; beyond it, digests are enough.
        known = step.kind == "arguments" and compared < STEPS_LIMIT
        compared += known
        changes.append(_call_change(step, *(arguments if known else (None, None))))
    return changes, aligned.coarse


def _call_change(step: Step, before: list[Any] | None, now: list[Any] | None) -> CallChange:
    if step.kind != "arguments" or before is None or now is None:
        return CallChange(kind=step.kind, tool=step.tool)
    assert step.baseline is not None
    assert step.candidate is not None
    differing = argument_diff(before[step.baseline], now[step.candidate])
    # Digests also differ for 10 and 10.0, which are equal.
    return CallChange(kind="arguments" if differing else "same", tool=step.tool, arguments=differing or None)


def _listed(calls: list[CallChange]) -> list[CallChange]:
    """Select the steps that are listed, in order; drop equal ones before those that differ."""
    if len(calls) <= STEPS_LIMIT:
        return calls
    room = max(0, STEPS_LIMIT - sum(change.kind != "same" for change in calls))
    listed = []
    for change in calls:
        if change.kind != "same" or room > 0:
            listed.append(change)
            room -= change.kind == "same"
    return listed[:STEPS_LIMIT]


def _counts(calls: list[CallChange]) -> list[CallCount]:
    """Count the differences, most frequent first; those of arguments last, as they matter least."""
    counts = Counter((change.kind, change.tool) for change in calls)
    differing = [
        CallCount(kind=kind, tool=tool, count=count)
        for (kind, tool), count in counts.most_common()
        if kind != "same"
    ]
    return sorted(differing, key=lambda entry: entry.kind == "arguments")[:COUNTS_LIMIT]


def _runs(row: CaseIndexRow) -> list[CallRun]:
    groups = islice(groupby(tool for tool, _ in row["calls"]), RUNS_LIMIT)
    return [CallRun(tool=tool, times=sum(1 for _ in group)) for tool, group in groups]


def _call(row: list[str]) -> tuple[str, str]:
    return row[0], row[1]


def _arguments(row: CaseIndexRow, trace: Trace) -> list[Any] | None:
    """Return the arguments of the calls in the index; None where trace and index disagree."""
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


def _output_of(trace: Trace, other: Trace) -> str | None:
    """Return the final output as text, or why there is none; with its agent where that has changed."""
    event, other_event = trace.final_event, other.final_event
    text = _text(trace.final_output)
    if event is None:
        return text
    if text is None and event.content_recorded is False:
        text = "(not recorded)"
    elif text is None and event.stop is not None:
        finish, reason = event.stop
        text = cut(f"({STOPPED_SHORT[finish][1]}: {reason})", OUTPUT_LIMIT)
    has_changed = other_event is not None and event.agent != other_event.agent
    return cut(f"{event.agent}: {text}", OUTPUT_LIMIT) if has_changed and event.agent and text else text


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
    """Build a metric whose value is known in both runs."""
    return Metric(name=name, baseline=before, candidate=now, delta=now - before)


START_UP_MS = 250.0
"""Latency of a case, in ms, below which a shift is noise: starting a process takes up to about as long."""
NAME_LIMIT = 100


def run_behaviour(
    baseline: RunView,
    candidate: RunView,
    compared: Sequence[str],
    differing: Differences,
    compatibility: Compatibility,
) -> RunBehaviour:
    """Summarize the behaviour over all compared cases, with a sentence for each change of how it was run."""
    before, now = _models(baseline, candidate, compared)
    shifts = [shift for name in FIGURES if (shift := _shift(name, baseline, candidate, compared))]
    model_changed = bool(before and now) and before != now
    notices = _failed_checks(compatibility, "execution_match", "case_policy_match", "trial_count_match")
    notices += [f"The model changed from {', '.join(before)} to {', '.join(now)}."] if model_changed else []
    notices += _failed_checks(compatibility, "judges_match", "judge_config_match")
    return RunBehaviour(
        cases_with_changed_calls=len(differing.calls),
        cases_with_changed_output=len(differing.output),
        baseline_models=before,
        candidate_models=now,
        model_changed=model_changed,
        shifts=shifts,
        notices=notices,
    )


def _failed_checks(compatibility: Compatibility, *names: str) -> list[str]:
    """Write a sentence for each named check that failed without stopping the comparison."""
    return [
        f"{failed.message[:1].upper()}{failed.message[1:]}."
        for failed in compatibility.failures
        if failed.name in names
    ]


def _models(baseline: RunView, candidate: RunView, compared: Sequence[str]) -> tuple[list[str], list[str]]:
    """List the models that the traces name; where a run's traces name none, those in both configurations.

    A name from a trace is never compared with a configured name: `gpt-4o` and `gpt-4o-2024-08-06` may be the
    same model.
    """
    before, now = _traced(baseline, compared), _traced(candidate, compared)
    if before and now:
        return before, now
    return _configured(baseline), _configured(candidate)


def _traced(run: RunView, compared: Sequence[str]) -> list[str]:
    models: set[str] = set()
    for case_id in compared:
        models.update(run.index[case_id]["models"])
    return sorted(cut(name, NAME_LIMIT) for name in models)[:MODELS_LIMIT]


def _configured(run: RunView) -> list[str]:
    return [] if run.config.model == "unknown" else [cut(run.config.model, NAME_LIMIT)]


def _shift(name: str, baseline: RunView, candidate: RunView, compared: Sequence[str]) -> Metric | None:
    """Add up a figure over the cases that have it in both runs; what it means the gate tests."""
    was: list[float] = []
    is_now: list[float] = []
    for case_id in compared:
        before, now = baseline.index[case_id].get(name), candidate.index[case_id].get(name)
        if before is not None and now is not None:
            # Row types are validated where packs are read; here the key is only known at run time.
            was.append(before)  # type: ignore[arg-type]
            is_now.append(now)  # type: ignore[arg-type]
    try:
        total_before, total_now = fsum(was), fsum(is_now)
    except OverflowError:
        return None
    return figure(name, total_before, total_now) if was and isfinite(total_now - total_before) else None


ABSENT = "(absent)"
"""Placeholder for a value that one run does not have."""
PLACES = 20
"""Maximum differing places that are listed for one call."""
VALUE_LIMIT = 200
"""Maximum characters of a value's text."""
DEPTH = 6
"""Number of levels below which two values are compared as a whole."""


def argument_diff(before: Any, now: Any) -> dict[str, tuple[Any, Any]]:
    """Map the JSON paths at which two values differ to both values there, cut to a bounded size."""
    differing: dict[str, tuple[Any, Any]] = {}
    for path, values in _differences(before, now, "$", DEPTH):
        if len(differing) == PLACES:
            break
        differing[path] = values
    return differing


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
    """Tell whether two JSON values are equal; `true` is not `1`, but `10.0` is `10`."""
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
