"""The HTML report as people use it: narrow, dark, printed, by keyboard, without script, behind a policy."""

import json
import threading
from collections.abc import Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from agent_eval.evidence.reader import Pack
from agent_eval.reports.html.lines import SuiteEvidence
from agent_eval.reports.html.page import render_html
from agent_eval.reports.model import EvaluationReport
from tests.browser import Browser, chromium
from tests.extent import OTHERS, WHOLE_JOB, unavailable
from tests.factories import make_case, make_event
from tests.unit.reports.html.pages import agent_says, pack_of, page_of, page_of_run, suite_of

AXE = Path(__file__).parents[2] / ".ci" / "axe" / "node_modules" / "axe-core" / "axe.min.js"
JENKINS = "sandbox allow-same-origin; default-src 'none'; img-src 'self'; style-src 'self';"
"""The content security policy under which Jenkins serves archived files."""
GREETING = "Hello!\n\n# Hours\n- **Mon** to *Fri*, see [here](https://example.org) <b>\n\n```\n1 < 2\n```"
REGRESSED, PACKED = "#case=refund%20over%20limit", "#case=greeting"

pytestmark = pytest.mark.usefixtures("browser")


def packs(folder: Path) -> tuple[Pack, Pack]:
    """Two runs: a conversation, a case with very long words, a refund, and cases that stay as they are."""
    found = {"items": [{"sku": "MUG-4", "price": 12.5}], "note": "x" * 400}
    order = ("lookup_order", {"order_id": 7}, found)
    turns = agent_says("It is free.", order, user="What is the shipping?")
    asked = [*turns, make_event(len(turns), actor="user", input="And to Peru?")]
    told_then, told_now = (make_event(len(asked), output=text) for text in ("20 EUR.", "I do not know."))
    others = [make_case(f"order-{number}") for number in range(30)]
    sides = []
    for name, answer, amount, conversation in (
        ("before", "I have refunded 12.50.", 12.5, [*asked, told_then]),
        ("now", "I have refunded 12.50 EUR.", "12.50 EUR", [*asked, told_now]),
    ):
        refund = ("refund", {"order_id": 7, "amount": amount, "reason": "damaged"}, {"ok": True})
        cases = [
            make_case("refund over limit", trace=agent_says(answer, order, refund)),
            make_case("shipping", trace=conversation), make_case("w" * 150, output="long" * 100),
            make_case("greeting", output=GREETING), *others,
        ]  # fmt: skip
        failed = {"refund over limit": "tool_contract", "shipping": "regex", "w" * 150: "policy"}
        failed = {} if name == "before" else failed
        sides.append(pack_of(folder / name, cases, failed=failed, run_id=name))
    return sides[0], sides[1]


def page_of_suites(before: Pack, now: Pack) -> str:
    """A page of two suites with the same cases."""
    suites = [suite_of(before, now, slug=name) for name in ("shop", "help")]
    evidence = {suite.slug: SuiteEvidence(candidate=now, baseline=before) for suite in suites}
    report = EvaluationReport(title="Agent evaluation", suites=suites)
    return render_html(report, evidence)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("pages")
    before, now = packs(place)
    (place / "compared.html").write_text(page_of(before, now), "utf-8")
    (place / "suites.html").write_text(page_of_suites(before, now), "utf-8")
    (place / "run.html").write_text(page_of_run(now), "utf-8")
    return place


@pytest.fixture(scope="module")
def opened() -> Iterator[Browser]:
    with chromium() as started:
        yield started


@pytest.fixture
def page(opened: Browser, folder: Path) -> Browser:
    """The page of the two runs, opened."""
    opened.open((folder / "compared.html").as_uri())
    return opened


def visible(page: Browser, selector: str) -> bool:
    """Whether an element is there and can be seen."""
    return bool(page.value(f"document.querySelector({json.dumps(selector)})?.checkVisibility() ?? false"))


def until(page: Browser, expression: str) -> None:
    """Wait until an expression is true."""
    loop = f"(async () => {{ for (let turn = 0; turn < 3000; turn++) {{ if ({expression}) return true; "
    loop += "await new Promise((go) => setTimeout(go, 10)); } return false; })()"
    assert page.value(loop), expression


