"""The two runs of a comparison as it reads them: results of cases and trials, and the texts in them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
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
from agent_eval.contracts.verdict import TrialResultRow
from agent_eval.text.escape import cut

Pattern = tuple[tuple[str, str, bool], ...]
"""(judge id, outcome, hard) of every verdict on a case, in order."""

FAILURES = frozenset({Outcome.FAILED.value, Outcome.ERROR.value})
POLICIES_NAMED = 5
KIND_LIMIT = 300
"""Number of characters of a reason that decide the kind of failure."""
_KEY_LENGTH = 16

# Quoted parts, then words with a digit (numbers, ids, digests, dates), joined by id punctuation.
_PARTICULARS = re.compile(
    r"""(?<!\w)'[^'\n]*'(?!\w) | "[^"\n]*" | `[^`\n]*` | “[^”\n]*” | \b[\w.:/@-]*\d[\w.:/@-]*""",
    re.VERBOSE,
)


@dataclass(frozen=True)
class RunView:
    """The parts of a verified run that a comparison reads: index rows and results by the same case ids.

    `manifest_sha256` is the digest of the sealed pack's manifest; None for a run that is not sealed.
    `other_ids` has the ids that the run itself gave to cases which it reads under another.
    """

    config: RunConfig
    summary: RunSummary
    manifest_sha256: str | None
    index: Mapping[str, CaseIndexRow]
    results: Mapping[str, CaseResultRow]
    other_ids: Mapping[str, str] = field(default_factory=dict)

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


@dataclass(frozen=True, slots=True)
class CaseOutcome:
    """Result of a case that follows from its pattern of verdicts.

    Attributes:
        hard_failed: Whether a hard judge failed the case or could not judge it.
        failing: Whether any judge failed the case or could not judge it.
        judges: Outcome by judge id; the first failure, else the last, where a judge has several verdicts.
        trials: Number of trials of the case, which makes no outcome another.
    """

    outcome: str
    passed: bool
    hard_failed: bool
    failing: bool
    judges: dict[str, str]
    trials: int = field(default=1, compare=False)


Outcomes = Mapping[str, CaseOutcome]
"""Outcomes by case id."""


def outcomes_of(results: Mapping[str, CaseResultRow]) -> dict[str, CaseOutcome]:
    """Compute the outcome of every case, by case id. Cases with equal verdicts share one object."""
    known: dict[tuple[Pattern, int], CaseOutcome] = {}
    pattern_of = itemgetter("judge_id", "outcome", "hard")
    cases = {}
    for case_id, row in results.items():
        alike: tuple[Pattern, int] = tuple(map(pattern_of, row["verdicts"])), len(trials_of(row))
        if alike not in known:
            known[alike] = case_outcome(*alike)
        cases[case_id] = known[alike]
    return cases


def case_outcome(pattern: Pattern, trials: int = 1) -> CaseOutcome:
    """Compute the outcome of a case from its verdicts."""
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
        trials=trials,
    )


def trials_of(row: CaseResultRow) -> Sequence[CaseResultRow | TrialResultRow]:
    """List the results of all trials of a case; a case with a single trial is that trial."""
    return row.get("trials") or [row]


def case_policies(rows: Iterable[CaseResultRow]) -> list[str]:
    """List the policies by which cases with several trials were decided, sorted."""
    policies = {row.get("case_policy") or "all" for row in rows if len(trials_of(row)) > 1}
    return sorted(cut(text, 40) for text in policies)[:POLICIES_NAMED]


def normalise(reason: str) -> str:
    """Remove numbers, ids and quoted parts from a reason, so that failures of the same kind are equal."""
    return re.sub(r"\s+", " ", _PARTICULARS.sub("…", cut(reason, KIND_LIMIT))).strip()


def regression_key(case_id: str, judge_id: str, failure: str | None, reason: str) -> str:
    """Compute the key of a regression: 16 hexadecimal digits, different for another kind of failure."""
    return digest([case_id, judge_id, failure, normalise(reason)])[:_KEY_LENGTH]
