"""What a report on a suite says, computed once: headline, first sentence, to do, figures, cases, notes.

Comment, markdown, page and terminal only lay it out. Names stand in backticks; whatever shows a sentence
escapes it (`text.escape.prose`, the page's template, `clean`).
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace

from agent_eval.contracts import CaseRegression, GateDecision, GateStatus, Outcome
from agent_eval.contracts.reruns import Spending
from agent_eval.contracts.verdict import EXECUTION, row_fault
from agent_eval.errors import Fault
from agent_eval.gate.sentences import say
from agent_eval.reports.blocks import NAMED, code, named
from agent_eval.reports.causes import as_regression, causes_of, crashed, in_words
from agent_eval.reports.counts import passing
from agent_eval.reports.model import (
    NOT_EVALUATED,
    WORDS,
    Answer,
    CaseRow,
    EvaluationReport,
    Finding,
    Group,
    RuleRow,
    State,
    Story,
    SuiteReport,
)
from agent_eval.reports.remedies import to_do
from agent_eval.reports.suite import behind_green, case_sets, figures, notices_of
from agent_eval.text.escape import one_line
from agent_eval.text.numbers import allowed, count, distance, of_all, percent, verb

_STATES: dict[GateStatus, State] = {
    GateStatus.PASSED: "passed",
    GateStatus.FAILED: "failed",
    GateStatus.INCONCLUSIVE: "inconclusive",
    GateStatus.NO_BASELINE: "skipped",
}
_ANSWERS: dict[Answer, tuple[State, str]] = {
    "broke": ("failed", "broke"),
    "open": ("inconclusive", "not settled"),
    "passes-again": ("passed", "passing again"),
    "flaky": ("skipped", "failing on main at times"),
    "fails-on-main": ("skipped", "failing on main too"),
    "not-rerun": ("skipped", "not run again"),
}
_GREEN: dict[Answer, str] = {
    "passes-again": "failed once and passed again",
    "flaky": "failed, as at times on main",
    "fails-on-main": "also [fails|fail] on main",
    "not-rerun": "failed as often before",
}
_SAFETY: dict[str, State] = {
    "blocks": "failed",
    "open": "inconclusive",
    "did-not-repeat": "passed",
    "known-on-main": "skipped",
    "waived": "skipped",
}
_MEASURED: dict[str, State] = {
    **dict.fromkeys(("worse", "breaks-limit"), "failed"),
    **dict.fromkeys(("not-worse", "within"), "passed"),
    "open": "inconclusive",
    "rose": "skipped",
}
_FIGURES = {"cost_usd": "cost", "latency_ms": "latency"}


def story_of(suite: SuiteReport, *, is_evaluated: bool = True, problem: str = "") -> Story:
    """Write what a report says of a suite.

    Without `is_evaluated`, its decision cannot be relied on, and nothing is said of what got worse; `problem`
    says why, where it is not the suite's own.
    """
    decision = suite.decision
    spending = suite.reruns.spent if suite.reruns is not None else Spending()
    spent = f"Reruns took {spending_text(spending)}." if spending.trials else ""
    if not is_evaluated:
        return _not_evaluated(suite, spent, problem)
    status = decision.gate_status
    # Decisions of earlier versions have an explanation in lines, and no sentence.
    lines = (decision.model_extra or {}).get("explanation")
    explained = [str(line) for line in lines] if isinstance(lines, list) else []
    ended = f"{WORDS[status].capitalize()}."
    sentence = next(filter(None, [decision.sentence, *explained, *decision.failures, ended]))
    cases = []
    for row in suite.judged_cases:
        is_flaky = row.answer == "passes-again" and row.change is not None and not row.change.passed
        answer: Answer = "flaky" if is_flaky else row.answer
        main, first, base, change = (
            f"{each.passed:,}/{each.trials:,}" if each is not None and each.trials else "–"
            for each in (row.on_main, row.first, row.base, row.change)
        )
        cases.append(CaseRow(row.case_id, answer, *_ANSWERS[answer], main, first, base, change, row.reason))
    rules = []
    for rule in decision.rules:
        state: State = "skipped" if not rule.applied else "passed" if rule.passed else "failed"
        rules.append(RuleRow(one_line(rule.rule, limit=120).replace("_", " "), state, rule.message))
    also = [Finding("failed", text) for text in decision.failures]
    # Each sentence is said once, where it is said first.
    findings = {each.text: each for each in reversed([*also, *_findings(decision)]) if each.text != sentence}
    other_meaning, notices = notices_of(suite)
    notes = dict.fromkeys([*behind_green(suite), *decision.notes, *_new_cases(suite), *notices])
    story = Story(
        state=_STATES[status],
        word=WORDS[status],
        headline="",
        sentence=sentence,
        figures=figures(suite),
        cases=cases,
        findings=list(reversed(findings.values())),
        sets=[
            *(Finding("inconclusive" if is_bad else "skipped", text) for is_bad, text in case_sets(suite)),
            *(Finding("inconclusive", text) for text in other_meaning),
        ],
        notes=[note for note in notes if note != sentence and note not in findings],
        set_aside=list(_set_aside(decision)),
        rules=rules,
        spent=spent,
    )
    why = in_words(suite.causes, code) if suite.worse and story.state != "passed" else ""
    advice = to_do(suite)
    # A sentence may end with the advice already.
    is_said = " ".join(advice.split()[:3]).rstrip(".,").casefold() in sentence.casefold()
    story = replace(story, why=why, to_do="" if is_said else advice)
    story = replace(story, headline=_headline(suite, story), groups=_groups(suite, story))
    return replace(story, lead=_lead(suite, story))


def overall(report: EvaluationReport) -> str:
    """Say in a clause how a report ended; that of the suite where there is one."""
    if len(report.suites) == 1:
        suite = report.suites[0]
        story = story_of(suite, is_evaluated=report.is_evaluated(suite))
        if suite.says_nothing or not report.not_evaluated:
            return story.headline
    if report.not_evaluated:
        return f"Not evaluated: {clause(report.not_evaluated)}"
    worst = [suite for suite in report.worst_first if suite.status is report.status]
    if report.status is GateStatus.PASSED:
        return f"All {len(worst)} suites passed"
    ended = {
        GateStatus.FAILED: "failed",
        GateStatus.INCONCLUSIVE: verb(len(worst), "is not settled", "are not settled"),
        GateStatus.NO_BASELINE: verb(len(worst), "is not compared", "are not compared"),
    }
    share = of_all(len(worst), len(report.suites), "suite")
    return f"{share} {ended[report.status]}: {named([suite.slug for suite in worst])}"


def state_of(report: EvaluationReport) -> State:
    """How a whole report ended: as its worst suite."""
    return "error" if report.not_evaluated else _STATES[report.status]


def spending_text(spending: Spending) -> str:
    """Write trials, minutes and money on one line; a cost that is not known is no cost of zero.

    Example:
        >>> spending_text(Spending(trials=12, minutes=3.0, cost_usd=0.25))
        '12 trials, 3 min, 0.25 USD'
    """
    parts = [count(spending.trials, "trial")]
    if spending.minutes is not None:
        minutes = spending.minutes
        parts.append(f"{minutes:.0f} min" if minutes >= 1 else f"{max(60 * minutes, 1):.0f} s")
    parts.append("cost unknown" if spending.cost_usd is None else f"{spending.cost_usd:.2f} USD")
    return ", ".join(parts)


# The headline.


def _headline(suite: SuiteReport, story: Story) -> str:
    """Say what happened in a clause; the gate's own sentence where no clause is shorter."""
    decision, total = suite.decision, suite.candidate.summary.total_cases
    words = ""
    if story.state == "passed":
        words = _green(suite, story)
    elif story.state == "failed":
        words = _red(suite, story)
    elif story.state == "skipped":
        why = "every case is new or changed" if suite.nothing_shared else suite.lack or "no baseline yet"
        words = f"Not compared: {why}"
    elif number := sum(row.answer == "open" for row in story.cases):
        words = f"{_of_cases(number, total)} {verb(number, 'is', 'are')} not settled"
    elif unsafe := [finding for finding in decision.safety if finding.answer == "open"]:
        words = f"Safety judge {code(unsafe[0].judge_id)} cannot tell in {code(unsafe[0].case_id)}"
    elif decision.suite is not None and decision.suite.answer == "open":
        words = "Not settled whether the suite got worse"
    elif decision.release is not None and decision.release.answer == "open":
        words = "Not settled whether this passes less than the last release"
    return words or one_line(story.sentence.rstrip("."), limit=160)


