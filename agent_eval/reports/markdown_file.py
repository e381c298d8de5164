"""Render one comparison as a markdown file: `report markdown`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import Any

from agent_eval.contracts import Comparison, GateDecision, GateStatus
from agent_eval.reports import case_lists
from agent_eval.reports import suite as suite_section
from agent_eval.reports.blocks import bullets, document
from agent_eval.reports.counts import judging_words
from agent_eval.reports.decision import counting_again, left_out
from agent_eval.reports.detail import FILE_LIMIT, FULL, Detail, fit, utf8_bytes
from agent_eval.reports.headline import Headline
from agent_eval.reports.looks import looks_sentence
from agent_eval.reports.model import SuiteReport, undecided
from agent_eval.reports.replay import replay_blocks
from agent_eval.reports.sentences import ICONS, decision_word
from agent_eval.reports.standing import Voice
from agent_eval.text.escape import code_span, plain, prose

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
        comparison: What changed.
        decision: The decision of the gate on it; None without one.
        title: Its heading.
        replay: The report that `replay` wrote about the candidate, as JSON.
    """

    suite = SuiteReport(
        slug=title,
        suite_path="",
        decision=decision or undecided(comparison.candidate),
        candidate=comparison.candidate,
        comparison=comparison,
    )

    def render(detail: Detail) -> str:
        return document(
            [
                *(_opening(suite, title, detail) if decision else [f"## {plain(title, limit=detail.name)}"]),
                suite_section.numbers_line(suite, detail),
                prose(looks_sentence(suite.decision), limit=2 * detail.quote),
                suite_section.compared_runs(comparison, detail),
                _incompatible(comparison, detail),
                suite_section.other_rules(comparison, detail),
                suite_section.case_set(comparison, (), detail),
                left_out(decision, detail),
                counting_again(decision, detail),
                *case_lists.less_often(suite, detail),
                *case_lists.regressed(suite, None, detail),
                suite_section.notices(comparison, detail),
                *_replay(replay, detail),
                *judging_words(comparison.candidate.summary),
                *suite_section.behind_a_click(suite, detail),
            ]
        )

    regressed = case_lists.most_regressed([comparison])
    return fit(render, (_DETAIL,), limit=FILE_LIMIT, size=utf8_bytes, regressed=regressed)


def _opening(suite: SuiteReport, title: str, detail: Detail) -> list[str]:
    voice = Voice(code=partial(code_span, limit=detail.name), prose=partial(prose, limit=2 * detail.quote))
    headline = Headline(suite, voice)
    word = decision_word(suite.status, shares_nothing=suite.nothing_shared)
    heading = f"## {ICONS[suite.status]} {plain(title, limit=detail.name)}: {word}"
    if suite.status is GateStatus.PASSED:
        return [heading, headline.what_happened]
    to_do = headline.what_to_do
    return [
        heading,
        f"**{headline.what_happened}** {headline.why}".rstrip(),
        f"**To do:** {to_do}" if to_do else "",
    ]


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
