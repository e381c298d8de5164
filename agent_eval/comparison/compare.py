"""The comparison of a candidate run with a baseline run, with clusters of failures. No files, no clock.

A cluster is the same judge and the same reason, but for numbers, ids and quoted parts.
"""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from itertools import chain
from operator import itemgetter

from agent_eval.comparison.behaviour import Traces, behaviour_change, differences, run_behaviour
from agent_eval.comparison.compatibility import check, is_helped, partition, select
from agent_eval.comparison.conversations import CONVERSATIONS_LIMIT, conversation_change
from agent_eval.comparison.facts import (
    FAILURES,
    KIND_LIMIT,
    CaseOutcome,
    Outcomes,
    RunView,
    normalise,
    outcomes_of,
)
from agent_eval.comparison.results import (
    Balance,
    Pair,
    Results,
    case_metrics,
    case_regressions,
    compare_trials,
    judge_metrics,
    new_hard_fail,
    regression_sentences,
    release_impact,
    risk_level,
    top_regressed_judges,
)
from agent_eval.contracts import (
    CaseResultRow,
    CaseSets,
    Cluster,
    Comparison,
    Compatibility,
    FailureClusters,
    NewCases,
    Outcome,
    Overview,
    Triage,
)
from agent_eval.errors import NothingMeasured
from agent_eval.text.escape import cut
from agent_eval.text.numbers import count, verb

DETAIL_LIMIT = 200
"""Maximum cases whose change of behaviour a comparison lists, first those whose result changed."""

IDS_NAMED = 3
"""Cases that a notice names."""


@dataclass(frozen=True, kw_only=True)
class JudgedTwice:
    """Cases that both runs are judged on by the same definitions, judges and case policy.

    Attributes:
        baseline: Results of the baseline's trajectories by today's definitions and judges, by case id.
        candidate: Results of the candidate by the judges that could judge both runs, where these are fewer.
        by_baseline: Results of the candidate's trajectories by the baseline's definitions and judges.
        apart: Ids of the judges that cannot judge the stored trajectories, and are not compared.
    """

    baseline: Mapping[str, CaseResultRow] = field(default_factory=dict)
    candidate: Mapping[str, CaseResultRow] = field(default_factory=dict)
    by_baseline: Mapping[str, CaseResultRow] = field(default_factory=dict)
    apart: frozenset[str] = frozenset()

    def notices(self) -> list[str]:
        """Say which results are not those that the runs stored, in sentences for the top of a report."""
        sentences = []
        if self.baseline:
            cases = count(len(self.baseline), "case")
            sentences.append(f"The baseline's results of {cases} are by today's definitions and judges.")
        if self.apart:
            names = ", ".join(sorted(self.apart))
            sentences.append(f"Not compared, as it cannot judge the baseline's stored trajectories: {names}.")
        return sentences

    def new_expectations(self, before: Outcomes, todays: tuple[Outcomes, Outcomes]) -> dict[str, list[str]]:
        """Find the judges by whose old expectation a case got worse, and by whose new one it did not.

        `before` is how the baseline was judged; `todays` is how both runs are judged today.
        """
        hidden = {}
        for case_id, now in outcomes_of(self.by_baseline).items():
            worse = _worse(before[case_id], now) - _worse(todays[0][case_id], todays[1][case_id])
            if worse:
                hidden[case_id] = sorted(worse)
        return hidden


def _worse(before: CaseOutcome, now: CaseOutcome) -> set[str]:
    """Collect the judges that passed a case and cannot tell now, or newly fail it."""
    unsure = Outcome.PASSED.value, Outcome.INCONCLUSIVE.value
    return {
        judge_id
        for judge_id, outcome in now.judges.items()
        if (was := before.judges.get(judge_id)) is not None
        and ((outcome in FAILURES and was not in FAILURES) or (was, outcome) == unsure)
    }


def compare(
    baseline: RunView,
    candidate: RunView,
    *,
    generated_at: str,
    allow_incompatible: bool = False,
    traces: Traces | None = None,
    judged_twice: JudgedTwice | None = None,
) -> Comparison:
    """Compare two runs: list everything that changed from `baseline` to `candidate`.

    Args:
        baseline: The earlier run.
        candidate: The later run, on which the gate will decide.
        generated_at: ISO 8601 time of the comparison.
        allow_incompatible: Whether to compare every case id that both runs have, also of different datasets.
            Otherwise cases that ask something else are listed and left out.
        traces: Called only for cases whose result changed; returns a case with its trace in both runs.
        judged_twice: Results by the other run's definitions and judges; None where nothing differs, or where
            a case that does is not to be compared.

    Raises:
        IncompatibleRuns: An enforced condition does not hold.
        NothingMeasured: A run has no case, or the runs share none and all were to be compared.

    No case may remain to be compared; then the relative rules of the gate cannot hold.
    """
    runs = baseline, candidate
    for side, run in zip(("baseline", "candidate"), runs, strict=True):
        if not run.results:
            raise NothingMeasured(
                f"the {side} run {run.config.run_id!r} has no case",
                remedy="Evaluate a suite with at least one case.",
            )
    before, now = outcomes_of(baseline.results), outcomes_of(candidate.results)
    parts = partition(*runs)
    compatibility = check(*runs, parts, (before, now), allow_incompatible=allow_incompatible)
    twice = judged_twice or JudgedTwice()
    compared, case_sets = select(
        compatibility,
        parts,
        before,
        allow_incompatible=allow_incompatible,
        judged_twice=twice.baseline,
    )
    todays = before | outcomes_of(twice.baseline), now | outcomes_of(twice.candidate)
    pairs = {case_id: (todays[0][case_id], todays[1][case_id]) for case_id in compared}
    # Only read; a case that is judged twice is read as it is judged today.
    results: tuple[Results, Results] = (
        ChainMap(dict(twice.baseline), baseline.results),  # type: ignore[arg-type]
        ChainMap(dict(twice.candidate), candidate.results),  # type: ignore[arg-type]
    )
    comparison = _of_results(runs, results, pairs, (compatibility, case_sets), generated_at)
    differing = differences(*runs, compared)
    notices = [*_notices_of_names(baseline), *twice.notices()]
    comparison.behaviour = run_behaviour(runs, compared, differing, compatibility, notices)
    _add_details(comparison, runs, chain.from_iterable(differing.values()), traces)
    if any(side.trials > 1 for pair in pairs.values() for side in pair):
        comparison.trials = compare_trials(compared, *results)
    comparison.new_expectations = twice.new_expectations(before, todays)
    comparison.more_help = is_helped(baseline.config, candidate.config)
    new = [now[case_id] for case_id in case_sets.new]
    passed, hard_failed = sum(case.passed for case in new), sum(case.hard_failed for case in new)
    comparison.new_cases = NewCases(cases=len(new), passed=passed, hard_failed=hard_failed)
    return comparison


