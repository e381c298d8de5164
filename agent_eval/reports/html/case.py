"""What a report shows of one case: verdicts, steps, figures, in both runs or in one."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from agent_eval.comparison.conversations import criterion_changes
from agent_eval.contracts import Case, CaseResultRow, Outcome
from agent_eval.contracts.comparison import CriterionChange
from agent_eval.contracts.event import MESSAGE, USER, is_blank
from agent_eval.contracts.suite import definition_of
from agent_eval.contracts.verdict import EXECUTION, VerdictRow, advisory_in
from agent_eval.reports.blocks import AMOUNTS, amount
from agent_eval.reports.html.content import as_text, window
from agent_eval.reports.html.evidence import SuiteEvidence
from agent_eval.reports.html.lines import CaseLine
from agent_eval.reports.html.steps import (
    Notes,
    StepNote,
    StepTurn,
    TraceSide,
    aligned_steps,
    differing_first,
    single_steps,
)
from agent_eval.text.escape import one_line

REASON_LIMIT = 600
EXPECTED_LIMIT = 3_000
REFERENCES_SHOWN = 5
TRIALS_SHOWN = 60

_QUIET = (Outcome.PASSED.value, Outcome.SKIPPED.value)


class CaseLimits(NamedTuple):
    """How much of a case is shown; `value` is in characters of an argument, an answer or a message."""

    value: int
    rows: int


@dataclass(frozen=True, slots=True)
class JudgeLine:
    """What one judge says of a case, now and in the baseline.

    Attributes:
        now: Its outcome; empty where it no longer judges the case.
        before: Its outcome in the baseline; empty where it did not judge the case.
        reason: One sentence, of the candidate where the judge still judges.
        at: Indices of the candidate's events that it rests on.
    """

    judge_id: str
    now: str
    before: str
    reason: str
    at: Sequence[int] = ()
    is_hard: bool = True

    @property
    def is_quiet(self) -> bool:
        """Whether it objects neither now nor in the baseline."""
        return {self.now, self.before} <= {"", *_QUIET} and bool(self.now)


class CriterionLine(NamedTuple):
    """A criterion of a conversation that does not pass, or whose outcome changed.

    `kind` has its judge, the kind of a strict evaluation, whether it is advisory; `before` is empty where it
    was not judged.
    """

    text: str
    kind: str
    now: str
    before: str
    reason: str


@dataclass(frozen=True, slots=True)
class CaseView:
    """Everything that a report shows of a case.

    Attributes:
        judges: What the judges say, those that object first.
        turns: The steps; one turn without a number where the case has only one.
        sides: Names of the columns of the steps: one or two.
        input: What the agent was asked, where no step says it.
        expects: What the case expects, as JSON; empty for nothing.
        figures: Tokens, cost, latency and models as name, before and now.
        trials: Trials of the baseline and of the candidate, a letter each; empty where there is only one.
        notes: Sentences on what is not shown.
        command: Shell command that judges the case again; empty for none.
        linked: Indices of the shown steps that a judge's verdict rests on.
        most: The latency and the tokens of the step that took most, in either run, to draw bars by.
    """

    line: CaseLine
    judges: Sequence[JudgeLine] = ()
    criteria: Sequence[CriterionLine] = ()
    turns: Sequence[StepTurn] = ()
    sides: tuple[str, ...] = ("Candidate",)
    input: str = ""
    expects: str = ""
    figures: Sequence[tuple[str, str, str]] = ()
    trials: tuple[str, str] = ("", "")
    notes: Sequence[str] = ()
    command: str = ""
    linked: frozenset[int] = frozenset()
    most: Mapping[str, float] = field(default_factory=dict)

    def share(self, value: float | None, name: str) -> float | None:
        """Say which share of the longest bar a step's latency or tokens are; None for no bar."""
        longest = self.most.get(name)
        return value / longest if value is not None and longest else None


BOTH = ("Baseline", "Candidate")


def case_view(line: CaseLine, evidence: SuiteEvidence, command: str, limits: CaseLimits) -> CaseView:
    """Build what is shown of a case from the packs; from the comparison alone where there are none."""
    now, before = evidence.results.get(line.case_id), evidence.earlier_results.get(line.case_id)
    case = evidence.case(line.case_id)
    alike = case is not None and before is not None and evidence.behaved_alike(line.case_id)
    earlier = None if alike and _verdicts(before) == _verdicts(now) else evidence.earlier_case(line.case_id)
    stated = case if case is not None else earlier
    if stated is None:
        return _from_comparison(line, command)
    notes = []
    if alike and earlier is None:
        notes.append(
            "Tool calls, final answer and verdicts are the same as in the baseline: one run is shown."
        )
    only = ("Candidate" if case is not None else "Baseline") if line.change else "Run"
    sides = BOTH if case is not None and earlier is not None else (only,)
    judges = _judge_lines(now, before)
    first, second = (
        TraceSide(each.recorded, _notes(each, row)) if each is not None else None
        for each, row in ((earlier, before), (case, now))
    )
    if first is not None and second is not None:
        turns = differing_first(aligned_steps(first, second, limit=limits.value, most=limits.rows))
    else:
        only_side = first or second
        assert only_side is not None
        turns = single_steps(only_side, limit=limits.value, most=limits.rows)
    rows = [row for turn in turns for row in turn.rows]
    step_numbers = {row.candidate.number for row in rows if row.candidate is not None}
    return CaseView(
        line=line,
        judges=judges,
        criteria=[_criterion(change) for change in criterion_changes(before, now)] if now else [],
        turns=turns,
        sides=sides,
        input=_input(stated, limits),
        expects=_expects(stated),
        figures=list(_figures(evidence, line.case_id)),
        trials=(_letters(before), _letters(now)),
        notes=notes,
        command=command,
        linked=frozenset(number for judge in judges for number in judge.at if number in step_numbers),
        most={
            name: max((getattr(cell, name) or 0 for row in rows for cell in row.cells), default=0)
            for name in ("latency", "tokens")
        },
    )


