"""Write the answers of the demonstration's agents as the two generations of the AUI API send them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from agent_eval.demo.domain import Answer

_INTEGRATION_ADDRESS = "https://integrations.invalid"


def v1_message(number: int, answer: Answer, trace: Mapping[str, Any] | None) -> dict[str, Any]:
    """Write a message of the first generation.

    Args:
        number: Number of the message in its task.
        trace: Its trace; None where the request did not ask for it.
    """
    return {
        "id": f"message-{number}",
        "created_at": "2026-01-01T00:00:00Z",
        "text": answer.text,
        "sender": {"id": "agent", "type": "agent"},
        "receiver": {"id": "user", "type": "user"},
        "cards": [],
        "followup_suggestions": [],
        "executed_workflows": list(answer.workflows),
        **({} if trace is None else {"trace_info": trace}),
    }


def v1_trace(text: str, answer: Answer, *, business: bool = True, context: bool = True) -> dict[str, Any]:
    """Write a trace of the first generation.

    Args:
        business: Whether it has what the agent understood and decided.
        context: Whether it has the context and the calls of integrations.
    """
    decisions = [*(_business_decisions(answer) if business else ()), *(_calls(answer) if context else ())]
    return {
        "input": {"message": text},
        **({"context": {"active_tools": [], "entities": []}} if context else {}),
        **({"understanding": _understanding(answer)} if business else {}),
        **({"decisions": decisions} if business or context else {}),
        "response": _response(answer),
        **({"rules_evaluations": _evaluations(answer)} if business else {}),
        "latency": {"elapsed": 12, "unit": "millisecond"},
    }


def v3_trace(text: str, answer: Answer) -> dict[str, Any]:
    """Write a trace of the later generation: no parameters, no integrations, no workflows."""
    return {
        "input": {"message": text},
        "understanding": {"intents": [], "guardrails": {"passed": True}},
        "decisions": _business_decisions(answer),
        "computed_parameters": [],
        "response": _response(answer),
        "rules_evaluations": _evaluations(answer),
    }


def _understanding(answer: Answer) -> dict[str, Any]:
    return {"guardrails": {"passed": True}, "intents": [], "extracted_params": dict(answer.params)}


def _business_decisions(answer: Answer) -> list[dict[str, Any]]:
    trigger = {"type": "intent_classification"}
    tools = [{"type": "activate_tool", "tool": name, "trigger": trigger} for name in answer.workflows]
    rules = [
        {"type": "rule_triggered", "rule": {"type": "constraint", "action": "TEXT", "code": code}}
        for code in answer.rules
    ]
    return [*tools, *rules]


def _calls(answer: Answer) -> list[dict[str, Any]]:
    called = [_integration(code, answer) for code in answer.integrations]
    return [{"type": "call_integration", "integration": integration} for integration in called]


def _integration(code: str, answer: Answer) -> dict[str, Any]:
    request = {"name": code, "url": f"{_INTEGRATION_ADDRESS}/{code}", "method": "GET", "category": "read"}
    failed = answer.status >= 400  # the lowest status of HTTP that is an error
    ending = {"error_message": "the service failed"} if failed else {"response": {"found": True}}
    return {"code": code, "type": "REST", "requests": [request], "status_code": answer.status, **ending}


def _response(answer: Answer) -> dict[str, Any]:
    if answer.is_error:
        return {"type": "error", "message": answer.text, "error": answer.text}
    return {"type": "answer", "message": answer.text}


def _evaluations(answer: Answer) -> list[dict[str, Any]]:
    return [{"code": code, "triggered": True} for code in answer.rules]
