"""Changes of the agent's behaviour, case by case and over the run, apart from its verdicts."""

from __future__ import annotations

from collections import Counter, defaultdict, deque
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from itertools import islice
from math import fsum, isfinite
from typing import Any, Literal, NamedTuple

from agent_eval.comparison.facts import RunView
from agent_eval.contracts import (
    BehaviourChange,
    CallChange,
    CallCount,
    Case,
    CaseIndexRow,
    Compatibility,
    Metric,
    RunBehaviour,
    Trace,
    canonical_json,
    digest,
)
from agent_eval.contracts.event import STOPPED_SHORT
from agent_eval.text.escape import cut

Traces = Callable[[str], tuple[Case, Case]]
"""Function from a case id to the case with its trace, in the baseline and in the candidate."""

FIGURES = ("input_tokens", "output_tokens", "cost_usd", "latency_ms")
MOVED = 0.10
"""Relative change from which a figure of a case is listed."""
START_UP_MS = 250.0
"""Latency of a case, in ms, below which a shift is noise: starting a process takes up to about as long."""
OUTPUT_LIMIT = 2_000
"""Maximum characters of a final output in a comparison."""
CALLS_LIMIT = 200
"""Maximum calls of a case that are listed; all of them are compared."""
STEPS_LIMIT = 2 * CALLS_LIMIT
COUNTS_LIMIT = 200
"""Maximum pairs of a tool and a kind of difference whose calls are counted; the most frequent count."""
MODELS_LIMIT = 10
NAME_LIMIT = 100
ABSENT = "(absent)"
"""Placeholder for a value that one run does not have."""
PLACES = 20
"""Maximum differing places that are listed for one call."""
VALUE_LIMIT = 200
"""Maximum characters of a value's text."""
DEPTH = 6
"""Number of levels below which two values are compared as a whole."""


def differences(baseline: RunView, candidate: RunView, compared: Sequence[str]) -> dict[str, list[str]]:
    """Find the ids of the compared cases, in order, whose `calls`, `models` or final `output` differ."""
    differing: dict[str, list[str]] = {"calls": [], "models": [], "output": []}
    for case_id in compared:
        before, now = baseline.index[case_id], candidate.index[case_id]
        differing["calls"].extend([case_id] * (before["calls"] != now["calls"]))
        differing["models"].extend([case_id] * _models_differ(before, now))
        differing["output"].extend([case_id] * (before["output_digest"] != now["output_digest"]))
    return differing


def _models_differ(before: CaseIndexRow, now: CaseIndexRow) -> bool:
    """Tell whether both traces name models, and different ones. An unknown model is no change."""
    return bool(before["models"] and now["models"]) and set(before["models"]) != set(now["models"])


def behaviour_change(
    before: CaseIndexRow, now: CaseIndexRow, cases: tuple[Case, Case] | None
) -> BehaviourChange:
    """Describe how the behaviour changed on one case; without `cases`, no outputs and differing arguments."""
    traces = None if cases is None else (cases[0].recorded, cases[1].recorded)
    output_changed = before["output_digest"] != now["output_digest"]
    calls = _call_changes(before, now, traces) if before["calls"] != now["calls"] else []
    differing = [change for change in calls if change.kind != "same"]
    # Listed in order; where there is no room for all, equal ones are dropped first.
    room = max(0, STEPS_LIMIT - len(differing))
    listed = []
    for change in calls:
        if change.kind != "same" or room > 0:
            listed.append(change)
            room -= change.kind == "same"
    # The most frequent first; those of arguments last, as they matter least.
    ranked = Counter((change.kind, change.tool) for change in differing).most_common()
    ranked.sort(key=lambda entry: entry[0][0] == "arguments")
    moved = []
    for name in FIGURES:
        was, is_now = before.get(name), now.get(name)
        if not isinstance(was, int | float) or not isinstance(is_now, int | float):
            continue
        if abs(is_now - was) >= MOVED * abs(was) and is_now != was:
            moved.append(figure(name, float(was), float(is_now)))
    return BehaviourChange(
        case_id=now["case_id"],
        baseline_calls=[tool for tool, _ in before["calls"][:CALLS_LIMIT]],
        candidate_calls=[tool for tool, _ in now["calls"][:CALLS_LIMIT]],
        baseline_call_count=len(before["calls"]),
        candidate_call_count=len(now["calls"]),
        calls=listed[:STEPS_LIMIT],
        call_counts=[
            CallCount(kind=kind, tool=tool, count=number)
            for (kind, tool), number in ranked[:COUNTS_LIMIT]
            if kind != "same"
        ],
        calls_changed=bool(differing),
        output_changed=output_changed,
        baseline_output=_output_of(traces[0], traces[1]) if traces and output_changed else None,
        candidate_output=_output_of(traces[1], traces[0]) if traces and output_changed else None,
        baseline_models=before["models"][:MODELS_LIMIT],
        candidate_models=now["models"][:MODELS_LIMIT],
        model_changed=_models_differ(before, now),
        metrics=moved,
    )


