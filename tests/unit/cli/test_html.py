"""`agent-eval report html` and `view`."""

from __future__ import annotations

import json
import shutil
import webbrowser
from pathlib import Path

import pytest

from agent_eval.cli.main import main

REPOSITORY = Path(__file__).resolve().parents[3]
EXAMPLES = REPOSITORY / "examples"
COMPARISON = "runs/bad/compare/baseline_delta.json"


@pytest.fixture
def compared(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Path:
    """A folder with two runs and their comparison."""
    monkeypatch.chdir(tmp_path)
    for name in ("DISPLAY", "WAYLAND_DISPLAY", "BROWSER"):
        monkeypatch.delenv(name, raising=False)
    for name in ("good", "bad"):
        assert main(["run", "--suite", str(EXAMPLES / f"suite_{name}.json"), "--out", f"runs/{name}"]) == 0
    compare = ["compare", "--baseline", "runs/good", "--candidate", "runs/bad", "--allow-incompatible"]
    assert main(compare) == 0
    capsys.readouterr()
    return tmp_path


def report(capsys: pytest.CaptureFixture[str], *arguments: str, code: int = 0) -> str:
    assert main(["report", "html", *arguments, "--format", "text"]) == code
    captured = capsys.readouterr()
    return captured.err if code else captured.out


def test_a_comparison_is_shown_with_the_steps_of_both_packs(compared, capsys):
    assert report(capsys, "--compare", COMPARISON, "--out", "report.html") == "Wrote report.html\n"
    page = Path("report.html").read_text("utf-8")
    assert '<table class="steps two">' in page
    assert 'id="case=book-train"' in page


def test_one_run_is_shown_by_itself(compared, capsys):
    report(capsys, "--run", "runs/bad", "--out", "report.html")
    assert "1 of 3 cases passed (33.3%)." in Path("report.html").read_text("utf-8")


def test_a_report_in_the_pack_leaves_the_pack_valid(compared, capsys):
    report(capsys, "--compare", COMPARISON, "--out", "runs/bad/compare/report.html")
    assert main(["pack", "verify", "--run", "runs/bad"]) == 0


def test_without_the_baselines_pack_it_says_so_and_shows_what_the_comparison_keeps(compared, capsys):
    shutil.rmtree("runs/good")
    said = report(capsys, "--compare", COMPARISON, "--out", "report.html")
    assert said.startswith("The evidence of the baseline is not at hand, so its steps are not shown")
    page = Path("report.html").read_text("utf-8")
    assert "The evidence of the baseline is not at hand" in page
    assert "agent calls book_train" in page


def test_a_pack_of_another_run_is_refused(compared, capsys):
    said = report(capsys, "--compare", COMPARISON, "--baseline", "runs/bad", "--out", "report.html", code=2)
    assert "runs/bad is not the baseline that was compared" in said
    assert not Path("report.html").exists()


@pytest.mark.parametrize("named", [[], ["--compare", COMPARISON, "--run", "runs/bad"]])
def test_either_a_comparison_or_a_run_is_named(compared, capsys, named):
    assert "Give --compare for a comparison, or --run for a run alone" in report(
        capsys, *named, "--out", "report.html", code=2
    )


def test_view_prints_the_path_where_there_is_no_browser(compared, capsys):
    assert main(["view", "runs/bad", "--format", "text"]) == 0
    hint, shown = capsys.readouterr().out.splitlines()
    assert hint == f"Compared with its baseline: agent-eval view {COMPARISON}"
    path = Path(shown)
    assert path.name.startswith("agent-eval-")
    assert path.read_text("utf-8").startswith("<!doctype html>")
    shutil.rmtree(path.parent)


def test_view_opens_a_comparison_with_its_decision_in_the_browser(compared, capsys, monkeypatch):
    assert main(["gate", "--compare", COMPARISON, "--max-regressed-cases", "0"]) == 1
    capsys.readouterr()
    opened: list[str] = []
    monkeypatch.setenv("BROWSER", "firefox")
    monkeypatch.setattr(webbrowser, "open", lambda address: not opened.append(address))
    assert main(["view", COMPARISON, "--out", "page.html"]) == 0
    assert json.loads(capsys.readouterr().out) == {"html_report": "page.html", "missing": [], "opened": True}
    assert opened == [Path("page.html").resolve().as_uri()]
    assert '<h1 class="failed">' in Path("page.html").read_text("utf-8")