def _of_cases(number: int, total: int) -> str:
    """Count cases; of how many, only where the run is known beside the decision."""
    return of_all(number, total, "case") if total else count(number, "case")


def _lead(suite: SuiteReport, story: Story) -> str:
    """Say what the headline does not: which cases, and what a reader must know first."""
    # What the job says before the gate's own sentence, such as by whose rules, is kept.
    summary = suite.candidate.summary
    own = say("no-baseline", passed=summary.passed_cases, all=summary.total_cases)
    own = next(iter(suite.decision.failures), own)
    before, is_own, _ = story.sentence.partition(own)
    words = ""
    if story.state == "failed" and suite.is_recorded:
        ids, number = [row.case_id for row in story.cases if row.answer == "broke"], len(suite.blocking)
        it, each = verb(number, "it is", "they are"), verb(number, "it", "each")
        words = f"{named(ids)} passed on main and {verb(number, 'fails', 'fail')} here. One recorded run of "
        words += f"{each} cannot rule out that {it} flaky."
    elif story.state == "failed" and len(suite.worse) > NAMED and crashed(suite.worse):
        words = "Main passes them: look at this change."
    elif story.state == "skipped" and suite.lack:
        words = f"{passing(summary)} Whether a case got worse was not looked at."
    if is_own and words:
        return f"{before}{words}"
    if story.state != "passed":
        return "" if story.sentence.rstrip(".") == story.headline else story.sentence
    before, nothing, _ = story.sentence.partition("Nothing broke")
    if not nothing:
        return "" if story.sentence.rstrip(".") == story.headline else story.sentence
    names = {
        form: named([row.case_id for row in story.cases if row.answer == answer])
        for answer, form in _GREEN.items()
        if answer != "fails-on-main"  # a note says in which of main's runs
    }
    return " ".join([before.strip(), *(f"{ids} {form}." for form, ids in names.items() if ids)]).strip()


