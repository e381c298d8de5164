"""`run --agent`: run an agent over a suite, judge its trials, and seal the evidence."""

from __future__ import annotations

import os
import secrets
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager, nullcontext, suppress
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from agent_eval.agents.base import Agent, AgentOptions, Tools
from agent_eval.agents.cassette import Cassette
from agent_eval.agents.catalog import open_agent
from agent_eval.agents.tools import CaseTools
from agent_eval.config.assembly import recorded_fields
from agent_eval.config.spec import AgentSpec, Judging, Limits, RunSpec
from agent_eval.contracts import AgentDescription, Case, ExecutionConfig, RunConfig
from agent_eval.contracts.verdict import EXECUTION
from agent_eval.conversation.simulated_user import Simulation, released_prompt
from agent_eval.engine.agent_run import Elsewhere, Execution, ExecutionPlan, execute
from agent_eval.engine.case_commands import CaseCommands
from agent_eval.engine.cluster import Cluster, refuse_other_versions
from agent_eval.engine.journaled_suite import FinishedTrial, TrialNumber, check_record, record_trial
from agent_eval.engine.progress import RunProgress
from agent_eval.engine.scoring import score_suite
from agent_eval.engine.shard import JudgePlan, written_config
from agent_eval.engine.trial import TrialPlan
from agent_eval.engine.usage import Price, priced
from agent_eval.errors import NotEvaluable, NothingMeasured, StorageError, UsageError
from agent_eval.evidence.layout import is_complete_pack, may_be_replaced
from agent_eval.judges.base import NoModel, ask_models
from agent_eval.judges.catalog import DEFAULT_JUDGES
from agent_eval.models.retries import Retries
from agent_eval.models.usage import read_prices
from agent_eval.operations import clock
from agent_eval.operations.agent_setup import (
    agent_options,
    cassette_of,
    completed,
    literal_secrets,
    redaction_of,
    simulation_for,
    with_key,
)
from agent_eval.operations.models import MODEL_JUDGE, ModelAccess, kept_replies, reuse_rulings
from agent_eval.operations.resume import (
    LOOP_MODE,
    discard_journal,
    finished_run,
    journal_path,
    open_journal,
    refuse_to_lose,
)
from agent_eval.operations.run import (
    NO_OVERRIDES,
    Overrides,
    RunResult,
    cluster_of,
    judge_plan,
    recorded_policy,
    run_config,
)
from agent_eval.processes.child import allowed_environment
from agent_eval.processes.pool import SUPERVISORS
from agent_eval.storage.atomic import write_file
from agent_eval.storage.journal import Journal
from agent_eval.storage.redaction import Redactor
from agent_eval.suites.reader import open_suite
from agent_eval.suites.select import ChosenCases, choose, wanted_ids


@dataclass(frozen=True)
class RunLoopResult(RunResult):
    """Result of a run of an agent; its summary is over the cases that have been run.

    Attributes:
        stopped: Reason why the run ended early, as a clause; empty if it did not.
        was_complete: Whether an earlier start had finished the run, so that nothing was run.
        outage: Why, where an outage ended it.
    """

    stopped: str
    progress: RunProgress
    was_complete: bool = False
    outage: str = ""


class RunInterrupted(NotEvaluable):
    """The user or a signal ended a run before it could write a pack."""

    code = "interrupted"


def run_agent(
    spec: RunSpec,
    *,
    environ: Mapping[str, str],
    overrides: Overrides = NO_OVERRIDES,
    on_progress: Callable[[RunProgress], None] = lambda _: None,
    stop: Callable[[], str] = lambda: "",
) -> RunLoopResult:
    """Run an agent over a suite, and write the sealed pack.

    Finished trials are in a journal beside the pack (`resume.journal_path`) until the pack is complete.

    Args:
        on_progress: Called several times a second. May raise, as Ctrl-C does.
        stop: Called several times a second. Returns why the run must end, as a clause, or an empty text.
            Trials that have finished by then are in the pack.

    Raises:
        InvalidInput: Suite, judge or configuration is invalid; nothing has been run.
        UsageError: The agent is unknown, `spec.output.pack` is in use, or an earlier start had other
            settings.
        NothingMeasured: There is no case, or a limit was reached before one was done.
        RunInterrupted: `stop` ended the run, and there is no pack.
        NotEvaluable: The agent cannot be run at all, or the disk is full.
    """
    source = overrides.source or open_suite(spec.suite)
    own_agent, own_model = overrides.own or (None, None)
    spec = completed(spec, source)
    asked, pack = spec.agent, spec.output.pack
    if asked is None:
        raise ValueError("the specification names no agent")
    redactor = overrides.redactor_for(spec, environ).with_secrets(*literal_secrets(source))
    options = with_key(overrides.options or agent_options(asked, environ), asked, source, environ)
    chosen = choose(source, wanted_ids(source, spec.cases, spec.tests, spec.tags), spec.shard)
    plan = judge_plan(spec.judging, judge_names(spec.judging), environ)
    reuse_rulings(plan, overrides.baseline)
    if own_model is not None:
        plan = replace(plan, model=own_model)
    has_begun = pack.exists() or journal_path(pack).exists()
    if asked.resume and has_begun and isinstance(plan.model, ModelAccess):
        plan.model.add_to_cassette()
    run = _PreparedRun(spec, asked, options, chosen, plan, redactor, environ, on_progress, stop)
    run_id = spec.identity.run_id or environ.get(clock.RUN_ID_VARIABLE, "").strip() or None
    with closing(own_agent or open_agent(run.agent_name, options)) as agent:
        if own_model is not None:
            simulation: Simulation | None = Simulation(own_model(), released_prompt())
        else:
            simulation = simulation_for(spec, agent, chosen.suite, environ, plan.model or NoModel())
        config = run.config(agent, simulation)
        if (earlier := _finished(spec, asked, config, run_id)) is not None:
            return earlier
        journal, config = open_journal(pack, config, resume=asked.resume, run_id=run_id)
        with journal, _without_empty_journal(journal):
            if isinstance(plan.model, ModelAccess) and MODEL_JUDGE in plan.names:
                plan.model.go_on(_results_in(journal))
            with kept_replies(plan, redactor):
                execution = _executed(run, agent, simulation, journal)
                result = _sealed(run, config, execution)
            if not execution.stopped:
                journal.remove()
            return result


