"""Render one comparison, or one run alone, as a markdown file: `report markdown`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from agent_eval.contracts import CaseResultRow, Comparison, GateDecision, RunReference
from agent_eval.reports import cases
from agent_eval.reports import decision as decided
from agent_eval.reports import suite as suite_section
from agent_eval.reports.blocks import bullets, document
from agent_eval.reports.counts import judging_words, not_judged, passing
from agent_eval.reports.detail import FILE_LIMIT, FULL, Detail, fit, utf8_bytes
from agent_eval.reports.model import SuiteReport, undecided
from agent_eval.reports.replay import replay_blocks
from agent_eval.reports.story import story_of
from agent_eval.text.escape import plain, prose

_DETAIL = replace(FULL[0], elsewhere="see the comparison", cases_elsewhere="see the comparison")
_OF_A_RUN = replace(FULL[0], elsewhere="see the evidence pack", cases_elsewhere="see the evidence pack")


def render_markdown(
    comparison: Comparison,
    decision: GateDecision | None,
    *,
    title: str,
    replay: Mapping[str, Any] | None = None,
) -> str:
    """Render a report of a comparison as markdown.

    `replay` is the report that `replay` wrote about the candidate, as JSON.
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
                *cases.regressed(suite, None, detail),
                suite_section.case_set(comparison, (), detail),
                decided.notes(story, detail),
                suite_section.notices(suite, detail),
                *(["### Replay", *replay_blocks(replay, detail)] if replay is not None else []),
                *judging_words(comparison.candidate.summary),
                *decided.other_cases(story, detail),
                *suite_section.behind_a_click(suite, story, detail),
            ]
        )

    regressed = cases.most_regressed([comparison])
    return fit(render, (_DETAIL,), limit=FILE_LIMIT, size=utf8_bytes, regressed=regressed)


def _incompatible(comparison: Comparison, detail: Detail) -> str:
    notices = {notice.rstrip(".").casefold() for notice in comparison.behaviour.notices}
    failures = comparison.compatibility.failures
    broken = [check for check in failures if check.message.casefold() not in notices]
    if not broken:
        return ""
    lines = bullets(prose(check.message, limit=2 * detail.quote) for check in broken)
    return f"⚠️ **The runs did not evaluate the same thing:**\n\n{lines}"


def render_run(
    run: RunReference, failing: Sequence[CaseResultRow], decision: GateDecision | None, *, title: str
) -> str:
    """Render a report of a run that is compared with none.

    `failing` has its cases that did not pass, in suite order; a bounded number is enough.
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
                *cases.failing(suite, detail),
                *suite_section.behind_a_click(suite, story, detail),
            ]
        )

    return fit(render, (_OF_A_RUN,), limit=FILE_LIMIT, size=utf8_bytes, regressed=0)
