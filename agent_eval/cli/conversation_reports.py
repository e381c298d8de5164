"""Write the reports on a run of conversations beside its evidence pack."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from agent_eval.cli.run_suites import PACK
from agent_eval.contracts.conversation_result import ConversationResult, SuiteResult
from agent_eval.operations.run_conversations import conversation_results
from agent_eval.reports.conversations import conversation_markdown, percent_text, summary_markdown
from agent_eval.storage.atomic import write_file
from agent_eval.storage.files import readable_name
from agent_eval.storage.json import dumps
from agent_eval.text.escape import clean

RESULTS, SUMMARY = "_results.json", "_summary.md"


def write_reports(pack: Path, *, debug: bool) -> SuiteResult:
    """Write results, summary and a page for each test into the directory of a pack.

    What they say is read from the pack, which holds no secret.

    With `debug`, the pages show the agent's raw responses.
    """
    result = conversation_results(pack)
    folder = pack.parent
    by_test: dict[str, list[ConversationResult]] = {}
    for test in result.tests:
        by_test.setdefault(test.name, []).append(test)
    files = file_names(by_test)
    for name, conversations in by_test.items():
        write_file(folder / files[name], conversation_markdown(conversations, debug=debug).encode())
    write_file(folder / RESULTS, dumps(result.to_json(), indent=True))
    write_file(folder / SUMMARY, summary_markdown(result, files).encode())
    return result


def file_names(names: Iterable[str]) -> dict[str, str]:
    """Name the page of each test: readable, and different also where letter case does not count.

    Example:
        >>> file_names(["Refund/late?", "refund late", "_summary"])
        {'Refund/late?': 'Refund-late.md', 'refund late': 'refund-late-2.md', '_summary': 'summary.md'}
    """
    files: dict[str, str] = {}
    used_names: set[str] = set()
    for name in names:
        base = readable_name(name)
        number, chosen = 1, base
        while chosen.casefold() in used_names:
            number += 1
            chosen = f"{base}-{number}"
        used_names.add(chosen.casefold())
        files[name] = f"{chosen}.md"
    return files


def report_conversations(pack: Path, *, debug: bool) -> tuple[dict[str, Any], list[str]]:
    """Score a run of conversations, and write the reports if its pack is in a directory made for them.

    Returns the figures, for programs; and the lines that people read after the totals.
    """
    is_beside = pack.name == PACK
    result = write_reports(pack, debug=debug) if is_beside else conversation_results(pack)
    figures: dict[str, Any] = {
        "score": result.score,
        "pass_rate": result.pass_rate,
        "error_tests": result.error_tests,
        "reports": str(pack.parent) if is_beside else None,
    }
    lines = [score_line(result), *([f"Reports: {clean(str(pack.parent / SUMMARY), limit=1000)}"] * is_beside)]
    return figures, lines


def score_line(result: SuiteResult) -> str:
    """Say the score of a suite for a terminal, and what is left out of it."""
    counts = ((result.error_tests, "ended in an error"), (result.not_evaluated, "not evaluated"))
    left_out = [f"{number} {words}" for number, words in counts if number]
    return f"Score: {percent_text(result.score)}" + (f" (without {', '.join(left_out)})" if left_out else "")
