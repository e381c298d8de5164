"""Render results for a terminal: prose of at most 80 columns, with or without colour."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from agent_eval.contracts import Comparison, GateDecision, GateStatus, Metric, RunSummary
from agent_eval.contracts.replay import ReplayedVerdict, ReplayExecReport
from agent_eval.contracts.trials import PassCurve, StabilityReport
from agent_eval.gate.explanation import expired
from agent_eval.reports.blocks import pair
from agent_eval.reports.model import EvaluationReport, SuiteReport
from agent_eval.reports.sentences import (
    WORDS,
    broken_rules,
    capital,
    decision_word,
    overall,
    passing,
    rule_sentence,
    sentence,
    suite_why,
)
from agent_eval.reports.suite import fallen, rates
from agent_eval.text.escape import clean
from agent_eval.text.numbers import count, of_all, percent, verb

if TYPE_CHECKING:
    from agent_eval.engine.progress import Standing


WIDTH = 80
_CASES_SHOWN = 10
_IDS_SHOWN = 5
_LINES_OF_A_GATE = 10
_TRIALS_SHOWN = 8

_GREEN, _RED, _YELLOW, _BOLD, _PLAIN = "\x1b[32m", "\x1b[31m", "\x1b[33m", "\x1b[1m", "\x1b[0m"
_COLOURS = {
    GateStatus.PASSED: _GREEN,
    GateStatus.FAILED: _RED,
    GateStatus.INCONCLUSIVE: _YELLOW,
    GateStatus.NO_BASELINE: _YELLOW,
}


def run_text(summary: RunSummary, pack: str, *, colour: bool = False) -> str:
    """Render the result of `run`: how many cases pass, which judges object, where the evidence is."""
    lines = [_paint(passing(summary), _BOLD, colour)]
    if summary.hard_fail_cases:
        lines.append(
            f"{count(summary.hard_fail_cases, 'case')} {verb(summary.hard_fail_cases, 'fails', 'fail')} hard "
            f"({percent(summary.hard_fail_rate)})."
        )
    objecting = [
        (name, counts) for name, counts in summary.judge_counts.items() if counts.judged > counts.passed
    ]
    for name, counts in sorted(objecting, key=lambda item: (item[1].passed - item[1].judged, item[0])):
        lines.append(f"  {_name(name, 40)}: {counts.passed:,} of {counts.judged:,} passed")
    if summary.flaky_cases is not None:
        lines.append(f"{count(summary.flaky_cases, 'case')} {verb(summary.flaky_cases, 'is', 'are')} flaky.")
    lines += [_curve(summary.pass_curve)] if summary.pass_curve else []
    lines.append(f"Evidence: {_name(pack, 1000)}")
    return _text(lines)


def stability_text(report: StabilityReport, path: str | None, *, colour: bool = False) -> str:
    """Render the result of `stability-check`: how many cases are flaky, which, why, and what to do."""
    numbers = report.summary
    flaky, failing = numbers.flaky_cases, numbers.consistently_failing_cases
    first = (
        f"{of_all(flaky, numbers.cases, 'case')} {verb(flaky, 'is', 'are')} flaky; "
        f"{failing:,} always {verb(failing, 'fails', 'fail')}."
    )
    lines = [_paint(first, _RED if flaky else _GREEN, colour)]
    lines += _wrapped(map(clean, report.notes))
    lines += [_curve(report.pass_curve)] if report.pass_curve else []
    rows = sorted(
        (case for case in report.case_stability if case.flaky),
        key=lambda case: (-case.flake_score, case.case_id),
    )
    for case in rows[:_CASES_SHOWN]:
        low, high = percent(case.confidence_95.low), percent(case.confidence_95.high)
        lines.append(f"  {_name(case.case_id, 70)}")
        reason = f"{case.reason} Between {low} and {high}; trust it after {case.minimum_runs:,} runs."
        lines += _wrapped([clean(reason)], first="    ", rest="    ")
    if len(rows) > _CASES_SHOWN:
        lines.append(f"  and {len(rows) - _CASES_SHOWN:,} more")
    return _text([*lines, *([f"Report: {_name(path, 1000)}"] if path else [])])


def _curve(curve: Sequence[PassCurve]) -> str:
    every = ", ".join(f"{point.pass_hat_k:.3f}" for point in curve[:_TRIALS_SHOWN])
    at_least = ", ".join(f"{point.pass_at_k:.3f}" for point in curve[:_TRIALS_SHOWN])
    last = min(len(curve), _TRIALS_SHOWN)
    return f"All of k trials pass, k = 1 to {last}: {every}; one of them: {at_least}"


def compare_text(comparison: Comparison, path: str, *, colour: bool = False) -> str:
    """Render the result of `compare`: what moved, which cases regressed, where the comparison is."""
    overview = comparison.overview
    lines = [
        _paint(
            f"{count(overview.compared_cases, 'case')} compared: {overview.regressed_cases:,} regressed, "
            f"{overview.improved_cases:,} improved.",
            _RED if overview.regressed_cases else _GREEN,
            colour,
        ),
        *_wrapped(clean(notice) for notice in comparison.behaviour.notices),
        *_rates(comparison),
        *_case_set(comparison),
        *_regressed(comparison, _CASES_SHOWN),
        *_less_often(comparison, _CASES_SHOWN),
        f"Comparison: {_name(path, 1000)}",
    ]
    return _text(lines)


def gate_text(decision: GateDecision, path: str, *, colour: bool = False) -> str:
    """Render the result of `gate` in at most ten lines: the decision, each rule with its figure, the file.

    A decision by policy explains itself; its lines may be longer than the screen is wide.
    """
    if decision.explanation:
        first, *rest = (clean(line, limit=600) for line in decision.explanation)
        first = _paint(first, _COLOURS[decision.gate_status], colour)
        return _text([first, *rest, f"Decision: {_name(path, 1000)}"])
    lines = [_paint(f"Gate: {WORDS[decision.gate_status]}", _COLOURS[decision.gate_status], colour)]
    broken = broken_rules(decision)
    for rule in [*broken, *(rule for rule in decision.rules if rule not in broken)]:
        mark = "--" if not rule.applied else "ok" if rule.passed else "NO"
        clause = clean(rule.message, limit=300) if not rule.applied else capital(rule_sentence(rule, clean))
        lines += _wrapped([clause.rstrip(".") + "."], first=f"  {mark} ", rest="     ")
    messages = {rule.message for rule in decision.rules}
    other = [clean(failure, limit=300) for failure in decision.failures if failure not in messages]
    lines += _wrapped(other, first="  NO ", rest="     ")
    lines += _wrapped(_waived(decision), first="  -- ", rest="     ")
    if len(lines) > _LINES_OF_A_GATE - 1:
        lines = [*lines[: _LINES_OF_A_GATE - 2], "  .. and more, see the decision"]
    return _text([*lines, f"Decision: {_name(path, 1000)}"])


def _waived(decision: GateDecision) -> list[str]:
    return [
        f"Waived by {_name(waiver.approved_by, 60)} ({_name(waiver.waiver_id, 40)}): "
        f"{count(len(waiver.case_ids), 'case')}."
        for waiver in decision.waivers
    ] + [capital(clean(expired(decision), limit=600)) + "."] * bool(decision.expired)


def evaluation_text(report: EvaluationReport, *, colour: bool = False) -> str:
    """Render a report: each suite's decision and why, what regressed, where the evidence is."""
    lines: list[str] = []
    if report.not_evaluated:
        reason = f"Not evaluated: {clean(report.not_evaluated)}"
        lines += [*(_paint(line, _RED, colour) for line in _wrapped([reason], rest="  ")), ""]
    if report.rule_changes.sentences:
        lines += [_paint(report.rule_changes.title, _YELLOW, colour)]
        lines += _wrapped(map(clean, report.rule_changes.sentences), first="  ", rest="    ")
        lines.append("")
    if len(report.suites) > 1:
        lines += [_paint(overall(report), _COLOURS[report.status], colour), ""]
    for suite in report.worst_first:
        lines += [*_suite(suite, colour), ""]
    lines += _wrapped((f"warning: {clean(warning)}" for warning in report.warnings), rest="  ")
    if report.evidence_name:
        lines.append(f"Evidence: {_name(report.evidence_name, 1000)}")
    return _text(lines)


