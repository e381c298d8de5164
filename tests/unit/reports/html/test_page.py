from __future__ import annotations

import base64
import hashlib
import html
import random
import re
from dataclasses import replace
from pathlib import Path

import pytest

from agent_eval.contracts import GateStatus, case_result
from agent_eval.reports.html import page as page_module
from agent_eval.reports.html.lines import SuiteEvidence
from agent_eval.reports.html.page import render_html
from agent_eval.reports.model import BaselineInfo, EvaluationReport
from agent_eval.storage.redaction import Redactor
from tests.factories import make_case, make_verdict
from tests.unit.comparison.views import tried
from tests.unit.reports import scenarios, situations
from tests.unit.reports.html.pages import (
    agent_says,
    judged_pack,
    pack_of,
    packed_cases,
    page_of,
    page_of_run,
    parsed,
    small_packs,
    suite_of,
)
from tests.unit.reports.scenarios import by_policy, judged
from tests.unit.reports.situations import conversation


@pytest.fixture
def page(tmp_path: Path) -> str:
    return page_of(*small_packs(tmp_path))


def test_a_small_report_looks_as_agreed(page, golden):
    # The packed cases are shown unpacked: their bytes depend on the version of zlib.
    visible = re.sub(r'(?s)<script type="text/plain".*?</script>\n', "", page)
    unpacked = "".join(
        f"\n<!-- packed: {anchor} -->\n{markup}" for anchor, markup in packed_cases(page).items()
    )
    golden("html/small.html", visible + unpacked)


def test_a_verdict_is_at_the_event_that_it_rests_on_and_linked_from_its_judge(tmp_path):
    now = make_case("a", trace=agent_says("Done.", ("refund", {}, {})))
    packs = pack_of(tmp_path / "b", [now]), pack_of(tmp_path / "c", [now], failed={"a": "policy"})
    tree = parsed(page_of(*packs))
    verdict = tree.all("p", class_="verdict")
    assert [each.words for each in verdict] == ["✗ policy failed: policy failed"]
    cell = next(cell for cell in tree.all("td") if cell.all("p", class_="verdict"))
    place = cell.all("p", class_="who")[0].attributes["id"]
    assert f"#{place}" in [link.attributes["href"] for link in tree.all("table", class_="judges")[0].all("a")]


def test_every_link_leads_to_a_place_in_the_page_or_to_a_packed_case(page):
    tree = parsed(page)
    places = {
        element.attributes.get("id") for tag in ("section", "details", "th", "p") for element in tree.all(tag)
    }
    hrefs = [link.attributes["href"] for link in tree.all("a")]
    assert hrefs
    assert {href.removeprefix("#") for href in hrefs} <= places | packed_cases(page).keys()


def test_the_policy_allows_its_own_style_and_scripts_and_nothing_else(page):
    tree = parsed(page)
    policy = tree.all("meta", **{"http-equiv": "Content-Security-Policy"})[0].attributes["content"]
    own = [script.text for script in tree.all("script") if "type" not in script.attributes]
    sources = {"script-src": own, "style-src": [style.text for style in tree.all("style")]}
    expected = "default-src 'none'; "
    for directive, texts in sources.items():
        hashes = [base64.b64encode(hashlib.sha256(text.encode()).digest()).decode() for text in texts]
        quoted = " ".join(f"'sha256-{each}'" for each in hashes)
        expected += f"{directive} {quoted}; "
    assert policy == expected + "base-uri 'none'; form-action 'none'"


def test_nothing_comes_from_outside_and_no_style_is_an_attribute_which_the_policy_would_refuse(page):
    without = re.sub(r"(?s)<(script|style)\b.*?</\1>", "", page)
    tags = " ".join(re.findall(r"<[a-zA-Z][^>]*>", without))
    assert not re.search(r"""(?i)\b(src|srcset|data|poster|background|action|formaction|style)\s*=""", tags)
    assert "@import" not in page
    assert "url(" not in page
    assert not parsed(page).all("link")


def test_a_page_of_one_run_has_no_columns_of_a_baseline(tmp_path):
    _, now = small_packs(tmp_path)
    tree = parsed(page_of_run(now))
    assert tree.all("h1")[0].words == "Agent evaluation"
    assert tree.all("p", class_="happened")[0].words == "2 of 3 cases passed (66.7%)."
    heads = {head.words for table in tree.all("table") for head in table.all("th", scope="col")}
    assert heads == {
        "Case", "Now", "Why", "Latency", "Candidate", "Run", "Judge", "Reason", "Passed",
    }  # fmt: skip
    assert [case.all("h4")[0].words for case in tree.all("details", class_="case")] == ["refund over limit"]


