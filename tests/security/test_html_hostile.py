"""Nothing that agents, suites and packs say does anything in the HTML report."""

import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import jinja2
import pytest

from agent_eval.contracts import AppliedWaiver, ExpiredExcuse
from agent_eval.evidence.reader import open_pack
from agent_eval.reports.html import page as page_module
from agent_eval.reports.html.lines import SuiteEvidence
from agent_eval.reports.html.page import render_html
from agent_eval.reports.layout import templates
from agent_eval.reports.model import EvaluationReport, RuleChanges, SuiteReport
from tests.browser import Browser, chromium
from tests.extent import WHOLE_JOB
from tests.factories import make_config, make_event, make_pack
from tests.security.hostile_strings import HOSTILE
from tests.unit.comparison.views import result
from tests.unit.reports.html.pages import Element, packed_cases, parsed, suite_of

TAGS = {
    *("html", "head", "meta", "title", "style", "script", "body", "header", "h1", "h2", "h3", "h4", "p"),
    *("nav", "ul", "li", "a", "main", "section", "div", "b", "code", "small", "details", "summary", "table"),
    *("caption", "thead", "tbody", "tr", "th", "td", "pre", "del", "ins", "footer", "kbd", "label", "input"),
    *("select", "option", "output", "dialog", "button", "meter", "span"),
    *("strong", "em", "ol", "br", "hr", "blockquote"),
}
ATTRIBUTES = {
    *("lang", "charset", "content", "name", "http-equiv", "class", "id", "href", "type", "hidden", "role"),
    *("aria-label", "aria-labelledby", "aria-hidden", "aria-live", "autocomplete", "scope", "colspan", "rel"),
    *("data-block", "data-value", "data-judges", "data-cause", "data-suite", "placeholder", "value", "max"),
    "open",
}


def trace_of(text: str) -> list[dict[str, Any]]:
    """A trace that has a text in every place of an event."""
    event: dict[str, Any] = {"tool": text, "call_id": text, "model": text, "agent_name": text}
    return [
        make_event(0, actor="user", input=text),
        make_event(1, type="tool_call", input={text: [text, {text: text}]}, **event),
        make_event(2, actor=text, type="tool_result", output=text, error={"message": text}, **event),
        make_event(3, type="reasoning", output=text, attributes={text: text}),
        make_event(4, type=text, actor=text, output=[text], stop_reason=text, block_reason=text),
        make_event(5, output=text, attempt=2),
    ]


def case_of(number: int, text: str, answer: str) -> dict[str, Any]:
    trace = trace_of(text)
    trace[-1]["output"] = f"{text} {answer}"
    return {
        "case_id": f"{number} {text}", "input": {text: text}, "expected_output": text,
        "regex_patterns": [text], "metadata": {text: text}, "trace": trace,
    }  # fmt: skip


def pack_at(
    root: Path, texts: list[str], answer: str, failing: set[int], run: str
) -> page_module.SuiteEvidence:
    cases = [case_of(number, text, answer) for number, text in enumerate(texts)]
    results = [
        result(case["case_id"], "failed" if number in failing else "passed", reason=text)
        for number, (case, text) in enumerate(zip(cases, texts, strict=True))
    ]
    described = {"model": run, "agent_version": run, "git_commit": run, "run_id": run, "judges": ["policy"]}
    make_pack(root, results, cases=cases, layout="compact", config=make_config(**described))
    return open_pack(root)


def page_of(folder: Path, texts: list[str], *, everywhere: str) -> str:
    """A page with one case of each text, half of them regressed, and a text in every place of the run."""
    failing = set(range(0, len(texts), 2))
    before = pack_at(folder / "before", texts, "then", set(), f"{everywhere} before")
    now = pack_at(folder / "now", texts, "now", failing, f"{everywhere} now")
    suite = suite_of(before, now)
    comparison = suite.comparison
    assert comparison is not None
    comparison.behaviour.notices.append(everywhere)
    comparison.compatibility.failures[:] = []
    excuse: dict[str, Any] = {"waiver_id": everywhere, "expires_at": everywhere, "case_ids": [everywhere]}
    stated = {name: [everywhere] for name in ("quarantined_case_ids", "failures", "explanation")}
    waivers = [AppliedWaiver(approved_by=everywhere, reason=everywhere, **excuse)]
    decision = suite.decision.model_copy(
        update={**stated, "waivers": waivers, "expired": [ExpiredExcuse(**excuse)]}
    )
    places = dict.fromkeys(("slug", "suite_path", "baseline_note"), everywhere)
    return render_html(
        report_of(replace(suite, decision=decision, **places), everywhere),
        {everywhere: SuiteEvidence(candidate=now, baseline=before, place=everywhere)},
    )


def report_of(suite: SuiteReport, text: str) -> EvaluationReport:
    names = ("title", "comment_id", "run_url", "head_sha", "evidence_name", "evidence_url", "html_name")
    texts: dict[str, Any] = dict.fromkeys((*names, "tool_version", "not_evaluated"), text)
    changes = RuleChanges(sentences=[text])
    return EvaluationReport(suites=[suite], warnings=[text], rule_changes=changes, **texts)


def elements(element: Element, *, without: str = "") -> Iterator[Element]:
    """Everything below an element, but for elements of a class."""
    for child in element.children:
        if not (without and child.has("class_", without)):
            yield child
            yield from elements(child, without=without)


