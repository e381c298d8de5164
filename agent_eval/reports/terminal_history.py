"""Render a history for a terminal: the trend, cases over runs, the flake board."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby

from agent_eval.history.board import Board, CaseBoard
from agent_eval.reports.history import (
    LEGEND,
    Series,
    cell,
    costs,
    kinds_words,
    latencies,
    misses_words,
    rate_words,
    rates,
    since_words,
    trend_words,
)
from agent_eval.reports.terminal import GREEN, RED, YELLOW, painted, shown_name
from agent_eval.text.escape import clean
from agent_eval.text.numbers import count

CASES_SHOWN = 30
_NAME = 34
_COLOURS = {"steady": GREEN, "flaky": RED, "failing": RED}


def history_text(history: Board, dataset_id: str, *, colour: bool = False) -> list[str]:
    """Render a history as lines; it can be read without colour.

    Args:
        history: From `history.board.board`.
    """
    if not history.runs:
        return [f"History of {shown_name(dataset_id, 60)}: no run yet."]
    first, last = history.runs[0].run, history.runs[-1].run
    span = f"{count(len(history.runs), 'run')} from {first.started_at[:10]} to {last.started_at[:10]}"
    title = f"History of {shown_name(dataset_id, 60)}: {span}"
    lines = [title, f"Key {last.key}, model {shown_name(last.model, 60)}"]
    if history.other_keys:
        words = count(history.other_keys, "run")
        lines.append(f"{words} with another key, in [brackets]: shown, and not counted below")
    return [*lines, "", *_trend(history), "", *_heat_map(history, colour), "", *_flake_board(history, colour)]


def _trend(history: Board) -> list[str]:
    lines = [f"Pass rate  {_marked(rates(history.runs).sparkline, history)}  {trend_words(history)}"]
    for name, series, unit in (
        ("Cost       ", costs(history.runs), "$"),
        ("Latency    ", latencies(history.runs), ""),
    ):
        if series.known:
            lines.append(f"{name}{_marked(series.sparkline, history)}  {_figures(series, unit)}")
    return lines


def _figures(series: Series, unit: str) -> str:
    values = (series.newest or 0.0, min(series.known), max(series.known))
    if unit:
        newest, low, high = (f"${value:,.4f}" for value in values)
        return f"{newest} in the newest run; {low} to {high}"
    newest, low, high = (f"{value:,.2f} s" for value in values)
    return f"{newest} in the newest run, median of its cases; {low} to {high}"


def _marked(line: str, history: Board) -> str:
    """Put the runs of another key, which do not count, into brackets; `line` has a character for each run."""
    stretches = groupby(zip(line, history.runs, strict=True), key=lambda each: history.counts(each[1]))
    parts = [(counts, "".join(sign for sign, _ in stretch)) for counts, stretch in stretches]
    return "".join(signs if counts else f"[{signs}]" for counts, signs in parts)


def _heat_map(history: Board, colour: bool) -> list[str]:
    unsteady = [case for case in history.cases if not _is_plain(case)]
    if not unsteady:
        return [f"Cases: all {len(history.cases)} passed in every run."]
    lines = ["Cases over runs, the newest on the right:", f"  ({LEGEND})"]
    for case in unsteady[:CASES_SHOWN]:
        cells = _marked("".join(map(cell, case.cells)), history)
        lines.append(f"  {_name(case)}  {_painted_cells(cells, colour)}")
    hidden = len(unsteady) - CASES_SHOWN
    if hidden > 0:
        lines.append(f"  and {count(hidden, 'more case')} that did not always pass")
    plain = len(history.cases) - len(unsteady)
    if plain:
        lines.append(f"  and {count(plain, 'case')} that passed in every run")
    return lines


def _painted_cells(cells: str, colour: bool) -> str:
    if not colour:
        return cells
    return "".join(painted(sign, _colour_of_cell(sign), wanted=sign in "x?123456789") for sign in cells)


def _colour_of_cell(character: str) -> str:
    return RED if character == "x" else YELLOW


def _is_plain(case: CaseBoard) -> bool:
    return case.always_passed and all(cell(each) in ". " for each in case.cells)


def _flake_board(history: Board, colour: bool) -> list[str]:
    lines = [f"By their last 20 trials: {kinds_words(history)}"]
    unsteady = [case for case in history.cases if not case.always_passed][:CASES_SHOWN]
    if not unsteady:
        return lines
    rows = [("case", "kind", "rate (95% interval)", "last 20 trials", "since", "misses")]
    rows += [
        (
            _name(case).rstrip(),
            case.kind,
            rate_words(case),
            case.letters,
            since_words(case) or "-",
            misses_words(case),
        )
        for case in unsteady
    ]
    return [*lines, "", *_table(rows, [case.kind for case in unsteady], colour)]


def _table(rows: Sequence[tuple[str, ...]], kinds: Sequence[str], colour: bool) -> list[str]:
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]) - 1)]
    lines = []
    for number, row in enumerate(rows):
        cells = [text.ljust(width) for text, width in zip(row, widths, strict=False)]
        if number:
            paint = _COLOURS.get(kinds[number - 1], YELLOW)
            cells[1] = painted(cells[1], paint, wanted=colour)
        lines.append("  " + "  ".join([*cells, clean(row[-1], limit=120)]).rstrip())
    return lines


def _name(case: CaseBoard) -> str:
    return shown_name(case.case_id, _NAME).ljust(_NAME)
