"""The `final_output` judge: compare the final output with the one that the case expects."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Literal

import orjson
from pydantic import BaseModel, ConfigDict, Field
from typing_extensions import override

from agent_eval.contracts import Case, Trace, Verdict
from agent_eval.errors import FailureKind
from agent_eval.judges.base import (
    EVIDENCE_LIMIT,
    BaseJudge,
    JudgeConfig,
    clipped,
    listed,
    quoted,
    read_expectation,
)
from agent_eval.judges.matching.arguments import UnreadableText, read_text
from agent_eval.judges.matching.re2 import compile_pattern
from agent_eval.judges.matching.values import Rules, differences

FIELD = "final_output"
"""Member of a case's metadata that can hold more than `expected_output`: an `ExpectedOutput`."""

Mode = Literal["exact", "contains", "number", "json"]


class FinalOutputConfig(JudgeConfig):
    """Defaults for cases whose metadata does not set these keys."""

    mode: Mode = "exact"
    """
    How `expected_output` is compared. `exact`: text as it is, ignoring white space at both ends; any
    other value as `json`. `contains`: the output contains the expected text. `number`: the last number in
    the output is the expected one. `json`: the output, parsed if it is text, equals the expected value.
    """
    ignore_case: bool = False
    """Whether to compare text case-insensitively."""
    tolerance: float = Field(default=0.0, ge=0)
    """Largest absolute difference between numbers that count as equal."""


class ExpectedOutput(BaseModel):
    """What a case expects, from its `metadata.final_output`. Every key that is set must hold."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True, allow_inf_nan=False)

    mode: Mode | None = None
    ignore_case: bool | None = None
    tolerance: float | None = Field(default=None, ge=0)
    contains: list[str] = Field(default_factory=list)
    """Texts that the output must contain."""
    not_contains: list[str] = Field(default_factory=list)
    """Texts that the output must not contain."""
    ignore: list[str] = Field(default_factory=list)
    """Globs of places in a JSON value that are not compared."""


class FinalOutputJudge(BaseJudge[FinalOutputConfig]):
    """Compares the agent's last message with the case's `expected_output` and `metadata.final_output`.

    A case that sets neither is skipped.

    Example:
        >>> from agent_eval.contracts import Case, Event, Trace
        >>> case = Case(case_id="total", expected_output=42)
        >>> trace = Trace([Event(idx=0, actor="agent", type="message", output="The total is 41 EUR.")])
        >>> FinalOutputJudge(FinalOutputConfig(mode="number")).evaluate(case, trace).reason
        'the last number in the final output is 41 instead of 42 (event 0)'
    """

    judge_id = "final_output"
    Config = FinalOutputConfig

    @override
    def check_case(self, case: Case) -> None:
        read_expectation(case, FIELD, ExpectedOutput)

    @override
    def evaluate(self, case: Case, trace: Trace) -> Verdict:
        expected = read_expectation(case, FIELD, ExpectedOutput) or ExpectedOutput()
        if case.expected_output is None and not expected.contains and not expected.not_contains:
            return self.skipped(case, "the case expects no final output")
        event = trace.final_event
        if event is None:
            words = "there is no final output to compare"
            return self.error(case, words, FailureKind.MISSING_OUTPUT)
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
        if case.expected_output is not None:
            yield from self._differences(case.expected_output, expected, output, text, ignore_case)

    def _differences(
        self, expected_output: Any, expected: ExpectedOutput, output: Any, text: str, ignore_case: bool
    ) -> Iterator[str]:
        mode = expected.mode or self.config.mode
        tolerance = self.config.tolerance if expected.tolerance is None else expected.tolerance
        if mode == "contains":
            if _fold_case(_text(expected_output), ignore_case) not in text:
                yield f"the final output does not contain {quoted(expected_output)}"
        elif mode == "number":
            yield from _number_problems(expected_output, text, tolerance)
        elif mode == "exact" and isinstance(expected_output, str):
            if text.strip() != _fold_case(expected_output, ignore_case).strip():
                yield f"the final output is {quoted(output)} instead of {quoted(expected_output)}"
        else:
            value = read_text(output, "the final output") if isinstance(output, str) else output
            rules = Rules(tolerance=tolerance, ignore=tuple(expected.ignore))
            for difference in differences(expected_output, value, rules):
                yield f"in the final output, {difference}"


_NUMBER = r"[-+]?(?:\d{1,3}(?:,\d{3})+|\d+)(?:\.\d+)?(?:[eE][-+]?\d+)?"


def _number_problems(expected_output: Any, text: str, tolerance: float) -> Iterator[str]:
    expected, actual = _last_number(_text(expected_output)), _last_number(text)
    if expected is None:
        yield f"the expected output {quoted(expected_output)} is not a number"
    elif actual is None:
        yield f"the final output has no number; expected is {expected:.12g}"
    elif abs(actual - expected) > tolerance:
        yield f"the last number in the final output is {actual:.12g} instead of {expected:.12g}"


def _last_number(text: str) -> float | None:
    numbers = compile_pattern(_NUMBER).findall(text)
    return float(numbers[-1].replace(",", "")) if numbers else None


def _text(value: Any) -> str:
    return value if isinstance(value, str) else orjson.dumps(value).decode()


def _fold_case(text: str, ignore_case: bool) -> str:
    return text.casefold() if ignore_case else text
