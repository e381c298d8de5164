"""The content of a report, and the story that is made of it, as plain values which the renderers read."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Literal, NamedTuple

from agent_eval.contracts import (
    CaseRegression,
    CaseResultRow,
    Comparison,
    ExecutionConfig,
    GateDecision,
    GateStatus,
    RunReference,
    Thresholds,
)
from agent_eval.contracts.gate import CaseAnswer, JudgedCase
from agent_eval.contracts.history import RunRecord
from agent_eval.contracts.reruns import Reruns
from agent_eval.reports.causes import Cause, causes_of
from agent_eval.text.escape import shell_word

REPRODUCE = "agent-eval run --suite {suite} --case {case} --out reproduce"
"""The command that judges a case again on a developer's machine."""

UNASKED = "no baseline was looked for"
"""Why a suite is not compared where the settings ask for no comparison."""

_ANSWERS: list[CaseAnswer] = ["broke", "open", "passes-again", "fails-on-main", "not-rerun"]
# Worst first.
_SEVERITY = (GateStatus.FAILED, GateStatus.INCONCLUSIVE, GateStatus.NO_BASELINE, GateStatus.PASSED)


@dataclass(frozen=True, kw_only=True)
class BaselineInfo:
    """The earlier run that the candidate was compared with, and how it was found.

    Args:
        how: A noun: `merge base`, `newest on main`, `path`.
        run_id: The CI run that published it.
        age: Time since then, in words.
    """

    how: str
    sha: str | None = None
    branch: str | None = None
    run_id: str | None = None
    age: str | None = None


@dataclass(frozen=True, kw_only=True)
class SuiteHistory:
    """The runs of the base branch before a run, the newest first, and what the run itself counted."""

    own: RunRecord
    earlier: Sequence[RunRecord]
    branch: str = "the base branch"


@dataclass(frozen=True, kw_only=True)
class SuiteReport:
    """The outcome of one suite.

    Args:
        slug: Short name, unique in the evaluation; hostile text like every other.
        suite_path: As given by the user, for the command that reproduces a case.
        comparison: None without a baseline.
        lack: Why it could not be compared, as a clause; empty where this is the first run.
        baseline_note: Why there is no baseline, or which runs were skipped; may be empty.
        failing: The candidate's cases that did not pass, in suite order; a bounded number is enough. Shown
            where there is no comparison, and to tell failing new and changed cases from passing ones.
        execution: How the run was made, and how much was redacted in it; None where that is not known.
        replay: The report of a replay of the run, as JSON; None without one.
        reruns: The record of what was run again; None where nothing was.
        not_evaluated: Whether none of its cases could be judged; needless where the decision says so.
    """

    slug: str
    suite_path: str
    decision: GateDecision
    candidate: RunReference
    comparison: Comparison | None = None
    baseline: BaselineInfo | None = None
    lack: str = ""
    baseline_note: str = ""
    failing: Sequence[CaseResultRow] = ()
    execution: ExecutionConfig | None = None
    replay: Mapping[str, Any] | None = None
    history: SuiteHistory | None = None
    reruns: Reruns | None = None
    not_evaluated: bool = False

    @property
    def says_nothing(self) -> bool:
        """Whether the run of this suite tells nothing, so that its decision cannot be relied on."""
        return self.not_evaluated or bool(self.decision.not_evaluated)

    @property
    def status(self) -> GateStatus:
        """The status of the gate's decision on this suite."""
        return self.decision.gate_status

    @property
    def is_recorded(self) -> bool:
        """Whether all that blocks are cases that broke by one recorded trace each, never run again."""
        broke = [row for row in self.decision.cases if row.answer == "broke"]
        single = [row for row in broke if row.change is None and row.first and row.first.trials == 1]
        is_unsafe = any(finding.answer == "blocks" for finding in self.decision.safety)
        return bool(broke) and len(single) == len(broke) and not is_unsafe

    @property
    def nothing_shared(self) -> bool:
        """Whether there is a baseline, and every case is new or changed since."""
        return self.comparison is not None and not self.comparison.overview.compared_cases

    @cached_property
    def causes(self) -> list[Cause]:
        """Why the cases that count regressed, the most frequent cause first."""
        return causes_of(self.worse)

    @cached_property
    def judged_cases(self) -> list[JudgedCase]:
        """The cases that newly fail, those that block first."""
        return sorted(self.decision.cases, key=lambda row: _ANSWERS.index(row.answer))

    @property
    def blocking(self) -> list[JudgedCase]:
        """The cases that broke, and those that are not settled."""
        return [row for row in self.judged_cases if row.answer in ("broke", "open")]

    @cached_property
    def excused(self) -> frozenset[str]:
        """Ids of the regressed cases that do not count against the change."""
        decision = self.decision
        aside: set[str] = {*decision.waived_case_ids, *decision.quarantined_case_ids}
        answers: dict[str, CaseAnswer] = {row.case_id: row.answer for row in self.judged_cases}
        answers |= {each.case_id: "broke" for each in decision.safety if each.answer in ("blocks", "open")}
        # Once enough cases broke, the others are not run again; they are no less to be looked at.
        counts = {"broke", "open", *(["not-rerun"] if self.status is GateStatus.FAILED else [])}
        aside |= {name for name, answer in answers.items() if answer not in counts}
        if decision.decided_by == "policy" and self.comparison is not None:
            # Those of which the policy says nothing fail at times on main as well.
            aside |= {name for name in self.comparison.regressed_case_ids if name not in answers}
        return frozenset(aside)

    @cached_property
    def worse(self) -> list[CaseRegression]:
        """The regressed cases that count, without those that are excused."""
        return [row for row in self.regressed if row.case_id not in self.excused]

    @cached_property
    def regressed(self) -> list[CaseRegression]:
        """The regressed cases: those that broke first, then those that are open; excused ones last."""
        rows = self.comparison.case_regressions if self.comparison is not None else []
        places = {row.case_id: place for place, row in enumerate(self.judged_cases)}
        return sorted(
            (row for row in rows if row.regressed),
            key=lambda row: (row.case_id in self.excused, places.get(row.case_id, len(places))),
        )


