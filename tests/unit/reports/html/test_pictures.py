from __future__ import annotations

import re
from pathlib import Path

from tests import html_pictures

GUIDES = Path(__file__).parents[4] / "docs" / "guides"


def test_the_pictures_of_the_guide_are_of_the_report_as_it_is(tmp_path: Path) -> None:
    remedy = "draw them anew with `python -m tests.html_pictures`"
    assert html_pictures.DIGEST.read_text().strip() == html_pictures.digest_of(
        html_pictures.page(tmp_path)
    ), remedy


def test_the_pictures_of_the_history_are_of_the_section_as_it_is(tmp_path: Path) -> None:
    markup = html_pictures.page(tmp_path, html_pictures.main_branch())
    assert html_pictures.DIGEST_OF_HISTORY.read_text().strip() == html_pictures.digest_of_history(markup), (
        "draw them anew with `python -m tests.html_pictures`"
    )


def test_the_guides_show_every_picture_with_words_for_those_who_cannot_see_it() -> None:
    shown = {
        guide: {
            name
            for _, name in re.findall(
                r"!\[([^\]]{20,})\]\(\.\./pictures/html/([^)]+)\)", (GUIDES / guide).read_text("utf-8")
            )
        }
        for guide in ("html-report.md", "history.md")
    }
    assert shown == {
        "html-report.md": set(html_pictures.PICTURES),
        "history.md": set(html_pictures.OF_THE_HISTORY),
    }
    drawn = {picture.name for picture in html_pictures.PLACE.glob("*.png")}
    assert drawn == {*html_pictures.PICTURES, *html_pictures.OF_THE_HISTORY}


def test_every_picture_is_small_enough_to_load_at_once() -> None:
    large = {path.name for path in html_pictures.FOLDER.rglob("*.png") if path.stat().st_size > 100_000}
    assert not large, "install pngquant, and draw them anew"
