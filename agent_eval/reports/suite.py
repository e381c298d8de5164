"""Render one suite as markdown: its baseline, the change in numbers, the cases, the folded rest."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from agent_eval.contracts import (
    Cluster,
    Comparison,
    GateDecision,
    Metric,
    RunReference,
    RunSummary,
)
from agent_eval.reports.blocks import (
    AMOUNTS,
    amount,
    bullets,
    folded,
    names,
    pair,
    table,
)
from agent_eval.reports.cases import improved, less_often
from agent_eval.reports.counts import passing, redacted
from agent_eval.reports.decision import limits
from agent_eval.reports.detail import Detail
from agent_eval.reports.model import SuiteReport, nothing_shared
from agent_eval.reports.replay import replay_sentence
from agent_eval.reports.story import Story, answers, story_of
from agent_eval.text.escape import code_span, link, plain, prose
from agent_eval.text.numbers import count, percent, verb

_SHA = 7
NBSP = "\u00a0"


def compared_with(suite: SuiteReport, head_sha: str | None, detail: Detail) -> str:
    """Name the compared commits, the age of the baseline and how it was found; or say why there is none."""
    note = prose(suite.baseline_note, limit=2 * detail.quote) if suite.baseline_note else ""
    if suite.comparison is None:
        return note
    shares = "shares no unchanged case with" if suite.nothing_shared else "compared with"
    commit = f"Commit {code_span(head_sha[:_SHA])}" if head_sha else "This run"
    parts = [f"{commit} {shares}"]
    baseline = suite.baseline
    reference = suite.comparison.baseline
    sha = (baseline.sha if baseline else None) or reference.git_commit
    parts.append(code_span(sha[:_SHA]) if sha else f"run {code_span(reference.run_id, limit=detail.name)}")
    if baseline:
        if baseline.branch:
            parts.append(f"on {plain(baseline.branch, limit=detail.name)}")
        how = "given as a path" if baseline.how == "path" else baseline.how
        facts = [plain(how, limit=detail.name)]
        if baseline.age:
            facts.append(f"{prose(baseline.age, limit=30)} old")
        if baseline.run_url and detail.links:
            name = f"run {plain(baseline.run_id, limit=30)}" if baseline.run_id else "its run"
            facts.append(link(name, baseline.run_url))
        parts.append(f"({', '.join(facts)})")
    return f"{' '.join(parts)}. {note}".strip()


def compared_runs(comparison: Comparison, detail: Detail) -> str:
    """Name the runs that were compared, where it is unknown how the baseline was found."""
    candidate, baseline = (
        f"{code_span(run.run_id, limit=detail.name)}"
        + (f" (commit {code_span(run.git_commit[:_SHA])})" if run.git_commit else "")
        for run in (comparison.candidate, comparison.baseline)
    )
    return f"Run {candidate} compared with {baseline}."


def case_set(comparison: Comparison | None, failing: Iterable[str], detail: Detail) -> str:
    """List new, changed and removed cases: they are not compared, so a reader must know of them first."""
    if comparison is None:
        return ""
    sets = comparison.cases
    failing_now = set(failing)
    items = []
    for word, ids in (("new", sets.new), ("changed", sets.changed)):
        if ids:
            listed = names(ids, most=detail.ids, limit=detail.name)
            items.append(f"{len(ids):,} {word}: {listed}{_of_which_fail(ids, failing_now)}")
    if sets.removed_failing:
        listed = names(sets.removed_failing, most=detail.ids, limit=detail.name)
        items.append(f"⚠️ {len(sets.removed_failing):,} **removed that failed in the baseline**: {listed}")
    passed_before = sorted(set(sets.removed) - set(sets.removed_failing))
    if passed_before:
        items.append(
            f"⚠️ {len(passed_before):,} removed: {names(passed_before, most=detail.ids, limit=detail.name)}"
        )
    if not items:
        return ""
    return f"**The suite itself changed** (these cases are not compared):\n\n{bullets(items)}"


def other_meaning(suite: SuiteReport) -> list[str]:
    """Say where the two runs mean different things by "passed", which changes how every figure is read."""
    if suite.comparison is None:
        return []
    # A policy counts trials: the number that each run has of them changes nothing about what it says.
    checks = _MEANING[:1] if suite.decision.decided_by == "policy" else _MEANING
    meaning = _messages_of(suite.comparison, checks)
    return [notice for notice in suite.comparison.behaviour.notices if _key(notice) in meaning]


def other_rules(suite: SuiteReport, detail: Detail) -> str:
    """List where the two runs mean different things by "passed"."""
    listed = other_meaning(suite)
    return bullets(f"⚠️ {prose(notice, limit=detail.quote + 60)}" for notice in listed[: detail.sentences])


_MEANING = ("case_policy_match", "trial_count_match")
"""Conditions that change what "passed" means where they do not hold."""


def _messages_of(comparison: Comparison, checks: tuple[str, ...]) -> set[str]:
    return {_key(check.message) for check in comparison.compatibility.failures if check.name in checks}


def _key(sentence: str) -> str:
    return sentence.rstrip(".").casefold()


def notices_of(suite: SuiteReport) -> list[str]:
    """List what moved over the whole run. Of cost and time a policy's decision says it, by a test."""
    comparison = suite.comparison
    if comparison is None:
        return []
    meaning = _messages_of(comparison, _MEANING)
    is_by_policy = suite.decision.decided_by == "policy"
    return [
        notice
        for notice in comparison.behaviour.notices
        if _key(notice) not in meaning and not (is_by_policy and notice.startswith(_AMOUNTS))
    ]


