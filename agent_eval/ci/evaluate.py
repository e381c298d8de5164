"""The boxes of a job in a row: run or score every suite, compare, ask, run again, decide, seal."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

from agent_eval.ci.agents import Agents, check_agent
from agent_eval.ci.baseline import Baseline, Lack, Search, from_path, from_registry
from agent_eval.ci.baseline_search import Ground, find_baselines, find_named
from agent_eval.ci.clone import CommitUnknown
from agent_eval.ci.context import JobContext
from agent_eval.ci.definitions import Redefinition, Target, define, find_targets
from agent_eval.ci.first_run import first_run_of, make_packs, measure_base, runs_live, take_packs
from agent_eval.ci.history import add_to_history, counts_used, read_history_of_main
from agent_eval.ci.inputs import CONFIG_FILE
from agent_eval.ci.judges_of_tip import with_usable_judges
from agent_eval.ci.rerunning import FirstRun, run_again, run_by_main
from agent_eval.ci.rules import Rules
from agent_eval.ci.signing import admission_by, sign, signer_of
from agent_eval.ci.terms import lost_datasets, with_terms_of_the_job
from agent_eval.ci.versions import Versions
from agent_eval.ci.workspace import ARCHIVE_NAME
from agent_eval.comparison.facts import RunView
from agent_eval.contracts import Comparison, GateDecision, GateStatus, RunSummary
from agent_eval.contracts.replay import ReplayReport
from agent_eval.contracts.reruns import Reruns
from agent_eval.errors import AgentEvalError
from agent_eval.evidence.archive import write_bundle
from agent_eval.evidence.derived import write_output
from agent_eval.evidence.layout import HISTORY_USED, RERUNS, RERUNS_ARCHIVE
from agent_eval.evidence.reader import Pack
from agent_eval.evidence.redacted import without_secrets
from agent_eval.gate.decide import decide_by_policy, question_of
from agent_eval.gate.limits import figures_in_doubt
from agent_eval.gate.policy_file import unknown_case_warnings
from agent_eval.gate.procedure import Material
from agent_eval.history.records import encode_used
from agent_eval.judges.catalog import DEFAULT_JUDGES
from agent_eval.judges.hosted import end_hosted_judges
from agent_eval.operations.compare import compared
from agent_eval.operations.decision_material import is_recorded
from agent_eval.operations.gate import refuse_unknown_judges
from agent_eval.operations.packs import view
from agent_eval.operations.replay import REPORT as REPLAY_REPORT
from agent_eval.operations.replay import replay_own
from agent_eval.operations.run import judge_plan
from agent_eval.operations.unjudged import CHECK_THE_AGENT, RECORD_TRACES, why_ended, why_unjudged
from agent_eval.storage.files import sha256_bytes
from agent_eval.storage.json import dumps
from agent_eval.suites.aui import JUDGES as OF_CONVERSATIONS
from agent_eval.suites.paths import any_of_conversations

COMPARISON = "compare/baseline_delta.json"
DECISION = "compare/gate_decision.json"


@dataclass(frozen=True, kw_only=True)
class SuiteEvaluation:
    """One suite, judged and decided on. `pack` is the directory of its evidence, `evidence` that pack, open.

    Attributes:
        candidate: What the comparison reads of the pack.
        unjudged: Why none of its cases could be judged, and what to do; None where one could.
        replayed: How judging it again ended; None where that was not asked for.
        reruns: What was run again; None where nothing can be.
        own_outcome: What the change's own rules would have decided; None where they are main's.
    """

    target: Target
    pack: Path
    candidate: RunView
    baseline: Baseline | None
    comparison: Comparison | None
    decision: GateDecision
    unjudged: str | None = None
    evidence: Pack | None = None
    replayed: ReplayReport | None = None
    reruns: Reruns | None = None
    own_outcome: GateStatus | None = None


@dataclass(frozen=True, kw_only=True)
class Evaluation:
    """The result of a job, for its report, outputs and exit code; suites in the order of the job's settings.

    The archive has the evidence of all suites; None where the job reports on what another run left.
    """

    suites: list[SuiteEvaluation]
    search: Search
    archive: Path | None
    rules: Rules

    @property
    def problem(self) -> str:
        """Why there is no decision to rely on, and what to do; empty where there is one."""
        problems = [suite.unjudged or " ".join(suite.decision.not_evaluated) for suite in self.suites]
        if (outage := self.search.outage) is not None:
            problems.append(f"The baseline could not be read: {outage.cause} {outage.remedy}")
        return " ".join(filter(None, problems))

    def is_decided(self, suite: SuiteEvaluation) -> bool:
        """Whether there is a decision to rely on for one of the suites."""
        return not (suite.unjudged or suite.decision.not_evaluated or self.search.outage)


@dataclass(frozen=True, kw_only=True)
class Judged:
    """One suite before its decision: its run, compared with its baseline.

    `candidate` is what the comparison reads of the pack; `history` main's records that were used, as the
    evidence keeps them; `material` what the decision rests on, but for what is run again.
    """

    target: Target
    pack: Pack
    candidate: RunView
    history: bytes
    material: Material


def evaluate(job: JobContext) -> Evaluation:
    """Judge all suites and decide on them. The evidence holds no secret that the job's redactor knows.

    Errors keep their exit code: 2 where a suite, judge, agent or named baseline is wrong; 4 where the agent
    cannot be run, or the evidence cannot be written, or was altered meanwhile.
    """
    defined = define(find_targets(job.settings.suite), job.settings.suite, Versions(job.place, job.clone))
    targets = defined.targets
    check_agent(job)
    signer = signer_of(job.settings)
    # What a change is held against is read before any code of it runs, which could alter it. And a baseline
    # that cannot be used is an error: better before an agent has run for an hour than after.
    search = search_baselines(job, [target.slug for target in targets])
    search.warnings += [*lost_datasets(search), *defined.notes]
    job = with_usable_judges(job, search)
    read_history_of_main(job, search)
    agents = Agents.prepare(job, _base_commit(job, search))
    search.warnings += agents.edited()
    made_earlier = job.settings.evidence
    ready = take_packs(job, targets, made_earlier) if made_earlier is not None else None
    if job.clone is not None:
        job.clone.seal()
    # Judges that are code are loaded before any code of the change runs, which could alter what they import.
    _refuse_unknown_judges(job, search)
    if job.settings.agent is not None:
        agents.set_up()
    packs = ready if ready is not None else make_packs(job, targets, agents, search)
    for target in targets:
        if _is_to_measure(job, search.lack(target.slug)):
            measure_base(job, agents, target, search)
    judged = [
        judge(job, target, packs[target.slug], search, may_rerun=runs_live(job, target)) for target in targets
    ]
    reruns = _run_again(job, agents, judged, search, defined.redefinitions)
    end_hosted_judges()
    suites = [decide_on(job, suite, search, *reruns.get(suite.target.slug, (None, None))) for suite in judged]
    for suite in suites:
        sign(job, signer, packs[suite.target.slug], suite.pack, suite.decision)
    search.warnings += unknown_cases(job, suites)
    search.warnings += add_to_history(job, packs, search)
    archive = job.settings.out / ARCHIVE_NAME
    write_bundle({suite.target.slug: packs[suite.target.slug] for suite in suites}, archive)
    return Evaluation(suites=suites, search=search, archive=archive, rules=job.rules)


def _base_commit(job: JobContext, search: Search) -> str | None:
    """The commit that this one is held against: of a change its base, of a reviewed one its baseline's."""
    place, clone = job.place, job.clone
    if place is None or clone is None:
        return None
    if not place.is_reviewed:
        return place.base
    commit = next((row.origin.sha for row in search.baselines.values() if row.origin.sha), None)
    if commit is not None:
        with suppress(CommitUnknown):
            clone.fetch(commit)
            return commit
    return None


