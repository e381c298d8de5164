"""Comments as a person sees them in a browser, and the documents that show them as they are."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path
from typing import Any

import pytest

from agent_eval.ci.platforms.github import GITHUB
from agent_eval.ci.platforms.spec import SUMMARY_LIMIT
from agent_eval.comparison.compare import DETAIL_LIMIT
from agent_eval.reports.detail import COMMENT, FULL
from agent_eval.reports.model import SIGNS
from tests import html_pictures, pictures
from tests.unit.reports.scenarios import comment, regressed
from tests.unit.reports.situations import SITUATIONS

ROOT = Path(__file__).parents[3]
GUIDES = ROOT / "docs" / "guides"
GUIDE = GUIDES / "reading-the-comment.md"
in_a_browser = pytest.mark.usefixtures("browser")

WIDER = """
[...document.querySelectorAll('section')].flatMap(section => [...section.querySelectorAll('*')]
  .filter(part => !part.closest('pre, table') || part.matches('pre, table'))
  .filter(part => part.getBoundingClientRect().right > section.getBoundingClientRect().right + 0.5)
  .map(part => section.id + ': ' + part.outerHTML.slice(0, 80)))
"""
TABLES = """
[...document.querySelectorAll('section table')].filter(table => table.scrollWidth > table.clientWidth)
  .map(table => table.closest('section').id)
"""
COURSE_WORDS = re.compile(r"Holm|McNemar|Fisher|one-sided|permut|clustered|sign.flip|\bp[ =<]", re.IGNORECASE)
"""Words that need a course in statistics."""
SEEN = """
Object.fromEntries([...document.querySelectorAll('section')].map(section => [section.id, {
  text: section.innerText, height: section.getBoundingClientRect().height,
  active: section.querySelectorAll('script, img, iframe, form, [onerror], [onclick]').length,
}]))
"""


def seen_at(width: int, expression: str, *, opened: bool = False) -> Any:
    """Evaluate an expression in a page with a section for each situation."""
    bodies = {name: pictures.body_of(comment(situation())) for name, situation in SITUATIONS.items()}
    style = f"width: {width - 32}px"
    sections = "".join(
        f'<section id="{name}" style="{style}">{body}</section>' for name, body in bodies.items()
    )
    if opened:
        sections = sections.replace("<details>", "<details open>")
    return pictures.seen(pictures.page_of(sections, width=width, theme="light"), expression)


@in_a_browser
@pytest.mark.parametrize("width", pictures.WIDTHS)
def test_nothing_is_wider_than_the_screen_also_what_is_unfolded(width: int) -> None:
    assert seen_at(width, WIDER, opened=True) == []


@in_a_browser
def test_tables_fit_on_a_phone() -> None:
    assert set(seen_at(390, TABLES, opened=True)) <= {"hostile"}  # a name of 120 characters


@in_a_browser
def test_what_is_too_wide_would_be_noticed() -> None:
    page = pictures.page_of('<section><div style="width: 500px">x</div></section>', width=390, theme="light")
    assert len(pictures.seen(page, WIDER)) == 1


@in_a_browser
def test_a_reader_sees_the_first_lines_and_no_statistics_before_a_click() -> None:
    seen = seen_at(900, SEEN)
    assert seen.keys() == SITUATIONS.keys()
    for name, place in seen.items():
        assert COURSE_WORDS.search(place["text"]) is None, name
        assert place["active"] == 0
    assert (
        "1 case broke: credit-paid passed 0 of 8 times here and 8 of 8 on main." in seen["one-worse"]["text"]
    )


@in_a_browser
def test_green_is_short_on_a_phone_too() -> None:
    seen = seen_at(390, SEEN)
    assert max(seen["unchanged"]["height"], seen["improved"]["height"]) < 300


def test_the_pictures_are_of_comments_report_and_history_as_they_are(tmp_path: Path) -> None:
    assert json.loads(pictures.DIGESTS.read_text()) == pictures.digests(), (
        "draw them anew with `python -m tests.pictures`"
    )
    page, history = (html_pictures.page(tmp_path, *more) for more in ((), (html_pictures.main_branch(),)))
    assert [path.read_text().strip() for path in (html_pictures.DIGEST, html_pictures.DIGEST_OF_HISTORY)] == [
        html_pictures.digest_of(page), html_pictures.digest_of_history(history),
    ], "draw them anew with `python -m tests.html_pictures`"  # fmt: skip


def test_documents_show_every_picture_with_words_for_those_who_cannot_see_it() -> None:
    drawn = {picture.name for picture in pictures.FOLDER.glob("*.png")}
    assert drawn == {
        pictures.file_of(name, width, theme)
        for name in SITUATIONS
        for width, theme in pictures.shown_in_documents(name)
    }
    shown = re.findall(r"!\[([^\]]+)\]\(\.\./pictures/([^)]+)\)", GUIDE.read_text("utf-8"))
    assert {name for _, name in shown} == drawn
    assert all(len(words) > 10 for words, _ in shown)
    assert "![" in (ROOT / "README.md").read_text("utf-8")


def test_the_example_of_the_guide_is_what_is_rendered() -> None:
    fenced = r"(?<=^````markdown\n)(.*?)(?=^````$)"
    before, example, after = re.split(fenced, GUIDE.read_text("utf-8"), flags=re.DOTALL | re.MULTILINE)
    rendered = comment(regressed())
    if os.environ.get("UPDATE_GOLDEN") == "1":
        GUIDE.write_text(before + rendered + after, "utf-8")
        return
    assert example == rendered


def test_the_guide_explains_every_decision_and_the_limit() -> None:
    text = GUIDE.read_text("utf-8")
    for sign in SIGNS.values():
        assert f"| {sign} | " in text
    assert f"{GITHUB.comment_limit:,} characters" in text
    assert f"{SUMMARY_LIMIT // 1024**2} MiB" in text
    assert f"kept of {DETAIL_LIMIT} cases" in text
    assert f"{FULL[0].cases} regressed cases open" in text
    assert COMMENT[0].cases == 5


def test_the_guides_show_every_picture_with_words_for_those_who_cannot_see_it() -> None:
    shown = {
        guide: set(
            re.findall(r"!\[[^\]]{20,}\]\(\.\./pictures/html/([^)]+)\)", (GUIDES / guide).read_text("utf-8"))
        )
        for guide in ("html-report.md", "history.md")
    }
    expected = {"html-report.md": {*html_pictures.PICTURES}, "history.md": {*html_pictures.OF_THE_HISTORY}}
    assert shown == expected
    assert {picture.name for picture in html_pictures.PLACE.glob("*.png")} == set().union(*expected.values())


def test_every_picture_is_small_enough_to_load_at_once() -> None:
    large = {path.name for path in html_pictures.FOLDER.rglob("*.png") if path.stat().st_size > 100_000}
    assert not large, "install pngquant, and draw them anew"