@dataclass(frozen=True, kw_only=True)
class RuleChanges:
    """What a change makes of the rules by which later changes are judged; none of it decided on itself.

    Attributes:
        sentences: What it says otherwise, and what its own rules would have decided.
        diffs: The files that it alters, by path, each as the lines of a unified diff.
    """

    sentences: Sequence[str] = ()
    diffs: Sequence[tuple[str, Sequence[str]]] = ()


@dataclass(frozen=True, kw_only=True)
class EvaluationReport:
    """A whole evaluation: one suite or several, and where to find more.

    Args:
        title: The heading, `title`.
        comment_id: Tells several evaluations of one change apart.
        suites: At least one.
        run_url: The CI run, None outside CI.
        full_report: What the platform calls the place of the full report.
        evidence_name: Name of the artifact, or path of the archive, that holds the evidence.
        html_name: Name of the artifact, or path of the file, that is the HTML report; None without one.
        warnings: Sentences on what could not be done (`The token may not write comments …`); words in
            backticks are shown as code.
        rule_changes: Differences of policy, waivers and settings from the base branch.
        reproduce: Shell command that judges one case again; `{suite}` and `{case}` are replaced by quoted
            words. Empty: no command is shown.
        not_evaluated: Why the decision cannot be relied on, shown in its place in the heading. Empty when
            everything was evaluated.
        boxes: Whether the report is read where `> [!WARNING]` is shown as a box.
    """

    title: str
    suites: Sequence[SuiteReport]
    comment_id: str = ""
    run_url: str | None = None
    full_report: str = "full report"
    head_sha: str | None = None
    evidence_name: str | None = None
    evidence_url: str | None = None
    html_name: str | None = None
    warnings: Sequence[str] = field(default=())
    rule_changes: RuleChanges = RuleChanges()
    reproduce: str = REPRODUCE
    tool_version: str = ""
    not_evaluated: str = ""
    boxes: bool = True

    @property
    def status(self) -> GateStatus:
        """The worst of the suites' decisions."""
        return self.worst_first[0].status

    def is_evaluated(self, suite: SuiteReport) -> bool:
        """Whether the decision on a suite can be relied on: of several suites one alone may say nothing."""
        if suite.says_nothing:
            return False
        # Where no suite is to blame, as with a baseline that cannot be read, it is true of all.
        return not self.not_evaluated or any(other.says_nothing for other in self.suites)

    @property
    def worst_first(self) -> list[SuiteReport]:
        """The suites, those that need attention first, otherwise in the order given."""
        return sorted(self.suites, key=lambda suite: _SEVERITY.index(suite.status))

    def reproduce_command(self, suite: SuiteReport, case_id: str) -> str:
        """Write the shell command that judges `case_id` again; empty when there is none.

        A program cannot be given an id that holds NUL.
        """
        if "\0" in case_id + suite.suite_path:
            return ""
        return self.reproduce.format(suite=shell_word(suite.suite_path), case=shell_word(case_id))


