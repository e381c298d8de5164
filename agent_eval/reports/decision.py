"""Render a story as markdown: its box, the cases that newly fail, what was found, what does not count."""

from __future__ import annotations

from collections.abc import Sequence

from agent_eval.reports.blocks import Alert, alert, bullets, folded, table
from agent_eval.reports.detail import Detail
from agent_eval.reports.story import SIGNS, CaseRow, State, Story
from agent_eval.text.escape import code_span, prose
from agent_eval.text.numbers import count

_KINDS: dict[State, Alert] = {
    "failed": "CAUTION",
    "inconclusive": "WARNING",
    "skipped": "NOTE",
    "error": "WARNING",
}
_COLUMNS = ("Case", "Main", "First", "Base again", "Here again")


def escaped(text: str, detail: Detail) -> str:
    """Escape a sentence of a story."""
    return prose(text, limit=max(2 * detail.quote, 240))


def box(story: Story, detail: Detail, *, boxes: bool, sentence: bool = False) -> str:
    """Render why it ended so and what to do, in a box unless it passed; empty where there is nothing to say.

    With `sentence`, the first sentence is in it, where no heading has it.
    """
    first = f"**{escaped(story.sentence, detail)}**" if sentence else ""
    why = escaped(story.why, detail) if story.why else ""
    to_do = f"**To do:** {escaped(story.to_do, detail)}" if story.to_do else ""
    paragraphs = [" ".join(filter(None, [first, why])), to_do]
    if story.state not in _KINDS:
        return "\n\n".join(filter(None, paragraphs))
    return alert(_KINDS[story.state], paragraphs, boxes=boxes)


def blocking_cases(story: Story, detail: Detail) -> str:
    """Render the cases that broke or are not settled, with their counts on main, at first and run again."""
    rows = story.blocking
    if not rows:
        return ""
    unsettled = [row for row in rows if row.answer == "open" and row.reason != story.sentence]
    unsettled = unsettled[: detail.sentences]
    reasons = bullets(
        f"{code_span(row.case_id, limit=detail.name)}: {escaped(row.reason, detail)}" for row in unsettled
    )
    return "\n\n".join(filter(None, [_table(rows, detail), reasons]))


def other_cases(story: Story, detail: Detail) -> list[str]:
    """Fold away the cases that newly fail and do not block, by what they turned out to be."""
    return [
        folded(f"{count(len(rows), 'case')} {words}", [_table(rows, detail)])
        for words, rows in story.others.items()
    ]


def _table(rows: Sequence[CaseRow], detail: Detail) -> str:
    most = max(detail.cases + detail.listed, 1)
    lines = [
        (
            f"{SIGNS[row.state]} {code_span(row.case_id, limit=detail.name)}",
            row.main,
            row.first,
            row.base,
            row.change,
        )
        for row in rows[:most]
    ]
    rendered = table(_COLUMNS, (":--", "--:", "--:", "--:", "--:"), lines)
    hidden = len(rows) - len(lines)
    return f"{rendered}\n\nand {hidden:,} more, {detail.elsewhere}." if hidden else rendered


def findings(story: Story, detail: Detail) -> str:
    """List what was found of safety judges, the whole suite, a release, cost and time."""
    lines = [
        f"{SIGNS[each.state]} {escaped(each.text, detail)}" for each in story.findings[: detail.sentences]
    ]
    return _listed(lines, len(story.findings), detail)


def notes(story: Story, detail: Detail) -> str:
    """Say what else a reader has to know, and list what does not count against the change."""
    sentences = [escaped(text, detail) for text in story.notes[: detail.sentences]]
    aside = [escaped(text, detail) for text in story.set_aside[: detail.sentences]]
    listed = _listed(aside, len(story.set_aside), detail)
    not_counted = f"**Waivers and quarantine:**\n\n{listed}" if listed else ""
    return "\n\n".join(filter(None, [" ".join(sentences), not_counted]))


def _listed(lines: list[str], total: int, detail: Detail) -> str:
    hidden = total - len(lines)
    if hidden:
        lines.append(f"and {hidden:,} more, {detail.elsewhere}")
    return bullets(lines)


def limits(story: Story, detail: Detail) -> str:
    """List the limits, each with what was measured."""
    lines = [f"{SIGNS[rule.state]} {escaped(rule.text, detail)}" for rule in story.rules[: detail.sentences]]
    return _listed(lines, len(story.rules), detail) if story.rules else ""
