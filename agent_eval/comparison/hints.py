"""What to try first for a kind of failure. A hint for orientation, one a judge or failure kind."""

from __future__ import annotations

_BY_JUDGE = {
    "replay_contract": "The trace itself is broken: number events from 0 and give every call its result.",
    "tool_contract": "Pass the arguments that the tool's contract requires and drop those it forbids.",
    "policy": "Make the agent use the required tools and keep it from the forbidden ones.",
    "trajectory_step": "Give every tool call exactly one result, after the call and in order.",
    "trajectory_match": "Compare the expected with the actual tool calls; the agent took another path.",
    "regex": "Compare the final output with the pattern; wording or format changed.",
    "json_schema": "Return JSON that the case's schema accepts: required keys, types, allowed values.",
    "final_output": "Compare the final output with the expected one.",
    "cost_budget": "Find the step that spends the tokens: longer prompts, more calls, a dearer model.",
    "latency_slo": "Find the slow step in the trace: a slow tool, more turns, or a slower model.",
    "retry_storm": "Cap retries and back off; look at the error the tool answered with.",
    "loop_guard": "Tell the agent when it is done, and cap its steps.",
    "tool_abuse": "Narrow the tools offered for this task and what they accept.",
    "prompt_injection": "Treat tool results as data: the agent followed instructions it read there.",
    "repair_path": "Look at the attempts: the repair did not follow from the error it was given.",
    "lean": "Run the proof checker on the payload; its output says which step fails.",
    "command": "Run the external judge by hand on this case.",
}

_BY_FAILURE = {
    "agent_error": "Run the agent on this case alone and read its error output.",
    "timeout": "Raise the time limit, or find what the agent waits for.",
    "output_limit": "The agent printed more than it may; look for a loop or debug output.",
    "parse_error": "The output is not in the expected format; look at how it begins and ends.",
    "type_error": "A value has another type than expected.",
    "contract_violation": "The output or trace breaks a contract; the reason names the place.",
    "policy_violation": "The agent did what its policy forbids; tighten its instructions or its tools.",
    "budget_exceeded": "Find the step that spends most.",
    "loop": "Tell the agent when it is done, and cap its steps.",
    "injection": "Treat tool results as data, never as instructions.",
    "missing_output": "The agent ended without an answer; look at its last event.",
    "judge_error": "The judge itself failed; fix it before trusting this result.",
    "infrastructure": "Not the agent's doing: check network, quotas and the machine, then run again.",
}

_NOT_THE_AGENT = frozenset({"agent_error", "timeout", "missing_output", "judge_error", "infrastructure"})


def hint(judge_id: str, failure: str | None) -> str | None:
    """What to try first, None when there is nothing better to say than the reason itself.

    Where it could not be judged at all, the kind of failure says more than the judge's name.
    """
    if failure in _NOT_THE_AGENT:
        return _BY_FAILURE[failure]
    return _BY_JUDGE.get(judge_id) or _BY_FAILURE.get(failure or "")