def test_secrets_of_an_earlier_run_are_not_shown(tmp_path):
    secret = "s3cret-value-of-main"
    before = make_case("a", trace=agent_says(f"The key is {secret}."))
    now = make_case("a", trace=agent_says("The key is s3cret-value-of-you."))
    packs = pack_of(tmp_path / "b", [before]), pack_of(tmp_path / "n", [now], failed={"a": "policy"})
    suite = suite_of(*packs)
    evidence = SuiteEvidence(candidate=packs[1], baseline=packs[0], redactor=Redactor([secret]))
    report = EvaluationReport(title="t", suites=[suite])
    text = parsed(render_html(report, {"shop": evidence})).words
    assert "[redacted]" in text
    assert "value-of-main" not in text


def test_a_page_never_exceeds_its_cap_and_says_what_is_left_out(tmp_path, monkeypatch):
    monkeypatch.setattr(page_module, "CAP", 160_000)
    monkeypatch.setattr(page_module, "SMALL", 160_000)
    # Texts that do not compress.
    noise = [random.Random(number).randbytes(2_900).hex() for number in range(60)]
    cases = [make_case(f"case-{number}", trace=agent_says(text)) for number, text in enumerate(noise)]
    packs = (
        pack_of(tmp_path / "b", cases),
        pack_of(tmp_path / "n", cases, failed={case["case_id"]: "policy" for case in cases[:30]}),
    )
    page = page_of(*packs)
    tree = parsed(page)
    assert len(page.encode()) <= 160_000
    shown = len(tree.all("details", class_="case")) + len(packed_cases(page))
    assert 0 < shown < 60
    assert f"no room for the steps of {60 - shown} cases" in tree.words
    assert len(tree.all("table", class_="lines")[0].all("tr")) == 61


def test_the_run_in_ci_is_a_link_only_with_a_plain_address(tmp_path):
    packs = small_packs(tmp_path)
    for address, links in (("https://ci.example.org/runs/17", 1), ("javascript:alert(1)", 0), ("CI", 0)):
        report = EvaluationReport(title="t", suites=[suite_of(*packs)], run_url=address)
        page = render_html(report)
        found = [link.attributes["href"] for link in parsed(page).all("header")[0].all("a")]
        assert found == [address] * links


def test_it_says_what_was_compared_with_and_how_that_was_found(tmp_path):
    packs = small_packs(tmp_path)
    found = BaselineInfo(how="merge base", sha="3f9a1c27aa10", branch="main", age="2 days")
    tree = parsed(page_of(*packs, suite=suite_of(*packs, baseline=found)))
    assert tree.all("ul", class_="notices")[0].all("li")[0].words == (
        "Compared: run change-18 vs main 3f9a1c2 (merge base, 2 days old)."
    )


def test_words_that_a_sentence_sets_in_backticks_are_code(tmp_path):
    packs = small_packs(tmp_path)
    decision = by_policy(GateStatus.INCONCLUSIVE, "`a` never passed again here. Set `base-agent`.")
    tree = parsed(page_of(*packs, suite=suite_of(*packs, decision=decision)))
    first = tree.all("h1")[0]
    assert [code.words for code in first.all("code")] == ["a", "base-agent"]
    assert first.words == "? a never passed again here. Set base-agent"


def test_cases_that_newly_fail_are_a_table_with_their_counts() -> None:
    page = render_html(situations.flaky())
    rows = {name: cells for name, *cells in table_of(page, "fresh")}
    assert rows["order-000"][:5] == ["✓ passing again", "17/20", "0/1", "3/3", "3/3"]
    assert rows["order-002"][0] == "– failing on main too"
    assert "Reruns took 26 trials, 3 min, 0.21 USD." in page


def test_the_name_of_a_case_that_was_run_again_is_text() -> None:
    hostile = "<img src=x>"
    [found] = situations.unsettled_cases().suites
    case = judged(hostile, "open", "20/20 0/1 0/8 0/8", "<b>because</b>")
    decision = found.decision.model_copy(update={"cases": [case]})
    page = render_html(EvaluationReport(title="Gate", suites=[replace(found, decision=decision)]))
    assert hostile not in page
    assert "<b>because" not in page
    assert table_of(page, "fresh")[0][0] == hostile


