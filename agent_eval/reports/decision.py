"""Render a decision by policy as markdown: its figures, its steps, and what it left out."""

from __future__ import annotations

from agent_eval.contracts import AppliedWaiver, ExpiredExcuse, GateDecision, GateEvidence, GateStatus
from agent_eval.gate.explanation import trial_numbers
from agent_eval.reports.blocks import bullets, names, table
from agent_eval.reports.chance import cases_beyond_chance, where_beyond_chance
from agent_eval.reports.confirmation import is_confirmed
from agent_eval.reports.detail import Detail
from agent_eval.text.escape import code_span, prose
from agent_eval.text.numbers import beside, confidence_text, count, differing, margin, percent

NBSP = "\u00a0"
_CASES = "cases"
_METHODS = {
    "mcnemar-tango": "McNemar, Tango",
    "pooled-prediction": "prediction, pooled runs",
    "sign-flip-clustered": "sign flips by case",
    "relabel-clustered": "permuted in cases",
}
"""Short names for a phone; the guide explains them."""
_STEP_ICONS = {"passed": "✅", "failed": "❌", "inconclusive": "⚠️", "not-applied": "➖"}


def sureness(decision: GateDecision | None) -> str:
    """Say in a title whether what got worse could be chance, with the counts behind the probability."""
    evidence = decision.evidence if decision is not None else None
    if evidence is None or not evidence.regressed:
        return "How sure is this?"
    worse, better = _directions(evidence)
    probability = _probability(evidence.p_value)
    counts = f"{evidence.regressed:,} {worse}, {evidence.fixed:,} {better}"
    if decision is not None and is_confirmed(decision):
        # Fresh trials decided, so whether the first run alone could be chance is no question any more.
        return f"First run alone: {probability} ({counts})"
    if cases_beyond_chance(evidence):
        return f"More than chance explains ({probability}: {counts})"
    if where := where_beyond_chance(evidence):
        return f"More than chance explains {where}; all cases: {probability} ({counts})"
    return f"Could be chance ({probability}: {counts})"


def certainty(decision: GateDecision | None, detail: Detail) -> list[str]:
    """Render the statistics of a decision as a table that fits a phone; empty without any."""
    if decision is None or decision.evidence is None or not decision.evidence.compared:
        return []
    evidence = decision.evidence
    figures = table(("How sure?", ""), (":--", ":--"), figures_of(decision, evidence))
    return [figures, _pool(evidence, detail), _judges(evidence, detail), _topics(evidence, detail)]


def figures_of(decision: GateDecision, evidence: GateEvidence) -> list[tuple[str, str]]:
    """List the figures of a decision as label and plain text."""
    low, high = _points(evidence.interval_low, None), _points(evidence.interval_high, evidence.margin)
    worse, better = _directions(evidence)
    rows = [
        ("Passed", f"{evidence.baseline_passed:,} → {evidence.candidate_passed:,} of {evidence.compared:,}"),
        *_trial_rows(evidence),
        *([("Looks", ", ".join(map(str, evidence.looks)))] if evidence.looks else []),
        ("Drop", f"{_points(evidence.drop, None)} pts"),
        (f"{confidence_text(evidence.confidence)} range", f"{low} to {high} pts"),
        ("Margin", f"under {margin(evidence.margin)} pts"),
        ("Cases", f"{evidence.regressed:,} {worse}, {evidence.fixed:,} {better}"),
        ("By chance", _probability(evidence.p_value)),
        ("Method", _METHODS[evidence.method]),
        *([] if evidence.topic_clusters is None else [("Clusters", f"{evidence.topic_clusters:,} by topic")]),
        ("Power", f"{_power(evidence.power_for_ten_points)} (10-pt drop)"),
        ("Flaky", "unknown (1 trial)" if evidence.flaky is None else f"{evidence.flaky:,}"),
        ("Left out", f"{evidence.waived:,} waived, {evidence.quarantined:,} quarantined"),
        ("Errors", f"{evidence.errors:,}, unscored {evidence.unscored:,}"),
    ]
    if decision.gate_status is GateStatus.INCONCLUSIVE and evidence.cases_needed is not None:
        rows.append(("Needed", f"about {evidence.cases_needed:,} cases"))
    return [(label.replace(" ", NBSP), figure.replace(" ", NBSP)) for label, figure in rows]


def _trial_rows(evidence: GateEvidence) -> list[tuple[str, str]]:
    if evidence.trials is None:
        return []
    before, now = evidence.trials.baseline_rate, evidence.trials.candidate_rate
    decimals = differing(before, now)
    shares = (percent(share, decimals=decimals) for share in (before, now))
    rows = [
        ("Trials", f"{trial_numbers(evidence.trials).replace('->', '→')} a case"),
        ("Trials passed", " → ".join(shares)),
    ]
    return rows + [("Trial errors", f"{evidence.trials.errors:,}")] * bool(evidence.trials.errors)


def _pool(evidence: GateEvidence, detail: Detail) -> str:
    """Name the runs that the decision rests on in place of the baseline."""
    if evidence.pooled is None:
        return ""
    named = names(evidence.pooled.run_ids, most=detail.ids, limit=detail.name)
    return bullets([f"held against {count(evidence.pooled.runs, 'run')}, the newest first: {named}"])


