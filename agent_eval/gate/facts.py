"""What a decision by policy found, and which sentences of the table it comes to."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from agent_eval.contracts import GateStatus, RuleResult, RunReference
from agent_eval.contracts.gate import FigureChange, ReleaseAnswer, SuiteAnswer
from agent_eval.contracts.reruns import Reruns
from agent_eval.gate.answer import Answer, OpenReason, counted, violation_trials
from agent_eval.gate.procedure import BUDGET, Case, Question
from agent_eval.gate.redefined import Redefined
from agent_eval.gate.sentences import NAME_LIMIT, NAMED, SENTENCES, listed, quoted, say
from agent_eval.text.escape import one_line

_SEEN = ((200, "10"), (100, "9"), (50, "6"), (20, "1"), (0, "0"))
"""In how many of 10 changes a loss of 10 points is seen, from so many cases on (simulated)."""


@dataclass(frozen=True, kw_only=True)
class Facts:
    """What a decision by policy found; `failures`, `open` and `notes` are its sentences, the first first."""

    question: Question
    answer: Answer
    reruns: Reruns | None
    rules: Sequence[RuleResult]
    release: ReleaseAnswer | None
    figures: Sequence[FigureChange]
    suite: SuiteAnswer | None
    redefined: Redefined
    quarantined: Sequence[str]
    waived_violations: Mapping[str, Collection[str]]
    run: RunReference
    runs: int
    newest_run: str | None
    is_main_judged: bool = True

    def case(self, name: str) -> Case:
        """The counts of a case, with those of its reruns."""
        return self.question.cases[name] if self.reruns is None else counted(self.question, self.reruns, name)

    @property
    def failures(self) -> list[str]:
        """Sentences of everything that fails."""
        broken = self.answer.broken
        sentences = [*_unsafe(self)]
        if len(broken) > self.question.max_regressed:
            sentences.append(_broke(self))
        if self.suite is not None and self.suite.answer == "worse":
            sentences.append(self.suite.reason)
        # What broke is said; these two count it.
        counts = ("max_regressed_cases", "max_new_hard_fail_cases") if broken else ()
        is_said = len(broken) > self.question.max_regressed
        sentences += [
            rule.message
            for rule in self.rules
            if rule.applied and not rule.passed and not (is_said and rule.rule in counts)
        ]
        sentences += [figure.reason for figure in self.figures if figure.answer == "breaks-limit"]
        if self.release is not None and self.release.answer == "worse":
            sentences.append(self.release.reason)
        return sentences

    @property
    def open(self) -> list[str]:
        """Sentences of everything that is not settled."""
        return [
            *([say("main-unjudged")] if self.runs and not self.is_main_judged else []),
            *([] if self.question.cases else [say("nothing-left")]),
            *_redefined(self.redefined),
            *_open_safety(self),
            *_open_cases(self),
            *([self.suite.reason] if self.suite is not None and self.suite.answer == "open" else []),
            *(figure.reason for figure in self.figures if figure.answer == "open"),
            *([self.release.reason] if self.release is not None and self.release.answer == "open" else []),
        ]


def sentence_of(facts: Facts, status: GateStatus) -> str:
    """Say how a decision ended and why, first."""
    if status is GateStatus.FAILED:
        return facts.failures[0]
    if status is GateStatus.INCONCLUSIVE:
        return facts.open[0]
    if status is GateStatus.NO_BASELINE:
        summary = facts.run.summary
        return say("no-baseline", passed=summary.passed_cases, all=summary.total_cases)
    if facts.reruns is not None and facts.reruns.agent_unchanged:
        return say("unchanged")
    broken = sorted(facts.answer.broken)
    if broken:
        return say("tolerated", len(broken), cases=listed(broken), most=facts.question.max_regressed)
    clauses = _green(facts)
    return f"{say('nothing').removesuffix('.')}; {clauses[0]}" if clauses else say("nothing")


def notes_of(facts: Facts, status: GateStatus) -> list[str]:
    """Say what else a reader has to know, a sentence each, without the one that was said first."""
    reruns, number = facts.reruns, len(facts.question.cases)
    notes = facts.failures[1:] if status is GateStatus.FAILED else []
    notes = [*notes, *(facts.open[status is GateStatus.INCONCLUSIVE :])]
    green = _green(facts)
    is_unchanged = reruns is not None and reruns.agent_unchanged
    is_first = status is GateStatus.PASSED and not is_unchanged and not facts.answer.broken
    notes += green[1 if is_first else 0 :]
    if facts.quarantined:
        notes.append(say("quarantined", len(facts.quarantined), cases=listed(facts.quarantined)))
    notes += [rule.message for rule in facts.rules if rule.passed and _is_beyond(rule)]
    notes += [figure.reason for figure in facts.figures if figure.answer == "rose"]
    if reruns is not None and reruns.base_problem is not None:
        notes.append(say("base-problem", why=reruns.base_problem))
    if (
        reruns is not None
        and reruns.base_runs == "none"
        and reruns.base_problem is None
        and facts.question.order
    ):
        notes.append(say("no-base-note"))
    if status is GateStatus.PASSED and 0 < facts.runs < 4:
        notes.append(say("short-history", facts.runs))
    if status is GateStatus.PASSED and number and not is_unchanged:
        seen = next(share for cases, share in _SEEN if number >= cases)
        notes.append(say("cannot-see", seen=seen, all=number))
    return list(dict.fromkeys(notes))


def _is_beyond(rule: RuleResult) -> bool:
    """Whether a rule holds only because chance alone may be why its limit is exceeded."""
    value = rule.threshold if rule.value is None else rule.value
    return value < rule.threshold if rule.rule.startswith("min_") else value > rule.threshold


def _green(facts: Facts) -> list[str]:
    """Sentences on what failed or is gone and does not blame the change."""
    answer, redefined = facts.answer, facts.redefined
    cases = {name: facts.case(name) for name in answer.again | answer.not_rerun}
    passed = sorted(name for name, case in cases.items() if case.change.passed)
    flaky = sorted(cases.keys() - set(passed))
    sentences = []
    if passed:
        sentences.append(say("passed-again", len(passed), cases=listed(passed)))
    if answer.on_main:
        run = f" (run {one_line(facts.newest_run, limit=NAME_LIMIT)})" if facts.newest_run else ""
        sentences.append(say("on-main", len(answer.on_main), cases=listed(sorted(answer.on_main)), run=run))
    if flaky:
        passes, trials = cases[flaky[0]].main
        sentences.append(say("flaky", len(flaky), cases=listed(flaky), counts=f"{passes} of {trials} passed"))
    removed = [case_id for case_id in redefined.passing if case_id in redefined.removed]
    altered = [case_id for case_id in redefined.passing if case_id not in redefined.removed]
    if removed:
        sentences.append(say("removed-passing", len(removed)))
    if altered:
        sentences.append(say("altered-passing", len(altered)))
    return sentences


def _unsafe(facts: Facts) -> list[str]:
    sentences = []
    unsafe = sorted(facts.answer.unsafe)
    if len({case_id for case_id, _ in unsafe}) > BUDGET:
        judges = listed(sorted({judge_id for _, judge_id in unsafe}))
        cases = sorted({case_id for case_id, _ in unsafe})
        sentences.append(say("safety-many", len(cases), judge=judges, cases=listed(cases)))
        unsafe = []
    for case_id, judge_id in unsafe:
        names = {"judge": quoted(judge_id), "case": quoted(case_id)}
        trials, violations = violation_trials(facts.reruns, case_id, judge_id)
        is_at_once = facts.question.violations[case_id, judge_id].at_once
        key = "safety-again" if trials and not is_at_once else "safety"
        sentences.append(say(key, **names, violations=violations, trials=trials))
    for case_id, judge_id in facts.redefined.unsafe:
        key = "safety-removed" if case_id in facts.redefined.removed else "safety-altered"
        sentences.append(say(key, judge=quoted(judge_id), case=quoted(case_id)))
    return sentences


def _broke(facts: Facts) -> str:
    question, answer = facts.question, facts.answer
    names = [name for name in question.order if name in answer.broken]
    names += sorted(answer.broken.difference(names))
    cases = {name: facts.case(name) for name in names[:NAMED]}
    more = ", …" if len(names) > NAMED else ""
    if facts.reruns is None or not question.may_rerun:
        if all(case.now.trials <= 1 for case in cases.values()):
            return say("flipped", len(names), all=len(question.cases), cases=listed(names))
        counts = [
            f"{quoted(name)} passed {case.now.passed} of {case.now.trials} times here and "
            f"{case.main.passed} of {case.main.trials} on main"
            for name, case in cases.items()
        ]
        return say("broke", len(names), cases=", ".join(counts) + more)
    counts = []
    for name, case in cases.items():
        before = case.main if case.alone else case.base
        where = "in main's last runs" if case.alone else "on main"
        counts.append(
            f"{quoted(name)} passed {case.change.passed} of {case.change.trials} times here and "
            f"{before.passed} of {before.trials} {where}"
        )
    return say("broke", len(names), cases=", ".join(counts) + more)


def _redefined(redefined: Redefined) -> list[str]:
    sentences = []
    if redefined.only_by_change:
        names = sorted(redefined.only_by_change)
        sentences.append(say("only-by-change", len(names), cases=listed(names)))
    for key, group in (("fails-by-main", redefined.failing), ("not-run-by-main", redefined.unknown)):
        for does, is_removed in (("removes", True), ("alters", False)):
            names = sorted(name for name in group if (name in redefined.removed) is is_removed)
            if names:
                sentences.append(say(key, len(names), cases=listed(names), does=does))
    return [*sentences, say("more-help")] if redefined.more_help else sentences


def _open_safety(facts: Facts) -> list[str]:
    sentences = []
    for case_id, judge_id in sorted(facts.answer.open_safety):
        rows = [row for row in (facts.reruns.safety if facts.reruns else ()) if row.case_id == case_id]
        untold = [trial for row in rows for trial in row.change if judge_id in trial.unjudged]
        names = {"judge": quoted(judge_id), "case": quoted(case_id)}
        if untold:
            sentences.append(say("safety-open", **names, why=_reason(untold[-1].reason)))
        else:
            sentences.append(say("safety-not-rerun", **names, why=_why_cut(facts)))
    return sentences


def _reason(reason: str) -> str:
    return one_line(reason, limit=200).rstrip(".") or "it gave no reason"


def _why_cut(facts: Facts) -> str:
    """Why reruns are missing, as a clause."""
    reruns = facts.reruns
    if reruns is None:
        return "it was not run again"
    return "; ".join(reruns.altered.values()) or reruns.cut or "it was not run again"


def _open_cases(facts: Facts) -> list[str]:
    """A sentence for each reason that cases are open, in the order of the table."""
    by_reason: dict[str, list[str]] = {}
    for name, reason in facts.answer.open.items():
        by_reason.setdefault(_split(facts.case(name), reason), []).append(name)
    order = [key for key in SENTENCES if key in by_reason]
    return [_open_sentence(facts, key, by_reason[key]) for key in order]


def reason_of_open(facts: Facts, name: str) -> str:
    """Say of one case why it is open."""
    return _open_sentence(facts, _split(facts.case(name), facts.answer.open[name]), [name])


def _split(case: Case, reason: OpenReason) -> str:
    """The key of an open case's sentence."""
    if reason == "cut":
        return "cut-never" if case.never_passed else "cut"
    return "too-few" if reason == "fails-on-both" and case.base.passed else reason


