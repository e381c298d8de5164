"""The `final_output` judge: compare the final output with the one that the case expects."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from decimal import Decimal
from typing import Any, Literal

from pydantic import Field
from typing_extensions import override

from agent_eval.contracts import Case, Trace, Verdict
from agent_eval.contracts.trace import is_blank
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
from agent_eval.judges.matching.re2 import Globs, check_pattern, is_found
from agent_eval.judges.matching.values import (
    Rules,
    differences,
    is_within,
    searchable_text,
    unseen_difference,
)
from agent_eval.judges.reading import UnreadableText, is_fenced, read_answer, read_expectation, refusal

FIELD = "final_output"
"""Member of a case's metadata that can hold more than `expected_output`: an `ExpectedOutput`."""

Mode = Literal["exact", "contains", "regex", "number", "numeric", "json"]
"""How a case can have a text compared; `numeric` is another name of `number`."""


class FinalOutputConfig(JudgeConfig):
    """Defaults for cases whose metadata does not set these keys."""

    mode: Mode = "exact"
    """
    How `expected_output` is compared. `exact`: text as it is, ignoring white space at both ends; any
    other value as `json`. `contains`: the output contains the expected text. `regex`: the expected
    text, a pattern of RE2, matches somewhere in the output. `number` or `numeric`: the last number in the
    output is the expected one. `json`: the output, parsed if it is text, equals the expected value.
    """
    ignore_case: bool = False
    """Whether to compare text case-insensitively."""
    tolerance: float = Field(default=0.0, ge=0)
    """Largest absolute difference between numbers that count as equal."""


class ExpectedOutput(StrictModel):
    """What a case expects, from its `metadata.final_output`. Every key that is set must hold."""

    mode: Mode | None = None
    ignore_case: bool | None = None
    tolerance: float | None = Field(default=None, ge=0)
    contains: list[VisibleText] = Field(default_factory=list)
    """Texts that the output must contain."""
    not_contains: list[VisibleText] = Field(default_factory=list)
    """Texts that the output must not contain."""
    ignore: Globs = Field(default_factory=list)
    """Globs of places in a JSON value that are not compared."""
    code_fence: bool = False
    """Whether JSON is read from the one code fence of an answer, here and by `json_schema`."""


