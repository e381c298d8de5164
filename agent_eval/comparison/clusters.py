"""Clusters of failures: the same judge, and the same reason but for numbers, ids and quoted parts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from operator import itemgetter

from agent_eval.comparison.facts import KIND_LIMIT, CaseOutcome, cut, normalise
from agent_eval.contracts import CaseResultRow, Cluster, FailureClusters, Triage

CASES_PER_CLUSTER = 10
RANKED = 25
COUNTED = 200
"""Number of clusters that are listed with their count for each run; the counts of others are added up."""
TRIAGED = 5
REST = "(other failures)"


@dataclass(slots=True)
class _Failures:
    """Failures of one cluster: what the first says, and the cases of the baseline and of now."""

    judge_id: str
    reason: str
    failure: str | None
    before: set[str] = field(default_factory=set)
    now: set[str] = field(default_factory=set)


def failure_clusters(
    pairs: Mapping[str, tuple[CaseOutcome, CaseOutcome]],
    baseline: Mapping[str, CaseResultRow],
    candidate: Mapping[str, CaseResultRow],
) -> FailureClusters:
    """Cluster the failed and error verdicts of both runs, ranked by growth.

    A cluster counts cases, not verdicts. It lists first the cases that were not in it before.
    """
    clusters: dict[str, _Failures] = {}
    names: dict[tuple[str, str], str] = {}
    # The candidate first: its words stand for a cluster that both runs have.
    for side, results in ((1, candidate), (0, baseline)):
        for case_id in (case_id for case_id, pair in pairs.items() if pair[side].failing):
            for verdict in results[case_id]["verdicts"]:
                if verdict["failure"] is None:
                    continue
                key = (verdict["judge_id"], verdict["reason"])
                if key not in names:
                    names[key] = f"{key[0]}: {normalise(key[1])}"
                cluster = clusters.setdefault(names[key], _Failures(*key, verdict["failure"]))
                (cluster.now if side else cluster.before).add(case_id)
    ranked = sorted(
        clusters,
        key=lambda name: (
            len(clusters[name].before) - len(clusters[name].now),
            -len(clusters[name].now),
            name,
        ),
    )
    return FailureClusters(
        baseline=_largest({name: len(cluster.before) for name, cluster in clusters.items()}),
        candidate=_largest({name: len(cluster.now) for name, cluster in clusters.items()}),
        delta_ranked=[_cluster(name, clusters[name]) for name in ranked[:RANKED]],
    )


def _largest(counts: dict[str, int]) -> dict[str, int]:
    ranked = sorted(filter(itemgetter(1), counts.items()), key=lambda each: (-each[1], each[0]))
    rest = sum(count for _, count in ranked[COUNTED:])
    return dict(ranked[:COUNTED]) | ({REST: rest} if rest else {})


def _cluster(name: str, failures: _Failures) -> Cluster:
    return Cluster(
        cluster=name,
        judge_id=failures.judge_id,
        reason=cut(failures.reason, KIND_LIMIT),
        baseline_count=len(failures.before),
        candidate_count=len(failures.now),
        delta=len(failures.now) - len(failures.before),
        case_ids=[*sorted(failures.now - failures.before), *sorted(failures.now & failures.before)][
            :CASES_PER_CLUSTER
        ],
        suggested_fix=hint(failures.judge_id, failures.failure),
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
