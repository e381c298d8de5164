"""Render the comment on a change: what happened, what to do, a line of numbers, cases, the rest folded."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from agent_eval.contracts import GateStatus
from agent_eval.reports import case_lists
from agent_eval.reports import suite as suite_section
from agent_eval.reports.blocks import Alert, alert, bullets, document, folded, names
from agent_eval.reports.case_lists import most_regressed
from agent_eval.reports.confirmation import run_again, run_again_and_excused
from agent_eval.reports.counts import judging_words, not_judged, passing
from agent_eval.reports.decision import counting_again, left_out
from agent_eval.reports.detail import COMMENT, FULL, Detail, characters, fit, utf8_bytes
from agent_eval.reports.headline import Headline
from agent_eval.reports.history import placed
from agent_eval.reports.looks import looks_sentence
from agent_eval.reports.model import EvaluationReport, SuiteReport
from agent_eval.reports.replay import differing_replay
from agent_eval.reports.sentences import ICONS, decision_word, overall
from agent_eval.reports.standing import Voice
from agent_eval.reports.tiers import cases_apart, first_named, new_case_words
from agent_eval.text.escape import code_span, link, plain, prose
from agent_eval.text.numbers import count


def render_comment(report: EvaluationReport, marker: str, *, limit: int) -> str:
    """Render the comment as markdown, `marker` first.

    Args:
        report: What was evaluated and decided; every text in it may be hostile.
        marker: An HTML comment that identifies the comment, `<!-- … -->`; it is not escaped.
        limit: Characters that the platform accepts. Detail is dropped to keep to it; below some 2,000
            characters the shortest version may be longer.
    """

    def render(detail: Detail) -> str:
        if report.run_url is not None:
            there = f"see the {report.full_report}"
            detail = replace(detail, elsewhere=there, cases_elsewhere=there)
        pointers = _pointers(report, detail)
        if len(report.suites) == 1 and is_calm(report, report.suites[0]):
            return document([marker, *_calm(report, pointers, detail)])
        blocks = [*evaluation(report, replace(detail, calm=True), ""), pointers, _placed(report, detail)]
        return document([marker, *blocks])

    regressed = most_regressed(suite.comparison for suite in report.suites)
    return fit(render, COMMENT, limit=limit, size=characters, regressed=regressed)


def _pointers(report: EvaluationReport, detail: Detail) -> str:
    if not detail.links and report.run_url:
        return f"The full report is in the {report.full_report}."
    full = f"Full report: {link(report.full_report, report.run_url)}" if report.run_url else ""
    return " · ".join(part for part in (full, evidence(report, detail)) if part)


_LEVELS = tuple(
    replace(
        level,
        elsewhere="see the evidence",
        cases_elsewhere="see `case_regressions` in `compare/baseline_delta.json` in the evidence",
    )
    for level in FULL
)


def render_summary(report: EvaluationReport, *, limit: int) -> str:
    """Render the full report as markdown.

    Args:
        report: What was evaluated and decided; every text in it may be hostile.
        limit: Bytes of UTF-8 that the platform accepts. Detail is dropped to keep to it, as in the comment.
    """

    def render(detail: Detail) -> str:
        return document(evaluation(report, detail, evidence(report, detail)))

    regressed = most_regressed(suite.comparison for suite in report.suites)
    return fit(render, _LEVELS, limit=limit, size=utf8_bytes, regressed=regressed)


NOT_EVALUATED = ("🛑", "not evaluated")
"""Shown in the heading in place of a decision where none was possible."""


def is_calm(report: EvaluationReport, suite: SuiteReport) -> bool:
    """Whether there is nothing in a suite to look at: three lines are enough in a comment."""
    comparison, decision = suite.comparison, suite.decision
    if report.not_evaluated or report.rule_changes.sentences or report.warnings or not report.run_url:
        return False
    if suite.status is not GateStatus.PASSED or comparison is None or suite.nothing_shared:
        return False
    sets = comparison.cases
    to_look_at = (
        comparison.overview.regressed_cases,
        [*sets.new, *sets.changed, *sets.removed],
        comparison.behaviour.notices,
        [*decision.waivers, *decision.expired, *decision.quarantined_case_ids],
        not_judged(suite.candidate.summary),
        suite.baseline_note,
    )
    return not any(to_look_at)


def _calm(report: EvaluationReport, pointers: str, detail: Detail) -> list[str]:
    suite = report.suites[0]
    compared = suite_section.compared_with(suite, report.head_sha, detail)
    happened = Headline(suite, _voice(detail)).what_happened
    last = f"{compared} {pointers} {_placed(report, detail)}".strip()
    return [f"## {heading(report, report.title, detail)}", happened, last]


def _placed(report: EvaluationReport, detail: Detail) -> str:
    """Place the rates of the suites among those of the base branch's last runs; empty without a history."""
    lines = []
    for suite in report.worst_first[: detail.suite_lines]:
        history = suite.history
        if history is None or not report.is_evaluated(suite):
            continue
        words = placed(history.own, history.earlier, plain(history.branch, limit=60))
        if words:
            name = f"{code_span(suite.slug, limit=detail.name)}: " if len(report.suites) > 1 else ""
            lines.append(f"{name}{words}.")
    return f"Scored trials that passed: {' '.join(lines)}" if lines else ""


