"""Run single trials of an agent on the workers of a cluster."""

from __future__ import annotations

import os
import secrets
import threading
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from agent_eval.agents.base import AgentOptions
from agent_eval.agents.catalog import open_agent
from agent_eval.config.spec import AgentSpec
from agent_eval.contracts.execution import AttemptLimits, TrialLimits
from agent_eval.engine.agent_run import Elsewhere
from agent_eval.engine.cluster import Cluster, refuse_other_versions
from agent_eval.engine.journaled_suite import FinishedTrial, TrialNumber, record_trial
from agent_eval.engine.shard import JudgePlan
from agent_eval.engine.trial import TrialPlan
from agent_eval.engine.usage import Price
from agent_eval.errors import UsageError
from agent_eval.judges.base import ask_models
from agent_eval.models.retries import Retries
from agent_eval.operations import clock
from agent_eval.operations.agent_setup import redaction_of, tools_of
from agent_eval.storage.redaction import Redactor


@dataclass(frozen=True, kw_only=True)
class RemoteTrials:
    """What a worker needs to run any trial of a run; pickled with each, so it holds no key of a model.

    `name` is the agent's; `options` are without environment, since a worker has its own.
    """

    name: str
    agent: AgentSpec
    options: AgentOptions
    attempt_limits: AttemptLimits
    limits: TrialLimits
    plan: JudgePlan
    price: Price
    redactor: Redactor
    clock: Mapping[str, str]
    run: str = field(default_factory=secrets.token_hex)

    def plan_here(self) -> TrialPlan:
        """Open the agent and load the judges on this worker."""
        options = replace(self.options, environ=dict(os.environ))
        return TrialPlan(
            agent=open_agent(self.name, options),
            judges=self.plan.load(),
            tools=tools_of(self.agent, None, redaction_of(self.redactor)),
            max_repairs=self.agent.max_repairs,
            attempt_limits=self.attempt_limits,
            limits=self.limits,
            share_expected_output=self.agent.share_expected_output,
            retry=Retries(),
            clocks=clock.clocks(self.clock),
            price=self.price,
        )


def trials_elsewhere(cluster: Cluster, trials: RemoteTrials, here: TrialPlan) -> Elsewhere:
    """Have a cluster run trials, which `here` plans for this machine.

    Raises:
        UsageError: They need what only this machine has.
    """
    agent, asks = trials.agent, here.simulation is not None or ask_models(here.judges)
    if agent.tools or agent.cassette or here.commands is not None or asks:
        raise UsageError(
            "live tools, recordings of them, commands of cases, simulated users and judges that are models "
            "stay on this machine",
            remedy="Leave out --executor, or what needs this machine.",
            field="executor",
        )
    return Elsewhere(cluster, partial(_run_trial, trials))


_plans: dict[str, TrialPlan] = {}
_opening = threading.Lock()


def _run_trial(
    trials: RemoteTrials, raw: Mapping[str, Any], number: TrialNumber, versions: Mapping[str, str | None]
) -> FinishedTrial | None:
    """Run a trial on a worker, which keeps the agent of its latest run open."""
    refuse_other_versions(versions)
    with _opening:
        if trials.run not in _plans:
            while _plans:
                _plans.popitem()[1].agent.close()
            _plans[trials.run] = trials.plan_here()
        plan = _plans[trials.run]
    return record_trial(raw, number, plan, trials.redactor)
