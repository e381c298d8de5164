"""Run the released agent again on the suites of the base branch: at an address, or built from its commit."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from agent_eval.agents.base import AgentOptions
from agent_eval.ci.agent import ProgressLines, set_up
from agent_eval.ci.config import Settings
from agent_eval.ci.context import JobContext
from agent_eval.ci.looks import with_fixed_trials
from agent_eval.ci.merge_base import MergeBase, NoMergeBase
from agent_eval.ci.shared_build import why_shared
from agent_eval.ci.suites import Target
from agent_eval.config.spec import AgentSpec, Output, RunSpec
from agent_eval.errors import AgentEvalError, NotEvaluable
from agent_eval.evidence.reader import open_pack
from agent_eval.gate.looks import FIXED_TRIALS
from agent_eval.contracts.history import RunRecord
from agent_eval.history.record import record_of
from agent_eval.operations.agent_options import agent_options
from agent_eval.operations.run_agent import run_agent
from agent_eval.processes.child import allowed_environment

AUTO = "auto"
"""The value of `release-agent` by which the program of the release's commit is built."""

_SHARED = (
    "The released agent was not run: its program would share code with that of the base branch. Let "
    "`agent-command` run a file of the repository, and let `setup-command` install into the checkout, such "
    "as into a virtual environment there."
)


class NotRun(NotEvaluable):
    """Raised where the released agent cannot be run. The message is a sentence for the report."""

    code = "release_not_run"


@dataclass(frozen=True)
class _Built:
    """The release in its worktree, installed where it is a program."""

    settings: Settings
    directory: Path
    environ: Mapping[str, str]


