"""Patterns that the final output must show."""

from __future__ import annotations

from typing import Any

import orjson

from agent_eval.contracts import Case, Trace, Verdict
from agent_eval.errors import FailureKind
from agent_eval.judges.base import EVIDENCE_LIMIT, BaseJudge, JudgeConfig, clipped, listed, quoted
from agent_eval.judges.matching.re2 import check_pattern, is_found
from agent_eval.text.numbers import count


class RegexJudge(BaseJudge[JudgeConfig]):
    """Checks that each of the case's `regex_patterns` is found somewhere in the final output.

    Patterns are RE2's, case-sensitive unless they say `(?i)`. An output that is not a string is searched
    as its JSON text: no white space, keys in recorded order. The score is the share of patterns found.
    """

    judge_id = "regex"
    Config = JudgeConfig

    def check_case(self, case: Case) -> None:
        """Refuse patterns that RE2 cannot run."""
        for position, pattern in enumerate(case.regex_patterns):
            check_pattern(pattern, case_id=case.case_id, field=f"regex_patterns[{position}]")

    def evaluate(self, case: Case, trace: Trace) -> Verdict:
        """See the class."""
        patterns = case.regex_patterns
        if not patterns:
            return self.skipped(case, "the case has no patterns")
        event = trace.final_event
        if event is None:
            return self.error(
                case, "there is no final output to search for patterns", FailureKind.MISSING_OUTPUT
            )
        text = searchable_text(trace.final_output)
        missing = [pattern for pattern in patterns if not is_found(pattern, text)]
        if not missing:
            return self.passed(case, f"{count(len(patterns), 'pattern')} found in the final output")
        shown = listed((quoted(pattern) for pattern in missing), limit=3)
        return self.failed(
            case,
            f"the final output does not match {shown} (event {event.idx})",
            FailureKind.CONTRACT_VIOLATION,
            score=1 - len(missing) / len(patterns),
            refs=[event.idx],
            evidence={
                "missing_patterns": [clipped(pattern, 500) for pattern in missing[:EVIDENCE_LIMIT]],
                "pattern_count": len(patterns),
            },
        )


def searchable_text(output: Any) -> bytes:
    """UTF-8 of a string as it is, of anything else as its compact JSON text."""
    if isinstance(output, str):
        return output.encode()
    return orjson.dumps(output)
