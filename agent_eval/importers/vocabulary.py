"""The words of which messages, tool calls, results and answers are made, in all formats that record them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import Any, NamedTuple

NAMES = ("name", "tool_name", "toolName", "function_name", "functionName", "tool", "function")
ARGUMENTS = (
    *("arguments", "args", "input", "tool_args", "tool_input", "toolInput", "tool_kwargs", "toolArgs"),
    *("parameters", "rawInput"),
)
CALL_IDS = (
    *("tool_call_id", "toolCallId", "call_id", "callId", "callID", "tool_use_id", "toolUseId"),
    *("source_call_id", "tool_id", "mcp_tool_use_id", "custom_tool_use_id"),
)
"""Ids that can only be those of a call."""
IDS = (*CALL_IDS, "id")
PAYLOADS = (
    *("content", "output", "result", "response", "observation", "results", "outputs", "value"),
    *("aggregated_output", "tool_output", "resultDisplay", "errorText", "structuredContent"),
)
KINDS = ("type", "kind", "part_kind", "block_type", "$type", "content_type", "event", "runType", "step_type")
CALLS_INSIDE = (
    *("invocation", "function", "custom", "functionCall", "function_call", "toolUse", "tool_call"),
    *("toolInvocation", "toolCall", "tool_call_parsed"),
)
RESULTS_INSIDE = frozenset(
    {"functionResponse", "function_response", "toolResult", "tool_call_result", "tool_result"}
)
AGENTS = frozenset(
    {
        *("assistant", "model", "agent", "gemini", "ai", "AIMessage", "agent_message", "assistant.message"),
        *("agent.message", "completion"),
    }
)
ROLES = {
    **dict.fromkeys(AGENTS, "agent"),
    **dict.fromkeys(("AIMessageChunk", "AssistantMessage", "response"), "agent"),
    **dict.fromkeys(("user", "human", "HumanMessage", "HumanMessageChunk", "UserMessage"), "user"),
    **dict.fromkeys(("system", "developer", "SystemMessage", "SystemMessageChunk"), "system"),
    **dict.fromkeys(("tool", "function", "toolResult", "ToolMessage", "ToolMessageChunk"), "tool"),
    **dict.fromkeys(("FunctionMessage", "FunctionExecutionResultMessage"), "tool"),
    **dict.fromkeys(("remove", "RemoveMessage"), "remove"),
}
"""Who speaks, by what formats call it."""
_CALL_KIND = re.compile(
    r"(agent|event)?(custom|server|mcp|builtin|local|dynamic)*(tool|function|command|shell|mcp)+"
    r"(call|use|request|requests|invocation|execution|executionstart|callend)(requestevent|call)?"
    r"|[a-z]*(tool|function|mcp)(call|use|invocation)"
    r"|dynamictool|toolinputavailable|(websearch|filesearch|codeinterpreter|localshell|computer|mcptool)call"
)
_RESULT_KIND = re.compile(
    r"(tool|function|command|shell|mcp)\w*(result|return|response|output|complete|end|error|observation"
    r"|executionevent)|^observationevent$|^codeexecutionevent$|^tooloutputavailable$"
)
_NO_KIND = re.compile(
    r"definition|schema|search(?!call)|choice|config|delta|inputstart|preview|partial|approval"
)
TYPED_BY_TOOL = re.compile(
    r"tool-(?!(?:call|result|invocation|error|input-\w+|output-\w+|approval-\w+)$)(.+)"
)


class Kind(NamedTuple):
    """What an object says that it is, without capitals and signs, and what that is a word for."""

    word: str
    is_call: bool
    is_result: bool


def first_text(fields: Mapping[str, Any], names: Iterable[str]) -> str | None:
    """Return the first text, which is not empty, that an object has in any of some fields."""
    for name in names:
        value = fields.get(name)
        if type(value) is str and value:
            return value
    return None


@lru_cache(maxsize=4096)
def kind_of(stated: str) -> Kind:
    """Return what a word for a kind says, such as `tool-call` or `FunctionCallContent`."""
    word = plain(stated)
    word = word.removesuffix("content") or word
    if _NO_KIND.search(word):
        return Kind(word, False, False)
    return Kind(word, bool(_CALL_KIND.fullmatch(word)), bool(_RESULT_KIND.search(word)))


def kinds_in(fields: Mapping[str, Any]) -> list[Kind]:
    """Return what an object says that it is, in each field that may say so."""
    return [kind_of(fields[name]) for name in KINDS if isinstance(fields.get(name), str)]


def holds_results(content: Any) -> bool:
    """Whether a list has a block that is the result of a tool."""
    blocks = content if isinstance(content, list) else ()
    return any(
        not RESULTS_INSIDE.isdisjoint(block) or any(kind.is_result for kind in kinds_in(block))
        for block in blocks
        if isinstance(block, dict)
    )


@lru_cache(maxsize=4096)
def snake(name: str) -> str:
    """Write a name in camel case as Python does."""
    return _HUMP.sub("_", name).lower()


@lru_cache(maxsize=4096)
def plain(word: str) -> str:
    """Write a word without capitals and signs: `tool-call`, `ToolCall` and `tool_call` are one."""
    return _SIGNS.sub("", word.lower())


_HUMP = re.compile("(?<=[a-z0-9])(?=[A-Z])")
_SIGNS = re.compile(r"[^a-z]")
