"""The `final_output` judge: compare the final output with the one that the case expects."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import orjson
from pydantic import Field
from typing_extensions import override

from agent_eval.contracts import Case, Trace, Verdict
from agent_eval.contracts.trace import is_blank
from agent_eval.contracts.verdict import ANSWER_NOT_CHECKED
from agent_eval.errors import FailureKind
from agent_eval.judges.base import (
    EVIDENCE_LIMIT,
    BaseJudge,
    JudgeConfig,
    StrictModel,
    VisibleText,
    at_events,
    clipped,
    listed,
    quoted,
)
from agent_eval.judges.matching.arguments import UnreadableText, read_text
from agent_eval.judges.matching.decimals import WrittenNumber, is_within, last_number
from agent_eval.judges.matching.re2 import Globs, check_pattern, is_found
from agent_eval.judges.matching.values import Rules, differences
from agent_eval.judges.reading import read_expectation, refusal

FIELD = "final_output"
"""Member of a case's metadata that can hold more than `expected_output`: an `ExpectedOutput`."""

TextMode = Literal["exact", "contains", "regex", "number", "numeric", "json"]
"""How a case can have a text compared; `numeric` is another name of `number`."""

Mode = Literal["exact", "contains", "regex", "number", "numeric", "json", "values"]


class FinalOutputConfig(JudgeConfig):
    """Defaults for cases whose metadata does not set these keys."""

    mode: Mode = "exact"
    """
    How `expected_output` is compared. `exact`: text as it is, ignoring white space at both ends; any
    other value as `json`. `contains`: the output contains the expected text. `regex`: the expected
    text, a pattern of RE2, matches somewhere in the output. `number` or `numeric`: the last number in the
    output is the expected one. `json`: the output, parsed if it is text, equals the expected value.
    `values`: as `json`, and a text is not checked, unless its case names a mode.
    """
    ignore_case: bool = False
    """Whether to compare text case-insensitively."""
    tolerance: float = Field(default=0.0, ge=0)
    """Largest absolute difference between numbers that count as equal."""


class ExpectedOutput(StrictModel):
    """What a case expects, from its `metadata.final_output`. Every key that is set must hold."""

    mode: TextMode | None = None
    ignore_case: bool | None = None
    tolerance: float | None = Field(default=None, ge=0)
    contains: list[VisibleText] = Field(default_factory=list)
    """Texts that the output must contain."""
    not_contains: list[VisibleText] = Field(default_factory=list)
    """Texts that the output must not contain."""
    ignore: Globs = Field(default_factory=list)
    """Globs of places in a JSON value that are not compared."""


