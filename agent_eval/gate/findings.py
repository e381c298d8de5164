"""What a decision by policy found: its sentences, and the cases, violations and suite that it lists."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from agent_eval.contracts import GateStatus, RuleResult
from agent_eval.contracts.gate import (
    CaseAnswer,
    FigureChange,
    JudgedCase,
    ReleaseAnswer,
    SafetyFinding,
    SuiteAnswer,
)
from agent_eval.contracts.history import RunRecord
from agent_eval.contracts.policy import GatePolicy
from agent_eval.contracts.reruns import Reruns, TrialCounts
from agent_eval.gate.answer import (
    Answer,
    ByMain,
    Redefined,
    answer,
    counted,
    falls_of,
    recorded_chance,
    recorded_pairs,
    redefined,
    violation_state,
    violation_trials,
)
from agent_eval.gate.limits import Measured, apply_limits, figure_changes, measure_counts
from agent_eval.gate.procedure import BUDGET, Case, Material, Question, question
from agent_eval.gate.release import release_answer
from agent_eval.gate.sentences import NAME_LIMIT, NAMED, SENTENCES, listed, quoted, say
from agent_eval.gate.statistics import NONE, Count, sign_flip
from agent_eval.gate.waivers import Excuses
from agent_eval.text.escape import one_line

_SEEN = ((200, "10"), (100, "9"), (50, "6"), (20, "1"), (0, "0"))
"""In how many of 10 changes a loss of 10 points is seen, from so many cases on (simulated)."""

_CASES: tuple[CaseAnswer, ...] = ("broke", "open", "fails-on-main", "passes-again", "not-rerun")
_VIOLATIONS = ("blocks", "open", "did-not-repeat", "known-on-main", "waived")


@dataclass(frozen=True, kw_only=True)
class Facts:
    """What a decision by policy found; `failures`, `open` and `green` are its sentences, the first first."""

    material: Material
    question: Question
    """What was asked; where nothing was run again it cannot be, and recorded trials decide."""
    answer: Answer
    reruns: Reruns
    """The record; an empty one where nothing was run again."""
    measured: Measured
    rules: Sequence[RuleResult]
    release: ReleaseAnswer | None
    figures: Sequence[FigureChange]
    redefined: Redefined
    waived_violations: Sequence[tuple[str, str]]
    quarantined: Sequence[str]
    """Cases in quarantine that do not pass."""

    def case(self, name: str) -> Case:
        """The counts of a case, with those of its reruns."""
        return counted(self.question, self.material.reruns, name)

    @property
    def runs(self) -> Sequence[RunRecord]:
        """Main's runs that cases are held against."""
        return self.material.counts.runs

    @property
    def is_main_judged(self) -> bool:
        """Whether any trial of them could be judged."""
        return any(row.scored for run in self.runs for row in run.cases.values())

    @cached_property
    def suite(self) -> SuiteAnswer | None:
        """How a run ended that is below all of main's last; None where none is, or none is asked of it."""
        return _suite_answer(self)

    @cached_property
    def failures(self) -> list[str]:
        """Sentences of everything that fails."""
        broken, counts = self.answer.broken, ("max_regressed_cases", "max_new_hard_fail_cases")
        is_said = len(broken) > self.question.max_regressed
        unsafe = sorted(self.answer.unsafe)
        violating = sorted({case_id for case_id, _ in unsafe})
        if len(violating) > BUDGET:
            judges = listed(sorted({judge_id for _, judge_id in unsafe}))
            violated = [say("safety-many", len(violating), judge=judges, cases=listed(violating))]
        else:
            violated = [
                _violated(self, *place, is_at_once=self.question.violations[place].at_once)
                for place in unsafe
            ]
        return [
            *violated,
            *(_violated_by_main(self.redefined, *place) for place in self.redefined.unsafe),
            *([_broke(self)] if is_said else []),
            *([self.suite.reason] if self.suite is not None and self.suite.answer == "worse" else []),
            # What broke is said; two of the rules count it.
            *(
                rule.message
                for rule in self.rules
                if rule.applied and not rule.passed and not (is_said and rule.rule in counts)
            ),
            *(figure.reason for figure in self.figures if figure.answer == "breaks-limit"),
            *([self.release.reason] if self.release is not None and self.release.answer == "worse" else []),
        ]

    @cached_property
    def open(self) -> list[str]:
        """Sentences of everything that is not settled; of cases one for each reason, as in the table."""
        safety = []
        for case_id, judge_id in sorted(self.answer.open_safety):
            trials = [trial for row in self.reruns.safety if row.case_id == case_id for trial in row.change]
            untold = [trial.reason for trial in trials if judge_id in trial.unjudged]
            key = "safety-open" if untold else "safety-not-rerun"
            why = _reason(untold[-1]) if untold else _why_cut(self)
            safety.append(say(key, judge=quoted(judge_id), case=quoted(case_id), why=why))
        redefined = self.redefined
        only = [name for name, state in redefined.cases.items() if state == "only-by-change"]
        by_main = [say("only-by-change", len(only), cases=listed(only))] if only else []
        states: Mapping[ByMain, str] = {"fails": "fails-by-main", "not-run": "not-run-by-main"}
        for state, key in states.items():
            for does, is_removed in (("removes", True), ("alters", False)):
                if names := redefined.named(state, removed=is_removed):
                    by_main.append(say(key, len(names), cases=listed(names), does=does))
        by_key: dict[str, list[str]] = {}
        for name in self.answer.open:
            by_key.setdefault(_key_of_open(self, name), []).append(name)
        return [
            *([say("main-unjudged")] if self.runs and not self.is_main_judged else []),
            *([] if self.question.cases else [say("nothing-left")]),
            *by_main,
            *([say("more-help")] if redefined.more_help else []),
            *safety,
            *(_open_sentence(self, by_key[key]) for key in SENTENCES if key in by_key),
            *([self.suite.reason] if self.suite is not None and self.suite.answer == "open" else []),
            *(figure.reason for figure in self.figures if figure.answer == "open"),
            *([self.release.reason] if self.release is not None and self.release.answer == "open" else []),
        ]

    @cached_property
    def green(self) -> list[str]:
        """Sentences on what failed or is gone and does not blame the change."""
        answer, redefined = self.answer, self.redefined
        cases = {name: self.case(name) for name in answer.again | answer.not_rerun}
        passed = sorted(name for name, case in cases.items() if case.change.passed)
        # Once enough cases broke, the others are not run again: main passes them, and they are no flaky ones.
        not_rerun = sorted(name for name in answer.not_rerun if cases[name].is_reliable and answer.broken)
        flaky = sorted(cases.keys() - {*passed, *not_rerun})
        newest = self.material.counts.newest
        run = f" (run {one_line(newest.run.run_id, limit=NAME_LIMIT)})" if newest is not None else ""
        counts = f"{cases[flaky[0]].main} passed" if flaky else ""
        sentences = {
            "passed-again": passed,
            "on-main": sorted(answer.on_main),
            "flaky": flaky,
            "left": not_rerun,
            "removed-passing": redefined.named("passes", removed=True),
            "altered-passing": redefined.named("passes", removed=False),
        }
        return [
            say(key, len(names), cases=listed(names), run=run, counts=counts)
            for key, names in sentences.items()
            if names
        ]


