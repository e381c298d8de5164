"""The facts of a suite, as sentences and rows: what it is compared with, figures, judges, runs."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from agent_eval.contracts import Comparison, GateStatus, Metric
from agent_eval.reports.blocks import AMOUNTS, amount, code, named, pair
from agent_eval.reports.causes import crashed
from agent_eval.reports.counts import passing, redacted
from agent_eval.reports.model import BaselineInfo, SuiteReport
from agent_eval.text.escape import one_line
from agent_eval.text.numbers import count, percent, verb

_SHA = 7
_IDS = 10
"""Ids that a sentence about the suite itself names."""
_FEW = 4
"""Ids that a line below a green headline names."""


class JudgeRow(NamedTuple):
    """A judge over the whole run; its change is empty where it did not move."""

    judge_id: str
    passed: str
    change: str


class Fact(NamedTuple):
    """A fact of this run, and of the one that it is compared with; `change` says how a figure moved."""

    label: str
    now: str
    main: str = ""
    change: str = ""


def compared_with(suite: SuiteReport, head_sha: str | None) -> str:
    """Name the two commits, or runs where these are unknown; empty without a comparison."""
    if suite.comparison is None:
        return ""
    own, other = suite.comparison.candidate, suite.comparison.baseline
    head, baseline = head_sha or own.git_commit, suite.baseline
    sha = (baseline.sha if baseline else None) or other.git_commit
    now = code(head[:_SHA]) if head else f"run {code(own.run_id)}"
    then = code(sha[:_SHA]) if sha else f"run {code(other.run_id)}"
    if baseline is not None and baseline.branch:
        then = f"{code(baseline.branch)} {then}"
    return f"{now} vs {then}"


def how_found(baseline: BaselineInfo) -> str:
    """Say how a baseline was found, and how old it is."""
    how = "given as a path" if baseline.how == "path" else one_line(baseline.how, limit=120)
    age = f", {one_line(baseline.age, limit=30)} old" if baseline.age else ""
    return f"{how}{age}{f', run {baseline.run_id}' if baseline.run_id else ''}"


def figures(suite: SuiteReport) -> list[str]:
    """Write what moved over the whole run, a few words each; empty where nothing was compared."""
    comparison = suite.comparison
    if comparison is None or suite.nothing_shared:
        return []
    trials = comparison.trials
    rate = comparison.metrics.get("pass_rate")
    words = []
    if trials is not None:
        before, now = trials.baseline.pass_rate, trials.candidate.pass_rate
        moved = Metric(name="trials", baseline=before, candidate=now, delta=now - before)
        words.append(f"trials passed {_moved(moved)}")
    elif rate is not None:
        words.append(f"pass rate {_moved(rate)}")
    # A case that broke may pass in the first run, so that the comparison alone would not count it.
    broke = [row for row in suite.judged_cases if row.answer == "broke"]
    is_open = not broke and bool(suite.blocking)
    regressed = len(suite.worse) if crashed(suite.worse) else len(broke) or len(suite.worse)
    words.append(f"{len(suite.blocking):,} not settled" if is_open else f"{regressed:,} regressed")
    words.append(f"{comparison.overview.improved_cases:,} improved")
    words += [
        f"cost {_ratio(metric)}"
        for metric in comparison.behaviour.shifts
        if metric.name == "cost_usd" and metric.baseline and metric.candidate is not None
    ]
    if comparison.cases.new or comparison.cases.changed:
        words.append(f"whole suite: {passing(comparison.candidate.summary).rstrip('.')}")
    return words


def _moved(metric: Metric) -> str:
    before, now, _ = pair(metric)
    return now if before == now else f"{before.removesuffix('%')} → {now}"


def _ratio(metric: Metric) -> str:
    change = (metric.candidate or 0.0) / (metric.baseline or 1.0) - 1
    return f"{'+' if change >= 0 else '−'}{abs(change):.0%}"


def case_sets(suite: SuiteReport) -> list[tuple[bool, str]]:
    """List new, changed and removed cases, none of them compared, each with whether it may hide a failure."""
    if suite.comparison is None:
        return []
    sets, failing = suite.comparison.cases, {row["case_id"] for row in suite.failing}
    lines = []
    for word, ids in (("new", sets.new), ("changed", sets.changed)):
        if ids:
            number = sum(case_id in failing for case_id in ids)
            fail = f" ({number:,} {verb(number, 'does', 'do')} not pass)" if number else ""
            lines.append((bool(number), f"{len(ids):,} {word}, not compared: {named(ids, most=_IDS)}{fail}"))
    passed_before = sorted(set(sets.removed) - set(sets.removed_failing))
    for words, ids in (("removed that failed on main", sets.removed_failing), ("removed", passed_before)):
        if ids:
            check = ". Check that this is meant." if suite.status is GateStatus.PASSED else ""
            lines.append((True, f"{len(ids):,} {words}: {named(ids, most=_IDS)}{check}"))
    return lines


def as_before(suite: SuiteReport) -> list[str]:
    """List the cases that fail on main as well: they do not pass, and did not get worse."""
    if suite.comparison is None:
        return []
    sets, judged = suite.comparison.cases, {row.case_id for row in suite.judged_cases}
    aside = {
        *sets.new,
        *sets.changed,
        *suite.comparison.regressed_case_ids,
        *suite.decision.quarantined_case_ids,
    }
    return [name for row in suite.failing if (name := row["case_id"]) not in aside | judged]


def improved(suite: SuiteReport) -> list[str]:
    """List the cases that pass and did not on main."""
    comparison = suite.comparison
    return [row.case_id for row in comparison.case_regressions if row.improved] if comparison else []


def behind_green(suite: SuiteReport) -> list[str]:
    """Name what improved, and what fails on main as well, where nothing else is to be looked at."""
    if suite.status is not GateStatus.PASSED:
        return []
    better, old = improved(suite), as_before(suite)
    lines = [f"Improved: {named(better, most=_FEW)}."] if better else []
    if old:
        fail = f"{count(len(old), 'case')} {verb(len(old), 'fails', 'fail')}"
        lines.append(f"{fail} on main as well: {named(old, most=_FEW)}.")
    return lines


def notices_of(suite: SuiteReport) -> tuple[list[str], list[str]]:
    """Sort what moved over the whole run: what changes the meaning of every figure, and the rest.

    The two runs may mean different things by "passed". A policy counts trials: the number that each run has
    of them changes nothing about what it says, and of cost and time its decision says it, by a test.
    """
    comparison = suite.comparison
    if comparison is None:
        return [], []
    is_by_policy = suite.decision.decided_by == "policy"
    meaning, rest = [], []
    conditions = {_key(check.message): check.name for check in comparison.compatibility.failures}
    for notice in comparison.behaviour.notices:
        condition = conditions.get(_key(notice))
        if condition == "case_policy_match" or (condition == "trial_count_match" and not is_by_policy):
            meaning.append(notice)
        elif condition != "trial_count_match" and not (is_by_policy and notice.startswith(_AMOUNTS)):
            rest.append(notice)
    return meaning, rest


_AMOUNTS = tuple(f"{words.capitalize()} " for words in AMOUNTS.values())


def _key(sentence: str) -> str:
    return sentence.rstrip(".").casefold()


def incompatible(comparison: Comparison) -> list[str]:
    """Say in which conditions the two runs differ that no notice has named."""
    stated = {_key(notice) for notice in comparison.behaviour.notices}
    return [
        check.message
        for check in comparison.compatibility.failures
        if check.name not in _SAID_BY_NAME and _key(check.message) not in stated
    ]


_SAID_BY_NAME = ("case_id_set_match", "case_definition_match")
"""Which cases are new, changed or gone is said by name."""


def judges(suite: SuiteReport) -> list[JudgeRow]:
    """Count for each judge what it passed of what it could judge, and how that moved."""
    comparison = suite.comparison
    rows = []
    for judge_id, counts in sorted(suite.candidate.summary.judge_counts.items()):
        if not counts.judged and not counts.error:
            continue  # it had nothing to judge
        metric = comparison.judge_metrics.get(judge_id) if comparison is not None else None
        passed = f"{percent(counts.passed / counts.judged)} of {counts.judged:,}" if counts.judged else "–"
        moved = pair(metric)[2] if metric is not None and metric.delta else ""
        rows.append(JudgeRow(judge_id, passed, moved))
    return rows


def curve(suite: SuiteReport) -> str:
    """Say how often all of k trials pass; empty with single trials."""
    summary = suite.candidate.summary
    if summary.flaky_cases is None:
        return ""
    flaky = f"{count(summary.flaky_cases, 'case')} gave different results in different trials."
    steps = [f"{point.k}: {percent(point.pass_hat_k)}" for point in summary.pass_curve[:8]]
    return f"{flaky} All of k trials pass: {', '.join(steps)}." if steps else flaky


def provenance(suite: SuiteReport, tool_version: str = "") -> Iterator[Fact]:
    """List which runs and files a report is about, and the figures of both runs."""
    comparison, decision = suite.comparison, suite.decision
    other = comparison.baseline if comparison is not None else None
    for label, name in (
        ("Run", "run_id"),
        ("Started", "started_at"),
        ("Commit", "git_commit"),
        ("Agent", "agent_version"),
        ("Model", "model"),
        ("Evidence", "manifest_sha256"),
    ):
        stated = [getattr(run, name) if run is not None else None for run in (suite.candidate, other)]
        values = ["" if value in (None, "unknown") else str(value) for value in stated]
        if any(values):
            yield Fact(label, *values)
    yield Fact("Result", *(passing(run.summary).rstrip(".") for run in (suite.candidate, other) if run))
    if comparison is not None and comparison.overview.compared_cases:
        for label, name in (
            ("Pass rate, of compared cases", "pass_rate"),
            ("Hard fails, of compared cases", "hard_fail_rate"),
        ):
            if name in comparison.metrics:
                before, now, moved = pair(comparison.metrics[name])
                yield Fact(label, now, before, moved)
    for metric in comparison.behaviour.shifts if comparison is not None else ():
        if metric.name in AMOUNTS:
            now, before = (amount(metric.name, value) for value in (metric.candidate, metric.baseline))
            ratio = _ratio(metric) if metric.baseline and metric.candidate is not None else ""
            yield Fact(AMOUNTS[metric.name].capitalize(), now, before, ratio)
    files = {
        "Suite": suite.suite_path,
        "Baseline": how_found(suite.baseline) if suite.baseline is not None else "",
        "Main's runs": ", ".join(decision.main_runs[:20]),
        "Comparison": decision.comparison_sha256,
        "Reruns": decision.reruns_sha256,
        "Counts of main's runs": decision.history_sha256,
        "Redacted": redacted(suite.execution) if suite.execution is not None else "",
        "agent-eval": tool_version,
    }
    yield from (Fact(label, value) for label, value in files.items() if value)