def table_of(page: str, name: str) -> list[list[str]]:
    """The cells of a table's body, as a reader sees them."""
    table = page.partition(f'<table class="{name}"')[2].partition("</table>")[0].partition("<tbody>")[2]
    return [
        [
            html.unescape(re.sub(r"<[^>]+>", "", cell))
            for cell in re.findall(r"<t[hd][^>]*>(.*?)</t[hd]>", row)
        ]
        for row in table.split("</tr>")
        if "<tr>" in row
    ]


def test_without_packs_the_page_shows_the_verdicts_that_the_comparison_keeps() -> None:
    report = EvaluationReport(title="Agent evaluation", suites=[scenarios.regressed_suite()])
    tree = parsed(render_html(report))
    case = tree.all("details", id="case=refund-over-limit")[0]
    assert "The evidence of the two runs is not at hand" in case.words
    assert case.all("table", class_="judges")
    assert not case.all("table", class_="steps")


def test_trials_are_shown_as_letters_and_in_the_table(tmp_path: Path) -> None:
    case = make_case("a", trials=[{"trace": make_case("a")["trace"]}] * 2)
    outcomes = {"before": ["passed"] * 3, "now": ["passed", "failed", "passed"]}
    results = {name: tried("a", *each, policy="majority") for name, each in outcomes.items()}
    tree = parsed(page_of(*(judged_pack(tmp_path / name, each, case) for name, each in results.items())))
    assert [row.words for row in tree.all("tr", class_="quiet")] == []
    heads = [head.words for head in tree.all("table", class_="lines")[0].all("th", scope="col")]
    column = heads.index("Trials") - 1
    assert tree.all("table", class_="lines")[0].all("tr")[1].all("td")[column].words == "2 of 3"
    assert [each.words for each in tree.all("span", class_="letters")] == ["PPP", "PFP"]
    assert tree.all("p", class_="group")[0].words == "Fewer trials pass than before"


def test_a_case_whose_verdicts_alone_differ_is_shown_in_both_runs(tmp_path: Path) -> None:
    before = pack_of(tmp_path / "before", [make_case("a")])
    now = pack_of(tmp_path / "now", [make_case("a")], failed={"a": "policy"})
    [steps] = parsed(page_of(before, now)).all("details", id="case=a")[0].all("table", class_="steps")
    assert [head.words for head in steps.all("th")] == ["Baseline", "Candidate"]


def test_a_removed_case_is_shown_as_the_baseline_had_it(tmp_path: Path) -> None:
    before = pack_of(tmp_path / "b", [make_case("kept"), make_case("gone", output="So long.")])
    now = pack_of(tmp_path / "n", [make_case("kept")])
    page = page_of(before, now)
    rows = parsed(page).all("table", class_="lines")[0].all("tr")[1:]
    assert rows[0].words.startswith("gone – ✓ passed removed")
    case = parsed(packed_cases(page)["case=gone"])
    assert [head.words for head in case.all("table", class_="steps")[0].all("th")] == ["Baseline"]
    assert "So long." in case.words


def test_a_conversation_begins_with_the_turn_that_differs_and_names_the_criteria(tmp_path: Path) -> None:
    hello, more = ("Hello", "", "Hi!"), ("Refund me.", "", "I cannot.")
    runs = [conversation("talk", hello, more), conversation("talk", hello, ("Refund me.", "refund", "Done."))]
    packs = []
    for name, case, outcome in zip(("before", "now"), runs, ("passed", "failed"), strict=True):
        criterion = {"criterion": "Nothing is <b>paid</b>", "outcome": outcome, "reason": "It is refunded."}
        verdict = make_verdict("talk", "llm", outcome, evidence={"criteria": [criterion]})
        result = case_result("talk", [make_verdict("talk", "replay_contract"), verdict])
        packs.append(judged_pack(tmp_path / name, result, case, "llm"))
    case = parsed(page_of(*packs)).all("details", id="case=talk")[0]
    turns = [row.words for row in case.all("tr", class_="turn")]
    assert turns == ["Turn 2 the first that differs", "Turn 1 earlier, the same in both runs"]
    [row] = case.all("table", class_="criteria")[0].all("tr")[1:]
    assert row.words == "Nothing is <b>paid</b> llm ✗ failed ✓ passed It is refunded."
