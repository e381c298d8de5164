"""The agents of a job: the change's, and the base's that it is held against, each on a side of its own.

A program runs in a worktree of its commit, after that commit's own `setup`. An agent behind an
address or a hosted model runs as it is; the base's is then the one that `base-agent` names, if any.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Self

from agent_eval.agents.base import AgentOptions
from agent_eval.agents.catalog import AGENTS, kind_of, open_agent
from agent_eval.ci.config import Settings
from agent_eval.ci.platforms.catalog import is_secret_of_a_job
from agent_eval.ci.rules import JobContext
from agent_eval.ci.sides import CannotCheckOut, NoSuchDirectory, Side, set_up
from agent_eval.ci.workspace import as_code
from agent_eval.config.spec import AgentSpec, RunSpec
from agent_eval.contracts.reruns import Side as SideName
from agent_eval.errors import AgentEvalError, NotEvaluable, UsageError
from agent_eval.gate.rerun import BaseAgent
from agent_eval.operations.agent_setup import agent_options, read_system_prompt
from agent_eval.suites.paths import any_of_conversations
from agent_eval.text.numbers import count

_IMAGE = re.compile(r"\s*(?:docker|podman)\s.*@sha256:[0-9a-f]{64}(?:\s|$)", re.DOTALL)
"""A command that runs an image by its digest: no file of the checkout is in it."""

_NAMED = 3
_ALTERED_BY_BASE = "the base's setup altered what the change runs"


def check_agent(job: JobContext) -> None:
    """Check the agent that the job runs, before minutes are spent on installing what it needs.

    A child that would be given the job's own token is refused.
    """
    agent, environ = job.settings.agent, job.environ
    if agent is None:
        return
    variables = [variable for _, variable in agent.headers]
    exposed = {
        "agent-env": agent.environment,
        "setup-env": job.settings.setup.environment,
        "agent-header": variables,
        "suite-key-env": agent.key_variables,
    }
    secrets = [value for value in job.settings.secrets if value]
    for setting, names in exposed.items():
        for name in names:
            if is_secret_of_a_job(name) or any(secret in environ.get(name, "") for secret in secrets):
                raise UsageError(
                    f"{setting}: {name} is the job's own, and no agent may see it.",
                    remedy="Give the agent a token of its own under another name.",
                    field=setting,
                )
    for variable in variables:
        if not environ.get(variable, ""):
            raise UsageError(
                f"agent-header names the environment variable {variable}, which is not set.",
                remedy=f"{job.platform.spec.remedies.set_variable}.",
                field="agent-header",
            )
    options = agent_options(agent, environ)
    if agent.names_one or not any_of_conversations(job.settings.suite):
        open_agent(agent.called(job.settings.identity.model), options).close()


@dataclass(frozen=True)
class Prepared:
    """One side, ready to be run, with the settings of its commit; options are None for those of `agent`."""

    agent: AgentSpec
    options: AgentOptions | None
    settings: Settings


@dataclass
class Agents:
    """Both agents of a job that runs one. Make it by `prepare`, before any code of the change runs.

    Attributes:
        base_commit: The commit that the change is held against; None where there is none, or it is not known.
        change: The worktree of what is evaluated; None where the agent is no program, or in no checkout.
        base: The worktree of the base; None as well where that is not to be had.
        problem: Why the base's agent cannot run, as a clause; None as far as it can.
        altered: Why no trial of a side counts, as a clause.
    """

    job: JobContext
    base_commit: str | None = None
    change: Side | None = None
    base: Side | None = None
    problem: str | None = None
    altered: dict[SideName, str] = field(default_factory=dict)
    _prepared: dict[SideName, Prepared] = field(default_factory=dict)

    @classmethod
    def prepare(cls, job: JobContext, base_commit: str | None) -> Self:
        """Check out the sides that the job may run.

        Raises `UsageError` where `base-agent` names a program.
        """
        agents = cls(job, base_commit)
        named, place = job.settings.base_agent, job.place
        if named is not None and not _is_isolated(named):
            raise UsageError(
                "`base-agent` names a program, which is built from the base commit by itself.",
                remedy="Leave it out, or name an address, a hosted model, or `docker run … IMAGE@sha256:…`.",
                field="base-agent",
            )
        if not agents.is_program:
            return agents
        if place is None:
            agents.problem = "the job does not run in a git checkout"
            return agents
        agents.change = Side(place.clone, "change", place.head, job.environ)
        if base_commit is None:
            agents.problem = "its commit is not known"
        elif named is None and not agents.is_unchanged:
            try:
                agents.base = Side(place.clone, "base", base_commit, job.environ)
            except CannotCheckOut as error:
                agents.problem = error.reason
            except NoSuchDirectory as error:
                agents.problem = error.message.rstrip(".")
        return agents

    @property
    def is_program(self) -> bool:
        """Whether the agent is a program of the checkout."""
        return _program_of(self.job.settings.agent) is not None

    @property
    def is_unchanged(self) -> bool:
        """Whether no file of the program's repository differs from the base, `agent-eval.yml` among them."""
        place, base = self.job.place, self.base_commit
        if not self.is_program or place is None or base is None:
            return False
        return place.clone.same_tree(place.head, base)

    def edited(self) -> list[str]:
        """Warn of edited files, which the change's side does not have: what is committed is evaluated."""
        place = self.job.place
        if self.change is None or place is None or not (edited := place.clone.edited()):
            return []
        more = f" and {count(len(edited) - _NAMED, 'more file')}" if len(edited) > _NAMED else ""
        named = ", ".join(as_code(name) for name in edited[:_NAMED])
        return [
            f"{named}{more}: edited since the commit, and not evaluated. Commit what belongs to the change."
        ]

    def set_up(self) -> None:
        """Run the change's `setup`. The private clone must be sealed before."""
        job = self.job
        if self.change is None:
            set_up(job.settings.setup, job.environ, job.platform.say)
        else:
            self.change.set_up(job.settings.setup, job.platform.say)

    def of_change(self) -> Prepared:
        """The change's agent, as it runs on its side."""
        if "change" not in self._prepared:
            agent = self.job.settings.agent or AgentSpec()
            options = None
            if self.change is not None:
                agent = self.change.agent(agent)
                options = self.change.options(agent)
            self._prepared["change"] = Prepared(agent, options, self.job.settings)
        return self._prepared["change"]

    def describe_base(self) -> BaseAgent:
        """Tell how the base's agent would run, as far as that is known before its setup."""
        if self.job.settings.base_agent is not None:
            return BaseAgent("isolated", self.problem, self.base_commit)
        if not self.is_program:
            return BaseAgent("none")
        return BaseAgent("beside", self.problem, self.base_commit, is_unchanged=self.is_unchanged)

    def build_base(self) -> BaseAgent:
        """Run the base's own `setup`, unless that was done, and tell how its agent runs."""
        if "base" not in self._prepared and self.problem is None and self.describe_base().can_run:
            try:
                base = self.base
                self._prepared["base"] = self._named_base() if base is None else self._built_base(base)
            except AgentEvalError as error:
                self.problem = error.message.rstrip(".")
        return self.describe_base()

    def run_by(self, side: SideName, spec: RunSpec) -> tuple[RunSpec, AgentOptions | None]:
        """Copy how the change's first run was made, for one trial of each case on a side that can run."""
        prepared = self.of_change() if side == "change" else self._prepared.get("base")
        if prepared is None:
            raise NotEvaluable(f"The base's agent cannot run: {self.problem}.")
        if side == "base":
            identity = replace(spec.identity, git_commit=self.base_commit)
            limits = replace(prepared.settings.limits, run=spec.limits.run)
            spec = replace(spec, limits=limits, identity=identity)
        agent = replace(prepared.agent, trials=1, resume=False)
        return replace(spec, agent=agent), prepared.options

    def before_trials(self, side: SideName) -> None:
        """Refuse what the other side altered: the base's worktree, or the private clone."""
        if self.job.place is not None:
            self.job.place.clone.refuse_altered()
        if side == "base" and self.base is not None:
            self.base.refuse_altered()
        self._see_change()

    def after_trials(self, side: SideName) -> None:
        """Take what the base's own agent left in its worktree as its sources, and look at the change's."""
        if side == "base" and self.base is not None:
            self.base.sources.renew()
            self._see_change(by_base="the base's agent altered {}, which the change runs")

    def _see_change(self, by_base: str = "the agent altered {}") -> None:
        path = (
            self.change.sources.altered()
            if self.change is not None and "change" not in self.altered
            else None
        )
        if path is not None:
            self.altered["change"] = by_base.format(as_code(path))

    def _built_base(self, base: Side) -> Prepared:
        job, mine = self.job, self.of_change().agent
        settings = job.settings_at(base.directory) if job.settings_at is not None else job.settings
        agent = settings.agent
        if agent is None or _program_of(agent) is None:
            raise NotEvaluable("its settings name no program as the agent")
        command = _program_of(mine)
        self._see_change()
        if self.change is not None:
            self.change.note_installed(command)
        base.set_up(settings.setup, job.platform.say)
        self._see_change(by_base=_ALTERED_BY_BASE)
        if self.change is not None and self.change.installed_altered(command) is not None:
            self.altered.setdefault("change", _ALTERED_BY_BASE)
        # What the workflow decides holds for both sides; what the agent is comes from its commit.
        own = replace(
            mine,
            command=agent.command,
            name=agent.name,
            repair_command=agent.repair_command,
            environment=agent.environment,
            keep_alive=agent.keep_alive,
            system_prompt=agent.system_prompt,
        )
        own = base.agent(own)
        return Prepared(own, base.options(own), settings)

    def _named_base(self) -> Prepared:
        """The agent that `base-agent` names; a hosted model has the system prompt of the base's commit."""
        job, mine, place = self.job, self.of_change().agent, self.job.place
        own = replace(mine, name=job.settings.base_agent, command=None, url=None, repair_command=None)
        system = None
        if mine.system_prompt is not None:
            where = Path.cwd().joinpath(mine.system_prompt).resolve()
            if place is None or self.base_commit is None or not where.is_relative_to(place.clone.top):
                system = read_system_prompt(mine.system_prompt)
            else:
                of_base = where.relative_to(place.clone.top).as_posix()
                content = place.clone.file(of_base, self.base_commit)
                system = content.decode("utf-8", "replace") if content is not None else None
        return Prepared(own, replace(agent_options(own, job.environ), system=system), job.settings)


def _program_of(agent: AgentSpec | None) -> str | None:
    """The command line of an agent that is a program; None for any other."""
    if agent is None or agent.command is not None:
        return agent.command if agent is not None else None
    if agent.name is None or kind_of(agent.name) is not AGENTS["command"]:
        return None
    return agent.name.removeprefix("command:")


def _is_isolated(named: str) -> bool:
    """Tell whether an agent runs no file of the checkout: an address, a hosted model, an image by digest."""
    kind = kind_of(named)
    if kind is None:
        return "://" in named
    if kind is AGENTS["command"]:
        return _IMAGE.match(named.removeprefix("command:")) is not None
    return kind is not AGENTS["recorded"] and not kind.sees_environment