def _is_to_measure(job: JobContext, lack: Lack | None) -> bool:
    """Whether the base is to be measured, because reviewed runs left nothing to compare with.

    Where neither the tip has settings nor any reviewed run left evidence, this is a first adoption.
    """
    place, clone = job.place, job.clone
    if place is None or clone is None or place.is_reviewed or lack not in (Lack.LOST, Lack.FIRST):
        return False
    where = Path(os.path.relpath(Path.cwd().resolve() / CONFIG_FILE, clone.top))
    return lack is Lack.LOST or clone.file(where.as_posix(), place.tip) is not None


def search_baselines(job: JobContext, slugs: list[str]) -> Search:
    """Find the baselines of suites by their slugs, as the settings say."""
    settings, rules = job.settings, job.rules
    admission = admission_by(rules.baseline_key)
    if settings.baseline == "none":
        return Search(notes=["No baseline is wanted (`baseline: none`)."])
    if settings.baseline != "auto":
        entry = rules.registry.baselines.get(settings.baseline)
        if entry is not None and not Path(settings.baseline).exists():
            return from_registry(entry, rules.registry_path, slugs, _why_unfit, admission)
        return from_path(Path(settings.baseline), slugs, _why_unfit, admission)
    ground = Ground(
        place=job.place,
        clone=job.clone,
        wanted=slugs,
        remedy=job.platform.spec.remedies.read_runs,
        unfit=_why_unfit,
        key=rules.baseline_key,
    )
    if settings.baseline_run_id is not None:
        return find_named(job.platform.run_named(settings.baseline_run_id), ground)
    return find_baselines(job.platform.earlier_runs, ground)


