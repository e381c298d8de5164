"""Draw comments as a person sees them: GitHub's markdown and much of its style, in headless Chromium.

`python -m tests.pictures` draws the pictures of the documents anew; given a folder, every width and theme.
"""

import hashlib
import html
import json
import math
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import cmarkgfm
from cmarkgfm.cmark import Options

from tests.unit.reports.scenarios import comment
from tests.unit.reports.situations import SITUATIONS

FOLDER = Path(__file__).parents[1] / "docs" / "pictures"
DIGESTS = FOLDER / "digests.json"
BROWSERS = ("chromium", "chromium-browser", "google-chrome", "chrome")
WIDTHS = (900, 390)
THEMES = ("light", "dark")
ON_A_PHONE = "regressions"
"""The situation that documents show as on a phone too."""
TALLEST = 1_100
"""Pixels of a picture: what a reader sees before scrolling far."""

_STYLE = """
:root { color-scheme: light; --fg: #1f2328; --muted: #59636e; --bg: #fff; --line: #d1d9e0; --code: #818b981f;
  --block: #f6f8fa; --link: #0969da; --note: #0969da; --tip: #1a7f37; --important: #8250df;
  --warning: #9a6700; --caution: #d1242f; }
[data-theme=dark] { color-scheme: dark; --fg: #f0f6fc; --muted: #9198a1; --bg: #0d1117; --line: #3d444d;
  --code: #656c7633; --block: #151b23; --link: #4493f8; --note: #4493f8; --tip: #3fb950; --important: #ab7df8;
  --warning: #d29922; --caution: #f85149; }
* { box-sizing: border-box; }
body { margin: 0; background: var(--bg); color: var(--fg); padding: 16px; overflow-wrap: break-word;
  font: 14px/1.5 Inter, -apple-system, "Segoe UI", Helvetica, Arial, "Noto Color Emoji", sans-serif; }
h2, h3, h4 { margin: 24px 0 16px; line-height: 1.25; font-weight: 600; }
h2 { font-size: 21px; padding-bottom: .3em; border-bottom: 1px solid var(--line); margin-top: 0; }
h3 { font-size: 17.5px; } h4 { font-size: 14px; }
p, ul, table, pre, blockquote, details { margin: 0 0 16px; }
ul { padding-left: 2em; } li + li { margin-top: .25em; }
a { color: var(--link); }
code { font: 85% ui-monospace, "Liberation Mono", monospace; background: var(--code); padding: .2em .4em;
  border-radius: 6px; white-space: break-spaces; }
pre { background: var(--block); padding: 16px; border-radius: 6px; overflow: auto; line-height: 1.45; }
pre code { background: none; padding: 0; white-space: pre; }
table { border-collapse: collapse; display: block; width: max-content; max-width: 100%; overflow: auto; }
th, td { border: 1px solid var(--line); padding: 6px 13px; } th { font-weight: 600; }
blockquote { padding: 0 1em; color: var(--muted); border-left: .25em solid var(--line); }
.alert { padding: 8px 16px; border-left: .25em solid var(--kind); margin: 0 0 16px; }
.alert > :last-child { margin-bottom: 0; }
.alert .title { color: var(--kind); font-weight: 500; margin-bottom: 16px; }
"""

_ALERT = re.compile(
    r"<blockquote>\s*<p>\[!(NOTE|TIP|IMPORTANT|WARNING|CAUTION)\]\s*(?:<br />)?\n?(.*?)</blockquote>",
    re.DOTALL,
)


def browser() -> str | None:
    """The path of a browser on this machine; None where there is none."""
    return next((path for name in BROWSERS if (path := shutil.which(name))), None)


def body_of(markdown: str) -> str:
    """Make the HTML that GitHub would show of a comment, alert boxes included."""
    page = cmarkgfm.github_flavored_markdown_to_html(markdown, Options.CMARK_OPT_UNSAFE)

    def box(found: re.Match[str]) -> str:
        kind = found[1].lower()
        title = f'<p class="title">{kind.capitalize()}</p>'
        return f'<div class="alert" style="--kind: var(--{kind})">{title}<p>{found[2]}</div>'

    return _ALERT.sub(box, page)


def page_of(body: str, *, width: int, theme: str, script: str = "") -> str:
    """Make a whole page of a body; its width does not depend on the window, which has a least width."""
    return (
        f'<!doctype html><html data-theme="{theme}"><meta charset="utf-8"><title>comment</title>'
        f'<style>{_STYLE}</style><body style="width: {width}px">{body}<script>{script}</script></body></html>'
    )


def opened(page: str, *arguments: str) -> str:
    """Open a page without a network, and return what the browser printed."""
    path = browser()
    assert path is not None, "there is no Chromium on this machine"
    with tempfile.TemporaryDirectory() as place:
        file = Path(place) / "page.html"
        file.write_text(page, "utf-8", "replace")
        command = [path, "--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", *arguments]
        command += [f"--user-data-dir={place}/profile", "--proxy-server=127.0.0.1:9", file.as_uri()]
        done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=120)
    return done.stdout


def seen(page: str, expression: str) -> Any:
    """Evaluate an expression of JavaScript in a page, and return its value."""
    script = f"document.title = JSON.stringify({expression})"
    shown = opened(page.replace("<script></script>", f"<script>{script}</script>"), "--dump-dom")
    found = re.search("<title>(.*?)</title>", shown, re.DOTALL)
    assert found is not None
    return json.loads(html.unescape(found[1]))


def draw(markdown: str, picture: Path, *, width: int, theme: str, tallest: int = TALLEST) -> None:
    """Draw a comment as a person sees it at a width, from its top down to `tallest` pixels."""
    page = page_of(body_of(markdown), width=width, theme=theme)
    height = min(tallest, math.ceil(seen(page, "document.body.getBoundingClientRect().height")))
    opened(page, f"--window-size={width},{height}", f"--screenshot={picture}")


def digest_of(markdown: str) -> str:
    """Digest of a comment, kept beside its pictures to notice when they are out of date."""
    return hashlib.sha256(markdown.encode()).hexdigest()[:16]


def digests() -> dict[str, str]:
    """The digests of the comments that the documents show, as they are now."""
    return {name: digest_of(comment(situation())) for name, situation in SITUATIONS.items()}


def shown_in_documents(name: str) -> list[tuple[int, str]]:
    """List width and theme of the pictures of a situation that documents show."""
    return [(900, "light"), *([(390, "dark")] if name == ON_A_PHONE else [])]


def file_of(name: str, width: int, theme: str) -> str:
    """Name the file of a picture."""
    return f"{name}-{width}-{theme}.png"


def main(folder: Path | None = None) -> None:
    """Draw the pictures of the documents; with a folder, every width and theme of every situation there."""
    place = folder or FOLDER
    place.mkdir(parents=True, exist_ok=True)
    every = [(width, theme) for width in WIDTHS for theme in THEMES]
    for name, situation in SITUATIONS.items():
        text = comment(situation())
        for width, theme in every if folder else shown_in_documents(name):
            picture = place / file_of(name, width, theme)
            draw(text, picture, width=width, theme=theme)
            made_small(picture)
    if folder is None:
        DIGESTS.write_text(json.dumps(digests(), indent=1, sort_keys=True) + "\n")


def made_small(picture: Path) -> None:
    """Write a picture with fewer colours, where a program for that is there: a third of the size."""
    tool = shutil.which("pngquant")
    if tool is not None:
        subprocess.run(
            [tool, "--quality=60-90", "--speed=1", "--force", f"--output={picture}", picture], check=True
        )


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else None)
