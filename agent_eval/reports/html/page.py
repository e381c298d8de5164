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
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache, cached_property
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import jinja2
from markupsafe import Markup, escape

from agent_eval.reports import suite as facts
from agent_eval.reports.blocks import code
from agent_eval.reports.causes import Cause
from agent_eval.reports.counts import judging_words, not_judged, passing
from agent_eval.reports.history import history_view
from agent_eval.reports.html.case import CaseLimits, case_view
from agent_eval.reports.html.lines import EXCUSED, LESS_OFTEN, CaseLine, SuiteEvidence, case_lines
from agent_eval.reports.layout import templates
from agent_eval.reports.model import EvaluationReport, State, Story, SuiteReport
from agent_eval.reports.story import overall, state_of, story_of
from agent_eval.text.escape import is_web_address, one_line, shell_word
from agent_eval.text.numbers import count

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

NAME_LIMIT, CAUSE_LIMIT, SENTENCE_LIMIT = 120, 80, 600
"""Characters of a name, of a cause in the filter, and of a sentence."""

BLOCK_CHARACTERS = 200_000
"""Characters of markup in a block before it is compressed: a browser unpacks as much at once."""

_SIGNS: dict[State, str] = {"passed": "✓", "failed": "✗", "error": "‼", "inconclusive": "?", "skipped": "–"}
_MARKDOWN_OFF = ("link", "image", "autolink", "reference", "html_inline", "html_block", "entity")
_MARKDOWN = re.compile(r"(?m)[*`|]|\b_\w|^\s*(?:#{1,6} |[-+>]|\d+[.)] )")
"""What a text must have somewhere for its Markdown to look otherwise than the text."""
_TEMPLATES = Path(__file__).with_name("templates")
_TAG = re.compile(r"(<[^>]*>)")
_FIXED_BYTES = 60_000


class Words(NamedTuple):
    """A part of a sentence, set as code or not."""

    is_code: bool
    text: str


Sentence = list[Words]


def sentence(text: str, *, limit: int = SENTENCE_LIMIT) -> Sentence:
    """Divide a sentence at its backticks, without invisible characters."""
    parts = re.split("`([^`]*)`", one_line(text, limit=limit))
    return [Words(place % 2 == 1, part) for place, part in enumerate(parts) if part]


@dataclass
class SuitePart:
    """The part of a page on one suite.

    Attributes:
        number: From 1, for addresses.
        suite: The suite, without its comparison where the decision cannot be relied on.
        lines: The rows of the table of cases; `hidden_lines` counts those that it has no room for.
        opened: Markup of the cases in full, by anchor.
        left_out: Cases of the table whose steps the page has no room for.
    """

    number: int
    suite: SuiteReport
    evidence: SuiteEvidence
    story: Story
    lines: list[CaseLine]
    hidden_lines: int = 0
    opened: dict[str, Markup] = field(default_factory=dict)
    left_out: int = 0

    @property
    def columns(self) -> frozenset[str]:
        """Optional columns of the table that some case fills."""
        optional = ("before", "change", "trials", "cost", "latency")
        return frozenset(name for name in optional if any(getattr(line, name) for line in self.lines))

    @property
    def show(self) -> str:
        """Shell command that shows a case in a terminal, with `CASE` in its place; empty without a pack."""
        place = self.evidence.place
        return f"agent-eval show {shell_word(place)} CASE" if place and "\0" not in place else ""

    @cached_property
    def judges(self) -> list[str]:
        """Those that object to some case, to filter by."""
        return sorted({judge for line in self.lines for judge in line.judges})

    @property
    def causes(self) -> list[str]:
        """Why cases regressed, to filter by."""
        words = ("".join(part.text for part in _cause_words(cause)) for cause in self.suite.causes)
        return [one_line(text, limit=CAUSE_LIMIT) for text in words]

    @cached_property
    def cause_of(self) -> dict[str, int]:
        """The place of a case's cause in `causes`, by the case's id."""
        return {row.case_id: place for place, cause in enumerate(self.suite.causes) for row in cause.cases}

    @cached_property
    def groups(self) -> list[tuple[Sentence, list[Markup]]]:
        """The cases in full below a common title: those with one cause, or that changed alike."""
        opened, groups = dict(self.opened), []
        anchors = {line.case_id: line.anchor for line in self.lines}
        for cause in self.suite.causes:
            places = [anchors.get(row.case_id, "") for row in cause.cases]
            groups.append((_cause_words(cause), [opened.pop(each) for each in places if each in opened]))
        change_of = {line.anchor: line.change for line in self.lines}
        titles = {EXCUSED: "Newly failing, and not blocking", LESS_OFTEN: "Fewer trials pass than before"}
        for change in dict.fromkeys(change_of[anchor] for anchor in opened):
            title = titles.get(change, (change or "do not pass").capitalize())
            alike = [markup for anchor, markup in opened.items() if change_of[anchor] == change]
            groups.append((sentence(title), alike))
        return [group for group in groups if group[1]]

    def has_more(self, line: CaseLine) -> bool:
        """Whether there is anything to show of a case beyond its row."""
        known = (self.evidence.now.results, self.evidence.before.results)
        return line.regression is not None or any(line.case_id in each for each in known)