def evaluation(report: EvaluationReport, detail: Detail, pointers: str) -> list[str]:
    """Render a report as blocks: heading, what happened, warnings, and each suite, worst first."""
    if len(report.suites) == 1:
        return [*_one_suite(report, detail), pointers]
    suites = [suite for suite in report.worst_first if not (detail.calm and is_calm(report, suite))]
    # The suites that regressed share the room for cases, so that one does not bury the next.
    share = max(1, sum(bool(suite.causes) for suite in suites[: detail.suites]))
    each = replace(
        detail,
        cases=max(1, detail.cases // share) if detail.cases else 0,
        listed=max(1, detail.listed // share) if detail.listed else 0,
    )
    blocks = [*_title(report, detail), _overall(report, detail), *_cautions(report, detail)]
    for suite in suites[: detail.suites]:
        blocks += [f"## {_suite_heading(suite, report, detail)}", *_verdict(suite, report, each)]
        blocks += _sections(suite, report, each)
    return [*blocks, pointers]


def _one_suite(report: EvaluationReport, detail: Detail) -> list[str]:
    suite = report.suites[0]
    box, numbers, compared = _verdict(suite, report, detail)
    cautions = _cautions(report, detail)
    # How the change is judged comes before what it is compared with: it decides what the numbers mean.
    verdict = [*cautions, box, numbers] if report.not_evaluated else [box, numbers, *cautions]
    return [*_title(report, detail), *verdict, compared, *_sections(suite, report, detail)]


def _title(report: EvaluationReport, detail: Detail) -> list[str]:
    if not report.not_evaluated:
        return [f"## {heading(report, report.title, detail)}"]
    icon, word = NOT_EVALUATED
    return [
        f"## {icon} {plain(report.title, limit=detail.name)}: {word}",
        alert(
            "WARNING",
            [
                f"**{prose(report.not_evaluated, limit=2 * detail.quote)}**",
                "This says nothing about the change.",
            ],
            boxes=report.boxes,
        ),
    ]


def _suite_heading(suite: SuiteReport, report: EvaluationReport, detail: Detail) -> str:
    if report.is_evaluated(suite):
        return heading(suite, suite.slug, detail)
    icon, word = NOT_EVALUATED
    return f"{icon} {plain(suite.slug, limit=detail.name)}: {word}"


def heading(decided: EvaluationReport | SuiteReport, name: str, detail: Detail) -> str:
    """`❌ Agent evaluation: failed`."""
    word = decision_word(decided.status, shares_nothing=decided.nothing_shared)
    return f"{ICONS[decided.status]} {plain(name, limit=detail.name)}: {word}"


def evidence(report: EvaluationReport, detail: Detail) -> str:
    """Link the evidence and the HTML report; empty when their places are unknown."""
    places = (("Evidence", report.evidence_name), ("HTML report", report.html_name))
    return " · ".join(
        f"{label}: {link(code_span(name, limit=detail.name), report.evidence_url)}"
        for label, name in places
        if name
    )


_KINDS: dict[GateStatus, Alert] = {
    GateStatus.FAILED: "CAUTION",
    GateStatus.INCONCLUSIVE: "WARNING",
    GateStatus.NO_BASELINE: "NOTE",
}


def _verdict(suite: SuiteReport, report: EvaluationReport, detail: Detail) -> list[str]:
    """Render what happened and what to do, in a box unless the suite passed; then the line of numbers."""
    compared = suite_section.compared_with(suite, report.head_sha, detail)
    if not report.is_evaluated(suite):
        # There is no decision to rely on: what got worse, and by how much, would say what nothing does.
        return [passing(suite.candidate.summary), "", compared]
    headline = Headline(suite, _voice(detail))
    happened = headline.what_happened
    box = happened
    if suite.status in _KINDS:
        to_do = headline.what_to_do
        paragraphs = [f"**{happened}** {headline.why}".rstrip(), f"**To do:** {to_do}" if to_do else ""]
        box = alert(_KINDS[suite.status], paragraphs, boxes=report.boxes)
    looks = prose(looks_sentence(suite.decision), limit=2 * detail.quote)
    numbers = [suite_section.numbers_line(suite, detail), looks]
    return [box, "\n\n".join(filter(None, numbers)), compared]


def _voice(detail: Detail) -> Voice:
    return Voice(code=partial(code_span, limit=detail.name), prose=partial(prose, limit=2 * detail.quote))


def _sections(suite: SuiteReport, report: EvaluationReport, detail: Detail) -> list[str]:
    if not report.is_evaluated(suite):
        return _sections_of_no_decision(suite, report, detail)
    comparison = suite.comparison
    failing = [row["case_id"] for row in suite.failing]
    return [
        _not_judged(suite, report, detail),
        suite_section.other_rules(comparison, detail),
        suite_section.case_set(comparison, failing, detail),
        _new_cases(suite, detail),
        left_out(suite.decision, detail),
        counting_again(suite.decision, detail),
        run_again(suite.decision, suite.confirmation, detail),
        *case_lists.less_often(suite, detail),
        *case_lists.regressed(suite, partial(report.reproduce_command, suite), detail),
        *case_lists.failing(suite, detail),
        _apart(suite, detail),
        suite_section.notices(comparison, detail),
        *differing_replay(suite.replay, detail),
        *judging_words(suite.candidate.summary),
        *suite_section.behind_a_click(suite, detail, tool_version=report.tool_version),
    ]


def _sections_of_no_decision(suite: SuiteReport, report: EvaluationReport, detail: Detail) -> list[str]:
    """Render what a run shows that nothing was decided on: its cases, and no change of them."""
    alone = replace(suite, comparison=None)
    return [
        _not_judged(suite, report, detail),
        *case_lists.failing(alone, detail),
        *judging_words(suite.candidate.summary),
        *suite_section.figures_alone(alone, detail),
        *suite_section.provenance(suite, detail, tool_version=report.tool_version),
    ]


def _new_cases(suite: SuiteReport, detail: Detail) -> str:
    """Say whether the merge base's agent passes the new cases as well."""
    voice = _voice(detail)
    return new_case_words(suite, first_named(voice.code), voice.prose)


def _apart(suite: SuiteReport, detail: Detail) -> str:
    """Fold away the cases that count in no rule on single cases: cleared, tracked, not graded."""
    apart = cases_apart(suite)
    branch = plain(suite.history.branch, limit=60) if suite.history is not None else ""
    listed = partial(names, most=detail.ids, limit=detail.name)
    sentences = bullets(apart.sentences(listed, branch))
    return folded(apart.title, [run_again_and_excused(suite.decision, detail), sentences])


def _not_judged(suite: SuiteReport, report: EvaluationReport, detail: Detail) -> str:
    """List the answers and fields that nothing looked at, which readers of "passed" must know of first."""
    sentences = [prose(sentence, limit=2 * detail.quote) for sentence in not_judged(suite.candidate.summary)]
    return alert("WARNING", sentences, boxes=report.boxes)


def _overall(report: EvaluationReport, detail: Detail) -> str:
    """Summarize several suites: how many, which, and what to do first."""
    if report.not_evaluated:
        return _suite_list(report, detail)
    worst = report.worst_first[0]
    has_to_do = bool(Headline(worst, _voice(detail)).what_to_do) and detail.suites
    first = f"**To do:** Start with {code_span(worst.slug, limit=detail.name)}, below." if has_to_do else ""
    paragraphs = [f"**{overall(report)}**", first]
    box = "\n\n".join(filter(None, paragraphs))
    if report.status in _KINDS:
        box = alert(_KINDS[report.status], paragraphs, boxes=report.boxes)
    return f"{box}\n\n{_suite_list(report, detail)}"


def _suite_list(report: EvaluationReport, detail: Detail) -> str:
    lines = []
    for suite in report.worst_first[: detail.suite_lines]:
        slug = code_span(suite.slug, limit=detail.name)
        if report.is_evaluated(suite):
            in_short = Headline(suite, _voice(detail)).in_short
            lines.append(f"{ICONS[suite.status]} {slug}: {in_short}")
        else:
            icon, word = NOT_EVALUATED
            lines.append(f"{icon} {slug}: {word}, {passing(suite.candidate.summary).rstrip('.')}")
    hidden = len(report.suites) - len(lines)
    if hidden:
        lines.append(f"and {count(hidden, 'more suite')}, {detail.elsewhere}")
    return bullets(lines)


def _cautions(report: EvaluationReport, detail: Detail) -> list[str]:
    return [_rule_changes(report, detail), _warnings(report, detail)]


def _rule_changes(report: EvaluationReport, detail: Detail) -> str:
    changes = report.rule_changes
    if not changes.sentences:
        return ""
    lines = [prose(change, limit=2 * detail.quote) for change in changes.sentences[: 2 * detail.sentences]]
    hidden = len(changes.sentences) - len(lines)
    if hidden:
        lines.append(f"and {count(hidden, 'more difference')}, {detail.elsewhere}")
    return alert("IMPORTANT", [f"⚠️ **{changes.title}**", bullets(lines)], boxes=report.boxes)


def _warnings(report: EvaluationReport, detail: Detail) -> str:
    lines = [f"⚠️ {prose(warning, limit=2 * detail.quote)}" for warning in report.warnings[: detail.sentences]]
    hidden = len(report.warnings) - len(lines)
    if hidden:
        lines.append(f"and {count(hidden, 'more warning')}, {detail.elsewhere}")
    return alert("WARNING", lines, boxes=report.boxes)
