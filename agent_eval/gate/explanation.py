"""A decision in at most ten lines: numbers, interval, margin, pairs, p, power, flaky, waived, errors."""

from __future__ import annotations

from agent_eval.comparison.facts import cut
from agent_eval.contracts import ExpiredExcuse, GateDecision, GateEvidence, GateStatus, TrialEvidence
from agent_eval.gate.paired import CASES
from agent_eval.text.numbers import beside, confidence_text, count, margin, percent, verb

JUDGES_SHOWN = 4
WAIVERS_SHOWN = 3
NAME_LIMIT = 60


def explain(decision: GateDecision) -> list[str]:
    """Explain a decision in at most nine lines; `agent-eval gate` adds where the decision was written.

    Empty for a decision by thresholds alone.
    """
    evidence = decision.evidence
    if evidence is None:
        return []
    if decision.not_evaluated:
        # How much got worse, and how likely that is, would say what nothing does.
        return list(
            filter(
                None, [_headline(decision), f"{_counts(evidence)}{_tracked(decision)}", _waivers(decision)]
            )
        )
    failed = [step.message for step in decision.steps if step.status == "failed" and step.name != "coverage"]
    lines = [
        _headline(decision),
        _change(evidence),
        _pairs(evidence),
        _judges(evidence),
        _topics(evidence),
        _power(decision, evidence),
        f"{_counts(evidence)}{_tracked(decision)}",
        _waivers(decision),
        *failed[:1],
        " ".join(failed[1:]),
    ]
    return [line for line in lines if line]


def _headline(decision: GateDecision) -> str:
    names = {
        GateStatus.PASSED: "PASSED",
        GateStatus.FAILED: "FAILED",
        GateStatus.INCONCLUSIVE: "INCONCLUSIVE",
        GateStatus.NO_BASELINE: "NO BASELINE",
    }
    if decision.not_evaluated:
        why_not = " ".join(decision.not_evaluated)
        return f"NOT EVALUATED, preset {decision.preset}: {why_not} This says nothing about the change."
    word = names[decision.gate_status]
    if decision.gate_status is GateStatus.INCONCLUSIVE:
        word += " and blocks" if decision.blocks else " (a warning, does not block)"
    # What failed decides before what is inconclusive.
    deciding = [
        step for status in ("failed", "inconclusive") for step in decision.steps if step.status == status
    ]
    why = deciding[0] if deciding else decision.steps[-1]
    sentence = "" if why.status == "failed" and why.name != "coverage" else f" {why.message}"
    lost = [step.message for step in decision.steps if step.name == "coverage" and step.status != "passed"]
    # What is not compared is said first, whatever decided.
    also = f" {lost[0]}" if lost and why.name != "coverage" else ""
    return f"{word}, preset {decision.preset}: {why.name}.{sentence}{also}"


def _change(evidence: GateEvidence) -> str:
    if not evidence.compared:
        return ""
    passed = f"passed {evidence.baseline_passed} -> {evidence.candidate_passed} of {evidence.compared}"
    interval = "Tango interval"
    if evidence.trials is not None:
        before, now = evidence.trials.baseline_rate, evidence.trials.candidate_rate
        passed += f", trials {before:.1%} -> {now:.1%}"
        interval = "interval, standard error clustered by case,"
    if evidence.pooled is not None:
        interval = f"prediction interval of {evidence.pooled.runs} pooled runs"
    if evidence.topic_clusters is not None:
        interval = f"interval, clustered by topic ({evidence.topic_clusters} clusters),"
    sure = confidence_text(evidence.confidence)
    return (
        f"{passed}, drop {beside(evidence.drop, None)} points, {sure} {interval} "
        f"[{beside(evidence.interval_low, None)}, {beside(evidence.interval_high, evidence.margin)}], "
        f"margin {margin(evidence.margin)}"
    )


def _pairs(evidence: GateEvidence) -> str:
    line = _tests(evidence)
    if line and evidence.looks is not None:
        # The levels of all looks together are those of the policy.
        line += f"; at level {1 / evidence.stop_at:.3g} after looks at {', '.join(map(str, evidence.looks))}"
    return line


def _tests(evidence: GateEvidence) -> str:
    if not evidence.compared:
        return ""
    if evidence.pooled is not None:
        return (
            f"pooled: {percent(evidence.pooled.mean)} in {count(evidence.pooled.runs, 'run')} of the base "
            f"branch -> {percent(evidence.pooled.rate)}, {count(evidence.pooled.cases, 'case')}; "
            f"one-sided p={evidence.p_value:.3g}"
        )
    if evidence.trials is not None:
        return (
            f"trials: {trial_numbers(evidence.trials)} a case; {count(evidence.regressed, 'case')} "
            f"{verb(evidence.regressed, 'passes', 'pass')} less often, "
            f"{evidence.fixed} more; {_PERMUTATIONS[evidence.method]}, one-sided p={evidence.p_value:.3g}"
        )
    e_value = "beyond measure" if evidence.e_value is None else f"{evidence.e_value:.3g}"
    return (
        f"pairs: {evidence.regressed} regressed, {evidence.fixed} fixed; "
        f"McNemar one-sided exact p={evidence.p_value:.3g}; e={e_value} (stop at {evidence.stop_at:g})"
    )


