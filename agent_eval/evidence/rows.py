"""Rows of a pack: parsed strictly, and checked against the contract and for contradictions.

Rows are plain dictionaries, because building models for every verdict of a large run takes longer than
comparing runs. They keep the JSON of the file, unknown fields included. Each is built when it is asked for.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, KeysView, Mapping, Sequence
from functools import cache, cached_property
from operator import itemgetter
from typing import Any, TypeVar, overload

from pydantic import TypeAdapter, ValidationError

from agent_eval.contracts import CaseIndexRow, CaseResultRow, Outcome, Tally, VerdictRow, case_policy, combine
from agent_eval.contracts.run import models_in, not_judged_in
from agent_eval.contracts.trials import TrialFacts, deciding_trial, is_unsafe
from agent_eval.contracts.verdict import FAULT, TrialResult, fault_of, is_lost
from agent_eval.errors import FailureKind, InvalidInput
from agent_eval.evidence.sources import invalid_pack
from agent_eval.storage.json import parse

_OUTCOMES = frozenset(outcome.value for outcome in Outcome)
_FAILURES = frozenset(kind.value for kind in FailureKind)
_NEEDS_FAILURE = frozenset((Outcome.FAILED.value, Outcome.ERROR.value))
_DECISIVE = itemgetter("judge_id", "outcome", "passed", "hard", "failure", "score", "weight")
_MOST_COMBINATIONS = 1_000
_FACTS = itemgetter("judge_id", "outcome", "hard", "weight")
"""Reads `contracts.verdict.VerdictFacts` from a row."""
_FINDING = itemgetter("judge_id", "outcome", "failure")
"""Reads `contracts.verdict.Finding` from a row."""
_PASSED = Outcome.PASSED.value
_AS_IN_THE_OLDEST = {"despite_errors": True, "count_skipped": True}


def parse_json(data: bytes, *, pack: str, path: str, first_line: int = 1) -> Any:
    """Parse a file of a pack as strict JSON; raise InvalidPack where it is none."""
    try:
        return parse(data, source=path, first_line=first_line)
    except InvalidInput as error:
        raise invalid_pack(pack, path, error.message.removeprefix(f"{path}: ")) from error


def lines_in(pieces: Iterable[bytes], *, pack: str, path: str) -> Iterator[bytes]:
    """Yield the lines of a JSON Lines file. An empty file has none; the last line ends like the others."""
    rest = bytearray()
    for piece in pieces:
        rest += piece
        if b"\n" in piece:
            *lines, last = bytes(rest).split(b"\n")
            yield from lines
            rest = bytearray(last)
    if rest:
        raise invalid_pack(pack, path, "does not end with a line feed")


def lines_of(data: bytes, *, pack: str, path: str) -> list[bytes]:
    """Return the lines of a JSON Lines file that is in memory."""
    return list(lines_in([data], pack=pack, path=path))


@cache
def _adapter(kind: type) -> TypeAdapter[Any]:
    return TypeAdapter(kind)


def _type_problem(row: Any, kind: type) -> str | None:
    """Find the first field of a row that a TypedDict does not allow; None without any. More may be there."""
    try:
        _adapter(kind).validate_python(row, strict=True)
    except ValidationError as error:
        return first_problem(error)
    return None


def first_problem(error: ValidationError) -> str:
    """Return the first problem that a validation found, with the path of its field."""
    first = error.errors(include_url=False, include_input=False)[0]
    place = ".".join(str(part)[:100] for part in first["loc"])
    return f"{place}: {first['msg']}" if place else first["msg"]


def index_rows(
    lines: Iterable[bytes], *, pack: str, path: str, first_line: int = 1
) -> Iterator[CaseIndexRow]:
    """Check rows of `run/index.jsonl` one by one, and yield them."""
    for number, line in enumerate(lines, first_line):
        row = parse_json(line, pack=pack, path=path, first_line=number)
        problem = _type_problem(row, CaseIndexRow)
        if problem is None and any(len(call) != 2 for call in row["calls"]):
            problem = "calls: must be pairs of strings"
        if problem is not None:
            raise invalid_pack(pack, path, f"line {number}: {problem}")
        yield row


class ResultChecker:
    """Check parsed case results and count them.

    Most results of a run differ in ids and reasons only, so the checker derives the result of a case once for
    every combination of outcomes.
    """

    def __init__(self, pack: str) -> None:
        self._pack = pack
        self._tally = Tally()
        self._alike: dict[tuple[Any, ...], list[Any]] = {}

    @cached_property
    def _trial_checker(self) -> ResultChecker:
        """Checker of the single trials, each as if it were a case; its counts are not used."""
        return ResultChecker(self._pack)

    def check(self, row: Any, path: str, number: int = 1) -> None:
        """Check a parsed case result, the one of this number in its file.

        Raises:
            InvalidPack: A field has the wrong type, or the case does not follow from its verdicts.
        """
        if problem := self._check_row(row):
            raise invalid_pack(self._pack, path, f"case {number} in it: {problem}")

    def tally(self) -> Tally:
        """Return the counts of everything that was checked so far."""
        self._count_alike()
        return self._tally

    def _count_alike(self) -> None:
        for row, count in self._alike.values():
            self._tally.add_row(row, count)
        self._alike.clear()

    def _check_row(self, row: Any) -> str | None:
        if problem := _type_problem(row, CaseResultRow):
            return problem
        case_id = row["case_id"]
        key = [row["outcome"], row["passed"], row["hard_failed"], row["score"], row["trial"], row.get(FAULT)]
        for verdict in row["verdicts"]:
            if verdict["case_id"] != case_id:
                return f"verdict of {verdict['judge_id'][:200]!r} belongs to another case"
            key.append(_DECISIVE(verdict))
            if verdict["evidence"]:
                key.append(not_judged_in(verdict["evidence"]))
                key.append(models_in(verdict["evidence"]))
        if row.get("trials"):
            for number, trial in enumerate(row["trials"]):
                alone: Any = {**trial, "case_id": case_id, "trial": 0, "case_policy": None, "trials": []}
                if problem := self._trial_checker._check_row(alone):
                    return f"trial {number}: {problem}"
            if problem := contradiction(row):
                return problem
            key.append(tuple(trial["outcome"] for trial in row["trials"]))
            key += (
                models_in(verdict["evidence"]) for trial in row["trials"] for verdict in trial["verdicts"]
            )
        elif row["trial"]:
            return "names a trial but has none"
        return self._count(tuple(key), row)

    def _count(self, key: tuple[Any, ...], row: CaseResultRow) -> str | None:
        alike = self._alike.get(key)
        if alike is not None:
            alike[1] += 1
            return None
        if problem := _inconsistency(row):
            return f"{row['case_id'][:200]!r}: {problem}"
        if len(self._alike) >= _MOST_COMBINATIONS:
            self._count_alike()
        self._alike[key] = [row, 1]
        return None


def _inconsistency(row: CaseResultRow) -> str | None:
    """Find the first contradiction between a case's result and its verdicts; None without any."""
    verdicts = row["verdicts"]
    for verdict in verdicts:
        if problem := _verdict_problem(verdict):
            return f"verdict of {verdict['judge_id'][:200]!r}: {problem}"
    if len({verdict["judge_id"] for verdict in verdicts}) != len(verdicts):
        return "has two verdicts of one judge"
    expected = combine(map(_FACTS, verdicts))
    if row["outcome"] != expected.outcome or row["passed"] != expected.passed:
        return f"outcome {row['outcome'][:40]!r} does not follow from its verdicts ({expected.outcome})"
    if row["hard_failed"] != expected.hard_failed:
        return "hard_failed does not follow from its verdicts"
    stated = row.get(FAULT)
    if stated is not None and stated != fault_of(row["outcome"], map(_FINDING, verdicts)):
        return f"fault {str(stated)[:40]!r} does not follow from its verdicts"
    score = row["score"]
    if score is None or expected.score is None:
        agrees = score is expected.score
    else:
        agrees = math.isclose(score, expected.score, rel_tol=0, abs_tol=1e-9)
    return None if agrees else "score does not follow from its verdicts"


