"""Find the suites to evaluate: paths and globs become suites, each with a slug of its own."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from agent_eval.errors import InvalidInput
from agent_eval.storage.files import safe_name
from agent_eval.suites.paths import suite_paths
from agent_eval.suites.reader import SuiteSource, open_suite

ARCHIVE_NAME = "evidence.zip"
REPORT_NAME = "report.md"
COMMENT_NAME = "comment.md"
JUNIT_NAME = "junit"
DOTENV_NAME = "agent-eval.env"
_OF_THE_JOB = (ARCHIVE_NAME, REPORT_NAME, COMMENT_NAME, JUNIT_NAME, DOTENV_NAME)
_HTML = re.compile(r"agent-eval-.*\.html")

HELD_BYTES = 8 << 20
"""Most bytes of several suites that stay in memory from the beginning; a single suite always does."""


def html_name(name: str) -> str:
    """Name the file of the HTML report: an artifact that is one file takes the file's name.

    Example:
        >>> html_name("shop")
        'agent-eval-shop.html'
    """
    return f"agent-eval-{name}.html"


def is_html_name(name: str) -> bool:
    """Whether a file could be the job's HTML report."""
    return _HTML.fullmatch(name) is not None


def is_of_the_job(slug: str) -> bool:
    """Whether the job itself writes a file of that name into its output directory."""
    return slug in _OF_THE_JOB or is_html_name(slug)


@dataclass(frozen=True, slots=True)
class Target:
    """A suite to evaluate.

    Example:
        >>> Target(Path("suites/shop.json"), "shop", dataset_id="shop").slug
        'shop'

    Args:
        path: As given by the user.
        slug: The name of its pack and its baseline.
        source: The open suite; None where it is one of several and too large to stay in memory.
        dataset_id: The suite's own name.
    """

    path: Path
    slug: str
    source: SuiteSource | None = None
    dataset_id: str = ""


def find_targets(patterns: Sequence[str]) -> list[Target]:
    """Open the suites that the patterns name, in their order, globs sorted.

    Args:
        patterns: Paths or globs, relative to the working directory. `**` crosses directories.

    Raises:
        UsageError: A glob matches nothing, or there are more than `suites.paths.MAX_SUITES`.
        InvalidInput: A suite cannot be read, or two have the same dataset.
    """
    paths = suite_paths(patterns)
    seen: dict[str, Path] = {}
    targets = []
    bytes_in_memory = 0
    for path in paths:
        source = open_suite(path)
        slug = safe_name(source.header.dataset_id)
        if slug in seen or is_of_the_job(slug):
            other = seen.get(slug, "the job's own files")
            raise InvalidInput(
                f"{path} has the same dataset_id as {other}.",
                remedy="Give every suite a dataset_id of its own.",
                file=str(path),
                field="dataset_id",
            )
        seen[slug] = path
        keeps = len(paths) == 1 or bytes_in_memory + source.held_bytes <= HELD_BYTES
        bytes_in_memory += source.held_bytes if keeps else 0
        targets.append(Target(path, slug, source if keeps else None, source.header.dataset_id))
    return targets
