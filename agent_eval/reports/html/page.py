"""One self-contained HTML page of an evaluation: `report html`, `view`, and the report that `ci` leaves.

Everything from agents, suites and packs is text: the templates escape it. The page's content security policy
allows no script and no style but the page's own, and nothing from outside.
"""

from __future__ import annotations

import base64
import hashlib
import json
import re
import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import jinja2
from markupsafe import Markup, escape

from agent_eval.reports import suite as facts
from agent_eval.reports.html.brief import SIGNS, Sentence, cause_words, notices, sentence, undecided
from agent_eval.reports.html.case import CaseLimits, case_view
from agent_eval.reports.html.evidence import SuiteEvidence
from agent_eval.reports.html.history import HistoryView, history_view
from agent_eval.reports.html.lines import EXCUSED, LESS_OFTEN, CaseLine, case_lines
from agent_eval.reports.layout import templates
from agent_eval.reports.model import EvaluationReport, SuiteReport
from agent_eval.reports.parts import Story
from agent_eval.reports.story import overall, state_of, story_of
from agent_eval.text.escape import is_web_address, one_line, shell_word

if TYPE_CHECKING:
    from markdown_it import MarkdownIt

CAP = 6_000_000
"""Most bytes of a page: browsers open it at once, and platforms show it."""
SMALL = 2_000_000
PER_CASE = 4_000
"""Bytes of a page: as many as `SMALL`, more from 500 cases on, never more than `CAP`."""
OPEN_SHARE = 0.5
OPEN_LIMIT = 600_000
"""Bytes that cases in full may take, which are also at most a share of the room beside the table. The others
are packed."""

AT_FIRST = 3
"""Cases in full, one for each cause, that are unfolded at first; one where nothing regressed."""

IN_FULL = CaseLimits(value=6_000, rows=200)
PACKED = CaseLimits(value=2_000, rows=100)

NAME_LIMIT, CAUSE_LIMIT = 120, 80
"""Characters of a name, and of a cause in the filter."""

BLOCK_CHARACTERS = 200_000
"""Characters of markup in a block before it is compressed: a browser unpacks as much at once."""

_MARKDOWN_OFF = ("link", "image", "autolink", "reference", "html_inline", "html_block", "entity")
_MARKDOWN = re.compile(r"(?m)[*`|]|\b_\w|^\s*(?:#{1,6} |[-+>]|\d+[.)] )")
"""What a text must have somewhere for its Markdown to look otherwise than the text."""
_TEMPLATES = Path(__file__).with_name("templates")
_TAG = re.compile(r"(<[^>]*>)")
_FIXED_BYTES = 60_000


@dataclass(frozen=True, kw_only=True)
class HtmlReport:
    """What a page shows; `evidence` has the packs by the slug of their suite."""

    report: EvaluationReport
    evidence: Mapping[str, SuiteEvidence] = field(default_factory=dict)
    is_decided: bool = True


class CaseGroup(NamedTuple):
    """Cases in full below a common title: those with one cause, or that changed alike."""

    title: Sentence
    cases: Sequence[Markup]


@dataclass(frozen=True)
class SuitePart:
    """The part of a page on one suite.

    Attributes:
        number: From 1, for addresses.
        suite: The suite, without its comparison where the decision cannot be relied on.
        groups: The cases in full.
        hidden_lines: Cases that the table has no room for.
        left_out: Cases of the table whose steps the page has no room for.
        columns: Optional columns of the table that some case fills.
        show: Shell command that shows a case in a terminal, with `CASE` in its place; empty without a pack.
        opened: Anchors of the cases in full.
        some_need_attention: Whether a case does not pass, or changed.
        judges: Those that object to some case, to filter by.
        causes: Why cases regressed, likewise, and the place of a case's cause in them by the case's id.
    """

    number: int
    suite: SuiteReport
    story: Story
    groups: Sequence[CaseGroup]
    lines: Sequence[CaseLine]
    hidden_lines: int = 0
    left_out: int = 0
    columns: frozenset[str] = frozenset()
    show: str = ""
    opened: frozenset[str] = frozenset()
    some_need_attention: bool = False
    judges: Sequence[str] = ()
    causes: Sequence[str] = ()
    cause_of: Mapping[str, int] = field(default_factory=dict)
    history: HistoryView | None = None

    @property
    def name(self) -> str:
        """The name of the suite."""
        return _name(self.suite.slug)

    @property
    def has_baseline(self) -> bool:
        """Whether two runs are shown."""
        return self.suite.comparison is not None

    def places(self, judges: Sequence[str]) -> str:
        """Write the places of judges in `judges`."""
        return " ".join(str(self.judges.index(judge)) for judge in judges)


