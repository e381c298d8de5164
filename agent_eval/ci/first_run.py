"""The evidence that a job compares: of each suite's first run, of earlier jobs, and of the measured base.

In a first run the agent is run, or recorded traces are judged. Of earlier jobs it is the shards of one suite,
merged, and this job judges nothing. The base is measured where its own runs left nothing to compare with.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

from agent_eval.ci.agents import Agents
from agent_eval.ci.baseline import Baseline, Origin, Search, packs_below
from agent_eval.ci.context import JobContext
from agent_eval.ci.definitions import Target
from agent_eval.ci.rerunning import first_share
from agent_eval.ci.sides import Side
from agent_eval.config.rows.run import LIMITS
from agent_eval.config.spec import Output, RunSpec
from agent_eval.engine.progress import RunProgress
from agent_eval.errors import AgentEvalError, InvalidInput, NotEvaluable
from agent_eval.evidence.archive import by_dataset, compact, expand
from agent_eval.evidence.layout import may_be_replaced
from agent_eval.evidence.reader import Pack, open_pack, refuse_incomplete
from agent_eval.operations.packs import view
from agent_eval.operations.resume import discard_journal
from agent_eval.operations.run import Overrides, run_suite
from agent_eval.operations.run_agent import run_agent
from agent_eval.reports.terminal import progress_text
from agent_eval.storage.atomic import new_directories
from agent_eval.suites.paths import is_of_conversations
from agent_eval.suites.reader import open_suite
from agent_eval.text.escape import clean
from agent_eval.text.numbers import count, verb

FIRST_TRIALS, FIRST_RUNS = 4, 4
"""Trials of each case in a run of a reviewed commit, while fewer such runs are known, and of a measured base:
what passed once by luck would count as reliable."""

MEASURED = "measured in this job"
"""How the baseline of a measured base was found."""

SECONDS_BETWEEN_LINES = 10.0
_AFTER_AN_OUTAGE = "Check that the agent, its tools and the judges' model answer, then run the job again."
_LIMITS_OF_A_RUN = " or ".join(f"`{row.name}`" for row in LIMITS if row.part == "limits.run")
_RAISE_LIMITS = f"Raise {_LIMITS_OF_A_RUN}, or run fewer cases."


def runs_live(job: JobContext, target: Target) -> bool:
    """Whether the job can run the agent on a suite; else it judges recorded traces."""
    agent = job.settings.agent
    return agent is not None and (agent.is_named or is_of_conversations(target.path))


def first_run_of(job: JobContext, target: Target, search: Search) -> RunSpec:
    """Say how the first run of a suite is made, with its share of the limits."""
    settings, run = job.settings, job.platform.run
    agent = settings.agent
    if agent is not None and job.place is not None and job.place.is_reviewed:
        known = search.earlier.get(target.slug, [])
        of_setup = [record for record in known if record.run.key == known[0].run.key]
        if len(of_setup) < FIRST_RUNS:
            agent = replace(agent, trials=max(agent.trials, FIRST_TRIALS))
    identity = replace(
        settings.identity,
        run_id=f"{run.run_name}-{target.slug}" if run.run_name else None,
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


def make_packs(job: JobContext, targets: Sequence[Target], agents: Agents, search: Search) -> dict[str, Pack]:
    """Judge every suite, by running the agent where there is one; its evidence by slug.

    Where a limit or an outage ends a run, the evidence of the finished trials is written.
    """
    if len(targets) > 1:
        for target in targets:
            # A suite that cannot be read is reported before the others have been run.
            deque(open_suite(target.path).cases(), maxlen=0)
    packs = {}
    for target in targets:
        spec = first_run_of(job, target, search)
        baseline = search.baselines.get(target.slug)
        overrides = Overrides(
            redactor=job.redactor,
            source=target.source,
            baseline=baseline.pack if baseline is not None else None,
        )
        lines = ProgressLines(target.path.name, job.platform.say)
        if spec.agent is None:
            run_suite(spec, environ=job.environ, overrides=overrides, on_progress=lines)
        else:
            change = agents.of_change()
            spec = replace(spec, agent=replace(change.agent, trials=spec.agent.trials))
            discard_journal(spec.output.pack)
            overrides = replace(overrides, options=change.options)
            done = run_agent(spec, environ=job.environ, overrides=overrides, on_progress=lines)
            if done.stopped:
                raise _stopped(spec.suite, done.stopped, done.progress, is_outage=bool(done.outage))
        packs[target.slug] = open_pack(spec.output.pack)
    return packs


def _stopped(suite: Path, why: str, progress: RunProgress, *, is_outage: bool) -> NotEvaluable:
    not_run = progress.total - progress.done
    message = f"{suite}: {why}, after {progress.done} of {progress.total} trials."
    if is_outage:
        message += (
            f" The run stopped there: {count(not_run, 'trial')} {verb(not_run, 'was', 'were')} not run."
        )
        message += " This says nothing about the change."
    return NotEvaluable(message, remedy=_AFTER_AN_OUTAGE if is_outage else _RAISE_LIMITS, file=str(suite))


class ProgressLines:
    """Prints every few seconds into the job's log how far the run of a suite is."""

    def __init__(self, suite: str, say: Callable[[str], None]) -> None:
        self._suite, self._say = clean(suite), say
        self._last = time.monotonic()

    def __call__(self, progress: RunProgress) -> None:
        """Print a line, if the last one is old enough."""
        if time.monotonic() - self._last >= SECONDS_BETWEEN_LINES:
            self._last = time.monotonic()
            self._say(f"{self._suite}: {progress_text(progress)}")


