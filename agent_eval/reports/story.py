"""What a report on a suite says, as plain sentences: how it ended, what to do, what was found of each case.

Comment, page, terminal and log show the same story and only lay it out. Names stand in backticks; whatever
shows a sentence escapes it (`text.escape.prose`, the page's template, `clean`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal, NamedTuple

from agent_eval.contracts import GateDecision, GateStatus, Outcome
from agent_eval.contracts.gate import CaseAnswer, JudgedCase
from agent_eval.contracts.reruns import Reruns, Spending, TrialCounts
from agent_eval.reports.causes import are_all_of, in_words
from agent_eval.reports.counts import passing
from agent_eval.reports.earlier import sentence_of_earlier_version
from agent_eval.reports.model import EvaluationReport, SuiteReport
from agent_eval.text.escape import one_line
from agent_eval.text.numbers import count, of_all, verb

NAMED = 3
"""Most cases that a sentence names."""
_NAME_LIMIT = 120

State = Literal["passed", "failed", "inconclusive", "error", "skipped"]
"""How a line of a report is coloured; its words and its sign say the same without colour."""

SIGNS: dict[State, str] = {
    "passed": "✅",
    "failed": "❌",
    "inconclusive": "⚠️",
    "error": "🛑",
    "skipped": "➖",
}
WORDS = {
    GateStatus.PASSED: "passed",
    GateStatus.FAILED: "failed",
    GateStatus.INCONCLUSIVE: "not settled",
    GateStatus.NO_BASELINE: "no baseline",
}
NOT_EVALUATED = "not evaluated"

_STATES: dict[GateStatus, State] = {
    GateStatus.PASSED: "passed",
    GateStatus.FAILED: "failed",
    GateStatus.INCONCLUSIVE: "inconclusive",
    GateStatus.NO_BASELINE: "skipped",
}
_ANSWERS: dict[CaseAnswer, tuple[State, str]] = {
    "broke": ("failed", "broke"),
    "open": ("inconclusive", "not settled"),
    "passes-again": ("passed", "passing again"),
    "fails-on-main": ("skipped", "failing on main too"),
    "not-rerun": ("skipped", "not run again"),
}
_SAFETY: dict[str, State] = {
    "blocks": "failed",
    "open": "inconclusive",
    "did-not-repeat": "passed",
    "known-on-main": "skipped",
    "waived": "skipped",
}


class Finding(NamedTuple):
    """A sentence about something that was found or measured."""

    state: State
    text: str


class CaseRow(NamedTuple):
    """A case that newly fails: its answer, and its counts, such as `8/8`; `–` where nothing ran."""

    case_id: str
    answer: CaseAnswer
    state: State
    words: str
    main: str
    first: str
    base: str
    change: str
    reason: str


class RuleRow(NamedTuple):
    """A limit: whether it holds, and the sentence that says so."""

    name: str
    state: State
    text: str


@dataclass(frozen=True, kw_only=True)
class Story:
    """What is said of one suite.

    Attributes:
        state: How it ended; `error` where nothing could be decided.
        word: The same in a word or two.
        sentence: How it ended and why: the first line everywhere.
        why: The causes of what broke, in words; empty for none.
        to_do: What to do; empty for nothing.
        cases: Cases that newly fail, those that block first.
        findings: Safety judges, the whole suite's reruns, a release's margin, cost and time.
        set_aside: Waivers, quarantine, and what of them has expired.
    """

    state: State
    word: str
    sentence: str
    why: str = ""
    to_do: str = ""
    cases: Sequence[CaseRow] = ()
    findings: Sequence[Finding] = ()
    notes: Sequence[str] = ()
    set_aside: Sequence[str] = ()
    rules: Sequence[RuleRow] = field(default_factory=list)

    @property
    def sign(self) -> str:
        """A sign for the state."""
        return SIGNS[self.state]

    @property
    def blocking(self) -> list[CaseRow]:
        """The cases that broke, and those that are not settled."""
        return [row for row in self.cases if row.answer in ("broke", "open")]

    @property
    def others(self) -> dict[str, list[CaseRow]]:
        """The cases that newly fail and do not block, by their answer."""
        kinds: dict[str, list[CaseRow]] = {}
        for row in self.cases:
            if row.answer not in ("broke", "open"):
                kinds.setdefault(row.words, []).append(row)
        return kinds


def code(name: str, *, limit: int = _NAME_LIMIT) -> str:
    """Set a name in backticks, whatever it holds, for a sentence that is escaped where it is shown.

    Example:
        >>> code("a`b"), code("")
        ('`a´b`', '`∅`')
    """
    return f"`{one_line(name, limit=limit).replace('`', '´').strip() or '∅'}`"


def named(case_ids: Sequence[str], *, most: int = NAMED) -> str:
    """List the first ids as code and the number of the others.

    Example:
        >>> named(["a", "b"]), named(["a", "b", "c", "d"], most=2)
        ('`a` and `b`', '`a`, `b` and 2 more')
    """
    more = len(case_ids) - most
    names = [code(case_id) for case_id in case_ids[:most]]
    if more > 0:
        return f"{', '.join(names)} and {more:,} more"
    return " and ".join(filter(None, [", ".join(names[:-1]), *names[-1:]]))


def story_of(suite: SuiteReport, *, is_evaluated: bool = True) -> Story:
    """Write what a report says of a suite.

    Without `is_evaluated`, its decision cannot be relied on, and nothing is said of what got worse.
    """
    decision = suite.decision
    if not is_evaluated:
        why = " ".join(decision.not_evaluated) or passing(suite.candidate.summary)
        return Story(state="error", word=NOT_EVALUATED, sentence=why, notes=list(_reruns_took(suite.reruns)))
    sentence = decision.sentence or sentence_of_earlier_version(decision)
    also = [Finding("failed", text) for text in decision.failures]
    # Each sentence is said once, where it is said first.
    findings = _once([*also, *_findings(decision)], {sentence})
    notes = [*decision.notes, *_new_cases(suite), *_reruns_took(suite.reruns)]
    story = Story(
        state=_STATES[decision.gate_status],
        word=WORDS[decision.gate_status],
        sentence=sentence,
        cases=[_case_row(row, is_old=not decision.sentence) for row in suite.judged_cases],
        findings=findings,
        notes=[note for note in notes if note not in {sentence, *(each.text for each in findings)}],
        set_aside=list(_set_aside(decision)),
        rules=[
            RuleRow(
                one_line(rule.rule, limit=_NAME_LIMIT).replace("_", " "),
                "skipped" if not rule.applied else "passed" if rule.passed else "failed",
                rule.message,
            )
            for rule in decision.rules
        ],
    )
    why = in_words(suite.causes, code) if suite.worse and story.state != "passed" else ""
    to_do = _to_do(suite, story)
    return replace(story, why=why, to_do="" if _is_said(to_do, sentence) else to_do)


def _once(findings: Sequence[Finding], known: set[str]) -> list[Finding]:
    by_text: dict[str, Finding] = {}
    for finding in findings:
        if finding.text not in known:
            by_text.setdefault(finding.text, finding)
    return list(by_text.values())


def overall(report: EvaluationReport) -> str:
    """Say in one sentence how a report ended; that of the suite where there is one."""
    if report.not_evaluated:
        return f"Not evaluated: {report.not_evaluated}"
    if len(report.suites) == 1:
        return story_of(report.suites[0]).sentence
    worst = [suite for suite in report.suites if suite.status is report.status]
    if report.status is GateStatus.PASSED:
        return f"All {len(worst)} suites passed."
    which = named([suite.slug for suite in worst])
    share = of_all(len(worst), len(report.suites), "suite")
    ended = {
        GateStatus.FAILED: "failed",
        GateStatus.INCONCLUSIVE: verb(len(worst), "is not settled", "are not settled"),
        GateStatus.NO_BASELINE: verb(len(worst), "has no baseline", "have no baseline"),
    }
    return f"{share} {ended[report.status]}: {which}."


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
        parts.append(f"{spending.minutes:.0f} min" if spending.minutes >= 1 else "under a minute")
    parts.append("cost unknown" if spending.cost_usd is None else f"{spending.cost_usd:.2f} USD")
    return ", ".join(parts)


def _case_row(row: JudgedCase, *, is_old: bool) -> CaseRow:
    state, words = _ANSWERS[row.answer]
    if is_old and row.answer == "fails-on-main":
        words = "failing on the base too"
    main, first, base, change = map(_counts, (row.on_main, row.first, row.base, row.change))
    return CaseRow(row.case_id, row.answer, state, words, main, first, base, change, row.reason)


def _counts(counts: TrialCounts | None) -> str:
    return f"{counts.passed:,}/{counts.trials:,}" if counts is not None and counts.trials else "–"


def _findings(decision: GateDecision) -> Iterable[Finding]:
    order = list(_SAFETY)
    for each in sorted(decision.safety, key=lambda each: order.index(each.answer)):
        reason = one_line(each.reason, limit=400)
        text = reason if reason.startswith("Safety:") else f"Safety: {reason}"
        yield Finding(_SAFETY[each.answer], text)
    if decision.suite is not None:
        states: dict[str, State] = {"worse": "failed", "not-worse": "passed", "open": "inconclusive"}
        yield Finding(states[decision.suite.answer], decision.suite.reason)
    if decision.release is not None:
        states = {"worse": "failed", "within": "passed", "open": "inconclusive"}
        yield Finding(states[decision.release.answer], decision.release.reason)
    for figure in decision.figures:
        if figure.answer != "not-shown":
            states = {"breaks-limit": "failed", "open": "inconclusive", "rose": "skipped"}
            yield Finding(states[figure.answer], figure.reason)


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


def _reruns_took(reruns: Reruns | None) -> Iterable[str]:
    if reruns is None or not reruns.spent.trials:
        return
    yield f"Reruns took {spending_text(reruns.spent)}."


# What to do.


def _is_said(to_do: str, sentence: str) -> bool:
    """Whether a sentence ends with the same advice already."""
    begin = " ".join(to_do.split()[:3]).rstrip(".,").casefold()
    return bool(begin) and begin in sentence.casefold()


def _to_do(suite: SuiteReport, story: Story) -> str:
    if story.state == "failed":
        return _to_do_when_failed(suite, story)
    if story.state == "inconclusive":
        return _to_do_when_open(suite, story)
    if story.state == "skipped":
        if suite.nothing_shared:
            return "Check that every case is meant to change: once merged, this run is the baseline."
        return "Nothing: once this has run on main, changes are compared with that run."
    return ""


def _to_do_when_failed(suite: SuiteReport, story: Story) -> str:
    decision = suite.decision
    if suite.worse:
        if are_all_of(suite.causes, "service"):
            return "Check network, quotas and the machine, then run again."
        if are_all_of(suite.causes, "judge"):
            return "Mend the judge, then run again: what the agent did was not judged."
        if all(row.candidate_outcome is Outcome.ERROR for row in suite.worse):
            again = "with the command below" if suite.suite_path else "(`--case`)"
            return f"Repeat one of them {again}, and read what the agent writes to stderr."
        number = len(suite.worse)
        what = verb(number, "it", "them")
        if number > NAMED:
            what = "the cause" if len(suite.causes) == 1 else f"the {len(suite.causes):,} causes"
        repeats = ", and the command that repeats it, are" if suite.suite_path else " is"
        return (
            f"Fix {what}: what changed{repeats} below. Is the new behaviour right? "
            "Change what the case expects, or have it waived."
        )
    blocking = [finding for finding in decision.safety if finding.answer == "blocks"]
    if blocking:
        return (
            f"Read what the agent did in {code(blocking[0].case_id)}. If that is right, a waiver that names "
            "case and judge lets it pass."
        )
    if decision.suite is not None and decision.suite.answer == "worse":
        return "Look at what touches every case a little: model, prompt, tools. What fails now is below."
    if decision.release is not None and decision.release.answer == "worse":
        return "Look at what was merged since the last release: `agent-eval drift` shows since which run."
    if any(figure.answer == "breaks-limit" for figure in decision.figures):
        return "Find what takes longer or costs more, or change the limit in the policy."
    broken = [rule.rule for rule in decision.rules if rule.applied and not rule.passed]
    if story.blocking:
        return "Fix the cases below."
    limit = code(broken[0]) if broken else "the limit"
    return f"Fix the failing cases below, or change {limit}."


def _to_do_when_open(suite: SuiteReport, story: Story) -> str:
    """Choose the remedy by what keeps the answer open; the record of the reruns knows."""
    decision, reruns = suite.decision, suite.reruns
    if not decision.sentence:
        return ""  # an earlier version asked for what the gate no longer has
    if story.blocking or (decision.suite is not None and decision.suite.answer == "open"):
        return _to_do_about_reruns(reruns, [row.case_id for row in story.blocking])
    if unsafe := [finding for finding in decision.safety if finding.answer == "open"]:
        return f"Make {code(unsafe[0].judge_id)} able to judge what the agent did, then run the job again."
    if decision.release is not None and decision.release.answer == "open":
        return "Run the release with `trials: 4`, or with more cases."
    if any(figure.answer == "open" for figure in decision.figures):
        return "Run the job again."
    return "Read the cases named here: who merges this accepts what it expects of them."


def _to_do_about_reruns(reruns: Reruns | None, case_ids: Sequence[str]) -> str:
    if reruns is None:
        return "Run main again, then this change."
    if reruns.altered:
        return "Give each side a set-up of its own: nothing that one installs or writes may reach the other."
    if reruns.base_problem is not None:
        return "Mend the set-up that the base needs on main, then run this again."
    if reruns.cut is not None:
        return "Raise `limits.run.seconds` or `max-run-cost`, or run the job again."
    if reruns.base_runs == "none":
        return "Set `base-agent`, so that the base runs beside this change."
    never = {row.case_id for row in (*reruns.cases, *reruns.late)}
    if case_ids and never.isdisjoint(case_ids):
        return "Run the job again."
    return "Run main again, then this change: what fails there too is not this change's."


def answers(story: Story) -> Mapping[str, int]:
    """Count the cases that newly fail by their answer, in words."""
    return Counter(row.words for row in story.cases)
