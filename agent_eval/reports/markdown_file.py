"""Render one comparison as a markdown file: `report markdown`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from agent_eval.contracts import Comparison, GateDecision, GateStatus
from agent_eval.reports import suite as suite_section
from agent_eval.reports.blocks import bullets, document, folded
from agent_eval.reports.decision import certainty, counting_again, left_out
from agent_eval.reports.detail import FILE_LIMIT, FULL, Detail, fit, utf8_bytes
from agent_eval.reports.model import nothing_shared
from agent_eval.reports.sentences import ICONS, decision_word, sentence, why
from agent_eval.text.escape import code_span, plain, prose
from agent_eval.text.numbers import count

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

    def render(detail: Detail) -> str:
        return document(
            [
                *_opening(comparison, decision, title, detail),
                suite_section.compared_runs(comparison, detail),
                _incompatible(comparison, detail),
                suite_section.case_set(comparison, (), detail),
                suite_section.notices(comparison, detail),
                *suite_section.numbers(comparison, detail),
                *certainty(decision, detail),
                left_out(decision, detail),
                counting_again(decision, detail),
                *suite_section.regressed(comparison, None, detail),
                *_replay(replay, detail),
                *suite_section.behind_a_click(comparison.candidate, comparison, decision, detail),
            ]
        )

    regressed = suite_section.most_regressed([comparison])
    return fit(render, (_DETAIL,), limit=FILE_LIMIT, size=utf8_bytes, regressed=regressed)


def _opening(
    comparison: Comparison, decision: GateDecision | None, title: str, detail: Detail
) -> Sequence[str]:
    if decision is None:
        return [f"## {plain(title, limit=detail.name)}"]
    quote = partial(prose, limit=2 * detail.quote)
    reasons = sentence(why(decision, comparison.candidate.summary, comparison, quote))
    word = decision_word(decision.gate_status, shares_nothing=nothing_shared(comparison))
    opening = f"## {ICONS[decision.gate_status]} {plain(title, limit=detail.name)}: {word}"
    return [opening, reasons if decision.gate_status is GateStatus.PASSED else f"**{reasons}**"]


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
    passed = replay.get("replay_passed") is True
    blocks = ["### Replay", "✅ The replay gave the same results." if passed else "❌ The replay differs."]
    for key, singular, plural in (
        ("case_mismatches", "case differs", "cases differ"),
        ("env_mismatches", "difference in the environment", "differences in the environment"),
    ):
        differences = replay.get(key)
        if isinstance(differences, list) and differences:
            title = count(len(differences), singular, plural)
            lines = [code_span(str(item), limit=detail.quote) for item in differences[: detail.cases]]
            blocks.append(folded(title, [bullets(lines)]))
    return blocks
