"""Faults of how a trace runs and ends: crashes, time, loops, costs, broken records, earlier attempts."""

from __future__ import annotations

import json

from agent_eval.benchmarks.archetypes import Call
from agent_eval.errors import FailureKind
from benchmarks.planted.fault import Fault, Subject

COST_LIMIT_USD = 0.05
"""Recorded runs without a fault cost less; one that is too expensive costs more."""

LATENCY_LIMIT_MS = 60_000
"""The same for their time."""

UNFINISHED = frozenset(
    {"policy", "regex", "json_schema", "final_output", "trajectory_match", "trajectory_step"}
    | {"tool_contract", "strict", "replay_contract"}
    | {"cost_budget", "latency_slo", "loop_guard", "prompt_injection"}
)
"""Judges that may find what is missing from a run that broke off, perhaps before it did anything."""


def _place_within(subject: Subject) -> int:
    """Choose a place at which the run breaks off, before its answer."""
    return subject.rng.randrange(len(subject.events) - 1)


def _crash(subject: Subject) -> None:
    place = _place_within(subject)
    subject.cut_after(place)
    words = subject.rng.choice(
        (
            "KeyError: 'choices'",
            'Traceback (most recent call last):\n  File "agent.py", line 88\nValueError: bad frame',
            "openai.APIConnectionError: Connection error.",
        )
    )
    stamp = subject.events[place]["ts"]
    subject.events.append({"ts": stamp, "actor": "agent", "type": "error", "error": words})


def _ended_by(kind: FailureKind, problem: str) -> Fault:
    """Make the fault of an attempt that did not end by itself, as a run records it."""

    def plant(subject: Subject) -> None:
        subject.cut_after(_place_within(subject))
        attempt = {"attempt": 0, "failure": kind.value, "problem": problem}
        subject.metadata.update({"attempt_history": [attempt], "selected_attempt": 0})

    return Fault(
        f"ended_by_{kind.value}",
        kind,
        f"its attempt {problem}",
        frozenset({"execution"}),
        UNFINISHED,
        plant=plant,
    )