class FinalOutputJudge(BaseJudge[FinalOutputConfig]):
    """Compares the agent's last message with the case's `expected_output` and `metadata.final_output`.

    The answer to each turn is compared with the turn's `expected_output` in the same way. A case that expects
    nothing is skipped, and so is a text that no mode says how to compare. An output in which nothing can be
    seen is an error, unless that is what the case expects: it contains nothing that it must not. One that was
    not recorded is inconclusive.
    """

    judge_id = "final_output"
    reads = frozenset({"expected_output", "metadata.final_output", "turns.expected_output"})
    Config = FinalOutputConfig

    @override
    def check_case(self, case: Case) -> None:
        for check in self._checks(case):
            self._refuse_unusable(case, check)

    def _refuse_unusable(self, case: Case, check: _Check) -> None:
        wanted, problem = check.wanted, None
        if wanted is None:
            return
        if check.mode in _NUMBERS and _expected_number(wanted) is None:
            problem = "has no number", "Write the number alone, such as 1234.5."
        elif check.mode == "contains" and is_blank(_text(wanted)):
            problem = "is contained in every text", "Write the text to look for."
        elif check.mode == "regex" and (not isinstance(wanted, str) or not wanted):
            problem = "is no pattern", "Write a pattern of RE2, as a text."
        if problem is not None:
            words, remedy = problem
            raise refusal(case.case_id, check.field, f"{check.field} {quoted(wanted)} {words}", remedy)
        if check.mode == "regex":
            check_pattern(wanted, case_id=case.case_id, field=check.field)

    @override
    def evaluate(self, case: Case, trace: Trace) -> Verdict:
        checks = self._checks(case)
        unchecked = any(check.leaves_unchecked for check in checks)
        checks = [check for check in checks if check.checks_something]
        if not checks:
            words = _NOT_CHECKED if unchecked else "the case expects no final output"
            return _with(self.skipped(case, words), unchecked)
        turns = {turn.number: turn.trace for turn in trace.turns} if case.turns else {}
        all_findings = [
            _findings(check, trace if check.turn is None else turns.get(check.turn)) for check in checks
        ]
        return _with(self._verdict_on(case, checks, all_findings), unchecked)

    def _checks(self, case: Case) -> list[_Check]:
        """List what the case expects: of its last answer first, then of the answer to each turn."""
        expected = read_expectation(case, FIELD, ExpectedOutput) or ExpectedOutput()
        mode: Mode = expected.mode or self.config.mode
        ignore_case = self.config.ignore_case if expected.ignore_case is None else expected.ignore_case
        tolerance = self.config.tolerance if expected.tolerance is None else expected.tolerance
        whole = _Check(case.expected_output, expected, mode, ignore_case, tolerance)
        if not case.turns:
            return [whole]
        of_each = replace(whole, expected=expected.model_copy(update={"contains": [], "not_contains": []}))
        return [
            whole,
            *(
                replace(of_each, wanted=turn.expected_output, turn=number)
                for number, turn in enumerate(case.turns, 1)
            ),
        ]

    def _verdict_on(self, case: Case, checks: list[_Check], all_findings: list[_Findings]) -> Verdict:
        turns = [
            {
                "turn": check.turn,
                "event": findings.idx,
                "outcome": "failed" if findings.problems else "missing" if findings.missing else "passed",
            }
            for check, findings in zip(checks, all_findings, strict=True)
            if check.turn is not None
        ]
        evidence: dict[str, Any] = {"turns": turns[:EVIDENCE_LIMIT]} if turns else {}
        problems = [problem for findings in all_findings for problem in findings.problems]
        missing = [findings for findings in all_findings if findings.missing]
        if not problems and missing:
            return self.no_output(case, missing[0].trace, missing[0].missing, evidence=evidence)
        if not problems:
            return self.passed(case, "the final output is as expected", evidence=evidence)
        words = [*problems, *(findings.missing for findings in missing)]
        kinds = [findings.failure for findings in all_findings if findings.problems]
        refs = [findings.idx for findings in all_findings if findings.problems and findings.idx is not None]
        place = at_events(refs)
        return self.failed(
            case,
            f"{listed((clipped(text, 180) for text in words), limit=2)}{place}",
            FailureKind.PARSE_ERROR if FailureKind.PARSE_ERROR in kinds else FailureKind.CONTRACT_VIOLATION,
            score=sum(not (findings.problems or findings.missing) for findings in all_findings)
            / len(all_findings),
            refs=refs,
            evidence={"problems": words[:EVIDENCE_LIMIT], **evidence},
        )


@dataclass(frozen=True, slots=True)
class _Check:
    """One expectation of a case: of its last answer, or of the answer to one turn."""

    wanted: Any
    expected: ExpectedOutput
    mode: Mode
    ignore_case: bool
    tolerance: float
    turn: int | None = None

    @property
    def leaves_unchecked(self) -> bool:
        """Whether the case expects a text that no mode says how to compare."""
        return self.mode == "values" and isinstance(self.wanted, str)

    @property
    def compares(self) -> bool:
        return self.wanted is not None and not self.leaves_unchecked

    @property
    def checks_something(self) -> bool:
        return self.compares or bool(self.expected.contains or self.expected.not_contains)

    @property
    def what(self) -> str:
        return "the final output" if self.turn is None else f"turn {self.turn}: the output"

    @property
    def field(self) -> str:
        return "expected_output" if self.turn is None else f"turns[{self.turn - 1}].expected_output"


@dataclass(frozen=True, slots=True)
class _Findings:
    """What a check all_findings: problems, or in `missing` why there is nothing to compare."""

    trace: Trace
    problems: list[str] = field(default_factory=list)
    missing: str = ""
    failure: FailureKind = FailureKind.CONTRACT_VIOLATION

    @property
    def idx(self) -> int | None:
        return None if self.trace.final_event is None else self.trace.final_event.idx


