"""`agent-eval report html` and `view`."""

from __future__ import annotations

import shutil
import webbrowser
from pathlib import Path

import pytest

from agent_eval.cli.main import main

COMPARISON = "bad/compare/baseline_delta.json"


@pytest.fixture(autouse=True)
def no_browser(examples: None, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("DISPLAY", "WAYLAND_DISPLAY", "BROWSER"):
        monkeypatch.delenv(name, raising=False)


def test_a_comparison_is_shown_with_the_steps_of_both_packs(cli):
    assert cli.out("report", "html", "--compare", COMPARISON, "--out", "report.html") == "Wrote report.html\n"
    page = Path("report.html").read_text("utf-8")
    assert '<table class="steps two">' in page
    assert 'id="case=book-train"' in page


def test_one_run_is_shown_by_itself(cli):
    cli.out("report", "html", "--run", "bad", "--out", "report.html")
    assert "1 of 3 cases passed (33.3%)." in Path("report.html").read_text("utf-8")


def test_a_report_in_the_pack_leaves_the_pack_valid(cli):
    cli.out("report", "html", "--compare", COMPARISON, "--out", "bad/compare/report.html")
    assert main(["pack", "verify", "--run", "bad"]) == 0


def test_without_the_baselines_pack_it_says_so_and_shows_what_the_comparison_keeps(cli):
    shutil.rmtree("good")
    said = cli.out("report", "html", "--compare", COMPARISON, "--out", "report.html")
    assert said.startswith("The evidence of the baseline is not at hand, so its steps are not shown")
    page = Path("report.html").read_text("utf-8")
    assert "The evidence of the baseline is not at hand" in page
    assert "agent calls book_train" in page


def test_a_pack_of_another_run_is_refused(cli):
    html = ("report", "html", "--compare", COMPARISON, "--out", "report.html")
    said = cli.err(*html, "--baseline", "bad", "--format", "text")
    assert "bad is not the baseline that was compared" in said
    assert not Path("report.html").exists()


@pytest.mark.parametrize("named", [[], ["--compare", COMPARISON, "--run", "bad"]])
def test_either_a_comparison_or_a_run_is_named(cli, named):
    said = cli.err("report", "html", *named, "--out", "report.html")
    assert "Give --compare for a comparison, or --run for a run alone" in said


def test_view_prints_the_path_where_there_is_no_browser(cli):
    hint, shown = cli.out("view", "bad").splitlines()
    assert hint == f"Compared with its baseline: agent-eval view {COMPARISON}"
    path = Path(shown)
    assert path.name.startswith("agent-eval-")
    assert path.read_text("utf-8").startswith("<!doctype html>")
    shutil.rmtree(path.parent)


def test_view_opens_a_comparison_with_its_decision_in_the_browser(cli, monkeypatch):
    cli.run("gate", "--compare", COMPARISON, "--max-regressed-cases", "0", code=1)
    opened: list[str] = []
    monkeypatch.setenv("BROWSER", "firefox")
    monkeypatch.setattr(webbrowser, "open", lambda address: not opened.append(address))
    shown = cli.json("view", COMPARISON, "--out", "page.html")
    assert shown == {"html_report": "page.html", "missing": [], "opened": True}
    assert opened == [Path("page.html").resolve().as_uri()]
    assert '<h1 class="failed">' in Path("page.html").read_text("utf-8")


def test_a_report_has_the_decision_beside_its_comparison(cli):
    cli.run("gate", "--compare", COMPARISON, "--max-regressed-cases", "0", code=1)
    cli.out("report", "html", "--compare", COMPARISON, "--out", "report.html")
    assert '<h1 class="failed">' in Path("report.html").read_text("utf-8")
