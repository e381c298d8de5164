"""Show hostile strings in every place of a report, and count those that become more than text on GitHub.

    nice -n 19 python benchmarks/fuzz_markdown.py          # writes results/fuzz_markdown.json

Each string is escaped in each way and put into each place at once: one document, which GitHub's own parser
renders. Its tags, comments, links and active text must be those of the same document with a harmless string.
"""

from __future__ import annotations

import argparse
import json
import platform
import sys
import time
from datetime import UTC, datetime
from pathlib import Path

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE.parent))

from agent_eval.text.escape import code_span, fence, link, plain, prose  # noqa: E402
from tests.security.github_markdown import ACTIVE, Page, nasty_texts  # noqa: E402
from tests.security.test_markdown_fuzz import PLACES  # noqa: E402

RESULTS = HERE / "results" / "fuzz_markdown.json"
SEED = 20_261_122
ESCAPES = (code_span, plain, prose)
CONTEXTS = len(PLACES) * len(ESCAPES) + 2
HARMLESS = "benign"


def document(text: str) -> str:
    """Put a string into every place, escaped in every way; as a block of code and as an address too."""
    shown = [escape(text) or HARMLESS for escape in ESCAPES]
    pieces = [template.format(words) for template in PLACES.values() for words in shown]
    return "\n\nnext\n\n".join([*pieces, fence(text) or fence(HARMLESS), f"x {link('here', text)} y"])


def escapes(text: str, benign: Page) -> bool:
    """Whether a string becomes more than text."""
    page = Page(document(text))
    links = page.links
    is_like = page.skeleton == benign.skeleton or _without_link(page.skeleton) == benign.skeleton
    return not (
        is_like
        and page.balanced()
        and page.tags_in_code == []
        and links in ([], [text])
        and page.comments == benign.comments
        and ACTIVE.search(page.text) is None
    )


def _without_link(tags: list[str]) -> list[str]:
    """Leave out the one link that a plain web address may become."""
    opened = [place for place, tag in enumerate(tags) if tag.startswith("<a>")]
    if len(opened) != 1 or tags[opened[0] + 1] != "</a>":
        return tags
    return tags[: opened[0]] + tags[opened[0] + 2 :]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--strings", type=int, default=200_000)
    parser.add_argument("--minutes", type=float, default=60.0, help="when to stop in any case")
    parser.add_argument("--out", type=Path, default=RESULTS)
    asked = parser.parse_args()
    benign, begun, tried = Page(document(HARMLESS)), time.monotonic(), 0
    escaped: list[str] = []
    for text in nasty_texts(SEED, asked.strings):
        if time.monotonic() - begun > asked.minutes * 60:
            break
        tried += 1
        if escapes(text, benign):
            escaped.append(text)
    result = {
        "strings": tried,
        "contexts_of_each": CONTEXTS,
        "escapes": len(escaped),
        "first_escapes": [ascii(text) for text in escaped[:20]],
        "seed": SEED,
        "seconds": round(time.monotonic() - begun),
        "python": platform.python_version(),
        "date": datetime.now(UTC).date().isoformat(),
    }
    asked.out.write_text(json.dumps(result, indent=2) + "\n")
    print(f"{tried:,} strings in {CONTEXTS} places each, {len(escaped)} escapes")
    return 1 if escaped else 0


if __name__ == "__main__":
    sys.exit(main())