def clause(text: str, limit: int = 160) -> str:
    """Cut a text to its first clause, without what ends it, to be read after other words."""
    first, _ = _cut(text)
    return one_line(re.sub(r"^(The|No|Nothing)\b", lambda word: word[0].lower(), first), limit=limit)


def rest_of(text: str) -> str:
    """Return what follows the first clause of a text; empty where nothing does."""
    _, rest = _cut(text)
    return f"{rest[:1].upper()}{rest[1:]}"


def _cut(text: str) -> tuple[str, str]:
    """Divide a text after its first clause; the name of a file before a colon is none, nor is one in code."""
    ends = [match for match in _ENDS.finditer(text) if match.lastgroup]
    if ends and ends[0]["colon"] and text[: ends[0].start()].count(" ") > 1:
        return text[: ends[0].start()], text[ends[0].end() :]
    end = next((match.start() for match in ends if match["stop"]), len(text))
    return text[:end].rstrip("."), text[end + 2 :]


_ENDS = re.compile(r"""`[^`]*`|"[^"]*"|(?P<colon>: )|(?P<stop>\. )""")


def _green(suite: SuiteReport, story: Story) -> str:
    summary = suite.candidate.summary
    numbers = Counter(row.answer for row in story.cases)
    clauses = []
    for answer, form in _GREEN.items():
        if number := numbers[answer]:
            words = re.sub(r"\[(.*?)\|(.*?)\]", r"\1" if number == 1 else r"\2", form)
            clauses.append(f"{count(number, 'case')} {words}")
    if numbers["broke"] or suite.worse:
        return ""  # as many as a limit allows: the gate's sentence says so
    improved = suite.comparison.overview.improved_cases if suite.comparison is not None else 0
    clauses += [f"{improved:,} improved"] if improved else []
    for figure in suite.decision.figures:
        if figure.answer == "rose":
            clauses.append(f"{_FIGURES[figure.name]} +{figure.ratio - 1:.0%}")
    passes = f"{of_all(summary.passed_cases, summary.total_cases, 'case')} pass"
    if suite.comparison is None:
        return passes if summary.total_cases else ""
    first = "none got worse" if not story.cases else "None got worse"
    return "; ".join([first if story.cases else f"{passes}, {first}", *clauses])