_PERMUTATIONS = {
    "sign-flip-clustered": "sign-flip permutation test",
    "relabel-clustered": "permutation test within cases",
}


def trial_numbers(trials: TrialEvidence) -> str:
    """Format the number of trials of a case: `4`, `3 to 4`, or `1 -> 4` where the runs differ."""
    before = _range(trials.baseline_fewest, trials.baseline_most)
    now = _range(trials.candidate_fewest, trials.candidate_most)
    return before if before == now else f"{before} -> {now}"


def _range(fewest: int, most: int) -> str:
    return f"{fewest}" if fewest == most else f"{fewest} to {most}"


def _judges(evidence: GateEvidence) -> str:
    judges = [judge for judge in evidence.judges if judge.judge_id != CASES]
    if not judges:
        return ""
    listed = sorted(judges, key=lambda judge: judge.p_value)[:JUDGES_SHOWN]
    worse, better = ("regressed", "fixed") if evidence.trials is None else ("lower", "higher")
    clauses = [
        f"{cut(judge.judge_id, NAME_LIMIT)} {judge.regressed} {worse}, {judge.fixed} {better}, "
        f"p={judge.p_value:.3g}{' (significant)' if judge.significant else ''}"
        for judge in listed
    ]
    more = f"; {len(judges) - len(listed)} more" if len(judges) > len(listed) else ""
    return f"judges: {'; '.join(clauses)}{more}"


def _topics(evidence: GateEvidence) -> str:
    """Name the topics that changed most; none where no topic has enough cases to be tested."""
    if not evidence.topics:
        return ""
    listed = sorted(evidence.topics, key=lambda topic: topic.p_value)[:JUDGES_SHOWN]
    worse, better = ("regressed", "fixed") if evidence.trials is None else ("lower", "higher")
    clauses = [
        f"'{cut(topic.topic, NAME_LIMIT)}' {topic.regressed} {worse}, {topic.fixed} {better} of "
        f"{topic.compared}, p={topic.p_value:.3g}{' (significant)' if topic.significant else ''}"
        for topic in listed
    ]
    more = f"; {len(evidence.topics) - len(listed)} more" if len(evidence.topics) > len(listed) else ""
    return f"topics: {'; '.join(clauses)}{more}"


def _power(decision: GateDecision, evidence: GateEvidence) -> str:
    if not evidence.compared:
        return ""
    seen = f"{evidence.power_for_ten_points:.0%}"
    cases = f"{count(evidence.paired, 'case')} {verb(evidence.paired, 'sees', 'see')}"
    line = f"power: {cases} a 10-point drop {seen} of the time"
    if decision.gate_status is GateStatus.INCONCLUSIVE and evidence.cases_needed is not None:
        line += f"; about {count(evidence.cases_needed, 'case')} would settle it"
    return line


def _counts(evidence: GateEvidence) -> str:
    flaky = "unknown with one trial" if evidence.flaky is None else f"{evidence.flaky}"
    errors = f"errors {evidence.errors} ({evidence.new_errors} new)"
    if evidence.trials is not None and evidence.trials.errors:
        errors += f" in {count(evidence.trials.errors, 'trial')}"
    return (
        f"flaky {flaky}, quarantined {evidence.quarantined}, waived {evidence.waived}, "
        f"{errors}, unscored {evidence.unscored}"
    )


def _tracked(decision: GateDecision) -> str:
    """Count the regressed cases that do not block by themselves; empty without one."""
    kinds = {"tracked": decision.tracked_case_ids, "expected to fail": decision.expected_fail_case_ids}
    return "".join(f", {name} {len(case_ids)}" for name, case_ids in kinds.items() if case_ids)


def _waivers(decision: GateDecision) -> str:
    return "; ".join(line for line in (_applied(decision), expired(decision)) if line)


def expired(decision: GateDecision) -> str:
    """Name the waivers and quarantines that have expired, in a line; empty where that concerns no case."""
    clauses = [_ended(excuse) for excuse in decision.expired[:WAIVERS_SHOWN]]
    more = len(decision.expired) - len(clauses)
    return f"counting again: {'; '.join(clauses)}{f'; {more} more' if more else ''}" if clauses else ""


def _ended(excuse: ExpiredExcuse) -> str:
    name = "quarantine" if excuse.waiver_id is None else f"waiver {cut(excuse.waiver_id, NAME_LIMIT)}"
    first, *others = excuse.case_ids
    more = f" and {len(others)} more" if others else ""
    return f"{name} of {cut(first, NAME_LIMIT)}{more} ended {excuse.expires_at}"


def _applied(decision: GateDecision) -> str:
    if not decision.waivers:
        return ""
    clauses = [
        f"{cut(waiver.waiver_id, NAME_LIMIT)} by {cut(waiver.approved_by, NAME_LIMIT)} "
        f"(until {waiver.expires_at or 'revoked'}, {count(len(waiver.case_ids), 'case')})"
        for waiver in decision.waivers[:WAIVERS_SHOWN]
    ]
    more = len(decision.waivers) - len(clauses)
    return f"waivers: {'; '.join(clauses)}{f'; {more} more' if more else ''}"