class FinalOutputJudge(BaseJudge[FinalOutputConfig]):
    """Compares the agent's last message with the case's `expected_output` and `metadata.final_output`.

    The answer to each turn is compared with the turn's `expected_output` in the same way. A case that expects
    nothing is skipped. A text that no mode says how to compare is compared exactly, and a failure says so. An
    output in which nothing can be seen is an error, unless that is what the case expects: it contains nothing
    that it must not. One that was not recorded is inconclusive.
    """

    judge_id = "final_output"
    reads = frozenset({"expected_output", "metadata.final_output", "turns.expected_output"})
    reads_answer = True
    Config = FinalOutputConfig

    @override
    def check_case(self, case: Case) -> None:
        for check in self._checks(case):
            wanted, mode, problem = check.wanted, check.mode, None
            if wanted is None:
                continue
            number = _number(wanted) if mode == "number" else None
            if mode == "number" and (number is None or number.value is None):
                problem = "has no number", "Write the number alone, such as 1234.5."
            elif mode == "contains" and is_blank(_text(wanted)):
                problem = "is contained in every text", "Write the text to look for."
            elif mode == "regex" and (not isinstance(wanted, str) or not wanted):
                problem = "is no pattern", "Write a pattern of RE2, as a text."
            if problem is not None:
                words, remedy = problem
                raise refusal(case.case_id, check.field, f"{check.field} {quoted(wanted)} {words}", remedy)
            if mode == "regex":
                check_pattern(wanted, case_id=case.case_id, field=check.field)

    @override
    def evaluate(self, case: Case, trace: Trace) -> Verdict:
        checks = [
            check
            for check in self._checks(case)
            if check.wanted is not None or check.expected.contains or check.expected.not_contains
        ]
        if not checks:
            return self.skipped(case, "the case expects no final output")
        traces: dict[int | None, Trace] = {None: trace}
        traces |= {turn.number: turn.trace for turn in trace.turns} if case.turns else {}
        checked = [(check.turn, check.findings(traces.get(check.turn))) for check in checks]
        turns = [
            {
                "turn": turn,
                "event": findings.idx,
                "outcome": "failed" if findings.problems else "missing" if findings.missing else "passed",
            }
            for turn, findings in checked
            if turn is not None
        ]
        evidence: dict[str, Any] = {"turns": turns[:EVIDENCE_LIMIT]} if turns else {}
        broken = [findings for _, findings in checked if findings.problems]
        missing = [findings for _, findings in checked if findings.missing]
        if not broken and missing:
            return self.no_output(case, missing[0].trace, missing[0].missing, evidence=evidence)
        if not broken:
            fence = ", read from its code fence" if any(each.reads_fence for _, each in checked) else ""
            return self.passed(case, f"the final output is as expected{fence}", evidence=evidence)
        words = [problem for findings in broken for problem in findings.problems]
        words += [findings.missing for findings in missing]
        kinds = {findings.failure for findings in broken}
        refs = [findings.idx for findings in broken if findings.idx is not None]
        return self.failed(
            case,
            f"{listed((clipped(text, 180) for text in words), limit=2)}{at_events(refs)}",
            FailureKind.PARSE_ERROR if FailureKind.PARSE_ERROR in kinds else FailureKind.CONTRACT_VIOLATION,
            score=(len(checked) - len(broken) - len(missing)) / len(checked),
            refs=refs,
            evidence={"problems": words[:EVIDENCE_LIMIT], **evidence},
        )

    def _checks(self, case: Case) -> list[_Check]:
        """List what the case expects: of its last answer first, then of the answer to each turn."""
        expected = read_expectation(case, FIELD, ExpectedOutput) or ExpectedOutput()
        mode: Mode = expected.mode or self.config.mode
        ignore_case = self.config.ignore_case if expected.ignore_case is None else expected.ignore_case
        tolerance = self.config.tolerance if expected.tolerance is None else expected.tolerance
        mode = "number" if mode == "numeric" else mode
        has_mode = expected.mode is not None or "mode" in self.config.model_fields_set
        note = "" if has_mode else " (expected_output without a mode: compared exactly)"
        checks = [_Check(case.expected_output, expected, mode, ignore_case, tolerance, note)]
        for number, turn in enumerate(case.turns, 1):
            of_turn = expected.model_copy(update={"contains": [], "not_contains": []})
            checks.append(replace(checks[0], expected=of_turn, wanted=turn.expected_output, turn=number))
        return checks


@dataclass(frozen=True, slots=True)
class _Findings:
    """What a check found: problems, or in `missing` why there is nothing to compare."""

    trace: Trace
    problems: list[str] = field(default_factory=list)
    missing: str = ""
    failure: FailureKind = FailureKind.CONTRACT_VIOLATION
    reads_fence: bool = False
    """Whether the answer is compared as JSON of its code fence."""

    @property
    def idx(self) -> int | None:
        return None if self.trace.final_event is None else self.trace.final_event.idx