def _call_changes(
    before: CaseIndexRow, now: CaseIndexRow, traces: tuple[Trace, Trace] | None
) -> list[CallChange]:
    old, new = (_arguments(before, traces[0]), _arguments(now, traces[1])) if traces else (None, None)
    sides = [[(tool, mark) for tool, mark in row["calls"]] for row in (before, now)]
    # Arguments are compared up to the number of steps that are listed; beyond it, digests are enough.
    room = STEPS_LIMIT if old is not None and new is not None else 0
    changes = []
    for step in align(*sides):
        kind, differing = step.kind, None
        if kind == "arguments" and room and old and new:
            room -= 1
            differing = argument_diff(old[step.baseline or 0], new[step.candidate or 0])
            # Digests also differ for 10 and 10.0, which are equal.
            kind = "arguments" if differing else "same"
        changes.append(CallChange(kind=kind, tool=step.tool, arguments=differing or None))
    return changes


def _arguments(row: CaseIndexRow, trace: Trace) -> list[Any] | None:
    """Return the arguments of the calls in the index; None where trace and index disagree."""
    calls = [call for call in trace.calls if call.call is not None]
    if len(calls) != len(row["calls"]):
        calls = trace.calls
    if [call.tool for call in calls] != [tool for tool, _ in row["calls"]]:
        return None
    marks = (mark for _, mark in row["calls"])
    agree = all(digest(call.arguments).startswith(mark) for call, mark in zip(calls, marks, strict=True))
    return [call.arguments for call in calls] if agree else None


def _output_of(trace: Trace, other: Trace) -> str | None:
    """Return the final output as text, or why there is none; with its agent where that has changed."""
    event, other_event, output = trace.final_event, other.final_event, trace.final_output
    text = None
    if output is not None:
        text = cut(output if isinstance(output, str) else canonical_json(output).decode(), OUTPUT_LIMIT)
    elif event is not None and event.content_recorded is False:
        text = "(not recorded)"
    elif event is not None and event.stop is not None:
        finish, reason = event.stop
        text = cut(f"({STOPPED_SHORT[finish][1]}: {reason})", OUTPUT_LIMIT)
    if text and event is not None and other_event is not None and event.agent:
        return cut(f"{event.agent}: {text}", OUTPUT_LIMIT) if event.agent != other_event.agent else text
    return text


def figure(name: str, before: float, now: float) -> Metric:
    """Build a metric whose value is known in both runs."""
    return Metric(name=name, baseline=before, candidate=now, delta=now - before)