def unfolded(page: Browser) -> None:
    """Unpack a case, and unfold everything."""
    page.value(f"document.querySelector('tr[data-block] a[href^={json.dumps(PACKED)}]').click()")
    until(page, "document.querySelector('.opened .case')")
    page.value("document.querySelectorAll('details').forEach((each) => { each.open = true; })")


@pytest.mark.parametrize("width", [390, 900, 1600])
def test_nothing_unfolded_is_wider_than_the_screen(width: int, opened: Browser, folder: Path) -> None:
    opened.open((folder / "compared.html").as_uri(), width=width)
    unfolded(opened)
    assert opened.value("document.documentElement.scrollWidth") == width


@pytest.mark.parametrize(
    ("name", "width", "dark"),
    [
        ("compared", 1200, False),
        ("compared", 390, True),
        ("suites", 1200, False),
        pytest.param("run", 1200, True, marks=OTHERS),
        pytest.param("run", 390, False, marks=OTHERS),
    ],
)
@WHOLE_JOB
def test_axe_finds_nothing(name: str, width: int, dark: bool, opened: Browser, folder: Path) -> None:
    if not AXE.exists():
        unavailable("without axe-core (make oracles)")
    opened.open((folder / f"{name}.html").as_uri(), width=width, dark=dark)
    unfolded(opened)
    opened.value(f"{AXE.read_text('utf-8')}; 0")
    found = opened.value("axe.run(document, {resultTypes: ['violations', 'incomplete']})")
    assert [told(each) for each in found["violations"]] == []
    # The signs are too short for axe to tell their contrast; they have the colour of the words beside them.
    assert [told(each) for each in found["incomplete"] if each["id"] != "color-contrast"] == []
    assert len(found["passes"]) > 20


def told(violation: dict[str, Any]) -> str:
    places = [node["html"][:120] for node in violation["nodes"][:3]]
    return f"{violation['id']}: {violation['help']}: {places}"


def test_a_link_to_a_regressed_case_unfolds_it(opened: Browser, folder: Path) -> None:
    opened.open((folder / "compared.html").as_uri() + "#case=shipping")
    until(opened, "document.activeElement.tagName === 'SUMMARY'")
    assert opened.value("document.getElementById('case=shipping').open")
    assert opened.value("document.activeElement.closest('.case').id") == "case=shipping"


def test_a_link_to_a_packed_case_unpacks_it(opened: Browser, folder: Path) -> None:
    opened.open((folder / "compared.html").as_uri() + PACKED)
    until(opened, "document.querySelector('.opened .case')")
    assert opened.value("document.querySelector('.opened .case').open")
    assert "Hello!" in opened.value("document.querySelector('.opened .case').innerText")


def test_a_link_to_a_step_leads_to_the_step(opened: Browser, folder: Path) -> None:
    opened.open((folder / "compared.html").as_uri() + f"{REGRESSED}&step=1")
    until(opened, "document.activeElement.textContent === '1 agent calls lookup_order'")


def test_a_case_is_unpacked_once(page: Browser) -> None:
    for _ in range(3):
        page.value(f"document.querySelector('a[href={json.dumps(PACKED)}]').click()")
        until(page, "document.querySelector('.opened .case')")
    assert page.value("document.querySelectorAll('.opened .case').length") == 1


ROWS = "[...document.querySelectorAll('.lines tbody tr')].filter((row) => !row.hidden)"
NAMES = f"{ROWS}.map((row) => row.cells[0].textContent.slice(0, 8))"


def find(page: Browser, text: str) -> None:
    page.value(
        f"{{ const find = document.querySelector('.filter input'); find.value = {json.dumps(text)};"
        "find.dispatchEvent(new Event('input')); 0 }"
    )


def choose(page: Browser, name: str, value: str) -> None:
    page.value(
        f"{{ const list = document.querySelector('.filter [name={name}]'); list.value = {json.dumps(value)};"
        "list.dispatchEvent(new Event('change')); 0 }"
    )