def _open_sentence(facts: Facts, key: str, names: Sequence[str]) -> str:
    reruns, number = facts.reruns, len(names)
    if key == "unjudged":
        return _unjudged(facts, names)
    why = _why_cut(facts)
    if key == "base-cannot-run" and reruns is not None:
        why = one_line(reruns.base_problem or why, limit=200)
    controls = [row.case_id for row in reruns.control] if reruns is not None else []
    base = facts.case(names[0]).base
    reliable = sum(facts.case(name).is_reliable for name in facts.question.order)
    return say(
        key,
        number,
        cases=listed(names),
        why=why,
        base=f"{base.passed} of {base.trials}",
        controls=" and ".join(map(quoted, controls)),
        reliable=f"{reliable:,}",
        again=f"{reliable - number:,}",
    )


def _unjudged(facts: Facts, names: Sequence[str]) -> str:
    """Which judge cannot tell, and why: by the last rerun that says so."""
    rows = (*facts.reruns.cases, *facts.reruns.late) if facts.reruns is not None else ()
    for row in rows:
        trials = [
            trial for trial in (*row.change, *row.base) if trial.result == "unjudged" and trial.unjudged
        ]
        if row.case_id == names[0] and len(names) == 1 and trials:
            judge_id, why = trials[-1].unjudged[0], _reason(trials[-1].reason)
            return say("unjudged", judge=quoted(judge_id), case=quoted(row.case_id), why=why)
    return say("unjudged-many", len(names), cases=listed(names))