def run_behaviour(
    views: tuple[RunView, RunView],
    compared: Sequence[str],
    differing: Mapping[str, Sequence[str]],
    compatibility: Compatibility,
    notices: Iterable[str] = (),
) -> RunBehaviour:
    """Summarize the behaviour over all compared cases, with a sentence for each change of how it was run.

    A model's name from a trace is never compared with a configured name: `gpt-4o` and `gpt-4o-2024-08-06` may
    be the same model. Where the traces of one run name none, both configurations do.
    Conditions that failed without stopping the comparison are said, after the `notices`.
    """
    traced: list[set[str]] = [set(), set()]
    # Row types are validated where packs are read; here the key is only known at run time.
    figures: dict[str, list[Any]] = {name: [] for name in FIGURES}
    # In one pass: each row of a large run is built on access.
    for case_id in compared:
        rows: list[Any] = [run.index[case_id] for run in views]
        for models, row in zip(traced, rows, strict=True):
            models.update(row["models"])
        for name, known in figures.items():
            if None not in (pair := tuple(row.get(name) for row in rows)):
                known.append(pair)
    if not all(traced):
        traced = [{run.config.model} - {"unknown"} for run in views]
    before, now = (sorted(cut(name, NAME_LIMIT) for name in models)[:MODELS_LIMIT] for models in traced)
    failed = {each.name: f"{each.message[:1].upper()}{each.message[1:]}." for each in compatibility.failures}
    sentences = [failed.get(name) for name in ("execution_match", "case_policy_match", "trial_count_match")]
    model_changed = bool(before and now) and before != now
    sentences += [f"The model changed from {', '.join(before)} to {', '.join(now)}."] if model_changed else []
    sentences += [failed.get(name) for name in ("judges_match", "judge_config_match")]
    # Sums over the cases that have a figure in both runs; what they mean the gate tests.
    shifts = []
    for name, known in figures.items():
        try:
            was, is_now = (fsum(row[side] for row in known) for side in (0, 1))
        except OverflowError:
            continue
        if known and isfinite(is_now - was):
            shifts.append(figure(name, was, is_now))
    return RunBehaviour(
        cases_with_changed_calls=len(differing["calls"]),
        cases_with_changed_output=len(differing["output"]),
        baseline_models=before,
        candidate_models=now,
        model_changed=model_changed,
        shifts=shifts,
        notices=[*notices, *filter(None, sentences)],
    )


def argument_diff(before: Any, now: Any) -> dict[str, tuple[Any, Any]]:
    """Map the JSON paths at which two values differ to both values there, cut to a bounded size."""
    return dict(islice(_differences(before, now, "$", DEPTH), PLACES))


def _differences(before: Any, now: Any, path: str, depth: int) -> Iterator[tuple[str, tuple[Any, Any]]]:
    if depth and isinstance(before, dict) and isinstance(now, dict):
        for key in sorted(before.keys() | now.keys()):
            pair = before.get(key, ABSENT), now.get(key, ABSENT)
            yield from _differences(*pair, f"{path}.{cut(key, VALUE_LIMIT)}", depth - 1)
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
    text = canonical_json(value).decode() if isinstance(value, dict | list) else value
    return cut(text, VALUE_LIMIT) if isinstance(text, str) else text


Call = tuple[str, str]
"""Tool and digest of the arguments."""

MOST_CELLS = 250_000
"""Pairs of alike items up to which lists are aligned; of more, each is paired with what is at its place."""

_COMPARED = ("actor", "type", "agent_name", "tool", "input", "output", "parts", "error", "stop_reason")
"""Fields that say what happened; ids, times and tokens differ in every run."""


@dataclass(frozen=True, slots=True)
class Step:
    """A step, with the positions of the call in both lists; None where a list has no such call."""

    kind: Literal["same", "added", "removed", "moved", "arguments"]
    tool: str
    baseline: int | None
    candidate: int | None


class EventChange(NamedTuple):
    """One event, and whether both trajectories have it."""

    change: Literal["same", "removed", "added"]
    event: Mapping[str, Any]


