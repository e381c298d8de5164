"""Compare two runs of the same agent. Times, ids and the wording of reasons may differ."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from agent_eval.contracts import CaseResultRow, TrialResult, canonical_json
from agent_eval.contracts.replay import CaseMismatch, EnvironmentMismatch, ReplayedVerdict, TraceMismatch

EVENT_FIELDS = ("idx", "actor", "type", "tool", "input", "output", "error")
"""Fields of an event that must be equal. `ts`, `latency_ms`, call ids and attributes may differ."""

RESULT_FIELDS = tuple(name for name in TrialResult.model_fields if name not in ("verdicts", "score"))
"""Fields of a case's result that must be equal: all but the verdicts, which are compared judge by judge, and
the score, which follows from them and from today's weights of the judges."""

_MOST_CHARACTERS = 200


def case_mismatch(saved: CaseResultRow, replayed: CaseResultRow) -> CaseMismatch | None:
    """Describe how the verdicts on a case differ; None if they do not.

    Compares the outcome and the kind of failure of every judge in every trial, and every field of the case's
    result (`RESULT_FIELDS`) that both packs have.
    """
    judges = [
        ReplayedVerdict(trial=trial, judge_id=judge_id, saved=before, replayed=after)
        for trial, (first, second) in enumerate(zip(_trials(saved), _trials(replayed), strict=False))
        for judge_id, before, after in _judges(first, second)
    ]
    fields = [name for name in RESULT_FIELDS if _differs(name, saved, replayed)]
    if not fields and not judges and len(_trials(saved)) == len(_trials(replayed)):
        return None
    return CaseMismatch(
        case_id=saved["case_id"],
        saved_passed=saved["passed"],
        replayed_passed=replayed["passed"],
        saved_hard_failed=saved["hard_failed"],
        replayed_hard_failed=replayed["hard_failed"],
        judges=judges,
        fields=fields,
    )


def _differs(name: str, saved: Mapping[str, Any], replayed: Mapping[str, Any]) -> bool:
    # A pack of an older version may not have the field.
    return name in saved and name in replayed and saved[name] != replayed[name]


def trace_mismatch(saved: Mapping[str, Any], replayed: Mapping[str, Any]) -> TraceMismatch | None:
    """Describe how two trajectories of a case differ; None if they do not.

    Compares the events (`EVENT_FIELDS`) of every trial, the selected attempt, and the agent's answer in each
    attempt.
    """
    before, after = _recordings(saved), _recordings(replayed)
    for trial, (first, second) in enumerate(zip(before, after, strict=False)):
        difference = _difference(first, second)
        if difference:
            return _trace_mismatch(saved, trial, first, second, difference)
    if len(before) != len(after):
        trial = min(len(before), len(after))
        difference = f"has {len(before)} trials, now {len(after)}"
        return _trace_mismatch(saved, trial, before[-1], after[-1], difference)
    return None


def environment_mismatches(saved: Any, current: Any, place: str = "") -> Iterator[EnvironmentMismatch]:
    """Yield every difference between two pinned environments."""
    if isinstance(saved, dict | None) and isinstance(current, dict | None):
        before, now = saved or {}, current or {}
        for name in sorted(before.keys() | now.keys()):
            inner = f"{place}.{name}" if place else name
            yield from environment_mismatches(before.get(name), now.get(name), inner)
    elif saved != current:
        yield EnvironmentMismatch(field=place, saved=saved, current=current)


def _trials(row: CaseResultRow) -> Sequence[Mapping[str, Any]]:
    return row.get("trials") or [row]


def _judges(first: Mapping[str, Any], second: Mapping[str, Any]) -> Iterator[tuple[str, str, str]]:
    before, after = _outcomes(first), _outcomes(second)
    for judge_id in dict.fromkeys([*before, *after]):
        if before.get(judge_id) != after.get(judge_id):
            yield judge_id, before.get(judge_id, "absent"), after.get(judge_id, "absent")


def _outcomes(trial: Mapping[str, Any]) -> dict[str, str]:
    """Map each judge to its outcome, with the kind of failure."""
    return {
        verdict["judge_id"]: verdict["outcome"] + (f" ({verdict['failure']})" if verdict["failure"] else "")
        for verdict in trial["verdicts"]
    }


def _recordings(case: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """List the trials of a case; each has `trace` and `metadata`."""
    return [case, *(case.get("trials") or [])]


def _difference(first: Mapping[str, Any], second: Mapping[str, Any]) -> str:
    before, after = _events(first), _events(second)
    for number, (event, other) in enumerate(zip(before, after, strict=False)):
        for name in EVENT_FIELDS:
            if canonical_json(event.get(name)) != canonical_json(other.get(name)):
                return f"event {number}: {name} was {_short(event.get(name))}, now {_short(other.get(name))}"
    if len(before) != len(after):
        return f"had {len(before)} events, now {len(after)}"
    if _selected(first) != _selected(second):
        return f"attempt {_selected(first)} was selected, now {_selected(second)}"
    answers, answers_now = _answers(first), _answers(second)
    for number, (answer, answer_now) in enumerate(zip(answers, answers_now, strict=False)):
        if answer != answer_now:
            return f"attempt {number}: the agent answered {_short(answer)}, now {_short(answer_now)}"
    return f"took {len(answers)} attempts, now {len(answers_now)}" if len(answers) != len(answers_now) else ""


def _trace_mismatch(
    case: Mapping[str, Any],
    trial: int,
    first: Mapping[str, Any],
    second: Mapping[str, Any],
    difference: str,
) -> TraceMismatch:
    return TraceMismatch(
        case_id=case["case_id"],
        trial=trial,
        saved_selected_attempt=_selected(first),
        replayed_selected_attempt=_selected(second),
        saved_event_count=len(_events(first)),
        replayed_event_count=len(_events(second)),
        difference=difference,
    )


def _events(recording: Mapping[str, Any]) -> list[dict[str, Any]]:
    return list(recording.get("trace") or [])


def _selected(recording: Mapping[str, Any]) -> int | None:
    selected = (recording.get("metadata") or {}).get("selected_attempt")
    return selected if isinstance(selected, int) else None


def _answers(recording: Mapping[str, Any]) -> list[Any]:
    history = (recording.get("metadata") or {}).get("attempt_history")
    attempts = history if isinstance(history, list) else []
    return [attempt.get("response") if isinstance(attempt, dict) else None for attempt in attempts]


def _short(value: Any) -> str:
    text = canonical_json(value).decode()
    return text if len(text) <= _MOST_CHARACTERS else f"{text[: _MOST_CHARACTERS - 1]}…"
