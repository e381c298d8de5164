"""Render a trajectory for a terminal, with the verdicts at the events that they rest on."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from agent_eval.contracts.verdict import advisory_in
from agent_eval.reports.terminal import BOLD, GREEN, RED, YELLOW, painted, shown_name
from agent_eval.text.escape import clean
from agent_eval.text.numbers import count

if TYPE_CHECKING:
    from agent_eval.contracts import Case, CaseResultRow, Event
    from agent_eval.contracts.verdict import VerdictRow

VALUE_LIMIT = 400
"""Characters of an input, output or argument; the pack has all of it."""


def trajectory_text(
    case: Case, events: Sequence[Event], row: CaseResultRow, *, trial: int | None = None, colour: bool
) -> list[str]:
    """Render one trial of a case: its events in order, each with the verdicts that rest on it.

    `trial` counts from 0; None is the one that decides the case.
    """
    number = row["trial"] if trial is None else trial
    verdicts = trial_row(row, number)["verdicts"]
    at_event: dict[int, list[VerdictRow]] = {}
    loose = []
    known = {event.idx for event in events}
    for verdict in verdicts:
        places = [place for place in verdict["evidence_refs"] if place in known]
        if places and verdict["outcome"] not in ("passed", "skipped"):
            at_event.setdefault(places[-1], []).append(verdict)
        else:
            loose.append(verdict)
    outcome = f"{row['outcome']}{_whose(trial_row(row, number))}{_among_trials(row, number)}"
    title = f"{shown_name(case.case_id, 70)}: {outcome}"
    lines = [painted(title, BOLD, colour)]
    for event in events:
        lines.append(f"{event.idx:>4} {shown_name(event.actor, 12):<12} {_what(event)}")
        lines += [
            f"     {line}" for verdict in at_event.get(event.idx, ()) for line in _verdict(verdict, colour)
        ]
    lines += [f"     {line}" for line in traceback_lines(case.metadata)]
    lines += [f"  {line}" for verdict in loose for line in _verdict(verdict, colour)]
    for verdict in verdicts:
        # What an LLM judge found of each criterion, with its reason and how its votes agreed.
        criteria = verdict["evidence"].get("criteria")
        rows = [each for each in criteria if isinstance(each, dict)] if isinstance(criteria, list) else []
        for each in rows[:_CRITERIA_SHOWN]:
            result = str(each.get("outcome"))
            mark = painted("ok" if result == "passed" else "NO", _COLOUR.get(result, RED), colour)
            words = f"{each.get('criterion')} {result}" + (", advisory" if each.get("advisory") else "")
            finding = f"{words} ({each.get('agreement')} votes): {each.get('reason')}"
            lines.append(f"     {mark} {clean(finding, limit=VALUE_LIMIT)}")
    for advice in advisory_in(verdicts):
        words = f"{advice.judge_id} {advice.outcome}, advisory: {advice.reason}"
        lines.append(f"     {clean(words, limit=VALUE_LIMIT)}")
    return lines


_TRACEBACK = "Traceback (most recent call last):"
_LINES_OF_A_TRACEBACK = 12


def traceback_lines(metadata: Mapping[str, Any]) -> list[str]:
    """Return the end of the traceback with which the agent's last attempt ended; nothing without one."""
    history = metadata.get("attempt_history")
    last = history[-1] if isinstance(history, list) and history else None
    artifacts = last.get("artifacts") if isinstance(last, Mapping) and last.get("failure") else None
    for text in artifacts.values() if isinstance(artifacts, Mapping) else ():
        if isinstance(text, str) and _TRACEBACK in text:
            lines = text[text.rindex(_TRACEBACK) :].splitlines()
            if len(lines) > _LINES_OF_A_TRACEBACK:
                lines = [lines[0], "...", *lines[-_LINES_OF_A_TRACEBACK:]]
            indents = (min(len(line) - len(line.lstrip()), 8) for line in lines)
            return [
                " " * indent + clean(line, limit=VALUE_LIMIT)
                for indent, line in zip(indents, lines, strict=True)
            ]
    return []


def trial_row(row: CaseResultRow, number: int) -> dict[str, Any]:
    """Return the result of one trial of a case, with the case and the trial's number from 0."""
    trials = row.get("trials")
    return {"case_id": row["case_id"], "trial": number, **(trials[number] if trials else row)}


_MOST_TRIALS_NAMED = 10