@dataclass
class _Suite:
    """A suite while its page is being written."""

    report: SuiteReport
    evidence: SuiteEvidence
    lines: list[CaseLine]
    hidden_lines: int = 0
    opened: dict[str, Markup] = field(default_factory=dict)

    def has_more(self, line: CaseLine) -> bool:
        """Whether there is anything to show of a case beyond its row."""
        known = (self.evidence.results, self.evidence.earlier_results)
        return line.regression is not None or any(line.case_id in each for each in known)


def render_html(request: HtmlReport) -> str:
    """Write the page. The same report and packs give the same text."""
    suites = [_begin(suite, request) for suite in request.report.worst_first]
    total = sum(len(suite.lines) for suite in suites)
    room = min(CAP, max(SMALL, PER_CASE * total)) - _FIXED_BYTES
    room -= _keep_lines_that_fit(suites, room)
    spent = _open_cases(suites, request, min(OPEN_LIMIT, int(room * OPEN_SHARE)))
    blocks = _pack_others(suites, request, room - spent)
    return _page(
        request, [_part(number, suite, blocks, request) for number, suite in enumerate(suites, 1)], blocks
    )


def _begin(suite: SuiteReport, request: HtmlReport) -> _Suite:
    evidence = request.evidence.get(suite.slug, SuiteEvidence())
    if not request.report.is_evaluated(suite):
        suite = replace(suite, comparison=None)  # what got worse would say something of the change
    anchored = suite.slug if len(request.report.suites) > 1 else ""
    return _Suite(suite, evidence, case_lines(suite, evidence, anchored=anchored))


def _keep_lines_that_fit(suites: Sequence[_Suite], room: int) -> int:
    """Drop the last rows where all of them together would take most of the page; return their bytes."""
    spent = 0
    for suite in suites:
        columns = _columns(suite.lines)
        for number, line in enumerate(suite.lines):
            spent += _row_bytes(line, columns)
            if spent > room * 3 // 4:
                suite.hidden_lines = len(suite.lines) - number
                del suite.lines[number:]
                break
    return spent


def _columns(lines: Sequence[CaseLine]) -> frozenset[str]:
    optional = ("before", "change", "trials", "cost", "latency")
    return frozenset(name for name in optional if any(getattr(line, name) for line in lines))


def _row_bytes(line: CaseLine, columns: frozenset[str]) -> int:
    """Say how long a row of the table is at most: its texts as they are escaped, its tags and addresses."""
    texts = (line.anchor, line.name, 2 * line.outcome, 2 * line.before, line.change, line.trials, line.cost)
    size = len(escape("".join((*texts, line.latency, line.reason))).encode("utf-8", "replace"))
    size += 110 + 12 * len(columns) + 12 * ("before" in columns) + 20 * len(columns & {"cost", "latency"})
    return size + (40 + 4 * len(line.judges) if line.needs_attention else 0)


def _open_cases(suites: Sequence[_Suite], request: HtmlReport, room: int) -> int:
    """Render cases in full, first one of each cause, until there is no more room; return their bytes."""
    spent = 0
    for suite in suites:
        by_id = {line.case_id: line for line in suite.lines if line.is_open}
        causes = [cause.cases[0].case_id for cause in suite.report.causes]
        others = [row.case_id for cause in suite.report.causes for row in cause.cases[1:]]
        ordered = [each for each in dict.fromkeys([*causes, *others, *by_id]) if each in by_id]
        firsts = {*(causes or ordered[:1])[:AT_FIRST]}
        for line in map(by_id.__getitem__, ordered):
            markup = _case_markup(suite, line, request, IN_FULL, at_first=line.case_id in firsts)
            size = len(markup.encode("utf-8", "replace"))
            if spent + size > room:
                return spent
            suite.opened[line.anchor] = markup
            spent += size
    return spent