def take_packs(job: JobContext, targets: Sequence[Target], where: Path) -> dict[str, Pack]:
    """Copy the evidence of every suite, which earlier jobs made, into the output directory; by slug.

    `where` is a pack, or a directory or archive of packs, with one whole pack of each suite as it is here,
    made at the commit of this job.
    """
    by_slug = by_dataset(packs_below(where).values(), str(where))
    for target in targets:
        if target.slug not in by_slug:
            raise _wrong(where, f"has no evidence of `{target.slug}`", "Run every suite in an earlier job.")
        _check_taken(job, target, by_slug[target.slug], where)
    finals = [job.settings.out / target.slug for target in targets]
    with new_directories(finals, may_replace=may_be_replaced) as places:
        for target, place in zip(targets, places, strict=True):
            pack = by_slug[target.slug]
            (expand if pack.manifest.layout == "files" else compact)(pack, place)
    return {target.slug: open_pack(job.settings.out / target.slug) for target in targets}


def _check_taken(job: JobContext, target: Target, pack: Pack, where: Path) -> None:
    """Refuse a pack that is not the whole evidence of a suite at the job's commit."""
    refuse_incomplete(pack.name, pack.manifest)
    again = "Run the earlier jobs again, on the same commit."
    if pack.config.suite_digest != (target.source or open_suite(target.path)).digest:
        raise _wrong(where, f"is of another version of `{target.path}`", again)
    commit = job.place.head if job.place is not None else None
    if commit is not None and pack.config.git_commit is None:
        raise _wrong(where, "does not say of which commit it is", "Make it in a job of this run, or in git.")
    if commit not in (None, pack.config.git_commit):
        raise _wrong(where, "is of another commit", again)


def _wrong(where: Path, what: str, remedy: str) -> InvalidInput:
    return InvalidInput(f"The evidence at {where} {what}.", remedy=remedy, file=str(where), field="evidence")


def measure_base(job: JobContext, agents: Agents, target: Target, search: Search) -> None:
    """Run the base's agent over the base's own suite, or judge the traces that are recorded there.

    The baseline goes into the search; where there is none, a note says why. Raises `Altered` where the change
    altered what is run.
    """
    clone, place = job.clone, job.place
    if clone is None or place is None:
        return
    spec = replace(
        first_run_of(job, target, search),
        output=Output(pack=clone.home / "measured" / target.slug, fresh=True),
    )
    try:
        if spec.agent is None:
            agents.base = side = agents.base or Side(clone, "base", place.base, job.environ)
            spec = replace(spec, suite=side.path(target.path))
            run_suite(spec, environ=job.environ, overrides=Overrides(redactor=job.redactor))
        else:
            _run_base(job, agents, target, spec)
        pack = open_pack(spec.output.pack)
    except AgentEvalError as error:
        if error.code == "altered":
            raise
        search.notes.append(f"The base was not measured: {error.message}")
        return
    job.platform.say(f"The base has no run; {target.path} was measured at {place.base[:7]} in this job.")
    origin = Origin(how=MEASURED, sha=place.base, branch=place.trusted_branch)
    search.baselines[target.slug] = Baseline(pack, view(pack), origin)


def _run_base(job: JobContext, agents: Agents, target: Target, spec: RunSpec) -> None:
    base = agents.build_base()
    if not base.can_run or agents.base is None:
        raise NotEvaluable(f"{base.problem or 'no agent of it is named'}.")
    spec, options = agents.run_by("base", spec)
    agent = replace(spec.agent, trials=FIRST_TRIALS) if spec.agent is not None else None
    spec = replace(spec, agent=agent, suite=agents.base.path(target.path))
    agents.before_trials("base")
    overrides = Overrides(redactor=job.redactor, options=options)
    done = run_agent(spec, environ=job.environ, overrides=overrides)
    agents.after_trials("base")
    if done.stopped:
        raise NotEvaluable(f"{done.stopped}.")
