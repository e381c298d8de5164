"""Clusters of failures: the same judge, and the same reason but for numbers, ids and quoted parts."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from agent_eval.comparison.facts import KIND_LIMIT, cut, normalise
from agent_eval.contracts import CaseResultRow, Cluster, FailureClusters, Triage

CASES_PER_CLUSTER = 10
RANKED = 25
COUNTED = 200
"""Number of clusters that are listed with their count for each run; the counts of others are added up."""
TRIAGED = 5
REST = "(other failures)"


@dataclass(slots=True)
class _Failures:
    """Failures of one cluster in one run."""

    judge_id: str
    reason: str
    failure: str | None
    case_ids: dict[str, None] = field(default_factory=dict)


def failure_clusters(
    failing_before: Iterable[str],
    failing_now: Iterable[str],
    baseline: Mapping[str, CaseResultRow],
    candidate: Mapping[str, CaseResultRow],
) -> FailureClusters:
    """Cluster the failed and error verdicts of both runs, ranked by growth.

    Args:
        failing_before: Ids of compared cases with a failed or error verdict in the baseline.
        failing_now: Ids of compared cases with such a verdict in the candidate.
        baseline: Results of the baseline by case id.
        candidate: Results of the candidate by case id.

    A cluster counts cases, not verdicts. It lists first the cases that were not in it before.
    """
    before = _collect(failing_before, baseline)
    now = _collect(failing_now, candidate)
    ranked = sorted(
        before.keys() | now.keys(),
        key=lambda name: (_size(before, name) - _size(now, name), -_size(now, name), name),
    )
    return FailureClusters(
        baseline=_counts(before),
        candidate=_counts(now),
        delta_ranked=[_cluster(name, before.get(name), now.get(name)) for name in ranked[:RANKED]],
    )


def triage(clusters: FailureClusters) -> Triage:
    """Select the clusters to look at first: those that grew most, else the largest that remain."""
    grown = [cluster for cluster in clusters.delta_ranked if cluster.delta > 0]
    remaining = sorted(
        (cluster for cluster in clusters.delta_ranked if cluster.delta <= 0 < cluster.candidate_count),
        key=lambda cluster: (-cluster.candidate_count, cluster.cluster),
    )
    top = (grown or remaining)[:TRIAGED]
    return Triage(
        top_clusters=top, suggested_fixes_count=sum(cluster.suggested_fix is not None for cluster in top)
    )


def _collect(case_ids: Iterable[str], results: Mapping[str, CaseResultRow]) -> dict[str, _Failures]:
    clusters: dict[str, _Failures] = {}
    names: dict[tuple[str, str], str] = {}
    for case_id in case_ids:
        for verdict in results[case_id]["verdicts"]:
            if verdict["failure"] is None:
                continue
            key = (verdict["judge_id"], verdict["reason"])
            name = names.get(key)
            if name is None:
                name = names[key] = f"{key[0]}: {normalise(key[1])}"
            cluster = clusters.get(name)
            if cluster is None:
                cluster = clusters[name] = _Failures(*key, verdict["failure"])
            cluster.case_ids[case_id] = None
    return clusters


def _size(clusters: Mapping[str, _Failures], name: str) -> int:
    return len(clusters[name].case_ids) if name in clusters else 0


def _counts(clusters: Mapping[str, _Failures]) -> dict[str, int]:
    ranked = sorted(clusters, key=lambda name: (-_size(clusters, name), name))
    counts = {name: _size(clusters, name) for name in ranked[:COUNTED]}
    rest = sum(_size(clusters, name) for name in ranked[COUNTED:])
    return counts | ({REST: rest} if rest else {})


def _cluster(name: str, before: _Failures | None, now: _Failures | None) -> Cluster:
    either = now or before
    assert either is not None
    was_there = before.case_ids if before else {}
    is_there = now.case_ids if now else {}
    ordered = sorted(is_there, key=lambda case_id: (case_id in was_there, case_id))
    return Cluster(
        cluster=name,
        judge_id=either.judge_id,
        reason=cut(either.reason, KIND_LIMIT),
        baseline_count=len(was_there),
        candidate_count=len(is_there),
        delta=len(is_there) - len(was_there),
        case_ids=ordered[:CASES_PER_CLUSTER],
        suggested_fix=hint(either.judge_id, either.failure),
    )


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
    "strict": "Look at the turn that decided; the evidence names it, and names that come near.",
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
    "simulator_error": "The model that plays the user failed, not the agent; read why, and run again.",
    "environment": "Not the agent's doing: check set-up commands and live tools, then run again.",
    "infrastructure": "Not the agent's doing: check network, quotas and the machine, then run again.",
}

_NOT_THE_AGENT = frozenset(
    {"agent_error", "timeout", "missing_output", "judge_error", "simulator_error", "environment"}
    | {"infrastructure"}
)


def hint(judge_id: str, failure: str | None) -> str | None:
    """Suggest what to try first; None where the reason of the verdict already says it.

    Where a case could not be judged, the kind of failure decides, not the judge.
    """
    if failure in _NOT_THE_AGENT:
        return _BY_FAILURE[failure]
    return _BY_JUDGE.get(judge_id) or _BY_FAILURE.get(failure or "")