@dataclass
class CaseBlocks:
    """Blocks of cases, filled one case after the other up to a size.

    A browser unpacks one block on a click. It is JSON, `[[anchor, markup], …]`, compressed with deflate, in
    base64, which can neither end the element that holds it nor be read as markup.

    Attributes:
        limit: Bytes that all blocks may take together.
        block_of: Number of the block of each case in them, by anchor.
        is_full: Whether cases were left out because they did not fit.
    """

    limit: int
    data: list[str] = field(default_factory=list)
    block_of: dict[str, int] = field(default_factory=dict)
    is_full: bool = False
    _cases: list[tuple[str, str]] = field(default_factory=list)
    _characters: int = 0
    _size: int = 0

    def add(self, anchor: str, markup: str) -> None:
        """Add a case. It has a place once its block is finished and fits."""
        self._cases.append((anchor, markup))
        self._characters += len(markup)
        if self._characters >= BLOCK_CHARACTERS:
            self.close()

    def close(self) -> None:
        """Finish the block that is being filled; drop it where it does not fit."""
        if not self._cases:
            return
        text = json.dumps(self._cases, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "replace")
        compressor = zlib.compressobj(9, zlib.DEFLATED, -15)
        block = base64.b64encode(compressor.compress(text) + compressor.flush()).decode()
        if self._size + len(block) > self.limit:
            self.is_full = True
        else:
            self.block_of.update((anchor, len(self.data)) for anchor, _ in self._cases)
            self.data.append(block)
            self._size += len(block)
        self._cases, self._characters = [], 0


def _pack_others(suites: Sequence[_Suite], request: HtmlReport, room: int) -> CaseBlocks:
    blocks = CaseBlocks(limit=room)
    for suite in suites:
        for line in suite.lines:
            if blocks.is_full:
                return blocks
            if line.anchor not in suite.opened and suite.has_more(line):
                blocks.add(line.anchor, _case_markup(suite, line, request, PACKED))
    blocks.close()
    return blocks


def _case_markup(
    suite: _Suite, line: CaseLine, request: HtmlReport, limits: CaseLimits, *, at_first: bool = False
) -> Markup:
    report = request.report
    command = report.reproduce_command(suite.report, line.case_id) if suite.report.suite_path else ""
    view = case_view(line, suite.evidence, command, limits)
    markup = _template("case.html").render(case=view, at_first=at_first)
    redactor = suite.evidence.redactor
    # No rule of the user's changes a tag; what it matches is in the texts between them.
    parts = _TAG.split(redactor.of_secrets.redact_text(markup))
    parts[::2] = map(redactor.redact_text, parts[::2])
    return Markup("".join(parts))  # noqa: S704


def _part(number: int, suite: _Suite, blocks: CaseBlocks, request: HtmlReport) -> SuitePart:
    packed = blocks.block_of
    missing = [line for line in suite.lines if line.anchor not in suite.opened and line.anchor not in packed]
    left_out = sum(suite.has_more(line) for line in missing)
    place = suite.evidence.place
    return SuitePart(
        number=number,
        suite=suite.report,
        story=story_of(suite.report, is_evaluated=request.report.is_evaluated(suite.report)),
        groups=list(_groups(suite)),
        lines=suite.lines,
        hidden_lines=suite.hidden_lines,
        left_out=left_out,
        columns=_columns(suite.lines),
        show=f"agent-eval show {shell_word(place)} CASE" if place and "\0" not in place else "",
        opened=frozenset(suite.opened),
        some_need_attention=any(line.needs_attention for line in suite.lines),
        judges=sorted({judge for line in suite.lines for judge in line.judges}),
        causes=[
            one_line("".join(part.text for part in cause_words(cause)), limit=CAUSE_LIMIT)
            for cause in suite.report.causes
        ],
        cause_of={
            row.case_id: place for place, cause in enumerate(suite.report.causes) for row in cause.cases
        },
        history=history_view(suite.report.history) if suite.report.history is not None else None,
    )