class ReleasedAgent:
    """The released agent of one job. Close it: what it built is removed then.

    Example:
        `with ReleasedAgent(job) as agent:` has `agent.run(target, commit)`.

    Args:
        job: The job, one of the base branch.
    """

    def __init__(self, job: JobContext) -> None:
        self._job = job
        self._tree: MergeBase | None = None
        self._built: dict[str, _Built | NotRun] = {}

    def __enter__(self) -> ReleasedAgent:
        return self

    def __exit__(self, *_: object) -> None:
        if self._tree is not None:
            self._tree.remove()

    def run(self, target: Target, commit: str | None) -> RunRecord:
        """Run it on a suite, judged as the base branch's agent is, and count.

        Args:
            target: The suite.
            commit: The release's, as its evidence says; None where it does not.

        Raises:
            NotRun: It cannot be run, or a limit ended its run.
        """
        try:
            with tempfile.TemporaryDirectory(prefix="agent-eval-release-") as folder:
                return self._run(target, commit, Path(folder) / target.slug)
        except NotRun:
            raise
        except AgentEvalError as error:
            raise NotRun(f"The released agent could not be run: {error.message}") from error

    def _run(self, target: Target, commit: str | None, out: Path) -> RunRecord:
        job = self._job
        spec, options, environ = self._specified(target, commit, out)
        # What is held against each other has as many trials as the base branch runs under `trials: auto`.
        spec = with_fixed_trials(spec, FIXED_TRIALS)
        done = run_agent(
            spec,
            environ=environ,
            redactor=job.redactor,
            source=target.source,
            options=options,
            on_progress=ProgressLines(f"{target.path.name}, released agent", job.platform.say),
        )
        if done.stopped:
            raise NotRun(f"The run of the released agent was cut short: {done.stopped}.")
        return record_of(open_pack(out))

    def _specified(
        self, target: Target, commit: str | None, out: Path
    ) -> tuple[RunSpec, AgentOptions | None, Mapping[str, str]]:
        settings = self._job.settings
        agent = settings.agent or AgentSpec()
        # More trials are for what the gate cannot decide yet; the released agent is added up night by night.
        trials = agent.trials if isinstance(agent.trials, int) else 1
        agent = replace(agent, trials=trials, record=None, update=None, resume=False)
        name = self._job.platform.run.run_name
        spec = RunSpec(
            suite=target.path,
            output=Output(pack=out, fresh=True),
            agent=agent,
            judging=settings.judging,
            limits=settings.limits,
            identity=replace(
                settings.identity,
                run_id=f"{name}-{target.slug}-release" if name else None,
                git_commit=commit,
            ),
        )
        if settings.release_agent != AUTO:
            named = replace(agent, name=settings.release_agent, command=None, url=None, repair_command=None)
            return replace(spec, agent=named), None, self._job.environ
        built = self._of_commit(commit)
        released = _as_released(agent, built)
        identity = replace(spec.identity, model=built.settings.identity.model)
        spec = replace(spec, agent=released, limits=built.settings.limits, identity=identity)
        if released.command is None:
            return spec, None, self._job.environ
        options = replace(agent_options(released, built.environ), cwd=built.directory)
        return spec, options, built.environ

    def _of_commit(self, commit: str | None) -> _Built:
        if commit is None:
            raise NotRun(
                "The released agent was not run: the release's evidence does not say of which commit it is."
            )
        if commit not in self._built:
            try:
                self._built[commit] = self._build(commit)
            except NotRun as error:
                # What failed once is not tried again for the next suite.
                self._built[commit] = error
        built = self._built[commit]
        if isinstance(built, NotRun):
            raise built
        return built

    def _build(self, commit: str) -> _Built:
        """Check out the commit and install it by its own settings, once the base branch's agent is done."""
        job = self._job
        tree = self._checked_out(commit)
        directory = tree.tree / Path.cwd().resolve().relative_to(tree.top)
        if not directory.is_dir() or job.settings_at is None:
            raise NotRun("The released agent was not run: the job's directory is not in the release.")
        settings = job.settings_at(directory)
        agent = settings.agent
        if agent is None or not agent.is_named:
            raise NotRun(
                "The released agent was not run: the release names no agent. Name it in `release-agent`."
            )
        if agent.command is None:
            return _Built(settings, directory, job.environ)
        environ = {name: value.replace(str(tree.top), str(tree.tree)) for name, value in job.environ.items()}
        began = time.time()
        try:
            set_up(settings.setup, environ, job.platform.say, cwd=directory, of="release")
        except AgentEvalError as error:
            raise NotRun(f"The release could not be built: {error.message}") from error
        seen = allowed_environment(environ, agent.environment)
        if why_shared(agent.command, directory, tree.top, seen, began, tree.tree):
            raise NotRun(_SHARED)
        return _Built(settings, directory, environ)

    def _checked_out(self, commit: str) -> MergeBase:
        if self._tree is not None:
            raise NotRun("The released agent was not run: the release's suites are of several commits.")
        try:
            tree = MergeBase.check_out(
                Path.cwd(), commit, skip=self._job.settings.out, environ=self._job.environ
            )
        except NoMergeBase as error:
            raise NotRun(_not_there(commit)) from error
        self._tree = tree
        if tree.commit != commit:
            raise NotRun(_not_there(commit))
        return tree


def _as_released(agent: AgentSpec, built: _Built) -> AgentSpec:
    """Copy a specification with what the release says of its agent; a prompt is read from the worktree."""
    own = built.settings.agent or AgentSpec()
    prompt = built.directory / own.system_prompt if own.system_prompt is not None else None
    if own.command is None:
        return replace(
            own,
            system_prompt=prompt,
            trials=agent.trials,
            parallel=agent.parallel,
            record=None,
            replay=agent.replay,
            update=None,
            resume=False,
        )
    return replace(
        agent,
        name=None,
        url=None,
        command=own.command,
        repair_command=own.repair_command,
        environment=own.environment,
        keep_alive=own.keep_alive,
        max_repairs=own.max_repairs,
    )


def _not_there(commit: str) -> str:
    return (
        f"The released agent was not run: its commit `{commit[:12]}` is not among those that the checkout "
        "comes from. Check out the whole history, and release from the base branch."
    )