def test_cases_are_found_filtered_and_sorted(page: Browser) -> None:
    assert page.value("document.querySelector('output').textContent") == "34 of 34 cases"
    find(page, "ORDER-1")
    until(page, "document.querySelector('output').textContent === '11 of 34 cases'")
    assert page.value(f"{ROWS}.length") == 11
    find(page, "")
    choose(page, "show", "needs attention")
    until(page, f"{ROWS}.length === 3")
    page.value("document.querySelector('.lines th button').click()")
    assert page.value("document.querySelector('.lines th').getAttribute('aria-sort')") == "ascending"
    assert page.value(NAMES) == ["refund o", "shipping", "wwwwwwww"]
    page.value("document.querySelector('.lines th button').click()")
    assert page.value(NAMES)[0] == "w" * 8


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("MON** to", ["greeting"]),
        ("1 < 2", ["greeting"]),
        ("lookup_order", ["refund o", "shipping"]),
        ('"12.50 eur"', ["refund o"]),
        ("And to Peru?", ["shipping"]),
    ],
)
def test_find_looks_into_all_that_packed_cases_say(text: str, names: list[str], page: Browser) -> None:
    find(page, text)
    until(page, f"{ROWS}.length === {len(names)}")
    assert page.value(NAMES) == names
    shown = [name for name in names if name != "greeting"]
    assert page.value("document.querySelectorAll('.open .case:not([hidden])').length") == len(shown)


def test_a_filtered_view_can_be_sent_by_its_address(page: Browser, opened: Browser, folder: Path) -> None:
    choose(page, "judge", "regex")
    choose(page, "show", "regressed")
    find(page, "Peru")
    until(page, "location.hash === '#show=regressed&judge=regex&find=Peru'")
    assert page.value(NAMES) == ["shipping"]
    address = page.value("location.href")
    opened.open(address)
    until(opened, f"{ROWS}.length === 1")
    assert opened.value(NAMES) == ["shipping"]
    chosen = opened.value("[...document.querySelectorAll('.filter select')].map((each) => each.value)")
    assert chosen == ["regressed", "regex", ""]


def test_in_a_report_of_several_suites_an_address_filters_its_suite(opened: Browser, folder: Path) -> None:
    opened.open((folder / "suites.html").as_uri() + "#judge=regex&suite=help")
    until(opened, f"{ROWS}.length === 34 + 1")


def press(page: Browser, address: str, name: str) -> None:
    """Press a button of a case; what it copies is in `window.copied`."""
    page.value(
        "Object.defineProperty(navigator, 'clipboard', {configurable: true, "
        "value: {writeText: (text) => { window.copied = text; }}}); window.copied = ''; "
        f"[...document.getElementById({json.dumps(address[1:])}).querySelectorAll('.tools button')]"
        f".find((each) => each.textContent === {json.dumps(name)}).click()"
    )
    until(page, "window.copied")


def test_a_case_is_copied_for_an_assistant_with_both_runs(page: Browser) -> None:
    press(page, REGRESSED, "Copy for an assistant")
    text = page.value("window.copied")
    assert text.startswith("# Case refund over limit\n\n✗ failed")
    verdict = "tool_contract; now: ✗ failed"
    order = ("## Verdicts", verdict, "## Baseline", '"amount": 12.5', "## Candidate", '"12.50 EUR"')
    places = [text.index(each) for each in order]
    assert places == sorted(places)
    press(page, REGRESSED, "Copy link")
    assert page.value("window.copied").endswith("compared.html#case=refund%20over%20limit")


def test_no_fence_that_a_case_says_ends_the_one_around_it(page: Browser) -> None:
    page.value(f"document.querySelector('a[href={json.dumps(PACKED)}]').click()")
    until(page, "document.querySelector('.opened .case .tools')")
    press(page, PACKED, "Copy for an assistant")
    assert f"\n````\n{GREETING}\n````\n" in page.value("window.copied")


