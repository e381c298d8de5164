"""Sentences of the page: divided into words and names, and those that only it shows."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import NamedTuple

from agent_eval.reports import suite as facts
from agent_eval.reports.blocks import code
from agent_eval.reports.causes import Cause
from agent_eval.reports.counts import judging_words, not_judged, passing
from agent_eval.reports.model import SuiteReport
from agent_eval.reports.parts import State, Story
from agent_eval.text.escape import one_line
from agent_eval.text.numbers import count

SENTENCE_LIMIT = 600

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


def cause_words(cause: Cause) -> Sentence:
    """Write a cause in words, with a capital unless it begins with a name."""
    words = cause.words(code)
    return sentence(f"{words[:1].upper()}{words[1:]}")


def undecided(suite: SuiteReport) -> str:
    """Say what two runs, or one, gave where nothing was decided on them."""
    comparison = suite.comparison
    if comparison is None:
        return passing(suite.candidate.summary)
    overview = comparison.overview
    return (
        f"{count(overview.compared_cases, 'case')} compared: {overview.regressed_cases:,} regressed, "
        f"{overview.improved_cases:,} improved. {passing(suite.candidate.summary)}"
    )


def notices(suite: SuiteReport, story: Story) -> Iterable[str]:
    """Say what changes how the figures are read, and what else a reader has to know."""
    if compared := facts.compared_with(suite, None):
        how = f" ({facts.how_found(suite.baseline)})" if suite.baseline is not None else ""
        yield f"Compared: {compared}{how}."
    yield from (note for note in (suite.baseline_note, *story.notes, story.spent, *story.set_aside) if note)
    yield from (finding.text for finding in story.sets)
    yield from facts.incompatible(suite.comparison) if suite.comparison is not None else ()
    yield from not_judged(suite.candidate.summary)
    yield from judging_words(suite.candidate.summary)