def _verdict_problem(verdict: VerdictRow) -> str | None:
    outcome, failure, score = verdict["outcome"], verdict["failure"], verdict["score"]
    if outcome not in _OUTCOMES:
        return f"unknown outcome {outcome[:40]!r}"
    if verdict["passed"] != (outcome == _PASSED):
        return "passed contradicts the outcome"
    if (failure is not None) != (outcome in _NEEDS_FAILURE):
        return "exactly failed and error verdicts carry a failure"
    if failure is not None and failure not in _FAILURES:
        return f"unknown failure {failure[:40]!r}"
    if score is not None and not 0 <= score <= 1:
        return "score is not between 0 and 1"
    return "weight is negative" if verdict["weight"] < 0 else None


def contradiction(row: CaseResultRow) -> str | None:
    """Find the first contradiction between the result of a case and its checked trials; None without any."""
    stated = row.get("case_policy")
    if not isinstance(stated, str):
        return "has trials but no case_policy"
    try:
        policy = case_policy(stated)
    except InvalidInput as error:
        return error.message
    if len(row["trials"]) < 2:
        return "has a single trial beside itself"
    facts = [
        TrialFacts(
            trial["outcome"],
            is_unsafe((verdict["judge_id"], verdict["outcome"]) for verdict in trial["verdicts"]),
            # A pack of an older version states no fault, and was decided on without regard to it.
            is_lost=FAULT in trial and is_lost(trial),
        )
        for trial in row["trials"]
    ]
    number = deciding_trial(policy, facts)
    for older in ({"despite_errors": True}, {"count_skipped": True}, _AS_IN_THE_OLDEST):
        if row["trial"] == deciding_trial(policy, facts, **older):
            number = row["trial"]
    if row["trial"] != number:
        return f"trial {row['trial']} does not decide it, by {policy.text} trial {number} does"
    decides = row["trials"][number]
    if any(row.get(name) != decides.get(name) for name in TrialResult.model_fields):
        return f"does not say what trial {number} says, which decides it"
    return None


