"""A decision in at most ten lines: numbers, interval, margin, pairs, p, power, flaky, waived, errors."""

from __future__ import annotations

from agent_eval.comparison.pairs import CASES
from agent_eval.comparison.reasons import cut
from agent_eval.contracts import GateDecision, GateEvidence, GateStatus

JUDGES_SHOWN = 4
WAIVERS_SHOWN = 3
NAME_LIMIT = 60


def explain(decision: GateDecision) -> list[str]:
    """At most nine lines for `agent-eval gate`, which adds where the decision is; empty for a decision by
    thresholds alone.
    """
    evidence = decision.evidence
    if evidence is None:
        return []
    failed = [step.message for step in decision.steps if step.status == "failed"]
    lines = [
        _headline(decision),
        _change(evidence),
        _pairs(evidence),
        _judges(evidence),
        _power(decision, evidence),
        _counts(evidence),
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
    word = names[decision.gate_status]
    if decision.gate_status is GateStatus.INCONCLUSIVE:
        word += " and blocks" if decision.blocks else " (a warning, does not block)"
    deciding = [step for step in decision.steps if step.status in ("failed", "inconclusive")]
    why = deciding[0] if deciding else decision.steps[-1]
    said = "" if why.status == "failed" else f" {why.message}"
    return f"{word}, preset {decision.preset}: {why.name}.{said}"


def _change(evidence: GateEvidence) -> str:
    if not evidence.compared:
        return ""
    return (
        f"passed {evidence.baseline_passed} -> {evidence.candidate_passed} of {evidence.compared}, "
        f"drop {_points(evidence.drop)} points, {evidence.confidence:.0%} interval "
        f"[{_points(evidence.interval_low)}, {_points(evidence.interval_high)}], "
        f"margin {_points(evidence.margin)}"
    )


def _pairs(evidence: GateEvidence) -> str:
    if not evidence.compared:
        return ""
    e_value = "beyond measure" if evidence.e_value is None else f"{evidence.e_value:.3g}"
    return (
        f"pairs: {evidence.regressed} regressed, {evidence.fixed} fixed; "
        f"McNemar one-sided exact p={evidence.p_value:.3g}; e={e_value} (stop at {evidence.stop_at:g})"
    )


def _judges(evidence: GateEvidence) -> str:
    judges = [judge for judge in evidence.judges if judge.judge_id != CASES]
    if not judges:
        return ""
    shown = sorted(judges, key=lambda judge: judge.p_value)[:JUDGES_SHOWN]
    said = [
        f"{cut(judge.judge_id, NAME_LIMIT)} {judge.regressed} regressed, {judge.fixed} fixed, "
        f"p={judge.p_value:.3g}{' (significant)' if judge.significant else ''}"
        for judge in shown
    ]
    more = f"; {len(judges) - len(shown)} more" if len(judges) > len(shown) else ""
    return f"judges: {'; '.join(said)}{more}"


def _power(decision: GateDecision, evidence: GateEvidence) -> str:
    if not evidence.compared:
        return ""
    seen = f"{evidence.power_for_ten_points:.0%}"
    line = f"power: {evidence.paired} cases see a 10-point drop {seen} of the time"
    if decision.gate_status is GateStatus.INCONCLUSIVE and evidence.cases_needed is not None:
        trials = -(-evidence.cases_needed // max(1, evidence.paired))
        line += f"; about {evidence.cases_needed:,} cases, or {trials} trials of each, would settle it"
    return line


def _counts(evidence: GateEvidence) -> str:
    flaky = "unknown with one trial" if evidence.flaky is None else str(evidence.flaky)
    return (
        f"flaky {flaky}, quarantined {evidence.quarantined}, waived {evidence.waived}, "
        f"errors {evidence.errors} ({evidence.new_errors} new), unscored {evidence.unscored}"
    )


def _waivers(decision: GateDecision) -> str:
    if not decision.waivers:
        return ""
    said = [
        f"{cut(one.waiver_id, NAME_LIMIT)} by {cut(one.approved_by, NAME_LIMIT)} "
        f"({f'until {one.expires_at}' if one.expires_at else 'until revoked'}, {len(one.case_ids)} cases)"
        for one in decision.waivers[:WAIVERS_SHOWN]
    ]
    more = len(decision.waivers) - len(said)
    return f"waivers: {'; '.join(said)}{f'; {more} more' if more else ''}"


def _points(share: float) -> str:
    return f"{share * 100:.1f}"
