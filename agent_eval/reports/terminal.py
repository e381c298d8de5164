"""Render results of runs for a terminal: prose of at most 80 columns, with or without colour.

Modules `terminal_…` render the rest, so that `run` need not load what they know.
"""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from agent_eval.reports.counts import judging_words, not_judged, objections, passing, redacted
from agent_eval.text.escape import clean
from agent_eval.text.numbers import count, of_all, percent, verb

if TYPE_CHECKING:
    from agent_eval.contracts import CaseResultRow, ExecutionConfig, RunSummary
    from agent_eval.contracts.trials import PassCurve, StabilityReport
    from agent_eval.engine.progress import RunProgress


WIDTH = 80
CASES_SHOWN = 10
_TRIALS_SHOWN = 8

GREEN, RED, YELLOW, BOLD, PLAIN = "\x1b[32m", "\x1b[31m", "\x1b[33m", "\x1b[1m", "\x1b[0m"


Failing = Sequence[tuple["CaseResultRow", str, *tuple[str, ...]]]
"""Results of cases that did not pass, each with the path of its trajectory and the lines of a traceback."""


def run_text(
    summary: RunSummary,
    pack: str,
    *,
    colour: bool = False,
    failing: Failing = (),
    execution: ExecutionConfig | None = None,
) -> str:
    """Render the result of `run`: the cases that fail and why, the totals, where the evidence is."""
    lines = [line for case in failing for line in _failing_case(*case, colour=colour)]
    more = summary.total_cases - summary.passed_cases - len(failing)
    lines += [f"and {more:,} more; --verbose lists them"] if failing and more else []
    lines += [painted(passing(summary), BOLD, colour)]
    lines += wrapped(map(clean, not_judged(summary)))
    if summary.hard_fail_cases:
        lines.append(
            f"{count(summary.hard_fail_cases, 'case')} {verb(summary.hard_fail_cases, 'fails', 'fail')} hard "
            f"({percent(summary.hard_fail_rate)})."
        )
    objecting = [
        (name, counts) for name, counts in summary.judge_counts.items() if counts.judged > counts.passed
    ]
    for name, counts in sorted(objecting, key=lambda item: (item[1].passed - item[1].judged, item[0])):
        lines.append(f"  {shown_name(name, 40)}: {counts.passed:,} of {counts.judged:,} passed")
    if summary.flaky_cases is not None:
        lines.append(f"{count(summary.flaky_cases, 'case')} {verb(summary.flaky_cases, 'is', 'are')} flaky.")
    lines += wrapped(map(clean, judging_words(summary)))
    lines += wrapped([_curve(summary.pass_curve)], rest="  ") if summary.pass_curve else []
    lines += filter(None, [redacted(execution) if execution is not None else ""])
    lines.append(f"Evidence: {shown_name(pack, 1000)}")
    return "\n".join(lines)


def _failing_case(row: CaseResultRow, path: str, *traceback: str, colour: bool) -> list[str]:
    objecting = objections(row)
    why = "".join(
        f": {shown_name(verdict['judge_id'], 40)}: {clean(verdict['reason'], limit=200)}"
        for verdict in objecting[:1]
    )
    more = f" (and {count(len(objecting) - 1, 'more judge')})" if len(objecting) > 1 else ""
    text = f"{shown_name(row['case_id'], 70)}{why}{more}"
    word = _WORDS.get(row["outcome"], "FAILED")
    first, *rest = wrapped([text], first=" " * len(word) + " ", rest="  ")
    is_open = row["outcome"] in ("inconclusive", "skipped")
    sign = painted(word, YELLOW if is_open else RED, colour)
    indented = [f"    {line}" for line in traceback]
    return [f"{sign}{first[len(word) :]}", *rest, f"  {shown_name(path, 1000)}", *indented]


_WORDS = {"error": "ERROR", "inconclusive": "UNSURE", "skipped": "SKIPPED"}


def stability_text(report: StabilityReport, path: str | None, *, colour: bool = False) -> str:
    """Render the result of `stability-check`: how many cases are flaky, which, why, and what to do."""
    numbers = report.summary
    flaky, failing = numbers.flaky_cases, numbers.consistently_failing_cases
    first = (
        f"{of_all(flaky, numbers.cases, 'case')} {verb(flaky, 'is', 'are')} flaky; "
        f"{failing:,} always {verb(failing, 'fails', 'fail')}."
    )
    lines = [painted(first, RED if flaky else GREEN, colour)]
    lines += wrapped(map(clean, report.notes))
    lines += wrapped([_curve(report.pass_curve)], rest="  ") if report.pass_curve else []
    rows = sorted(
        (case for case in report.case_stability if case.flaky),
        key=lambda case: (-case.flake_score, case.case_id),
    )
    for case in rows[:CASES_SHOWN]:
        low, high = percent(case.confidence_95.low), percent(case.confidence_95.high)
        lines.append(f"  {shown_name(case.case_id, 70)}")
        reason = f"{case.reason} Between {low} and {high}; trust it after {case.minimum_runs:,} runs."
        lines += wrapped([clean(reason)], first="    ", rest="    ")
    if len(rows) > CASES_SHOWN:
        lines.append(f"  and {len(rows) - CASES_SHOWN:,} more")
    return "\n".join([*lines, *([f"Report: {shown_name(path, 1000)}"] if path else [])])


