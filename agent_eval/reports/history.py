"""What a history says in figures and words: trend, band, cost, and the charts of the page."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import ceil
from statistics import median
from typing import Any

from agent_eval.contracts.history import CaseRecord, RunRecord
from agent_eval.history.board import Board, board
from agent_eval.reports.model import SuiteHistory
from agent_eval.text.escape import one_line
from agent_eval.text.numbers import count, percent

LOW_AMONG = 20
"""Newest runs among which a report places a run, as many as the gate holds it against."""
FEWEST_RUNS = 4
"""Runs from which one that is below all of them is said to be so."""


RUNS_SHOWN = 40
_WIDTH, _HEIGHT, _MARGIN = 720, 90, 16
_LABELS, _LABEL_HEIGHT = 8, 26
"""Runs of a chart that have their date and commit below, and the pixels for these."""


@dataclass(frozen=True)
class Series:
    """A figure of each run, the oldest first; None where it is not known."""

    values: Sequence[float | None]

    @property
    def known(self) -> list[float]:
        """The values that are known."""
        return [value for value in self.values if value is not None]

    @property
    def newest(self) -> float | None:
        """The last value that is known."""
        return self.known[-1] if self.known else None

    @property
    def sparkline(self) -> str:
        """A bar for each run, from the lowest to the highest value; `·` where none is known."""
        low, high = min(self.known, default=0.0), max(self.known, default=0.0)
        bars = []
        for value in self.values:
            level = round((value - low) / (high - low) * 7) if value is not None and high > low else 3
            bars.append("·" if value is None else "▁▂▃▄▅▆▇█"[level])
        return "".join(bars)


def rates(runs: Sequence[RunRecord]) -> Series:
    """Collect the pass rates of runs."""
    return Series([run.pass_rate for run in runs])


def costs(runs: Sequence[RunRecord]) -> Series:
    """Collect what each run cost, in US dollars, as far as it is known."""
    return _figures(runs, "cost_usd", sum)


def latencies(runs: Sequence[RunRecord]) -> Series:
    """Collect the median of the cases' latencies of each run, in seconds."""
    return _figures(runs, "latency_ms", lambda known: median(known) / 1000)


def _figures(runs: Sequence[RunRecord], name: str, joined: Callable[[list[float]], float]) -> Series:
    values = ([getattr(case, name) for case in run.cases.values()] for run in runs)
    known = ([value for value in listed if value is not None] for listed in values)
    return Series([joined(listed) if listed else None for listed in known])


def _below_all(rate: float | None, known: Sequence[float]) -> int:
    """Count the runs before, each of which a rate is below; 0 where it is not, or where they are few."""
    is_low = rate is not None and len(known) >= FEWEST_RUNS and rate < min(known)
    return len(known) if is_low else 0


def trend_words(history: Board) -> str:
    """Say how high the pass rate is and was, and whether the newest is below all before it."""
    series = rates(history.counted)
    if series.newest is None:
        return "no trial was scored"
    words = f"{percent(series.newest)} in the newest run"
    if before := _below_all(series.newest, rates(history.counted[:-1]).known[-LOW_AMONG:]):
        words += f", below each of the {before} runs before"
    if len(series.known) > 1:
        words += f"; {count(len(series.known), 'run')}: {between(series.known)}"
    return words


def between(values: Sequence[float]) -> str:
    """Write the lowest and the highest of some shares."""
    low, high = percent(min(values)), percent(max(values))
    return low if low == high else f"{low} to {high}"


def placed(own: RunRecord, earlier: Sequence[RunRecord], branch: str) -> str:
    """Place a run among the last ones of the base branch, as a clause; empty where none has its key.

    Cases that are new or defined otherwise since the newest of these runs do not count: they would move the
    rate by what the suite asks, not by what the agent does.

    `earlier` has the runs of the base branch, the newest first.
    """
    same = [run for run in earlier if run.run.key == own.run.key][:LOW_AMONG]
    known = rates(same).known
    newest = same[0].cases if same else {}
    alike = {
        name: case
        for name, case in own.cases.items()
        if name in newest and newest[name].definition == case.definition
    }
    own_rate = RunRecord(own.run, alike).pass_rate
    if own_rate is None or not known:
        return ""
    runs = f"{branch}'s last {len(known)} runs" if len(known) > 1 else f"{branch}'s last run"
    words = f"{percent(own_rate)}; {runs}: {between(known)}"
    if _below_all(own_rate, known):
        words += ", so this is below them all"
    return words


def cell(case: CaseRecord | None) -> str:
    """Write what a run says of a case as one character.

    Example:
        >>> cell(None), cell(CaseRecord(case_id="a", definition="", passed=4, scored=4))
        (' ', '.')
    """
    if case is None:
        return " "
    if not case.scored:
        return "?"
    if case.passed == case.scored:
        return "."
    if not case.passed:
        return "x"
    return str(min(9, max(1, int(10 * case.passed / case.scored))))


LEGEND = ". passed, x failed, 1 to 9 tenths of the trials passed, ? no trial scored, blank not in the run"


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


def history_view(history: SuiteHistory) -> dict[str, Any]:
    """Prepare the history of a suite for the page, with its own run as the last one.

    `charts` has a `Chart` of each figure; `other_keys` counts the runs that are shown and do not count.
    """
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
    return {"branch": branch, "charts": known, "other_keys": with_own.other_keys}


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
