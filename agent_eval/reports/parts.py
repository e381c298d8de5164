"""What a story is made of: plain values that comment, page and terminal lay out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

from agent_eval.contracts import GateStatus
from agent_eval.contracts.gate import CaseAnswer

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
    def sign(self) -> str:
        """A sign for the state."""
        return SIGNS[self.state]

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