def _curve(curve: Sequence[PassCurve]) -> str:
    every = ", ".join(f"{point.pass_hat_k:.3f}" for point in curve[:_TRIALS_SHOWN])
    at_least = ", ".join(f"{point.pass_at_k:.3f}" for point in curve[:_TRIALS_SHOWN])
    last = min(len(curve), _TRIALS_SHOWN)
    return f"All of k trials pass, k = 1 to {last}: {every}; one of them: {at_least}"


def wrapped(paragraphs: Iterable[str], *, first: str = "", rest: str = "", width: int = WIDTH) -> list[str]:
    """Break paragraphs into lines between words, with an indent for the first and one for the rest."""
    lines: list[str] = []
    for paragraph in paragraphs:
        lines += textwrap.wrap(
            paragraph,
            width - 2,
            initial_indent=first,
            subsequent_indent=rest,
            break_on_hyphens=False,
            break_long_words=False,
        )
    return lines


def shown_name(text: str, limit: int) -> str:
    """Make hostile text a name: harmless, within the limit, and never empty."""
    return clean(text, limit=limit) or "∅"


def painted(text: str, colour: str, wanted: bool) -> str:
    """Colour a text, where colours are wanted."""
    return f"{colour}{text}{PLAIN}" if wanted else text


def agent_run_text(
    summary: RunSummary,
    pack: str,
    progress: RunProgress,
    *,
    colour: bool = False,
    failing: Failing = (),
    execution: ExecutionConfig | None = None,
) -> str:
    """Render the run of an agent: the result of `run`, why cases fail, what was sent again, what it cost."""
    text = run_text(summary, pack, colour=colour, failing=failing, execution=execution)
    *lines, evidence = text.splitlines()
    ordered = sorted(summary.failures.items(), key=lambda item: (-item[1], item[0]))
    kinds = ", ".join(f"{name} {number:,}" for name, number in ordered)
    sentences = [f"Verdicts that do not pass, by kind: {kinds}."] if kinds else []
    # Where it crashed with the name of an environment variable, how it gets one.
    verdicts = (verdict for row, *_ in failing for verdict in row["verdicts"])
    crashes = (verdict["reason"] for verdict in verdicts if verdict["failure"] == "agent_error")
    if name := next(filter(None, map(_VARIABLE.search, crashes)), None):
        sentences.append(
            f"The agent names {name[0]}. It sees few variables but those that you pass on: "
            f"--agent-env {name[0]} passes this one."
        )
    effort = []
    if number := progress.resumed:
        effort.append(f"{count(number, 'trial')} {verb(number, 'was', 'were')} done before.")
    if number := progress.damaged:
        were = verb(number, "was", "were")
        effort.append(f"{count(number, 'record')} of the journal {were} damaged since: run again.")
    if number := progress.retries:
        effort.append(f"{count(number, 'request')} {verb(number, 'was', 'were')} sent again.")
    if progress.cost_usd:
        costs = progress.costs
        parts = {"agent": costs.agent, "LLM judges": costs.judges, "simulated users": costs.simulated_users}
        known = ", ".join(f"{who} ${cost:,.4f}" for who, cost in parts.items() if cost)
        of_each = f" ({known})" if costs.judges or costs.simulated_users else ""
        unknown = f", and what {count(progress.unknown_cost, 'trial')} cost is not known in full"
        unknown = unknown if progress.unknown_cost else ""
        effort.append(f"Spent: ${progress.cost_usd:,.4f}{of_each}{unknown}.")
    sentences += [*([" ".join(effort)] if effort else []), *progress.notes]
    lines += [line for text in sentences for line in textwrap.wrap(text, WIDTH, subsequent_indent="  ")]
    number = progress.unanswered_calls
    unanswered = [f"{count(number, 'tool call')} got no answer."] if number else []
    return "".join(f"{line}\n" for line in [*lines, evidence, *unanswered])


_VARIABLE = re.compile(r"\b[A-Z][A-Z0-9]*(?:_[A-Z0-9]+)+\b")


_BAR = 24


def progress_text(progress: RunProgress) -> str:
    """Write progress on one line: how many are done and how they ended, the cost, the time left."""
    share = 100 * progress.done // progress.total if progress.total else 100
    done = f"{progress.done:,} of {progress.total:,} {progress.unit} ({share} %)"
    return ", ".join([done, *_state(progress, " and more")])


def progress_bar(progress: RunProgress, columns: int) -> str:
    """Write progress with a bar before it; a narrow terminal gets fewer words, then no bar."""
    filled = _BAR * progress.done // progress.total if progress.total else _BAR
    bar = f"[{'#' * filled}{'.' * (_BAR - filled)}] "
    short = ", ".join([f"{progress.done:,}/{progress.total:,}", *_state(progress, "+")])
    lines = (bar + progress_text(progress), bar + short, short)
    return next((line for line in lines if len(line) < columns), short)[: max(columns - 1, 1)]


def _state(progress: RunProgress, more: str) -> list[str]:
    parts = [f"{progress.passed:,} passed", f"{progress.failed:,} failed", count(progress.errors, "error")]
    if progress.retries:
        parts.append(count(progress.retries, "retry", "retries"))
    if progress.cost_usd:
        parts.append(f"${progress.cost_usd:,.4f}{more if progress.unknown_cost else ''}")
    if progress.seconds_left is not None and progress.done < progress.total:
        whole = round(progress.seconds_left)
        hours, minutes, seconds = whole // 3600, whole % 3600 // 60, whole % 60
        words = f"{minutes} min {seconds:02d} s" if minutes else f"{seconds} s"
        parts.append(f"{f'{hours} h {minutes:02d} min' if hours else words} left")
    return parts