def test_messages_are_shown_as_markdown_on_request_without_links(page: Browser) -> None:
    page.value("document.querySelector('.switch input').click()")
    page.value(f"document.querySelector('a[href={json.dumps(PACKED)}]').click()")
    until(page, "document.querySelector('.opened .markdown')")
    shown = "document.querySelector('.opened .markdown')"
    names = page.value(f"[...{shown}.querySelectorAll('*')].map((each) => each.localName)")
    assert names == ["p", "p", "ul", "li", "strong", "em", "pre", "code"]
    lines = page.value(f"{shown}.innerText.split('\\n').filter(Boolean)")
    assert lines == ["Hello!", "Hours", "Mon to Fri, see [here](https://example.org) <b>", "1 < 2"]
    page.value("document.querySelector('.switch input').click()")
    assert not visible(page, ".opened .markdown")


def test_keys_lead_to_the_search_and_through_the_cases(page: Browser) -> None:
    page.key("/")
    assert page.value("document.activeElement.type") == "search"
    page.key("n")
    assert page.value("document.activeElement.value") == "n"
    page.key("Escape")
    page.value("document.activeElement.blur()")
    ids = []
    for key in ("n", "j"):
        page.key(key)
        ids.append(page.value("document.activeElement.closest('.case').id"))
    page.key("k")
    assert ids == page.value("[...document.querySelectorAll('.case')].slice(0, 2).map((each) => each.id)")
    assert page.value("document.activeElement.closest('.case').id") == ids[0]
    page.key("d")
    assert page.value("document.activeElement.closest('tr').className") == "arguments"
    page.key("Escape")
    assert page.value(f"document.getElementById({json.dumps(ids[0])}).open") is False
    for key, unfolded_cases in (("e", 3), ("c", 0)):
        page.key(key)
        assert page.value("document.querySelectorAll('.case[open]').length") == unfolded_cases
    page.key("?")
    assert visible(page, "dialog")
    page.key("Escape")
    assert not visible(page, "dialog")


def test_everything_is_reached_with_the_tab_key(page: Browser) -> None:
    page.key("Tab")
    seen = []
    for _ in range(40):
        seen.append(page.value("document.activeElement.outerHTML.slice(0, 40)"))
        page.key("Tab")
    controls = ("<summary><h4>", '<input type="search"', "<select name", "<button")
    for start in ('<a href="#open-1"', *controls, '<a href="#case='):
        assert any(each.startswith(start) for each in seen), start


def test_without_script_the_regressed_cases_and_all_rows_can_be_read(opened: Browser, folder: Path) -> None:
    opened.open((folder / "compared.html").as_uri(), script=False)
    # The protocol can evaluate where the page's own script may not run.
    assert visible(opened, ".case[open] .steps ins")
    lines = "[...document.querySelectorAll('.lines tbody tr')]"
    assert opened.value(f"{lines}.every((row) => row.checkVisibility())")
    assert [name for name in (".filter", ".opened", ".keys") if visible(opened, name)] == []
    assert "agent-eval show out/shop CASE" in opened.value("document.querySelector('.packed').innerText")


def test_a_printed_page_shows_folded_cases_and_no_controls(page: Browser) -> None:
    page.value("document.querySelector('.case').open = false")
    page.call("Emulation.setEmulatedMedia", {"media": "print"})
    assert visible(page, "details.case:not([open]) .steps")
    assert not visible(page, ".filter")
    assert not visible(page, "nav")


class _LikeJenkins(SimpleHTTPRequestHandler):
    def end_headers(self) -> None:
        self.send_header("Content-Security-Policy", JENKINS)
        super().end_headers()

    def log_request(self, *_args: Any) -> None:
        """Say nothing."""


def test_under_the_policy_of_jenkins_it_can_still_be_read(opened: Browser, folder: Path) -> None:
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(_LikeJenkins, directory=str(folder)))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        opened.open(f"http://127.0.0.1:{server.server_port}/compared.html")
        text = opened.value("document.body.innerText")
        assert opened.value("document.documentElement.className") == ""
        assert opened.value("getComputedStyle(document.querySelector('.brief')).borderLeftWidth") == "0px"
    finally:
        server.shutdown()
        server.server_close()
    steps = text[text.index("refund over limit") :]
    order = [steps.index(each) for each in ("Baseline\tCandidate", '"amount": 12.5', '"amount": "12.50 EUR"')]
    assert order == sorted(order)
    assert "Find" not in text
