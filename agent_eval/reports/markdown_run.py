"""Render one run alone as a markdown file: `report markdown --run`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from agent_eval.contracts import CaseResultRow, GateDecision, RunReference
from agent_eval.reports import case_lists
from agent_eval.reports import decision as decided
from agent_eval.reports import suite as suite_section
from agent_eval.reports.blocks import document
from agent_eval.reports.counts import judging_words, not_judged, passing
from agent_eval.reports.detail import FILE_LIMIT, FULL, Detail, fit, utf8_bytes
from agent_eval.reports.model import SuiteReport, undecided
from agent_eval.reports.story import story_of
from agent_eval.text.escape import plain, prose

_THERE = "see the evidence pack"
_DETAIL = replace(FULL[0], elsewhere=_THERE, cases_elsewhere=_THERE)


def render_run(
    run: RunReference, failing: Sequence[CaseResultRow], decision: GateDecision | None, *, title: str
) -> str:
    """Render a report of a run that is compared with none.

    Args:
        failing: Its cases that did not pass, in suite order; a bounded number is enough.
        decision: The decision made on it alone; None without one.
    """
    suite = SuiteReport(
        slug=title,
        suite_path="",
        decision=decision or undecided(run),
        candidate=run,
        failing=failing,
    )

    story = story_of(suite)

    def render(detail: Detail) -> str:
        unjudged = [prose(sentence, limit=2 * detail.quote) for sentence in not_judged(run.summary)]
        name = plain(title, limit=detail.name)
        opening = [f"## {name}"]
        if decision is not None:
            findings = decided.findings(story, detail)
            opening = [f"## {story.sign} {decided.escaped(story.sentence, detail)}", name, findings]
        return document(
            [
                *opening,
                f"**{passing(run.summary)}**",
                *unjudged,
                *judging_words(run.summary),
                *case_lists.failing(suite, detail),
                *suite_section.behind_a_click(suite, story, detail),
            ]
        )

    return fit(render, (_DETAIL,), limit=FILE_LIMIT, size=utf8_bytes, regressed=0)
