"""Evaluations as people meet them, built by hand so that each figure can be checked by eye."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from agent_eval.comparison.compare import compare
from agent_eval.contracts import (
    AppliedWaiver,
    BehaviourChange,
    CallChange,
    CaseRegression,
    CaseResultRow,
    CaseSets,
    Comparison,
    Compatibility,
    ExpiredExcuse,
    GateDecision,
    GateStatus,
    JudgeChange,
    JudgeCounts,
    Metric,
    Outcome,
    Overview,
    ReleaseImpact,
    RuleResult,
    RunBehaviour,
    RunReference,
    RunSummary,
    Thresholds,
)
from agent_eval.contracts.comparison import (
    ConversationChange,
    CriterionChange,
    SpokenTurn,
    TurnPair,
)
from agent_eval.contracts.gate import CaseAnswer, JudgedCase, ReleaseAnswer, SafetyFinding
from agent_eval.contracts.reruns import CaseReruns, Rerun, Reruns, Spending, TrialCounts
from agent_eval.reports.comment import render_comment, render_summary
from agent_eval.reports.model import BaselineInfo, EvaluationReport, RuleChanges, SuiteReport
from agent_eval.reports.terminal_comparison import compare_text, gate_text
from tests.unit.comparison.views import Said, view

NOW = "2026-11-21T08:00:00+00:00"
HEAD = "9be1f04c55a1e1d2f3a4b5c6d7e8f90123456789"
BASE = "3f9a1c27aa10b2c3d4e5f60718293a4b5c6d7e8f"
RUN = "https://github.com/acme/support-bot/actions/runs"
MARKER = "<!-- agent-eval:default head=9be1f04 run=812 attempt=1 -->"
COMMENT_LIMIT, SUMMARY_LIMIT = 65_536, 1 << 20
THRESHOLDS = Thresholds(min_pass_rate=0.9, max_regressed_cases=0)
JUDGES = ("policy", "tool_contract", "trajectory_step", "regex", "json_schema")


def comment(report: EvaluationReport, *, limit: int = COMMENT_LIMIT) -> str:
    return render_comment(report, MARKER, limit=limit)


def full_report(report: EvaluationReport, *, limit: int = SUMMARY_LIMIT) -> str:
    return render_summary(report, limit=limit)


def terminal(report: EvaluationReport, *, colour: bool = False) -> str:
    """What `compare` and `gate` print of each suite, by and by."""
    return "\n\n".join(
        text
        for suite in report.suites
        for text in (
            *([compare_text(suite.comparison, "c.json", colour=colour)] if suite.comparison else []),
            gate_text(suite.decision, "d.json", comparison=suite.comparison, colour=colour),
        )
    )


def metric(name: str, baseline: float | None, candidate: float | None) -> Metric:
    known = baseline is not None and candidate is not None
    return Metric(
        name=name,
        baseline=baseline,
        candidate=candidate,
        delta=candidate - baseline if known else None,  # type: ignore[operator]
    )


def summary(
    run_id: str, total: int, passed: int, hard: int, dataset: str = "support", **more: int
) -> RunSummary:
    counts = {judge: JudgeCounts(passed=total) for judge in JUDGES}
    counts["policy"] = JudgeCounts(passed=passed, failed=total - passed)
    return RunSummary(
        run_id=run_id, dataset_id=dataset, total_cases=total, passed_cases=passed,
        failed_cases=total - passed, hard_fail_cases=hard, pass_rate=passed / total,
        hard_fail_rate=hard / total, judge_counts=counts,
        judge_pass_rates={name: count.passed / count.judged for name, count in counts.items()}, **more,
    )  # fmt: skip


def run(name: str, total: int, passed: int, hard: int = 0, *, sha: str = HEAD, **more: Any) -> RunReference:
    digest = ("ab12" if name == "candidate" else "cd34") * 16
    return RunReference(
        run_id=f"run-{name}", dataset_id="support", manifest_sha256=digest, agent_version="2.4.0",
        model="gpt-4o", git_commit=sha, started_at=NOW,
        summary=summary(f"run-{name}", total, passed, hard, **more),
    )  # fmt: skip


def baseline_info(**more: Any) -> BaselineInfo:
    told: dict[str, Any] = {
        "how": "merge base", "sha": BASE, "branch": "main", "run_id": "790", "age": "2 days",
    }  # fmt: skip
    return BaselineInfo(**{**told, **more})


def regression(case_id: str, judge: str, reason: str, *, improved: bool = False) -> CaseRegression:
    outcomes = (Outcome.FAILED, Outcome.PASSED) if improved else (Outcome.PASSED, Outcome.FAILED)
    return CaseRegression(
        case_id=case_id, baseline_outcome=outcomes[0], candidate_outcome=outcomes[1],
        baseline_passed=improved, candidate_passed=improved, baseline_hard_failed=improved,
        candidate_hard_failed=not improved, regressed=not improved, improved=improved,
        judges=[JudgeChange(judge_id=judge, baseline=outcomes[0], candidate=outcomes[1], reason=reason,
                            failure=None if improved else "policy_violation")],
    )  # fmt: skip


def comparison(
    baseline: RunReference,
    candidate: RunReference,
    rows: Sequence[CaseRegression] = (),
    *,
    sets: CaseSets | None = None,
    changes: Sequence[BehaviourChange] = (),
    behaviour: RunBehaviour | None = None,
    judges: Sequence[Metric] = (),
) -> Comparison:
    worse, better = sum(row.regressed for row in rows), sum(row.improved for row in rows)
    before, compared = baseline.summary, baseline.summary.total_cases
    pass_rate = (before.passed_cases - worse + better) / compared
    hard_fail_rate = (before.hard_fail_cases + worse - better) / compared
    return Comparison(
        generated_at=NOW, baseline_run_id=baseline.run_id, candidate_run_id=candidate.run_id,
        dataset_id="support", baseline=baseline, candidate=candidate,
        compatibility=Compatibility(passed=True, checks=[]), cases=sets or CaseSets(compared=compared),
        metrics={"pass_rate": metric("pass_rate", before.pass_rate, pass_rate),
                 "hard_fail_rate": metric("hard_fail_rate", before.hard_fail_rate, hard_fail_rate)},
        judge_metrics={row.name: row for row in judges},
        overview=Overview(
            total_baseline_cases=compared, total_candidate_cases=candidate.summary.total_cases,
            compared_cases=compared, regressed_cases=worse, improved_cases=better, new_hard_fail_cases=worse,
            resolved_hard_fail_cases=0, risk_level="high" if worse else "low"),
        case_regressions=list(rows),
        release_impact=ReleaseImpact(impact_score=0.0, impact_level="low", recommendation=""),
        behaviour=behaviour or RunBehaviour(), behaviour_changes=list(changes),
    )  # fmt: skip


def decision(status: GateStatus, rules: Sequence[RuleResult] = (), **more: Any) -> GateDecision:
    """A decision; without a `sentence` that of the first limit that does not hold."""
    failures = [rule.message for rule in rules if not rule.passed]
    told: dict[str, Any] = {
        "generated_at": NOW, "gate_status": status, "passed": status is GateStatus.PASSED,
        "sentence": failures[0] if failures else _SENTENCES[status], "rules": list(rules),
        "failures": failures, "thresholds": THRESHOLDS, "candidate_run_id": "run-candidate",
    }  # fmt: skip
    return GateDecision(**{**told, **more})


_SENTENCES = {
    GateStatus.PASSED: "Every threshold holds.",
    GateStatus.FAILED: "The gate gave no reason.",
    GateStatus.INCONCLUSIVE: "It is not settled.",
    GateStatus.NO_BASELINE: "First run: nothing to compare with.",
}


def by_policy(status: GateStatus, sentence: str, **more: Any) -> GateDecision:
    """A decision by a policy; what fails is in its sentence."""
    told: dict[str, Any] = {
        "sentence": sentence,
        "decided_by": "policy",
        "preset": "pull-request",
        "failures": [sentence] if status is GateStatus.FAILED else [],
        "blocks": status in (GateStatus.FAILED, GateStatus.INCONCLUSIVE),
        "main_runs": [f"main-{number}" for number in range(20, 0, -1)],
    }
    return decision(status, more.pop("rules", ()), **{**told, **more})


def judged(case_id: str, answer: CaseAnswer, counts: str, reason: str = "") -> JudgedCase:
    """A case that newly fails; `counts` are those on main, at first, and run again by base and change."""
    pairs = [tuple(map(int, each.split("/"))) for each in counts.split()]
    names = ("on_main", "first", "base", "change")
    told = {
        name: TrialCounts(passed=passed, trials=trials)
        for name, (passed, trials) in zip(names, pairs, strict=False)
    }
    return JudgedCase(case_id=case_id, answer=answer, reason=reason or f"{answer}.", **told)  # type: ignore[arg-type]


def rule(name: str, threshold: float, value: float | None, passed: bool, **more: Any) -> RuleResult:
    message = f"{name} is {value}, allowed {threshold}"
    return RuleResult(
        **{"message": message, **more}, rule=name, threshold=threshold, value=value, passed=passed
    )


def report(*suites: SuiteReport, **more: Any) -> EvaluationReport:
    told: dict[str, Any] = {
        "title": "agent-eval", "run_url": f"{RUN}/812", "full_report": "job summary", "head_sha": HEAD,
        "evidence_name": "agent-eval-evidence", "evidence_url": f"{RUN}/812/artifacts/55",
        "tool_version": "0.1.0",
    }  # fmt: skip
    return EvaluationReport(suites=suites, **{**told, **more})


def suite(**more: Any) -> SuiteReport:
    told = {"slug": "support", "suite_path": "suites/support.json", "baseline": baseline_info()}
    return SuiteReport(**{**told, **more})


def unchanged_suite(**more: Any) -> SuiteReport:
    before, now = run("baseline", 200, 188, 4, sha=BASE), run("candidate", 200, 188, 4)
    held = [
        rule("min_pass_rate", 0.9, 0.94, True, message="188 of 200 cases passed (94.0%)."),
        rule("max_regressed_cases", 0, 0, True, message="0 cases regressed, none allowed."),
    ]  # fmt: skip
    return suite(
        decision=decision(GateStatus.PASSED, held), candidate=now, comparison=comparison(before, now), **more
    )


def unchanged() -> EvaluationReport:
    return report(unchanged_suite())


def failing_rows(number: int) -> list[CaseResultRow]:
    reason = "required tool lookup_order was never called"
    verdict = {
        "judge_id": "policy", "outcome": "failed", "passed": False, "score": 0.0, "reason": reason,
        "hard": True, "failure": "policy_violation", "evidence_refs": [], "evidence": {}, "weight": 1.0,
        "category": None,
    }  # fmt: skip
    facts = {"trial": 0, "outcome": "failed", "passed": False, "hard_failed": True, "score": 0.5}
    ids = [f"order-{position:03}" for position in range(number)]
    return [{"case_id": name, **facts, "verdicts": [{"case_id": name, **verdict}]} for name in ids]  # type: ignore[misc]


def first_run() -> EvaluationReport:
    return report(
        suite(decision=decision(GateStatus.NO_BASELINE), candidate=run("candidate", 40, 38, 2), baseline=None,
              baseline_note="No earlier run on `main` carries the artifact `agent-eval-support`.",
              failing=failing_rows(2)),
    )  # fmt: skip


def three_regressions() -> tuple[list[CaseRegression], list[BehaviourChange]]:
    rows = [
        regression("refund-over-limit", "policy", "forbidden tool escalate was called (event 5)"),
        regression("order-status-de", "regex", "the answer does not match 'Bestellung [0-9]+'"),
        regression("cancel-twice", "tool_contract", "refund was called without the argument order_id"),
        regression("greeting", "policy", "passes now", improved=True),
    ]
    late = {"candidate": Outcome.ERROR, "reason": "step 3 has no result", "failure": "timeout"}
    rows[0].judges.append(JudgeChange(judge_id="trajectory_step", baseline=Outcome.PASSED, **late))
    changes = [
        BehaviourChange(
            case_id="refund-over-limit", baseline_calls=["lookup_order", "refund"],
            candidate_calls=["lookup_order", "refund", "escalate"],
            calls=[CallChange(kind="same", tool="lookup_order"),
                   CallChange(kind="arguments", tool="refund", arguments={"$.amount": (10, 1000)}),
                   CallChange(kind="added", tool="escalate")],
            calls_changed=True, output_changed=True, baseline_output="I have refunded 10 EUR to your card.",
            candidate_output="I have refunded 1000 EUR and asked a colleague to check.",
            metrics=[metric("output_tokens", 210, 480), metric("cost_usd", 0.0021, 0.0048)]),
        BehaviourChange(
            case_id="order-status-de", output_changed=True, baseline_output="Bestellung 4711 ist unterwegs.",
            candidate_output="Your order is on its way."),
    ]  # fmt: skip
    return rows, changes


def regressed_suite(**more: Any) -> SuiteReport:
    before, now = run("baseline", 200, 184, 4, sha=BASE), run("candidate", 202, 184, 6)
    rows, changes = three_regressions()
    broken = [
        rule("max_regressed_cases", 0, 3, False, message="3 cases regressed, none allowed."),
        rule("max_hard_fail_increase", 0, 0.01, False, message="The hard fail rate rose by 1.0 points."),
        rule("min_pass_rate", 0.9, 184 / 202, True, message="184 of 202 cases passed (91.1%)."),
    ]
    compared = comparison(
        before, now, rows, changes=changes,
        sets=CaseSets(
            compared=200, new=["order-de-1", "order-de-2"], removed=["old-7"], removed_failing=["old-7"]),
        behaviour=RunBehaviour(
            model_changed=True,
            notices=["The model changed from gpt-4o to gpt-4o-mini.",
                     "Cost rose by 38% in total: 0.4200 USD became 0.5800 USD over 200 cases."],
            shifts=[metric("cost_usd", 0.42, 0.58)]),
        judges=[metric("policy", 0.92, 0.92), metric("regex", 1.0, 0.995),
                metric("tool_contract", 1.0, 0.995), metric("json_schema", 1.0, 1.0)],
    )  # fmt: skip
    told = {"decision": decision(GateStatus.FAILED, broken), "candidate": now, "comparison": compared, **more}
    return suite(**told)


def regressed() -> EvaluationReport:
    return report(regressed_suite())


def many_regressed(number: int = 500) -> EvaluationReport:
    before, now = run("baseline", 2000, 1980, 4, sha=BASE), run("candidate", 2000, 1480, 504)
    rows = [
        regression(f"checkout-flow-{position:04}", "policy", "forbidden tool escalate was called")
        for position in range(number)
    ]
    message = f"{number} cases regressed, none allowed."
    broken = [rule("max_regressed_cases", 0, number, False, message=message)]
    compared = comparison(before, now, rows)
    return report(suite(decision=decision(GateStatus.FAILED, broken), candidate=now, comparison=compared))


def many_behave_otherwise(number: int, *, kept: int = 200) -> EvaluationReport:
    """So many regressed cases, of which the comparison keeps how `kept` behaved."""
    whole = many_regressed(number)
    (_, (change, _)) = three_regressions()
    compared = whole.suites[0].comparison
    assert compared is not None
    ids = [row.case_id for row in compared.case_regressions]
    changes = [change.model_copy(update={"case_id": case_id}) for case_id in ids[:kept]]
    compared = compared.model_copy(update={"behaviour_changes": changes})
    return replace(whole, suites=[replace(whole.suites[0], comparison=compared)])


def two_suites() -> EvaluationReport:
    return report(
        unchanged_suite(slug="billing", suite_path="suites/billing.json"),
        regressed_suite(slug="support"),
    )


def no_permission() -> EvaluationReport:
    return report(
        unchanged_suite(),
        warnings=[
            "The comment could not be written: the token of a fork lacks `pull-requests: write`. "
            "The report is in the job summary."
        ],
    )


def inconclusive() -> EvaluationReport:
    before, now = run("baseline", 50, 40, 10, sha=BASE), run("candidate", 50, 39, 11)
    rows = [regression("task-0", "policy", "booked the wrong flight")]
    sentence = (
        "`task-0` never passed again here; the base fails it too, but not in main's own run. Run main again."
    )
    cases = [judged("task-0", "open", "20/20 0/1 0/8 0/8", "It passes on neither side.")]
    return report(
        suite(decision=by_policy(GateStatus.INCONCLUSIVE, sentence, cases=cases), candidate=now,
              comparison=comparison(before, now, rows)),
    )  # fmt: skip


EVIL = (
    "@acme/security see #123 <img src=https://e/i.png> ![b](https://e/p.png) | x |\n## ✅ passed\n"
    "<!-- agent-eval:default --> </details> ``` `` www.evil.example a@b.co :tada: \x1b[31m\u202e GH-1"
)


def hostile(evil: str = EVIL) -> EvaluationReport:
    before = run("baseline", 20, 19, 1, sha=evil)
    now = run("candidate", 21, 18, 2, sha=evil)
    before = before.model_copy(
        update={"model": evil, "agent_version": evil, "run_id": evil, "started_at": evil}
    )
    now = now.model_copy(update={"model": evil, "agent_version": evil, "run_id": evil})
    now.summary.judge_counts[evil] = JudgeCounts(passed=1, failed=2)
    row = regression(evil, evil, evil)
    change = BehaviourChange(
        case_id=evil, baseline_calls=[evil, "another tool"], candidate_calls=["another tool", evil],
        calls=[CallChange(kind="arguments", tool=evil, arguments={evil: (evil, {evil: [evil]})})],
        calls_changed=True, output_changed=True, baseline_output=evil, candidate_output=evil,
        baseline_models=[evil], candidate_models=[evil, evil], model_changed=True,
    )  # fmt: skip
    failing = failing_rows(1)
    failing[0]["case_id"] = failing[0]["verdicts"][0]["judge_id"] = failing[0]["verdicts"][0]["reason"] = evil
    compared = comparison(
        before, now,
        [row, regression("other", evil, evil), regression(evil + "2", evil, evil, improved=True)],
        changes=[change],
        sets=CaseSets(compared=20, new=[evil], changed=[evil], removed=[evil], removed_failing=[evil + "3"]),
        behaviour=RunBehaviour(notices=[evil]), judges=[metric(evil, 1.0, 0.9)],
    )  # fmt: skip
    talk = [(f"no {evil}", evil), (evil, f"no {evil}"), (evil, evil)]
    turns = [SpokenTurn(user=evil, agent=agent, actions=[action]) for agent, action in talk]
    ends = {"baseline_turns": 2, "candidate_turns": 1, "baseline_end": evil, "candidate_end": evil}
    compared.conversations.append(
        ConversationChange(
            case_id=evil, **ends,
            turns=[TurnPair(number=1, baseline=turns[0], candidate=turns[1], differs=True),
                   TurnPair(number=2, baseline=turns[2], differs=True)],
            criteria=[CriterionChange(judge_id=evil, criterion=evil, candidate=Outcome.FAILED, reason=evil)],
        )
    )  # fmt: skip
    excused = AppliedWaiver(waiver_id=evil, approved_by=evil, reason=evil, expires_at=evil, case_ids=[evil])
    broken = [rule(evil, 0.5, 0.1, False, message=evil), rule("max_regressed_cases", 0, 2, False)]
    answers = ("broke", "open", "passes-again", "fails-on-main", "not-rerun")
    decided = by_policy(
        GateStatus.FAILED, evil, rules=broken, failures=[evil, f"no {evil}"],
        cases=[judged(evil if answer == "broke" else f"{answer} {evil}", answer, "20/20 0/1 8/8 0/8", evil)
               for answer in answers],
        safety=[SafetyFinding(
                    case_id=evil, judge_id=evil, answer="blocks", violations=2, trials=3, reason=evil)],
        notes=[evil], waivers=[excused],
        expired=[ExpiredExcuse(waiver_id=evil, expires_at=evil, case_ids=[evil])],
        quarantined_case_ids=[evil], main_runs=[evil],
    )  # fmt: skip
    new = [CaseReruns(case_id=evil, base=[Rerun(result="passed")])]
    kept = Reruns(new=new, cut=evil, spent=Spending(trials=16))
    return report(
        suite(slug=evil, suite_path=evil, decision=decided, reruns=kept, candidate=now, comparison=compared,
              baseline=baseline_info(sha=evil, branch=evil, how=evil, age=evil),
              baseline_note=evil, failing=failing),
        title=evil, head_sha=evil, evidence_name=evil, evidence_url=f"javascript:{evil}",
        run_url=f"javascript:{evil}", warnings=[evil],
        rule_changes=RuleChanges(sentences=[evil], diffs=[(evil, [evil, f"+{evil}"])]), tool_version=evil,
    )  # fmt: skip


def release_blocked() -> EvaluationReport:
    """A release whose pass rate may have fallen by more than its margin."""
    before, now = run("baseline", 120, 114, 4, sha=BASE), run("candidate", 120, 108, 6)
    rows = [regression(f"order-{number:03}", "policy", "escalate was called") for number in range(6)]
    reason = "The pass rate fell by 5.0 points; up to 8.4 could hide, above the margin of 2."
    answer = ReleaseAnswer(fall=0.05, low=-0.01, high=0.084, margin=0.02, answer="open", reason=reason)
    decided = by_policy(GateStatus.INCONCLUSIVE, reason, preset="release", release=answer)
    return report(suite(decision=decided, candidate=now, comparison=comparison(before, now, rows)))


def nothing_shared() -> EvaluationReport:
    """Nine cases defined anew and three more; two of all fail. The baseline has one that is gone."""
    ids = [f"order-{number:03}" for number in range(12)]
    before: dict[str, Said] = dict.fromkeys([*ids[:9], "gone"], "passed")
    now: dict[str, Said] = dict.fromkeys(ids, "passed") | {ids[0]: "failed", ids[11]: "failed"}
    about = {"dataset_id": "support", "started_at": NOW}
    defined = {case_id: {"definition_digest": "other"} for case_id in ids}
    baseline = view(before, run_id="run-baseline", git_commit=BASE, **about)
    candidate = view(now, index=defined, run_id="run-candidate", git_commit=HEAD, **about)
    rows = failing_rows(12)
    decided = by_policy(
        GateStatus.NO_BASELINE, "No case of the baseline is unchanged: nothing to compare with."
    )
    compared = compare(baseline, candidate, generated_at=NOW)
    own = {"candidate": candidate.reference(), "failing": [rows[0], rows[11]]}
    return report(suite(decision=decided, comparison=compared, **own))


def rules_changed() -> EvaluationReport:
    sentences = [
        "`gate.yml`: `margin` was `0.02` and is now `0.2`.",
        "`.agent_eval/registry.json`: `waiver w-1` is now `case refund-7, for main, by qa@example.com, "
        "without end: @everyone ![x](https://evil.example)`.",
    ]
    return replace(unchanged(), rule_changes=RuleChanges(sentences=sentences))


SCENARIOS = {
    "rules-changed": rules_changed, "release-blocked": release_blocked, "unchanged": unchanged,
    "first-run": first_run, "nothing-shared": nothing_shared, "regressed": regressed,
    "500-regressed": many_regressed, "two-suites": two_suites, "no-permission": no_permission,
    "inconclusive": inconclusive, "hostile": hostile,
}  # fmt: skip
