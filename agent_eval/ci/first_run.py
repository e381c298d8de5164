"""The first run of each suite: the agent is run, or recorded traces are judged, and the evidence sealed."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import replace

from agent_eval.ci.agent import ProgressLines, run_live
from agent_eval.ci.agents import Agents
from agent_eval.ci.baseline import Search
from agent_eval.ci.context import JobContext
from agent_eval.ci.definitions import Target
from agent_eval.ci.history import BranchHistory
from agent_eval.ci.rerunning import first_share
from agent_eval.config.spec import Output, RunSpec
from agent_eval.evidence.layout import may_be_replaced
from agent_eval.evidence.reader import Pack, open_pack
from agent_eval.operations.run import run_suite
from agent_eval.storage.atomic import new_directories
from agent_eval.suites.paths import is_of_conversations
from agent_eval.suites.reader import open_suite

FIRST_TRIALS, FIRST_RUNS = 4, 4
"""Trials of each case in a run of a reviewed commit, while fewer such runs are known: what passed once by
luck would count as reliable."""


def runs_live(job: JobContext, target: Target) -> bool:
    """Whether the job can run the agent on a suite; else it judges recorded traces."""
    agent = job.settings.agent
    return agent is not None and (agent.is_named or is_of_conversations(target.path))


def first_run_of(job: JobContext, target: Target, history: BranchHistory) -> RunSpec:
    """Say how the first run of a suite is made, with its share of the limits."""
    settings, run = job.settings, job.platform.run
    name, agent = run.run_name, settings.agent
    if agent is not None and job.place is not None and job.place.is_reviewed:
        known = history.of(target.slug)
        of_setup = [record for record in known if record.run.key == known[0].run.key]
        if len(of_setup) < FIRST_RUNS:
            agent = replace(agent, trials=max(agent.trials, FIRST_TRIALS))
    identity = replace(
        settings.identity,
        run_id=f"{name}-{target.slug}" if name else None,
        git_commit=job.place.head if job.place is not None else run.head_sha,
    )
    return RunSpec(
        suite=target.path,
        output=Output(pack=settings.out / target.slug, fresh=True),
        agent=agent if runs_live(job, target) else None,
        judging=settings.judging,
        limits=replace(settings.limits, run=first_share(settings.limits.run)),
        identity=identity,
    )


def make_packs(
    job: JobContext, targets: Sequence[Target], agents: Agents, search: Search, history: BranchHistory
) -> dict[str, Pack]:
    """Judge every suite, by running the agent where there is one; its evidence by slug."""
    earlier = {slug: baseline.pack for slug, baseline in search.baselines.items()}
    if not any(runs_live(job, target) for target in targets):
        return _score_all(job, targets, earlier, history)
    if len(targets) > 1:
        for target in targets:
            # A suite that cannot be read is reported before the others have been run.
            deque(open_suite(target.path).cases(), maxlen=0)
    packs = {}
    for target in targets:
        spec = first_run_of(job, target, history)
        if spec.agent is None:
            _score(job, target, spec, earlier)
        else:
            change = agents.of_change()
            spec = replace(spec, agent=replace(change.agent, trials=spec.agent.trials))
            run_live(job, spec, target.source, earlier.get(target.slug), change.options)
        packs[target.slug] = open_pack(spec.output.pack)
    return packs


def _score_all(
    job: JobContext, targets: Sequence[Target], earlier: Mapping[str, Pack], history: BranchHistory
) -> dict[str, Pack]:
    """Judge the recorded traces of every suite.

    The packs come into place together, so that a suite that cannot be read leaves those of an earlier run
    as they were.
    """
    finals = [job.settings.out / target.slug for target in targets]
    with new_directories(finals, may_replace=may_be_replaced) as places:
        for target, place in zip(targets, places, strict=True):
            spec = replace(first_run_of(job, target, history), output=Output(pack=place, fresh=True))
            _score(job, target, spec, earlier)
    return {target.slug: open_pack(job.settings.out / target.slug) for target in targets}


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
