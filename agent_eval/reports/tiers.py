"""What a report says of cases that do not block by themselves, and of new cases."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from agent_eval.contracts.confirmation import Confirmation, NewCaseTrial
from agent_eval.history.board import PROMOTED_AFTER, to_promote
from agent_eval.history.record import lost_to
from agent_eval.reports.advice import first_of
from agent_eval.reports.model import SuiteReport
from agent_eval.text.numbers import count, verb

Named = Callable[[Sequence[str]], str]
"""Lists case ids, escaped for where they are shown."""


@dataclass(frozen=True)
class CasesApart:
    """Cases of a suite that count in no rule on single cases, by id.

    Example:
        `cases_apart(suite).title` is such as "Cleared (2) · tracked (3) · not graded (1)".

    Attributes:
        cleared: Those that fresh trials cleared.
        not_yours: Those that fail on the merge base as well.
        tracked: Those that the policy tracks and that do not pass.
        expected_fail: Those that it expects to fail and that do not pass.
        not_graded: Those of which no trial says anything about the agent, with what it was lost to.
        promote: Those that it expects to fail and that passed in the last runs of the base branch.
    """

    cleared: Sequence[str] = ()
    not_yours: Sequence[str] = ()
    tracked: Sequence[str] = ()
    expected_fail: Sequence[str] = ()
    not_graded: Sequence[tuple[str, str]] = ()
    promote: Sequence[str] = ()

    @property
    def title(self) -> str:
        """The numbers of cases by what they are; empty where there is none."""
        kinds = {
            "cleared": self.cleared,
            "not yours": self.not_yours,
            "tracked": self.tracked,
            "expected to fail": self.expected_fail,
            "not graded": self.not_graded,
            "promote me": self.promote,
        }
        parts = " · ".join(f"{name} ({len(cases):,})" for name, cases in kinds.items() if cases)
        return f"{parts[:1].upper()}{parts[1:]}"

    def sentences(self, named: Named, branch: str) -> list[str]:
        """Say what is to be known of them, one sentence a kind; what was run again is in a table of its own.

        Args:
            named: Lists case ids.
            branch: The base branch, escaped.
        """
        sentences = []
        if self.tracked:
            sentences.append(
                f"Tracked, and {_do(self.tracked)} not pass: {named(self.tracked)}. "
                f"The pass rate and the suite's tests count {_them(self.tracked)}."
            )
        if self.expected_fail:
            sentences.append(
                f"Expected to fail, and {_do(self.expected_fail)} not pass: {named(self.expected_fail)}."
            )
        if self.not_graded:
            causes = ", ".join(sorted({cause.replace("_", " ") for _, cause in self.not_graded}))
            graded = named([case_id for case_id, _ in self.not_graded])
            sentences.append(f"Not graded ({causes}), which says nothing about the agent: {graded}.")
        if self.promote:
            sentences.append(
                f"Promote me: {named(self.promote)} {verb(len(self.promote), 'is', 'are')} expected to fail "
                f"and passed in the last {PROMOTED_AFTER} runs of {branch}. "
                f"Take {_them(self.promote)} out of `expected_fail`."
            )
        return sentences


def cases_apart(suite: SuiteReport) -> CasesApart:
    """Collect the cases of a suite that count in no rule on single cases."""
    declared, decision = suite.declared, suite.decision
    failing = {row["case_id"]: row for row in suite.failing}
    verdicts = {row.case_id: row.verdict for row in decision.confirmed}
    lost = {case_id: why for case_id, row in failing.items() if (why := lost_to(row)) is not None}

    def not_passing(kind: str, worse: Sequence[str]) -> list[str]:
        ids = [case_id for case_id in failing if declared.of(case_id) == kind]
        return [case_id for case_id in sorted({*ids, *worse}) if case_id not in lost]

    return CasesApart(
        cleared=[case_id for case_id, verdict in verdicts.items() if verdict == "cleared"],
        not_yours=[case_id for case_id, verdict in verdicts.items() if verdict == "not-yours"],
        tracked=not_passing("tracked", decision.tracked_case_ids),
        expected_fail=not_passing("expected-fail", decision.expected_fail_case_ids),
        not_graded=sorted(lost.items()),
        promote=to_promote(suite.history.earlier, declared) if suite.history is not None else (),
    )


def new_case_words(suite: SuiteReport, named: Named, prose: Callable[[str], str]) -> str:
    """Say whether the merge base's agent passes the new cases as well; empty where that was not asked.

    Args:
        suite: The suite.
        named: Lists case ids, escaped.
        prose: Escapes a sentence that may quote anything.

    Example:
        "2 new cases: the base agent passes 1 of them too (`refund`), so it tells nothing apart."
    """
    record, comparison = suite.confirmation, suite.comparison
    if record is None or comparison is None or not comparison.cases.new:
        return ""
    new = count(len(comparison.cases.new), "new case")
    if record.agent_unchanged:
        return f"{new}: the agent is unchanged, so the base agent does the same."
    clauses = _new_clauses(record, named)
    why_not = f" {prose(record.new_problem)}" if record.new_problem else ""
    if not clauses:
        return (
            f"{new}: the base agent was not run on {_them(comparison.cases.new)}.{why_not}" if why_not else ""
        )
    return f"{new}: {'; '.join(clauses)}.{why_not}"


def _new_clauses(record: Confirmation, named: Named) -> list[str]:
    def ids(trials: Sequence[NewCaseTrial]) -> str:
        return named([trial.case_id for trial in trials])

    tried = record.new_cases
    alike = [trial for trial in tried if trial.tells_nothing_apart]
    only_base = [trial for trial in tried if trial.base == "passed" and not trial.candidate_passed]
    lost = [trial for trial in tried if trial.base == "lost"]
    clauses = []
    if alike:
        which = "it too" if len(tried) == 1 else f"{len(alike):,} of them too ({ids(alike)})"
        clauses.append(
            f"the base agent passes {which}, so {verb(len(alike), 'it tells', 'they tell')} nothing apart"
        )
    if only_base:
        clauses.append(f"the base agent passes {ids(only_base)}, and this change's does not")
    if lost:
        clauses.append(f"the base agent could not be judged on {ids(lost)}")
    if tried and not clauses:
        clauses.append(f"the base agent {'does not pass it' if len(tried) == 1 else 'passes none of them'}")
    return clauses


def first_named(code: Callable[[str], str]) -> Named:
    """List the first ids as code: `a`, `b` and 4 more."""
    return lambda case_ids: first_of([code(case_id) for case_id in case_ids])


def _do(cases: Sequence[object]) -> str:
    return verb(len(cases), "does", "do")


def _them(cases: Sequence[object]) -> str:
    return verb(len(cases), "it", "them")