def _why_unfit(summary: RunSummary) -> str:
    """Say why a run is no baseline, as a clause; empty for one that is."""
    unjudged = summary.error_cases + summary.skipped_cases
    return "none of its cases could be judged" if unjudged >= summary.total_cases else ""


def _refuse_unknown_judges(job: JobContext, search: Search) -> None:
    """Refuse a judge that does not exist before an agent has run for an hour."""
    judging = job.settings.judging
    names = (*DEFAULT_JUDGES, *(OF_CONVERSATIONS if any_of_conversations(job.settings.suite) else ()))
    judges = judge_plan(judging, judging.judges or names, job.environ).load()
    seen = [baseline.view.summary.judge_counts for baseline in search.baselines.values()]
    known = {judge.judge_id for judge in judges}.union(*seen)
    refuse_unknown_judges(job.rules.policy, job.rules.waivers, known)


def judge(job: JobContext, target: Target, pack: Pack, search: Search, *, may_rerun: bool) -> Judged:
    """Compare the run of a suite with its baseline, and gather what its decision rests on.

    `may_rerun` is whether the job can run the agent.
    """
    comparison = _compare(target, pack, search, job.timestamp())
    if comparison is not None:
        comparison = without_secrets(comparison, job.redactor)
    candidate, counts = view(pack), counts_used(pack, search)
    used = encode_used(counts.newest, counts.main)
    digests = {}
    if comparison is not None:
        digests["comparison_sha256"] = sha256_bytes(dumps(comparison.to_json(), indent=True))
    if used:
        digests["history_sha256"] = sha256_bytes(used)
    material = Material(
        run=candidate.reference(),
        comparison=comparison,
        counts=counts,
        waivers=job.rules.waivers,
        seed=pack.config.git_commit or "",
        may_rerun=may_rerun,
        is_recorded=is_recorded(pack),
        digests=digests,
    )
    return Judged(target=target, pack=pack, candidate=candidate, history=used, material=material)


def _compare(target: Target, pack: Pack, search: Search, now: str) -> Comparison | None:
    """Compare with the suite's baseline; None without one.

    Only here does a baseline that contradicts itself show. Where the user named it, that is an error; another
    baseline is dropped with a warning.
    """
    baseline = search.baselines.get(target.slug)
    if baseline is None:
        return None
    try:
        return compared(baseline.pack, pack, generated_at=now)
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