Row = TypeVar("Row")


class Rows(Sequence[Row]):
    """Rows of a pack, each built on access by its position; equal to any sequence of equal rows."""

    def __init__(self, count: int, build: Callable[[int], Row]) -> None:
        self._positions, self._build = range(count), build

    def __len__(self) -> int:
        return len(self._positions)

    @overload
    def __getitem__(self, position: int) -> Row: ...
    @overload
    def __getitem__(self, position: slice) -> list[Row]: ...
    def __getitem__(self, position: int | slice) -> Row | list[Row]:
        if isinstance(position, slice):
            return list(map(self._build, self._positions[position]))
        return self._build(self._positions[position])

    def __eq__(self, other: object) -> bool:
        return list(self) == list(other) if isinstance(other, Sequence) else NotImplemented

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"{type(self).__name__} of {len(self)} cases"


class RowsById(Mapping[str, Row]):
    """Rows of a pack by the id of their case, in suite order; each is built on access."""

    def __init__(self, positions: Mapping[str, int], build: Callable[[int], Row]) -> None:
        self._positions, self._build = positions, build

    def __getitem__(self, case_id: str) -> Row:
        return self._build(self._positions[case_id])

    def __iter__(self) -> Iterator[str]:
        return iter(self._positions)

    def __len__(self) -> int:
        return len(self._positions)

    def __contains__(self, case_id: object) -> bool:
        return case_id in self._positions

    def keys(self) -> KeysView[str]:
        """Return the ids, with the set operations of a dictionary's keys."""
        return self._positions.keys()