def structure(markup: str) -> list[tuple[str, tuple[str, ...]]]:
    """Tags and names of attributes, in order, without messages as Markdown, whose tags are their own."""
    return [(each.tag, tuple(each.attributes)) for each in elements(parsed(markup), without="markdown")]


def assert_inert(markup: str) -> None:
    for element in elements(parsed(markup)):
        assert element.tag in TAGS, element
        assert set(element.attributes) <= ATTRIBUTES, element
        assert element.attributes.get("href", "#").startswith("#"), element


@pytest.mark.parametrize("number", range(0, len(HOSTILE), 10))
def test_hostile_text_leaves_the_structure_of_a_page_as_it_is(number: int, tmp_path: Path) -> None:
    texts = list(HOSTILE[number : number + 10])
    pages = []
    for name, chosen in (("hostile", texts), ("harmless", ["harmless text"] * len(texts))):
        pages.append(page_of(tmp_path / name, chosen, everywhere=chosen[number // 10 % 10]))
    hostile, harmless = pages
    assert_inert(hostile)
    assert _of_fixed_places(hostile) == _of_fixed_places(harmless)
    assert len(packed_cases(hostile)) == len(packed_cases(harmless)) == 5
    for markup in packed_cases(hostile).values():
        assert_inert(markup)


def _of_fixed_places(page: str) -> list[tuple[str, tuple[str, ...]]]:
    """The structure without what depends on words: code in sentences, marks of differences, causes."""
    return [
        (tag, tuple(name for name in names if name != "open"))
        for tag, names in structure(page)
        if tag not in ("code", "ins", "del", "b", "p", "small", "pre", "option")
    ]


UNPACKED = """
(async () => {
  const opened = () => document.querySelectorAll(".opened .case").length;
  for (const link of document.querySelectorAll("tr[data-block] a")) {
    const before = opened();
    link.click();
    for (let turn = 0; turn < 200 && opened() === before; turn++)
      await new Promise((go) => setTimeout(go, 5));
  }
  for (const each of document.querySelectorAll("details")) each.open = true;
  document.querySelector(".switch input").click();
  const find = document.querySelector(".filter input");
  find.value = "a";
  find.dispatchEvent(new Event("input"));
  for (const each of document.querySelectorAll(".tools button")) each.click();
  for (const each of document.querySelectorAll("button, summary, a")) each.focus();
  await new Promise((go) => setTimeout(go, 200));
  return opened();
})()
"""
FOREIGN = """
[...document.querySelectorAll("*")].filter((each) =>
  [...each.attributes].some((one) => /^on|^style$/i.test(one.name))
  || ["IFRAME", "OBJECT", "EMBED", "IMG", "SVG", "MATH", "FORM", "LINK", "BASE", "VIDEO", "TEMPLATE"]
    .includes(each.tagName.toUpperCase())).length
"""


def deeds(browser: Browser, page: Path, *, script: bool = True) -> list[str]:
    """Open a page, unpack and unfold all of it, and list everything that no page of text does."""
    browser.open(page.as_uri(), width=1200, script=script)
    found = []
    if script:
        expected = browser.value('document.querySelectorAll("tr[data-block]").length')
        assert browser.value(UNPACKED) == expected
        found = [f"{browser.value(FOREIGN)} foreign elements"] if browser.value(FOREIGN) else []
        found += ["a script ran"] if browser.value("window.hostile !== undefined") else []
    return [*found, *browser.events.suspicious]


@pytest.mark.usefixtures("browser")
@WHOLE_JOB
def test_two_hundred_hostile_texts_in_every_place_do_nothing_in_a_browser(tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    page.write_text(page_of(tmp_path, list(HOSTILE), everywhere=" ".join(HOSTILE[::41])), "utf-8")
    with chromium() as browser:
        assert (deeds(browser, page), deeds(browser, page, script=False)) == ([], [])


def forget_templates() -> None:
    page_module._environment.cache_clear()
    templates.cache_clear()


@pytest.mark.usefixtures("browser")
def test_what_would_go_wrong_is_noticed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without escaping, the policy still lets nothing run, and says so; without both, all is noticed."""
    environment = jinja2.Environment
    forget_templates()
    monkeypatch.setattr(jinja2, "Environment", lambda **more: environment(**{**more, "autoescape": False}))
    texts = [
        "<img src=http://hostile.test/ onerror=alert('hostile')>",
        "<script>window.hostile=1;console.log(1)</script>",
    ]
    try:
        unescaped = page_of(tmp_path, texts * 3, everywhere="text")
    finally:
        forget_templates()
    page = tmp_path / "page.html"
    with chromium() as browser:
        page.write_text(unescaped, "utf-8")
        browser.open(page.as_uri())
        assert any("Content Security Policy" in entry for entry in browser.events.errors)
        assert browser.value("window.hostile") is None
        assert not browser.events.dialogs
        page.write_text(re.sub(r'<meta http-equiv="Content-Security-Policy"[^>]*>', "", unescaped), "utf-8")
        browser.open(page.as_uri())
        assert browser.value("window.hostile") == 1
        noticed = browser.events
        assert noticed.dialogs
        assert noticed.console
        assert "http://hostile.test/" in noticed.requests