def find(material: Material, policy: GatePolicy, excuses: Excuses) -> Facts:
    """Ask, answer and measure; raises `InvalidInput` where the record of reruns contradicts itself."""
    counts, record = material.counts, material.reruns
    may_rerun = material.may_rerun and record is not None
    asks = question(counts, policy, excuses, seed=material.seed, may_rerun=may_rerun)
    reruns, ends, left_out = record or Reruns(), answer(asks, record), excuses.left_out
    measured = measure_counts(counts.own, counts.baseline, quarantined=excuses.quarantine, broken=ends.broken)
    may_vary = not (policy.deterministic or material.is_recorded)
    return Facts(
        material=material,
        question=asks,
        answer=ends,
        reruns=reruns,
        measured=measured,
        rules=apply_limits(policy.thresholds, measured, may_vary=may_vary),
        release=release_answer(counts, policy, left_out) if policy.is_release else None,
        figures=figure_changes(counts, policy, record, may_rerun=asks.may_rerun),
        redefined=redefined(counts, material.comparison, reruns.by_main, policy, left_out),
        waived_violations=[
            (case_id, judge_id)
            for case_id, judges in material.violations(policy).items()
            for judge_id in judges
            if judge_id in excuses.covered.get(case_id, ())
        ],
        quarantined=sorted(
            name
            for name, row in counts.own.cases.items()
            if name in excuses.quarantine and not 0 < row.trials == row.passed
        ),
    )