def render_html(
    report: EvaluationReport,
    evidence: Mapping[str, SuiteEvidence] | None = None,
    *,
    is_decided: bool = True,
) -> str:
    """Write the page. The same report and packs give the same text.

    `evidence` has the packs by the slug of their suite.
    """
    parts = []
    for number, stated in enumerate(report.worst_first, 1):
        packs = (evidence or {}).get(stated.slug, SuiteEvidence())
        is_evaluated = report.is_evaluated(stated)
        # What got worse would say something of the change.
        suite = stated if is_evaluated else replace(stated, comparison=None)
        lines = case_lines(suite, packs, anchored=suite.slug if len(report.suites) > 1 else "")
        story = story_of(suite, is_evaluated=is_evaluated)
        parts.append(SuitePart(number, suite, packs, story, lines))
    room = min(CAP, max(SMALL, PER_CASE * sum(len(part.lines) for part in parts))) - _FIXED_BYTES
    room -= _keep_lines_that_fit(parts, room)
    room -= _open_cases(parts, report, min(OPEN_LIMIT, int(room * OPEN_SHARE)))
    blocks, block_of = _packed(parts, report, room)
    for part in parts:
        known = part.opened.keys() | block_of.keys()
        part.left_out = sum(line.anchor not in known and part.has_more(line) for line in part.lines)
    # Files of our own, which are put into the page as they are.
    style, early, script = (
        Markup((_TEMPLATES / name).read_text("utf-8"))  # noqa: S704
        for name in ("style.css", "early.js", "script.js")
    )
    hashes = [
        f"'sha256-{base64.b64encode(hashlib.sha256(content.encode()).digest()).decode()}'"
        for content in (early, script, style)
    ]
    policy = (
        f"default-src 'none'; script-src {hashes[0]} {hashes[1]}; style-src {hashes[2]}; "
        "base-uri 'none'; form-action 'none'"
    )
    return _template("page.html").render(
        title=one_line(report.title, limit=120),
        report=report,
        parts=parts,
        blocks=blocks,
        block_of=block_of,
        warnings=[*report.warnings, *report.rule_changes.sentences],
        headline=sentence(overall(report)) if is_decided else [],
        state=state_of(report),
        policy=policy,
        style=style,
        early=early,
        script=script,
        is_decided=is_decided,
    )


def _keep_lines_that_fit(parts: Sequence[SuitePart], room: int) -> int:
    """Drop the last rows where all of them together would take most of the page; return their bytes."""
    spent = 0
    for part in parts:
        columns = part.columns
        for number, line in enumerate(part.lines):
            # A row is at most as long as its texts, escaped, with its tags and addresses.
            texts = (line.anchor, line.name, 2 * line.outcome, 2 * line.before, line.change, line.trials)
            words = "".join((*texts, line.cost, line.latency, line.reason))
            spent += len(escape(words).encode("utf-8", "replace")) + 110 + 12 * len(columns)
            spent += 12 * ("before" in columns) + 20 * len(columns & {"cost", "latency"})
            spent += 40 + 4 * len(line.judges) if line.needs_attention else 0
            if spent > room * 3 // 4:
                part.hidden_lines = len(part.lines) - number
                del part.lines[number:]
                break
    return spent