_AMOUNTS = tuple(f"{words.capitalize()} " for words in AMOUNTS.values())


def notices(suite: SuiteReport, detail: Detail) -> str:
    """List what moved over the whole run: the model, the judges."""
    lines = bullets(prose(each, limit=detail.quote + 60) for each in notices_of(suite)[: detail.sentences])
    return f"**Over the whole run:**\n\n{lines}" if lines else ""


def numbers_line(suite: SuiteReport, detail: Detail) -> str:
    """Write the change on one line: cases by how they changed, the rates before and now, the cost."""
    comparison = suite.comparison
    if comparison is None or nothing_shared(comparison):
        return ""
    rows = _rates(comparison)
    # At a level without commands only the most important rate has room.
    parts = [
        f"{label[:1].lower()}{label[1:]} {now}" for label, _, now in (rows if detail.commands else rows[:1])
    ]
    parts += _changed_cases(suite, comparison)
    parts += _cost(comparison)
    if comparison.cases.new or comparison.cases.changed:
        parts.append(f"whole suite {passing(comparison.candidate.summary).rstrip('.')}")
    return " · ".join(parts)


def _changed_cases(suite: SuiteReport, comparison: Comparison) -> list[str]:
    """Count the cases that newly fail by their answer, and those that improved."""
    story = story_of(suite)
    is_by_policy = suite.decision.decided_by == "policy"
    numbers = dict(answers(story)) if story.cases or is_by_policy else {"regressed": len(suite.worse)}
    numbers["waived"] = len(suite.decision.waived_case_ids)
    numbers["improved"] = comparison.overview.improved_cases
    return [f"**{number:,}** {word}" for word, number in numbers.items() if number or word == "regressed"]


def _cost(comparison: Comparison) -> list[str]:
    for metric in comparison.behaviour.shifts:
        if metric.name == "cost_usd" and metric.baseline and metric.candidate is not None:
            before = amount(metric.name, metric.baseline).removesuffix(" USD")
            return [f"cost {before} → {amount(metric.name, metric.candidate)}".replace(" ", NBSP)]
    return []


def _rates(comparison: Comparison) -> list[tuple[str, str, str]]:
    """List the rates of the run as label, change, and both values; those of trials first where there are."""
    rows = []
    labels = [("Pass rate", "pass_rate"), ("Hard fails", "hard_fail_rate")]
    trials = comparison.trials
    if trials is not None:
        before, now = trials.baseline.pass_rate, trials.candidate.pass_rate
        metric = Metric(name="trials", baseline=before, candidate=now, delta=now - before)
        rows.append(("Trials passed", *_moved(metric)))
        labels[0] = ("Cases passed", "pass_rate")
    return rows + [
        (label, *_moved(comparison.metrics[key])) for label, key in labels if key in comparison.metrics
    ]


