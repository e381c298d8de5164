"""Render one comparison as a markdown file: `report markdown`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from agent_eval.contracts import Comparison, GateDecision
from agent_eval.reports import case_lists
from agent_eval.reports import decision as decided
from agent_eval.reports import suite as suite_section
from agent_eval.reports.blocks import bullets, document
from agent_eval.reports.counts import judging_words
from agent_eval.reports.detail import FILE_LIMIT, FULL, Detail, fit, utf8_bytes
from agent_eval.reports.model import SuiteReport, undecided
from agent_eval.reports.replay import replay_blocks
from agent_eval.reports.story import story_of
from agent_eval.text.escape import plain, prose

_THERE = "see the comparison"
_DETAIL = replace(FULL[0], elsewhere=_THERE, cases_elsewhere=_THERE)


def render_markdown(
    comparison: Comparison,
    decision: GateDecision | None,
    *,
    title: str,
    replay: Mapping[str, Any] | None = None,
) -> str:
    """Render a report of a comparison as markdown.

    Args:
        decision: The decision of the gate on it; None without one.
        replay: The report that `replay` wrote about the candidate, as JSON.
    """

    suite = SuiteReport(
        slug=title,
        suite_path="",
        decision=decision or undecided(comparison.candidate),
        candidate=comparison.candidate,
        comparison=comparison,
    )

    story = story_of(suite)

    def render(detail: Detail) -> str:
        name = plain(title, limit=detail.name)
        opening = [f"## {name}"]
        if decision:
            box = decided.box(story, detail, boxes=False)
            opening = [f"## {story.sign} {decided.escaped(story.sentence, detail)}", name, box]
        return document(
            [
                *opening,
                suite_section.numbers_line(suite, detail),
                suite_section.compared_runs(comparison, detail),
                _incompatible(comparison, detail),
                suite_section.other_rules(suite, detail),
                *(
                    [decided.findings(story, detail), decided.blocking_cases(story, detail)]
                    if decision
                    else []
                ),
                *case_lists.regressed(suite, None, detail),
                suite_section.case_set(comparison, (), detail),
                decided.notes(story, detail),
                suite_section.notices(suite, detail),
                *_replay(replay, detail),
                *judging_words(comparison.candidate.summary),
                *decided.other_cases(story, detail),
                *suite_section.behind_a_click(suite, story, detail),
            ]
        )

    regressed = case_lists.most_regressed([comparison])
    return fit(render, (_DETAIL,), limit=FILE_LIMIT, size=utf8_bytes, regressed=regressed)


def _incompatible(comparison: Comparison, detail: Detail) -> str:
    notices = {notice.rstrip(".").casefold() for notice in comparison.behaviour.notices}
    failures = comparison.compatibility.failures
    broken = [check for check in failures if check.message.casefold() not in notices]
    if not broken:
        return ""
    lines = bullets(prose(check.message, limit=2 * detail.quote) for check in broken)
    return f"⚠️ **The runs did not evaluate the same thing:**\n\n{lines}"


def _replay(replay: Mapping[str, Any] | None, detail: Detail) -> list[str]:
    if replay is None:
        return []
    return ["### Replay", *replay_blocks(replay, detail)]