def _open_cases(parts: Sequence[SuitePart], report: EvaluationReport, room: int) -> int:
    """Render cases in full, first one of each cause, until there is no more room; return their bytes."""
    spent = 0
    for part in parts:
        by_id = {line.case_id: line for line in part.lines if line.is_open}
        causes = [cause.cases[0].case_id for cause in part.suite.causes]
        others = [row.case_id for cause in part.suite.causes for row in cause.cases[1:]]
        ordered = [each for each in dict.fromkeys([*causes, *others, *by_id]) if each in by_id]
        firsts = {*(causes or ordered[:1])[:AT_FIRST]}
        for line in map(by_id.__getitem__, ordered):
            markup = _case_markup(part, line, report, IN_FULL, at_first=line.case_id in firsts)
            size = len(markup.encode("utf-8", "replace"))
            if spent + size > room:
                return spent
            part.opened[line.anchor] = markup
            spent += size
    return spent


def _packed(
    parts: Sequence[SuitePart], report: EvaluationReport, room: int
) -> tuple[list[str], dict[str, int]]:
    """Pack the other cases into blocks, until there is no more room; with the block of each by its anchor.

    A browser unpacks one block on a click. It is JSON, `[[anchor, markup], …]`, compressed with deflate, in
    base64, which can neither end the element that holds it nor be read as markup.
    """
    blocks: list[str] = []
    block_of: dict[str, int] = {}
    others = [
        (part, line)
        for part in parts
        for line in part.lines
        if line.anchor not in part.opened and part.has_more(line)
    ]
    cases: list[tuple[str, str]] = []
    for following, (part, line) in zip(range(len(others))[::-1], others, strict=True):
        cases.append((line.anchor, _case_markup(part, line, report, PACKED)))
        if following and sum(len(markup) for _, markup in cases) < BLOCK_CHARACTERS:
            continue
        text = json.dumps(cases, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "replace")
        compressor = zlib.compressobj(9, zlib.DEFLATED, -15)
        block = base64.b64encode(compressor.compress(text) + compressor.flush()).decode()
        room -= len(block)
        if room < 0:
            break
        block_of.update((anchor, len(blocks)) for anchor, _ in cases)
        blocks.append(block)
        cases = []
    return blocks, block_of


def _case_markup(
    part: SuitePart, line: CaseLine, report: EvaluationReport, limits: CaseLimits, *, at_first: bool = False
) -> Markup:
    redactor = part.evidence.redactor
    command = report.reproduce_command(part.suite, line.case_id) if part.suite.suite_path else ""
    view = case_view(line, part.evidence, limits)
    markup = _template("case.html").render(line=line, command=command, at_first=at_first, **view)
    # No rule of the user's changes a tag; what it matches is in the texts between them.
    texts = _TAG.split(redactor.of_secrets.redact_text(markup))
    texts[::2] = map(redactor.redact_text, texts[::2])
    return Markup("".join(texts))  # noqa: S704


def _template(name: str) -> jinja2.Template:
    return _environment().get_template(f"{name}.j2")


@cache
def _environment() -> jinja2.Environment:
    environment = templates()
    environment.globals["signs"] = _SIGNS
    environment.filters |= {
        "markdown": render_message,
        "sentence": sentence,
        "name": lambda text: one_line(text, limit=NAME_LIMIT) or "∅",
        "undecided": _undecided,
        "notices": _notices,
        "facts": facts.provenance,
        "judges": facts.judges,
        "history": history_view,
    }
    environment.tests["markdown"] = _MARKDOWN.search
    environment.tests["web_address"] = is_web_address
    return environment


def _cause_words(cause: Cause) -> Sentence:
    words = cause.words(code)
    return sentence(f"{words[:1].upper()}{words[1:]}")


def _undecided(suite: SuiteReport) -> str:
    if suite.comparison is None:
        return passing(suite.candidate.summary)
    overview = suite.comparison.overview
    return (
        f"{count(overview.compared_cases, 'case')} compared: {overview.regressed_cases:,} regressed, "
        f"{overview.improved_cases:,} improved. {passing(suite.candidate.summary)}"
    )


def _notices(suite: SuiteReport, story: Story) -> Iterable[str]:
    if compared := facts.compared_with(suite, None):
        how = f" ({facts.how_found(suite.baseline)})" if suite.baseline is not None else ""
        yield f"Compared: {compared}{how}."
    yield from (note for note in (suite.baseline_note, *story.notes, story.spent, *story.set_aside) if note)
    yield from (finding.text for finding in story.sets)
    yield from facts.incompatible(suite.comparison) if suite.comparison is not None else ()
    yield from not_judged(suite.candidate.summary)
    yield from judging_words(suite.candidate.summary)


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
