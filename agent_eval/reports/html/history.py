"""The history of the base branch as the page shows it: a chart of each figure over its runs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import ceil

from agent_eval.history.board import Board, board
from agent_eval.reports.history import Series, costs, latencies, placed, rates
from agent_eval.reports.model import SuiteHistory
from agent_eval.text.escape import one_line
from agent_eval.text.numbers import percent

RUNS_SHOWN = 40
_WIDTH, _HEIGHT, _MARGIN = 720, 90, 16
_LABELS, _LABEL_HEIGHT = 8, 26
"""Runs of a chart that have their date and commit below, and the pixels for these."""


@dataclass(frozen=True)
class Point:
    """A run in a chart.

    `x` and `y` are pixels from the left and the top. `url` is where the run is, `label` its date and commit;
    empty where there is no room. `css_class` is `own`, `other` for a run of another key, or empty.
    """

    x: float
    y: float
    words: str
    url: str
    label: Sequence[str]
    css_class: str


@dataclass(frozen=True, kw_only=True)
class Chart:
    """A figure over the runs, as the coordinates of a picture.

    `points` are the runs in which it is known, `lines` the coordinates of lines, one for each key of runs.
    """

    name: str
    words: str
    points: Sequence[Point]
    lines: Sequence[str]
    lowest: str
    highest: str
    width: int = _WIDTH
    height: int = _HEIGHT + _LABEL_HEIGHT


@dataclass(frozen=True, kw_only=True)
class HistoryView:
    """What the page shows of a history; `other_keys` counts the runs that are shown and do not count."""

    branch: str
    charts: Sequence[Chart]
    other_keys: int


def history_view(history: SuiteHistory) -> HistoryView:
    """Prepare the history of a suite for the page, with its own run as the last one."""
    own, branch = history.own, one_line(history.branch, limit=60)
    before = [run for run in history.earlier if run.run.run_id != own.run.run_id]
    with_own = board([own, *before], runs=RUNS_SHOWN)
    words = placed(own, history.earlier, branch) or "the last runs have another key"
    charts = [_chart("Pass rate", words, rates(with_own.runs), with_own, percent)]
    for name, series, write in (
        ("Cost", costs(with_own.runs), "${:,.4f}".format),
        ("Latency, median of the cases", latencies(with_own.runs), "{:,.2f} s".format),
    ):
        if series.newest is not None:
            low, high = write(min(series.known)), write(max(series.known))
            charts.append(_chart(name, f"{write(series.newest)}; {low} to {high}", series, with_own, write))
    known = [chart for chart in charts if chart.points]
    return HistoryView(branch=branch, charts=known, other_keys=with_own.other_keys)


def _chart(name: str, words: str, series: Series, history: Board, write: Callable[[float], str]) -> Chart:
    low, high = min(series.known, default=0.0), max(series.known, default=1.0)
    step = (_WIDTH - 2 * _MARGIN - 84) / max(1, len(series.values) - 1)
    own = history.runs[-1]
    every = ceil(len(series.values) / _LABELS)
    points: list[Point] = []
    of_key: dict[str, list[Point]] = {}
    for number, (value, run) in enumerate(zip(series.values, history.runs, strict=True)):
        if value is None:
            continue
        height = 0.5 if high == low else (high - value) / (high - low)
        day, commit = run.run.started_at[:10], run.run.git_commit
        name_of_run = f"commit {commit[:7]}" if commit else f"run {run.run.run_id}"
        is_labelled = (len(series.values) - 1 - number) % every == 0
        label = (day, (commit or run.run.run_id)[:7]) if is_labelled else ()
        points.append(
            Point(
                round(_MARGIN + 60 + number * step, 1),
                round(_MARGIN + (_HEIGHT - 2 * _MARGIN) * height, 1),
                f"{write(value)}: {one_line(f'{name_of_run}, {day}', limit=80)}",
                run.run.run_url or "",
                [one_line(text, limit=20) for text in label],
                "own" if run is own else "" if history.counts(run) else "other",
            )
        )
        of_key.setdefault(run.run.key, []).append(points[-1])
    return Chart(
        name=name,
        words=words,
        points=points,
        lines=[" ".join(f"{point.x},{point.y}" for point in line) for line in of_key.values()],
        lowest=write(low),
        highest=write(high),
    )
