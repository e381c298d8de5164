"""The `trajectory_step` judge: check that every tool call has a result, and every result a call."""

from __future__ import annotations

from typing_extensions import override

from agent_eval.contracts import Case, Event, ToolCall, Trace, Verdict
from agent_eval.errors import FailureKind
from agent_eval.judges.base import EVIDENCE_LIMIT, BaseJudge, JudgeConfig, display_name
from agent_eval.text.numbers import count


class TrajectoryStepJudge(BaseJudge[JudgeConfig]):
    """Checks that calls and results pair up, also when calls run in parallel.

    A result without a call, a call without a result, and a result that names another tool than its call
    fail; but a call of the case's `final_output_tool` needs no result. An empty trace is an error; a trace
    without tool events is skipped. The score is the share of pairs in order.
    """

    judge_id = "trajectory_step"
    reads = frozenset()

    @override
    def evaluate(self, case: Case, trace: Trace) -> Verdict:
        if not trace.events:
            return self.error(case, "the trace has no events", FailureKind.MISSING_OUTPUT)
        # A call that is the agent's answer ends the run, so that no result comes.
        answer = trace.final_output_tool
        pairs = [p for p in trace.calls if answer is None or p.result is not None or p.tool != answer]
        if not pairs:
            return self.skipped(case, "the trace has no tool calls")
        problems = [problem for problem in map(_problem, pairs) if problem is not None]
        if not problems:
            return self.passed(case, f"{count(len(pairs), 'tool call')} answered")
        problems.sort()
        more = f"; {count(len(problems) - 1, 'more step')} out of order" if len(problems) > 1 else ""
        return self.failed(
            case,
            f"{problems[0][1]} (event {problems[0][0]}){more}",
            FailureKind.CONTRACT_VIOLATION,
            score=1 - len(problems) / len(pairs),
            refs=[idx for idx, _ in problems],
            evidence={
                "problem_count": len(problems),
                "problems": [{"event": idx, "problem": text} for idx, text in problems[:EVIDENCE_LIMIT]],
            },
        )


def _problem(pair: ToolCall) -> tuple[int, str] | None:
    call, result = pair.call, pair.result
    if call is None:
        assert result is not None, "a pair has at least one side"
        return result.idx, f"a result of {_named(result)} answers no tool call"
    if result is None:
        return call.idx, f"the call of {_named(call)} has no result"
    if result.tool and call.tool and result.tool != call.tool:
        return result.idx, f"the call of {display_name(call.tool)} is answered by {display_name(result.tool)}"
    return None


def _named(event: Event) -> str:
    return display_name(event.tool) if event.tool else "an unnamed tool"
