"""Measure the base in this job, where its own runs left nothing to compare with."""

from __future__ import annotations

from dataclasses import replace

from agent_eval.ci.agents import Agents
from agent_eval.ci.baseline import Baseline, Origin
from agent_eval.ci.context import JobContext
from agent_eval.ci.definitions import Target
from agent_eval.ci.sides import NoSuchDirectory, Side
from agent_eval.ci.worktree import CannotCheckOut
from agent_eval.config.spec import Output, RunSpec
from agent_eval.errors import AgentEvalError
from agent_eval.evidence.reader import open_pack
from agent_eval.operations.packs import view
from agent_eval.operations.run import run_suite
from agent_eval.operations.run_agent import run_agent

TRIALS = 4
"""Trials of each case: a case that passed once by luck would count as reliable."""

MEASURED = "measured in this job"
"""How such a baseline was found."""


def measure_base(job: JobContext, agents: Agents, target: Target, spec: RunSpec) -> Baseline | str:
    """Run the base's agent over the base's own suite, or judge the traces that are recorded there.

    Args:
        job: The job.
        agents: Both agents.
        target: The suite.
        spec: How its first run was made.

    Returns:
        The baseline, or why there is none, as a sentence.
    """
    place, clone = job.place, job.clone
    if place is None or clone is None:
        return "The base was not measured: the job does not run in a git checkout."
    out = Output(pack=clone.home / "measured" / target.slug, fresh=True)
    try:
        if spec.agent is None:
            side = agents.base or Side.of(clone, "base", place.base, job.environ)
            agents.base = side
            spec = replace(spec, suite=side.path(target.path), output=out)
            run_suite(spec, environ=job.environ, redactor=job.redactor)
        else:
            base = agents.build_base()
            if not base.can_run or agents.base is None:
                return f"The base was not measured: {base.problem or 'no agent of it is named'}."
            spec, options = agents.run_by("base", spec)
            agent = replace(spec.agent, trials=TRIALS) if spec.agent is not None else None
            spec = replace(spec, agent=agent, suite=agents.base.path(target.path), output=out)
            agents.before_trials("base")
            done = run_agent(spec, environ=job.environ, redactor=job.redactor, options=options)
            agents.after_trials("base")
            if done.stopped:
                return f"The base was not measured: {done.stopped}."
        pack = open_pack(out.pack)
    except (CannotCheckOut, NoSuchDirectory) as error:
        return f"The base was not measured: {error.message}"
    except AgentEvalError as error:
        if error.code == "altered":
            raise
        return f"The base was not measured: {error.message}"
    job.platform.say(f"The base has no run; {target.path} was measured at {place.base[:7]} in this job.")
    return Baseline(pack, view(pack), Origin(how=MEASURED, sha=place.base, branch=place.trusted_branch))