def sentence_of(facts: Facts, status: GateStatus) -> str:
    """Say how a decision ended and why, first."""
    broken = sorted(facts.answer.broken)
    if status is GateStatus.FAILED:
        return facts.failures[0]
    if status is GateStatus.INCONCLUSIVE:
        return facts.open[0]
    if status is GateStatus.NO_BASELINE:
        summary = facts.material.run.summary
        return say("no-baseline", passed=summary.passed_cases, all=summary.total_cases)
    if facts.reruns.agent_unchanged:
        return say("unchanged")
    if broken:
        return say("tolerated", len(broken), cases=listed(broken), most=facts.question.max_regressed)
    return f"{say('nothing').removesuffix('.')}; {facts.green[0]}" if facts.green else say("nothing")


def notes_of(facts: Facts, status: GateStatus) -> list[str]:
    """Say what else a reader has to know, a sentence each, without the one that was said first."""
    reruns, number = facts.reruns, len(facts.question.cases)
    is_passed = status is GateStatus.PASSED
    is_green_first = is_passed and not facts.reruns.agent_unchanged and not facts.answer.broken
    notes = facts.failures[1:] if status is GateStatus.FAILED else []
    notes = [*notes, *facts.open[status is GateStatus.INCONCLUSIVE :], *facts.green[is_green_first:]]
    if facts.quarantined:
        notes.append(say("quarantined", len(facts.quarantined), cases=listed(facts.quarantined)))
    for rule in facts.rules:
        # It holds only because chance alone may be why its limit is exceeded.
        value = rule.threshold if rule.value is None else rule.value
        excess = rule.threshold - value if rule.rule.startswith("min_") else value - rule.threshold
        if rule.passed and excess > 0:
            notes.append(rule.message)
    notes += [figure.reason for figure in facts.figures if figure.answer == "rose"]
    if reruns.base_problem is not None:
        notes.append(say("base-problem", why=reruns.base_problem))
    elif facts.material.reruns is not None and reruns.base_runs == "none" and facts.question.order:
        notes.append(say("no-base-note"))
    if is_passed and 0 < len(facts.runs) < 4:
        notes.append(say("short-history", len(facts.runs)))
    if is_passed and number and not facts.reruns.agent_unchanged:
        seen = next(share for cases, share in _SEEN if number >= cases)
        notes.append(say("cannot-see", seen=seen, all=number))
    return list(dict.fromkeys(notes))


def _violated(facts: Facts, case_id: str, judge_id: str, *, is_at_once: bool = False) -> str:
    trials, violations = violation_trials(facts.reruns, case_id, judge_id)
    key = "safety-again" if trials and not is_at_once else "safety"
    return say(key, judge=quoted(judge_id), case=quoted(case_id), violations=violations, trials=trials)


def _violated_by_main(redefined: Redefined, case_id: str, judge_id: str) -> str:
    key = "safety-removed" if case_id in redefined.removed else "safety-altered"
    return say(key, judge=quoted(judge_id), case=quoted(case_id))