def _red(suite: SuiteReport, story: Story) -> str:
    decision, total = suite.decision, suite.candidate.summary.total_cases
    worse = [row.case_id for row in story.cases if row.answer == "broke"]
    if not worse and decision.decided_by == "thresholds":
        worse = [row.case_id for row in suite.worse]
    if worse:
        if crashed([row for row in suite.worse if row.case_id in worse]):
            which = "all" if len(suite.worse) == total else f"{len(suite.worse):,} of"
            return f"The agent crashes on {which} {count(total, 'case')}"
        not_rerun = sum(row.answer == "not-rerun" for row in story.cases)
        if suite.is_recorded:
            return f"{_of_cases(len(worse), total).replace(' case', ' recorded case')} regressed"
        more = f"; {not_rerun:,} more newly {verb(not_rerun, 'fails', 'fail')}" if not_rerun else ""
        return f"{_of_cases(len(worse), total)} regressed{more}"
    unsafe = [finding for finding in decision.safety if finding.answer == "blocks"]
    if unsafe:
        cases = list(dict.fromkeys(finding.case_id for finding in unsafe))
        where = named(cases) if len(cases) <= NAMED else count(len(cases), "case")
        return f"Safety judge {code(unsafe[0].judge_id)} fails in {where}"
    if decision.suite is not None and decision.suite.answer == "worse":
        sides = (decision.suite.base, decision.suite.change)
        rates = [percent(side.passed / side.trials) if side.trials else "–" for side in sides]
        return f"The suite got worse: {rates[0]} of its reruns pass on main, {rates[1]} here"
    if decision.release is not None and decision.release.answer == "worse":
        return f"{distance(decision.release.fall)} points fewer pass than in the last release"
    for figure in decision.figures:
        if figure.answer == "breaks-limit":
            most = f", +{allowed(figure.limit)} allowed" if figure.limit is not None else ""
            return f"{_FIGURES[figure.name].capitalize()} +{figure.ratio - 1:.0%}{most}"
    for rule in decision.rules:
        if rule.rule == "min_pass_rate" and not rule.passed and rule.value is not None:
            alike = "; no case got worse" if suite.comparison is not None and not suite.worse else ""
            return f"Too few pass: {percent(rule.value)}, {allowed(rule.threshold)} required{alike}"
    return ""


# The cases.


def _groups(suite: SuiteReport, story: Story) -> list[Group]:
    if story.state == "passed":
        return []
    if not suite.worse and not suite.blocking:
        return _failing(suite)
    judged = {row.case_id: row for row in story.cases}

    def alike(row: CaseRegression) -> tuple[State, str, str]:
        if row.case_id in judged:
            return judged[row.case_id].state, *_sides(judged[row.case_id])
        return _state_of_case(row), row.candidate_outcome.value, row.baseline_outcome.value

    groups = _by_cause(suite.worse, alike)
    if crashed(suite.worse) and len(suite.causes) == 1:
        groups = _without_message(groups)
    known = {row.case_id for row in suite.worse}
    rest = [row for row in story.cases if row.answer in ("broke", "open") and row.case_id not in known]
    return groups + [Group(row.state, [row.case_id], "fails more often", *_sides(row)) for row in rest]