def _verdicts(row: CaseResultRow | None) -> list[tuple[str, str, str]]:
    verdicts = row["verdicts"] if row is not None else ()
    return [(verdict["judge_id"], verdict["outcome"], verdict["reason"]) for verdict in verdicts]


def _notes(case: Case, row: CaseResultRow | None) -> Notes:
    """Put each verdict that objects at the last event that it rests on."""
    known = {event.idx for event in case.trace}
    notes: dict[int, list[StepNote]] = {}
    for verdict in row["verdicts"] if row is not None else ():
        places = [place for place in verdict["evidence_refs"] if place in known]
        if places and verdict["outcome"] not in _QUIET:
            notes.setdefault(places[-1], []).append(
                StepNote(_name(verdict["judge_id"]), verdict["outcome"], _reason(verdict["reason"]))
            )
    return notes


def _judge_lines(now: CaseResultRow | None, before: CaseResultRow | None) -> list[JudgeLine]:
    earlier = {verdict["judge_id"]: verdict for verdict in (before["verdicts"] if before else ())}
    lines = []
    for verdict in now["verdicts"] if now else ():
        was = earlier.pop(verdict["judge_id"], None)
        lines.append(_judge_line(verdict, was["outcome"] if was else ""))
    lines += [
        JudgeLine(_name(judge_id), "", was["outcome"], _reason(was["reason"]), (), was["hard"])
        for judge_id, was in earlier.items()
    ]
    # A crash of the agent explains more than a judge's complaint of the missing output.
    lines.sort(key=lambda line: (line.now in _QUIET, line.judge_id != EXECUTION))
    return lines + [
        JudgeLine(
            f"{_name(advice.judge_id)} (advisory)", advice.outcome, "", _reason(advice.reason), (), False
        )
        for advice in advisory_in(now["verdicts"] if now else ())
    ]


def _judge_line(verdict: VerdictRow, before: str) -> JudgeLine:
    return JudgeLine(
        _name(verdict["judge_id"]),
        verdict["outcome"],
        before,
        _reason(verdict["reason"]),
        verdict["evidence_refs"][:REFERENCES_SHOWN] if verdict["outcome"] not in _QUIET else (),
        verdict["hard"],
    )


def _criterion(change: CriterionChange) -> CriterionLine:
    kinds = [change.judge_id, change.strict, "advisory" if change.advisory else None]
    return CriterionLine(
        one_line(change.criterion, limit=EXPECTED_LIMIT) or "∅",
        _name(", ".join(filter(None, kinds))),
        change.candidate.value if change.candidate else "",
        change.baseline.value if change.baseline else "",
        _reason(change.reason),
    )


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
    stated = case.to_json()
    expected = {
        name: value
        for name, value in definition_of(stated).items()
        if name not in ("case_id", "input") and value not in (None, {}, [], "")
    }
    if "policy" in expected and not any(expected["policy"].values()):
        del expected["policy"]
    return window(as_text(expected), limit=EXPECTED_LIMIT).text if expected else ""


def _figures(evidence: SuiteEvidence, case_id: str) -> Iterable[tuple[str, str, str]]:
    before: Mapping[str, object] = evidence.earlier_index.get(case_id) or {}
    now: Mapping[str, object] = evidence.index.get(case_id) or {}
    for name, words in AMOUNTS.items():
        values = [row.get(name) if row else None for row in (before, now)]
        if values != [None, None]:
            words_of = [amount(name, value) if isinstance(value, (int, float)) else "" for value in values]
            yield words, words_of[0], words_of[1]
    models = [_models(row.get("models")) for row in (before, now)]
    if any(models):
        yield "models", models[0], models[1]


def _models(models: object) -> str:
    return one_line(", ".join(map(str, models)), limit=300) if isinstance(models, (list, tuple)) else ""


def _letters(row: CaseResultRow | None) -> str:
    trials = row.get("trials") if row is not None else None
    if not trials or len(trials) < 2:
        return ""
    letters = "".join(trial["outcome"][:1].upper() for trial in trials[:TRIALS_SHOWN])
    return letters + ("…" if len(trials) > TRIALS_SHOWN else "")


def _from_comparison(line: CaseLine, command: str) -> CaseView:
    """Show what a comparison keeps of a case: verdicts that changed."""
    regression = line.regression
    judges = [
        JudgeLine(
            _name(judge.judge_id),
            judge.candidate.value if judge.candidate else "",
            judge.baseline.value if judge.baseline else "",
            _reason(judge.reason),
        )
        for judge in (regression.judges if regression is not None else ())
    ]
    return CaseView(
        line=line,
        judges=judges,
        sides=BOTH,
        notes=["The evidence of the two runs is not at hand: the comparison alone has no steps."],
        command=command,
    )
