"""The `json_schema` judge: check the final output against the case's JSON Schema."""

from __future__ import annotations

from typing_extensions import override

from agent_eval.contracts import Case, Trace, Verdict
from agent_eval.errors import FailureKind
from agent_eval.judges.base import BaseJudge, JudgeConfig, clipped
from agent_eval.judges.builtin.final_output import FIELD, ExpectedOutput
from agent_eval.judges.reading import UnreadableText, is_fenced, read_answer, read_expectation
from agent_eval.text.numbers import count


class JsonSchemaJudge(BaseJudge[JudgeConfig]):
    """Checks the final output against the case's `json_schema`.

    The judge supports drafts 2020-12 (the default for a schema that names none), 2019-09, 7, 6 and 4. It
    parses an output that is a string as JSON (`parse_error` if it is not JSON; from its code fence where
    `code_fence` of the case's `metadata.final_output` says so) and checks any other output as it is.
    References reach only the schema itself; patterns are RE2's; `format` is not asserted.
    """

    judge_id = "json_schema"
    reads = frozenset({"json_schema"})
    reads_answer = True

    @override
    def check_case(self, case: Case) -> None:
        read_expectation(case, FIELD, ExpectedOutput)
        if case.json_schema is not None:
            from agent_eval.judges.matching.json_schema import check_schema

            check_schema(case.json_schema, case_id=case.case_id, field="json_schema")

    @override
    def evaluate(self, case: Case, trace: Trace) -> Verdict:
        if case.json_schema is None:
            return self.skipped(case, "the case has no JSON Schema")
        event = trace.final_event
        if event is None or trace.final_output is None:
            return self.no_output(case, trace, "there is no final output to check against the schema")
        output = trace.final_output
        expected = read_expectation(case, FIELD, ExpectedOutput)
        in_fence = expected is not None and expected.code_fence
        fence = ", read from its code fence," if in_fence and is_fenced(output) else ""
        try:
            value = read_answer(output, in_fence=in_fence)
        except UnreadableText as problem:
            words = f"the final output is not JSON: {problem} (event {event.idx})"
            return self.failed(case, words, FailureKind.PARSE_ERROR, refs=[event.idx])
        from agent_eval.judges.matching.json_schema import UnusableSchema, unwrapped, violations

        try:
            broken = violations(case.json_schema, value)
        except UnusableSchema as unusable:
            return self.error(case, f"the schema cannot be applied: {unusable}", refs=[event.idx])
        if not broken:
            _, wrapper = unwrapped(case.json_schema)
            wrapped = f", which is what stands under {wrapper}" if wrapper else ""
            return self.passed(case, f"the final output{fence} satisfies its schema{wrapped}")
        first = broken[0]
        words = clipped(f"the final output{fence} breaks its schema at {first.path}: {first.message}", 250)
        more = f" (and {count(len(broken) - 1, 'more violation')})" if len(broken) > 1 else ""
        return self.failed(
            case,
            words + more,
            FailureKind.CONTRACT_VIOLATION,
            refs=[event.idx],
            evidence={"violations": [{"path": item.path, "message": item.message} for item in broken]},
        )
