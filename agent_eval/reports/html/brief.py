"""The top of a report: what happened, what to do, the two runs, and how it was decided; as plain values."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from agent_eval.contracts import Comparison, Metric, RunReference
from agent_eval.reports.blocks import AMOUNTS, amount, code, named, pair
from agent_eval.reports.causes import Cause
from agent_eval.reports.counts import judging_words, not_judged, passing
from agent_eval.reports.model import BaselineInfo, SuiteReport
from agent_eval.reports.story import CaseRow, State, story_of
from agent_eval.reports.suite import notices_of, other_meaning
from agent_eval.text.escape import one_line
from agent_eval.text.numbers import count, percent

NAME_LIMIT = 120
SENTENCE_LIMIT = 600
NAMED_IDS = 20

CASES_SHOWN = 200

_QUOTED = re.compile("`([^`]*)`")
SIGNS: dict[State, str] = {"passed": "✓", "failed": "✗", "error": "‼", "inconclusive": "?", "skipped": "–"}


class Words(NamedTuple):
    """A part of a sentence, set as code or not."""

    is_code: bool
    text: str


Sentence = list[Words]


def sentence(text: str, *, limit: int = SENTENCE_LIMIT) -> Sentence:
    """Divide a sentence at its backticks, without invisible characters."""
    parts = _QUOTED.split(one_line(text, limit=limit))
    return [Words(place % 2 == 1, part) for place, part in enumerate(parts) if part]


class RunRow(NamedTuple):
    """A fact of the two runs, one after the other; `change` says how a figure moved."""

    label: str
    before: str
    now: str
    change: str = ""


class Line(NamedTuple):
    """A finding or a limit: how it ended, its name where it has one, and its sentence."""

    state: State
    name: str
    text: Sentence


class JudgeRow(NamedTuple):
    """A judge over the whole run."""

    judge_id: str
    passed: str
    failed: str
    change: str


@dataclass(frozen=True, kw_only=True)
class SuiteBrief:
    """The top of the report of one suite.

    Attributes:
        state: How it ended; `none` without a decision, and then the word is empty.
        word: The state in a word or two.
        to_do: What to do; empty for nothing.
        cases: Cases that newly fail, with their counts, those that block first; each with its reason.
        findings: Safety judges, reruns of the whole suite, release, cost and time.
        notices: What else a reader must know before the cases.
    """

    name: str
    state: str
    sign: str
    word: str
    sentence: Sentence
    why: Sentence
    to_do: Sentence
    cases: Sequence[tuple[CaseRow, Sentence]]
    hidden_cases: int
    findings: Sequence[Line]
    notices: Sequence[Sentence]
    runs: Sequence[RunRow]
    has_baseline: bool
    limits: Sequence[Line]
    judges: Sequence[JudgeRow]


def brief(suite: SuiteReport, *, is_decided: bool, says_nothing: bool = False) -> SuiteBrief:
    """Write the top of the report of a suite.

    With `says_nothing`, the decision cannot be relied on; then neither it nor what got worse is said.
    """
    if says_nothing:
        suite = replace(suite, comparison=None)
    comparison = suite.comparison
    story = story_of(suite, is_evaluated=not says_nothing)
    rows = [
        (
            row._replace(case_id=one_line(row.case_id, limit=NAME_LIMIT) or "∅"),
            # The first line has said the reason of a case that is alone.
            sentence("" if row.reason == story.sentence else row.reason),
        )
        for row in story.cases
    ]
    return SuiteBrief(
        name=one_line(suite.slug, limit=NAME_LIMIT),
        state=story.state if is_decided else "none",
        sign=SIGNS[story.state] if is_decided else "",
        word=story.word if is_decided else "",
        sentence=sentence(story.sentence if is_decided else _undecided(suite)),
        why=sentence(story.why),
        to_do=sentence(story.to_do) if is_decided else [],
        cases=rows[:CASES_SHOWN],
        hidden_cases=max(0, len(rows) - CASES_SHOWN),
        findings=[Line(each.state, "", sentence(each.text)) for each in story.findings],
        notices=[
            sentence(text)
            for text in [*story.notes, *filter(None, [story.spent]), *story.set_aside, *_notices(suite)]
        ],
        runs=list(_runs(suite.candidate, comparison)),
        has_baseline=comparison is not None,
        limits=[Line(rule.state, rule.name, sentence(rule.text)) for rule in story.rules],
        judges=list(_judges(suite.candidate, comparison)),
    )


def cause_words(cause: Cause) -> Sentence:
    """Write a cause in words, with a capital unless it begins with a name."""
    words = cause.words(code)
    return sentence(f"{words[:1].upper()}{words[1:]}")


def _undecided(suite: SuiteReport) -> str:
    comparison = suite.comparison
    if comparison is None:
        return passing(suite.candidate.summary)
    overview = comparison.overview
    return (
        f"{count(overview.compared_cases, 'case')} compared: {overview.regressed_cases:,} regressed, "
        f"{overview.improved_cases:,} improved. {passing(suite.candidate.summary)}"
    )


def _notices(suite: SuiteReport) -> Iterable[str]:
    """Say what changes how the figures are read: the model, the suite, what was not judged."""
    comparison = suite.comparison
    if comparison is not None:
        yield _compared_with(comparison, suite.baseline)
        yield from notices_of(suite)
        yield from other_meaning(suite)
        stated = {notice.rstrip(".").casefold() for notice in comparison.behaviour.notices}
        for check in comparison.compatibility.failures:
            # Which cases are new or gone is said below, by name.
            if check.name not in _SAID_BY_NAME and check.message.rstrip(".").casefold() not in stated:
                yield check.message
        yield from _case_set(comparison)
    if suite.baseline_note:
        yield suite.baseline_note
    yield from not_judged(suite.candidate.summary)
    yield from judging_words(suite.candidate.summary)


_SAID_BY_NAME = ("case_id_set_match", "case_definition_match")


def _compared_with(comparison: Comparison, baseline: BaselineInfo | None) -> str:
    """Name the run that was compared with, its age, and how it was found."""
    sha = (baseline.sha if baseline else None) or comparison.baseline.git_commit
    what = f"commit `{sha[:7]}`" if sha else f"run `{comparison.baseline_run_id}`"
    if baseline is None:
        return f"Compared with {what}."
    branch = f" on `{baseline.branch}`" if baseline.branch else ""
    how = "given as a path" if baseline.how == "path" else baseline.how
    age = f", {baseline.age} old" if baseline.age else ""
    return f"Compared with {what}{branch} ({how}{age})."


def _case_set(comparison: Comparison) -> Iterable[str]:
    sets = comparison.cases
    passed_before = sorted(set(sets.removed) - set(sets.removed_failing))
    for words, case_ids in (
        ("new, not compared", sets.new),
        ("changed, not compared", sets.changed),
        ("removed that passed in the baseline", passed_before),
        ("removed that failed in the baseline", sets.removed_failing),
    ):
        if case_ids:
            yield f"{count(len(case_ids), 'case')} {words}: {named(case_ids, most=NAMED_IDS)}."


def _runs(candidate: RunReference, comparison: Comparison | None) -> Iterable[RunRow]:
    baseline = comparison.baseline if comparison is not None else None
    for label, name in (
        ("Run", "run_id"),
        ("Started", "started_at"),
        ("Commit", "git_commit"),
        ("Agent", "agent_version"),
        ("Model", "model"),
    ):
        values = [_fact(getattr(run, name)) if run is not None else "" for run in (baseline, candidate)]
        if any(values):
            yield RunRow(label, *values)
    yield RunRow("Cases passed", _passed(baseline) if baseline is not None else "", _passed(candidate))
    if comparison is not None:
        yield from _rates(comparison)
        yield from _amounts(comparison.behaviour.shifts)
    digests = [_fact(run.manifest_sha256) if run is not None else "" for run in (baseline, candidate)]
    if any(digests):
        yield RunRow("Evidence (SHA-256)", *digests)


def _fact(value: str | None) -> str:
    return "" if value in (None, "unknown") else one_line(value or "", limit=NAME_LIMIT)


def _passed(run: RunReference) -> str:
    summary = run.summary
    return f"{summary.passed_cases:,} of {summary.total_cases:,} ({percent(summary.pass_rate)})"


def _rates(comparison: Comparison) -> Iterable[RunRow]:
    if not comparison.overview.compared_cases:
        return
    trials = comparison.trials
    if trials is not None:
        before, now = trials.baseline.pass_rate, trials.candidate.pass_rate
        rate = Metric(name="trials", baseline=before, candidate=now, delta=now - before)
        yield RunRow("Trials passed, of compared cases", *pair(rate))
    for label, key in (("Pass rate, of compared cases", "pass_rate"), ("Hard fails", "hard_fail_rate")):
        if key in comparison.metrics:
            yield RunRow(label, *pair(comparison.metrics[key]))


def _amounts(shifts: Sequence[Metric]) -> Iterable[RunRow]:
    for metric in shifts:
        if metric.name not in AMOUNTS:
            continue
        before, now = amount(metric.name, metric.baseline), amount(metric.name, metric.candidate)
        ratio = ""
        if metric.baseline and metric.candidate is not None:
            change = metric.candidate / metric.baseline - 1
            ratio = f"{'+' if change >= 0 else '−'}{abs(change):.0%}"
        words = AMOUNTS[metric.name]
        yield RunRow(f"{words[:1].upper()}{words[1:]}, in total", before, now, ratio)


def _judges(candidate: RunReference, comparison: Comparison | None) -> Iterable[JudgeRow]:
    for judge_id, counts in sorted(candidate.summary.judge_counts.items()):
        metric = comparison.judge_metrics.get(judge_id) if comparison is not None else None
        passed = f"{percent(counts.passed / counts.judged)} of {counts.judged:,}" if counts.judged else "–"
        yield JudgeRow(
            one_line(judge_id, limit=NAME_LIMIT),
            passed,
            f"{counts.failed + counts.error:,}",
            pair(metric)[2] if metric is not None and metric.delta else "",
        )
