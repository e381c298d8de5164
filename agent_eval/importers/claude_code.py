"""Sessions of Claude Code: the JSON Lines below `~/.claude/projects`, and what `--output-format` prints.

Qwen Code writes the same lines with messages of Gemini in them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from agent_eval.importers import events as make
from agent_eval.importers.events import EventFields, content_of, items, mapping, text, usage_in
from agent_eval.importers.sessions import ReadLine, Session, SessionFormat

_SPOKEN = frozenset({"user", "assistant"})
_OF_THE_PROGRAM = frozenset(
    {"queue-operation", "file-history-snapshot", "progress", "last-prompt", "stream_event", "custom-title"}
    | {"agent-name", "permission-mode", "attachment", "rate_limit_event", "worktree-state", "ai-title"}
)
"""Lines about the program itself, in which neither user nor agent says something."""
_ABOUT = {"sessionId": "id", "session_id": "id", "version": "version", "gitBranch": "branch"}
"""Fields of a line that say something of the session."""
_SYNTHETIC = "<synthetic>"
"""Model of messages that the program wrote in the place of an answer."""


def _recognise(value: Any) -> tuple[float, str] | None:
    if isinstance(value, dict) and isinstance(value.get("messages"), list):
        lines = value["messages"]
        return (0.9, "messages") if lines and all(map(_is_line, lines[:20])) else None
    if not isinstance(value, dict) or not isinstance(value.get("type"), str):
        return None
    session = "sessionId" in value or "session_id" in value
    if _is_line(value):
        return 0.95 if session else 0.8, "session"
    if value["type"] == "summary" and "leafUuid" in value:
        return 0.95, "session"
    if value["type"] in _OF_THE_PROGRAM or value["type"] in ("system", "result"):
        is_own = "id" not in value and (session or "messageId" in value)
        return (0.9, "session") if is_own else None
    return (0.8, "session") if "sessionId" in value and "uuid" in value else None


def _is_line(value: Any) -> bool:
    if not isinstance(value, dict) or value.get("type") not in _SPOKEN:
        return False
    message = mapping(value.get("message"))
    return message.get("role") == value["type"] or (message.get("role") == "model" and "parts" in message)


def _line(session: Session, line: Mapping[str, Any]) -> None:
    kind, identifier = str(line.get("type")), text(line.get("uuid"))
    seen: set[str] = session.memory.setdefault("seen", set())
    if identifier is not None:
        if identifier in seen:
            reason = "repeats a line that is there already; left out"
            session.diagnostics.note(session.place, "uuid", reason)
            return
        seen.add(identifier)
    for key, name in _ABOUT.items():
        if text(line.get(key)):
            session.about.setdefault(name, line[key])
    before = len(session.events)
    if kind in _READERS:
        _READERS[kind](session, line)
    elif kind not in _OF_THE_PROGRAM:
        session.unknown(f"type {kind!r}")
    make.mark(session.events[before:], ts=make.timestamp_of(line.get("timestamp")))
    for fields in session.events[before:] if _is_of_sub_agent(line) else ():
        fields["agent_name"] = text(line.get("agentId")) or "subagent"
    session.memory["spoken"] = session.memory.get("spoken") or kind in ("user", "assistant", "result")


def _is_of_sub_agent(line: Mapping[str, Any]) -> bool:
    return bool(line.get("isSidechain") or line.get("parent_tool_use_id"))


def _add_answer(session: Session, line: Mapping[str, Any]) -> None:
    """Add what a line has of an answer, which is divided over lines, one a content block."""
    message = mapping(line.get("message"))
    content, identifier = message.get("content", message.get("parts")), text(message.get("id"))
    if message.get("model") == _SYNTHETIC or line.get("isApiErrorMessage"):
        session.add(make.error_event(content_of(content).value or "an answer of the API failed"))
        return
    answers: dict[str, EventFields] = session.memory.setdefault("answers", {})
    before = answers.get(identifier or "")
    made = session.read({"role": "assistant", "content": content})
    last = made[-1] if made else before or session.add(make.agent_message(None))[0]
    # Each line repeats the usage so far: it counts once, as the last line has it.
    stated = message.get("usage", line.get("usageMetadata"))
    usage = usage_in(stated) or (before or {}).get("usage")
    if before is not None:
        before.pop("usage", None)
    model, reason = text(message.get("model")) or text(line.get("model")), text(message.get("stop_reason"))
    facts = {"usage": usage, "model": model, "stop_reason": reason, "cost_usd": line.get("costUSD")}
    last |= make.not_null(facts)
    if identifier is not None:
        last.setdefault("attributes", {})["gen_ai.response.id"] = identifier
        answers[identifier] = last


def _add_system(session: Session, line: Mapping[str, Any]) -> None:
    if line.get("subtype") == "rewind":
        reason = "goes on from an earlier message; the trace keeps what was done since"
        session.diagnostics.note(session.place, "subtype", reason)
    if text(line.get("model")):
        session.about.setdefault("model", line["model"])
    if (content := text(line.get("content"))) is not None:
        is_error = line.get("level") == "error" or line.get("subtype") == "api_error"
        session.add(make.error_event(content) if is_error else make.system_message(content))


def _add_result(session: Session, line: Mapping[str, Any]) -> None:
    """Read the last line that the program prints: it repeats the answer, and has what the run cost."""
    if line.get("is_error"):
        session.add(make.error_event(line.get("result") or line.get("subtype") or "failed"))
    else:
        spoken = [each for each in session.events if each["type"] == "message" and each["actor"] == "agent"]
        if text(line.get("result")) and line["result"] not in [each.get("output") for each in spoken[-1:]]:
            session.add(make.agent_message(line["result"]))
    cost = line.get("total_cost_usd")
    if make.is_amount(cost) and not any("cost_usd" in fields for fields in session.events):
        session.add(make.event("agent", "model_call", cost_usd=cost))


def _add_question(session: Session, line: Mapping[str, Any]) -> None:
    # What hooks and the program put into the user's place, and what an agent asks of a sub-agent.
    is_meta = line.get("isMeta") or line.get("isCompactSummary") or _is_of_sub_agent(line)
    message = mapping(line.get("message"))
    content = message.get("content", message.get("parts"))
    session.read({"role": "system" if is_meta else "user", "content": content})


_READERS: Mapping[str, ReadLine] = {
    "assistant": _add_answer,
    "user": _add_question,
    "tool_result": _add_question,
    "summary": lambda session, line: session.add(make.event("agent", "state", output=line.get("summary"))),
    "system": _add_system,
    "result": _add_result,
}


def _finish(session: Session) -> None:
    if not session.memory.get("spoken"):
        session.memory["says_nothing"] = True
        reason = "has no message of the user or the agent; it makes no case"
        session.diagnostics.note(session.place, "", reason)


CLAUDE_CODE = SessionFormat(
    "claude_code",
    _recognise,
    _line,
    lines=lambda value: items(value.get("messages")) if "type" not in value else None,
    session=("sessionId", "session_id"),
    finish=_finish,
    provider="anthropic",
)
