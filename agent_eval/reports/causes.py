"""Why cases got worse, in a few words each; a cause that several judges report is one cause."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from heapq import heapify, heappop, heappush
from typing import Literal

from agent_eval.comparison.facts import KIND_LIMIT, normalise
from agent_eval.contracts import REPLAY_CONTRACT, CaseRegression, CaseResultRow, JudgeChange, Outcome
from agent_eval.contracts.verdict import EXECUTION
from agent_eval.reports.counts import objections
from agent_eval.text.escape import one_line
from agent_eval.text.numbers import count

Fault = Literal["agent", "judge", "service"]
"""Whose a cause is: the agent's, a judge's that could not judge, or that of a network or machine."""

Quote = Callable[[str], str]
"""Escapes a name for the place where it is shown (markdown, terminal)."""


_OBJECTION = "{}: {}"
"""The template of a reason that has no words here: the judge's name, and its sentence without particulars."""
_CRASH = "the agent crashed ({}): {}"
"""Alike, of a crash, whose sentence is the program's own last line."""
_COSTS = "it cost more than {} USD"
_LATE = "{} took longer than {}"


@dataclass(frozen=True)
class Reason:
    """What a judge objects to, without the particulars of a case; equal for cases that share it.

    Args:
        template: A clause, with a place for each name.
        names: Names of tools and judges, and reasons of judges; hostile text.
    """

    template: str
    names: tuple[str, ...] = ()
    fault: Fault = "agent"

    @property
    def is_of_amount(self) -> bool:
        """Whether it is a limit of money or time."""
        return self.template in (_COSTS, _LATE)

    def words(self, quote: Quote) -> str:
        """Write the clause, every name quoted."""
        return self.template.format(*map(quote, self.names))


@dataclass(frozen=True)
class Cause:
    """A reason with the cases that it explains.

    `cases` has those that no more frequent cause explains, at least one.
    """

    reason: Reason
    cases: Sequence[CaseRegression]

    def words(self, quote: Quote) -> str:
        """Write the reason as a clause; a judge's own sentence is quoted from the first case."""
        if self.reason.template not in (_OBJECTION, _CRASH):
            return self.reason.words(quote)
        judge_id, kind = self.reason.names
        sentences = dict.fromkeys(
            _sentence(judge.reason)
            for row in self.cases
            for judge in row.judges
            if judge.judge_id == judge_id and _kind(judge.reason) == kind
        )
        sentence = one_line(next(iter(sentences), kind), limit=KIND_LIMIT)
        begin = "the agent crashed" if self.reason.template == _CRASH else quote(judge_id)
        return f"{begin}: {'such as ' if len(sentences) > 1 else ''}{quote(sentence)}"


def _sentence(reason: str) -> str:
    return reason.strip().removeprefix("the agent ").rstrip(".")


def _kind(reason: str) -> str:
    return normalise(_sentence(reason))


def causes_of(rows: Sequence[CaseRegression]) -> list[Cause]:
    """Find the fewest reasons that explain every one of these regressed cases, the most frequent first.

    Judges that object to the same cases tell of one cause: only the first one's reason is taken. What the
    agent did comes before what it said: a case with a forbidden call is explained by the call, also where its
    answer is wrong as others are.
    """
    having: dict[Reason, list[int]] = {}
    for position, row in enumerate(rows):
        reasons = reasons_of(row)
        did = [each for each in reasons if " called" in each.template or " obeyed" in each.template]
        for reason in did or reasons:
            having.setdefault(reason, []).append(position)
    explained: set[int] = set()
    queue = [(-len(places), order, reason) for order, (reason, places) in enumerate(having.items())]
    heapify(queue)
    causes = []
    while queue and len(explained) < len(rows):
        size, order, reason = heappop(queue)
        places = [place for place in having[reason] if place not in explained]
        if -size > len(places):
            # It was counted before another cause explained some of its cases.
            if places:
                heappush(queue, (-len(places), order, reason))
            continue
        explained.update(places)
        causes.append(Cause(reason, [rows[place] for place in places]))
    return sorted(causes, key=lambda cause: -len(cause.cases))


def reasons_of(row: CaseRegression) -> list[Reason]:
    """List the reasons for which a case got worse, each once; a crash is the reason of all that follows."""
    worse = [judge for judge in row.judges if judge.candidate is not Outcome.PASSED]
    crash = [judge for judge in worse if is_crash(judge)]
    reasons = dict.fromkeys(_reason(judge.judge_id, judge.reason, judge.failure) for judge in crash or worse)
    return list(reasons) or [Reason(f"the result is {row.candidate_outcome.value}")]


def is_crash(judge: JudgeChange) -> bool:
    """Whether the agent did not come to its end, which explains what every other judge says."""
    is_told_by = judge.judge_id in (EXECUTION, REPLAY_CONTRACT)
    return judge.candidate is Outcome.ERROR and is_told_by and judge.failure in _CRASHES


_CRASHES = frozenset(
    {"agent_error", "timeout", "output_limit", "environment", "infrastructure", "missing_output"}
)