def _suite(suite: SuiteReport, colour: bool) -> list[str]:
    title = f"{_name(suite.slug, 60)}: {decision_word(suite.status, shares_nothing=suite.nothing_shared)}"
    lines = [_paint(title, _COLOURS[suite.status], colour)]
    lines += _wrapped((sentence([reason]) for reason in suite_why(suite, clean)), first="  ", rest="  ")
    if suite.baseline_note:
        lines += _wrapped([clean(suite.baseline_note)], first="  ", rest="  ")
    if suite.comparison is not None and suite.nothing_shared:
        lines += [f"  {line}" for line in _case_set(suite.comparison)] + _failing(suite)
    elif suite.comparison is not None:
        inside = [
            *_wrapped(clean(notice) for notice in suite.comparison.behaviour.notices),
            *_rates(suite.comparison),
            *_case_set(suite.comparison),
            *_regressed(suite.comparison, _CASES_SHOWN),
            *_less_often(suite.comparison, _CASES_SHOWN),
        ]
        lines += [f"  {line}" for line in inside]
    else:
        lines += _failing(suite)
    return lines


def _failing(suite: SuiteReport) -> list[str]:
    lines = []
    for row in suite.failing[:_CASES_SHOWN]:
        lines.append(f"    {_name(row['case_id'], 70)}")
        objections = [verdict for verdict in row["verdicts"] if verdict["outcome"] == row["outcome"]]
        reasons = [
            f"{_name(verdict['judge_id'], 40)}: {clean(verdict['reason'], limit=200)}"
            for verdict in objections[:1]
        ]
        lines += _wrapped(reasons, first="      ", rest="      ")
    if len(suite.failing) > _CASES_SHOWN:
        lines.append(f"    and {len(suite.failing) - _CASES_SHOWN:,} more")
    return ["  Not passed:", *lines] if lines else []


