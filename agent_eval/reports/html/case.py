"""What a report shows of one case: verdicts, steps, figures, in both runs or in one."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from agent_eval.comparison.conversations import criterion_changes
from agent_eval.contracts import Case, CaseIndexRow, CaseResultRow
from agent_eval.contracts.event import MESSAGE, USER, is_blank
from agent_eval.contracts.suite import definition_of
from agent_eval.contracts.verdict import EXECUTION, advisory_in
from agent_eval.reports.blocks import AMOUNTS, amount
from agent_eval.reports.html.lines import QUIET, CaseLine, SuiteEvidence
from agent_eval.reports.html.steps import (
    Notes,
    StepNote,
    StepTurn,
    TraceSide,
    aligned_steps,
    as_text,
    differing_first,
    single_steps,
    window,
)
from agent_eval.text.escape import one_line

REASON_LIMIT = 600
EXPECTED_LIMIT = 3_000
REFERENCES_SHOWN = 5
TRIALS_SHOWN = 60


class CaseLimits(NamedTuple):
    """How much of a case is shown; `value` is in characters of an argument, an answer or a message."""

    value: int
    rows: int


class JudgeLine(NamedTuple):
    """What a judge says of a case, or of one criterion, now and in the baseline; empty where it says nothing.

    `about` tells what kind of judge it is; `at` are indices of the candidate's events that it rests on.
    """

    name: str
    about: str
    now: str
    before: str
    reason: str
    at: Sequence[int] = ()

    @property
    def is_quiet(self) -> bool:
        """Whether it objects neither now nor in the baseline."""
        return {self.now, self.before} <= {"", *QUIET} and bool(self.now)


def case_view(line: CaseLine, evidence: SuiteEvidence, limits: CaseLimits) -> dict[str, Any]:
    """Collect for the template what the packs say of a case; the comparison alone where there are none.

    `judges` has those that object first, `turns` the steps in as many columns as there are `sides`, `trials`
    a letter for each trial of the baseline and of the candidate where there are several. `linked` are the
    indices of the shown steps that a verdict rests on, `most` is what the step took that took most of all,
    to draw bars by.
    """
    packs = (evidence.before, evidence.now)
    results = [pack.results.get(line.case_id) for pack in packs]
    index = [pack.index.get(line.case_id) for pack in packs]
    behaved = [*map(_behaved, index, results)]
    before, now = results
    case = evidence.now.case(line.case_id)
    is_same = case is not None and behaved[0] == behaved[1] is not None
    earlier = None if is_same else evidence.before.case(line.case_id)
    same = "Tool calls, final answer and verdicts are the same as in the baseline: one run is shown."
    notes = [same] if is_same else []
    stated, row = (case, now) if case is not None else (earlier, before)
    judges = _judge_lines(now, before)
    turns: Sequence[StepTurn] = ()
    sides = ["Baseline", "Candidate"]
    if stated is None:
        notes.append("The evidence of the two runs is not at hand: the comparison alone has no steps.")
        for judge in line.regression.judges if line.regression is not None else ():
            words = (str(judge.candidate or ""), str(judge.baseline or ""))
            judges.append(JudgeLine(_name(judge.judge_id), "", *words, _reason(judge.reason)))
    elif case is not None and earlier is not None:
        both = [TraceSide(each.recorded, _notes(each, of)) for each, of in ((earlier, before), (case, now))]
        turns = differing_first(aligned_steps(*both, limit=limits.value, most=limits.rows))
    else:
        turns = single_steps(
            TraceSide(stated.recorded, _notes(stated, row)), limit=limits.value, most=limits.rows
        )
        sides = [("Candidate" if case is not None else "Baseline") if line.change else "Run"]
    rows = [step for turn in turns for step in turn.rows]
    numbers = {step.candidate.event.idx for step in rows if step.candidate is not None}
    cells = [cell for step in rows for cell in step.cells]
    return {
        "judges": judges,
        "criteria": list(_criteria(now, before)),
        "turns": turns,
        "sides": sides,
        "input": _input(stated, limits) if stated is not None else "",
        "expects": _expects(stated) if stated is not None else "",
        "figures": list(_figures(*(facts or {} for facts in index))),
        "trials": (_letters(before), _letters(now)),
        "notes": notes,
        "linked": {number for judge in judges for number in judge.at if number in numbers},
        "most": {
            "latency": max((cell.event.latency_ms or 0 for cell in cells), default=0),
            "tokens": max((cell.tokens or 0 for cell in cells), default=0),
        },
    }


def _behaved(facts: CaseIndexRow | None, row: CaseResultRow | None) -> tuple[Any, ...] | None:
    """Return calls, final answer and verdicts of a case in a run; None where that does not have it."""
    if facts is None or row is None:
        return None
    verdicts = [(verdict["judge_id"], verdict["outcome"], verdict["reason"]) for verdict in row["verdicts"]]
    return facts["calls"], facts["output_digest"], verdicts


def _notes(case: Case, row: CaseResultRow | None) -> Notes:
    """Put each verdict that objects at the last event that it rests on."""
    known = {event.idx for event in case.trace}
    notes: dict[int, list[StepNote]] = {}
    for verdict in row["verdicts"] if row is not None else ():
        places = [place for place in verdict["evidence_refs"] if place in known]
        if places and verdict["outcome"] not in QUIET:
            notes.setdefault(places[-1], []).append(
                StepNote(_name(verdict["judge_id"]), verdict["outcome"], _reason(verdict["reason"]))
            )
    return notes


def _judge_lines(row: CaseResultRow | None, before: CaseResultRow | None) -> list[JudgeLine]:
    earlier = {verdict["judge_id"]: verdict for verdict in (before["verdicts"] if before else ())}
    verdicts = row["verdicts"] if row else []
    # A crash of the agent explains more than a judge's complaint of the missing output; those that no longer
    # judge the case come between those that object and those that do not.
    lines = []
    for verdict in verdicts:
        was = earlier.pop(verdict["judge_id"], None)
        at = verdict["evidence_refs"][:REFERENCES_SHOWN] if verdict["outcome"] not in QUIET else ()
        lines.append((verdict, verdict["outcome"], was["outcome"] if was else "", at))
    lines += [(was, "", was["outcome"], ()) for was in earlier.values()]
    lines.sort(key=lambda line: (line[1] in QUIET, line[0]["judge_id"] != EXECUTION))
    judged = [
        JudgeLine(_name(of["judge_id"]), "" if of["hard"] else "soft", now, was, _reason(of["reason"]), at)
        for of, now, was, at in lines
    ]
    return judged + [
        JudgeLine(f"{_name(each.judge_id)} (advisory)", "soft", each.outcome, "", _reason(each.reason))
        for each in advisory_in(verdicts)
    ]


def _criteria(now: CaseResultRow | None, before: CaseResultRow | None) -> Iterator[JudgeLine]:
    """List the criteria of a conversation that do not pass, or whose outcome changed, with their judges."""
    for change in criterion_changes(before, now) if now is not None else ():
        kinds = [change.judge_id, change.strict, "advisory" if change.advisory else None]
        criterion = one_line(change.criterion, limit=EXPECTED_LIMIT) or "∅"
        outcomes = (str(change.candidate or ""), str(change.baseline or ""))
        yield JudgeLine(criterion, _name(", ".join(filter(None, kinds))), *outcomes, _reason(change.reason))


def _name(name: str) -> str:
    return one_line(name, limit=120) or "∅"


def _reason(reason: str) -> str:
    return one_line(reason, limit=REASON_LIMIT)


def _input(case: Case, limits: CaseLimits) -> str:
    """Write what the agent was asked, unless a message of the user in the trace says it."""
    if any(event.role == USER and event.type == MESSAGE for event in case.trace):
        return ""
    inputs = [value for value in case.inputs if not is_blank(value)]
    return "\n\n".join(window(as_text(value), limit=limits.value).text for value in inputs)


def _expects(case: Case) -> str:
    expected = {
        name: value
        for name, value in definition_of(case.to_json()).items()
        if name not in ("case_id", "input") and value not in (None, {}, [], "")
    }
    if "policy" in expected and not any(expected["policy"].values()):
        del expected["policy"]
    return window(as_text(expected), limit=EXPECTED_LIMIT).text if expected else ""


def _figures(*both: Mapping[str, Any]) -> Iterator[tuple[str, str, str]]:
    for name, words in AMOUNTS.items():
        values = [row.get(name) for row in both]
        if values != [None, None]:
            before, now = ("" if value is None else amount(name, value) for value in values)
            yield words, before, now
    before, now = (one_line(", ".join(map(str, row.get("models") or ())), limit=300) for row in both)
    if before or now:
        yield "models", before, now


def _letters(row: CaseResultRow | None) -> str:
    trials = row.get("trials") if row is not None else None
    if not trials or len(trials) < 2:
        return ""
    letters = "".join(trial["outcome"][:1].upper() for trial in trials[:TRIALS_SHOWN])
    return letters + ("…" if len(trials) > TRIALS_SHOWN else "")
