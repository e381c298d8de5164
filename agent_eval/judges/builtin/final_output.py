"""Whether the agent said the expected thing in the end."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Literal

import orjson
from pydantic import BaseModel, ConfigDict, Field

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
from agent_eval.judges.matching.tool_calls import Rules, differences

FIELD = "final_output"
"""Where a case can say more than `expected_output`: this member of its metadata."""

Mode = Literal["exact", "contains", "number", "json"]

_NUMBER = r"[-+]?(?:\d{1,3}(?:,\d{3})+|\d+)(?:\.\d+)?(?:[eE][-+]?\d+)?"


class FinalOutputConfig(JudgeConfig):
    """What holds for cases that do not say it themselves."""

    mode: Mode = "exact"
    """
    How `expected_output` is compared. `exact`: text as it is, white space at the ends aside; any other
    value as `json`. `contains`: the output shows the expected text. `number`: the last number in the
    output is the expected one. `json`: the output, parsed where it is text, is the expected value.
    """
    ignore_case: bool = False
    """Compare text without regard to case."""
    tolerance: float = Field(default=0.0, ge=0)
    """By how much numbers may differ, absolutely."""


class ExpectedOutput(BaseModel):
    """What a case expects, in `metadata.final_output`. Everything that is set has to hold."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True, allow_inf_nan=False)

    mode: Mode | None = None
    ignore_case: bool | None = None
    tolerance: float | None = Field(default=None, ge=0)
    contains: list[str] = Field(default_factory=list)
    """Texts that the output shows."""
    not_contains: list[str] = Field(default_factory=list)
    """Texts that the output does not show."""
    ignore: list[str] = Field(default_factory=list)
    """Globs of places in a JSON value that are not compared."""


class FinalOutputJudge(BaseJudge[FinalOutputConfig]):
    """Compares the final output with the case's `expected_output` and with `metadata.final_output`.

    The output is what the agent said last. Where neither says anything it is skipped.
    """

    judge_id = "final_output"
    Config = FinalOutputConfig

    def check_case(self, case: Case) -> None:
        """Refuse an expectation that is malformed."""
        read_expectation(case, FIELD, ExpectedOutput)

    def evaluate(self, case: Case, trace: Trace) -> Verdict:
        """See the class."""
        wanted = read_expectation(case, FIELD, ExpectedOutput) or ExpectedOutput()
        if case.expected_output is None and not wanted.contains and not wanted.not_contains:
            return self.skipped(case, "the case expects no final output")
        event = trace.final_event
        if event is None:
            words = "there is no final output to compare"
            return self.error(case, words, FailureKind.MISSING_OUTPUT)
        try:
            problems = list(self._problems(case, wanted, trace.final_output))
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

    def _problems(self, case: Case, wanted: ExpectedOutput, output: Any) -> Iterator[str]:
        ignore_case = self.config.ignore_case if wanted.ignore_case is None else wanted.ignore_case
        text = _folded(_text(output), ignore_case)
        for part in wanted.contains:
            if _folded(part, ignore_case) not in text:
                yield f"the final output does not contain {quoted(part)}"
        for part in wanted.not_contains:
            if _folded(part, ignore_case) in text:
                yield f"the final output contains {quoted(part)}"
        if case.expected_output is not None:
            yield from self._against(case.expected_output, wanted, output, text, ignore_case)

    def _against(
        self, expected: Any, wanted: ExpectedOutput, output: Any, text: str, ignore_case: bool
    ) -> Iterator[str]:
        mode = wanted.mode or self.config.mode
        tolerance = self.config.tolerance if wanted.tolerance is None else wanted.tolerance
        if mode == "contains":
            if _folded(_text(expected), ignore_case) not in text:
                yield f"the final output does not contain {quoted(expected)}"
        elif mode == "number":
            yield from _number_problems(expected, text, tolerance)
        elif mode == "exact" and isinstance(expected, str):
            if text.strip() != _folded(expected, ignore_case).strip():
                yield f"the final output is {quoted(output)} instead of {quoted(expected)}"
        else:
            value = read_text(output, "the final output") if isinstance(output, str) else output
            rules = Rules(tolerance=tolerance, ignore=tuple(wanted.ignore))
            yield from (f"in the final output, {found}" for found in differences(expected, value, rules))


def _number_problems(expected: Any, text: str, tolerance: float) -> Iterator[str]:
    target, found = _last_number(_text(expected)), _last_number(text)
    if target is None:
        yield f"the expected output {quoted(expected)} is no number"
    elif found is None:
        yield f"the final output has no number; expected is {target:.12g}"
    elif abs(found - target) > tolerance:
        yield f"the last number in the final output is {found:.12g} instead of {target:.12g}"


def _last_number(text: str) -> float | None:
    numbers = compile_pattern(_NUMBER).findall(text)
    return float(numbers[-1].replace(",", "")) if numbers else None


def _text(value: Any) -> str:
    return value if isinstance(value, str) else orjson.dumps(value).decode()


def _folded(text: str, ignore_case: bool) -> str:
    return text.casefold() if ignore_case else text
