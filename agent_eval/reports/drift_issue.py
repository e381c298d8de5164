"""Render the watch over the base branch: the body of the issue, and the section of the full report."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from agent_eval.contracts.history import HistoryRun
from agent_eval.gate.drift import ALARM_AT, CLEARED_BELOW, MENDED_SHARE, Counted, DriftReport, FallenCase
from agent_eval.gate.drift_cause import KnownLoss
from agent_eval.reports.blocks import bullets, document, table
from agent_eval.reports.drift import CAUSES, change, left_out_words, since_run, sparkline
from agent_eval.text.escape import code_span, link, plain, prose
from agent_eval.text.numbers import count, percent

MAX_SUITES = 10
MAX_CASES = 10
_NAME_LIMIT = 120
_COMMIT_LENGTH = 12
_SHOWN_RUNS = 60
_FEW_NIGHTS = 4
"""Times the trials of a run: from fewer trials a release's rate is often too high, so alarms are false."""

State = Literal["up", "mended", "quiet"]
"""`up`: a loss is shown, or one that was shown is not yet mended; `mended`: it is; `quiet`: there is none."""


@dataclass(frozen=True, kw_only=True)
class SuiteDrift:
    """One suite of the base branch, held against the release.

    Example:
        >>> SuiteDrift(slug="shop", problem="The release has no evidence of this suite.").is_up
        False

    Attributes:
        slug: The suite.
        report: The figures; None where there are none.
        problem: Why there are none, as a sentence; empty where there are.
        is_up: Whether a loss is shown, or one that was shown is not yet mended.
        note: What is to be said of the released agent's run, as a sentence; usually empty.
        loss: What the issue keeps of the loss; None where there is none, or where it stays as it was.
    """

    slug: str
    report: DriftReport | None = None
    problem: str = ""
    is_up: bool = False
    note: str = ""
    loss: KnownLoss | None = None


@dataclass(frozen=True, kw_only=True)
class DriftWatch:
    """All suites of a job, held against the release; every text in it may be hostile.

    Example:
        >>> DriftWatch(title="Agent evaluation", release="v1", suites=[]).state
        'quiet'

    Attributes:
        title: Of the report.
        release: What the settings call the release.
        suites: In the order of the job.
        was_up: Whether a loss was known before this run.
        run_url: The job's page; None where there is none.
        head_sha: The commit that was evaluated; None when unknown.
        runs_released_agent: Whether the settings say how the released agent is run again.
    """

    title: str
    release: str
    suites: Sequence[SuiteDrift]
    was_up: bool = False
    run_url: str | None = None
    head_sha: str | None = None
    runs_released_agent: bool = False

    @property
    def state(self) -> State:
        """Whether a loss is shown or was."""
        if any(suite.is_up for suite in self.suites):
            return "up"
        return "mended" if self.was_up else "quiet"


def issue_title(watch: DriftWatch) -> str:
    """Write the title of the issue. A person may change it: it is not what the issue is found by."""
    return f"{plain(watch.title)}: the base branch lost quality since the release"


def render_issue(watch: DriftWatch, marker: str) -> str:
    """Render the body of the issue, `marker` first, which is not escaped."""
    foot = f"[Newest run]({watch.run_url})" if link("x", watch.run_url) != "x" else ""
    commit = f"Commit {code_span(watch.head_sha[:_COMMIT_LENGTH])}" if watch.head_sha else ""
    closing = " · ".join(part for part in (foot, commit) if part)
    return document([marker, *_blocks(watch), _upkeep(watch), closing])


def render_section(watch: DriftWatch, issue_url: str = "") -> str:
    """Render the section of the full report."""
    issue = link("The issue", issue_url) if issue_url else ""
    pointer = f"{issue} is kept up to date by the scheduled runs." if issue.startswith("[") else ""
    return document([*_blocks(watch), pointer])


def drift_line(watch: DriftWatch) -> str:
    """Say in one line, for the log and an annotation, how the base branch does; without markup."""
    up = [suite for suite in watch.suites if suite.is_up]
    if not up:
        states = {"mended": "the loss is mended", "quiet": "no loss is shown", "up": ""}
        return f"Drift since the release {watch.release}: {states[watch.state]}."
    words = ", ".join(f"{suite.slug} {_lost_words(suite.report)}" for suite in up[:MAX_SUITES])
    return f"The base branch passes less often than the release {watch.release}: {words}."


def _lost_words(report: DriftReport | None) -> str:
    if report is None or report.drift.lost is None or report.drift.latest_rate is None:
        return "(not held against it in this run)"
    drift = report.drift
    return f"{percent(drift.release_rate)} then, {percent(drift.latest_rate)} now"