def align(baseline: Sequence[Call], candidate: Sequence[Call]) -> list[Step]:
    """List the steps from calls to others: equal calls are aligned first, then between them those of a tool.

    A call that is not aligned although the other list has it too, with the same arguments, has `moved`; its
    step is at its new place. The steps that are not `removed` are the candidate's calls in order; the steps
    that are not `added` are the baseline's calls, in order but for those that moved.
    """
    ends = len(baseline), len(candidate)
    partner: dict[int, int] = {}
    here = there = 0
    for before, now in [*_equal(baseline, candidate), ends]:
        if here < before and there < now:
            tools = [[tool for tool, _ in side] for side in (baseline[here:before], candidate[there:now])]
            partner |= {there + second: here + first for first, second in _between(*tools)}
        partner[now] = before
        here, there = before + 1, now + 1
    alone: defaultdict[Call, deque[int]] = defaultdict(deque)
    for place in sorted(set(range(len(baseline))).difference(partner.values())):
        alone[baseline[place]].append(place)
    moved = {
        now: alone[call].popleft()
        for now, call in enumerate(candidate)
        if now not in partner and alone.get(call)
    }
    stay = set(range(len(baseline))).difference(moved.values())
    steps: list[Step] = []
    position = 0
    for now, call in enumerate([*candidate, ("", "")]):
        if now not in partner:
            steps.append(Step("moved" if now in moved else "added", call[0], moved.get(now), now))
            continue
        before = partner[now]
        removed = (place for place in range(position, before) if place in stay)
        steps += [Step("removed", baseline[place][0], place, None) for place in removed]
        if now < len(candidate):
            steps.append(Step("same" if baseline[before] == call else "arguments", call[0], before, now))
        position = before + 1
    return steps


def diff_events(
    baseline: Sequence[Mapping[str, Any]], candidate: Sequence[Mapping[str, Any]]
) -> list[EventChange]:
    """Align the events of two trajectories as plain JSON; removed ones come before what is in their place."""
    keys = [
        [
            canonical_json({name: event[name] for name in _COMPARED if event.get(name) is not None})
            for event in side
        ]
        for side in (baseline, candidate)
    ]
    changes: list[EventChange] = []
    here = there = 0
    for before, now in [*_equal(*keys), (len(baseline), len(candidate))]:
        changes += [EventChange("removed", event) for event in baseline[here:before]]
        changes += [EventChange("added", event) for event in candidate[there:now]]
        changes += [EventChange("same", event) for event in candidate[now : now + 1]]
        here, there = before + 1, now + 1
    return changes


def _equal(before: Sequence[Hashable], now: Sequence[Hashable]) -> list[tuple[int, int]]:
    """Pair what is equal in both lists, ascending: first what they begin and end with."""
    start, end = shared_ends(before, now)
    inner = _between(before[start : len(before) - end], now[start : len(now) - end])
    pairs = [(k, k) for k in range(start)] + [(start + first, start + second) for first, second in inner]
    return pairs + [(len(before) - k, len(now) - k) for k in range(end, 0, -1)]


def shared_ends(before: Sequence[Hashable], now: Sequence[Hashable]) -> tuple[int, int]:
    """Count the items that two lists have in common at their beginning, and of the rest at their end."""
    shorter = min(len(before), len(now))
    start = next((k for k in range(shorter) if before[k] != now[k]), shorter)
    end = next((k for k in range(shorter - start) if before[-1 - k] != now[-1 - k]), shorter - start)
    return start, end


def _between(before: Sequence[Hashable], now: Sequence[Hashable]) -> list[tuple[int, int]]:
    """Pair what is equal; where that would take long, only what is at the same place."""
    counts = Counter(before), Counter(now)
    if sum(number * counts[1][item] for item, number in counts[0].items()) > MOST_CELLS:
        pairs = enumerate(zip(before, now, strict=False))
        return [(place, place) for place, (old, new) in pairs if old == new]
    blocks = SequenceMatcher(None, before, now, autojunk=False).get_matching_blocks()
    return [(block.a + k, block.b + k) for block in blocks for k in range(block.size)]
