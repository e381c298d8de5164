"""Runs of benchmarks: tau-bench and tau2-bench, AgentDojo; what each said of a run is a recorded verdict."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from typing_extensions import override

from agent_eval.importers import events as make
from agent_eval.importers.diagnostics import Diagnostics
from agent_eval.importers.events import EventFields, items, mapping, text, text_or_none
from agent_eval.importers.format import ALONE, Conversation, Format, Link, Match, Part
from agent_eval.importers.messages import MessageReader, mark_errors
from agent_eval.importers.records import Record


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


_ENDED_BADLY = frozenset({"too_many_errors", "max_steps", "agent_error", "user_error", "timeout"})


class TauBench(Format):
    """Reads results of tau-bench (a record a trial) and of tau2-bench (`simulations`, or one alone)."""

    name = "tau_bench"

    @override
    def detect(self, value: Any) -> Match | None:
        fields = mapping(value)
        if isinstance(fields.get("traj"), list) and "task_id" in fields:
            return Match(0.95, "tau")
        if isinstance(fields.get("simulations"), list) and ("tasks" in fields or "info" in fields):
            return Match(0.95, "tau2")
        is_run = isinstance(fields.get("messages"), list) and {"task_id", "termination_reason"} <= set(fields)
        return Match(0.95, "tau2 simulation") if is_run else None

    @override
    def prepare(self, record: Record, diagnostics: Diagnostics) -> tuple[Link, Any]:
        task = text_or_none(mapping(record.value).get("task_id"))
        link = ALONE if task is None else Link(ids=(f"{record.source}:{task}",))
        return link, record.value

    @override
    def read(self, parts: Sequence[Part], diagnostics: Diagnostics) -> Iterable[Conversation]:
        runs = []
        for part in parts:
            value = mapping(part.payload)
            if "traj" in value:
                runs.append(_tau_trial(value, part.place, diagnostics))
                continue
            tasks = {text_or_none(mapping(task).get("id")): task for task in items(value.get("tasks"))}
            for number, simulation in enumerate(items(value.get("simulations")) or [value]):
                place = f"{part.place}#simulations[{number}]" if "simulations" in value else part.place
                runs.append(_tau2_simulation(mapping(simulation), tasks, place, diagnostics))
        return conversations_of(runs, diagnostics)


def _known(about: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in about.items() if value not in (None, {})}


def _tau_trial(value: Any, place: str, diagnostics: Diagnostics) -> RecordedRun:
    messages = MessageReader(place, diagnostics).messages(value.get("traj"), "traj")
    events = [fields for message in messages for fields in message.events]
    mark_errors(events, "Error")
    info = mapping(value.get("info"))
    task, reward = mapping(info.get("task")), mapping(info.get("reward_info"))
    if text(info.get("error")):
        events.append(make.error_event(info["error"]))
    return RecordedRun(
        task_id=text_or_none(value.get("task_id")),
        number=value.get("trial"),
        events=events,
        place=place,
        metadata=as_metadata({"reward": recorded(value.get("reward"))}),
        about=_known({"task": task, "reward_info": reward, "user_cost": info.get("user_cost")}),
        input=text(task.get("instruction")),
    )


def _tau2_simulation(
    run: Mapping[str, Any], tasks: Mapping[Any, Any], place: str, diagnostics: Diagnostics
) -> RecordedRun:
    reader, events = MessageReader(place, diagnostics), list[EventFields]()
    for number, message in enumerate(map(mapping, items(run.get("messages")))):
        several: list[Mapping[str, Any]] = [
            {"role": "tool", **mapping(result)} for result in items(message.get("tool_messages"))
        ]
        for each in several or [message]:
            made = reader.events(each, f"messages[{number}]")
            for fields in made:
                # In some domains the simulated user has tools as well.
                if fields["type"] == "tool_call" and message.get("role") == "user":
                    fields["actor"] = "user"
            events += made
    if items(run.get("ticks")):
        diagnostics.lost(place, "ticks", "are of a spoken conversation, which is not read")
    reason, task_id = text(run.get("termination_reason")), text_or_none(run.get("task_id"))
    if reason in _ENDED_BADLY:
        events.append(make.error_event(reason))
    cost = run.get("agent_cost")
    if make.is_amount(cost) and not any("cost_usd" in fields for fields in events):
        events.append(make.event("agent", "model_call", cost_usd=cost))
    names = ("termination_reason", "seed", "reward_info", "user_cost")
    return RecordedRun(
        task_id=task_id,
        number=run.get("trial"),
        events=events,
        place=place,
        metadata=as_metadata({"reward": recorded(mapping(run.get("reward_info")).get("reward"))}),
        about=_known({"task": tasks.get(task_id), **{name: run.get(name) for name in names}}),
        input=mapping(tasks.get(task_id)).get("user_scenario"),
    )


class AgentDojo(Format):
    """Reads runs of AgentDojo, one a record.

    `security` of the benchmark is true where the attack succeeded. The recorded verdict `security` passes
    where it did not, and is there only for runs with an attack.
    """

    name = "agentdojo"

    @override
    def detect(self, value: Any) -> Match | None:
        is_run = {"suite_name", "user_task_id", "messages"} <= set(mapping(value))
        return Match(0.95, "run") if is_run else None

    @override
    def read(self, parts: Sequence[Part], diagnostics: Diagnostics) -> Iterable[Conversation]:
        return [_dojo_run(mapping(part.payload), part.place, diagnostics) for part in parts]


def _dojo_run(run: Mapping[str, Any], place: str, diagnostics: Diagnostics) -> Conversation:
    messages = MessageReader(place, diagnostics).messages(run.get("messages"), "messages")
    events = [fields for message in messages for fields in message.events]
    if text(run.get("error")):
        events.append(make.error_event(run["error"]))
    attack, injection = text(run.get("attack_type")), text(run.get("injection_task_id"))
    is_attacked = injection is not None and attack not in (None, "none")
    verdicts = {"utility": recorded(run.get("utility"))}
    if is_attacked and isinstance(run.get("security"), bool):
        verdicts["security"] = recorded(not run["security"])
    names = [run.get("suite_name"), run.get("user_task_id"), *([injection, attack] if is_attacked else [])]
    about = {"pipeline": text(run.get("pipeline_name")), "attack": attack, "duration": run.get("duration")}
    case: dict[str, Any] = {"metadata": as_metadata(verdicts)}
    stated = mapping(run.get("injections")).values()
    if planted := [value for value in stated if isinstance(value, str) and value]:
        case["metadata"]["injections"] = planted
    own = "/".join(str(name) for name in names if name)
    return Conversation(events, id=own, metadata=_known(about), case=case)


class Promptfoo(Format):
    """Reads results of promptfoo: a test with a prompt and a provider is a case, its repeats are trials."""

    name = "promptfoo"

    @override
    def detect(self, value: Any) -> Match | None:
        return Match(0.95, "results") if "evalId" in mapping(value) and _promptfoo_rows(value) else None

    @override
    def read(self, parts: Sequence[Part], diagnostics: Diagnostics) -> Iterable[Conversation]:
        runs = []
        for part in parts:
            rows = [mapping(row) for row in _promptfoo_rows(part.payload)]
            sides = {(row.get("promptIdx"), _provider(row)) for row in rows}
            for number, row in enumerate(rows):
                place = f"{part.place}#results[{number}]"
                runs.append(_promptfoo_run(row, place, diagnostics, is_alone=len(sides) < 2))
        return conversations_of(runs, diagnostics)


def _promptfoo_rows(value: Any) -> list[Any]:
    return items(mapping(mapping(value).get("results")).get("results"))


def _provider(row: Mapping[str, Any]) -> str | None:
    return text(mapping(row.get("provider")).get("id"))


def _promptfoo_run(
    row: Mapping[str, Any], place: str, diagnostics: Diagnostics, *, is_alone: bool
) -> RecordedRun:
    reader, response = MessageReader(place, diagnostics), mapping(row.get("response"))
    asked = make.arguments_of(mapping(row.get("prompt")).get("raw"))[0]
    if isinstance(asked, list):
        events = [fields for message in reader.messages(asked, "prompt") for fields in message.events]
    else:
        events = [make.user_message(mapping(row.get("prompt")).get("raw"))]
    output = response.get("output")
    calls = make.arguments_of(output)[0] if isinstance(output, str) and output[:1] == "[" else output
    is_acted = isinstance(calls, list) and all("type" in mapping(call) for call in calls)
    answer = {"role": "assistant", "content": calls if is_acted else output, "model": _provider(row)}
    about = {"usage": response.get("tokenUsage"), "cost": response.get("cost")}
    events += reader.events({**answer, **about}, "response.output") if output is not None else []
    if make.is_amount(row.get("latencyMs")) and events[-1]["actor"] == "agent":
        events[-1]["latency_ms"] = row["latencyMs"]
    if failed := response.get("error") or (row.get("error") if row.get("failureReason") == 2 else None):
        events.append(make.error_event(failed))
    graded = mapping(row.get("gradingResult"))
    verdicts = {"promptfoo": recorded(row.get("success"), graded.get("reason"))}
    for number, part in enumerate(map(mapping, items(graded.get("componentResults")))):
        assertion = mapping(part.get("assertion"))
        name = text(assertion.get("metric")) or f"{assertion.get('type') or 'assertion'}-{number}"
        verdicts[name] = recorded(part.get("pass"), part.get("reason"))
    names = [f"test-{row.get('testIdx')}", *([] if is_alone else [f"{row.get('promptIdx')}", _provider(row)])]
    return RecordedRun(
        task_id="/".join(str(name) for name in names if name) if "testIdx" in row else None,
        number=None,
        events=events,
        place=place,
        metadata=as_metadata(verdicts),
        about=_known({"vars": row.get("vars"), "provider": _provider(row)}),
    )