Answer = CaseAnswer | Literal["flaky"]
"""The gate's answer on a case; `flaky` where it is green and no rerun passed, as at times on main."""

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
    GateStatus.NO_BASELINE: "not compared",
}
NOT_EVALUATED = "not evaluated"
NEW_RULES = "New rules hold once merged: "
"""What a note begins with that tells of rules which a change alters."""


class Finding(NamedTuple):
    """A sentence about something that was found or measured."""

    state: State
    text: str


class CaseRow(NamedTuple):
    """A case that newly fails: its answer, and its counts, such as `8/8`; `–` where nothing ran."""

    case_id: str
    answer: Answer
    state: State
    words: str
    main: str
    first: str
    base: str
    change: str
    reason: str


class Group(NamedTuple):
    """Cases that fail for one reason and did alike: a row of the table; counts or words of both sides."""

    state: State
    case_ids: Sequence[str]
    why: str
    now: str
    main: str


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
        headline: What happened, in a clause: all that an e-mail's subject shows.
        sentence: How it ended and why, as the decision says it.
        lead: The same below the headline, without what that has said; may be empty.
        why: The causes of what broke, in words; empty for none.
        to_do: What to do; empty for nothing.
        figures: What moved over the whole run, a few words each.
        groups: What fails and has to be looked at.
        cases: Cases that newly fail, those that block first.
        findings: Safety judges, the whole suite's reruns, a release's margin, cost and time.
        sets: New, changed and removed cases, and where the two runs mean different things by "passed".
        notes: What else a reader has to know.
        set_aside: Waivers, quarantine, and what of them has expired.
        spent: What the reruns took; empty without.
    """

    state: State
    word: str
    headline: str
    sentence: str
    lead: str = ""
    why: str = ""
    to_do: str = ""
    figures: Sequence[str] = ()
    groups: Sequence[Group] = ()
    cases: Sequence[CaseRow] = ()
    findings: Sequence[Finding] = ()
    sets: Sequence[Finding] = ()
    notes: Sequence[str] = ()
    set_aside: Sequence[str] = ()
    rules: Sequence[RuleRow] = ()
    spent: str = ""

    @property
    def by_counts(self) -> list[tuple[State, Sequence[str], CaseRow]]:
        """The cases that newly fail; those with the same answer and counts are one: state, ids, the first."""
        alike: dict[tuple[str, ...], list[CaseRow]] = {}
        for row in self.cases:
            alike.setdefault((row.words, row.main, row.first, row.base, row.change), []).append(row)
        return [(rows[0].state, [row.case_id for row in rows], rows[0]) for rows in alike.values()]

    @property
    def checks(self) -> list[str]:
        """Notes that ask a reviewer for an answer."""
        return [f"{note} Check that this is meant." for note in self.notes if note.startswith(NEW_RULES)]

    @property
    def other_notes(self) -> list[str]:
        """Notes that only tell something."""
        return [note for note in self.notes if not note.startswith(NEW_RULES)]

    @property
    def is_plain(self) -> bool:
        """Whether it passed, and no case, limit or waiver needed a decision."""
        return self.state == "passed" and not any((self.cases, self.findings, self.set_aside))

    @property
    def is_quiet(self) -> bool:
        """Whether it passed and there is nothing to look at."""
        return self.is_plain and not self.sets


def undecided(run: RunReference) -> GateDecision:
    """Build a decision without rules, for a run on which none was made."""
    return GateDecision(
        generated_at=run.started_at or "",
        gate_status=GateStatus.NO_BASELINE,
        passed=False,
        thresholds=Thresholds(),
        candidate_run_id=run.run_id,
    )
