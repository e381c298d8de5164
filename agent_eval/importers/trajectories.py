"""Trajectories of steps: Harbor's interchange format (ATIF), smolagents, SWE-agent and mini-swe-agent."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator, Mapping
from typing import Any

from agent_eval.importers import events as make
from agent_eval.importers.events import items, mapping, text, usage_in
from agent_eval.importers.sessions import Session, SessionFormat

# --- ATIF, which Terminal-Bench and others write ---


def _atif_trajectories(value: Any) -> Iterator[Mapping[str, Any]]:
    """Yield a trajectory and those of its sub-agents, or the trajectories that a file has by name."""
    fields = mapping(value)
    if isinstance(fields.get("steps"), list) and str(fields.get("schema_version", "")).startswith("ATIF"):
        yield fields
        for name in ("subagent_trajectories", "embedded_subagents"):
            for inner in items(fields.get(name)):
                yield from _atif_trajectories(inner)
    else:
        for inner in list(fields.values())[:100]:
            if "schema_version" in mapping(inner):
                yield from _atif_trajectories(inner)


def _atif_head(session: Session, trajectory: Mapping[str, Any]) -> None:
    own = text(trajectory.get("session_id")) or text(trajectory.get("trajectory_id"))
    session.about |= {"id": own} if own else {}
    if agent := mapping(trajectory.get("agent")):
        session.about["agent"] = agent


def _atif(session: Session, step: Mapping[str, Any]) -> None:
    place, role, content = f"steps{session.field}", step.get("source"), step.get("message")
    if step.get("is_copied_context"):
        session.diagnostics.note(session.place, place, "repeats the trajectory before this one; left out")
        return
    if role in ("user", "system"):
        if role == "user" or content not in (None, "", []):
            session.read({"role": role, "content": content, "timestamp": step.get("timestamp")})
        return
    names = ("reasoning_content", "tool_calls", "metrics", "timestamp")
    model = text(step.get("model_name")) or text(mapping(session.about.get("agent")).get("model_name"))
    answer = {"role": "assistant", "content": content, **{name: step[name] for name in names if name in step}}
    called = session.read(answer | ({"model": model} if model else {}))
    ids = [fields.get("call_id") for fields in called if fields["type"] == "tool_call"]
    for result in map(mapping, items(mapping(step.get("observation")).get("results"))):
        output, call_id = result.get("content"), text(result.get("source_call_id"))
        if output is None and not result.get("subagent_trajectory_ref"):
            if call_id is not None:
                session.diagnostics.note(session.place, f"{place}.observation", f"{call_id} has no result")
        elif ids:
            # Terminus answers all the calls of a step at once, and names none.
            session.add(make.tool_result(output, call_id or ids[-1]), ts=step.get("timestamp"))
        else:
            session.add(make.user_message(output), ts=step.get("timestamp"))


ATIF = SessionFormat(
    "atif",
    lambda value: (0.95, "trajectory") if any(True for _ in _atif_trajectories(value)) else None,
    _atif,
    lines=lambda value: items(mapping(value).get("steps")) or [value],
    head=_atif_head,
    split=_atif_trajectories,
)

# --- smolagents: `agent.memory.get_full_steps()`, or the dictionary of a run's result ---


def _smolagents_steps(value: Any) -> list[Any]:
    return items(value) or items(mapping(value).get("steps"))


def _is_smolagents(value: Any) -> tuple[float, str] | None:
    steps = [mapping(step) for step in _smolagents_steps(value)[:20]]
    variant = "steps" if isinstance(value, list) else "run"
    return (0.95, variant) if any({"step_number", "observations"} <= set(step) for step in steps) else None


def _smolagents(session: Session, step: Mapping[str, Any]) -> None:
    before = len(session.events)
    is_code = step.get("code_action") is not None
    if "task" in step:
        session.add(make.user_message(step["task"]))
    elif "step_number" in step:
        if "code_action" not in step and text(step.get("model_output")):
            session.add(make.agent_message(step["model_output"]))
        for call in map(mapping, items(step.get("tool_calls"))):
            function = mapping(call.get("function"))
            arguments = function.get("arguments")
            if isinstance(arguments, str) and is_code:
                arguments = {"code": arguments}  # the tools that it uses are called inside of the code
            session.add(make.tool_call(text(function.get("name")), arguments, call.get("id")))
        made = session.events[before:]
        if usage := usage_in(step.get("token_usage")):
            made = made or session.add(make.event("agent", "model_call"))
            made[-1]["usage"] = usage
        error = mapping(step.get("error")).get("message", step.get("error"))
        observed = step.get("observations")
        if items(step.get("tool_calls")) and (error or observed is not None):
            # Calls that run at once share one text: the last of them has it.
            call_id = made[-1].get("call_id")
            session.add(make.tool_result(None if error else observed, call_id, error=error or None))
        if step.get("is_final_answer"):
            answer = step.get("action_output")
            session.add(make.agent_message(observed if answer is None else answer))
    moment = make.timestamp_of(mapping(step.get("timing")).get("end_time"))
    make.mark(session.events[before:], ts=moment)


SMOLAGENTS = SessionFormat("smolagents", _is_smolagents, _smolagents, lines=_smolagents_steps)

# --- SWE-agent (`.traj`): what the model wrote, the actions, what the environment answered ---

SHELL = "shell"
"""Tool of an action that is a command of its own, and not the call of a tool."""


def _is_swe_agent(value: Any) -> tuple[float, str] | None:
    fields = mapping(value)
    if isinstance(fields.get("trajectory"), list) and ("history" in fields or "info" in fields):
        return 0.95, "trajectory"
    history = items(fields.get("history"))
    marks = {"message_type", "agent", "thought", "action"}
    return (0.9, "history") if history and marks & set(mapping(history[0])) else None


def _swe_agent(session: Session, value: Mapping[str, Any]) -> None:
    history = [mapping(message) for message in items(value.get("history"))]
    steps = [mapping(step) for step in items(value.get("trajectory"))]
    session.memory["steps"] = [(step.get("action"), step.get("execution_time")) for step in steps]
    for number, message in enumerate(history):
        session.field = f"history[{number}]"
        _swe_agent_message(session, message)
    acted = [step for step in steps if text(step.get("action")) and step["action"].strip()]
    calls = [fields for fields in session.events if fields["type"] == "tool_call"]
    results = sum(fields["type"] == "tool_result" for fields in session.events)
    if history and results == len(calls) - 1 and len(calls) <= len(acted):
        # The history ends before the last observation.
        session.add(make.tool_result(acted[len(calls) - 1].get("observation"), calls[-1].get("call_id")))
    for step in acted[len(calls) :] if history else steps:
        # No history has it; `response` repeats thought and action.
        if spoken := text(step.get("thought")) or text(step.get("response")):
            session.add(make.agent_message(spoken))
        action = text(step.get("action"))
        if action is not None and action.strip():
            tool, latency = _tool_of(action), _milliseconds(step.get("execution_time"))
            session.add(make.tool_call(tool, {"command": action}))
            session.add(make.tool_result(step.get("observation"), tool=tool, latency_ms=latency))
    info = mapping(value.get("info"))
    about = {name: info[name] for name in ("exit_status", "submission", "model_stats") if name in info}
    if text(value.get("environment")):
        about["environment"] = value["environment"]
    session.about |= {"info": about} if about else {}
    stats = mapping(info.get("model_stats"))
    usage = {"input_tokens": stats.get("tokens_sent"), "output_tokens": stats.get("tokens_received")}
    # A replay of recorded actions asks no model, and counts zeros.
    session.use(usage, cost=stats.get("instance_cost"))
    if submission := text(info.get("submission")):
        session.add(make.agent_message(submission))
    _add_status(session, info)


def _swe_agent_message(session: Session, message: Mapping[str, Any]) -> None:
    """Read a message; an observation answers the action before it."""
    role, content, waits = message.get("role"), message.get("content"), session.memory.get("waits")
    if message.get("is_demo"):
        reason = "is of a demonstration, not of this run; left out"
        session.diagnostics.note(session.place, session.field, reason)
    elif role == "assistant":
        calls, action = items(message.get("tool_calls")), text(message.get("action"))
        if not calls and action is not None and text(message.get("thought")):
            content = message["thought"]  # the content repeats both
        session.read({"role": role, "content": content, "tool_calls": calls})
        if not calls and action is not None and action.strip():
            session.add(make.tool_call(_tool_of(action), {"command": action}))
            session.memory["waits"] = True
        session.memory["latency"] = _latency_of(session, action)
    elif role in ("tool", "user") and (items(message.get("tool_call_ids")) or waits):
        ids = [call_id for call_id in items(message.get("tool_call_ids")) if call_id]
        session.add(
            make.tool_result(content, ids[0] if ids else None, latency_ms=session.memory.pop("latency", None))
        )
        if not ids and (call := session.events[-2:-1]) and call[0].get("tool"):
            session.events[-1]["tool"] = call[0]["tool"]
        session.memory["waits"] = False
        if len(ids) > 1:
            reason = "answers several calls; only the first has it"
            session.diagnostics.changed(session.place, session.field, reason)
    else:
        session.read({"role": "user" if role == "tool" else role, "content": content})


def _tool_of(action: str) -> str:
    """Return the tool of an action that is text: `submit` ends a run, anything else is a command."""
    return "submit" if action.split(maxsplit=1)[:1] == ["submit"] else SHELL


def _latency_of(session: Session, action: str | None) -> float | None:
    """Find how long an action took: the steps repeat the actions in their order."""
    steps: list[tuple[Any, Any]] = session.memory["steps"]
    for position, (executed, seconds) in enumerate(steps):
        if text(executed) and action is not None and executed.strip() == action.strip():
            del steps[: position + 1]
            return _milliseconds(seconds)
    return None


def _milliseconds(seconds: Any) -> float | None:
    return seconds * 1000 if isinstance(seconds, int | float) else None


def _add_status(session: Session, info: Mapping[str, Any]) -> None:
    """Say how a run ended that ended without a submission."""
    status = text(info.get("exit_status"))
    if status is not None and not status.lower().startswith("submitted"):
        session.add(make.error_event(status))


SWE_AGENT = SessionFormat("swe_agent", _is_swe_agent, _swe_agent, lines=lambda value: [value])

# --- mini-swe-agent: the model writes one command in a fenced block, or calls `bash` ---

_COMMAND = re.compile(r"```(?:mswea_bash_command|bash)\s*\n(.*?)\n```", re.DOTALL)
_SUBMITS = "COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT"
"""What a command prints that ends the run: the rest of its output is the answer."""
_RETURNED = re.compile(r"\s*<returncode>(-?\d+)</returncode>")


def _is_mini_swe_agent(value: Any) -> tuple[float, str] | None:
    if str(mapping(value).get("trajectory_format", "")).startswith("mini-swe-agent"):
        return 0.95, "trajectory"
    messages = [mapping(message) for message in items(value)[:40]]
    has_pair = any(
        _command_of(first) and second.get("role") == "user" and _RETURNED.match(_plain(second.get("content")))
        for first, second in itertools.pairwise(messages)
    )
    return (0.9, "messages") if has_pair else None


def _command_of(message: Mapping[str, Any]) -> str | None:
    matched = _COMMAND.search(str(message.get("content"))) if message.get("role") == "assistant" else None
    return None if matched is None else matched[1]


def _plain(content: Any) -> str:
    if isinstance(content, list):
        return "".join(text(mapping(part).get("text")) or "" for part in content)
    return content if isinstance(content, str) else ""


def _mini_swe_agent(session: Session, message: Mapping[str, Any]) -> None:
    role, content, extra = message.get("role"), message.get("content"), mapping(message.get("extra"))
    if role == "exit":
        _submit(session, text(extra.get("submission")) or _plain(content))
    elif role == "user" and session.memory.pop("waits", False):
        returned = _RETURNED.match(_plain(content))
        code = int(returned[1]) if returned is not None else None
        submits = returned is None and _SUBMITS in str(session.events[-1].get("input"))
        error = {"exit_code": code} if code else None
        session.add(make.tool_result(_plain(content), tool="bash", error=error))
        if submits:
            session.add(make.agent_message(_plain(content)))
    else:
        made = session.read({name: value for name, value in message.items() if name != "extra"})
        code = extra.get("returncode")
        for fields in made:
            if fields["type"] == "tool_result" and isinstance(code, int) and code != 0:
                fields["error"] = {"exit_code": code}
        command = _command_of(message)
        if command is not None and not items(message.get("tool_calls")):
            made += session.add(make.tool_call("bash", {"command": command}))
            session.memory["waits"] = True
        if made and make.is_amount(extra.get("cost")):
            made[-1]["cost_usd"] = extra["cost"]


def _submit(session: Session, submission: str | None) -> None:
    if submission and not any(fields.get("output") == submission for fields in session.events):
        session.add(make.agent_message(submission))


def _mini_finish(session: Session) -> None:
    """Add the submission, which is the answer, and how the run ended if not by one."""
    info = mapping(session.memory.get("info"))
    about = {name: info[name] for name in ("exit_status", "model_stats", "mini_version") if name in info}
    session.about |= {"info": about} if about else {}
    _submit(session, text(info.get("submission")))
    _add_status(session, info)


MINI_SWE_AGENT = SessionFormat(
    "mini_swe_agent",
    _is_mini_swe_agent,
    _mini_swe_agent,
    lines=lambda value: items(mapping(value).get("messages")),
    head=lambda session, value: session.memory.update(info=mapping(value.get("info"))),
    finish=_mini_finish,
)