def _judges(evidence: GateEvidence, detail: Detail) -> str:
    judges = [judge for judge in evidence.judges if judge.judge_id != _CASES]
    judges.sort(key=lambda judge: (not judge.significant, judge.p_value, judge.judge_id))
    worse, better = _directions(evidence)
    lines = [
        f"{code_span(judge.judge_id, limit=detail.name)}: {judge.regressed:,} {worse}, "
        f"{judge.fixed:,} {better}, {_probability(judge.p_value)}"
        f"{', **more than chance**' if judge.significant else ''}"
        for judge in judges[: detail.judges]
    ]
    if lines and len(judges) > len(lines):
        lines.append(f"and {count(len(judges) - len(lines), 'more judge')}")
    return bullets(lines)


def _topics(evidence: GateEvidence, detail: Detail) -> str:
    topics = sorted(evidence.topics, key=lambda topic: (not topic.significant, topic.p_value, topic.topic))
    worse, better = _directions(evidence)
    lines = [
        f"topic {code_span(topic.topic, limit=detail.name)}: {topic.regressed:,} {worse}, "
        f"{topic.fixed:,} {better} of {topic.compared:,}, {_probability(topic.p_value)}"
        f"{', **more than chance**' if topic.significant else ''}"
        for topic in topics[: detail.judges]
    ]
    if lines and len(topics) > len(lines):
        lines.append(f"and {count(len(topics) - len(lines), 'more topic')}")
    return bullets(lines)


def _directions(evidence: GateEvidence) -> tuple[str, str]:
    """Name the directions: with several trials, pass rates fell and rose."""
    return ("worse", "better") if evidence.trials is None else ("lower", "higher")


def left_out(decision: GateDecision | None, detail: Detail) -> str:
    """List the waivers that excused a case, and the cases that got worse and block nothing by themselves."""
    if decision is None:
        return ""
    lines = [_waiver(waiver, detail) for waiver in decision.waivers[: detail.sentences]]
    hidden = len(decision.waivers) - len(lines)
    if hidden:
        lines.append(f"and {count(hidden, 'more waiver')}, {detail.elsewhere}")
    quarantined = decision.quarantined_case_ids
    if quarantined:
        lines.append(
            f"{count(len(quarantined), 'case')} in quarantine, not compared: "
            f"{names(quarantined, most=detail.ids, limit=detail.name)}"
        )
    never_blocking = [
        f"{count(len(case_ids), 'case')} {words}: {names(case_ids, most=detail.ids, limit=detail.name)}"
        for words, case_ids in _never_blocking(decision).items()
        if case_ids
    ]
    if not lines + never_blocking:
        return ""
    which = "The others" if lines else "They"
    note = f"{which} count in the pass rate and the suite's tests, and block nothing by themselves."
    blocks = ["**Not counted against this change:**", bullets(lines + never_blocking)]
    return "\n\n".join([*blocks, note] if never_blocking else blocks)


def _never_blocking(decision: GateDecision) -> dict[str, list[str]]:
    """List the cases that got worse and block nothing by themselves, by why, by id."""
    verdicts = {row.case_id: row.verdict for row in decision.confirmed}
    return {
        "tracked by the policy": decision.tracked_case_ids,
        "expected to fail by the policy": decision.expected_fail_case_ids,
        "cleared by fresh trials": [name for name, verdict in verdicts.items() if verdict == "cleared"],
        "failing on the merge base too": [
            name for name, verdict in verdicts.items() if verdict == "not-yours"
        ],
    }


def counting_again(decision: GateDecision | None, detail: Detail) -> str:
    """List the expired waivers and quarantines that would have excused a case, which therefore counts."""
    if decision is None:
        return ""
    lines = [_expired(excuse, detail) for excuse in decision.expired[: detail.sentences]]
    hidden = len(decision.expired) - len(lines)
    if hidden > 0:
        lines.append(f"and {hidden:,} more, {detail.elsewhere}")
    return f"**Counts again, because its waiver or quarantine expired:**\n\n{bullets(lines)}" if lines else ""


def _expired(ended: ExpiredExcuse, detail: Detail) -> str:
    what = "Quarantine"
    if ended.waiver_id is not None:
        what = f"Waiver {code_span(ended.waiver_id, limit=detail.name)}"
    when = code_span(ended.expires_at or "", limit=40)
    return f"{what} until {when}: {names(ended.case_ids, most=detail.ids, limit=detail.name)}"


def _waiver(waiver: AppliedWaiver, detail: Detail) -> str:
    until = f"until {code_span(waiver.expires_at, limit=40)}" if waiver.expires_at else "until revoked"
    return (
        f"Waiver {code_span(waiver.waiver_id, limit=detail.name)} by "
        f"{code_span(waiver.approved_by, limit=detail.name)}, {until}: "
        f"{code_span(waiver.reason, limit=detail.quote)} "
        f"({names(waiver.case_ids, most=detail.ids, limit=detail.name)})"
    )


def steps(decision: GateDecision | None, detail: Detail) -> str:
    """Render the steps of the decision in their order."""
    if decision is None or not decision.steps:
        return ""
    return bullets(
        f"{_STEP_ICONS[step.status]} {step.name}: {prose(step.message, limit=2 * detail.quote)}"
        for step in decision.steps
    )


def _points(share: float, limit: float | None) -> str:
    return beside(share, limit).replace("-", "−")


def _probability(p_value: float) -> str:
    return "p under 0.001" if p_value < 0.001 else f"p = {p_value:.3f}"


def _power(share: float) -> str:
    return "over 99%" if share > 0.99 else f"{share:.0%}"