def _run_again(
    job: JobContext,
    agents: Agents,
    judged: Sequence[Judged],
    search: Search,
    redefinitions: Mapping[str, Redefinition],
) -> dict[str, tuple[Reruns, bytes | None]]:
    """Run again what the first runs ask, and as main has them the cases that the change removes or rewords.

    Returns by slug the record, and the archive with the packs of the trials.
    """
    policy, now = job.rules.policy, job.timestamp()
    runs = {}
    for suite in judged:
        material = suite.material
        if material.may_rerun:
            runs[suite.target.slug] = FirstRun(
                spec=first_run_of(job, suite.target, search),
                source=suite.target.source,
                pack=suite.pack,
                question=question_of(material, policy, generated_at=now),
                baseline_sha256=material.comparison.baseline.manifest_sha256 if material.comparison else None,
                figures_in_doubt=figures_in_doubt(material.counts, policy),
            )
    done = run_again(job, agents, runs)
    for suite in judged:
        slug = suite.target.slug
        redefinition = redefinitions.get(slug)
        if redefinition is None or redefinition.of_base is None or suite.material.comparison is None:
            continue
        record, archive = done.get(slug, (Reruns(), None))
        spec = replace(first_run_of(job, suite.target, search), suite=redefinition.of_base)
        by_main = run_by_main(job, agents, spec)
        done[slug] = record.model_copy(update={"by_main": by_main}), archive
    return done


def decide_on(
    job: JobContext,
    suite: Judged,
    search: Search,
    reruns: Reruns | None = None,
    archive: bytes | None = None,
) -> SuiteEvaluation:
    """Decide on a suite, and keep in its evidence what the decision rests on.

    `reruns` says what was run again, None where nothing can be; `archive` has the packs of that.
    """
    target, where = suite.target, job.settings.out / suite.target.slug
    data = dumps(reruns.to_json(), indent=True) if reruns is not None else b""
    digests = dict(suite.material.digests)
    if data:
        digests["reruns_sha256"] = sha256_bytes(data)
    material = replace(suite.material, reruns=reruns, digests=digests)
    decision = decide_by_policy(material, job.rules.policy, generated_at=job.timestamp())
    own, own_outcome = job.rules.own_policy, None
    if own is not None:
        own_outcome = decide_by_policy(material, own, generated_at=job.timestamp()).gate_status
    replayed = _replay(job, suite.pack, where) if job.settings.replay_evidence else None
    decision = with_terms_of_the_job(decision, job, search, target.slug, replayed)
    comparison = material.comparison
    written = {
        COMPARISON: dumps(comparison.to_json(), indent=True) if comparison is not None else b"",
        RERUNS: data,
        RERUNS_ARCHIVE: archive or b"",
        HISTORY_USED: suite.history,
        DECISION: dumps(decision.to_json(), indent=True),
    }
    for name, content in written.items():
        if content:
            write_output(where / name, content)
    return SuiteEvaluation(
        target=target,
        pack=where,
        candidate=suite.candidate,
        baseline=search.baselines.get(target.slug),
        comparison=comparison,
        decision=decision,
        unjudged=_why_unjudged(job, target, suite.candidate),
        evidence=suite.pack,
        replayed=replayed,
        reruns=reruns,
        own_outcome=own_outcome,
    )


def _replay(job: JobContext, pack: Pack, where: Path) -> ReplayReport:
    """Judge a pack of this job again, and write the report into it."""
    report = without_secrets(replay_own(pack, where, environ=job.environ), job.redactor)
    write_output(where / REPLAY_REPORT, dumps(report.to_json(), indent=True))
    return report


def _why_unjudged(job: JobContext, target: Target, candidate: RunView) -> str | None:
    if ended := why_ended(candidate.summary, candidate.results.values()):
        return ended
    why = why_unjudged(str(target.path), candidate.summary, candidate.results.values())
    remedy = RECORD_TRACES if job.settings.agent is None else CHECK_THE_AGENT
    return f"{why} {remedy}" if why else None


def unknown_cases(job: JobContext, suites: Sequence[SuiteEvaluation]) -> list[str]:
    """Warn of cases that the policy lists and that are in no suite of this run, nor in their baselines."""
    known = {case_id for suite in suites for case_id in suite.candidate.index}
    for suite in suites:
        if suite.baseline is not None:
            known.update(suite.baseline.view.index)
    return unknown_case_warnings(job.rules.policy, known, where="neither this run nor its baseline has it")
