"""The `tool_contract` judge: check the arguments of tool calls against the case's contracts."""

from __future__ import annotations

from typing_extensions import override

from agent_eval.contracts import Case, Event, ToolContract, Trace, Verdict
from agent_eval.contracts.trace import TOOL_CALL
from agent_eval.errors import FailureKind
from agent_eval.judges.base import (
    EVIDENCE_LIMIT,
    BaseJudge,
    JudgeConfig,
    at_events,
    clipped,
    display_name,
    listed,
    quoted,
)
from agent_eval.judges.reading import MalformedArguments, read_arguments
from agent_eval.text.numbers import count


class ToolContractJudge(BaseJudge[JudgeConfig]):
    """Checks every call of a tool that has a contract in the case's `tool_contracts`.

    A contract lists `required_args` and `forbidden_args` and may have an `args_schema` (JSON Schema) for
    the whole arguments object. Arguments that are not an object fail (`type_error`; `parse_error` for a
    string that is not JSON). One contracted tool may go uncalled, but a trace that calls none of them
    fails. The score is the share of checked calls that keep their contract.
    """

    judge_id = "tool_contract"
    reads = frozenset({"tool_contracts"})

    @override
    def check_case(self, case: Case) -> None:
        for tool, contract in case.tool_contracts.items():
            if contract.args_schema is not None:
                from agent_eval.judges.matching.json_schema import check_schema

                field = f"tool_contracts.{tool}.args_schema"
                check_schema(contract.args_schema, case_id=case.case_id, field=field)

    @override
    def evaluate(self, case: Case, trace: Trace) -> Verdict:
        contracts = case.tool_contracts
        if not contracts:
            return self.skipped(case, "the case has no tool contracts")
        checked = 0
        broken: list[tuple[Event, FailureKind, list[str]]] = []
        unrecorded: list[int] = []
        for event in trace.events:
            if event.type == TOOL_CALL and event.tool and event.tool in contracts:
                checked += 1
                if event.content_recorded is False and event.input is None:
                    unrecorded.append(event.idx)
                    continue
                failure, problems = _problems(event, contracts[event.tool])
                if problems:
                    broken.append((event, failure, problems))
        if not checked:
            tools = listed(display_name(tool) for tool in sorted(contracts))
            return self.failed(
                case,
                f"tool contracts are configured for {tools}, but there are no matching tool calls",
                FailureKind.CONTRACT_VIOLATION,
                evidence={"contracts": sorted(contracts)[:EVIDENCE_LIMIT]},
            )
        if not broken and unrecorded:
            words = f"the arguments of {count(len(unrecorded), 'tool call')} are not recorded"
            return self.inconclusive(case, f"{words}{at_events(unrecorded[:3])}", refs=unrecorded)
        if not broken:
            keep = "keeps its" if checked == 1 else "keep their"
            words = f"{count(checked, 'tool call')} {keep} contract"
            if schemas := {tool: each.args_schema for tool, each in contracts.items() if each.args_schema}:
                from agent_eval.judges.matching.json_schema import unwrapped

                if wrapped := [tool for tool in sorted(schemas) if unwrapped(schemas[tool])[1]]:
                    named = listed(map(display_name, wrapped))
                    words += f"; the schema of {named} is what its args_schema wraps"
            return self.passed(case, words)
        violations = [
            {
                "event": event.idx,
                "tool": clipped(event.tool or "", 200),
                "failure": failure.value,
                "problems": problems[:EVIDENCE_LIMIT],
            }
            for event, failure, problems in broken[:EVIDENCE_LIMIT]
        ]
        event, failure, problems = broken[0]
        more = f"; {count(len(broken) - 1, 'more call')} broken" if len(broken) > 1 else ""
        what = clipped(listed(problems, limit=3), 220)
        return self.failed(
            case,
            f"{display_name(event.tool or '')} was called {what} (event {event.idx}){more}",
            failure,
            score=1 - len(broken) / checked,
            refs=[event.idx for event, _, _ in broken],
            evidence={"calls_checked": checked, "calls_broken": len(broken), "violations": violations},
        )


def _problems(event: Event, contract: ToolContract) -> tuple[FailureKind, list[str]]:
    """Describe what is wrong with a call, in words that follow "was called"; no words if nothing is."""
    try:
        arguments = read_arguments(event.input)
    except MalformedArguments as problem:
        return problem.failure, [f"with arguments {problem}"]
    problems = [
        f"without required argument {quoted(name)}"
        for name in contract.required_args
        if name not in arguments
    ]
    problems += [
        f"with forbidden argument {quoted(name)}" for name in contract.forbidden_args if name in arguments
    ]
    if contract.args_schema is not None:
        from agent_eval.judges.matching.json_schema import violations

        problems += [
            f"with arguments against their schema at {violation.path}: {violation.message}"
            for violation in violations(contract.args_schema, arguments)
        ]
    return FailureKind.CONTRACT_VIOLATION, problems
