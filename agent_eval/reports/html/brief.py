"""The top of a report: what happened, what to do, the two runs, and how it was decided; as plain values."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from agent_eval.reports import suite as facts
from agent_eval.reports.blocks import code
from agent_eval.reports.causes import Cause
from agent_eval.reports.counts import judging_words, not_judged, passing
from agent_eval.reports.model import SuiteReport
from agent_eval.reports.parts import CaseRow, State, Story
from agent_eval.reports.story import story_of
from agent_eval.text.escape import one_line
from agent_eval.text.numbers import count

NAME_LIMIT = 120
SENTENCE_LIMIT = 600
CASES_SHOWN = 200

_QUOTED = re.compile("`([^`]*)`")
SIGNS: dict[State, str] = {"passed": "✓", "failed": "✗", "error": "‼", "inconclusive": "?", "skipped": "–"}


class Words(NamedTuple):
    """A part of a sentence, set as code or not."""

    is_code: bool
    text: str


Sentence = list[Words]


def sentence(text: str, *, limit: int = SENTENCE_LIMIT) -> Sentence:
    """Divide a sentence at its backticks, without invisible characters."""
    parts = _QUOTED.split(one_line(text, limit=limit))
    return [Words(place % 2 == 1, part) for place, part in enumerate(parts) if part]


class Line(NamedTuple):
    """A finding or a limit: how it ended, its name where it has one, and its sentence."""

    state: State
    name: str
    text: Sentence


@dataclass(frozen=True, kw_only=True)
class SuiteBrief:
    """The top of the report of one suite.

    Attributes:
        state: How it ended; `none` without a decision, and then the word is empty.
        word: The state in a word or two.
        to_do: What to do; empty for nothing.
        cases: Cases that newly fail, with their counts, those that block first; each with its reason.
        findings: Safety judges, reruns of the whole suite, release, cost and time.
        notices: What else a reader must know before the cases.
    """

    name: str
    state: str
    sign: str
    word: str
    sentence: Sentence
    why: Sentence
    to_do: Sentence
    cases: Sequence[tuple[CaseRow, Sentence]]
    hidden_cases: int
    findings: Sequence[Line]
    notices: Sequence[Sentence]
    runs: Sequence[facts.Fact]
    has_baseline: bool
    limits: Sequence[Line]
    judges: Sequence[facts.JudgeRow]


def brief(suite: SuiteReport, *, is_decided: bool, says_nothing: bool = False) -> SuiteBrief:
    """Write the top of the report of a suite.

    With `says_nothing`, the decision cannot be relied on; then neither it nor what got worse is said.
    """
    if says_nothing:
        suite = replace(suite, comparison=None)
    story = story_of(suite, is_evaluated=not says_nothing)
    rows = [
        (
            row._replace(case_id=one_line(row.case_id, limit=NAME_LIMIT) or "∅"),
            # The first line has said the reason of a case that is alone.
            sentence("" if row.reason == story.sentence else row.reason),
        )
        for row in story.cases
    ]
    return SuiteBrief(
        name=one_line(suite.slug, limit=NAME_LIMIT),
        state=story.state if is_decided else "none",
        sign=SIGNS[story.state] if is_decided else "",
        word=story.word if is_decided else "",
        sentence=sentence(story.sentence if is_decided else _undecided(suite)),
        why=sentence(story.why),
        to_do=sentence(story.to_do) if is_decided else [],
        cases=rows[:CASES_SHOWN],
        hidden_cases=max(0, len(rows) - CASES_SHOWN),
        findings=[Line(each.state, "", sentence(each.text)) for each in story.findings],
        notices=[sentence(text) for text in _notices(suite, story)],
        runs=list(facts.provenance(suite)),
        has_baseline=suite.comparison is not None,
        limits=[Line(rule.state, rule.name, sentence(rule.text)) for rule in story.rules],
        judges=facts.judges(suite),
    )


def cause_words(cause: Cause) -> Sentence:
    """Write a cause in words, with a capital unless it begins with a name."""
    words = cause.words(code)
    return sentence(f"{words[:1].upper()}{words[1:]}")


def _undecided(suite: SuiteReport) -> str:
    comparison = suite.comparison
    if comparison is None:
        return passing(suite.candidate.summary)
    overview = comparison.overview
    return (
        f"{count(overview.compared_cases, 'case')} compared: {overview.regressed_cases:,} regressed, "
        f"{overview.improved_cases:,} improved. {passing(suite.candidate.summary)}"
    )


def _notices(suite: SuiteReport, story: Story) -> Iterable[str]:
    """Say what changes how the figures are read, and what else a reader has to know."""
    if compared := facts.compared_with(suite, None):
        how = f" ({facts.how_found(suite.baseline)})" if suite.baseline is not None else ""
        yield f"Compared: {compared}{how}."
    yield from (note for note in (suite.baseline_note, *story.notes, story.spent, *story.set_aside) if note)
    yield from (finding.text for finding in story.sets)
    yield from facts.incompatible(suite.comparison) if suite.comparison is not None else ()
    yield from not_judged(suite.candidate.summary)
    yield from judging_words(suite.candidate.summary)