def _rates(comparison: Comparison) -> list[str]:
    named = [("Pass rate", "pass_rate"), ("Hard-fail rate", "hard_fail_rate")]
    rows = [(label, comparison.metrics[key]) for label, key in named if key in comparison.metrics]
    moved: list[Metric] = [metric for metric in comparison.judge_metrics.values() if metric.delta]
    moved.sort(key=lambda metric: (metric.delta or 0.0, metric.name))
    rows += [(_name(metric.name, 24), metric) for metric in moved[:_CASES_SHOWN]]
    width = max((len(label) for label, _ in rows), default=0)
    lines = []
    for label, metric in rows:
        before, now, difference = pair(metric)
        lines.append(f"  {label:<{width}}  {before} → {now} ({difference})")
    return lines


def _case_set(comparison: Comparison) -> list[str]:
    sets = comparison.cases
    kinds: Sequence[tuple[str, Sequence[str]]] = (
        ("new", sets.new),
        ("changed", sets.changed),
        ("removed", sorted(set(sets.removed) - set(sets.removed_failing))),
        ("removed that failed in the baseline", sets.removed_failing),
    )
    lines = []
    for word, ids in kinds:
        if ids:
            listed = ", ".join(_name(case_id, 30) for case_id in ids[:_IDS_SHOWN])
            more = f" and {len(ids) - _IDS_SHOWN:,} more" if len(ids) > _IDS_SHOWN else ""
            lines += _wrapped([f"Not compared, {len(ids):,} {word}: {listed}{more}"], rest="  ")
    return lines


def _regressed(comparison: Comparison, most: int) -> list[str]:
    rows = [row for row in comparison.case_regressions if row.regressed]
    lines = []
    for row in rows[:most]:
        reason = f"{row.baseline_outcome.value} → {row.candidate_outcome.value}"
        if row.judges:
            reason = f"{_name(row.judges[0].judge_id, 40)}: {clean(row.judges[0].reason, limit=200)}"
        lines.append(f"  {_name(row.case_id, 70)}")
        lines += _wrapped([reason], first="    ", rest="    ", width=WIDTH - 2)
    if len(rows) > most:
        lines.append(f"  and {len(rows) - most:,} more")
    return ["Regressed:", *lines] if lines else []


def _less_often(comparison: Comparison, most: int) -> list[str]:
    rows = fallen(comparison)
    lines = [f"  {_name(row.case_id, 40)}: {rates(row)} trials" for row in rows[:most]]
    if len(rows) > most:
        lines.append(f"  and {len(rows) - most:,} more")
    return ["Pass less often:", *lines] if lines else []


def _wrapped(paragraphs: Iterable[str], *, first: str = "", rest: str = "", width: int = WIDTH) -> list[str]:
    lines: list[str] = []
    for paragraph in paragraphs:
        lines += textwrap.wrap(
            paragraph, width - 2, initial_indent=first, subsequent_indent=rest, break_on_hyphens=False
        )
    return lines


def _name(text: str, limit: int) -> str:
    return clean(text, limit=limit) or "∅"


def _paint(text: str, colour: str, wanted: bool) -> str:
    return f"{colour}{text}{_PLAIN}" if wanted else text


def _text(lines: Iterable[str]) -> str:
    return "\n".join(lines)


def agent_run_text(summary: RunSummary, pack: str, standing: Standing, *, colour: bool = False) -> str:
    """Render the run of an agent: the result of `run`, why cases fail, what was sent again, what it cost."""
    *lines, evidence = run_text(summary, pack, colour=colour).splitlines()
    sentences = [*_kinds(summary), *_effort(standing)]
    wrapped = [line for text in sentences for line in textwrap.wrap(text, WIDTH, subsequent_indent="  ")]
    return "".join(f"{line}\n" for line in [*lines, *wrapped, evidence])


