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
    r"\[([^\]]+)\]\((?:\.\./)+(?:C[A-Z]+\.md|SECURITY\.md|ci-templates|agent_eval|benchmarks|tests|examples)[^)]*\)"
)


def on_config(config: Any) -> Any:
    """Add the guides that `nav` does not list yet, so that none is missing from the site."""
    listed = str(config.nav)
    guides = sorted(path.name for path in (HERE / "guides").glob("*.md"))
    missing = [f"guides/{name}" for name in guides if f"guides/{name}" not in listed]
    if missing:
        config.nav.append({"More guides": missing})
    return config


def on_files(files: Files, config: Any) -> Files:
    """Add the pages that are made from the code."""
    for path, text in pages().items():
        files.append(File.generated(config, path, content=text))
    files.append(File.generated(config, "llms.txt", content=overview()))
    return files


def on_page_markdown(markdown: str, **_: Any) -> str:
    """Show links to files of the repository as their text: the site does not have these."""
    return _OUTSIDE.sub(r"\1", markdown)