def _groups(suite: _Suite) -> Iterator[CaseGroup]:
    opened = dict(suite.opened)
    anchors = {line.case_id: line.anchor for line in suite.lines}
    for cause in suite.report.causes:
        markup = [
            opened.pop(anchor) for row in cause.cases if (anchor := anchors.get(row.case_id, "")) in opened
        ]
        if markup:
            yield CaseGroup(cause_words(cause), markup)
    change_of = {line.anchor: line.change for line in suite.lines}
    titles = {
        EXCUSED: "Newly failing, and not blocking",
        LESS_OFTEN: "Fewer trials pass than before",
    }
    for change in dict.fromkeys(change_of[anchor] for anchor in opened):
        markup = [opened[anchor] for anchor in opened if change_of[anchor] == change]
        yield CaseGroup(sentence(titles.get(change, (change or "do not pass").capitalize())), markup)


def _page(request: HtmlReport, parts: Sequence[SuitePart], blocks: CaseBlocks) -> str:
    report = request.report
    # Files of our own, which are put into the page as they are.
    style, early, script = (
        Markup((_TEMPLATES / name).read_text("utf-8"))  # noqa: S704
        for name in ("style.css", "early.js", "script.js")
    )
    policy = (
        f"default-src 'none'; script-src {_hash_of(early)} {_hash_of(script)}; style-src {_hash_of(style)}; "
        "base-uri 'none'; form-action 'none'"
    )
    return _template("page.html").render(
        title=one_line(report.title, limit=120),
        report=report,
        parts=parts,
        blocks=blocks,
        warnings=[sentence(text) for text in (*report.warnings, *report.rule_changes.sentences)],
        headline=sentence(overall(report)) if request.is_decided else [],
        state=state_of(report) if request.is_decided else "",
        sign=SIGNS[state_of(report)] if request.is_decided else "",
        policy=policy,
        style=style,
        early=early,
        script=script,
        is_decided=request.is_decided,
    )


def _hash_of(content: str) -> str:
    """Name content in a content security policy."""
    return f"'sha256-{base64.b64encode(hashlib.sha256(content.encode()).digest()).decode()}'"


@cache
def _environment() -> jinja2.Environment:
    environment = templates()
    environment.globals["signs"] = SIGNS
    environment.filters |= {
        "markdown": render_message,
        "sentence": sentence,
        "name": _name,
        "undecided": undecided,
        "notices": notices,
        "facts": facts.provenance,
        "judges": facts.judges,
    }
    environment.tests["markdown"] = _MARKDOWN.search
    environment.tests["web_address"] = is_web_address
    return environment


def _name(text: str) -> str:
    return one_line(text, limit=NAME_LIMIT) or "∅"


def _template(name: str) -> jinja2.Template:
    return _environment().get_template(f"{name}.j2")


def render_message(text: str) -> Markup:
    """Render Markdown. Links and images stay the text that they are.

    Example:
        >>> print(render_message("**Done**, see [here](https://example.org) <b>"))
        <p><strong>Done</strong>, see [here](https://example.org) &lt;b&gt;</p>
        <BLANKLINE>
    """
    parser = _parser()
    tokens = parser.parse(text)
    for token in tokens:
        # Nothing that the page does not allow: headings of its own, style attributes, languages.
        token.attrs.clear()
        token.info = ""
        if token.type in ("heading_open", "heading_close"):
            token.tag = "p"
            if token.nesting == 1:
                token.attrs["class"] = "heading"
    # markdown-it escapes the text of every token, and its own tags are the only ones.
    return Markup(parser.renderer.render(tokens, parser.options, {}))  # noqa: S704


@cache
def _parser() -> MarkdownIt:
    from markdown_it import MarkdownIt

    return MarkdownIt("commonmark", {"html": False}).enable("table").disable(list(_MARKDOWN_OFF))
