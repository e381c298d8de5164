"""Rows of a pack: parsed strictly, checked against the contract and against themselves.

Works on plain dictionaries: building models for every verdict of a large run costs more than comparing.
What is kept is the JSON as it stands, unknown fields included.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cache
from typing import Any

from pydantic import TypeAdapter, ValidationError

from agent_eval.contracts import REPLAY_CONTRACT, CaseIndexRow, CaseResultRow, Outcome, VerdictRow
from agent_eval.errors import FailureKind, InvalidInput
from agent_eval.evidence.sources import invalid_pack
from agent_eval.storage.json_reader import parse

_OUTCOMES = frozenset(outcome.value for outcome in Outcome)
_FAILURES = frozenset(kind.value for kind in FailureKind)
_NEEDS_FAILURE = frozenset((Outcome.FAILED.value, Outcome.ERROR.value))
_WORST_FIRST = (Outcome.ERROR.value, Outcome.FAILED.value, Outcome.INCONCLUSIVE.value)


def parse_json(data: bytes, *, pack: str, path: str, first_line: int = 1) -> Any:
    """Strict JSON of a file of a pack; InvalidPack where it is none."""
    try:
        return parse(data, source=path, first_line=first_line)
    except InvalidInput as error:
        raise invalid_pack(pack, path, error.message.removeprefix(f"{path}: ")) from error


def parse_lines(data: bytes, *, pack: str, path: str) -> list[Any]:
    """Every line of a JSON Lines file. An empty file has none; the last line ends like the others."""
    if not data:
        return []
    if not data.endswith(b"\n"):
        raise invalid_pack(pack, path, "does not end with a line feed")
    lines = data[:-1].split(b"\n")
    return [
        parse_json(line, pack=pack, path=path, first_line=number)
        for number, line in enumerate(lines, start=1)
    ]


@cache
def _adapter(kind: type) -> TypeAdapter[Any]:
    return TypeAdapter(list[kind])  # type: ignore[valid-type]


def _check_shape(kind: type, rows: list[Any], *, pack: str, path: str) -> None:
    try:
        _adapter(kind).validate_python(rows, strict=True)
    except ValidationError as error:
        raise invalid_pack(pack, path, first_problem(error)) from error


def first_problem(error: ValidationError) -> str:
    """The first thing that a validation found, with its place."""
    first = error.errors(include_url=False, include_input=False)[0]
    place = ".".join(str(part)[:100] for part in first["loc"])
    return f"{place}: {first['msg']}" if place else first["msg"]


def index_rows(data: bytes, *, pack: str, path: str) -> list[CaseIndexRow]:
    """The rows of `run/index.jsonl`, checked; ids are unique."""
    rows: list[CaseIndexRow] = parse_lines(data, pack=pack, path=path)
    _check_shape(CaseIndexRow, rows, pack=pack, path=path)
    if len({row["case_id"] for row in rows}) != len(rows):
        raise invalid_pack(pack, path, "has a case twice")
    return rows


def result_rows(rows: list[Any], *, pack: str, path: str, same: Callable[[str], str]) -> list[CaseResultRow]:
    """Check parsed case results.

    Args:
        rows: As parsed.
        pack: What to call the pack.
        path: Where they stand.
        same: Gives one object for equal strings, so that thousands of equal reasons are held once.

    Raises:
        InvalidPack: A field of the wrong type; a case's outcome, hard fail or score that does not follow
            from its verdicts.
    """
    _check_shape(CaseResultRow, rows, pack=pack, path=path)
    for row in rows:
        if problem := _inconsistency(row):
            raise invalid_pack(pack, path, f"case {row['case_id'][:200]!r}: {problem}")
        row["case_id"] = same(row["case_id"])
        row["outcome"] = same(row["outcome"])
        for verdict in row["verdicts"]:
            for name in ("case_id", "judge_id", "outcome", "reason"):
                verdict[name] = same(verdict[name])
    return rows


def _inconsistency(row: CaseResultRow) -> str | None:
    """How a case's result contradicts its verdicts; rules as in `contracts.verdict`."""
    seen: set[str] = set()
    judges: set[str] = set()
    hard_failed = measured = False
    total = achieved = 0.0
    for verdict in row["verdicts"]:
        if problem := _verdict_problem(verdict, row["case_id"]):
            return f"verdict of {verdict['judge_id'][:200]!r}: {problem}"
        outcome = verdict["outcome"]
        judges.add(verdict["judge_id"])
        seen.add(outcome)
        hard_failed |= verdict["hard"] and outcome in _NEEDS_FAILURE
        if outcome != Outcome.SKIPPED.value:
            measured |= verdict["judge_id"] != REPLAY_CONTRACT
            total += verdict["weight"]
            achieved += verdict["weight"] if verdict["passed"] else 0.0
    if len(judges) != len(row["verdicts"]):
        return "has two verdicts of one judge"
    expected = next((outcome for outcome in _WORST_FIRST if outcome in seen), None)
    if expected is None:
        expected = Outcome.PASSED.value if measured else Outcome.SKIPPED.value
    if row["outcome"] != expected or row["passed"] != (expected == Outcome.PASSED.value):
        return f"outcome {row['outcome'][:40]!r} does not follow from its verdicts ({expected})"
    if row["hard_failed"] != hard_failed:
        return "hard_failed does not follow from its verdicts"
    if row["trial"] < 0:
        return "trial is negative"
    return _score_problem(row["score"], achieved / total if total else None)


def _score_problem(score: float | None, expected: float | None) -> str | None:
    if score is None or expected is None:
        agrees = score is expected
    else:
        agrees = math.isclose(score, expected, rel_tol=0, abs_tol=1e-9)
    return None if agrees else "score does not follow from its verdicts"


def _verdict_problem(verdict: VerdictRow, case_id: str) -> str | None:
    outcome, failure, score = verdict["outcome"], verdict["failure"], verdict["score"]
    if verdict["case_id"] != case_id:
        return "belongs to another case"
    if outcome not in _OUTCOMES:
        return f"unknown outcome {outcome[:40]!r}"
    if verdict["passed"] != (outcome == Outcome.PASSED.value):
        return "passed contradicts the outcome"
    if (failure is not None) != (outcome in _NEEDS_FAILURE):
        return "exactly failed and error verdicts carry a failure"
    if failure is not None and failure not in _FAILURES:
        return f"unknown failure {failure[:40]!r}"
    if score is not None and not 0 <= score <= 1:
        return "score is not between 0 and 1"
    return "weight is negative" if verdict["weight"] < 0 else None
