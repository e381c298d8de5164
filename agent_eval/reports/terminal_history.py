"""Render what main's runs say for a terminal: trend, cases to quarantine, what was lost since a release."""

from __future__ import annotations

from collections import Counter
from itertools import groupby
from typing import Any, get_args

from agent_eval.gate.release import FEWEST, Drift
from agent_eval.gate.statistics import wilson
from agent_eval.history.board import Board, CaseBoard, Kind, Recommendation
from agent_eval.reports.history import LEGEND, cell, costs, latencies, rates, trend_words
from agent_eval.reports.terminal import GREEN, RED, YELLOW, painted, shown_name
from agent_eval.text.escape import clean
from agent_eval.text.numbers import count, distance, percent

CASES_SHOWN = 30
_MOST_FALLEN = 5
_NAME = 34
_COLOURS = {"steady": GREEN, "flaky": RED, "failing": RED}


def history_text(history: Board, dataset_id: str, *, colour: bool = False) -> list[str]:
    """Render a history as lines; it can be read without colour."""
    if not history.runs:
        return [f"History of {shown_name(dataset_id, 60)}: no run yet."]
    first, last = history.runs[0].run, history.runs[-1].run
    span = f"{count(len(history.runs), 'run')} from {first.started_at[:10]} to {last.started_at[:10]}"
    title = f"History of {shown_name(dataset_id, 60)}: {span}"
    lines = [title, f"Key {last.key}, model {shown_name(last.model, 60)}"]
    if history.other_keys:
        words = count(history.other_keys, "run")
        lines.append(f"{words} with another key, in [brackets]: shown, and not counted below")
    lines += ["", f"Pass rate  {_marked(rates(history.runs).sparkline, history)}  {trend_words(history)}"]
    for name, series, write, of_what in (
        ("Cost       ", costs(history.runs), "${:,.4f}".format, ""),
        ("Latency    ", latencies(history.runs), "{:,.2f} s".format, ", median of its cases"),
    ):
        if series.newest is not None:
            low, high = write(min(series.known)), write(max(series.known))
            words = f"{write(series.newest)} in the newest run{of_what}; {low} to {high}"
            lines.append(f"{name}{_marked(series.sparkline, history)}  {words}")
    return [*lines, "", *_heat_map(history, colour), "", *_flake_board(history, colour)]


def _marked(line: str, history: Board) -> str:
    """Put the runs of another key, which do not count, into brackets; `line` has a character for each run."""
    stretches = groupby(zip(line, history.runs, strict=True), key=lambda each: history.counts(each[1]))
    parts = [(counts, "".join(sign for sign, _ in stretch)) for counts, stretch in stretches]
    return "".join(signs if counts else f"[{signs}]" for counts, signs in parts)


def _heat_map(history: Board, colour: bool) -> list[str]:
    unsteady = [
        case
        for case in history.cases
        if not (case.always_passed and all(cell(each) in ". " for each in case.cells))
    ]
    if not unsteady:
        return [f"Cases: all {len(history.cases)} passed in every run."]
    lines = ["Cases over runs, the newest on the right:", f"  ({LEGEND})"]
    for case in unsteady[:CASES_SHOWN]:
        cells = _marked("".join(map(cell, case.cells)), history)
        if colour:
            marks = {"x": RED} | dict.fromkeys("?123456789", YELLOW)
            cells = "".join(painted(sign, marks.get(sign, ""), wanted=sign in marks) for sign in cells)
        lines.append(f"  {_name(case)}  {cells}")
    hidden = len(unsteady) - CASES_SHOWN
    if hidden > 0:
        lines.append(f"  and {count(hidden, 'more case')} that did not always pass")
    plain = len(history.cases) - len(unsteady)
    if plain:
        lines.append(f"  and {count(plain, 'case')} that passed in every run")
    return lines