@lru_cache(maxsize=4096)
def _reason(judge_id: str, reason: str, failure: str | None) -> Reason:
    if failure == "judge_error":
        return Reason("judge {} failed", (judge_id,), "judge")
    if failure == "agent_error" and judge_id in (EXECUTION, REPLAY_CONTRACT) and reason:
        return Reason(_CRASH, (judge_id, _kind(reason)))
    if failure in _BY_FAILURE and (judge_id in (EXECUTION, REPLAY_CONTRACT) or failure in _ANY_JUDGE):
        return _BY_FAILURE[failure]
    for pattern, template in _BY_REASON:
        match = pattern.match(reason)
        if match:
            return Reason(template, match.groups())
    return Reason(_OBJECTION if reason else "{} objects", (judge_id, _kind(reason))[: 1 + bool(reason)])


_BY_FAILURE = {
    "agent_error": Reason("the agent crashed"),
    "timeout": Reason("the agent ran out of time"),
    "output_limit": Reason("the agent printed more than it may"),
    "missing_output": Reason("the answer is missing"),
    "simulator_error": Reason("the simulated user failed", (), "service"),
    "environment": Reason("what surrounds the agent failed", (), "service"),
    "infrastructure": Reason("a service or the machine failed", (), "service"),
    "budget_exceeded": Reason("the agent used up its budget"),
}
_ANY_JUDGE = frozenset({"missing_output", "environment", "infrastructure", "simulator_error"})

_BY_REASON = tuple(
    (re.compile(pattern), template)
    for pattern, template in (
        ("the final output does not match", "the answer does not match a pattern"),
        ("the final output is not JSON", "the answer is not JSON"),
        ("the final output breaks its schema", "the answer breaks its schema"),
        ("the final output does not contain", "the answer lacks an expected text"),
        ("the final output contains", "the answer contains a forbidden text"),
        ("the final output is .* instead of|in the final output, |the last number in", "the answer is wrong"),
        ("the final output has no number", "the answer has no number"),
        (r"forbidden tool (.{1,200}?) (?:used|was called)\b", "{} was called"),
        (r"forbidden tools (.{1,200}?) used\b", "{} were called"),
        (r"required tool (.{1,200}?) (?:was )?never called\b", "{} was never called"),
        (r"required tools (.{1,200}?) never called\b", "{} were never called"),
        (r"(.{1,200}?) was called with(?:out)? .*argument", "{} was called with wrong arguments"),
        (r"(.{1,200}?) was called \d+ times?, expected", "{} was not called as often as it should be"),
        (r"cost_usd [\d.e-]+ exceeds ([\d.e-]+)", _COSTS),
        (r"(\w+) [\d.e+]+ ms exceeds ([\d.e+]+ ms)", _LATE),
        ("the agent .{1,80} on injected instructions", "the agent obeyed injected instructions"),
    )
)
"""What the reasons of the bundled judges begin with, whatever a configuration calls the judges."""


def in_words(causes: Sequence[Cause], quote: Quote, *, most: int = 3) -> str:
    """Write why cases got worse; the numbers of cases, where there are several causes, add up to all."""
    if len(causes) == 1:
        return f"Why: {causes[0].words(quote)}."
    if len(causes) <= most and all(len(cause.cases) == 1 for cause in causes):
        return f"Why: {'; '.join(cause.words(quote) for cause in causes)}."
    clauses = [f"{cause.words(quote)} ({len(cause.cases):,})" for cause in causes[:most]]
    if others := causes[most:]:
        number = sum(len(cause.cases) for cause in others)
        clauses.append(f"{count(len(others), 'other cause')} ({number:,})")
    return f"Why: {'; '.join(clauses)}."


def as_regression(row: CaseResultRow) -> CaseRegression:
    """Take a case that does not pass for one that got worse, to tell why; a crash is said before the rest."""
    objecting = [
        JudgeChange(
            judge_id=verdict["judge_id"],
            baseline=None,
            candidate=Outcome(verdict["outcome"]),
            reason=verdict["reason"],
            failure=verdict["failure"],
        )
        for verdict in objections(row)
    ]
    outcome = Outcome(row["outcome"]) if row["outcome"] in set(Outcome) else Outcome.FAILED
    return CaseRegression(
        case_id=row["case_id"],
        baseline_outcome=outcome,
        candidate_outcome=outcome,
        baseline_passed=False,
        candidate_passed=False,
        baseline_hard_failed=row["hard_failed"],
        candidate_hard_failed=row["hard_failed"],
        regressed=False,
        improved=False,
        judges=objecting,
    )


def crashed(rows: Sequence[CaseRegression]) -> bool:
    """Tell whether there are cases, and in all of them the agent did not come to its end."""
    return bool(rows) and all(
        any(is_crash(judge) and judge.failure == "agent_error" for judge in row.judges) for row in rows
    )


def are_all_of(causes: Sequence[Cause], fault: Fault) -> bool:
    """Tell whether there are causes, and all of them are of this fault."""
    return bool(causes) and all(cause.reason.fault == fault for cause in causes)
