from __future__ import annotations

import re
from pathlib import Path

from tests import html_pictures

GUIDE = Path(__file__).parents[4] / "docs" / "guides" / "html-report.md"


def test_the_pictures_of_the_guide_are_of_the_report_as_it_is(tmp_path: Path) -> None:
    remedy = "draw them anew with `python -m tests.html_pictures`"
    assert html_pictures.DIGEST.read_text().strip() == html_pictures.digest_of(
        html_pictures.page(tmp_path)
    ), remedy


def test_the_guide_shows_every_picture_with_words_for_those_who_cannot_see_it() -> None:
    shown = re.findall(r"!\[([^\]]{20,})\]\(\.\./pictures/html/([^)]+)\)", GUIDE.read_text("utf-8"))
    drawn = {picture.name for picture in html_pictures.PLACE.glob("*.png")}
    assert {name for _, name in shown} == drawn == set(html_pictures.PICTURES)