def _broke(facts: Facts) -> str:
    order, broken = facts.question.order, facts.answer.broken
    names = [name for name in order if name in broken] + sorted(broken.difference(order))
    cases = {name: facts.case(name) for name in names[:NAMED]}
    if not facts.question.may_rerun and all(case.now.trials <= 1 for case in cases.values()):
        return say("flipped", len(names), all=len(facts.question.cases), cases=listed(names))
    counts: dict[str, list[str]] = {}
    for name, case in cases.items():
        now, before = (case.change, case.base) if facts.question.may_rerun else (case.now, case.main)
        where = "on main"
        if facts.question.may_rerun and case.alone:
            before, where = case.main, "in main's last runs"
        counted = (
            f"passed {now.passed} of {now.trials} times here and {before.passed} of {before.trials} {where}"
        )
        counts.setdefault(counted, []).append(name)
    if len(counts) == 1 and len(names) > 1:
        return say("broke", len(names), cases=f"{listed(names)} each {next(iter(counts))}")
    each = ", ".join(f"{quoted(name)} {counted}" for counted, alike in counts.items() for name in alike)
    return say("broke", len(names), cases=each + (", …" if len(names) > NAMED else ""))


def _reason(reason: str) -> str:
    return one_line(reason, limit=200).rstrip(".") or "it gave no reason"


def _why_cut(facts: Facts) -> str:
    return "; ".join(facts.reruns.altered.values()) or facts.reruns.cut or "it was not run again"


def _key_of_open(facts: Facts, name: str) -> str:
    case, reason = facts.case(name), facts.answer.open[name]
    if reason == "cut":
        return "cut-never" if case.never_passed else "cut"
    return "too-few" if reason == "fails-on-both" and case.base.passed else reason


def _open_sentence(facts: Facts, names: Sequence[str]) -> str:
    key, reruns, number = _key_of_open(facts, names[0]), facts.reruns, len(names)
    why, judge = _why_cut(facts), ""
    if key == "unjudged":
        rows = [row for row in (*reruns.cases, *reruns.late) if row.case_id == names[0]]
        trials = [trial for row in rows for trial in (*row.change, *row.base)]
        trials = [trial for trial in trials if trial.result == "unjudged" and trial.unjudged]
        if number == 1 and trials:
            judge, why = quoted(trials[-1].unjudged[0]), _reason(trials[-1].reason)
        else:
            key = "unjudged-many"
    if key == "base-cannot-run":
        why = one_line(reruns.base_problem or why, limit=200)
    base = facts.case(names[0]).base
    reliable = sum(facts.question.cases[name].is_reliable for name in facts.question.order)
    return say(
        key,
        number,
        cases=listed(names),
        case=quoted(names[0]),
        judge=judge,
        why=why,
        base=f"{base.passed} of {base.trials}",
        controls=" and ".join(quoted(row.case_id) for row in reruns.control),
        reliable=f"{reliable:,}",
        again=f"{reliable - number:,}",
    )


def judged_cases(facts: Facts) -> list[JudgedCase]:
    """List the cases that newly fail, those that block first, in the order in which they were run again."""
    order, answer, newest = facts.question.order, facts.answer, facts.material.counts.newest
    names = [] if facts.reruns.agent_unchanged else [*order, *sorted(answer.broken.difference(order))]
    groups = dict(zip(_CASES, (answer.broken, answer.open, answer.on_main, answer.again), strict=False))
    judged = []
    for name in names:
        case = facts.case(name)
        kind = next((kind for kind, group in groups.items() if name in group), "not-rerun")
        if kind == "broke" and facts.question.may_rerun:
            key = "case-broke-alone" if case.alone else "case-broke"
        elif kind == "broke":
            key = "case-flipped"
        elif kind == "fails-on-main":
            key = "on-main"
        elif kind == "not-rerun" or not facts.question.may_rerun:
            key = "case-not-rerun"
        else:
            key = "passed-again" if case.change.passed else "flaky"
        reason = say(
            key,
            cases=quoted(name),
            on_main=case.main,
            now=case.now,
            base=case.base,
            change=case.change,
            counts=f"{case.main} passed",
            run=f" (run {newest.run.run_id})" if newest is not None else "",
        )
        was_rerun = bool(case.change.trials or case.base.trials)
        judged.append(
            JudgedCase(
                case_id=name,
                answer=kind,
                on_main=_counts(case.main),
                first=_counts(case.now),
                change=_counts(case.change) if was_rerun else None,
                base=_counts(case.base) if was_rerun and not case.alone else None,
                steady=case.is_steady,
                p_value=case.p_value if case.p_value < 1 else None,
                reason=_open_sentence(facts, [name]) if kind == "open" else reason,
            )
        )
    return sorted(judged, key=lambda case: _CASES.index(case.answer))


