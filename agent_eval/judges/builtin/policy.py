"""Tools the agent must use, and must not."""

from __future__ import annotations

from agent_eval.contracts import Case, Trace, Verdict
from agent_eval.contracts.trace import TOOL_CALL, TOOL_RESULT
from agent_eval.errors import FailureKind
from agent_eval.judges.base import BaseJudge, JudgeConfig, at_events, listed, named
from agent_eval.text.numbers import count


class PolicyJudge(BaseJudge[JudgeConfig]):
    """Checks `policy.required_tools` and `policy.forbidden_tools` of the case. Names match exactly.

    A forbidden tool counts as used when it was called or when a result of it stands in the trace; a
    required one only when it was called. The score is the share of rules that hold.
    """

    judge_id = "policy"
    Config = JudgeConfig

    def evaluate(self, case: Case, trace: Trace) -> Verdict:
        """See the class."""
        required, forbidden = set(case.policy.required_tools), set(case.policy.forbidden_tools)
        rules = len(required) + len(forbidden)
        if not rules:
            return self.skipped(case, "the case has no tool policy")
        called: set[str] = set()
        offences: dict[str, list[int]] = {}
        for event in trace.events:
            tool, kind = event.tool, event.type
            if tool and kind in (TOOL_CALL, TOOL_RESULT):
                if kind == TOOL_CALL:
                    called.add(tool)
                if tool in forbidden:
                    offences.setdefault(tool, []).append(event.idx)
        missing = sorted(required - called)
        if not missing and not offences:
            return self.passed(case, f"{count(rules, 'tool rule')} kept")
        return self._violation(case, offences, missing, 1 - (len(missing) + len(offences)) / rules)

    def _violation(
        self, case: Case, offences: dict[str, list[int]], missing: list[str], score: float
    ) -> Verdict:
        refs = sorted(idx for indices in offences.values() for idx in indices)
        parts = []
        if offences:
            tools = listed(named(tool) for tool in sorted(offences))
            parts.append(f"forbidden {_tool(offences)} {tools} used{at_events(refs)}")
        if missing:
            tools = listed(named(tool) for tool in missing)
            parts.append(f"required {_tool(missing)} {tools} never called")
        return self.failed(
            case,
            "; ".join(parts),
            FailureKind.POLICY_VIOLATION,
            score=score,
            refs=refs,
            evidence={"forbidden_used": sorted(offences), "required_missing": missing},
        )


def _tool(names: dict[str, list[int]] | list[str]) -> str:
    return "tool" if len(names) == 1 else "tools"
