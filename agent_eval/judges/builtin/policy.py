"""The `policy` judge: check which tools the agent called against those required and forbidden."""

from __future__ import annotations

from typing_extensions import override

from agent_eval.contracts import Case, Trace, Verdict
from agent_eval.contracts.trace import TOOL_CALL, TOOL_RESULT, is_blank
from agent_eval.errors import FailureKind
from agent_eval.judges.base import BaseJudge, JudgeConfig, at_events, display_name, listed
from agent_eval.judges.reading import blank_entry
from agent_eval.text.numbers import count


class PolicyJudge(BaseJudge[JudgeConfig]):
    """Checks `policy.required_tools` and `policy.forbidden_tools` of the case. Names match exactly.

    A forbidden tool counts as used if the trace has a call or a result of it; a required tool only if the
    trace has a call of it. A trace in which the agent did nothing is an error. The score is the share of
    rules that hold.
    """

    judge_id = "policy"
    reads = frozenset({"policy"})
    Config = JudgeConfig

    @override
    def check_case(self, case: Case) -> None:
        for name in ("required_tools", "forbidden_tools"):
            for position, tool in enumerate(getattr(case.policy, name)):
                if is_blank(tool):
                    raise blank_entry(case, f"policy.{name}[{position}]")

    @override
    def evaluate(self, case: Case, trace: Trace) -> Verdict:
        required, forbidden = set(case.policy.required_tools), set(case.policy.forbidden_tools)
        rules = len(required) + len(forbidden)
        if not rules:
            return self.skipped(case, "the case has no tool policy")
        if nothing_done := self.nothing_done(case, trace):
            return nothing_done
        called_tools: set[str] = set()
        forbidden_uses: dict[str, list[int]] = {}
        for event in trace.events:
            tool, kind = event.tool, event.type
            if tool and kind in (TOOL_CALL, TOOL_RESULT):
                if kind == TOOL_CALL:
                    called_tools.add(tool)
                if tool in forbidden:
                    forbidden_uses.setdefault(tool, []).append(event.idx)
        missing = sorted(required - called_tools)
        if not missing and not forbidden_uses:
            return self.passed(case, f"{count(rules, 'tool rule')} kept")
        score = 1 - (len(missing) + len(forbidden_uses)) / rules
        return self._violation(case, forbidden_uses, missing, score)

    def _violation(
        self, case: Case, forbidden_uses: dict[str, list[int]], missing: list[str], score: float
    ) -> Verdict:
        refs = sorted(idx for indices in forbidden_uses.values() for idx in indices)
        parts = []
        if forbidden_uses:
            tools = listed(display_name(tool) for tool in sorted(forbidden_uses))
            parts.append(f"forbidden {_tool_or_tools(len(forbidden_uses))} {tools} used{at_events(refs)}")
        if missing:
            tools = listed(display_name(tool) for tool in missing)
            parts.append(f"required {_tool_or_tools(len(missing))} {tools} never called")
        return self.failed(
            case,
            "; ".join(parts),
            FailureKind.POLICY_VIOLATION,
            score=score,
            refs=refs,
            evidence={"forbidden_used": sorted(forbidden_uses), "required_missing": missing},
        )


def _tool_or_tools(number: int) -> str:
    return "tool" if number == 1 else "tools"