def rates_table(comparison: Comparison | None) -> str:
    """Render the rates of the run before and now as a table."""
    if comparison is None or nothing_shared(comparison):
        return ""
    rows = [(label.replace(" ", NBSP), change, both) for label, change, both in _rates(comparison)]
    return table(("", "Change", "Was → now"), (":--", "--:", ":--"), rows)


def _judges_that_moved(comparison: Comparison, detail: Detail) -> str:
    # Names are long and a phone is narrow, so these do not go into the table.
    moved = [metric for metric in comparison.judge_metrics.values() if metric.delta]
    moved.sort(key=lambda metric: (metric.delta or 0.0, metric.name))
    changes = []
    for metric in moved[: detail.judges]:
        change, both = _moved(metric)
        changes.append(f"{code_span(metric.name, limit=detail.name)} {change} ({both})")
    if len(moved) > len(changes):
        changes.append(f"{count(len(moved) - len(changes), 'more judge')}")
    return f"Judges that moved: {', '.join(changes)}." if changes else ""


def _moved(metric: Metric) -> tuple[str, str]:
    before, now, difference = pair(metric)
    # On a phone a row has some thirty characters: the unit once is enough, and no line break before it.
    return difference.replace(" ", NBSP), f"{before.removesuffix('%')} → {now}".replace(" ", NBSP)


def behind_a_click(suite: SuiteReport, story: Story, detail: Detail, *, tool_version: str = "") -> list[str]:
    """Render everything that a reader may want next, each part folded."""
    comparison = suite.comparison
    blocks = []
    if comparison is not None:
        blocks.append(folded("Failures that cases share", [_shared_failures(suite, detail)]))
        better = [row for row in comparison.case_regressions if row.improved]
        blocks.append(improved(better, comparison, detail))
        blocks.append(less_often(suite, detail))
    if detail.folded:
        blocks.append(folded("Limits", [limits(story, detail)]))
        blocks.append(folded("Rates and judges", _figures(suite, detail)))
        blocks += provenance(suite, detail, tool_version=tool_version)
    return blocks


def provenance(suite: SuiteReport, detail: Detail, *, tool_version: str = "") -> list[str]:
    """Render which runs and files a report is about, folded; nothing at a level without folded parts."""
    if not detail.folded:
        return []
    rows = [("Suite", code_span(suite.suite_path, limit=detail.name))] if suite.suite_path else []
    rows += _provenance(suite.candidate, suite.comparison, suite.decision, detail)
    hidden = redacted(suite.execution) if suite.execution is not None else ""
    rows += [("Redaction", hidden)] if hidden else []
    rows += [("Replay", replay_sentence(suite.replay))] if suite.replay is not None else []
    rows += [("agent-eval", code_span(tool_version, limit=40))] if tool_version else []
    return [folded("Provenance", [bullets(f"{label}: {value}" for label, value in rows)])]


def figures_alone(suite: SuiteReport, detail: Detail) -> list[str]:
    """Render what each judge counted in a run that is compared with nothing, folded."""
    return [folded("Rates and judges", _figures(suite, detail))] if detail.folded else []


def _figures(suite: SuiteReport, detail: Detail) -> list[str]:
    moved = _judges_that_moved(suite.comparison, detail) if suite.comparison is not None else ""
    judges = _judges(suite.candidate, detail)
    return [rates_table(suite.comparison), moved, judges, curve(suite.candidate.summary)]


def _shared_failures(suite: SuiteReport, detail: Detail) -> str:
    """List failures that several cases share; those of regressed cases are said where these are."""
    comparison = suite.comparison
    if comparison is None or suite.causes:
        return ""
    shared = [cluster for cluster in comparison.triage.top_clusters if cluster.candidate_count > 1]
    return bullets(_cluster(cluster, detail) for cluster in shared[: detail.clusters])


