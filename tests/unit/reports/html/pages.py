"""Pages of small evaluations, from packs that are made in a folder, and what a parser reads in a page."""

from __future__ import annotations

import base64
import json
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

from agent_eval.contracts import CaseResult, GateDecision, Thresholds
from agent_eval.evidence.reader import Pack, open_pack
from agent_eval.gate.decide import decide
from agent_eval.operations.compare import compared
from agent_eval.operations.packs import view
from agent_eval.reports.html.lines import SuiteEvidence
from agent_eval.reports.html.page import render_html
from agent_eval.reports.model import EvaluationReport, SuiteReport, undecided
from tests.factories import make_case, make_config, make_event, make_pack, make_result

NOW = "2026-11-22T12:00:00+00:00"
VOID = {"meta", "link", "br", "img", "input", "hr"}


@dataclass
class Element:
    """An element of a parsed page."""

    tag: str
    attributes: dict[str, str]
    text: str = ""
    children: list[Element] = field(default_factory=list)

    def all(self, tag: str, **attributes: str) -> list[Element]:
        """Every element below this one with a tag and these attributes, in order; `class_` is one class."""
        found = []
        for child in self.children:
            if child.tag == tag and all(child.has(name, value) for name, value in attributes.items()):
                found.append(child)
            found += child.all(tag, **attributes)
        return found

    def has(self, name: str, value: str) -> bool:
        """Whether an attribute has a value; of classes, whether it is one of them."""
        stated = self.attributes.get(name.rstrip("_"), "")
        return value in stated.split() if name == "class_" else value == stated

    @property
    def words(self) -> str:
        """Its text and that of all elements below, with single spaces."""
        return " ".join(self.text.split())


class Parser(HTMLParser):
    """Builds a tree, whose elements know all text below them."""

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.root = Element("page", {})
        self._open = [self.root]

    def handle_starttag(self, tag: str, attrs: Sequence[tuple[str, str | None]]) -> None:
        element = Element(tag, {name: value or "" for name, value in attrs})
        self._open[-1].children.append(element)
        if tag not in VOID:
            self._open.append(element)

    def handle_endtag(self, tag: str) -> None:
        while len(self._open) > 1:
            if self._open.pop().tag == tag:
                return

    def handle_data(self, data: str) -> None:
        for element in self._open:
            element.text += data if element.tag in ("pre", "script", "style") else f"{data} "


def parsed(markup: str) -> Element:
    parser = Parser()
    parser.feed(markup)
    parser.close()
    return parser.root


def packed_cases(page: str) -> dict[str, str]:
    """The markup of the packed cases of a page, by anchor."""
    scripts = parsed(page).all("script", type="text/plain")
    return {anchor: markup for script in scripts for anchor, markup in unpacked(script.text)}


def unpacked(block: str) -> list[tuple[str, str]]:
    """What a browser makes of a block: the anchor and the markup of each case."""
    return [tuple(case) for case in json.loads(zlib.decompress(base64.b64decode(block), -15))]


def agent_says(
    text: str, *calls: tuple[str, Any, Any], user: str = "Refund order 7."
) -> list[dict[str, Any]]:
    """A trace: the user's message, calls with arguments and results, and the agent's answer."""
    events = [make_event(0, actor="user", input=user)]
    for tool, arguments, answer in calls:
        events.append(make_event(len(events), type="tool_call", tool=tool, input=arguments))
        events.append(make_event(len(events), actor="tool", type="tool_result", tool=tool, output=answer))
    return [*events, make_event(len(events), output=text)]


def pack_of(
    root: Path, cases: Sequence[Mapping[str, Any]], *, failed: Mapping[str, str] = {}, run_id: str = "run"
) -> Pack:
    """A pack of cases, in which the named judge failed the named cases because of event 1."""
    results = [make_result(case["case_id"], failed=failed.get(case["case_id"], ())) for case in cases]
    for result in results:
        for verdict in result.verdicts:
            verdict.evidence_refs = [] if verdict.passed else [1]
    config = make_config(run_id=run_id, model="gpt-4o", agent_version="2.4.0")
    make_pack(root, results, cases=[dict(case) for case in cases], config=config, layout="compact")
    return open_pack(root)


def judged_pack(root: Path, result: CaseResult, case: Mapping[str, Any], judge: str = "policy") -> Pack:
    """A pack of one case that one judge judged; its folder is its run's name."""
    config = make_config(judges=[judge], run_id=root.name)
    return open_pack(make_pack(root, [result], cases=[dict(case)], layout="compact", config=config))


def small_packs(folder: Path) -> tuple[Pack, Pack]:
    """Two runs of three cases: one got worse, one is the same, one is new."""
    lookup = ("lookup_order", {"order_id": 7}, {"total": 89.0, "status": "delivered"})
    refund = ("refund", {"order_id": 7, "amount": 12.5}, {"ok": True})
    wrong = ("refund", {"order_id": 7, "amount": "12.50 EUR"}, {"ok": True})
    same = make_case("greeting", output="Hello! How can I help?")
    before = [
        make_case("refund over limit", trace=agent_says("I have refunded 12.50.", lookup, refund)),
        same,
    ]
    now = [
        make_case("refund over limit", trace=agent_says("I have refunded 12.50 EUR.", lookup, wrong)),
        same,
        make_case("<script>alert(1)</script>", output="**Done**, see [here](https://example.org)."),
    ]
    return (
        pack_of(folder / "before", before, run_id="main-17"),
        pack_of(folder / "now", now, failed={"refund over limit": "tool_contract"}, run_id="change-18"),
    )


def suite_of(before: Pack, now: Pack, *, decision: GateDecision | None = None, **more: Any) -> SuiteReport:
    """The report of two packs, decided by a limit of no regressed case."""
    comparison = compared(before, now, generated_at=NOW)
    decided = decision or decide(comparison, Thresholds(max_regressed_cases=0), generated_at=NOW)
    told: dict[str, Any] = {"slug": "shop", "suite_path": "suites/shop.json", **more}
    return SuiteReport(decision=decided, candidate=comparison.candidate, comparison=comparison, **told)


def page_of_run(pack: Pack) -> str:
    reference = view(pack).reference()
    suite = SuiteReport(slug="shop", suite_path="", decision=undecided(reference), candidate=reference)
    report = EvaluationReport(title="Agent evaluation", suites=[suite])
    evidence = SuiteEvidence(candidate=pack, place="out/shop")
    return render_html(report, {"shop": evidence}, is_decided=False)


def page_of(before: Pack, now: Pack, *, suite: SuiteReport | None = None, **more: Any) -> str:
    shown = suite or suite_of(before, now)
    report = EvaluationReport(title="Agent evaluation", suites=[shown], tool_version="0.1.0")
    evidence = SuiteEvidence(candidate=now, baseline=before, place="out/shop")
    return render_html(report, {shown.slug: evidence}, **more)