def _blocks(watch: DriftWatch) -> Iterator[str]:
    title = plain(watch.title)
    heading = {
        "up": f"## 📉 {title}: the base branch lost quality since the release",
        "mended": f"## ✅ {title}: what was lost since the release is back",
        "quiet": f"## {title}: no loss since the release is shown",
    }
    yield heading[watch.state]
    listed = sorted(watch.suites, key=lambda suite: not suite.is_up)
    for suite in listed[:MAX_SUITES]:
        if len(watch.suites) > 1:
            yield f"### {code_span(suite.slug, limit=_NAME_LIMIT)}"
        yield from _suite(suite, watch)
    more = len(listed) - MAX_SUITES
    yield f"And {count(more, 'more suite')}." if more > 0 else ""


def _suite(suite: SuiteDrift, watch: DriftWatch) -> Iterator[str]:
    if suite.problem:
        yield prose(suite.problem, limit=600)
    report = suite.report
    if report is None:
        return
    if suite.is_up and report.cause is not None:
        yield f"**{CAUSES[report.cause]}**"
    yield table(("", ""), (":--", ":--"), _figures(report, watch))
    if suite.note:
        yield prose(suite.note, limit=600)
    if report.release is not None and report.release.scored < _FEW_NIGHTS * report.newest_scored:
        yield (
            "The release's rate is known from few trials, so this says less than it could: evaluate the "
            "release several times, and name a directory of their evidence."
        )
    if suite.is_up:
        yield from _fallen(report.fallen)
        yield "What to do:\n\n" + bullets(_steps(report, watch))


def _figures(report: DriftReport, watch: DriftWatch) -> Iterator[tuple[str, str]]:
    drift = report.drift
    if report.release is not None:
        name = code_span(watch.release, limit=_NAME_LIMIT)
        yield f"Release {name}", _rate(report.release)
    if drift.latest_rate is not None and drift.lost is not None:
        lost = change(drift.lost, drift.lost_at_least)
        figures = f"{percent(drift.latest_rate)}: {lost}; budget {100 * drift.budget:.1f}"
        yield f"Last {count(drift.runs, 'run')}" if drift.runs > 1 else "Last run", figures
    since = since_run(report)
    if since is not None:
        yield "Lower since about", _run(since)
    if drift.sums:
        drawn = sparkline(drift.sums[-_SHOWN_RUNS:])
        figures = f"raised at {ALARM_AT:g}, ends below {CLEARED_BELOW:g}"
        yield "Alarm, run by run", f"`{drawn}` {drift.sums[-1]:.1f}; {figures}"
    if report.again is not None:
        yield "Released agent, run again", _rate(report.again)
    yield "Compared", f"{count(report.cases, 'case')} defined alike, {count(len(report.runs), 'run')}"
    if left_out := left_out_words(report):
        yield "Left out", left_out


def _rate(counted: Counted) -> str:
    return f"{percent(counted.rate)} passed ({count(counted.scored, 'trial')})"


def _run(run: HistoryRun) -> str:
    commit = f", commit {code_span(run.git_commit[:_COMMIT_LENGTH])}" if run.git_commit else ""
    return f"run {code_span(run.run_id, limit=_NAME_LIMIT)}{commit}, {code_span(run.started_at[:10])}"


def _fallen(cases: Sequence[FallenCase]) -> Iterator[str]:
    if not cases:
        return
    rows = [
        (code_span(case.case_id, limit=_NAME_LIMIT), _of(case.release), _of(case.latest))
        for case in cases[:MAX_CASES]
    ]
    yield table(("case that fell the most", "release", "since then"), (":--", "--:", "--:"), rows)
    more = len(cases) - MAX_CASES
    yield f"And {count(more, 'more case')} that passed less often." if more > 0 else ""


def _of(counted: Counted) -> str:
    return f"{counted.passed:,} of {counted.scored:,}"


def _steps(report: DriftReport, watch: DriftWatch) -> Iterator[str]:
    since = since_run(report)
    commit = since.git_commit if since is not None else None
    merged = f"up to commit {code_span(commit[:_COMMIT_LENGTH])}" if commit else "since the release"
    if report.cause in ("model", "both"):
        yield (
            "See whether the model, or a service that the agent uses, has changed: its provider's notes, and "
            "whether its version is pinned."
        )
    if report.cause != "model":
        yield f"Look at what was merged {merged}, beginning with the cases above."
    if report.cause is None and not watch.runs_released_agent:
        yield "Let the job run the released agent as well (`release-agent`): it shows if the model moved."
    yield "See since when each case fails: `agent-eval history` with the evidence of this run."
    yield "To accept the loss, evaluate a new release, and name it in `drift-release` by a reviewed change."


def _upkeep(watch: DriftWatch) -> str:
    if watch.state == "mended":
        return "A new loss opens a new issue."
    budgets = sorted({suite.report.drift.budget for suite in watch.suites if suite.report is not None})
    half = f"{100 * MENDED_SHARE * budgets[0]:g}" if budgets else "half of the budget in"
    return (
        "The scheduled runs keep this text up to date, and close the issue once the alarm has ended and the "
        f"mean of the last runs is at most {half} points below the release. Closed by hand, it is not opened "
        "again for this loss."
    )
