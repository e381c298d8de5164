"""Runs of tau-bench, AgentDojo, promptfoo and Inspect; what each said of a run is a recorded verdict."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from typing_extensions import override

from agent_eval.importers import events as make
from agent_eval.importers.diagnostics import Diagnostics
from agent_eval.importers.events import EventFields, items, mapping, text, text_or_none, usage_in
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


Fields = Mapping[str, Any]


class RunFormat(Format):
    """A format of recorded runs: a conversation is a task, whose runs are its trials in their order.

    Runs of one task that have the same number are all kept, with a diagnostic.
    """

    @abstractmethod
    def runs(self, value: Fields, place: str, diagnostics: Diagnostics) -> Iterator[RecordedRun]:
        """Yield the runs that a record holds."""

    @override
    def read(self, parts: Sequence[Part], diagnostics: Diagnostics) -> Iterable[Conversation]:
        every = (run for part in parts for run in self.runs(mapping(part.payload), part.place, diagnostics))
        by_task: dict[str | int, list[RecordedRun]] = {}
        for position, run in enumerate(every):
            by_task.setdefault(position if run.task_id is None else run.task_id, []).append(run)
        for same in by_task.values():
            same.sort(key=lambda run: run.number if isinstance(run.number, int) else 0)
            first = same[0]
            numbers = [str(run.number) for run in same if run.number is not None]
            if len(set(numbers)) < len(numbers):
                reason = f"task {first.task_id} has trials of the same number; all are kept"
                diagnostics.note(first.place, "", reason)
            yield Conversation(
                first.events,
                id=first.task_id,
                input=first.input,
                expected_output=first.expected_output,
                metadata={name: value for name, value in first.about.items() if value not in (None, {})},
                case={"metadata": first.metadata} if first.metadata else {},
                trials=[run.events for run in same[1:]],
                trial_metadata=[run.metadata for run in same[1:]],
                records=[run.place for run in same],
            )


RECORDED_VERDICTS = "recorded_verdicts"
"""Key of the metadata of cases and trials: verdicts by name, with `passed`, `score`, `explanation`."""

_GRADES: Mapping[str, tuple[bool | None, float | None]] = {
    "C": (True, 1.0),
    "P": (None, 0.5),
    "I": (False, 0.0),
    "N": (False, 0.0),
}
"""Letters of Inspect: correct, partially correct, incorrect, no answer."""


def recorded(value: Any, explanation: Any = None) -> dict[str, Any] | None:
    """Return a recorded verdict; None for a value that is none.

    A boolean, a letter and the numbers 0 and 1 say whether the run passed; another number is only a score.

    Example:
        >>> recorded(True), recorded("I"), recorded(0.25)
        ({'passed': True, 'score': 1.0}, {'passed': False, 'score': 0.0}, {'passed': None, 'score': 0.25})
    """
    passed, score = _GRADES.get(value, (None, None)) if isinstance(value, str) else (None, None)
    if isinstance(value, int | float):
        score = float(value)
        passed = bool(value) if isinstance(value, bool) or value in (0, 1) else None
    if passed is None and score is None:
        return None
    verdict: dict[str, Any] = {"passed": passed, "score": score}
    if isinstance(explanation, str) and explanation:
        verdict["explanation"] = explanation
    return verdict


def as_metadata(verdicts: Mapping[str, dict[str, Any] | None]) -> dict[str, Any]:
    """Return the metadata of a case or a trial that holds these verdicts; empty without any."""
    known = make.not_null(verdicts)
    return {RECORDED_VERDICTS: known} if known else {}


_ENDED_BADLY = frozenset({"too_many_errors", "max_steps", "agent_error", "user_error", "timeout"})


class TauBench(RunFormat):
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
    def runs(self, value: Fields, place: str, diagnostics: Diagnostics) -> Iterator[RecordedRun]:
        if "traj" not in value:
            tasks = {text_or_none(mapping(task).get("id")): task for task in items(value.get("tasks"))}
            for number, simulation in enumerate(items(value.get("simulations")) or [value]):
                where = f"{place}#simulations[{number}]" if "simulations" in value else place
                yield _tau2_simulation(mapping(simulation), tasks, where, diagnostics)
            return
        events = MessageReader(place, diagnostics).events_of(value.get("traj"), "traj")
        mark_errors(events, "Error")
        info = mapping(value.get("info"))
        task, reward = mapping(info.get("task")), mapping(info.get("reward_info"))
        if text(info.get("error")):
            events.append(make.error_event(info["error"]))
        yield RecordedRun(
            task_id=text_or_none(value.get("task_id")),
            number=value.get("trial"),
            events=events,
            place=place,
            metadata=as_metadata({"reward": recorded(value.get("reward"))}),
            about={"task": task, "reward_info": reward, "user_cost": info.get("user_cost")},
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
        about={"task": tasks.get(task_id), **{name: run.get(name) for name in names}},
        input=mapping(tasks.get(task_id)).get("user_scenario"),
    )


class AgentDojo(RunFormat):
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
    def runs(self, value: Fields, place: str, diagnostics: Diagnostics) -> Iterator[RecordedRun]:
        events = MessageReader(place, diagnostics).events_of(value.get("messages"), "messages")
        if text(value.get("error")):
            events.append(make.error_event(value["error"]))
        attack, injection = text(value.get("attack_type")), text(value.get("injection_task_id"))
        is_attacked = injection is not None and attack not in (None, "none")
        verdicts = {"utility": recorded(value.get("utility"))}
        if is_attacked and isinstance(value.get("security"), bool):
            verdicts["security"] = recorded(not value["security"])
        metadata = as_metadata(verdicts)
        stated = mapping(value.get("injections")).values()
        if planted := [each for each in stated if isinstance(each, str) and each]:
            metadata["injections"] = planted
        names = [value.get("suite_name"), value.get("user_task_id")]
        names += [injection, attack] if is_attacked else []
        about = {"pipeline": text(value.get("pipeline_name")), "attack": attack}
        yield RecordedRun(
            task_id="/".join(str(name) for name in names if name),
            number=None,
            events=events,
            place=place,
            metadata=metadata,
            about={**about, "duration": value.get("duration")},
        )


class Promptfoo(RunFormat):
    """Reads results of promptfoo: a test with a prompt and a provider is a case, its repeats are trials."""

    name = "promptfoo"

    @override
    def detect(self, value: Any) -> Match | None:
        return Match(0.95, "results") if "evalId" in mapping(value) and _promptfoo_rows(value) else None

    @override
    def runs(self, value: Fields, place: str, diagnostics: Diagnostics) -> Iterator[RecordedRun]:
        rows = [mapping(row) for row in _promptfoo_rows(value)]
        sides = {(row.get("promptIdx"), _provider(row)) for row in rows}
        for number, row in enumerate(rows):
            yield _promptfoo_run(row, f"{place}#results[{number}]", diagnostics, is_alone=len(sides) < 2)


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
        events = reader.events_of(asked, "prompt")
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
        about={"vars": row.get("vars"), "provider": _provider(row)},
    )


# --- Inspect: `.json` documents and `.eval` archives; epochs are trials, scores are verdicts ---

_ATTACHMENT = "attachment://"


class Inspect(RunFormat):
    """Reads logs of Inspect: a document with all samples, or the members of an `.eval` archive."""

    name = "inspect"

    @override
    def detect(self, value: Any) -> Match | None:
        if isinstance(value, list):
            rows = [mapping(row) for row in value[:20]]
            is_table = bool(rows) and all(
                ({"id", "epoch", "input", "target"} <= set(row) and "messages" not in row)
                or {"scorer", "samples"} <= set(row)
                for row in rows
            )
            return Match(0.9, "table of an archive") if is_table else None
        if not isinstance(value, dict):
            return None
        if isinstance(value.get("eval"), dict) and ("plan" in value or "samples" in value):
            return Match(0.95, "log" if "samples" in value else "header")
        is_sample = {"id", "epoch", "input", "target", "messages"} <= set(value)
        return Match(0.95, "sample") if is_sample else None

    @override
    def prepare(self, record: Record, diagnostics: Diagnostics) -> tuple[Link, Any]:
        value = record.value
        if isinstance(value, list) or "samples" in value or "eval" in value:
            return ALONE, value
        archive = record.source.partition("!")[0]
        return Link(ids=(f"{archive}:{text_or_none(value.get('id'))}",)), value

    @override
    def runs(self, value: Fields, place: str, diagnostics: Diagnostics) -> Iterator[RecordedRun]:
        evaluation = mapping(value.get("eval"))
        names = ("task", "model", "run_id", "eval_id")
        about = {name: evaluation[name] for name in names if text(evaluation.get(name))}
        if "messages" in value:
            yield _sample_run(value, place, about, diagnostics)
        for number, sample in enumerate(items(value.get("samples"))):
            yield _sample_run(mapping(sample), f"{place}#samples[{number}]", about, diagnostics)
        if value.get("status") == "error":
            words = mapping(value.get("error")).get("message", value.get("error"))
            diagnostics.note(place, "status", f"is error: {words}"[:500])


def _sample_run(
    sample: Mapping[str, Any], place: str, about: dict[str, Any], diagnostics: Diagnostics
) -> RecordedRun:
    attachments = mapping(sample.get("attachments"))
    sample = _with_attachments({name: sample[name] for name in sample if name != "attachments"}, attachments)
    answers = _answers(sample)
    reader, events = MessageReader(place, diagnostics), list[EventFields]()
    for number, message in enumerate(map(mapping, items(sample.get("messages")))):
        plain = {name: value for name, value in message.items() if name != "model"}
        made = reader.events(plain, f"messages[{number}]")
        if message.get("role") == "assistant":
            made = made or [make.agent_message(None)]
            answer = _answer_of(message, answers)
            if answer is not None:
                answer["is_used"] = True
                made[-1] |= {name: value for name, value in answer["fields"].items() if name not in made[-1]}
        events += made
    ids = {str(message.get("id")) for message in map(mapping, items(sample.get("messages")))}
    events += [
        make.event("agent", "model_call", **answer["fields"])
        for answer in answers
        if not answer["is_used"] and text(answer["message"].get("id")) in ids
    ]
    if sample.get("error"):
        events.append(make.error_event(mapping(sample["error"]).get("message", sample["error"])))
    scores = mapping(sample.get("scores"))
    if not scores and isinstance(sample.get("score"), dict):
        scores = {"score": sample["score"]}
    verdicts = {
        name: recorded(mapping(score).get("value"), mapping(score).get("explanation"))
        for name, score in scores.items()
    }
    extra = {"sample_metadata": sample.get("metadata"), "limit": sample.get("limit")}
    target = sample.get("target")
    return RecordedRun(
        task_id=text_or_none(sample.get("id")),
        number=sample.get("epoch"),
        events=events,
        place=place,
        metadata=as_metadata(verdicts),
        about=about | {name: value for name, value in extra.items() if value},
        expected_output=None if target in ("", [], None) else target,
        input=sample["input"] if isinstance(sample.get("input"), str) else None,
    )


def _with_attachments(value: Any, attachments: Mapping[str, Any]) -> Any:
    """Put long texts back, which the log keeps apart, each once."""
    if isinstance(value, str) and value.startswith(_ATTACHMENT):
        return attachments.get(value.removeprefix(_ATTACHMENT), value)
    if not attachments or not isinstance(value, list | dict):
        return value
    if isinstance(value, list):
        return [_with_attachments(item, attachments) for item in value]
    return {name: _with_attachments(item, attachments) for name, item in value.items()}


def _answers(sample: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return what the log recorded of each request to a model: its message, and the fields of its event."""
    recorded_events = items(sample.get("events")) or items(mapping(sample.get("transcript")).get("events"))
    requests = [each for each in map(mapping, recorded_events) if each.get("event") == "model"]
    if not requests and isinstance(sample.get("output"), dict):
        requests = [{"output": sample["output"]}]
    answers = []
    for request in requests:
        output = mapping(request.get("output"))
        choice = mapping(next(iter(items(output.get("choices"))), None))
        seconds = output.get("time")
        fields = {
            "model": text(output.get("model")),
            "usage": usage_in(output.get("usage")),
            "stop_reason": text(choice.get("stop_reason")),
            "ts": make.timestamp_of(request.get("timestamp")),
            "latency_ms": seconds * 1000 if isinstance(seconds, int | float) else None,
        }
        message = mapping(choice.get("message"))
        answers.append({"message": message, "fields": make.not_null(fields), "is_used": False})
    return answers


def _answer_of(message: Mapping[str, Any], answers: Sequence[dict[str, Any]]) -> dict[str, Any] | None:
    """Find the request that a message answers: by its id, or in older logs by what it says."""
    identifier = text(message.get("id"))
    for answer in answers:
        if answer["is_used"]:
            continue
        stated = answer["message"]
        if identifier is not None and text(stated.get("id")) is not None:
            if stated["id"] == identifier:
                return answer
        elif all(stated.get(name) == message.get(name) for name in ("content", "tool_calls")):
            return answer
    return None
