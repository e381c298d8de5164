"""Traces as sentences, one way to put them before a judge, and rows of what it then gives.

verdict = judge("policy", says("hi"), policy={"forbidden_tools": ["rm"]})
"""

from __future__ import annotations

from typing import Any

import pytest
from typing_extensions import override

from agent_eval.contracts import Case, Verdict
from agent_eval.errors import InvalidInput
from agent_eval.judges import load_judges, validate_case

Events = list[dict[str, Any]]


def says(output: Any = "done", **fields: Any) -> Events:
    """The agent's message."""
    return [{"actor": "agent", "type": "message", "output": output, **fields}]


def asks(text: Any, **fields: Any) -> Events:
    """The user's message."""
    return [{"actor": "user", "type": "message", "input": text, **fields}]


def calls(tool: str | None, arguments: Any = None, **fields: Any) -> Events:
    """A tool call alone."""
    return [{"actor": "agent", "type": "tool_call", "tool": tool, "input": arguments, **fields}]


def answers(tool: str | None, output: Any = "ok", **fields: Any) -> Events:
    """A tool's result alone."""
    return [{"actor": "tool", "type": "tool_result", "tool": tool, "output": output, **fields}]


def uses(tool: str, arguments: Any = None, output: Any = "ok", **fields: Any) -> Events:
    """A tool call and its result; `fields` go to both."""
    return calls(tool, arguments, **fields) + answers(tool, output, **fields)


def make_case(*events: Events, **fields: Any) -> Case:
    """A case with these events, numbered from 0 where they do not say."""
    flat = [event for group in events for event in group]
    trace = [{"idx": idx, **event} for idx, event in enumerate(flat)]
    return Case.model_validate({"case_id": "case-1", "trace": trace, **fields})


def judge(judge_id: str, *events: Events, config: dict[str, Any] | None = None, **fields: Any) -> Verdict:
    """One judge's verdict on a case with these events, after the case was checked."""
    case = make_case(*events, **fields)
    judges = load_judges([judge_id], {judge_id: config} if config is not None else {})
    validate_case(judges, case)
    verdict = judges[0].evaluate(case, case.recorded)
    assert verdict.judge_id == judge_id
    assert verdict.case_id == case.case_id
    assert len(verdict.reason) <= 300
    return verdict


def findings(verdict: Verdict) -> tuple[str, str | None]:
    """Outcome and failure in plain words."""
    return verdict.outcome.value, verdict.failure.value if verdict.failure else None


class Row:
    """What a judge gives on some events, with the case's other fields.

    Args:
        title: The behaviour, in words.
        gives: `OUTCOME`, `OUTCOME FAILURE`, or with `: ` and the whole reason; `refused FIELD` for a case or
            configuration that is refused.
        has: A part of the reason, or of the message or remedy of what is refused.
        evidence: Members that the verdict's evidence has, others allowed.
    """

    def __init__(
        self,
        title: str,
        gives: str,
        *events: Events,
        has: str = "",
        refs: list[int] | None = None,
        score: float | None = None,
        evidence: dict[str, Any] | None = None,
        **fields: Any,
    ) -> None:
        self.title, self.events, self.fields = title, events, fields
        self.gives, self.has = gives, has
        self.refs, self.score, self.evidence = refs, score, evidence

    @override
    def __str__(self) -> str:
        return self.title

    def check(self, judge_id: str) -> None:
        """Judge the events, and compare."""
        if self.gives.startswith("refused "):
            with pytest.raises(InvalidInput) as caught:
                judge(judge_id, *self.events, **self.fields)
            assert caught.value.details["field"] == self.gives.removeprefix("refused ")
            assert self.has in f"{caught.value.message} {caught.value.remedy}"
            return
        verdict = judge(judge_id, *self.events, **self.fields)
        expected, _, reason = self.gives.partition(": ")
        assert " ".join(filter(None, findings(verdict))) == expected, verdict.reason
        assert verdict.reason == (reason or verdict.reason)
        assert self.has in verdict.reason
        assert verdict.evidence_refs == (verdict.evidence_refs if self.refs is None else self.refs)
        assert self.score is None or verdict.score == pytest.approx(self.score)
        assert verdict.evidence == {**verdict.evidence, **(self.evidence or {})}
