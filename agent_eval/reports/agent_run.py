"""What is said of a run of an agent once it has ended."""

from __future__ import annotations

import textwrap
from typing import TYPE_CHECKING

from agent_eval.contracts import RunSummary
from agent_eval.reports.figures import count, verb
from agent_eval.reports.terminal import WIDTH, run_text

if TYPE_CHECKING:
    from agent_eval.engine.progress import Standing


def agent_run_text(summary: RunSummary, pack: str, standing: Standing, *, colour: bool = False) -> str:
    """What `run` says of recorded traces; and why cases fail, what was sent again, what it cost."""
    *lines, evidence = run_text(summary, pack, colour=colour).splitlines()
    said = [*_kinds(summary), *_effort(standing)]
    wrapped = [line for one in said for line in textwrap.wrap(one, WIDTH, subsequent_indent="  ")]
    return "".join(f"{line}\n" for line in [*lines, *wrapped, evidence])


def _kinds(summary: RunSummary) -> list[str]:
    ordered = sorted(summary.failures.items(), key=lambda item: (-item[1], item[0]))
    kinds = ", ".join(f"{name} {number:,}" for name, number in ordered)
    return [f"Verdicts that do not pass, by kind: {kinds}."] if kinds else []


def _effort(standing: Standing) -> list[str]:
    said = []
    if number := standing.resumed:
        said.append(f"{count(number, 'trial')} {verb(number, 'was', 'were')} done before.")
    if number := standing.retries:
        said.append(f"{count(number, 'request')} {verb(number, 'was', 'were')} sent again.")
    if standing.cost_usd:
        unknown = f", and what {count(standing.unknown_cost, 'trial')} cost is not known"
        said.append(f"Spent: ${standing.cost_usd:,.4f}{unknown if standing.unknown_cost else ''}.")
    return [" ".join(said)] if said else []
