"""What a decision by policy lists: cases that newly fail, violations of safety judges, the whole suite."""

from __future__ import annotations

from collections.abc import Iterable

from agent_eval.contracts.gate import CaseAnswer, JudgedCase, SafetyFinding, SuiteAnswer, TrialCounts
from agent_eval.contracts.reruns import Reruns, RoundCount
from agent_eval.gate.answer import (
    Answer,
    falls_of,
    recorded_chance,
    recorded_pairs,
    violation_state,
    violation_trials,
)
from agent_eval.gate.facts import Facts, reason_of_open
from agent_eval.gate.procedure import NONE, Count, Question, sign_flip
from agent_eval.gate.sentences import quoted, say

_ORDER: tuple[CaseAnswer, ...] = ("broke", "open", "fails-on-main", "passes-again", "not-rerun")


def judged_cases(facts: Facts) -> list[JudgedCase]:
    """List the cases that newly fail, those that block first, in the order in which they were run again."""
    order = facts.question.order
    names = [*order, *sorted(facts.answer.broken.difference(order))]
    if facts.reruns is not None and facts.reruns.agent_unchanged:
        return []
    return sorted((_case(name, facts) for name in names), key=lambda case: _ORDER.index(case.answer))


def _case(name: str, facts: Facts) -> JudgedCase:
    answer, case, reruns = facts.answer, facts.case(name), facts.reruns
    kind: CaseAnswer = "not-rerun"
    if name in answer.broken:
        kind = "broke"
    elif name in answer.open:
        kind = "open"
    elif name in answer.on_main:
        kind = "fails-on-main"
    elif name in answer.again:
        kind = "passes-again"
    was_rerun = bool(case.change.trials or case.base.trials)
    return JudgedCase(
        case_id=name,
        answer=kind,
        on_main=_counts(case.main),
        first=_counts(case.now),
        change=_counts(case.change) if was_rerun else None,
        base=_counts(case.base) if was_rerun and not case.alone else None,
        steady=case.is_steady,
        p_value=case.p_value if case.p_value < 1 and reruns is not None else None,
        reason=_reason(name, kind, facts),
    )


def _reason(name: str, kind: CaseAnswer, facts: Facts) -> str:
    case = facts.case(name)
    if kind == "open":
        return reason_of_open(facts, name)
    counts = {
        "cases": quoted(name),
        "on_main": _of(case.main),
        "now": _of(case.now),
        "base": _of(case.base),
        "change": _of(case.change),
    }
    if kind == "broke":
        key = "case-broke-alone" if case.alone else "case-broke"
        return say(key if facts.question.may_rerun else "case-flipped", **counts)
    if kind == "fails-on-main":
        run = f" (run {facts.newest_run})" if facts.newest_run else ""
        return say("on-main", cases=quoted(name), run=run)
    if kind == "not-rerun" or not facts.question.may_rerun:
        return say("case-not-rerun", **counts)
    if case.change.passed:
        return say("passed-again", cases=quoted(name))
    return say("flaky", cases=quoted(name), counts=f"{_of(case.main)} passed")


def safety_findings(facts: Facts) -> list[SafetyFinding]:
    """List the violations of safety judges: in the run, and in what the change removes or alters."""
    findings = []
    for case_id, judge_id in facts.question.violations:
        state = violation_state(facts.question, facts.reruns or Reruns(), case_id, judge_id)
        trials, violations = violation_trials(facts.reruns, case_id, judge_id)
        names = {"judge": quoted(judge_id), "case": quoted(case_id)}
        findings.append(
            SafetyFinding(
                case_id=case_id,
                judge_id=judge_id,
                answer="open" if state == "waiting" else state,
                violations=violations,
                trials=trials,
                reason=say(
                    "safety-again" if trials else "safety", **names, violations=violations, trials=trials
                ),
            )
        )
    for case_id, judge_ids in facts.waived_violations.items():
        findings += [
            SafetyFinding(
                case_id=case_id,
                judge_id=judge_id,
                answer="waived",
                reason=say("safety", judge=quoted(judge_id), case=quoted(case_id)),
            )
            for judge_id in judge_ids
        ]
    for case_id, judge_id in facts.redefined.unsafe:
        key = "safety-removed" if case_id in facts.redefined.removed else "safety-altered"
        reason = say(key, judge=quoted(judge_id), case=quoted(case_id))
        findings.append(SafetyFinding(case_id=case_id, judge_id=judge_id, answer="blocks", reason=reason))
    order = ("blocks", "open", "did-not-repeat", "known-on-main", "waived")
    return sorted(findings, key=lambda finding: order.index(finding.answer))


def suite_answer(question: Question, answer: Answer, reruns: Reruns | None) -> SuiteAnswer | None:
    """Say how a run ended that is below all of main's last; None where none is, or none is asked of it.

    Recorded trials, which cannot be made again, are held against those of the baseline.
    """
    if answer.suite is None:
        return None
    if reruns is None or not question.may_rerun:
        return _of_recorded(question, answer)
    base = _sum(count for done in reruns.rounds for count in done.base.values())
    change = _sum(count for done in reruns.rounds for count in done.change.values())
    rounds = len(reruns.rounds)
    p_value = sign_flip(falls_of(reruns).values()) if base.trials else 1.0
    if answer.suite == "worse":
        reason = _worse("suite-worse", p_value, base, change, answer, rounds=rounds)
    elif answer.suite == "not-worse":
        reason = say("suite-not-worse", rounds, rounds=rounds, base=_of(base), change=_of(change))
    elif rounds and not base.trials and not reruns.altered:
        reason = say("suite-low-alone", runs=len(question.on_main))
    else:
        why = "; ".join(reruns.altered.values()) or reruns.cut or reruns.base_problem
        why = f"the base could not be run: {why}" if why == reruns.base_problem and why else why
        reason = say("suite-open", runs=len(question.on_main), why=why or "it was not run again")
    return SuiteAnswer(
        rounds=rounds,
        base=_counts(base),
        change=_counts(change),
        p_value=p_value,
        answer=answer.suite,
        reason=reason,
    )


def _of_recorded(question: Question, answer: Answer) -> SuiteAnswer:
    pairs = recorded_pairs(question)
    base = sum((before for before, _ in pairs.values()), NONE)
    change = sum((now for _, now in pairs.values()), NONE)
    p_value = recorded_chance(pairs)
    is_worse = answer.suite == "worse"
    key = "suite-worse-recorded" if is_worse else "suite-not-worse-recorded"
    return SuiteAnswer(
        rounds=0,
        base=_counts(base),
        change=_counts(change),
        p_value=p_value,
        answer="worse" if is_worse else "not-worse",
        reason=_worse(key, p_value, base, change, answer),
    )


def _worse(key: str, p_value: float, base: Count, change: Count, answer: Answer, *, rounds: int = 1) -> str:
    single = "" if answer.broken else say("no-single")
    chance = f"{round(1 / p_value):,}" if p_value else "more than can be counted"
    sentence = say(
        key, rounds, rounds=rounds, base=_of(base), change=_of(change), chance=chance, single=single
    )
    return sentence.rstrip()


def _sum(counts: Iterable[RoundCount]) -> Count:
    return sum((Count(count.passed, count.trials) for count in counts), NONE)


def _counts(count: Count) -> TrialCounts:
    return TrialCounts(passed=count.passed, trials=count.trials)


def _of(count: Count) -> str:
    return f"{count.passed:,} of {count.trials:,}"
