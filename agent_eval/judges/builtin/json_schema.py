"""The shape that the final output must have."""

from __future__ import annotations

from typing import Any

from agent_eval.contracts import Case, Trace, Verdict
from agent_eval.errors import FailureKind
from agent_eval.judges.base import BaseJudge, JudgeConfig, clipped
from agent_eval.judges.matching.arguments import UnreadableText, read_text
from agent_eval.text.numbers import count


class JsonSchemaJudge(BaseJudge[JudgeConfig]):
    """Checks the final output against the case's `json_schema`.

    Drafts 2020-12 (when the schema states none), 2019-09, 7, 6 and 4. An output that is a string must be
    JSON text (`parse_error` when it is not); anything else is checked as it is. References reach only the
    schema itself; patterns are RE2's; `format` is not asserted.
    """

    judge_id = "json_schema"
    Config = JudgeConfig

    def check_case(self, case: Case) -> None:
        """Refuse a schema that is none."""
        if case.json_schema is not None:
            from agent_eval.judges.matching.json_schema import check_schema

            check_schema(case.json_schema, case_id=case.case_id, field="json_schema")

    def evaluate(self, case: Case, trace: Trace) -> Verdict:
        """See the class."""
        if case.json_schema is None:
            return self.skipped(case, "the case has no JSON Schema")
        event = trace.final_event
        if event is None:
            return self.error(
                case, "there is no final output to check against the schema", FailureKind.MISSING_OUTPUT
            )
        output = trace.final_output
        if isinstance(output, str):
            try:
                output = read_text(output, "the final output")
            except UnreadableText as problem:
                return self.failed(
                    case,
                    f"the final output is not JSON: {problem}{_fence_hint(output)} (event {event.idx})",
                    FailureKind.PARSE_ERROR,
                    refs=[event.idx],
                )
        return self._validated(case, output, event.idx)

    def _validated(self, case: Case, output: Any, idx: int) -> Verdict:
        from agent_eval.judges.matching.json_schema import UnusableSchema, violations

        try:
            found = violations(case.json_schema, output)
        except UnusableSchema as problem:
            return self.error(case, f"the schema cannot be applied: {problem}", refs=[idx])
        if not found:
            return self.passed(case, "the final output satisfies its schema")
        more = f" (and {count(len(found) - 1, 'more violation')})" if len(found) > 1 else ""
        return self.failed(
            case,
            clipped(f"the final output breaks its schema at {found[0].path}: {found[0].message}", 250) + more,
            FailureKind.CONTRACT_VIOLATION,
            refs=[idx],
            evidence={"violations": [{"path": item.path, "message": item.message} for item in found]},
        )


def _fence_hint(text: str) -> str:
    return "; it stands in a code fence" if text.lstrip().startswith("```") else ""
