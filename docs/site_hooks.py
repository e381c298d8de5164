"""Hooks of mkdocs: the generated reference pages, and links that lead out of the site."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File, Files

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE))

from reference_pages import overview, pages  # noqa: E402 - beside this file, which is in no package

_OUTSIDE = re.compile(
    r"\[([^\]]+)\]\((?:\.\./)*"
    r"(?:C[A-Z]+\.md|SECURITY\.md|ci-templates|agent_eval|benchmarks|tests|examples|decisions/)[^)]*\)"
)
_ACTION = "](../../action.yml)"


def on_files(files: Files, config: Any) -> Files:
    """Add the pages that are made from the code."""
    for path, text in pages().items():
        files.append(File.generated(config, path, content=text))
    files.append(File.generated(config, "llms.txt", content=overview()))
    return files


def on_page_markdown(markdown: str, **_: Any) -> str:
    """Show links to files of the repository as their text; the site has what action.yml says as a page."""
    return _OUTSIDE.sub(r"\1", markdown.replace(_ACTION, "](../reference/inputs.md)"))


def on_page_content(html: str, **_: Any) -> str:
    """Let no cell without words be a heading of a table."""
    return re.sub(r"<th( [^>]*)?></th>", r"<td\1></td>", html)