def _results_in(journal: Journal) -> Iterator[Mapping[str, object]]:
    """Yield the results of the trials that earlier starts of a run finished."""
    for record in (line.record for line in journal.entries()):
        if isinstance(record, dict):
            check_record(record, str(journal.path))
            yield record["result"]


@dataclass(frozen=True)
class _PreparedRun:
    """A run before anything of it is opened: its specification, completed by the suite, and what follows."""

    spec: RunSpec
    agent_spec: AgentSpec
    options: AgentOptions
    chosen: ChosenCases
    plan: JudgePlan
    redactor: Redactor
    environ: Mapping[str, str]
    on_progress: Callable[[RunProgress], None]
    stop: Callable[[], str]

    @property
    def agent_name(self) -> str:
        return self.agent_spec.called(self.spec.identity.model)

    def config(self, agent: Agent, simulation: Simulation | None) -> RunConfig:
        """Make the record of how the agent is run: all that its verdicts depend on, without secrets."""
        execution = ExecutionConfig(
            selected_cases=self.chosen.case_ids,
            shard=self.chosen.shard,
            case_policy=recorded_policy(self.plan.case_policy),
            agent=AgentDescription.model_validate(agent.describe()),
            cassette=self.agent_spec.cassette_mode if self.agent_spec.cassette is not None else None,
            **recorded_fields(self.spec),
        )
        if simulation is not None:
            execution = execution.model_copy(update={"simulator": simulation.describe()})
        config = run_config(self.spec, self.chosen.suite, self.plan, self.environ, execution_config=execution)
        return written_config(config.model_copy(update={"execution_mode": LOOP_MODE}), self.redactor)


def _finished(spec: RunSpec, asked: AgentSpec, config: RunConfig, run_id: str | None) -> RunLoopResult | None:
    """Check what earlier starts left. Returns the result if they have finished this run already."""
    pack_path = spec.output.pack
    may_be_replaced(pack_path)
    if spec.output.fresh:
        if asked.resume:
            raise UsageError(
                "--fresh starts over, and --resume continues", remedy="Give one of the two.", field="fresh"
            )
        discard_journal(pack_path)
    elif not journal_path(pack_path).exists():
        pack = finished_run(pack_path, config, run_id=run_id) if asked.resume else None
        if pack is not None:
            done = pack.summary.total_cases * asked.trials
            progress = RunProgress(total=done, done=done, resumed=done, unknown_cost=done)
            return RunLoopResult(pack.config, pack.summary, pack_path, "", progress, was_complete=True)
        refuse_to_lose(spec.output)
    return None


@contextmanager
def _without_empty_journal(journal: Journal) -> Iterator[None]:
    """Remove the journal if the run fails before a trial has finished: there is nothing to resume."""
    try:
        yield
    except BaseException:
        if journal.is_empty:
            with suppress(StorageError):
                journal.remove()
        raise