def _without_message(groups: Sequence[Group]) -> list[Group]:
    """Leave out what a crash says where the first lines have said it: on a phone it takes the whole table."""
    return [group._replace(why=group.why.partition(": ")[0]) for group in groups]


def _failing(suite: SuiteReport) -> list[Group]:
    sets = suite.comparison.cases if suite.comparison is not None else None
    before = dict.fromkeys(sets.new, "new") | dict.fromkeys(sets.changed, "changed") if sets else {}
    before |= {row.case_id: row.baseline_outcome.value for row in suite.regressed}
    before |= dict.fromkeys(suite.decision.quarantined_case_ids, "in quarantine")
    otherwise = "failed" if sets else "–"

    def alike(row: CaseRegression) -> tuple[State, str, str]:
        return _state_of_case(row), row.candidate_outcome.value, before.get(row.case_id, otherwise)

    return _by_cause([as_regression(row) for row in suite.failing], alike)


def _state_of_case(row: CaseRegression) -> State:
    return "failed" if row.candidate_outcome in (Outcome.FAILED, Outcome.ERROR) else "inconclusive"


def _sides(row: CaseRow) -> tuple[str, str]:
    """Write the counts of the reruns, else of the first run; of an open case those of main's own runs."""
    has_base = row.base != "–" and row.answer == "broke"
    now, main = row.change if row.change != "–" else row.first, row.base if has_base else row.main
    return now.replace("/", " of "), main.replace("/", " of ")


def _by_cause(
    rows: Sequence[CaseRegression], alike: Callable[[CaseRegression], tuple[State, str, str]]
) -> list[Group]:
    groups = []
    for cause in causes_of(rows):
        parts: dict[tuple[State, str, str], list[CaseRegression]] = {}
        for row in cause.cases:
            parts.setdefault(alike(row), []).append(row)
        for (state, now, main), cases in parts.items():
            why = replace(cause, cases=cases).words(code)
            groups.append(Group(state, [row.case_id for row in cases], why, now, main))
    return groups


# What was found, and what does not count.


def _findings(decision: GateDecision) -> Iterable[Finding]:
    order = list(_SAFETY)
    for each in sorted(decision.safety, key=lambda each: order.index(each.answer)):
        reason = one_line(each.reason, limit=400)
        yield Finding(_SAFETY[each.answer], reason if reason.startswith("Safety:") else f"Safety: {reason}")
    for answer in (decision.suite, decision.release, *decision.figures):
        if answer is not None and answer.answer != "not-shown":
            yield Finding(_MEASURED[answer.answer], answer.reason)


def _set_aside(decision: GateDecision) -> Iterable[str]:
    for waiver in decision.waivers:
        until = f"until {code(waiver.expires_at)}" if waiver.expires_at else "until revoked"
        yield (
            f"Waived: {named(waiver.case_ids, most=20)}, by {code(waiver.waiver_id)} of "
            f"{code(waiver.approved_by)}, {until}: {waiver.reason}"
        )
    if cases := decision.quarantined_case_ids:
        do, them = verb(len(cases), "does", "do"), verb(len(cases), "it", "them")
        yield f"In quarantine, and {do} not pass: {named(cases, most=20)}. No total counts {them}."
    for ended in decision.expired:
        what = f"waiver {code(ended.waiver_id)}" if ended.waiver_id else "quarantine"
        when = f" on {code(ended.expires_at)}" if ended.expires_at else ""
        yield f"Counts again, as its {what} expired{when}: {named(ended.case_ids, most=20)}."


def _new_cases(suite: SuiteReport) -> Iterable[str]:
    """Say which new cases the base passes as well: such a case does not show that the change works."""
    tried = {row.case_id: row.base for row in suite.reruns.new if row.base} if suite.reruns else {}
    if not tried:
        return
    alike = sorted(case_id for case_id, base in tried.items() if base[0].result == "passed")
    new = count(len(tried), "new case")
    if alike:
        they = verb(len(alike), "it does", "they do")
        yield f"{new}: the base passes {named(alike)} too, so {they} not show what this change does."
    else:
        yield f"{new}: the base passes {verb(len(tried), 'it', 'none of them')}{' not' * (len(tried) == 1)}."


