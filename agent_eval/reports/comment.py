"""Render a report as markdown: the comment on a change, the full report, and a file of a comparison or a run.

All are one template over the story; they differ in how much there is room for.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from typing import Any

import jinja2
from jinja2.runtime import Context
from markupsafe import Markup

from agent_eval.comparison.compare import DETAIL_LIMIT
from agent_eval.contracts import CaseResultRow, Comparison, GateDecision, RunReference
from agent_eval.reports import suite as facts
from agent_eval.reports.blocks import bullets, folded, named, names
from agent_eval.reports.cases import in_full
from agent_eval.reports.counts import fallen, judging_words, not_judged, passing, rates
from agent_eval.reports.detail import COMMENT, FILE_LIMIT, FULL, Detail, characters, fit, utf8_bytes
from agent_eval.reports.layout import Markdown, templates
from agent_eval.reports.model import SIGNS, EvaluationReport, State, Story, SuiteReport, undecided
from agent_eval.reports.story import overall, state_of, story_of
from agent_eval.text.escape import code_span, fence, is_web_address, link, plain, prose
from agent_eval.text.numbers import count

_BOXES: Mapping[State, str] = {
    "failed": "CAUTION",
    "inconclusive": "WARNING",
    "skipped": "NOTE",
    "error": "WARNING",
}
_SHORTEST_SENTENCE = 240
"""Characters of a sentence that are shown however little room there is."""


def render_comment(report: EvaluationReport, marker: str, *, limit: int) -> str:
    """Render the comment as markdown, `marker` first. Every text in the report may be hostile.

    Args:
        marker: An HTML comment that identifies the comment, `<!-- … -->`; it is not escaped.
        limit: Characters that the platform accepts. Detail is dropped to keep to it; below some 2,000
            characters the shortest version may be longer.
    """
    elsewhere = f"see the {report.full_report}" if report.run_url is not None else "see the full report"
    full = [Markdown(link(plain(report.full_report), report.run_url))] if report.run_url else []
    page = _Page(report, marker=marker, elsewhere=elsewhere, pointers=[*full, *_evidence(report)])
    return fit(page.render, COMMENT, limit=limit, size=characters)


def render_summary(report: EvaluationReport, *, limit: int) -> str:
    """Render the full report as markdown. Every text in it may be hostile.

    `limit` is in bytes of UTF-8. Detail is dropped to keep to it, as in the comment.
    """
    page = _Page(report, elsewhere="see the evidence", pointers=_evidence(report))
    return fit(page.render, FULL, limit=limit, size=utf8_bytes)


def render_markdown(
    subject: Comparison | RunReference,
    decision: GateDecision | None,
    *,
    title: str,
    failing: Sequence[CaseResultRow] = (),
    replay: Mapping[str, Any] | None = None,
) -> str:
    """Render a report of a comparison, or of a run that is compared with none, as markdown for a file.

    `failing` has the cases of such a run that did not pass, in suite order; a bounded number is enough.
    `replay` is what `replay` wrote of the candidate.
    """
    comparison, run = (subject, subject.candidate) if isinstance(subject, Comparison) else (None, subject)
    suite = SuiteReport(
        slug=title,
        suite_path="",
        decision=decision or undecided(run),
        candidate=run,
        comparison=comparison,
        failing=failing,
        replay=replay,
    )
    report = EvaluationReport(title=title, suites=[suite], boxes=False)
    elsewhere = "see the evidence pack" if comparison is None else "see the comparison"
    page = _Page(report, is_decided=decision is not None, elsewhere=elsewhere)
    return fit(page.render, FULL, limit=FILE_LIMIT, size=utf8_bytes)


def _evidence(report: EvaluationReport) -> list[Markdown]:
    places = (("evidence", report.evidence_name), ("HTML report", report.html_name))
    return [
        Markdown(
            link(label, report.evidence_url)
            if is_web_address(report.evidence_url)
            else f"{label} {code_span(name, limit=120)}"
        )
        for label, name in places
        if name
    ]


@dataclass(frozen=True)
class _Section:
    """What the template shows of a suite beside its story."""

    suite: SuiteReport
    report: EvaluationReport
    pointers: Sequence[Markdown]

    @property
    def is_evaluated(self) -> bool:
        return self.report.is_evaluated(self.suite)

    @cached_property
    def story(self) -> Story:
        return story_of(self.suite, is_evaluated=self.is_evaluated, problem=self.report.not_evaluated)

    @property
    def line(self) -> list[str]:
        """The numbers and the two commits; where nothing was compared, how many cases passed."""
        suite = self.suite
        compared = facts.compared_with(suite, self.report.head_sha)
        numbers = list(self.story.figures) if self.is_evaluated else []
        summary = suite.candidate.summary
        if not numbers and f"{summary.passed_cases:,} of {summary.total_cases:,}" not in self.story.lead:
            numbers = [passing(summary).removesuffix(".")]
        places = self.pointers if len(self.report.suites) == 1 else []
        return [*numbers, *([compared] if compared else []), *places]

    @property
    def cautions(self) -> list[str]:
        """What a reader of "passed" must know first."""
        suite = self.suite
        summary = suite.candidate.summary
        note = suite.baseline_note
        lines = [*([note] if note and not self.story.is_quiet else []), *not_judged(summary)]
        lines += [text.removeprefix("⚠️ ") for text in judging_words(summary)[1:]]
        return [*lines, *(facts.incompatible(suite.comparison) if suite.comparison is not None else [])]

    def cases(self, detail: Detail) -> Iterator[Markdown]:
        """Render what changed in cases that got worse, one of each cause first."""
        comparison = self.suite.comparison
        if comparison is None or not self.is_evaluated:
            return
        firsts = [cause.cases[0] for cause in self.suite.causes]
        first_ids = {row.case_id for row in firsts}
        others = (
            [row for row in self.suite.regressed if row.case_id not in first_ids] if detail.is_whole else []
        )
        rows = [*firsts, *others][: detail.cases]
        for row in rows:
            command = self.report.reproduce_command(self.suite, row.case_id) if self.suite.suite_path else ""
            yield from map(Markdown, in_full(row, comparison, command if detail.folded else "", detail))
        with_behaviour, total = len(comparison.behaviour_changes), len(self.suite.regressed)
        if detail.is_whole and len(rows) > with_behaviour >= DETAIL_LIMIT:
            yield Markdown(
                f"A comparison keeps how the behaviour changed of {with_behaviour:,} cases; both traces of "
                "the others are in the evidence of the two runs."
            )
        if detail.is_whole and total > len(rows):
            where = "`case_regressions` in `compare/baseline_delta.json`"
            yield Markdown(f"… and {count(total - len(rows), 'more case')} that got worse: see {where}.")

    @property
    def also(self) -> Iterator[str]:
        """What explains the decision and changes nothing about what to do."""
        suite, story = self.suite, self.story
        comparison = suite.comparison
        if story.spent:
            yield story.spent
        yield from judging_words(suite.candidate.summary)[:1]
        if comparison is not None and self.is_evaluated:
            known = {name for row in story.groups for name in row.case_ids}
            lists = {
                "Improved": facts.improved(suite),
                "Passes less often": [f"{row.case_id}: {rates(row)} trials" for row in fallen(comparison)],
                "Fails as before": [name for name in facts.as_before(suite) if name not in known],
            }
            stated = " ".join(facts.behind_green(suite))
            for label, ids in lists.items():
                if ids and named(ids, most=20) not in stated:
                    yield f"{label}: {named(ids, most=20)}."
        if words := facts.curve(suite):
            yield words

    def replay(self, detail: Detail) -> list[Markdown]:
        """Render a replay of the run; nothing where none is known."""
        replay = self.suite.replay
        return [] if replay is None else list(map(Markdown, ["### Replay", *replay_blocks(replay, detail)]))


@dataclass(frozen=True)
class _Page:
    """A report, with what differs between its forms; a marker is the first line of a comment."""

    report: EvaluationReport
    marker: str = ""
    is_decided: bool = True
    elsewhere: str = ""
    pointers: Sequence[Markdown] = ()

    @cached_property
    def sections(self) -> list[_Section]:
        return [_Section(suite, self.report, self.pointers) for suite in self.report.worst_first]

    def render(self, detail: Detail) -> str:
        """Render at a level of detail, without empty lines beyond one."""
        report = self.report
        signs = {state: Markdown(sign) for state, sign in SIGNS.items()}
        text = _template().render(
            marker=Markdown(self.marker),
            sign=signs[state_of(report)],
            headline=overall(report),
            title=report.title,
            suites=self.sections,
            shown=[
                section
                for section in self.sections[: max(detail.suites, len(self.sections) == 1)]
                if detail.is_whole or len(self.sections) == 1 or not section.story.is_quiet
            ],
            is_decided=self.is_decided,
            detail=detail,
            elsewhere=self.elsewhere,
            warnings=report.warnings,
            rule_changes=report.rule_changes,
            pointers=self.pointers if len(report.suites) > 1 else [],
            signs=signs,
            boxes=report.boxes,
            tool_version=report.tool_version,
        )
        return f"{_EMPTY_LINES.sub(chr(10) * 2, text).strip()}\n"


_EMPTY_LINES = re.compile(r"[ \t]*\n(?:[ \t]*\n)+")


@cache
def _template() -> jinja2.Template:
    environment = templates().overlay(finalize=_escaped)
    # A new dictionary: an overlay's own is that of the engine, whose page has filters of the same names.
    environment.filters = environment.filters | {
        "judges": facts.judges,
        "facts": facts.provenance,
        "ids": _ids,
        "name": _name,
        "inline": lambda text: _sentence(text, _SHORTEST_SENTENCE, begins_line=False),
        "heading": lambda text: Markdown(plain(text, limit=120)),
        "unbroken": lambda text: Markdown(text.replace(" ", "\u00a0")),
        "diff": _diff,
        "quoted": _quoted,
    }
    return environment.get_template("report.md.j2")


@jinja2.pass_context
def _escaped(context: Context, value: object) -> Markup:
    """Escape whatever is between braces as a sentence, unless it is markdown already."""
    if isinstance(value, Markup):
        return value
    return _sentence(str(value), max(2 * context["detail"].quote, _SHORTEST_SENTENCE))


def _sentence(text: str, limit: int, *, begins_line: bool = True) -> Markdown:
    """Escape a sentence; one of which nothing can be seen is shown as empty, and no mark loses its text."""
    return Markdown(prose(text, limit=limit, begins_line=begins_line) or ("∅" if text else ""))


@jinja2.pass_context
def _name(context: Context, text: str) -> Markdown:
    return Markdown(context["detail"].code(text))


@jinja2.pass_context
def _ids(context: Context, case_ids: Sequence[str]) -> Markdown:
    detail: Detail = context["detail"]
    return Markdown(names(case_ids, most=max(detail.ids, 1), limit=detail.quote))


@jinja2.pass_context
def _diff(context: Context, lines: Sequence[str]) -> Markdown:
    return Markdown(fence("\n".join(lines), limit=8 * context["detail"].quote, language="diff"))


@jinja2.pass_context
def _quoted(context: Context, text: str, state: State | None) -> Markdown:
    """Set text in a coloured box, or as a quote where the platform has none; of nothing there is no box.

    Where it passed, and where several suites have their own, it stays a paragraph.
    """
    inside = _EMPTY_LINES.sub("\n\n", text).strip()
    kind = _BOXES.get(state) if state is not None else None
    if kind is None or not inside:
        return Markdown(inside)
    first = [f"[!{kind}]"] if context["boxes"] else []
    return Markdown("\n".join(f"> {line}".rstrip() for line in [*first, *inside.splitlines()]))


_PARTS = (
    ("case_mismatches", "case differs", "cases differ"),
    ("trace_mismatches", "trajectory differs", "trajectories differ"),
    ("env_mismatches", "pin of the environment differs", "pins of the environment differ"),
)
_JUDGES_SHOWN = 3


def replay_blocks(replay: Mapping[str, Any], detail: Detail) -> list[str]:
    """Render the report of a replay as JSON, which any program can have written.

    It says whether the replay gave the same results, and behind a click what differs.
    """
    differences = [
        (listed, count(len(listed), singular, plural))
        for key, singular, plural in _PARTS
        if isinstance(listed := replay.get(key), list) and listed
    ]
    parts = [words for _, words in differences]
    parts += ["the summary differs"] if replay.get("summary_match") is False else []
    differs = f"❌ The replay differs: {', '.join(parts)}." if parts else "❌ The replay differs."
    blocks = ["✅ The replay gave the same results." if replay.get("replay_passed") is True else differs]
    for listed, words in differences:
        lines = [_difference(item, detail) for item in listed[: detail.cases]]
        if len(listed) > len(lines):
            lines.append(f"and {len(listed) - len(lines):,} more")
        blocks.append(folded(words, [bullets(lines)]))
    return blocks


def _difference(item: Any, detail: Detail) -> str:
    def quoted(value: Any) -> str:
        return detail.code(str(value))

    if not isinstance(item, dict):
        return quoted(item)
    if "field" in item:
        differs = f"{quoted(item['field'])} was {quoted(item.get('saved'))}, is {quoted(item.get('current'))}"
        return f"{differs}, which is allowed" if item.get("allowed") is True else differs
    if "difference" in item:
        return f"{quoted(item.get('case_id'))}: {quoted(item['difference'])}"
    judges = item.get("judges")
    listed = [judge for judge in judges if isinstance(judge, dict)] if isinstance(judges, list) else []
    verdicts = [
        f"{quoted(judge.get('judge_id'))} was {quoted(judge.get('saved'))}, "
        f"is {quoted(judge.get('replayed'))}"
        for judge in listed[:_JUDGES_SHOWN]
    ]
    return f"{quoted(item.get('case_id'))}: {'; '.join(verdicts)}" if verdicts else quoted(item)