def _kinds(summary: RunSummary) -> list[str]:
    ordered = sorted(summary.failures.items(), key=lambda item: (-item[1], item[0]))
    kinds = ", ".join(f"{name} {number:,}" for name, number in ordered)
    return [f"Verdicts that do not pass, by kind: {kinds}."] if kinds else []


def _effort(standing: Standing) -> list[str]:
    sentences = []
    if number := standing.resumed:
        sentences.append(f"{count(number, 'trial')} {verb(number, 'was', 'were')} done before.")
    if number := standing.retries:
        sentences.append(f"{count(number, 'request')} {verb(number, 'was', 'were')} sent again.")
    if standing.cost_usd:
        unknown = f", and what {count(standing.unknown_cost, 'trial')} cost is not known"
        sentences.append(f"Spent: ${standing.cost_usd:,.4f}{unknown if standing.unknown_cost else ''}.")
    return [" ".join(sentences)] if sentences else []


_BAR = 24


def progress_text(standing: Standing) -> str:
    """Write progress on one line: how many are done and how they ended, the cost, the time left."""
    share = 100 * standing.done // standing.total if standing.total else 100
    done = f"{standing.done:,} of {standing.total:,} {standing.unit} ({share} %)"
    return ", ".join([done, *_outcomes(standing), *_cost(standing, " and more"), *_time_left(standing)])


def progress_bar(standing: Standing, columns: int) -> str:
    """Write progress with a bar before it; a narrow terminal gets fewer words, then no bar."""
    filled = _BAR * standing.done // standing.total if standing.total else _BAR
    bar = f"[{'#' * filled}{'.' * (_BAR - filled)}] "
    short = ", ".join(
        [
            f"{standing.done:,}/{standing.total:,}",
            *_outcomes(standing),
            *_cost(standing, "+"),
            *_time_left(standing),
        ]
    )
    lines = (bar + progress_text(standing), bar + short, short)
    return next((line for line in lines if len(line) < columns), short)[: max(columns - 1, 1)]


def _outcomes(standing: Standing) -> list[str]:
    parts = [f"{standing.passed:,} passed", f"{standing.failed:,} failed", count(standing.errors, "error")]
    return [*parts, count(standing.retries, "retry", "retries")] if standing.retries else parts


def _cost(standing: Standing, more: str) -> list[str]:
    if not standing.cost_usd:
        return []
    return [f"${standing.cost_usd:,.4f}{more if standing.unknown_cost else ''}"]


def _time_left(standing: Standing) -> list[str]:
    seconds = standing.seconds_left
    return [] if seconds is None or standing.done >= standing.total else [f"{_duration(seconds)} left"]


def _duration(seconds: float) -> str:
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60:02d} s"
    return f"{whole // 3600} h {whole % 3600 // 60:02d} min"


_SHOWN = 10
_GREEN, _RED, _PLAIN = "\x1b[32m", "\x1b[31m", "\x1b[0m"


def replay_exec_text(report: ReplayExecReport, path: str | None, *, colour: bool = False) -> str:
    """Render the result of `replay-exec`: whether the agent did the same, and the first differences."""
    passed = report.execution_replay_passed
    differing = {case.case_id for case in report.case_mismatches}
    differing |= {case.case_id for case in report.trace_mismatches}
    summary = f"{count(report.cases, 'case')} run again: "
    if differing:
        summary += f"{len(differing):,} {verb(len(differing), 'differs', 'differ')}."
    else:
        summary += "the same trajectories, the same verdicts."
    lines = [f"{_GREEN if passed else _RED}{summary}{_PLAIN}" if colour else summary]
    lines += [
        f"  {clean(case.case_id, limit=70)}: {clean(case.difference, limit=300)}"
        for case in report.trace_mismatches[:_SHOWN]
    ]
    lines += [
        f"  {clean(case.case_id, limit=70)}: {clean(judge.judge_id, limit=40)} said {judge.saved}, "
        f"now {judge.replayed}"
        for case in report.case_mismatches[:_SHOWN]
        for judge in sorted(case.judges, key=_says_nothing_bad)[:1]
    ]
    lines += [
        f"  {clean(difference.field, limit=70)} was {clean(str(difference.saved), limit=60)}, "
        f"is {clean(str(difference.current), limit=60)} here"
        for difference in report.env_mismatches[:_SHOWN]
    ]
    if report.env_mismatches and not report.environment_counts:
        lines.append("  Differences of the environment do not count.")
    if path:
        lines.append(f"Report: {clean(path, limit=1000)}")
    return "\n".join(lines)


def _says_nothing_bad(judge: ReplayedVerdict) -> bool:
    """Sort judges that object first."""
    return judge.replayed in ("passed", "skipped", "absent")
