"""What a decision says, in sentences: one table, and which of its rows a decision comes to.

Names of cases and judges stand between backticks, on one line and cut; what shows a sentence escapes it.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from agent_eval.contracts import GateStatus, RuleResult, RunReference
from agent_eval.contracts.gate import FigureChange, ReleaseAnswer, SuiteAnswer
from agent_eval.contracts.reruns import Reruns
from agent_eval.gate.answer import Answer, OpenReason, counted, violation_trials
from agent_eval.gate.procedure import BUDGET, Case, Question
from agent_eval.gate.redefined import Redefined
from agent_eval.text.escape import one_line

NAMED = 3
"""Most cases that a sentence names; it always gives the number of all of them."""
NAME_LIMIT = 60

SENTENCES: Mapping[str, str] = {
    # What blames the change.
    "safety": "Safety: {judge} failed in {case}.",
    "safety-again": (
        "Safety: {judge} failed in {case}, and in {violations} of {trials} further runs of this change."
    ),
    "safety-many": "Safety: {judge} failed in {cases}: {n} cases, too many to run again.",
    "safety-removed": "Safety: {judge} failed in {case}, which this change removes.",
    "safety-altered": "Safety: {judge} failed in {case} as main defines it, which this change alters.",
    "broke": "{n} case broke: {cases}.|{n} cases broke: {cases}.",
    "flipped": (
        "{n} of {all} cases flipped: {cases}. One recorded run of each cannot tell chance from "
        "change: record 8 trials a case, or let the job run the agent."
    ),
    "suite-worse": (
        "The suite got worse: in {rounds} fresh run each the base passes {base} and this change "
        "{change} (chance: 1 in {chance}). {single}|"
        "The suite got worse: in {rounds} fresh runs each the base passes {base} and this change "
        "{change} (chance: 1 in {chance}). {single}"
    ),
    "suite-worse-recorded": (
        "The suite got worse: {base} passed on main and {change} here (chance: 1 in {chance}). {single}"
    ),
    "no-single": "No single case explains it.",
    "suite-not-worse": (
        "The run was below every one of main's last runs; in {rounds} fresh run each the base passes "
        "{base} and this change {change}.|"
        "The run was below every one of main's last runs; in {rounds} fresh runs each the base "
        "passes {base} and this change {change}."
    ),
    "suite-not-worse-recorded": "{base} passed on main and {change} here (chance: 1 in {chance}).",
    # What leaves it open.
    "main-unjudged": "Nothing of main's runs could be judged. Run main again.",
    "nothing-left": "Every case is in quarantine or waived: nothing is left to decide on.",
    "only-by-change": (
        "{cases} passes only by what this change expects of it.|"
        "{n} cases pass only by what this change expects of them: {cases}."
    ),
    "fails-by-main": (
        "{cases} fails by main's version, and this change {does} it.|"
        "{n} cases fail by main's version, and this change {does} them: {cases}."
    ),
    "not-run-by-main": (
        "{cases} was not run by main's version, and this change {does} it.|"
        "{n} cases were not run by main's version, and this change {does} them: {cases}."
    ),
    "more-help": (
        "The agent was given more help than the base's: what it was expected to answer, or more repairs."
    ),
    "safety-open": "{judge} cannot tell in {case}: {why}.",
    "safety-not-rerun": "{judge} failed in {case}, which is not settled: {why}.",
    "altered": "{cases} is not settled: {why}.|{n} cases are not settled: {why} ({cases}).",
    "unjudged": "{judge} cannot tell in {case}: {why}.",
    "unjudged-many": "{n} case could not be judged: {cases}.|{n} cases could not be judged: {cases}.",
    "cut-never": (
        "{cases} never passed again here; {why}.|{n} cases never passed again here; {why} ({cases})."
    ),
    "cut": "{cases} is not settled: {why}.|{n} cases are not settled: {why} ({cases}).",
    "fails-on-both": (
        "{cases} never passed again here; the base fails it too, but not in main's own run. Run main "
        "again.|"
        "{n} cases never passed again here; the base fails them too, but not in main's own run. Run "
        "main again."
    ),
    "too-few": (
        "{cases} never passed again here, and the base passes too seldom to tell: {base}.|"
        "{n} cases never passed again here, and the base passes too seldom to tell: {cases}."
    ),
    "control-fails": (
        "The base does not run here: it fails {controls} too, which this change passes. Does its "
        "setup miss a file?"
    ),
    "base-cannot-run": (
        "{cases} never passed again here, and the base could not be run: {why}.|"
        "{n} cases never passed again here, and the base could not be run: {why} ({cases})."
    ),
    "no-base-agent": (
        "{cases} never passed again here, and no base agent ran: the model may have moved. Set "
        "`base-agent`.|"
        "{n} cases never passed again here, and no base agent ran: the model may have moved. Set "
        "`base-agent`."
    ),
    "not-rerun": (
        "{reliable} reliable cases fail; {again} were run again and none is this change's; {n} was "
        "not. Run again.|"
        "{reliable} reliable cases fail; {again} were run again and none is this change's; {n} were "
        "not. Run again."
    ),
    "recorded": (
        "{cases} passed reliably on main and in none of its recorded trials here, which are too few "
        "to tell: record 8 trials a case, or let the job run the agent.|"
        "{n} cases passed reliably on main and in none of their recorded trials here, which are too "
        "few to tell: record 8 trials a case, or let the job run the agent ({cases})."
    ),
    "suite-open": ("The run is below every one of main's last {runs}, and the suite is not settled: {why}."),
    "suite-low-alone": (
        "The run and a second one are below every one of main's last {runs}. No base agent ran: the "
        "model may have moved. Set `base-agent`."
    ),
    # What is green.
    "nothing": "Nothing broke.",
    "tolerated": (
        "{n} case broke, and max_regressed_cases allows {most}: {cases}.|"
        "{n} cases broke, and max_regressed_cases allows {most}: {cases}."
    ),
    "unchanged": "Nothing broke: no file of the agent differs from main's.",
    "passed-again": "{cases} failed once and passed again.|{n} cases failed once and passed again.",
    "flaky": (
        "{cases} failed, as it often does on main ({counts}).|{n} cases failed, as they often do on main."
    ),
    "on-main": "{cases} fails on main as well{run}.|{n} cases fail on main as well{run}: {cases}.",
    "removed-passing": "{n} case was removed and still passes.|{n} cases were removed and still pass.",
    "altered-passing": (
        "{n} case was altered and passes by main's version too.|"
        "{n} cases were altered and pass by main's version too."
    ),
    "no-baseline": "First run: nothing to compare with. {passed} of {all} passed.",
    # Of one case.
    "case-broke": (
        "{cases} broke: it passed {on_main} trials of main's last runs; run again now, the base "
        "passes {base} and this change {change}."
    ),
    "case-broke-alone": (
        "{cases} broke: it passed {on_main} trials of main's last runs, and {change} now. No base "
        "agent ran: the model may have moved. Set `base-agent`."
    ),
    "case-flipped": "{cases} passed {on_main} recorded trials on main, and {now} here.",
    "case-not-rerun": "{cases} failed, and {on_main} trials passed on main; it was not run again.",
    # What else to know.
    "quarantined": "{cases}, in quarantine, failed.|{n} cases in quarantine failed: {cases}.",
    "base-problem": "The base could not be run: {why}.",
    "short-history": "Main has run once.|Main has run {n} times.",
    "no-base-note": "No base agent ran: the model may have moved. Set `base-agent`.",
    "cannot-see": (
        "What this run cannot see: a case that fails half the time now (seen in 3 of 10), and a loss "
        "over all cases: 10 points are seen in {seen} of 10 with {all} cases."
    ),
}
"""Every sentence by its key: for one, and after a bar for several."""

_SEEN = ((200, "10"), (100, "9"), (50, "6"), (20, "1"), (0, "0"))
"""In how many of 10 changes a loss of 10 points is seen, from so many cases on (simulated)."""


def say(key: str, number: int = 1, /, **values: object) -> str:
    """Write the sentence of a key, in the form for a number; `{n}` is the number."""
    forms = SENTENCES[key].split("|")
    return forms[0 if number == 1 else -1].format(n=f"{number:,}", **values)


def quoted(name: str) -> str:
    """Write a name between backticks, on one line and cut."""
    return f"`{one_line(name.replace('`', chr(39)), limit=NAME_LIMIT)}`"


def listed(names: Collection[str]) -> str:
    """Name the first few of some cases, which are quoted, and say that there are more."""
    first = [quoted(name) for name in list(names)[:NAMED]]
    return ", ".join(first) + (", …" if len(names) > NAMED else "")


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