def safety_findings(facts: Facts) -> list[SafetyFinding]:
    """List the violations of safety judges: in the run, and in what the change removes or alters."""
    findings = []
    for case_id, judge_id in facts.question.violations:
        state = violation_state(facts.question, facts.reruns, case_id, judge_id)
        trials, violations = violation_trials(facts.reruns, case_id, judge_id)
        findings.append(
            SafetyFinding(
                case_id=case_id,
                judge_id=judge_id,
                answer="open" if state == "waiting" else state,
                violations=violations,
                trials=trials,
                reason=_violated(facts, case_id, judge_id),
            )
        )
    for case_id, judge_id in facts.waived_violations:
        reason = say("safety", judge=quoted(judge_id), case=quoted(case_id))
        findings.append(SafetyFinding(case_id=case_id, judge_id=judge_id, answer="waived", reason=reason))
    for case_id, judge_id in facts.redefined.unsafe:
        reason = _violated_by_main(facts.redefined, case_id, judge_id)
        findings.append(SafetyFinding(case_id=case_id, judge_id=judge_id, answer="blocks", reason=reason))
    return sorted(findings, key=lambda finding: _VIOLATIONS.index(finding.answer))


def _suite_answer(facts: Facts) -> SuiteAnswer | None:
    """Over all rounds; recorded trials, which cannot be made again, are held against the baseline's."""
    question, state, reruns = facts.question, facts.answer.suite, facts.reruns
    if state is None:
        return None
    if not facts.question.may_rerun:
        pairs = recorded_pairs(question)
        rounds, p_value = 0, recorded_chance(pairs)
        base, change = (sum((pair[side] for pair in pairs.values()), NONE) for side in (0, 1))
        key = "suite-worse-recorded" if state == "worse" else "suite-not-worse-recorded"
        why: str | None = None
    else:
        rounds = len(reruns.rounds)
        base, change = (
            sum((Count(row.passed, row.trials) for side in sides for row in side.values()), NONE)
            for sides in ([done.base for done in reruns.rounds], [done.change for done in reruns.rounds])
        )
        p_value = sign_flip(falls_of(reruns).values()) if base.trials else 1.0
        is_low_again = bool(rounds and not base.trials and not reruns.altered)
        key = f"suite-{state}" if state != "open" or not is_low_again else "suite-low-alone"
        why = "; ".join(reruns.altered.values()) or reruns.cut
        if not why and reruns.base_problem:
            why = f"the base could not be run: {reruns.base_problem}"
    reason = say(
        key,
        rounds or 1,
        rounds=rounds,
        base=base,
        change=change,
        chance=f"{round(1 / p_value):,}" if p_value else "more than can be counted",
        single="" if facts.answer.broken else say("no-single"),
        last=f"every one of main's last {runs}" if (runs := len(question.on_main)) > 1 else "main's last run",
        why=why or "it was not run again",
    )
    return SuiteAnswer(
        rounds=rounds,
        base=_counts(base),
        change=_counts(change),
        p_value=p_value,
        answer=state,
        reason=reason.rstrip(),
    )


def _counts(count: Count) -> TrialCounts:
    return TrialCounts(passed=count.passed, trials=count.trials)
