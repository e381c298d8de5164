"""The `regex` judge: search the final output for the case's patterns."""

from __future__ import annotations

from typing_extensions import override

from agent_eval.contracts import Case, Trace, Verdict
from agent_eval.contracts.trace import is_blank
from agent_eval.errors import FailureKind
from agent_eval.judges.base import EVIDENCE_LIMIT, BaseJudge, JudgeConfig, clipped, listed, quoted
from agent_eval.judges.matching.re2 import check_pattern, is_found
from agent_eval.judges.matching.values import searchable_text
from agent_eval.judges.reading import blank_entry
from agent_eval.text.numbers import count


class RegexJudge(BaseJudge[JudgeConfig]):
    """Checks that each of the case's `regex_patterns` matches somewhere in the final output.

    Patterns are RE2's, case-sensitive unless they contain `(?i)`. The judge searches an output that is
    not a string as its JSON text: no white space, keys in recorded order. The score is the share of
    patterns that match.
    """

    judge_id = "regex"
    reads = frozenset({"regex_patterns"})
    reads_answer = True

    @override
    def check_case(self, case: Case) -> None:
        for position, pattern in enumerate(case.regex_patterns):
            if not pattern:
                raise blank_entry(case, f"regex_patterns[{position}]")
            check_pattern(pattern, case_id=case.case_id, field=f"regex_patterns[{position}]")

    @override
    def evaluate(self, case: Case, trace: Trace) -> Verdict:
        patterns = case.regex_patterns
        if not patterns:
            return self.skipped(case, "the case has no patterns")
        event = trace.final_event
        if event is None or is_blank(trace.final_output):
            return self.no_output(case, trace, "there is no final output to search for patterns")
        text = searchable_text(trace.final_output)
        missing = [pattern for pattern in patterns if not is_found(pattern, text)]
        if not missing:
            return self.passed(case, f"{count(len(patterns), 'pattern')} found in the final output")
        patterns_in_words = listed((quoted(pattern) for pattern in missing), limit=3)
        return self.failed(
            case,
            f"the final output does not match {patterns_in_words} (event {event.idx})",
            FailureKind.CONTRACT_VIOLATION,
            score=1 - len(missing) / len(patterns),
            refs=[event.idx],
            evidence={
                "missing_patterns": [clipped(pattern, 500) for pattern in missing[:EVIDENCE_LIMIT]],
                "pattern_count": len(patterns),
            },
        )
