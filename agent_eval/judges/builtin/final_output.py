"""The `final_output` judge: compare the final output with the one that the case expects."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, Literal

import orjson
from pydantic import BaseModel, ConfigDict, Field, field_validator
from typing_extensions import override

from agent_eval.contracts import Case, Trace, Verdict
from agent_eval.contracts.trace import is_blank
from agent_eval.contracts.verdict import ANSWER_NOT_CHECKED
from agent_eval.errors import FailureKind, InvalidInput
from agent_eval.judges.base import (
    EVIDENCE_LIMIT,
    BaseJudge,
    JudgeConfig,
    VisibleText,
    clipped,
    listed,
    quoted,
    read_expectation,
)
from agent_eval.judges.matching.arguments import UnreadableText, read_text
from agent_eval.judges.matching.decimals import WrittenNumber, is_within, last_number
from agent_eval.judges.matching.re2 import check_pattern, compile_glob, is_found, refuse_unusable
from agent_eval.judges.matching.values import Rules, differences

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


class ExpectedOutput(BaseModel):
    """What a case expects, from its `metadata.final_output`. Every key that is set must hold."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True, allow_inf_nan=False)

    mode: TextMode | None = None
    ignore_case: bool | None = None
    tolerance: float | None = Field(default=None, ge=0)
    contains: list[VisibleText] = Field(default_factory=list)
    """Texts that the output must contain."""
    not_contains: list[VisibleText] = Field(default_factory=list)
    """Texts that the output must not contain."""
    ignore: list[str] = Field(default_factory=list)
    """Globs of places in a JSON value that are not compared."""

    @field_validator("ignore")
    @classmethod
    def _usable_globs(cls, globs: list[str]) -> list[str]:
        for glob in globs:
            refuse_unusable(compile_glob, glob)
        return globs


class FinalOutputJudge(BaseJudge[FinalOutputConfig]):
    """Compares the agent's last message with the case's `expected_output` and `metadata.final_output`.

    A case that sets neither is skipped, and so is a text that no mode says how to compare. An output in which
    nothing can be seen is an error, unless that is what the case expects: it contains nothing that it must
    not.

    Example:
        >>> from agent_eval.contracts import Case, Event, Trace
        >>> case = Case(case_id="total", expected_output=42)
        >>> trace = Trace([Event(idx=0, actor="agent", type="message", output="The total is 41 EUR.")])
        >>> FinalOutputJudge(FinalOutputConfig(mode="number")).evaluate(case, trace).reason
        'the last number in the final output is 41 instead of 42 (event 0)'
    """

    judge_id = "final_output"
    reads = frozenset({"expected_output", "metadata.final_output"})
    Config = FinalOutputConfig

    @override
    def check_case(self, case: Case) -> None:
        expected = read_expectation(case, FIELD, ExpectedOutput) or ExpectedOutput()
        mode = expected.mode or self.config.mode
        if case.expected_output is None:
            return
        if mode in _NUMBERS and _expected_number(case.expected_output) is None:
            raise _cannot_be_expected(case, "has no number", "Write the number alone, such as 1234.5.")
        if mode == "contains" and is_blank(_text(case.expected_output)):
            raise _cannot_be_expected(case, "is contained in every text", "Write the text to look for.")
        if mode == "regex":
            if not isinstance(case.expected_output, str) or not case.expected_output:
                raise _cannot_be_expected(case, "is no pattern", "Write a pattern of RE2, as a text.")
            check_pattern(case.expected_output, case_id=case.case_id, field="expected_output")

    @override
    def evaluate(self, case: Case, trace: Trace) -> Verdict:
        expected = read_expectation(case, FIELD, ExpectedOutput) or ExpectedOutput()
        unchecked = self._leaves_unchecked(case, expected)
        if not expected.contains and not expected.not_contains:
            if case.expected_output is None:
                return self.skipped(case, "the case expects no final output")
            if unchecked:
                return _with(self.skipped(case, _NOT_CHECKED), unchecked)
        return _with(self._compare(case, trace, expected), unchecked)

    def _leaves_unchecked(self, case: Case, expected: ExpectedOutput) -> bool:
        """Tell whether the case expects a text that no mode says how to compare."""
        mode = expected.mode or self.config.mode
        return mode == "values" and isinstance(case.expected_output, str)

    def _compare(self, case: Case, trace: Trace, expected: ExpectedOutput) -> Verdict:
        event = trace.final_event
        if event is None or (is_blank(event.content) and not _expects_blank(case)):
            return self.error(case, "there is no final output to compare", FailureKind.MISSING_OUTPUT)
        try:
            problems = list(self._problems(case, expected, trace.final_output))
        except UnreadableText as problem:
            words = f"the final output is not JSON: {problem} (event {event.idx})"
            return self.failed(case, words, FailureKind.PARSE_ERROR, refs=[event.idx])
        if not problems:
            return self.passed(case, "the final output is as expected")
        return self.failed(
            case,
            f"{listed((clipped(text, 180) for text in problems), limit=2)} (event {event.idx})",
            FailureKind.CONTRACT_VIOLATION,
            refs=[event.idx],
            evidence={"problems": problems[:EVIDENCE_LIMIT]},
        )

    def _problems(self, case: Case, expected: ExpectedOutput, output: Any) -> Iterator[str]:
        ignore_case = self.config.ignore_case if expected.ignore_case is None else expected.ignore_case
        text = _fold_case(_text(output), ignore_case)
        for part in expected.contains:
            if _fold_case(part, ignore_case) not in text:
                yield f"the final output does not contain {quoted(part)}"
        for part in expected.not_contains:
            if _fold_case(part, ignore_case) in text:
                yield f"the final output contains {quoted(part)}"
        if case.expected_output is not None and not self._leaves_unchecked(case, expected):
            yield from self._differences(case.expected_output, expected, output, text, ignore_case)

    def _differences(
        self, expected_output: Any, expected: ExpectedOutput, output: Any, text: str, ignore_case: bool
    ) -> Iterator[str]:
        mode = expected.mode or self.config.mode
        tolerance = self.config.tolerance if expected.tolerance is None else expected.tolerance
        if mode == "contains":
            if _fold_case(_text(expected_output), ignore_case) not in text:
                yield f"the final output does not contain {quoted(expected_output)}"
        elif mode == "regex":
            pattern = f"(?i:{expected_output})" if ignore_case else expected_output
            if not is_found(pattern, _text(output).encode("utf-8", "replace")):
                yield f"the final output does not match {quoted(expected_output)}"
        elif mode in _NUMBERS:
            yield from _number_problems(expected_output, output, tolerance)
        elif mode == "exact" and isinstance(expected_output, str):
            if text.strip() != _fold_case(expected_output, ignore_case).strip():
                yield f"the final output is {quoted(output)} instead of {quoted(expected_output)}"
        else:
            value = read_text(output, "the final output") if isinstance(output, str) else output
            rules = Rules(tolerance=tolerance, ignore=tuple(expected.ignore))
            for difference in differences(expected_output, value, rules):
                yield f"in the final output, {difference}"


