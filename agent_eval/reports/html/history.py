"""The history of the base branch as the page shows it: charts, cases over runs, the flake board."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from agent_eval.contracts.history import RunRecord
from agent_eval.history.board import Board, CaseBoard, board
from agent_eval.reports.history import (
    LEGEND,
    Series,
    cell,
    costs,
    kinds_words,
    latencies,
    misses_words,
    placed,
    rate_words,
    rates,
    since_words,
)
from agent_eval.reports.model import SuiteHistory
from agent_eval.text.escape import one_line
from agent_eval.text.numbers import count, percent

RUNS_SHOWN = 40
CASES_SHOWN = 30
_NAME = 120
_WIDTH, _HEIGHT, _MARGIN = 720, 90, 16


@dataclass(frozen=True)
class Point:
    """A run in a chart.

    `x` and `y` are pixels from the left and the top. `counts` says whether it was made under the key of the
    report's run.
    """

    x: float
    y: float
    words: str
    is_own: bool = False
    counts: bool = True

    @property
    def css_class(self) -> str:
        """The class by which it is drawn: `own`, `other` for one of another key, or empty."""
        return "own" if self.is_own else "" if self.counts else "other"


@dataclass(frozen=True, kw_only=True)
class Chart:
    """A figure over the runs, as the coordinates of a picture.

    Attributes:
        words: The same in words.
        points: The runs in which the figure is known.
        lines: Points of lines, one for each key.
    """

    name: str
    words: str
    points: Sequence[Point]
    lines: Sequence[str]
    lowest: str
    highest: str
    width: int = _WIDTH
    height: int = _HEIGHT


@dataclass(frozen=True)
class HeatRow:
    """A case over the runs, one character a run."""

    name: str
    cells: str


@dataclass(frozen=True)
class HeatColumn:
    """A run in the head of the cases over runs."""

    words: str
    counts: bool


@dataclass(frozen=True, kw_only=True)
class FlakeRow:
    """A case of the flake board, in words."""

    name: str
    kind: str
    rate: str
    letters: str
    since: str
    misses: str


@dataclass(frozen=True, kw_only=True)
class HistoryView:
    """What the page shows of a history."""

    branch: str
    charts: Sequence[Chart]
    other_keys: int
    runs: Sequence[HeatColumn]
    rows: Sequence[HeatRow]
    others: str
    kinds: str
    board: Sequence[FlakeRow]
    legend: str = LEGEND


def history_view(history: SuiteHistory) -> HistoryView:
    """Prepare the history of a suite for the page, with its own run as the last one."""
    own = history.own
    before = [run for run in history.earlier if run.run.run_id != own.run.run_id]
    with_own = board([own, *before], runs=RUNS_SHOWN)
    of_branch = board(before)
    unsteady = [case for case in with_own.cases if set(map(cell, case.cells)) - {".", " "}]
    return HistoryView(
        branch=one_line(history.branch, limit=60),
        charts=_charts(with_own, history),
        other_keys=with_own.other_keys,
        runs=[HeatColumn(_run_words(run), with_own.counts(run)) for run in with_own.runs],
        rows=[HeatRow(_name(case), "".join(map(cell, case.cells))) for case in unsteady[:CASES_SHOWN]],
        others=_others(len(unsteady), len(with_own.cases)),
        kinds=kinds_words(of_branch),
        board=[_flake_row(case) for case in of_branch.cases if not case.always_passed][:CASES_SHOWN],
    )


def _others(unsteady: int, total: int) -> str:
    hidden = max(0, unsteady - CASES_SHOWN)
    words = [f"{count(hidden, 'more case')} did not always pass."] if hidden else []
    steady = total - unsteady
    return " ".join([*words, *([f"{count(steady, 'case')} passed in every run."] if steady else [])])


def _flake_row(case: CaseBoard) -> FlakeRow:
    return FlakeRow(
        name=_name(case),
        kind=case.kind,
        rate=rate_words(case),
        letters=case.letters,
        since=since_words(case),
        misses=one_line(misses_words(case), limit=200),
    )


def _charts(history: Board, of_suite: SuiteHistory) -> list[Chart]:
    rate = rates(history.runs)
    words = placed(of_suite.own, of_suite.earlier, one_line(of_suite.branch, limit=60))
    words = words or "the last runs have another key"
    charts = [_chart("Pass rate", words, rate, history, percent)]
    for name, series, write in (
        ("Cost", costs(history.runs), "${:,.4f}".format),
        ("Latency, median of the cases", latencies(history.runs), "{:,.2f} s".format),
    ):
        if series.newest is not None:
            low, high = write(min(series.known)), write(max(series.known))
            charts.append(_chart(name, f"{write(series.newest)}; {low} to {high}", series, history, write))
    return [chart for chart in charts if chart.points]


def _chart(
    name: str,
    words: str,
    series: Series,
    history: Board,
    write: Callable[[float], str],
) -> Chart:
    low, high = min(series.known, default=0.0), max(series.known, default=1.0)
    step = (_WIDTH - 2 * _MARGIN - 60) / max(1, len(series.values) - 1)

    def across(number: float) -> float:
        return round(_MARGIN + 60 + number * step, 1)

    def down(value: float) -> float:
        room = _HEIGHT - 2 * _MARGIN
        return round(_MARGIN + room * (0.5 if high == low else (high - value) / (high - low)), 1)

    own = history.runs[-1]
    points: list[Point] = []
    of_key: dict[str, list[Point]] = {}
    for number, (value, run) in enumerate(zip(series.values, history.runs, strict=True)):
        if value is None:
            continue
        title = f"{write(value)}: {_run_words(run)}"
        points.append(Point(across(number), down(value), title, run is own, history.counts(run)))
        of_key.setdefault(run.run.key, []).append(points[-1])
    return Chart(
        name=name,
        words=words,
        points=points,
        lines=[" ".join(f"{point.x},{point.y}" for point in line) for line in of_key.values()],
        lowest=write(low),
        highest=write(high),
    )


def _run_words(run: RunRecord) -> str:
    commit = run.run.git_commit
    name = f"commit {commit[:7]}" if commit else f"run {run.run.run_id}"
    return one_line(f"{name}, {run.run.started_at[:10]}", limit=80)


def _name(case: CaseBoard) -> str:
    return one_line(case.case_id, limit=_NAME)
