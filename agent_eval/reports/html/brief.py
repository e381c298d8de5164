"""The top of a report: what happened, what to do, the two runs, and how it was decided; as plain values."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from agent_eval.config.rules import find_rule
from agent_eval.contracts import Comparison, GateDecision, GateStatus, Metric, RunReference
from agent_eval.reports.blocks import AMOUNTS, amount, pair
from agent_eval.reports.causes import Cause
from agent_eval.reports.counts import judging_words, not_judged, passing
from agent_eval.reports.decision import figures_of
from agent_eval.reports.headline import Headline
from agent_eval.reports.html.confirmed import FreshTrials, fresh_trials
from agent_eval.reports.model import BaselineInfo, SuiteReport
from agent_eval.reports.sentences import capital, decision_word, rule_sentence
from agent_eval.reports.standing import Voice
from agent_eval.reports.tiers import cases_apart, new_case_words
from agent_eval.text.escape import one_line
from agent_eval.text.numbers import count, percent

NAME_LIMIT = 120
SENTENCE_LIMIT = 600
NAMED_IDS = 20

# Private characters, which no shown text holds: they enclose what is set as code.
_OPEN, _CLOSE = "\ue000", "\ue001"
_CODE = re.compile(f"{_OPEN}([^{_CLOSE}]*){_CLOSE}")
_QUOTED = re.compile("`([^`]*)`")
_SIGNS = {
    GateStatus.PASSED: "✓",
    GateStatus.FAILED: "✗",
    GateStatus.INCONCLUSIVE: "?",
    GateStatus.NO_BASELINE: "–",
}


class Words(NamedTuple):
    """A part of a sentence, set as code or not.

    Example:
        >>> sentence("`refund` failed")
        [Words(is_code=True, text='refund'), Words(is_code=False, text=' failed')]
    """

    is_code: bool
    text: str


Sentence = list[Words]


def sentence(text: str, *, limit: int = SENTENCE_LIMIT) -> Sentence:
    """Divide a sentence at its backticks, without invisible characters."""
    return _divided(_prose(text, limit=limit))


def _divided(text: str) -> Sentence:
    words: Sentence = []
    for place, part in enumerate(_CODE.split(text)):
        if place % 2:
            words.append(Words(True, part))
        else:
            # The comment's own sentences set words in backticks.
            words += [Words(inner % 2 == 1, each) for inner, each in enumerate(_QUOTED.split(part)) if each]
    return words


def _code(text: str) -> str:
    return f"{_OPEN}{one_line(text, limit=NAME_LIMIT) or '∅'}{_CLOSE}"


def _prose(text: str, *, limit: int = SENTENCE_LIMIT) -> str:
    return _QUOTED.sub(f"{_OPEN}\\1{_CLOSE}", one_line(text, limit=limit))


VOICE = Voice(code=_code, prose=_prose)
"""Escapes nothing: the template does. Marks what is code, so that `sentence` can divide it."""


class RunRow(NamedTuple):
    """A fact of the two runs, one after the other; `change` says how a figure moved.

    Example:
        >>> RunRow("Pass rate", "94%", "91.1%", "−2.9 pts").change
        '−2.9 pts'
    """

    label: str
    before: str
    now: str
    change: str = ""


class RuleRow(NamedTuple):
    """A rule or a step of the decision, how it ended, and what it says.

    Example:
        >>> RuleRow("Regressed cases", "failed", "3 cases regressed (none allowed)").state
        'failed'
    """

    name: str
    state: str
    text: str


class JudgeRow(NamedTuple):
    """A judge over the whole run.

    Example:
        >>> JudgeRow("policy", "94% of 200", "12", "−2 pts").failed
        '12'
    """

    judge_id: str
    passed: str
    failed: str
    change: str


@dataclass(frozen=True)
class SuiteBrief:
    """The top of the report of one suite.

    Attributes:
        name: Of the suite.
        status: Of the decision: `passed`, `failed`, `inconclusive`, `no-baseline`, or `none` without one.
        sign: A sign for the status, beside its word.
        word: The status in words; empty without a decision.
        happened: What happened, then why.
        to_do: What to do; empty for nothing.
        notices: What else a reader must know before the cases.
        runs: The facts of the two runs.
        has_baseline: Whether there are two.
        rules: How it was decided.
        figures: Figures of the decision, as label and text.
        judges: The judges over the whole run.
        fresh: What was run again by both agents; None for nothing.
        fresh_notes: What those trials took.

    Example:
        `brief(suite, is_decided=True).word` is "failed".
    """

    name: str
    status: str
    sign: str
    word: str
    happened: Sentence
    why: Sentence
    to_do: Sentence
    notices: Sequence[Sentence]
    runs: Sequence[RunRow]
    has_baseline: bool
    rules: Sequence[RuleRow]
    figures: Sequence[tuple[str, str]]
    judges: Sequence[JudgeRow]
    fresh: FreshTrials | None = None
    fresh_notes: Sentence = field(default_factory=list)


def brief(suite: SuiteReport, *, is_decided: bool, says_nothing: bool = False) -> SuiteBrief:
    """Write the top of the report of a suite.

    Args:
        suite: The suite.
        is_decided: Whether a gate decided on it.
        says_nothing: Whether its decision cannot be relied on; then neither it nor what got worse is said.
    """
    if says_nothing:
        return _of_no_decision(suite)
    decision, comparison = suite.decision, suite.comparison
    headline = Headline(suite, VOICE)
    fresh = fresh_trials(suite) if is_decided else None
    happened = headline.what_happened if is_decided else _undecided(suite)
    word = decision_word(suite.status, shares_nothing=suite.nothing_shared) if is_decided else ""
    return SuiteBrief(
        name=one_line(suite.slug, limit=NAME_LIMIT),
        status=suite.status.value if is_decided else "none",
        sign=_SIGNS[suite.status] if is_decided else "",
        word=word,
        happened=_divided(happened),
        why=_divided(headline.why),
        to_do=_divided(headline.what_to_do if is_decided else ""),
        notices=[sentence(text) for text in _notices(suite)],
        runs=list(_runs(suite.candidate, comparison)),
        has_baseline=comparison is not None,
        rules=list(_rules(decision)) if is_decided else [],
        figures=_figures(decision) if is_decided else [],
        judges=list(_judges(suite.candidate, comparison)),
        fresh=fresh,
        fresh_notes=sentence(fresh.notes) if fresh is not None else [],
    )


def _of_no_decision(suite: SuiteReport) -> SuiteBrief:
    """Write the top of a report that nothing was decided on."""
    of_the_run = brief(replace(suite, comparison=None), is_decided=False)
    return replace(of_the_run, status="failed", sign="‼", word="not evaluated")


def cause_words(cause: Cause) -> Sentence:
    """Write a cause in words, with a capital unless it begins with a name."""
    return _divided(capital(cause.words(_code)))


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
    """Say what changes how the figures are read: the model, the suite, excuses, what was not judged."""
    comparison, decision = suite.comparison, suite.decision
    if comparison is not None:
        yield _compared_with(comparison, suite.baseline)
        stated = {notice.rstrip(".").casefold() for notice in comparison.behaviour.notices}
        yield from comparison.behaviour.notices
        for check in comparison.compatibility.failures:
            # Which cases are new or gone is said below, by name.
            if check.name not in _SAID_BY_NAME and check.message.rstrip(".").casefold() not in stated:
                yield check.message
        yield from _case_set(comparison)
    if suite.baseline_note:
        yield suite.baseline_note
    if words := new_case_words(suite, _ids, str):
        yield words
    yield from _excuses(decision)
    branch = suite.history.branch if suite.history is not None else ""
    yield from cases_apart(suite).sentences(_ids, f"`{one_line(branch, limit=60).replace('`', '´')}`")
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
            yield f"{count(len(case_ids), 'case')} {words}: {_ids(case_ids)}."


def _excuses(decision: GateDecision) -> Iterable[str]:
    for waiver in decision.waivers:
        until = f"until {waiver.expires_at}" if waiver.expires_at else "until revoked"
        yield (
            f"Not counted: {_ids(waiver.case_ids)}, by waiver `{waiver.waiver_id}` of "
            f"`{waiver.approved_by}`, {until}: {waiver.reason}"
        )
    if decision.quarantined_case_ids:
        yield f"In quarantine, not compared: {_ids(decision.quarantined_case_ids)}."
    for expired in decision.expired:
        what = f"waiver `{expired.waiver_id}`" if expired.waiver_id else "quarantine"
        when = expired.expires_at or ""
        yield f"Counts again, because its {what} expired {when}: {_ids(expired.case_ids)}."


def _ids(case_ids: Sequence[str]) -> str:
    named = ", ".join(
        f"`{one_line(case_id, limit=80).replace('`', '´')}`" for case_id in case_ids[:NAMED_IDS]
    )
    more = len(case_ids) - NAMED_IDS
    return f"{named} and {more:,} more" if more > 0 else named


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
    """List the rates over the compared cases."""
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
        if metric.name in AMOUNTS:
            before, now = amount(metric.name, metric.baseline), amount(metric.name, metric.candidate)
            words = AMOUNTS[metric.name]
            yield RunRow(f"{words[:1].upper()}{words[1:]}, in total", before, now, _ratio(metric))


def _ratio(metric: Metric) -> str:
    if not metric.baseline or metric.candidate is None:
        return ""
    change = metric.candidate / metric.baseline - 1
    return f"{'+' if change >= 0 else '−'}{abs(change):.0%}"


def _rules(decision: GateDecision) -> Iterable[RuleRow]:
    for step in decision.steps:
        yield RuleRow(step.name.replace("-", " "), step.status, one_line(step.message, limit=SENTENCE_LIMIT))
    for rule in decision.rules:
        known = find_rule(rule.rule)
        name = known.title if known else one_line(rule.rule, limit=NAME_LIMIT)
        state = "not-applied" if not rule.applied else "passed" if rule.passed else "failed"
        yield RuleRow(name, state, rule_sentence(rule, lambda text: one_line(text, limit=SENTENCE_LIMIT)))


def _figures(decision: GateDecision) -> list[tuple[str, str]]:
    evidence = decision.evidence
    return figures_of(decision, evidence) if evidence is not None and evidence.compared else []


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