_NUMBERS = ("number", "numeric")
_NOT_CHECKED = "answer not checked: expected_output is a text, and no mode says how to compare it"


def _with(verdict: Verdict, unchecked: bool) -> Verdict:
    if not unchecked:
        return verdict
    return verdict.model_copy(update={"evidence": {**verdict.evidence, ANSWER_NOT_CHECKED: True}})


def _expects_blank(case: Case) -> bool:
    return case.expected_output is not None and is_blank(case.expected_output)


def _number_problems(expected_output: Any, output: Any, tolerance: float) -> Iterator[str]:
    expected, actual = _expected_number(expected_output), _number(output)
    if expected is None or expected.value is None:
        yield f"the expected output {quoted(expected_output)} is not a number"
    elif actual is None:
        yield f"the final output has no number; expected is {expected.in_words()}"
    elif actual.value is None or not is_within(expected.value, actual.value, tolerance):
        words = f"{actual.in_words()} instead of {expected.in_words()}"
        yield f"the last number in the final output is {words}"


def _expected_number(expected_output: Any) -> WrittenNumber | None:
    number = _number(expected_output)
    return None if number is None or number.value is None else number


def _number(value: Any) -> WrittenNumber | None:
    """Return a number, or the last one in a text or in another JSON value; None if there is none."""
    if isinstance(value, str):
        return last_number(value)
    # The separators keep the members of a list apart: in [1,2] neither is part of the other.
    return last_number(json.dumps(value, separators=(" , ", " : ")))


def _cannot_be_expected(case: Case, problem: str, remedy: str) -> InvalidInput:
    return InvalidInput(
        f"case {quoted(case.case_id)}: expected_output {quoted(case.expected_output)} {problem}",
        remedy=remedy,
        case_id=case.case_id,
        field="expected_output",
    )


def _text(value: Any) -> str:
    return value if isinstance(value, str) else orjson.dumps(value).decode()


def _fold_case(text: str, ignore_case: bool) -> str:
    return text.casefold() if ignore_case else text