def _among_trials(row: CaseResultRow, number: int) -> str:
    trials = row.get("trials") or ()
    if len(trials) < 2:
        return ""
    from agent_eval.contracts.verdict import count_trials

    passed, judged = count_trials([trial["outcome"] for trial in trials])
    skipped = f", {len(trials) - judged} had nothing to judge" if judged < len(trials) else ""
    others = [str(other + 1) for other in range(len(trials)) if other != number]
    named = ", ".join(others) if len(others) <= _MOST_TRIALS_NAMED else f"1 to {len(trials)}"
    outcome = trials[number]["outcome"]
    differs = f": {outcome}" if outcome != row["outcome"] else ""
    return (
        f" ({passed} of {count(judged, 'trial')} passed{skipped}; this is trial {number + 1}{differs}; "
        f"others: --trial {named})"
    )


def incomplete_text(rows: Iterable[CaseResultRow], trials: int) -> list[str]:
    """Say that a run was stopped, and what its pack has of it.

    `rows` are of the cases that the pack has; of those that never began, no pack knows. `trials` is how often
    each case was to run.
    """
    counts = [len(row.get("trials") or ()) or 1 for row in rows]
    done, planned = sum(counts), trials * len(counts)
    has = f"{done:,} of at least {count(planned, 'trial')}" if done < planned else count(done, "trial")
    rest = "" if done < planned else ", and further cases did not run"
    return [f"This run is not complete: the pack has {has} ({count(len(counts), 'case')}){rest}."]


def event_text(event: dict[str, Any]) -> str:
    """Render one event, as plain JSON, on one line: who acts, and what it is."""
    from agent_eval.contracts import Event

    read = Event.model_validate(event)
    return f"{shown_name(read.actor, 12):<12} {_what(read)}"


def _what(event: Event) -> str:
    if event.type == "tool_call":
        return f"{shown_name(event.tool or '', 60)}({_value(event.input)})"
    if event.type == "tool_result":
        return f"{shown_name(event.tool or '', 60)} → {_value(event.error or event.output)}"
    value = next((value for value in (event.output, event.input, event.error) if value is not None), None)
    kind = "" if event.type == "message" else f"{shown_name(event.type, 30)}: "
    return f"{kind}{_value(value)}"


def _value(value: Any) -> str:
    if value is None:
        return ""
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, sort_keys=True)
    return clean(text, limit=VALUE_LIMIT)


def _verdict(verdict: VerdictRow, colour: bool) -> list[str]:
    """Write a verdict on a line, and below it the end of what a judge that failed wrote to standard error."""
    outcome = verdict["outcome"]
    mark = _MARK.get(outcome, "NO")
    if outcome != "skipped":
        mark = painted(mark, _COLOUR.get(outcome, RED), colour)
    line = f"{mark} {shown_name(verdict['judge_id'], 40)}: {clean(verdict['reason'], limit=VALUE_LIMIT)}"
    stderr = verdict["evidence"].get("stderr") if outcome == "error" else None
    if not isinstance(stderr, str):
        return [line]
    parts = [part for part in clean(stderr, limit=VALUE_LIMIT, multiline=True).splitlines() if part.strip()]
    # A single line is in the reason already.
    return [line, *(f"   stderr: {part}" for part in parts[-_STDERR_LINES:])] if len(parts) > 1 else [line]


_MARK = {"passed": "ok", "skipped": "--", "error": "!!", "inconclusive": "??"}
"""Marks of a verdict; an error is no failure of what is judged."""
_STDERR_LINES = 8


def _whose(row: Mapping[str, Any]) -> str:
    """Say whose fault it is that a trial has no result; empty where it has one."""
    from agent_eval.contracts.verdict import row_fault

    fault = row_fault(row)  # type: ignore[arg-type]
    return f" ({WHOSE[fault.value]})" if fault is not None else ""


WHOSE = {
    "agent": "the agent's fault",
    "judge": "the judge's fault, not the agent's",
    "environment": "the fault of what surrounds the agent, not the agent's",
    "infrastructure": "the fault of a service or the machine, not the agent's",
}
"""Whose fault it is that a trial has no result, by the name of the fault."""

_COLOUR = {"passed": GREEN, "inconclusive": YELLOW}
_CRITERIA_SHOWN = 20


def cases_text(failing: Sequence[CaseResultRow], total: int, *, most: int) -> list[str]:
    """List the cases of a pack that did not pass, to choose one to look at."""
    if not failing:
        return [f"All {count(total, 'case')} passed. Name one to see its trajectory."]
    lines = [f"{len(failing):,} of {count(total, 'case')} did not pass. Name one to see its trajectory."]
    lines += [f"  {shown_name(row['case_id'], 70)}: {row['outcome']}{_whose(row)}" for row in failing[:most]]
    return lines + [f"  and {len(failing) - most:,} more"] * (len(failing) > most)