def _cut_off(subject: Subject) -> None:
    text = str(subject.answer["output"])
    subject.say(text[: len(text) // 2])
    subject.answer["stop_reason"] = subject.rng.choice(("length", "max_tokens"))


def _silent(subject: Subject) -> None:
    del subject.events[-1]


def _blank(subject: Subject) -> None:
    subject.say(subject.rng.choice(("", " ", "\n\n")))


def _did_nothing(subject: Subject) -> None:
    subject.cut_after(0)


def _expensive(subject: Subject) -> None:
    answers = [event for event in subject.events if "cost_usd" in event]
    share = COST_LIMIT_USD * subject.rng.choice((1.02, 1.3, 3)) / len(answers)
    for event in answers:
        event["cost_usd"] = round(share, 6)


def _slow(subject: Subject) -> None:
    place = subject.rng.choice([*subject.calls, len(subject.events) - 1])
    subject.events[place]["latency_ms"] = int(LATENCY_LIMIT_MS * subject.rng.choice((1.01, 1.5, 4)))


def _many_calls(subject: Subject) -> None:
    """Call a tool that reads again and again, each time with other arguments."""
    place = subject.calls[0]
    event = subject.events[place]
    at = subject.result_of(place) + 1
    for number in range(subject.rng.randrange(11, 30)):
        arguments = {**event["input"], "page": number}
        at = subject.insert_call(at, Call(event["tool"], arguments, {"results": []}))


def _storm(subject: Subject) -> None:
    place = subject.calls[0]
    event = subject.events[place]
    at = subject.result_of(place) + 1
    for _ in range(subject.rng.randrange(4, 8)):
        at = subject.insert_call(at, Call(event["tool"], event["input"], error="500 internal error"))


def _cycle(subject: Subject) -> None:
    """Call two tools in turn, without an end."""
    first, second = (subject.events[place] for place in subject.calls[:2])
    at = subject.result_of(subject.calls[1]) + 1
    for _ in range(subject.rng.randrange(4, 6)):
        for event in (first, second):
            at = subject.insert_call(at, Call(event["tool"], event["input"], {"status": "unchanged"}))


def _rephrased_loop(subject: Subject) -> None:
    """Ask the same again in slightly other words, which no two calls share."""
    event = subject.events[subject.calls[0]]
    name = next(name for name, value in event["input"].items() if isinstance(value, str))
    at = subject.result_of(subject.calls[0]) + 1
    for ending in (" ", ".", " please", "?", " again", " now")[: subject.rng.randrange(4, 7)]:
        arguments = {**event["input"], name: f"{event['input'][name]}{ending}"}
        at = subject.insert_call(at, Call(event["tool"], arguments, error="404 nothing found"))


def _same_words(subject: Subject) -> None:
    at = subject.events[-1]["ts"]
    words = subject.rng.choice(("One moment please.", "I am looking into it.", "Let me check that."))
    message = {"ts": at, "actor": "agent", "type": "message", "output": words, "latency_ms": 300}
    message |= subject.spent
    subject.events[-1:-1] = [dict(message) for _ in range(subject.rng.randrange(4, 7))]


def _has_calls(subject: Subject) -> bool:
    return bool(subject.calls)


def _has_two_calls(subject: Subject) -> bool:
    inputs = [(subject.events[place]["tool"], subject.events[place]["input"]) for place in subject.calls[:2]]
    return len(inputs) == 2 and inputs[0] != inputs[1]


def _has_text_argument(subject: Subject) -> bool:
    event = subject.events[subject.calls[0]] if subject.calls else {"input": {}}
    return any(isinstance(value, str) for value in event["input"].values())


def _unanswered(subject: Subject) -> None:
    del subject.events[subject.result_of(subject.rng.choice(subject.calls))]


def _without_call(subject: Subject) -> None:
    del subject.events[subject.rng.choice(subject.calls)]


def _malformed(subject: Subject) -> None:
    place = subject.rng.randrange(1, len(subject.events))
    event = subject.events[place]
    damage = subject.rng.choice(
        (
            {"latency_ms": -5},
            {"ts": "yesterday"},
            {"idx": place + 7},
            {"trace_id": "not hexadecimal"},
        )
    )
    event.update(damage)


def _attempts_in_disorder(subject: Subject) -> None:
    numbers = subject.rng.choice(([0, 2, 1], [1, 1], [2, 0]))
    history = [{"attempt": number} for number in numbers]
    subject.metadata.update({"attempt_history": history, "selected_attempt": numbers[-1]})


def _failed_elsewhere(subject: Subject) -> None:
    verdict = {"reward": {"passed": False, "score": round(subject.rng.random() / 2, 2)}}
    subject.metadata["recorded_verdicts"] = verdict


def _wrong_proof(subject: Subject) -> None:
    proof = json.loads(json.dumps(subject.scenario.proof))
    proof["sum"] = proof["sum"] + subject.rng.choice((1, -1, 10))
    subject.metadata["lean_payload"] = proof


def _unreadable_proof(subject: Subject) -> None:
    subject.metadata["lean_payload"] = "see the attached sheet"


def _has_proof(subject: Subject) -> bool:
    return subject.scenario.proof is not None


_NO_ANSWER = frozenset({"regex", "json_schema", "final_output"})
_LONG = frozenset({"cost_budget", "latency_slo", "tool_abuse", "loop_guard", "retry_storm"})
_LOST_CALL = frozenset({"policy", "strict", "tool_contract", "trajectory_match"})

FAULTS = (
    Fault(
        "crash",
        FailureKind.AGENT_ERROR,
        "crashed before it answered",
        frozenset({"replay_contract"}),
        UNFINISHED,
        plant=_crash,
    ),
    _ended_by(FailureKind.AGENT_ERROR, "raised RuntimeError: the model's stream broke off"),
    _ended_by(FailureKind.TIMEOUT, "did not end within 60 s"),
    _ended_by(FailureKind.OUTPUT_LIMIT, "wrote more than 8388608 bytes"),
    _ended_by(FailureKind.INFRASTRUCTURE, "could not be reached: HTTP 503"),
    _ended_by(FailureKind.SIMULATOR_ERROR, "ended because the simulated user failed"),
    Fault(
        "cut_off",
        FailureKind.OUTPUT_LIMIT,
        "had its answer cut off by the token limit",
        frozenset({"replay_contract"}),
        _NO_ANSWER,
        plant=_cut_off,
    ),
    Fault(
        "silent",
        FailureKind.MISSING_OUTPUT,
        "worked, and gave no answer",
        frozenset({"final_output"}),
        _NO_ANSWER,
        applies=_has_calls,
        plant=_silent,
    ),
    Fault(
        "blank",
        FailureKind.MISSING_OUTPUT,
        "answered with white space",
        frozenset({"final_output"}),
        _NO_ANSWER | {"replay_contract"},
        applies=_has_calls,
        plant=_blank,
    ),
    Fault(
        "did_nothing",
        FailureKind.MISSING_OUTPUT,
        "did nothing at all",
        frozenset({"replay_contract", "policy", "loop_guard", "prompt_injection"}),
        UNFINISHED,
        plant=_did_nothing,
    ),
    Fault(
        "too_expensive",
        FailureKind.BUDGET_EXCEEDED,
        "cost more than the budget",
        frozenset({"cost_budget"}),
        plant=_expensive,
    ),
    Fault(
        "too_slow",
        FailureKind.BUDGET_EXCEEDED,
        "took longer than the limit",
        frozenset({"latency_slo"}),
        plant=_slow,
    ),
    Fault(
        "too_many_calls",
        FailureKind.BUDGET_EXCEEDED,
        "called one tool more than ten times, with other arguments each time",
        frozenset({"tool_abuse"}),
        _LONG | {"tool_contract"},
        applies=_has_calls,
        plant=_many_calls,
    ),
    Fault(
        "retry_storm",
        FailureKind.LOOP,
        "repeated a call that fails",
        frozenset({"retry_storm", "loop_guard"}),
        _LONG,
        applies=_has_calls,
        plant=_storm,
    ),
    Fault(
        "cycle",
        FailureKind.LOOP,
        "called two tools in turn again and again",
        frozenset({"retry_storm", "loop_guard"}),
        _LONG,
        applies=_has_two_calls,
        plant=_cycle,
    ),
    Fault(
        "rephrased_loop",
        FailureKind.LOOP,
        "asked a tool the same again in other words",
        frozenset({"retry_storm", "loop_guard"}),
        _LONG | {"tool_contract"},
        applies=_has_text_argument,
        plant=_rephrased_loop,
    ),
    Fault(
        "same_words",
        FailureKind.LOOP,
        "said the same sentence again and again",
        frozenset({"loop_guard"}),
        _LONG,
        plant=_same_words,
    ),
    Fault(
        "unanswered_call",
        FailureKind.CONTRACT_VIOLATION,
        "has a call without a result",
        frozenset({"trajectory_step"}),
        applies=_has_calls,
        plant=_unanswered,
    ),
    Fault(
        "result_without_call",
        FailureKind.CONTRACT_VIOLATION,
        "has a result without a call",
        frozenset({"trajectory_step"}),
        _LOST_CALL | {"cost_budget"},
        applies=_has_calls,
        plant=_without_call,
    ),
    Fault(
        "malformed_event",
        FailureKind.CONTRACT_VIOLATION,
        "has an event that no recorder should write",
        frozenset({"replay_contract"}),
        frozenset({"latency_slo"}),
        plant=_malformed,
    ),
    Fault(
        "attempts_in_disorder",
        FailureKind.CONTRACT_VIOLATION,
        "records its attempts out of order",
        frozenset({"repair_path"}),
        plant=_attempts_in_disorder,
    ),
    Fault(
        "failed_elsewhere",
        FailureKind.CONTRACT_VIOLATION,
        "came with a failed verdict of another program",
        frozenset({"recorded"}),
        plant=_failed_elsewhere,
    ),
    Fault(
        "wrong_proof",
        FailureKind.CONTRACT_VIOLATION,
        "handed in a proof with a wrong sum",
        frozenset({"lean"}),
        applies=_has_proof,
        plant=_wrong_proof,
    ),
    Fault(
        "unreadable_proof",
        FailureKind.JUDGE_ERROR,
        "handed in a proof on which the checker crashes",
        frozenset({"lean"}),
        applies=_has_proof,
        plant=_unreadable_proof,
    ),
)