def _executed(run: _PreparedRun, agent: Agent, simulation: Simulation | None, journal: Journal) -> Execution:
    """Run the trials that the journal has not, here or on a cluster, and keep the answers of live tools.

    After an interruption, the agents' processes are ended.
    """
    spec, asked, options, commands = run.spec, run.agent_spec, run.options, None
    cassette = cassette_of(asked, options, redaction_of(run.redactor), is_resumed=not journal.is_empty)
    if asked.case_commands and not agent.replays:  # the operator allows them; recorded traces have none
        env = allowed_environment(options.environ, options.pass_on)
        commands = CaseCommands(env, cwd=options.cwd, seconds=asked.case_command_seconds)
    settings = _TrialSettings(
        agent=asked,
        limits=spec.limits,
        plan=run.plan,
        price=partial(priced, read_prices(spec.judging.llm.prices)),
        redactor=run.redactor,
        clock=clock.pins(run.environ),
    )
    trial = replace(settings.for_agent(agent, cassette), commands=commands, simulation=simulation)
    with cluster_of(spec.judging) as cluster, closing(commands) if commands is not None else nullcontext():
        plan = ExecutionPlan(
            trial=trial,
            trials=asked.trials,
            policy=run.plan.case_policy,
            parallel=None if asked.parallel == "auto" else asked.parallel,
            limits=spec.limits.run,
            retries=Retries(),
            redactor=run.redactor,
            elsewhere=None if cluster is None else _elsewhere(cluster, run, settings, trial),
            keep_calls=cassette.keep if cassette is not None else lambda _: None,
        )
        try:
            done = execute(run.chosen.suite, plan, journal, on_progress=run.on_progress, stop=run.stop)
        except NothingMeasured as nothing:
            if reason := run.stop():
                SUPERVISORS.end_children()
                raise RunInterrupted(f"{reason} before any case was done") from nothing
            raise
    if done.stopped:
        SUPERVISORS.end_children()
    pack = spec.output.pack
    if done.interrupted and is_complete_pack(pack):
        raise RunInterrupted(
            f"{done.stopped}; {done.progress.done:,} of {done.progress.total:,} trials were run, and the "
            f"complete pack of an earlier run at {pack} was left as it is"
        )
    if asked.cassette is not None and cassette is not None and cassette.mode != "replay":
        write_file(asked.cassette, cassette.to_bytes())
    return done


def _sealed(run: _PreparedRun, config: RunConfig, done: Execution) -> RunLoopResult:
    """Score the trials into the pack, which says how many were not run, and how many records were damaged."""
    output, progress, execution = run.spec.output, done.progress, config.execution_config
    noted = {"damaged_records": progress.damaged, "trials_not_run": progress.total - progress.done}
    counts = {name: number for name, number in noted.items() if number}
    if counts and execution is not None:
        config = config.model_copy(update={"execution_config": execution.model_copy(update=counts)})
    summary = score_suite(
        done.suite,
        run.plan,
        config,
        output.pack,
        layout=output.layout,
        redactor=run.redactor,
        complete=done.complete,
    )
    return RunLoopResult(config, summary, output.pack, done.stopped, progress, outage=done.outage)


def judge_names(judging: Judging) -> tuple[str, ...]:
    """Return the judges of a run of an agent: the requested ones and `execution`."""
    names = judging.judges or DEFAULT_JUDGES
    return names if EXECUTION in names else (*names, EXECUTION)


@dataclass(frozen=True, kw_only=True)
class _TrialSettings:
    """What is alike in all trials of a run; pickled for workers, so it holds no key of a model."""

    agent: AgentSpec
    limits: Limits
    plan: JudgePlan
    price: Price
    redactor: Redactor
    clock: Mapping[str, str]
    run: str = field(default_factory=secrets.token_hex)

    def for_agent(self, agent: Agent, cassette: Cassette | None) -> TrialPlan:
        strict, redacted = self.agent.strict_side_effects, redaction_of(self.redactor)

        def tools(case: Case) -> Tools:
            beyond = cassette.attempt(case.case_id) if cassette is not None else None
            return CaseTools(case, strict=strict, beyond=beyond, redacted=redacted)

        return TrialPlan(
            agent=agent,
            judges=self.plan.load(),
            tools=tools,
            max_repairs=self.agent.max_repairs,
            attempt_limits=self.limits.attempt,
            limits=self.limits.trial,
            share_expected_output=self.agent.share_expected_output,
            clocks=clock.clocks(self.clock),
            price=self.price,
        )


def _elsewhere(cluster: Cluster, run: _PreparedRun, settings: _TrialSettings, here: TrialPlan) -> Elsewhere:
    """Have a cluster run trials, which `here` plans for this machine.

    Raises:
        UsageError: They need what only this machine has.
    """
    agent, asks = run.agent_spec, here.simulation is not None or ask_models(here.judges)
    if agent.tools or agent.cassette or here.commands is not None or asks:
        raise UsageError(
            "live tools, recordings of them, commands of cases, simulated users and judges that are models "
            "stay on this machine",
            remedy="Leave out --executor, or what needs this machine.",
            field="executor",
        )
    # A worker has an environment of its own.
    options = replace(run.options, environ={})
    return Elsewhere(cluster, partial(_run_trial, settings, run.agent_name, options))


_plans: dict[str, TrialPlan] = {}
_opening = threading.Lock()


def _run_trial(
    settings: _TrialSettings,
    name: str,
    options: AgentOptions,
    raw: Mapping[str, Any],
    number: TrialNumber,
    versions: Mapping[str, str | None],
) -> FinishedTrial | None:
    """Run a trial on a worker, which keeps the agent of its latest run open."""
    refuse_other_versions(versions)
    with _opening:
        if settings.run not in _plans:
            while _plans:
                _plans.popitem()[1].agent.close()
            agent = open_agent(name, replace(options, environ=dict(os.environ)))
            _plans[settings.run] = replace(settings.for_agent(agent, None), retry=Retries())
        plan = _plans[settings.run]
    return record_trial(raw, number, plan, settings.redactor)