@dataclass(frozen=True, slots=True)
class _Check:
    """One expectation of a case: of its last answer, or of the answer to one turn."""

    wanted: Any
    expected: ExpectedOutput
    mode: Mode
    ignore_case: bool
    tolerance: float
    note: str
    """What to say of a text that is not as expected."""
    turn: int | None = None

    @property
    def field(self) -> str:
        return "expected_output" if self.turn is None else f"turns[{self.turn - 1}].expected_output"

    def findings(self, trace: Trace | None) -> _Findings:
        """Compare the final output of a trace; None is a turn that did not come."""
        turn = "" if self.turn is None else f"turn {self.turn}: "
        if trace is None:
            return _Findings(Trace([]), missing=f"{turn}the conversation ended before it")
        output = trace.final_output
        expects_blank = self.wanted is not None and is_blank(self.wanted)
        if output is None or (is_blank(output) and not expects_blank):
            return _Findings(trace, missing=f"{turn}there is no final output to compare")
        what = f"{turn}the output" if turn else "the final output"
        is_json = self.mode == "json" or not isinstance(self.wanted, str)
        fenced = self.expected.code_fence and is_json and is_fenced(output)
        try:
            problems = list(self._problems(output, what))
        except UnreadableText as problem:
            words, kind = f"{what} is not JSON: {problem}", FailureKind.PARSE_ERROR
            return _Findings(trace, [words], failure=kind, reads_fence=fenced)
        # In the last turn no judge passes it; from another one the conversation went on.
        event = None if self.turn is None or problems else trace.final_event
        was_cut = event is not None and event.stop is not None
        whole = f"{turn}there is no whole output to compare" if was_cut else ""
        return _Findings(trace, problems, missing=whole, reads_fence=fenced)

    def _problems(self, output: Any, what: str) -> Iterator[str]:
        text, wanted, mode = self._folded(_text(output)), self.wanted, self.mode
        for part in self.expected.contains:
            yield from self._contained_in(text, part, what)
        for part in self.expected.not_contains:
            if self._folded(part) in text:
                yield f"{what} contains {quoted(part)}"
        if wanted is None:
            return
        if mode == "contains":
            yield from self._contained_in(text, wanted, what)
        elif mode == "regex":
            pattern = f"(?i:{wanted})" if self.ignore_case else wanted
            if not is_found(pattern, _text(output).encode("utf-8", "replace")):
                yield f"{what} does not match {quoted(wanted)}"
        elif mode == "number":
            expected, actual = _number(wanted), _number(output)
            if expected is None or expected.value is None:
                yield f"the expected output {quoted(wanted)} is not a number"
            elif actual is None:
                yield f"{what} has no number; expected is {expected.in_words()}"
            elif actual.value is None or not is_within(expected.value, actual.value, self.tolerance):
                place = what.replace("the ", "the last number in the ", 1)
                yield f"{place} is {actual.in_words()} instead of {expected.in_words()}"
        elif mode == "exact" and isinstance(wanted, str):
            if text.strip() != self._folded(wanted).strip():
                unseen = unseen_difference(self._folded(wanted).strip(), text.strip())
                note = f", which differs only in {unseen}" if unseen else self.note
                yield f"{what} is {quoted(output)} instead of {quoted(wanted)}{note}"
        else:
            value = read_answer(output, in_fence=self.expected.code_fence)
            rules = Rules(tolerance=self.tolerance, ignore=tuple(self.expected.ignore))
            for difference in differences(wanted, value, rules):
                yield f"in {what}, {difference}" if self.turn is None else f"{what}: {difference}"

    def _contained_in(self, text: str, part: Any, what: str) -> Iterator[str]:
        wanted = self._folded(_text(part))
        if wanted not in text:
            unseen = unseen_difference(wanted, text, lambda part, text: part in text)
            yield f"{what} does not contain {quoted(part)}{f'; it does but for {unseen}' if unseen else ''}"

    def _folded(self, text: str) -> str:
        return text.casefold() if self.ignore_case else text


def _text(value: Any) -> str:
    return value if isinstance(value, str) else searchable_text(value).decode()


def _number(value: Any) -> WrittenNumber | None:
    """Return a number, or the last one in a text or in another JSON value; None if there is none."""
    if isinstance(value, str):
        return last_number(value)
    # The separators keep the members of a list apart: in [1,2] neither is part of the other.
    return last_number(json.dumps(value, separators=(" , ", " : ")))


@dataclass(frozen=True, slots=True)
class WrittenNumber:
    """A number as a text has it; `value` is None if the text there cannot be read as one decimal."""

    text: str
    value: Decimal | None

    def in_words(self) -> str:
        """Return the number, or the text that cannot be read as one."""
        if self.value is None:
            return f"{quoted(self.text)}, which cannot be read as one number"
        return clipped(str(self.value), 40)