def _of_which_fail(ids: Sequence[str], failing_now: set[str]) -> str:
    number = sum(case_id in failing_now for case_id in ids)
    return f" (**{number:,} {verb(number, 'does', 'do')} not pass**)" if number else ""


def _cluster(cluster: Cluster, detail: Detail) -> str:
    line = (
        f"{code_span(cluster.judge_id, limit=detail.name)}: "
        f"{code_span(cluster.reason, limit=detail.quote)} — "
        f"{count(cluster.candidate_count, 'case')}, {cluster.baseline_count:,} before"
    )
    if cluster.suggested_fix:
        line += f". Hint: {prose(cluster.suggested_fix, limit=2 * detail.quote)}"
    return line


def _judges(candidate: RunReference, detail: Detail) -> str:
    counts = sorted(candidate.summary.judge_counts.items())
    rows = [
        (
            code_span(judge_id, limit=detail.name),
            f"{percent(number.passed / number.judged)} of {number.judged:,}" if number.judged else "–",
            f"{number.failed + number.error:,}",
        )
        for judge_id, number in counts[: detail.judges]
    ]
    if not rows:
        return ""
    hidden = len(counts) - len(rows)
    rendered = table(("Judge", "Passed", "Failed"), (":--", "--:", "--:"), rows)
    return f"{rendered}\n\nand {count(hidden, 'more judge')}" if hidden else rendered


def _provenance(
    candidate: RunReference, comparison: Comparison | None, decision: GateDecision | None, detail: Detail
) -> list[tuple[str, str]]:
    rows = _run_rows("Candidate", candidate, detail)
    if comparison is not None:
        rows += _run_rows("Baseline", comparison.baseline, detail)
        rows += _shift_rows(comparison.behaviour.shifts)
    if decision is not None:
        runs = decision.main_runs
        if runs:
            rows.append((f"Held against {count(len(runs), 'run')} of main", names(runs, most=20, limit=60)))
        for label, digest in (
            ("Comparison", decision.comparison_sha256),
            ("Reruns", decision.reruns_sha256),
            ("Counts of main's runs", decision.history_sha256),
        ):
            rows += [(label, code_span(digest, limit=64))] if digest else []
    return rows


def _run_rows(label: str, run: RunReference, detail: Detail) -> list[tuple[str, str]]:
    rows = [(f"{label} run", code_span(run.run_id, limit=detail.name))]
    if run.started_at:
        rows.append((f"{label} started", code_span(run.started_at, limit=40)))
    if run.git_commit:
        rows.append((f"{label} commit", code_span(run.git_commit, limit=64)))
    for what, value in (("agent", run.agent_version), ("model", run.model)):
        if value != "unknown":
            rows.append((f"{label} {what}", code_span(value, limit=detail.name)))
    if run.manifest_sha256:
        rows.append((f"{label} evidence", code_span(run.manifest_sha256, limit=64)))
    return rows


def _shift_rows(shifts: Sequence[Metric]) -> list[tuple[str, str]]:
    return [
        (
            AMOUNTS[metric.name].capitalize(),
            f"{amount(metric.name, metric.baseline)} → {amount(metric.name, metric.candidate)}",
        )
        for metric in shifts
        if metric.name in AMOUNTS
    ]


_POINTS_SHOWN = 8


def curve(summary: RunSummary) -> str:
    """Render how often all of k trials pass, and how often one of them does; empty with single trials."""
    if summary.flaky_cases is None:
        return ""
    rows: Sequence[tuple[str, ...]] = [
        (f"{point.k}", percent(point.pass_hat_k), percent(point.pass_at_k))
        for point in summary.pass_curve[:_POINTS_SHOWN]
    ]
    header = ("k", "All pass", "One passes")
    flaky = f"{count(summary.flaky_cases, 'case')} gave different results in different trials."
    return "\n\n".join(filter(None, [flaky, table(header, ("--:", "--:", "--:"), rows) if rows else ""]))
