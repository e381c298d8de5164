"""The documentation as a site: built without a warning, complete, and readable without a network."""

import importlib.util
import os
import re
import subprocess
import sys
from functools import cache
from html.parser import HTMLParser
from pathlib import Path
from types import ModuleType

import cmarkgfm
import pytest
from cmarkgfm.cmark import Options

from agent_eval.ci.config import INPUTS, OUTPUTS
from agent_eval.cli.main import COMMANDS
from tests.browser import chromium
from tests.extent import NIGHTLY, WHOLE_JOB, unavailable

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
SOURCES = [path for path in sorted(DOCS.rglob("*.md")) if path.parent.name != "decisions"]
"""What people wrote of the site; decisions are read in the repository."""
AXE = ROOT / ".ci" / "axe" / "node_modules" / "axe-core" / "axe.min.js"
COUNTED = ("table", "tr", "li", "pre", "h2", "h3")
"""Elements of which a page has as many on the site as on GitHub."""


@cache
def reference_pages() -> ModuleType:
    spec = importlib.util.spec_from_file_location("reference_pages", DOCS / "reference_pages.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@cache
def generated() -> dict[str, str]:
    """The pages that are made from the code."""
    pages: dict[str, str] = reference_pages().pages()
    return pages


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The site, built; mkdocs is strict, so that a broken link or anchor ends the build."""
    if importlib.util.find_spec("material") is None:
        unavailable("without mkdocs-material (make docs installs it)")
    place = tmp_path_factory.mktemp("site")
    done = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--site-dir", str(place)], cwd=ROOT,
        env={**os.environ, "NO_MKDOCS_2_WARNING": "1", "PYTHONDONTWRITEBYTECODE": "1"}, capture_output=True,
        text=True, timeout=300,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "WARNING" not in done.stderr
    return place


class Page(HTMLParser):
    """Counts the elements of a page's text, and collects what the page loads."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.counts = dict.fromkeys(COUNTED, 0)
        self.loads: list[str] = []
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag in self.counts:
            self.counts[tag] += 1
        if tag != "a":
            self.loads += [value for name, value in attrs if name in ("src", "href", "srcset") and value]


def page_of(site: Path, source: Path) -> str:
    """The text of a page on the site, without navigation."""
    path = (site / source.relative_to(DOCS)).with_suffix(".html")
    article = re.search(r"<article.*?</article>", path.read_text(encoding="utf-8"), re.DOTALL)
    assert article is not None
    return article[0]


def test_nothing_is_loaded_from_outside(site: Path) -> None:
    pages = list(site.rglob("*.html"))
    assert len(pages) >= 35
    for path in pages:
        text = path.read_text(encoding="utf-8")
        outside = [address for address in Page(text).loads if re.match(r"(?:https?:)?//", address)]
        assert outside == [], path
        # Its renderer is the one thing that the theme would load.
        assert 'class="mermaid"' not in text


def test_a_page_has_on_the_site_what_it_has_on_github(site: Path) -> None:
    for source in SOURCES:
        markdown = source.read_text(encoding="utf-8")
        expected = Page(cmarkgfm.github_flavored_markdown_to_html(markdown, Options.CMARK_OPT_UNSAFE))
        shown = re.sub(r'<div class="highlight">', "", page_of(site, source))
        assert Page(shown).counts == expected.counts, source


def test_every_page_can_be_reached_from_the_first(site: Path) -> None:
    text = (site / "index.html").read_text(encoding="utf-8")
    navigation = "".join(re.findall(r"<nav.*?</nav>", text, re.DOTALL))
    pages = [path.relative_to(DOCS).as_posix() for path in SOURCES if path.name != "index.md"]
    missing = [
        page for page in (*pages, *generated()) if f'href="{page.removesuffix(".md")}.html"' not in navigation
    ]
    assert missing == []
    assert not (site / "decisions").exists()


def test_what_assistants_read_first_is_there_and_names_every_guide(site: Path) -> None:
    assert (site / "llms.txt").read_text(encoding="utf-8") == reference_pages().overview()
    for page in re.findall(r"\]\(([^)#]+)", reference_pages().overview()):
        assert (site / page).is_file(), page


@WHOLE_JOB
def test_axe_finds_nothing_on_a_page(site: Path, browser: str) -> None:
    if not AXE.exists():
        unavailable("without axe-core (make oracles)")
    axe, run = AXE.read_text("utf-8"), "axe.run(document.querySelector('article'))"
    pages = [page for page in sorted(site.rglob("*.html")) if page.name != "404.html"]
    assert len(pages) >= 35
    found = {}
    with chromium() as opened:
        # A push looks at every fifth page, light and dark ones, and at one of each folder.
        for number, page in enumerate(pages):
            if not (NIGHTLY or number % 5 == 0 or page.parent != pages[number - 1].parent):
                continue
            opened.open(page.as_uri(), width=900, dark=number % 2 == 1)
            opened.value(f"{axe}; 0")
            rules = [(each["id"], each["nodes"][0]["html"][:120]) for each in opened.value(run)["violations"]]
            found[page.name] = rules
    assert {page: rules for page, rules in found.items() if rules} == {}


def test_the_list_for_assistants_has_a_title_a_summary_and_every_guide() -> None:
    text = reference_pages().overview()
    assert text.startswith("# agent-eval\n\n> agent-eval tells you")
    guides = (DOCS / "guides").glob("*.md")
    assert [page.stem for page in guides if f"(guides/{page.stem}.html)" not in text] == []


def test_all_pages_together_can_be_read() -> None:
    texts = [*(page.read_text(encoding="utf-8") for page in SOURCES), *generated().values()]
    words = sum(len(text.split()) for text in texts)
    assert words <= 50_000, f"the pages have {words:,} words: shorten one"


def test_the_references_name_everything_that_there_is() -> None:
    pages = generated()
    for row in (*INPUTS, *OUTPUTS):
        assert f"| `{row.name}` |" in pages["reference/inputs.md"]
    for schema in (ROOT / "agent_eval" / "schemas").glob("*.json"):
        assert f"| `{schema.name}` | " in pages["reference/schemas.md"]
    assert "| `compare.compare_packs` | Verify two packs" in pages["reference/python.md"]
    assert "{#agent_eval.judges.BaseJudge}" in pages["reference/python.md"]
    commands = (DOCS / "reference" / "cli.md").read_text(encoding="utf-8")
    assert [name for name in COMMANDS if f"\n## agent-eval {name}" not in commands] == []


def test_what_would_be_loaded_is_noticed() -> None:
    page = Page('<a href="https://x.example"></a><script src="//x.example/a.js"></script><li>')
    assert (page.loads, page.counts["li"]) == (["//x.example/a.js"], 1)