def _flake_board(history: Board, colour: bool) -> list[str]:
    numbers = Counter(case.kind for case in history.cases)
    kinds = ", ".join(f"{numbers[kind]:,} {kind}" for kind in get_args(Kind) if numbers[kind])
    lines = [f"By their last 20 trials: {kinds or 'none'}"]
    unsteady = [case for case in history.cases if not case.always_passed][:CASES_SHOWN]
    if not unsteady:
        return lines
    rows = [("case", "kind", "rate (95% interval)", "last 20 trials", "since", "misses")]
    for case in unsteady:
        since, rate = "-", "not scored"
        if case.since is not None:
            run = clean((case.since.git_commit or "")[:7] or case.since.run_id, limit=40)
            since = f"{run} ({clean(case.since.started_at[:10])})"
        if case.scored:
            ends = (percent(end, decimals=0) for end in wilson(case.passed, case.scored))
            rate = f"{percent(case.passed / case.scored, decimals=0)} ({' to '.join(ends)})"
        misses = [f"{number} {kind.replace('_', ' ')}" for kind, number in case.missed.items()]
        misses += [f"{number} lost to {kind.replace('_', ' ')}" for kind, number in case.lost.items()]
        rows.append((_name(case).rstrip(), case.kind, rate, case.letters, since, ", ".join(misses)))
    widths = [max(map(len, column)) for column in list(zip(*rows, strict=True))[:-1]]
    lines.append("")
    for number, (*row, last) in enumerate(rows):
        cells = [text.ljust(width) for text, width in zip(row, widths, strict=True)]
        if number:
            cells[1] = painted(cells[1], _COLOURS.get(row[1], YELLOW), wanted=colour)
        lines.append("  " + "  ".join([*cells, clean(last, limit=120)]).rstrip())
    return lines


def _name(case: CaseBoard) -> str:
    return shown_name(case.case_id, _NAME).ljust(_NAME)


def recommendation_lines(recommended: Recommendation, history: Board) -> list[str]:
    """Write YAML: the entries of `quarantine` to add, and in comments those to take out."""
    runs = count(len(history.counted), "run")
    lines = [f"# What {runs} of main recommend. Review it, then put it into the policy."]
    lines += [
        f"# {_quoted(case.case_id)} passes again, {_rate(case)}: take it out." for case in recommended.remove
    ]
    if not recommended.add:
        return [*lines, "# No case to quarantine."]
    lines.append("quarantine:")
    for case in recommended.add:
        lines += [
            f"  - case: {_quoted(case.case_id)}",
            f'    reason: "{case.kind}: {_rate(case)}"',
            f"    until: {recommended.until}",
        ]
    return lines


def recommendation_json(recommended: Recommendation) -> dict[str, Any]:
    """Describe a recommendation as JSON."""
    return {
        "quarantine": [
            {
                "case": case.case_id,
                "reason": f"{case.kind}: {_rate(case)}",
                "until": recommended.until,
            }
            for case in recommended.add
        ],
        "remove": [
            {"case": case.case_id, "passed": case.passed, "scored": case.scored}
            for case in recommended.remove
        ],
    }


def _rate(case: CaseBoard) -> str:
    return f"{case.passed} of {count(case.scored, 'trial')} passed"


def _quoted(case_id: str) -> str:
    """Quote an id as a string of YAML on one line, whatever is in it."""
    escaped = case_id.replace("\\", "\\\\").replace('"', '\\"')
    signs = (sign if sign.isprintable() else f"\\U{ord(sign):08X}" for sign in escaped)
    return f'"{"".join(signs)}"'


def drift_text(drift: Drift) -> list[str]:
    """Render the verdict first, then the figures it rests on, and the cases that fell the most."""
    runs = len(drift.runs)
    over = f"over its last {count(runs, 'run')}"
    if drift.p_value is None or drift.lost is None:
        verdict = (
            f"Main has run {count(runs, 'time')} since the release: nothing is said before {FEWEST} runs."
        )
    elif drift.is_worse:
        verdict = f"Main passes {distance(drift.lost)} points less than the release {over}."
    else:
        moved = f"{distance(drift.lost)} points {'less' if drift.lost > 0 else 'more'}"
        verdict = f"Main does not pass less than the release {over}: {moved} is within chance."
    lines = [verdict]
    if drift.p_value is not None:
        lines.append(
            f"Chance of so large a fall without a change: {drift.p_value:.2g} (Welch's t over run totals)."
        )
    for word, totals in (("Release", drift.release), ("Main", drift.main)):
        figures = ", ".join(f"{total:g}" for total in totals)
        lines.append(f"{word}: {figures} of {drift.cases} cases passed.")
    if drift.left_out_cases or drift.left_out_runs:
        cases, left_out = count(drift.left_out_cases, "case"), count(drift.left_out_runs, "run")
        lines.append(f"Left out: {cases} that changed or are gone, {left_out} that cannot be compared.")
    if drift.is_worse and drift.fallen:
        lines.append("Fell the most:")
        lines += [
            f"  {clean(case.case_id)}  {case.release:.0%} → {case.main:.0%}"
            for case in drift.fallen[:_MOST_FALLEN]
        ]
    return lines
