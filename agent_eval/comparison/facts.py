"""Results of the cases of a run, recomputed from their verdicts; stored figures are checked, never trusted.

Most cases of a run share their pattern of verdicts, and each pattern is computed once. That makes it cheap to
compare tens of thousands of cases.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from operator import itemgetter

from agent_eval.contracts import (
    CaseIndexRow,
    CaseResultRow,
    Outcome,
    RunConfig,
    RunReference,
    RunSummary,
    combine,
    digest,
)
from agent_eval.errors import InvalidInput

Pattern = tuple[tuple[str, str, bool], ...]
"""(judge id, outcome, hard) of every verdict on a case, in order."""

FAILURES = frozenset({Outcome.FAILED.value, Outcome.ERROR.value})

_pattern_of = itemgetter("judge_id", "outcome", "hard")


@dataclass(frozen=True, slots=True)
class CaseOutcome:
    """Result of a case that follows from its pattern of verdicts.

    Attributes:
        outcome: Outcome of the case.
        passed: Whether the outcome is a pass.
        hard_failed: Whether a hard judge failed the case or could not judge it.
        failing: Whether any judge failed the case or could not judge it.
        judges: Outcome by judge id; the worst, where a judge has several verdicts.
    """

    outcome: str
    passed: bool
    hard_failed: bool
    failing: bool
    judges: dict[str, str]


def case_outcomes(view: RunView) -> dict[str, CaseOutcome]:
    """Compute the outcome of every case of a run, by case id. Cases with equal verdicts share one object.

    Raises:
        InvalidInput: A stored case result or the stored summary contradicts the verdicts, or index and
            results do not name the same cases.
    """
    if view.index.keys() != view.results.keys():
        only = sorted(view.index.keys() ^ view.results.keys())
        raise InvalidInput(
            f"run {view.config.run_id!r}: index and verdicts do not name the same cases",
            remedy="Evaluate the run again; its evidence is not whole.",
            case_id=only[0],
        )
    known: dict[Pattern, CaseOutcome] = {}
    cases: dict[str, CaseOutcome] = {}
    patterns: Counter[Pattern] = Counter()
    for case_id, row in view.results.items():
        pattern: Pattern = tuple(map(_pattern_of, row["verdicts"]))
        case = known.get(pattern)
        if case is None:
            case = known[pattern] = case_outcome(pattern)
        if case.outcome != row["outcome"] or case.passed != row["passed"]:
            raise _contradiction(view, row, "outcome", case.outcome, row["outcome"])
        if case.hard_failed != row["hard_failed"]:
            raise _contradiction(view, row, "hard_failed", case.hard_failed, row["hard_failed"])
        cases[case_id] = case
        patterns[pattern] += 1
    _check_summary(view, patterns, known)
    return cases


def case_outcome(pattern: Pattern) -> CaseOutcome:
    """Compute the outcome of a case from its verdicts.

    Example:
        >>> case_outcome((("policy", "failed", True), ("regex", "passed", True))).hard_failed
        True
    """
    judges: dict[str, str] = {}
    for judge_id, outcome, _ in pattern:
        if judges.get(judge_id) not in FAILURES:
            judges[judge_id] = outcome
    # Weights make the score, which comparison does not need.
    combined = combine((judge_id, outcome, hard, 1.0) for judge_id, outcome, hard in pattern)
    return CaseOutcome(
        outcome=combined.outcome.value,
        passed=combined.passed,
        hard_failed=combined.hard_failed,
        failing=not FAILURES.isdisjoint(judges.values()),
        judges=judges,
    )


def _check_summary(view: RunView, patterns: Counter[Pattern], known: dict[Pattern, CaseOutcome]) -> None:
    passed = hard_failed = 0
    judges: Counter[tuple[str, str]] = Counter()
    for pattern, count in patterns.items():
        passed += count * known[pattern].passed
        hard_failed += count * known[pattern].hard_failed
        for judge_id, outcome, _ in pattern:
            judges[judge_id, outcome] += count
    total = patterns.total()
    stated = view.summary
    figures = [
        ("total_cases", stated.total_cases, total),
        ("passed_cases", stated.passed_cases, passed),
        ("hard_fail_cases", stated.hard_fail_cases, hard_failed),
        ("pass_rate", stated.pass_rate, passed / total if total else 0.0),
        ("hard_fail_rate", stated.hard_fail_rate, hard_failed / total if total else 0.0),
        ("judge_counts", _stated_judges(view), dict(judges)),
    ]
    for name, says, follows in figures:
        if says != follows:
            raise InvalidInput(
                f"run {view.config.run_id!r}: its summary disagrees with its verdicts in {name}",
                remedy="Evaluate the run again; a summary is never edited by hand.",
                field=name,
                stated=says if isinstance(says, int | float) else None,
                recomputed=follows if isinstance(follows, int | float) else None,
            )


def _stated_judges(view: RunView) -> dict[tuple[str, str], int]:
    counts: dict[tuple[str, str], int] = {}
    for judge_id, judge in view.summary.judge_counts.items():
        for outcome in Outcome:
            count = getattr(judge, outcome.value)
            if count:
                counts[judge_id, outcome.value] = count
    return counts


def _contradiction(
    view: RunView, row: CaseResultRow, name: str, follows: object, says: object
) -> InvalidInput:
    return InvalidInput(
        f"run {view.config.run_id!r}: the result of a case disagrees with its verdicts",
        remedy="Evaluate the run again; a result is never edited by hand.",
        case_id=row["case_id"],
        field=name,
        stated=says,
        recomputed=follows,
    )


@dataclass(frozen=True)
class RunView:
    """The parts of a run that a comparison reads.

    Args:
        config: Configuration of the run.
        summary: Summary of the run; `compare` refuses one that the verdicts contradict.
        manifest_sha256: Digest of the sealed pack's manifest; None for a run that is not sealed.
        index: Rows of the index by case id.
        results: Results by case id; the same ids as `index`.
    """

    config: RunConfig
    summary: RunSummary
    manifest_sha256: str | None
    index: Mapping[str, CaseIndexRow]
    results: Mapping[str, CaseResultRow]

    # Both mappings may build a row for each access: iterate over the rows, do not collect them.

    def reference(self) -> RunReference:
        """Return the reference to this run that comparisons and decisions contain."""
        return RunReference(
            run_id=self.config.run_id,
            dataset_id=self.config.dataset_id,
            manifest_sha256=self.manifest_sha256,
            agent_version=self.config.agent_version,
            model=self.config.model,
            git_commit=self.config.git_commit,
            started_at=self.config.started_at,
            damaged_records=self.config.execution_config.damaged_records or 0,
            summary=self.summary,
        )


KIND_LIMIT = 300
"""Number of characters of a reason that decide the kind of failure."""
KEY_LENGTH = 16

# Quoted parts, then words with a digit (numbers, ids, digests, dates), joined by id punctuation.
_PARTICULARS = re.compile(
    r"""(?<!\w)'[^'\n]*'(?!\w) | "[^"\n]*" | `[^`\n]*` | “[^”\n]*” | \b[\w.:/@-]*\d[\w.:/@-]*""",
    re.VERBOSE,
)
_SPACE = re.compile(r"\s+")


def cut(text: str, limit: int) -> str:
    """Cut `text` to `limit` characters, with an ellipsis as the last where it is longer."""
    return text if len(text) <= limit else text[: limit - 1] + "…"


def normalise(reason: str) -> str:
    """Remove numbers, ids and quoted parts from a reason, so that failures of the same kind are equal."""
    return _SPACE.sub(" ", _PARTICULARS.sub("…", cut(reason, KIND_LIMIT))).strip()


def regression_key(case_id: str, judge_id: str, failure: str | None, reason: str) -> str:
    """Compute the key of a regression: 16 hexadecimal digits, different for another kind of failure."""
    return digest([case_id, judge_id, failure, normalise(reason)])[:KEY_LENGTH]
