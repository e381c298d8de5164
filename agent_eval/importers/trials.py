"""Runs of one task become trials of one case, each with its verdicts: what a benchmark said of it.

The judge `recorded` passes where all of these did, so that a suite can be compared by the verdicts that it
came with.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from agent_eval.importers.diagnostics import Diagnostics
from agent_eval.importers.events import EventFields
from agent_eval.importers.format import Conversation


@dataclass(slots=True)
class RecordedRun:
    """One run of a task.

    Attributes:
        task_id: None if the source does not say it: then the run is a case of its own.
        events: Made by `events.py`.
        place: Where the run is recorded, for diagnostics.
        metadata: What belongs to this trial, such as its verdicts; a key of a case's metadata.
        about: What belongs to the task, or explains the run; kept under `metadata.imported`.
        expected_output: What the source says is the right answer.
        input: What the task is, where no message says it.
    """

    task_id: str | None
    number: Any
    events: list[EventFields]
    place: str
    metadata: dict[str, Any] = field(default_factory=dict)
    about: dict[str, Any] = field(default_factory=dict)
    expected_output: Any = None
    input: Any = None


def conversations_of(runs: Iterable[RecordedRun], diagnostics: Diagnostics) -> list[Conversation]:
    """Make a conversation of each task, whose runs are its trials, in the order of their numbers.

    Runs of one task that have the same number are all kept, with a diagnostic.
    """
    by_task: dict[str | int, list[RecordedRun]] = {}
    for position, run in enumerate(runs):
        by_task.setdefault(position if run.task_id is None else run.task_id, []).append(run)
    return [
        _conversation(
            sorted(same, key=lambda run: run.number if isinstance(run.number, int) else 0), diagnostics
        )
        for same in by_task.values()
    ]


def _conversation(runs: list[RecordedRun], diagnostics: Diagnostics) -> Conversation:
    first = runs[0]
    numbers = [run.number for run in runs if run.number is not None]
    if len(set(map(str, numbers))) < len(numbers):
        diagnostics.note(first.place, "", f"task {first.task_id} has trials of the same number; all are kept")
    return Conversation(
        first.events,
        id=first.task_id,
        input=first.input,
        expected_output=first.expected_output,
        metadata={name: value for name, value in first.about.items() if value is not None},
        case={"metadata": first.metadata} if first.metadata else {},
        trials=[run.events for run in runs[1:]],
        trial_metadata=[run.metadata for run in runs[1:]],
        records=[run.place for run in runs],
    )


RECORDED_VERDICTS = "recorded_verdicts"
"""Key of the metadata of cases and trials: verdicts by name, with `passed`, `score`, `explanation`."""

_PASSED = {"C": (True, 1.0), "P": (None, 0.5), "I": (False, 0.0), "N": (False, 0.0)}
"""Letters of Inspect: correct, partially correct, incorrect, no answer."""


def recorded(value: Any, explanation: Any = None) -> dict[str, Any] | None:
    """Return a recorded verdict; None for a value that is none.

    A boolean, a letter and the numbers 0 and 1 say whether the run passed; another number is only a score.

    Example:
        >>> recorded(True), recorded("I"), recorded(0.25)
        ({'passed': True, 'score': 1.0}, {'passed': False, 'score': 0.0}, {'passed': None, 'score': 0.25})
    """
    passed, score = _read(value)
    if passed is None and score is None:
        return None
    verdict: dict[str, Any] = {"passed": passed, "score": score}
    if isinstance(explanation, str) and explanation:
        verdict["explanation"] = explanation
    return verdict


def _read(value: Any) -> tuple[bool | None, float | None]:
    if isinstance(value, bool):
        return value, float(value)
    if isinstance(value, int | float):
        return (bool(value) if value in (0, 1) else None), float(value)
    return _PASSED.get(value, (None, None)) if isinstance(value, str) else (None, None)


def as_metadata(verdicts: Mapping[str, dict[str, Any] | None]) -> dict[str, Any]:
    """Return the metadata of a case or a trial that holds these verdicts; empty without any."""
    known = {name: verdict for name, verdict in verdicts.items() if verdict is not None}
    return {RECORDED_VERDICTS: known} if known else {}