def _findings(check: _Check, trace: Trace | None) -> _Findings:
    if trace is None:
        return _Findings(Trace([]), missing=f"turn {check.turn}: the conversation ended before it")
    output = trace.final_output
    expects_blank = check.wanted is not None and is_blank(check.wanted)
    if output is None or (is_blank(output) and not expects_blank):
        words = "there is no final output to compare"
        return _Findings(trace, missing=words if check.turn is None else f"turn {check.turn}: {words}")
    try:
        return _Findings(trace, list(_problems(check, output)))
    except UnreadableText as problem:
        return _Findings(trace, [f"{check.what} is not JSON: {problem}"], failure=FailureKind.PARSE_ERROR)


def _problems(check: _Check, output: Any) -> Iterator[str]:
    text = _fold_case(_text(output), check.ignore_case)
    for part in check.expected.contains:
        if _fold_case(part, check.ignore_case) not in text:
            yield f"{check.what} does not contain {quoted(part)}"
    for part in check.expected.not_contains:
        if _fold_case(part, check.ignore_case) in text:
            yield f"{check.what} contains {quoted(part)}"
    if check.compares:
        yield from _differences(check, output, text)


def _differences(check: _Check, output: Any, text: str) -> Iterator[str]:
    wanted, mode = check.wanted, check.mode
    if mode == "contains":
        if _fold_case(_text(wanted), check.ignore_case) not in text:
            yield f"{check.what} does not contain {quoted(wanted)}"
    elif mode == "regex":
        pattern = f"(?i:{wanted})" if check.ignore_case else wanted
        if not is_found(pattern, _text(output).encode("utf-8", "replace")):
            yield f"{check.what} does not match {quoted(wanted)}"
    elif mode in _NUMBERS:
        yield from _number_problems(check, output)
    elif mode == "exact" and isinstance(wanted, str):
        if text.strip() != _fold_case(wanted, check.ignore_case).strip():
            yield f"{check.what} is {quoted(output)} instead of {quoted(wanted)}"
    else:
        value = read_text(output, "the final output") if isinstance(output, str) else output
        rules = Rules(tolerance=check.tolerance, ignore=tuple(check.expected.ignore))
        for difference in differences(wanted, value, rules):
            yield f"in {check.what}, {difference}" if check.turn is None else f"{check.what}: {difference}"


_NUMBERS = ("number", "numeric")
_NOT_CHECKED = "answer not checked: expected_output is a text, and no mode says how to compare it"


def _with(verdict: Verdict, unchecked: bool) -> Verdict:
    if not unchecked:
        return verdict
    return verdict.model_copy(update={"evidence": {**verdict.evidence, ANSWER_NOT_CHECKED: True}})


def _number_problems(check: _Check, output: Any) -> Iterator[str]:
    expected, actual = _expected_number(check.wanted), _number(output)
    if expected is None or expected.value is None:
        yield f"the expected output {quoted(check.wanted)} is not a number"
    elif actual is None:
        yield f"{check.what} has no number; expected is {expected.in_words()}"
    elif actual.value is None or not is_within(expected.value, actual.value, check.tolerance):
        words = f"{actual.in_words()} instead of {expected.in_words()}"
        place = "" if check.turn is None else f"turn {check.turn}: "
        yield f"{place}the last number in the {'final ' if not place else ''}output is {words}"


def _expected_number(expected_output: Any) -> WrittenNumber | None:
    number = _number(expected_output)
    return None if number is None or number.value is None else number


def _number(value: Any) -> WrittenNumber | None:
    """Return a number, or the last one in a text or in another JSON value; None if there is none."""
    if isinstance(value, str):
        return last_number(value)
    # The separators keep the members of a list apart: in [1,2] neither is part of the other.
    return last_number(json.dumps(value, separators=(" , ", " : ")))


def _text(value: Any) -> str:
    return value if isinstance(value, str) else orjson.dumps(value).decode()


def _fold_case(text: str, ignore_case: bool) -> str:
    return text.casefold() if ignore_case else text
