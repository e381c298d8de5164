"""Score every suite, find its baseline, compare and decide. `ci.outputs` reports the result."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path

from agent_eval.ci.agent import ProgressLines, checked_agent, run_live, set_up
from agent_eval.ci.baseline import Baseline, Search, from_path, from_registry
from agent_eval.ci.baseline_search import Ground, find_baselines, find_named
from agent_eval.ci.both_sides import BothSides
from agent_eval.ci.confirmed_suite import confirmed, question_of
from agent_eval.ci.context import JobContext
from agent_eval.ci.datasets_gone import lost_datasets, suites_gone
from agent_eval.ci.history import BranchHistory, add_to_history, pool_of, read_branch_history
from agent_eval.ci.looks import OpenEnd, planned, with_open_end
from agent_eval.ci.made_earlier import taken_packs
from agent_eval.ci.own_rules import OwnRules, baseline_lost, with_own_rules
from agent_eval.ci.replaying import replay_evidence, replay_rule
from agent_eval.ci.signing import admission_by, sign, signer_of
from agent_eval.ci.suites import ARCHIVE_NAME, Target, find_targets
from agent_eval.ci.trusted_files import JudgingRules
from agent_eval.comparison.facts import RunView
from agent_eval.config.spec import AgentSpec, Output, RunSpec
from agent_eval.contracts import Comparison, GateDecision, RuleResult
from agent_eval.contracts.confirmation import Confirmation
from agent_eval.contracts.replay import ReplayReport
from agent_eval.errors import AgentEvalError, UsageError
from agent_eval.evidence.archive import write_bundle
from agent_eval.evidence.derived import write_output
from agent_eval.evidence.layout import may_be_replaced
from agent_eval.evidence.reader import Pack, open_pack
from agent_eval.gate.decide import (
    decide_by_policy,
    decide_without_baseline,
    decision_time,
    merge_thresholds,
)
from agent_eval.gate.fitness import why_no_baseline
from agent_eval.gate.listed_cases import unknown_case_warnings
from agent_eval.gate.waivers import active_quarantine
from agent_eval.judges.catalog import DEFAULT_JUDGES
from agent_eval.operations.compare import compared, without_secrets
from agent_eval.operations.gate import refuse_unknown_judges
from agent_eval.operations.looks import AUTO
from agent_eval.operations.packs import view
from agent_eval.operations.pool import POOL, pooled_in
from agent_eval.operations.run import judge_plan, run_suite
from agent_eval.operations.unjudged import CHECK_THE_AGENT, RECORD_TRACES, why_unjudged
from agent_eval.storage.atomic import new_directories
from agent_eval.storage.files import sha256_bytes
from agent_eval.storage.json import dumps
from agent_eval.suites.aui import JUDGES as OF_CONVERSATIONS
from agent_eval.suites.paths import any_of_conversations, is_of_conversations
from agent_eval.suites.reader import open_suite

COMPARISON = Path("compare") / "baseline_delta.json"
DECISION = Path("compare") / "gate_decision.json"


@dataclass(frozen=True, kw_only=True)
class SuiteEvaluation:
    """One suite, judged and decided on.

    Example:
        `evaluate(job).suites[0].decision.gate_status` is the decision on the first suite.

    Args:
        target: The suite.
        pack: The directory of its evidence pack.
        candidate: What the comparison reads of the pack.
        baseline: None where there is none.
        comparison: None without a baseline.
        decision: Of the gate.
        note: Why nothing was compared although there is a baseline; usually empty.
        unjudged: Why none of its cases could be judged, and what to do; usually empty.
        evidence: The open pack, which the HTML report reads trajectories from.
        replayed: How judging it again ended; None where that was not asked for.
        confirmation: Fresh trials of the cases that newly fail; None where the job confirms nothing.
    """

    target: Target
    pack: Path
    candidate: RunView
    baseline: Baseline | None
    comparison: Comparison | None
    decision: GateDecision
    note: str = ""
    unjudged: str = ""
    evidence: Pack | None = None
    replayed: ReplayReport | None = None
    confirmation: Confirmation | None = None


@dataclass(frozen=True, kw_only=True)
class Evaluation:
    """The result of a job, for its report, outputs and exit code.

    Example:
        `evaluate(job).archive` is the evidence archive.

    Args:
        suites: In the order of the job's settings.
        search: How the search for baselines ended.
        archive: The evidence archive of all suites; None where the job reports on what another run left.
        rules: The rules that the suites were judged by.
        history: The runs of the base branch before this one.
    """

    suites: list[SuiteEvaluation]
    search: Search
    archive: Path | None
    rules: JudgingRules
    history: BranchHistory = field(default_factory=BranchHistory)

    @property
    def problem(self) -> str:
        """Why there is no decision to rely on, and what to do; empty where there is one."""
        problems = [suite.unjudged or " ".join(suite.decision.not_evaluated) for suite in self.suites]
        if (outage := self.search.outage) is not None:
            problems.append(f"The baseline could not be read. {outage.cause} {outage.remedy}")
        return " ".join(filter(None, problems))

    def is_decided(self, suite: SuiteEvaluation) -> bool:
        """Whether there is a decision to rely on for one of the suites."""
        return not (suite.unjudged or suite.decision.not_evaluated or self.search.outage)


def evaluate(job: JobContext) -> Evaluation:
    """Judge all suites and decide on them. The evidence holds no secret that the job's redactor knows.

    Raises:
        AgentEvalError: A suite, judge, agent or named baseline is wrong (exit code 2); or the agent cannot be
            run, or the evidence cannot be written (exit code 4).
    """
    targets = find_targets(job.settings.suite)
    agent = checked_agent(job)
    sides = BothSides.prepare(job)
    with sides if sides is not None else nullcontext():
        return _evaluate(job, targets, agent, sides)


def _evaluate(
    job: JobContext, targets: Sequence[Target], agent: AgentSpec | None, sides: BothSides | None
) -> Evaluation:
    signer = signer_of(job.settings)
    # What a change is held against is read before its setup runs, which could alter it. And a baseline that
    # cannot be used is an error: better before an agent has run for an hour than after.
    search = search_baselines(job, [target.slug for target in targets])
    search.warnings += lost_datasets(search)
    if job.place is not None and job.place.notice is not None:
        search.warnings.insert(0, job.place.notice)
    history = read_branch_history(job, search)
    made_earlier = job.settings.evidence
    if made_earlier is not None and agent is not None and agent.trials == AUTO:
        raise UsageError(
            "`trials: auto` looks at a run while it goes on, and `evidence` is that of a run that has ended.",
            remedy="Give a number of trials to the jobs that make the evidence, and leave `trials` out here.",
            field="trials",
        )
    given_packs = taken_packs(job, targets, made_earlier) if made_earlier is not None else None
    # Where the evidence is there already, only what newly fails is run: by an agent that is installed.
    if agent is not None and (given_packs is None or sides is not None):
        set_up(job.settings.setup, job.environ, job.platform.say)
    if sides is not None:
        sides.installed()
    _refuse_unknown_judges(job, search)
    ended: dict[str, OpenEnd] = {}
    packs = (
        given_packs
        if given_packs is not None
        else _packs_made(job, targets, agent, search, ended, confirms=sides is not None)
    )
    # The first suite reports what concerns no suite of this run.
    missing = {targets[0].slug: suites_gone(search)}
    suites = [
        decide_on(job, target, packs[slug], search, missing.get(slug), sides, ended.get(slug))
        for slug, target in ((target.slug, target) for target in targets)
    ]
    for suite in suites:
        sign(job, signer, packs[suite.target.slug], suite.pack, suite.decision)
    search.warnings += unknown_cases(job, suites)
    search.warnings += add_to_history(job, packs, history)
    archive = job.settings.out / ARCHIVE_NAME
    write_bundle({suite.target.slug: suite.pack for suite in suites}, archive)
    return Evaluation(suites=suites, search=search, archive=archive, rules=job.rules, history=history)


def _packs_made(
    job: JobContext,
    targets: Sequence[Target],
    agent: AgentSpec | None,
    search: Search,
    ended: dict[str, OpenEnd],
    *,
    confirms: bool,
) -> dict[str, Pack]:
    """Judge every suite, by running the agent where there is one; its evidence by slug.

    `ended` receives by slug why a run took no further look although it is not decided. `confirms` tells
    whether the job runs cases that newly fail again by both agents.
    """
    if agent is None:
        earlier = {slug: baseline.pack for slug, baseline in search.baselines.items()}
        return _score_all(job, targets, earlier)
    return _run_all(job, targets, search, ended, confirms=confirms)


def _score_all(job: JobContext, targets: Sequence[Target], earlier: Mapping[str, Pack]) -> dict[str, Pack]:
    """Judge the recorded traces of every suite; its evidence by slug.

    The packs come into place together, so that a suite that cannot be read leaves those of an earlier run
    as they were.
    """
    finals = [job.settings.out / target.slug for target in targets]
    with new_directories(finals, may_replace=may_be_replaced) as places:
        for target, place in zip(targets, places, strict=True):
            _score(job, target, _spec(job, target, place), earlier)
    return {target.slug: open_pack(job.settings.out / target.slug) for target in targets}


def _run_all(
    job: JobContext, targets: Sequence[Target], search: Search, ended: dict[str, OpenEnd], *, confirms: bool
) -> dict[str, Pack]:
    """Run the agent on the cases of every suite; its evidence by slug. What was paid for is kept."""
    earlier = {slug: baseline.pack for slug, baseline in search.baselines.items()}
    if len(targets) > 1:
        for target in targets:
            # A suite that cannot be read is reported before the others have been run.
            deque(open_suite(target.path).cases(), maxlen=0)
    packs = {}
    for target in targets:
        spec = _spec(job, target, job.settings.out / target.slug)
        if spec.agent is not None and not spec.agent.is_named and not is_of_conversations(target.path):
            _score(job, target, replace(spec, agent=None), earlier)
        else:
            spec, looks = planned(job, spec, target.slug, search, confirms=confirms)
            done = run_live(job, spec, target.source, earlier.get(target.slug), looks)
            if looks is not None and (end := looks.finish(done)):
                ended[target.slug] = end
        packs[target.slug] = open_pack(spec.output.pack)
    return packs


def _score(job: JobContext, target: Target, spec: RunSpec, earlier: Mapping[str, Pack]) -> None:
    """Judge the recorded traces of a suite."""
    run_suite(
        spec,
        environ=job.environ,
        redactor=job.redactor,
        source=target.source,
        on_progress=ProgressLines(target.path.name, job.platform.say),
        baseline=earlier.get(target.slug),
    )


def _spec(job: JobContext, target: Target, out: Path) -> RunSpec:
    settings, run = job.settings, job.platform.run
    name = run.run_name
    identity = replace(
        settings.identity,
        run_id=f"{name}-{target.slug}" if name else None,
        git_commit=job.place.head if job.place is not None else run.head_sha,
    )
    return RunSpec(
        suite=target.path,
        output=Output(pack=out, fresh=True),
        agent=settings.agent,
        judging=settings.judging,
        limits=settings.limits,
        identity=identity,
    )


def search_baselines(job: JobContext, slugs: list[str]) -> Search:
    """Find the baselines of suites by their slugs, as the settings say.

    Raises:
        AgentEvalError: The baseline that the user named cannot be used.
    """
    settings, rules = job.settings, job.rules
    unfit = partial(why_no_baseline, limit=rules.policy.max_baseline_error_rate)
    admission = admission_by(rules.baseline_key)
    if settings.baseline == "none":
        return Search(notes=["No baseline is wanted (`baseline: none`)."])
    if settings.baseline != "auto":
        entry = rules.registry.baselines.get(settings.baseline)
        if entry is not None and not Path(settings.baseline).exists():
            return from_registry(entry, rules.registry_path, slugs, unfit, admission)
        return from_path(Path(settings.baseline), slugs, unfit, admission)
    ground = Ground(
        place=job.place,
        clone=job.clone,
        wanted=slugs,
        remedy=job.platform.spec.remedies.read_runs,
        unfit=unfit,
        key=rules.baseline_key,
    )
    if settings.baseline_run_id is not None:
        return find_named(job.platform.run_named(settings.baseline_run_id), ground)
    return find_baselines(job.platform.earlier_runs, ground)


def _refuse_unknown_judges(job: JobContext, search: Search) -> None:
    """Refuse a judge that does not exist before an agent has run for an hour."""
    judging = job.settings.judging
    names = (*DEFAULT_JUDGES, *(OF_CONVERSATIONS if any_of_conversations(job.settings.suite) else ()))
    judges = judge_plan(judging, judging.judges or names, job.environ).load()
    seen = [baseline.view.summary.judge_counts for baseline in search.baselines.values()]
    known = {judge.judge_id for judge in judges}.union(*seen)
    refuse_unknown_judges(job.rules.policy, job.rules.waivers, known)


def decide_on(
    job: JobContext,
    target: Target,
    pack: Pack,
    search: Search,
    broken: RuleResult | None,
    sides: BothSides | None = None,
    open_end: OpenEnd | None = None,
) -> SuiteEvaluation:
    """Compare the pack of a suite with its baseline, and decide.

    More than six parameters: job, suite, pack and baselines are needed, each of the others has a default.

    Args:
        job: The job.
        target: The suite.
        pack: Verified.
        search: With the baselines.
        broken: The rule that every dataset of the baseline is still evaluated, where it is broken.
        sides: Both agents, to run again what newly fails; None to confirm nothing.
        open_end: Why the run took no further look although it is not decided; None otherwise.

    Raises:
        AgentEvalError: The pack cannot be compared with the baseline that the user named.
    """
    settings, rules = job.settings, job.rules
    where = settings.out / target.slug
    now = job.timestamp()
    candidate = view(pack)
    in_quarantine = active_quarantine(rules.policy.quarantine, now=decision_time(now))
    comparison = _compare(target, pack, search, now, in_quarantine)
    if comparison is not None:
        comparison = without_secrets(comparison, job.redactor)
    data = dumps(comparison.to_json(), indent=True) if comparison is not None else b""
    note = ""
    record = None
    pool = pool_of(job, pack, comparison, search) if comparison is not None else None
    if comparison is not None:
        by_policy = partial(
            decide_by_policy,
            comparison,
            rules.policy,
            generated_at=now,
            thresholds=settings.thresholds,
            comparison_sha256=sha256_bytes(data),
            waivers=rules.waivers,
            pool=pool.runs if pool is not None else None,
        )
        decision = by_policy()
        question = question_of(job, target, pack, comparison, search.earlier.get(target.slug, ()))
        if sides is not None:
            record = confirmed(sides, question, _spec(job, target, where), decision, open_end)
            decision = by_policy(confirmation=record)
    else:
        thresholds = merge_thresholds(rules.policy.thresholds, settings.thresholds)
        decision = decide_without_baseline(
            candidate.reference(), thresholds, generated_at=now, policy=rules.policy
        )
    if comparison is not None and not comparison.overview.compared_cases:
        note = "Every case is new or changed since the baseline, so nothing could be compared."
    replayed = replay_evidence(job, pack, where)
    own = OwnRules(broken, replay_rule(replayed), baseline_lost(search, target.slug, job))
    decision = with_own_rules(decision, comparison, job, search, own)
    decision = with_open_end(decision, comparison, job, open_end)
    if data:
        write_output(where / COMPARISON, data)
    if pool is not None and pooled_in(decision) is not None:
        write_output(where / POOL, pool.data)
    write_output(where / DECISION, dumps(decision.to_json(), indent=True))
    return SuiteEvaluation(
        target=target,
        pack=where,
        candidate=candidate,
        baseline=search.baselines.get(target.slug),
        comparison=comparison,
        decision=decision,
        note=note,
        unjudged=_why_unjudged(job, target, candidate),
        evidence=pack,
        replayed=replayed,
        confirmation=record.record if record is not None else None,
    )


def _why_unjudged(job: JobContext, target: Target, candidate: RunView) -> str:
    why = why_unjudged(str(target.path), candidate.summary, candidate.results.values())
    remedy = RECORD_TRACES if job.settings.agent is None else CHECK_THE_AGENT
    return f"{why} {remedy}" if why else ""


def _compare(
    target: Target, pack: Pack, search: Search, now: str, quarantined: frozenset[str]
) -> Comparison | None:
    """Compare with the suite's baseline; None without one.

    Only here does a baseline that contradicts itself show. Where the user named it, that is an error; another
    baseline is dropped with a warning.
    """
    baseline = search.baselines.get(target.slug)
    if baseline is None:
        return None
    try:
        return compared(baseline.pack, pack, changed="exclude", generated_at=now, quarantined=quarantined)
    except AgentEvalError as error:
        if baseline.named_by_user:
            raise
        del search.baselines[target.slug]
        search.withhold(
            f"The evidence of run {baseline.origin.run_id} cannot be compared with: {error.message}",
            loud=True,
        )
        search.settle([target.slug])
        return None


def unknown_cases(job: JobContext, suites: Sequence[SuiteEvaluation]) -> list[str]:
    """Warn of cases that the policy lists and that are in no suite of this run, nor in their baselines."""
    known = {case_id for suite in suites for case_id in suite.candidate.index}
    for suite in suites:
        if suite.baseline is not None:
            known.update(suite.baseline.view.index)
    policy = job.rules.stated_policy or job.rules.policy
    return unknown_case_warnings(policy, known, where="neither this run nor its baseline has it")
