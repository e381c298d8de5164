from __future__ import annotations

from pathlib import Path

from agent_eval.contracts import case_result
from agent_eval.reports.html.page import HtmlReport, render_html
from agent_eval.reports.model import EvaluationReport
from tests.factories import make_case, make_verdict
from tests.unit.comparison.views import tried
from tests.unit.reports import scenarios
from tests.unit.reports.html.pages import judged_pack, pack_of, packed_cases, page_of, parsed
from tests.unit.reports.situations import conversation


def test_without_packs_the_page_shows_what_the_comparison_keeps() -> None:
    report = EvaluationReport(title="Agent evaluation", suites=[scenarios.regressed_suite()])
    tree = parsed(render_html(HtmlReport(report=report)))
    case = tree.all("details", id="case=refund-over-limit")[0]
    assert "this is what the comparison keeps of the case" in case.words
    assert [mark.words for mark in case.all("ins")][:1] == ["1000"]
    rows = case.all("table", class_="steps")[0].all("tr")
    assert [row.attributes.get("class") for row in rows[1:]] == ["same", "arguments", "added", "arguments"]


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