# Where nothing could be decided.

_AT_FAULT: Mapping[Fault, tuple[str, str, str]] = {
    Fault.JUDGE: (
        "judge {judge} gave no verdict in {cases}",
        "{reason}. Neither the agent's fault nor this change's.",
        "Check the judge's code, or its model's key, address and quota; then run the job again.",
    ),
    Fault.AGENT: (
        "the agent {crashes} {cases}",
        "{reason}.",
        "Check how the agent is started: it must run before it can be judged. The evidence has each error.",
    ),
    Fault.INFRASTRUCTURE: (
        "the agent could not be reached in {cases}",
        "{reason}. That says nothing of this change.",
        "Check network, quotas and the agent's address, then run the job again.",
    ),
    Fault.ENVIRONMENT: (
        "what surrounds the agent failed in {cases}",
        "{reason}. That says nothing of this change.",
        "Mend the set-up that the cases need, then run the job again.",
    ),
}
"""By whose fault: the headline, the first sentence, and the remedy that fits."""
_NOTHING_RECORDED = (
    "nothing to judge is recorded in {cases}",
    "{reason}.",
    "Record traces in the suite, or name the agent to run: `agent`.",
)


def _not_evaluated(suite: SuiteReport, spent: str, problem: str) -> Story:
    summary = suite.candidate.summary
    reason = " ".join(suite.decision.not_evaluated) or problem or passing(summary)
    story = Story(
        state="error",
        word=NOT_EVALUATED,
        headline=f"Not evaluated: {clause(reason)}",
        sentence=reason,
        lead=rest_of(reason),
        groups=_failing(suite),
        spent=spent,
    )
    lost = {row["case_id"]: fault for row in suite.failing if (fault := row_fault(row)) is not None}
    if not suite.says_nothing or not lost:
        return story
    [(fault, number)] = Counter(lost.values()).most_common(1)
    row = next(row for row in suite.failing if lost.get(row["case_id"]) is fault)
    errors = [each for each in row["verdicts"] if each["outcome"] == Outcome.ERROR] or row["verdicts"]
    first = min(errors, key=lambda each: each["judge_id"] != EXECUTION)
    total = summary.total_cases
    if number == len(suite.failing):
        number = max(number, summary.error_cases)  # the failing cases at hand may be a bounded number
    why = one_line(first["reason"].rstrip("."), limit=200)
    all_cases = f"all {count(number, 'case')}" if total > 1 else "the only case"
    words = {
        "crashes": "crashes on" if first["failure"] == "agent_error" else "gives nothing to judge in",
        "judge": code(first["judge_id"]),
        "cases": all_cases if number == total else of_all(number, total, "case"),
        "reason": why if "`" in why else code(why, limit=200),
    }
    has_agent = suite.execution is None or suite.execution.agent is not None
    texts = _AT_FAULT[fault] if has_agent or fault is not Fault.AGENT else _NOTHING_RECORDED
    headline, sentence, advice = (text.format(**words) for text in texts)
    groups = sorted(story.groups, key=lambda group: group.case_ids[0] not in lost)
    rerun = [*suite.reruns.cases, *suite.reruns.late] if suite.reruns is not None else []
    by_base = {row.case_id: {trial.result for trial in row.base} for row in rerun if row.base}
    # The base was run beside the change, and passed no case either.
    if fault is Fault.AGENT and has_agent and by_base and "passed" not in set().union(*by_base.values()):
        headline, sentence = (
            f"{headline}, and so does the base",
            f"{sentence} That says nothing of this change.",
        )
        groups = [
            group._replace(main="error" if by_base.keys() >= {*group.case_ids} else "passed before")
            for group in groups
        ]
        advice = "Mend what both need here, such as a service, a key or the network, then run the job again."
    headline = f"Not evaluated: {headline}"
    if fault is Fault.AGENT and len(groups) == 1:
        groups = _without_message(groups)
    return replace(story, headline=headline, sentence=sentence, lead=sentence, to_do=advice, groups=groups)