def last_number(text: str) -> WrittenNumber | None:
    """Return the last number in a text; None if it has none.

    A number is a decimal with an optional sign, exponent and separators of thousands: -7, 1,234.50, 6e-3. It
    is read as a whole: `3-5`, `12:30`, `1,5`, `5kg` and `5` with a Chinese multiplier are no single decimals,
    so they have no value. A word with a digit in it, such as `gpt4`, is a word; other Chinese, Japanese and
    Korean characters are none of a number. A sign before that of a currency is the number's.

    Example:
        >>> last_number("It costs $1,234.50, says gpt4.").value, last_number("残高は-¥42です").value
        (Decimal('1234.50'), Decimal('-42'))
    """
    joined = _DASH_AFTER_A_WORD.sub(" ", _SPACE_OF_THOUSANDS.sub("", text.translate(_NARROW)))
    joined = _SIGN_OF_MONEY.sub(r"\g<money>\g<sign>", joined)
    for token in reversed(_find_tokens(joined)):
        label = _LABEL.match(token)
        written = token[label.end() if label else 0 :].strip(_EDGES).rstrip(".,")
        if _HAS_DIGIT(written) and not written[0].isalpha():
            # Bounded, because exact arithmetic with 1e999999999 would need a gigabyte.
            match = _NUMBER.fullmatch(written) if len(written) <= 400 else None
            if match is None or len(match["exponent"] or "") > 3:
                return WrittenNumber(written, None)
            digits = _SEPARATORS.sub("", written).replace("\N{MINUS SIGN}", "-")
            return WrittenNumber(written, Decimal(digits))
    return None


_EDGES = "'\u2019:,_"
"""What may surround a number without being part of it; a full stop may only follow."""

_NUMBER = re.compile(
    r"[-+\N{MINUS SIGN}]?"
    r"(?:[0-9]{1,3}(?:,[0-9]{3})+|[0-9]{1,3}(?:['\u2019][0-9]{3})+|[0-9]+|(?=\.))"
    r"(?:\.[0-9]+)?(?:[eE][-+]?0*(?P<exponent>[0-9]+))?"
)
_SEPARATORS = re.compile("[,'\u2019]")
_SPACE_OF_THOUSANDS = re.compile("(?<=[0-9])[\u00a0\u2009\u202f](?=[0-9]{3}(?![0-9]))")
_DASH_AFTER_A_WORD = re.compile(r"(?<=[^\W\d])\N{EM DASH}")
_LABEL = re.compile(r"[^\W\d]\w*:")
_HAS_DIGIT = re.compile("[0-9]").search
_NARROW = {wide: wide - 0xFEE0 for wide in range(0xFF01, 0xFF5F)}
"""Full-width signs and digits, as East Asian texts have them, by those of ASCII."""
_MONEY = (
    "$\xa2-\xa5\u058f\u060b\u07fe\u07ff\u09f2\u09f3\u09fb\u0af1\u0bf9\u0e3f\u17db\u20a0-\u20cf\ua838\ufdfc\ufe69"
    "\uffe0\uffe1\uffe5\uffe6"
)
"""Signs of currencies, which Unicode has as the category Sc."""
_SIGN_OF_MONEY = re.compile(
    rf"(?<![0-9A-Za-z.])(?P<sign>[-+\N{{MINUS SIGN}}])(?P<money>[A-Z]{{0,3}}[{_MONEY}]) ?(?=[0-9.])"
)
_CJK = (
    "\u1100-\u11ff\u2e80-\u2fdf\u3000-\u303f\u3040-\u30ff\u3100-\u318f\u31a0-\u31bf\u31f0-\u31ff\u3200-\u33ff"
    "\u3400-\u4dbf\u4e00-\u9fff\ua960-\ua97f\uac00-\ud7ff\uf900-\ufaff\uff5f-\uffdc\U00020000-\U0003ffff"
)
_MULTIPLIERS = "十百千万萬亿億兆십백천만억조"
# Everything that can be between a number and its neighbours; what is left over may be part of a number.
_find_tokens = re.compile(
    rf"(?:[^\s()\[\]{{}}<>\"\u201c\u201d\u2018`=;|%\xb0*~#\u2026!?\\{_MONEY}{_CJK}]|(?<=[0-9])[{_MULTIPLIERS}])+"
).findall
