"""Point at the cases that broke in the files of their suites, where a platform shows that in a review."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from agent_eval.ci.evaluate import Evaluation, SuiteEvaluation
from agent_eval.contracts import GateStatus, Outcome
from agent_eval.suites.lines import lines_of_cases
from agent_eval.text.escape import one_line

MAX_ANNOTATIONS = 9
"""Platforms show ten of a step; the job's own verdict is one."""
_FAILING = (Outcome.FAILED.value, Outcome.ERROR.value)
_NAME_LIMIT = 100
_REASON_LIMIT = 300


@dataclass(frozen=True, slots=True, kw_only=True)
class Annotation:
    """A sentence about a case, at the line of the suite where the case is written.

    Example:
        >>> Annotation(path="suites/shop.json", line=7, case_id="refund", text="It got worse.").fails
        False

    Args:
        path: Of the suite, relative to the top of the checkout, with `/`.
        line: From 1; None where it is not known.
        case_id: The case.
        text: Why it is pointed out.
        fails: Whether its suite failed the gate.
    """

    path: str
    line: int | None
    case_id: str
    text: str
    fails: bool = False


def annotations_of(evaluation: Evaluation, workspace: Path) -> list[Annotation]:
    """Choose the first cases that broke or are not settled, those of suites that failed first.

    Without a baseline these are the cases that failed, if the gate did.

    Args:
        evaluation: The evaluation.
        workspace: The top of the checkout; suites elsewhere are left out.
    """
    if evaluation.archive is None:
        return []  # The suites of a run that is reported on are not here.
    failed_first = sorted(evaluation.suites, key=lambda suite: not _failed(suite))
    notes = (note for suite in failed_first for note in _of_suite(suite, workspace))
    return [note for _, note in zip(range(MAX_ANNOTATIONS), notes, strict=False)]


def _of_suite(suite: SuiteEvaluation, workspace: Path) -> Iterator[Annotation]:
    place = os.path.relpath(os.path.abspath(suite.target.path), os.path.abspath(workspace))
    case_ids = _worse(suite)[:MAX_ANNOTATIONS]
    if place.startswith("..") or not case_ids:
        return
    lines = lines_of_cases(suite.target.path, case_ids)
    for case_id in case_ids:
        yield Annotation(
            path=Path(place).as_posix(),
            line=lines.get(case_id),
            case_id=one_line(case_id, limit=_NAME_LIMIT),
            text=_sentence(suite, case_id),
            fails=_failed(suite),
        )


def _worse(suite: SuiteEvaluation) -> list[str]:
    """Cases that broke or are not settled, those of safety first; without a baseline those that failed."""
    decision = suite.decision
    if suite.comparison is not None:
        unsafe = [row.case_id for row in decision.safety if row.answer in ("blocks", "open")]
        cases = [row.case_id for row in decision.cases if row.answer in ("broke", "open")]
        return list(dict.fromkeys([*unsafe, *cases]))
    if not _failed(suite):
        return []
    return [case_id for case_id, row in suite.candidate.results.items() if not row["passed"]]


def _sentence(suite: SuiteEvaluation, case_id: str) -> str:
    decided = next((row.reason for row in suite.decision.cases if row.case_id == case_id), None)
    if decided is not None:
        return one_line(decided, limit=_REASON_LIMIT)
    row = suite.candidate.results.get(case_id)
    verdicts = row["verdicts"] if row is not None else []
    failing = [verdict for verdict in verdicts if verdict["outcome"] in _FAILING]
    name = one_line(case_id, limit=_NAME_LIMIT)
    if not failing:
        return f"{name} fails."
    judge, reason = failing[0]["judge_id"], one_line(failing[0]["reason"] or "", limit=_REASON_LIMIT)
    return f"{name} fails. {one_line(judge, limit=_NAME_LIMIT)}: {reason}"


def _failed(suite: SuiteEvaluation) -> bool:
    return suite.decision.gate_status is GateStatus.FAILED