def _notices_of_names(baseline: RunView) -> list[str]:
    """Say which cases have another id in the baseline, in a sentence; none where all have the same."""
    renamed = sorted(baseline.other_ids.items())
    if not renamed:
        return []
    cases = f"{count(len(renamed), 'case')} {verb(len(renamed), 'has', 'have')} another id in the baseline"
    listed = ", ".join(f"{cut(name, 60)} was {cut(stored, 60)}" for name, stored in renamed[:IDS_NAMED])
    more = f" and {len(renamed) - IDS_NAMED:,} more" if len(renamed) > IDS_NAMED else ""
    return [f"{cases}, with the same input: {listed}{more}."]


def _add_details(
    comparison: Comparison,
    runs: tuple[RunView, RunView],
    differing: Iterable[str],
    traces: Traces | None,
) -> None:
    baseline, candidate = runs
    with_traces = {row.case_id: None for row in comparison.case_regressions}
    # Those whose result changed, then calls, models, and only the output.
    for case_id in list(dict.fromkeys([*with_traces, *differing]))[:DETAIL_LIMIT]:
        cases = traces(case_id) if traces is not None and case_id in with_traces else None
        change = behaviour_change(baseline.index[case_id], candidate.index[case_id], cases)
        comparison.behaviour_changes.append(change)
        if cases is not None and len(comparison.conversations) < CONVERSATIONS_LIMIT:
            spoken = conversation_change(cases, baseline.results[case_id], candidate.results[case_id])
            comparison.conversations += [spoken] if spoken is not None else []


def _of_results(
    runs: tuple[RunView, RunView],
    results: tuple[Results, Results],
    pairs: dict[str, Pair],
    conditions: tuple[Compatibility, CaseSets],
    generated_at: str,
) -> Comparison:
    outcomes = [*pairs.values()]
    metrics, judges, balance = case_metrics(outcomes), judge_metrics(outcomes), Balance.of(outcomes)
    rows, clusters = case_regressions(pairs, *results), failure_clusters(pairs, *results)
    new_hard = [case_id for case_id, (was, is_now) in pairs.items() if new_hard_fail(was, is_now)]
    resolved = [case_id for case_id, (was, is_now) in pairs.items() if new_hard_fail(is_now, was)]
    baseline, candidate = runs
    return Comparison(
        generated_at=generated_at,
        baseline_run_id=baseline.config.run_id,
        candidate_run_id=candidate.config.run_id,
        dataset_id=candidate.config.dataset_id,
        baseline=baseline.reference(),
        candidate=candidate.reference(),
        compatibility=conditions[0],
        cases=conditions[1],
        metrics=metrics,
        judge_metrics=judges,
        overview=Overview(
            total_baseline_cases=len(baseline.results),
            total_candidate_cases=len(candidate.results),
            compared_cases=len(pairs),
            regressed_cases=balance.regressed,
            improved_cases=sum(row.improved for row in rows),
            new_hard_fail_cases=len(new_hard),
            resolved_hard_fail_cases=len(resolved),
            risk_level=risk_level(balance),
        ),
        case_regressions=rows,
        regressions=regression_sentences(metrics, judges),
        top_regressed_judges=top_regressed_judges(judges),
        new_hard_fail_case_ids=new_hard,
        resolved_hard_fail_case_ids=resolved,
        failure_clusters=clusters,
        triage=triage(clusters),
        release_impact=release_impact(balance),
    )


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
    listed = []
    for name in ranked[:RANKED]:
        cluster = clusters[name]
        new, known = cluster.now - cluster.before, cluster.now & cluster.before
        listed.append(
            Cluster(
                cluster=name,
                judge_id=cluster.judge_id,
                reason=cut(cluster.reason, KIND_LIMIT),
                baseline_count=len(cluster.before),
                candidate_count=len(cluster.now),
                delta=len(cluster.now) - len(cluster.before),
                case_ids=[*sorted(new), *sorted(known)][:CASES_PER_CLUSTER],
                suggested_fix=hint(cluster.judge_id, cluster.failure),
            )
        )
    return FailureClusters(
        baseline=_largest({name: len(cluster.before) for name, cluster in clusters.items()}),
        candidate=_largest({name: len(cluster.now) for name, cluster in clusters.items()}),
        delta_ranked=listed,
    )


def _largest(counts: dict[str, int]) -> dict[str, int]:
    ranked = sorted(filter(itemgetter(1), counts.items()), key=lambda each: (-each[1], each[0]))
    rest = sum(count for _, count in ranked[COUNTED:])
    return dict(ranked[:COUNTED]) | ({REST: rest} if rest else {})


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
